/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a pickle of protocol 2 to 5 as data. Nothing is executed: an opcode that names code, or calls it, is refused.
 *
 * Only what the reader asks for is kept: of a dictionary the pairs whose key is one of its words (of the same key the
 * last), of texts only which word they are, and of a list of dictionaries that have no such pair how many they are. So
 * the stacks of a memory snapshot, which are most of it, cost next to nothing.
 *
 * Memory is bounded by the caller, time by the length of the file: what is shared within the pickle is shared
 * here, so that lists of lists that would be endless when written out are not. Who walks them counts his steps.
 *
 * Threads: a pickle that has been read may be read by many. */
#ifndef WEIR_TRACE_PICKLE_READ_H
#define WEIR_TRACE_PICKLE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "input.h"

enum { PICKLE_MOST_WORDS = 64, PICKLE_LONGEST_WORD = 31 };

enum pickle_kind {
    PICKLE_ABSENT, /* no pair of that key */
    PICKLE_OTHER,  /* none of the below: None, a float, bytes, a set */
    PICKLE_FALSE,
    PICKLE_TRUE,
    PICKLE_NUMBER, /* an integer of at most 59 bits, beside the sign */
    PICKLE_WIDE,   /* any other integer */
    PICKLE_WORD,
    PICKLE_TEXT, /* that is none of the words */
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT,
};

struct pickle_value {
    uint64_t bits; /* the kind below, what it is of above; zero is PICKLE_ABSENT */
};

struct pickle;

/* The first byte and a protocol? */
bool pickle_begins(const uint8_t *text, size_t count);

/* Reads one pickle; what comes after it is left alone. `words`, of `count` texts, stays in use. `most_bytes`: of host memory,
 * beside 64 KiB to read by.
 *
 * Gives: NULL with a sentence in `why` that begins with `name` and tells the byte offset and the reason. */
struct pickle *pickle_read(const char *name, struct input *input, const char *const *words, size_t count,
                           uint64_t most_bytes, char *why, size_t room);
void pickle_free(struct pickle *pickle);

struct pickle_value pickle_root(const struct pickle *pickle);
enum pickle_kind pickle_kind(struct pickle_value value);
int64_t pickle_number(struct pickle_value value); /* of a PICKLE_NUMBER */
size_t pickle_word(struct pickle_value value);    /* of a PICKLE_WORD: its index; of another SIZE_MAX */

/* Of a PICKLE_LIST or PICKLE_TUPLE; of another 0. */
size_t pickle_length(const struct pickle *pickle, struct pickle_value list);
struct pickle_value pickle_item(const struct pickle *pickle, struct pickle_value list, size_t at);
/* PICKLE_ABSENT where it is no dictionary. */
struct pickle_value pickle_get(const struct pickle *pickle, struct pickle_value dict, size_t word);
bool pickle_is_container(struct pickle_value value); /* a list, a tuple, a dictionary */
/* Where a list, tuple or dictionary begins in the text; of another 0. */
uint64_t pickle_offset(const struct pickle *pickle, struct pickle_value value);

#endif
