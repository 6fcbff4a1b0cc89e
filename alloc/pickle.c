/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/pickle.h"

#include <errno.h>
#include <string.h>

#define BATCH 1000 /* a viewer takes the items of one batch as arguments of one call */

enum opcode {
    PROTOCOL = 0x80,
    STOP = '.',
    MARK = '(',
    EMPTY_DICT = '}',
    SET_ITEMS = 'u',
    EMPTY_LIST = ']',
    APPENDS = 'e',
    NUMBER_1 = 'K',
    NUMBER_2 = 'M',
    NUMBER_4 = 'J', /* signed */
    NUMBER_LONG = 0x8a,
    TRUE = 0x88,
    FALSE = 0x89,
    TEXT = 'X',
    PUT = 'q',
    GET = 'h',
    PAIR = 0x86,
};

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static void put(struct weir__pickle *pickle, unsigned byte) {
    if (pickle->failed == 0 && putc_unlocked((int)byte, pickle->out) == EOF) pickle->failed = errno != 0 ? errno : EIO;
}

static void put_little(struct weir__pickle *pickle, uint64_t number, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) put(pickle, (unsigned)(number >> 8 * i & 0xff));
}

void weir__pickle_begin(struct weir__pickle *pickle, FILE *out) {
    *pickle = (struct weir__pickle){.out = out};
    put(pickle, PROTOCOL);
    put(pickle, 2);
}

void weir__pickle_end(struct weir__pickle *pickle) { put(pickle, STOP); }

/* ---- values ----------------------------------------------------------------------------------------------------- */

void weir__pickle_dict(struct weir__pickle *pickle) {
    put(pickle, EMPTY_DICT);
    put(pickle, MARK);
}

void weir__pickle_dict_end(struct weir__pickle *pickle) { put(pickle, SET_ITEMS); }

void weir__pickle_list(struct weir__pickle *pickle, size_t *count) {
    *count = 0;
    put(pickle, EMPTY_LIST);
    put(pickle, MARK);
}

void weir__pickle_item(struct weir__pickle *pickle, size_t *count) {
    if (*count > 0 && *count % BATCH == 0) {
        put(pickle, APPENDS);
        put(pickle, MARK);
    }
    ++*count;
}

void weir__pickle_list_end(struct weir__pickle *pickle) { put(pickle, APPENDS); }

void weir__pickle_number(struct weir__pickle *pickle, uint64_t number) {
    if (number <= UINT8_MAX) {
        put(pickle, NUMBER_1);
        put_little(pickle, number, 1);
    } else if (number <= UINT16_MAX) {
        put(pickle, NUMBER_2);
        put_little(pickle, number, 2);
    } else if (number <= INT32_MAX) {
        put(pickle, NUMBER_4);
        put_little(pickle, number, 4);
    } else {
        unsigned bytes = 4; /* two's complement: the highest bit is 0 */
        while (bytes < 8 && number >> (8 * bytes - 1) != 0) bytes++;
        const bool high = number >> 63 != 0;
        put(pickle, NUMBER_LONG);
        put(pickle, bytes + high);
        put_little(pickle, number, bytes);
        if (high) put(pickle, 0);
    }
}

void weir__pickle_bool(struct weir__pickle *pickle, bool value) { put(pickle, value ? TRUE : FALSE); }

void weir__pickle_no_pair(struct weir__pickle *pickle) {
    weir__pickle_number(pickle, 0);
    weir__pickle_number(pickle, 0);
    put(pickle, PAIR);
}

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static bool continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

/* Bytes of the character that a text begins with; 0: it is none. Reads no further than a zero. */
static size_t character_bytes(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) return 1;
    if (at[0] < 0xc2 || at[0] > 0xf4 || !continues(at[1])) return 0;
    if (at[0] < 0xe0) return 2;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f)) return 0; /* too long, half of a pair */
    if (!continues(at[2])) return 0;
    if (at[0] < 0xf0) return 3;
    if ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)) return 0; /* too long, past the last */
    return continues(at[3]) ? 4 : 0;
}

/* The same number of bytes comes out as goes in. */
void weir__pickle_text(struct weir__pickle *pickle, const char *text) {
    put(pickle, TEXT);
    put_little(pickle, strlen(text), 4);
    while (*text != 0) {
        const size_t bytes = character_bytes(text);
        if (bytes == 0) put(pickle, '?');
        for (size_t i = 0; i < bytes; i++) put(pickle, (unsigned char)text[i]);
        text += bytes > 0 ? bytes : 1;
    }
}

void weir__pickle_word(struct weir__pickle *pickle, uint8_t number, const char *text) {
    if (!pickle->known[number]) weir__pickle_text(pickle, text);
    put(pickle, pickle->known[number] ? GET : PUT);
    put(pickle, number);
    pickle->known[number] = true;
}
