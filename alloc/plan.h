/* SPDX-License-Identifier: Apache-2.0 */
/* Where requests went in the pass before, for programs whose iterations repeat.
 *
 * pass     the requests from one mark of an iteration to the next
 * planned  a request of the pass before, at its place in the order of requests: what was asked for, and where it went
 * repeats  this pass has asked, so far, for what the one before did
 *
 * A pass that repeats the one before finds the addresses free that were free then, request by request; if their pages are mapped there
 * still, it takes no memory call to go there again. So in a pass that repeats no mapping is given up while there is another window, and
 * the next one, the third of the same, is served from this one: it makes no memory call. Whether a place can be had is seen at each
 * request; where it can't, the ladder finds another one, which is the plan from then on. Only orders of requests that were the same
 * twice are followed: passes that are alike in part find better places without. Where no iteration is marked, or the
 * last one made no memory call and none of the last three followed a plan, nothing is written down: a pass that differs may make no
 * call by luck, and what repeats after it is learned all the same.
 *
 * Invariants.
 *   before.requests[i], now.requests[i] are the i-th requests of their passes;  repeats: they agree for all i < now.count
 *   repeated: the pass before was, to its end, what the one before it had been */
#ifndef WEIR_ALLOC_PLAN_H
#define WEIR_ALLOC_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__MOST_PLANNED ((size_t)1 << 20) /* requests of a pass; a longer one is no plan */

struct weir__planned {
    size_t bytes;
    uintptr_t address, earlier; /* earlier: in the pass before that one; 0: not known */
    uint32_t slot;
};

struct weir__pass {
    struct weir__planned *requests;
    size_t count, room;
};

struct weir__plan {
    struct weir__pass before, now;
    bool marked;           /* there was a mark */
    bool records;          /* this pass is written down, so far all of it: so no alloc goes without the pool's lock */
    uint64_t memory_calls; /* before this pass */
    bool repeats, repeated;
    unsigned written_on; /* passes from this one on that are written down, whether or not memory calls are made */
    bool
        by_turns; /* the earlier addresses come first: where blocks outlive their pass, two passes' places take turns */
};

/* A new pass begins; `memory_calls`: so many have been made so far. */
void weir__plan_turn(struct weir__plan *plan, uint64_t memory_calls);
/* This pass does what the ones before did, and goes where they went. */
static inline bool weir__plan_follows(const struct weir__plan *plan) { return plan->repeated && plan->repeats; }
/* Gives: what the next request is to do again, or NULL. */
const struct weir__planned *weir__plan_next(const struct weir__plan *plan, size_t bytes, uint32_t slot);
/* Gives: where to try first (0), and then (1); 0: nowhere. */
uintptr_t weir__plan_address(const struct weir__plan *plan, const struct weir__planned *planned, int choice);
/* The next request was served there. Without host memory the pass is no plan for the next one. */
void weir__plan_add(struct weir__plan *plan, size_t bytes, uint32_t slot, uintptr_t address);
void weir__plan_clear(struct weir__plan *plan);

#endif
