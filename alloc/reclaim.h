/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks that free memory for a request before it is refused.
 *
 * round    the callbacks asked for one request, each once, in the order in which they were added: the pool's own, then, where it is
 *          the family's allowance that is short, those of its other pools; those that are added meanwhile are left to the next
 *          request
 *
 * Locking: everything needs the pool's lock. While a callback runs, neither the lock nor the turn is held. */
#ifndef WEIR_ALLOC_RECLAIM_H
#define WEIR_ALLOC_RECLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_pool;
struct weir__request;

struct weir__reclaims {
    struct weir__reclaim *first; /* in the order of adding */
    uint64_t added;              /* so far; atomic, for other pools of the family */
};

struct weir__reclaim_round {
    const struct weir_pool *asks; /* whose callbacks are asked now */
    uint64_t asked, last;         /* numbers of them */
    uint64_t from;                /* members of the family that joined before have been asked */
};

struct weir__reclaim_round weir__reclaim_start(const struct weir_pool *pool);
/* (unlocks, lets the turn go) Asks the next callbacks of the round until one gives that it is worth looking again.
 * Gives: false when none does, and at once where none may be called. */
bool weir__reclaim_next(struct weir_pool *pool, struct weir__request *request, struct weir__reclaim_round *round);
/* (unlocks, lets the turn go) The same of one pool of the family, whose lock is held. */
bool weir__reclaim_ask(struct weir_pool *pool, size_t wanted_bytes, struct weir__reclaim_round *round);
/* Needs: no call in flight. */
void weir__reclaims_clear(struct weir__reclaims *reclaims);

#endif
