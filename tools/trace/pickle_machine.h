/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the reader of pickles: the machine's state (pickle_machine.c) and what its opcodes do (pickle_read.c).
 *
 * Words. container: a list, a tuple or a dictionary, by number. mark: how high the stack was when a MARK came; what is above
 * the last one can't be taken by an opcode that takes a fixed number of values. memo: what opcodes have named.
 *
 * What fails is told once; every call after it fails too. */
#ifndef WEIR_TRACE_PICKLE_MACHINE_H
#define WEIR_TRACE_PICKLE_MACHINE_H

#include "ids.h"
#include "pickle_read.h"

struct pickle_pair {
    struct pickle_value value;
    uint8_t key; /* a word */
};

/* Of a list whose items all are dictionaries without a pair, nothing is kept but their number, and the first. */
struct pickle_container {
    uint64_t offset;
    uint32_t count, room;
    uint8_t kind;     /* enum pickle_kind */
    bool in_list;     /* a dictionary that was put into a list without a pair: it can't get one any more */
    uint32_t empties; /* such dictionaries, while there is nothing else */
    union {
        struct pickle_value *items;
        struct pickle_pair *pairs;
        struct pickle_value first; /* room 0 */
    };
};

struct pickle_values {
    struct pickle_value *all;
    size_t count, room;
};

struct pickle {
    const char *name, *const *words;
    size_t word_count;
    uint8_t lengths[PICKLE_MOST_WORDS];
    uint64_t bytes, most_bytes; /* of host memory: so far, and the limit */

    struct pickle_container *containers;
    size_t container_count, container_room;
    struct pickle_value root;

    /* while it is read */
    struct input *input;
    uint8_t buffer[1 << 16];
    size_t at, filled;
    uint64_t buffer_offset; /* of the buffer's first byte in the text */
    uint64_t offset;        /* of the opcode */
    struct pickle_values stack, memo;
    size_t *marks, mark_count, mark_room;
    struct ids memo_numbers; /* from what the pickle calls an entry to its number in `memo` */
    bool failed, stopped;
    char *why;
    size_t why_room;
};

bool pickle_fail(struct pickle *pickle, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

bool pickle_byte(struct pickle *pickle, uint8_t *byte);
/* An unsigned number of 1 to 8 bytes, the lowest first. */
bool pickle_little(struct pickle *pickle, unsigned bytes, uint64_t *number);
/* Takes `count` bytes; keeps the first of them, as many as there is room for. */
bool pickle_take(struct pickle *pickle, uint64_t count, uint8_t *kept, size_t room);

/* ---- values ----------------------------------------------------------------------------------------------------- */

struct pickle_value pickle_of(enum pickle_kind kind, uint64_t what);
struct pickle_value pickle_of_number(int64_t number);

bool pickle_push(struct pickle *pickle, struct pickle_value value);
/* What lies on top of the last mark, without taking it; false, and told, where there are fewer. */
bool pickle_has(struct pickle *pickle, size_t count);
struct pickle_value pickle_top(const struct pickle *pickle);
void pickle_drop(struct pickle *pickle, size_t count);
bool pickle_mark(struct pickle *pickle);
/* Ends the last mark: how many values lie above it. They stay. */
bool pickle_end_mark(struct pickle *pickle, size_t *count);

/* Both of the top, which stays; the memo gets a new name where `name` is SIZE_MAX. */
bool pickle_memo_put(struct pickle *pickle, uint64_t name);
bool pickle_memo_get(struct pickle *pickle, uint64_t name);

/* A new container of what lies `count` values high, which is taken; it is pushed. */
bool pickle_make(struct pickle *pickle, enum pickle_kind kind, size_t count);
/* Puts the last `count` values into the container below them, which stays on the stack. */
bool pickle_fill(struct pickle *pickle, enum pickle_kind kind, size_t count);

#endif
