/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

struct shown shown(const char *text, size_t length) {
    struct shown shown;
    const size_t most = sizeof shown.text - 4;
    size_t i = 0;
    for (; i < length && i < most; i++) shown.text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    strcpy(shown.text + i, length > most ? "..." : "");
    return shown;
}

static const struct usage {
    char letter;
    const char *text;
} usages[] = {
    {'m', "BLOCK BYTES STREAM"},
    {'p', "BLOCK BYTES STREAM"},
    {'a', "BLOCK ALIGNMENT"},
    {'f', "BLOCK, and at most one of STREAM, * and @EVENT"},
    {'u', "BLOCK STREAM"},
    {'k', "STREAM MICROSECONDS"},
    {'e', "EVENT STREAM"},
    {'w', "EVENT STREAM"},
    {'h', "EVENT"},
    {'s', "STREAM"},
    {'x', "STREAM"},
    {'y', "EVENT"},
    {'d', "nothing"},
    {'i', "nothing"},
};

static const char *usage_of(const struct reader *reader) {
    for (size_t i = 0; i < sizeof usages / sizeof *usages; i++)
        if (usages[i].letter == reader->line.text[0]) return usages[i].text;
    return "nothing known";
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool missing(struct reader *reader) {
    return MALFORMED(reader, "too little: %c is followed by %s", reader->line.text[0], usage_of(reader));
}

bool read_no_more(struct reader *reader, struct words *words) {
    const struct words word = next_word(words);
    if (word.at == word.end) return true;
    return MALFORMED(reader, "'%s' is too much: %c is followed by %s",
                     shown(word.at, (size_t)(word.end - word.at)).text, reader->line.text[0], usage_of(reader));
}

static bool bad_number(struct reader *reader, struct words word) {
    const size_t length = (size_t)(word.end - word.at);
    const struct shown text = shown(word.at, length);
    size_t digits = 0;
    while (digits < length && is_digit(word.at[digits])) digits++;
    if (digits == length) return MALFORMED(reader, "%s is more than the limit of 2^64 - 1", text.text);
    return MALFORMED(reader, "'%s' is no number: %c is followed by %s", text.text, reader->line.text[0],
                     usage_of(reader));
}

/* All of a word as a number. Nineteen digits are always less than 2^64. */
bool read_number(struct reader *reader, struct words word, uint64_t *number) {
    uint64_t value = 0;
    if (word.at == word.end) return missing(reader);
    const bool may_overflow = word.end - word.at > 19;
    for (const char *at = word.at; at < word.end; at++) {
        const uint64_t digit = (uint64_t)(unsigned char)*at - '0';
        if (digit > 9 || (may_overflow && value > (UINT64_MAX - digit) / 10)) return bad_number(reader, word);
        value = value * 10 + digit;
    }
    *number = value;
    return true;
}

static bool bad_time(struct reader *reader, struct words word) {
    const struct shown text = shown(word.at, (size_t)(word.end - word.at));
    return MALFORMED(reader, "'%s' is no time in microseconds with at most one decimal", text.text);
}

/* "35" or "35.4", into ns; that is exact, since a tenth of a microsecond is 100 ns. */
bool read_us(struct reader *reader, struct words word, uint64_t *ns) {
    const struct words whole = word;
    uint64_t us, tenths = 0;
    if (word.at == word.end) return missing(reader);
    if (word.end - word.at > 2 && word.end[-2] == '.') {
        tenths = (uint64_t)(unsigned char)word.end[-1] - '0';
        if (tenths > 9) return bad_time(reader, whole);
        word.end -= 2;
    }
    if (memchr(word.at, '.', (size_t)(word.end - word.at)) != NULL) return bad_time(reader, whole);
    if (!read_number(reader, word, &us)) return false;
    if (us > TRACE_MOST_NS / 1000 || us * 10 + tenths > TRACE_MOST_NS / 100)
        return reader_complain(reader, "%s microseconds are more than the limit of 10^12",
                               shown(whole.at, (size_t)(whole.end - whole.at)).text);
    *ns = us * 1000 + tenths * 100;
    return true;
}
