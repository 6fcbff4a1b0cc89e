/* SPDX-License-Identifier: Apache-2.0 */
/* Writes values as Python's pickle, protocol 2, with no more than the opcodes that PyTorch's memory viewer reads
 * (docs/snapshot.md). Nothing is kept in memory: values are written as they come, so any number costs the same room.
 *
 * A dict: weir__pickle_dict, then a word and a value for each of at most 1,000 keys, then weir__pickle_dict_end. A list:
 * weir__pickle_list, then weir__pickle_item before each value, then weir__pickle_list_end.
 * The first failure is kept in `failed`, an errno; what follows writes nothing. */
#ifndef WEIR_ALLOC_PICKLE_H
#define WEIR_ALLOC_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WEIR__PICKLE_WORDS 256 /* numbers that words can have */

struct weir__pickle {
    FILE *out;
    int failed;
    bool known[WEIR__PICKLE_WORDS];
};

void weir__pickle_begin(struct weir__pickle *pickle, FILE *out);
void weir__pickle_end(struct weir__pickle *pickle);

void weir__pickle_dict(struct weir__pickle *pickle);
void weir__pickle_dict_end(struct weir__pickle *pickle);
void weir__pickle_list(struct weir__pickle *pickle, size_t *count);
void weir__pickle_item(struct weir__pickle *pickle, size_t *count);
void weir__pickle_list_end(struct weir__pickle *pickle);

void weir__pickle_number(struct weir__pickle *pickle, uint64_t number);
void weir__pickle_bool(struct weir__pickle *pickle, bool value);
/* Any bytes; those that are no UTF-8 become '?'. */
void weir__pickle_text(struct weir__pickle *pickle, const char *text);
/* A text that comes again and again: a number stands for it from its second time on. */
void weir__pickle_word(struct weir__pickle *pickle, uint8_t number, const char *text);
/* (0, 0) */
void weir__pickle_no_pair(struct weir__pickle *pickle);

#endif
