/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

#include <string.h>

enum {
    AT_VALUE,
    AT_VALUE_OR_END, /* behind [ */
    AT_KEY,
    AT_KEY_OR_END, /* behind { */
    AT_COLON,
    BEHIND_VALUE,
    IN_TEXT,
    IN_ESCAPE,
    IN_HEX,
    IN_WORD,
    AT_DIGIT, /* behind the minus; from here to the last a number */
    IN_ZERO,
    IN_INTEGER,
    AT_FRACTION,
    IN_FRACTION,
    AT_EXPONENT,
    AT_EXPONENT_DIGIT,
    IN_EXPONENT,
};

static bool is_blank(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

static bool is_hex(uint8_t byte) {
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

static bool in_object(const struct json_text *text) {
    return (text->objects[(text->depth - 1) / 64] >> ((text->depth - 1) % 64) & 1) != 0;
}

void json_text_begin(struct json_text *text) {
    text->state = AT_VALUE;
    text->token = JSON_NO_TOKEN;
    text->depth = 0;
}

static enum json_step go_to(struct json_text *text, int state) {
    text->state = (uint8_t)state;
    return JSON_GOES_ON;
}

static enum json_step end_value(struct json_text *text) {
    text->state = BEHIND_VALUE;
    return text->depth == 0 ? JSON_ENDED : JSON_GOES_ON;
}

static enum json_step open_bracket(struct json_text *text, bool object) {
    if (text->depth == JSON_DEEPEST) return JSON_BROKEN;
    const uint64_t bit = UINT64_C(1) << text->depth % 64;
    uint64_t *word = &text->objects[text->depth++ / 64];
    *word = object ? *word | bit : *word & ~bit;
    return go_to(text, object ? AT_KEY_OR_END : AT_VALUE_OR_END);
}

static enum json_step close_bracket(struct json_text *text) {
    text->depth--;
    return end_value(text);
}

static enum json_step open_text(struct json_text *text, bool key) {
    text->in_key = key;
    text->token_bytes = 0;
    text->utf8 = (struct utf8){0};
    return go_to(text, IN_TEXT);
}

static enum json_step begin_word(struct json_text *text, const char *rest) {
    text->rest = rest;
    return go_to(text, IN_WORD);
}

static enum json_step begin_number(struct json_text *text, int state) {
    text->token_bytes = 1;
    return go_to(text, state);
}

static enum json_step begin_value(struct json_text *text, uint8_t byte) {
    if (is_blank(byte)) return JSON_GOES_ON;
    switch (byte) {
    case '{':
    case '[':
        return open_bracket(text, byte == '{');
    case '"':
        return open_text(text, false);
    case 't':
        return begin_word(text, "rue");
    case 'f':
        return begin_word(text, "alse");
    case 'n':
        return begin_word(text, "ull");
    case '-':
        return begin_number(text, AT_DIGIT);
    case '0':
        return begin_number(text, IN_ZERO);
    default:
        return is_digit(byte) ? begin_number(text, IN_INTEGER) : JSON_BROKEN;
    }
}

static enum json_step behind_value(struct json_text *text, uint8_t byte) {
    const bool object = in_object(text);
    if (is_blank(byte)) return JSON_GOES_ON;
    if (byte == ',') return go_to(text, object ? AT_KEY : AT_VALUE);
    return byte == (object ? '}' : ']') ? close_bracket(text) : JSON_BROKEN;
}

static enum json_step end_text(struct json_text *text) {
    if (!text->in_key) return end_value(text);
    text->token = JSON_KEY;
    return go_to(text, AT_COLON);
}

static enum json_step in_text(struct json_text *text, uint8_t byte) {
    if (byte == '"' && text->utf8.left == 0) return end_text(text);
    text->token_bytes++;
    if (byte == '\\' && text->utf8.left == 0) return go_to(text, IN_ESCAPE);
    return byte >= ' ' && utf8_take(&text->utf8, byte, false) ? JSON_GOES_ON : JSON_BROKEN;
}

static enum json_step in_escape(struct json_text *text, uint8_t byte) {
    text->token_bytes++;
    text->hex_left = 4;
    if (byte == 'u') return go_to(text, IN_HEX);
    return byte != 0 && strchr("\"\\/bfnrt", byte) != NULL ? go_to(text, IN_TEXT) : JSON_BROKEN;
}

static enum json_step in_hex(struct json_text *text, uint8_t byte) {
    text->token_bytes++;
    if (!is_hex(byte)) return JSON_BROKEN;
    return go_to(text, --text->hex_left > 0 ? IN_HEX : IN_TEXT);
}

static enum json_step in_word(struct json_text *text, uint8_t byte) {
    if (byte != (uint8_t)*text->rest) return JSON_BROKEN;
    return *++text->rest == '\0' ? end_value(text) : JSON_GOES_ON;
}

/* Where the byte leads within a number; -1: the number goes on with no such byte. */
static int next_in_number(int state, uint8_t byte) {
    const bool exponent = byte == 'e' || byte == 'E';
    switch (state) {
    case AT_DIGIT:
        return byte == '0' ? IN_ZERO : is_digit(byte) ? IN_INTEGER : -1;
    case IN_ZERO:
        return byte == '.' ? AT_FRACTION : exponent ? AT_EXPONENT : -1;
    case IN_INTEGER:
        return is_digit(byte) ? IN_INTEGER : byte == '.' ? AT_FRACTION : exponent ? AT_EXPONENT : -1;
    case AT_FRACTION:
        return is_digit(byte) ? IN_FRACTION : -1;
    case IN_FRACTION:
        return is_digit(byte) ? IN_FRACTION : exponent ? AT_EXPONENT : -1;
    case AT_EXPONENT:
        return is_digit(byte) ? IN_EXPONENT : byte == '+' || byte == '-' ? AT_EXPONENT_DIGIT : -1;
    default:
        return is_digit(byte) ? IN_EXPONENT : -1;
    }
}

static bool is_whole_number(int state) {
    return state == IN_ZERO || state == IN_INTEGER || state == IN_FRACTION || state == IN_EXPONENT;
}

static enum json_step in_number(struct json_text *text, uint8_t byte) {
    const int next = next_in_number(text->state, byte);
    if (next >= 0) {
        text->token_bytes++;
        return go_to(text, next);
    }
    if (!is_whole_number(text->state)) return JSON_BROKEN;
    text->token = JSON_NUMBER;
    if (text->depth == 0) return JSON_ENDED_BEFORE;
    text->state = BEHIND_VALUE;
    return behind_value(text, byte);
}

enum json_step json_text_step(struct json_text *text, uint8_t byte) {
    text->token = JSON_NO_TOKEN;
    switch (text->state) {
    case IN_TEXT:
        return in_text(text, byte);
    case IN_ESCAPE:
        return in_escape(text, byte);
    case IN_HEX:
        return in_hex(text, byte);
    case IN_WORD:
        return in_word(text, byte);
    case BEHIND_VALUE:
        return behind_value(text, byte);
    case AT_VALUE_OR_END:
        return byte == ']' ? close_bracket(text) : begin_value(text, byte);
    case AT_VALUE:
        return begin_value(text, byte);
    case AT_KEY_OR_END:
    case AT_KEY:
        if (is_blank(byte)) return JSON_GOES_ON;
        if (byte == '"') return open_text(text, true);
        return byte == '}' && text->state == AT_KEY_OR_END ? close_bracket(text) : JSON_BROKEN;
    case AT_COLON:
        return is_blank(byte) ? JSON_GOES_ON : byte == ':' ? go_to(text, AT_VALUE) : JSON_BROKEN;
    default:
        return in_number(text, byte);
    }
}

size_t json_text_run(struct json_text *text, const uint8_t *bytes, size_t count) {
    size_t passed = 0;
    if (text->state != IN_TEXT || text->utf8.left > 0) return 0;
    while (passed < count && bytes[passed] >= ' ' && bytes[passed] < 0x80 && bytes[passed] != '"' &&
           bytes[passed] != '\\')
        passed++;
    text->token_bytes += passed;
    return passed;
}

bool json_text_may_end(const struct json_text *text) { return text->depth == 0 && is_whole_number(text->state); }

const char *json_text_expected(const struct json_text *text) {
    switch (text->state) {
    case AT_VALUE:
    case AT_VALUE_OR_END:
        return text->depth == JSON_DEEPEST ? "a value that is no deeper than 2048 brackets" : "a value";
    case AT_KEY:
    case AT_KEY_OR_END:
        return "a key, in quotes,";
    case AT_COLON:
        return "a colon";
    case BEHIND_VALUE:
        return in_object(text) ? "a comma, or the object's end," : "a comma, or the list's end,";
    case IN_TEXT:
        return "a quote, or a character in UTF-8,";
    case IN_ESCAPE:
    case IN_HEX:
        return "the rest of an escape";
    case IN_WORD:
        return "true, false or null";
    default:
        return "a digit";
    }
}
