/* SPDX-License-Identifier: Apache-2.0 */
/* Small numbers for handles, in order of first sight; a handle that is destroyed and seen again gets a new one.
 *
 * A look-up takes no lock. Giving a number is two steps under one, so that the line that shows the number first has its
 * place in the trace before anybody can find the number. */
#ifndef WEIR_ALLOC_TRACE_NUMBERS_H
#define WEIR_ALLOC_TRACE_NUMBERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR__UNSEEN UINT64_MAX

struct weir__numbers_table;

struct weir__numbers {
    struct weir__numbers_table *table; /* atomic; older ones are linked to it, since somebody may still be looking */
    pthread_mutex_t lock;
    uint64_t given;
};

void weir__numbers_open(struct weir__numbers *numbers);
void weir__numbers_close(struct weir__numbers *numbers);

/* The number of a handle (its key is not 0), WEIR__UNSEEN when it has none. */
uint64_t weir__numbers_find(const struct weir__numbers *numbers, uintptr_t key);

/* Takes the lock. Gives: the number that the key has (*is_new false) or is to get; WEIR__UNSEEN without host memory. */
uint64_t weir__numbers_begin(struct weir__numbers *numbers, uintptr_t key, bool *is_new);
/* Lets everybody find it, when it is new, and gives the lock up. */
void weir__numbers_end(struct weir__numbers *numbers, uintptr_t key, uint64_t number, bool is_new);

/* Takes the number away. Gives: it, or WEIR__UNSEEN. */
uint64_t weir__numbers_take(struct weir__numbers *numbers, uintptr_t key);

#endif
