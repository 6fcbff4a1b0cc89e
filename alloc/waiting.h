/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait on the host, each for whatever serves it first.
 *
 * change   what a waiting request may be served by: a block came back, a mark passed, another call's claim ended, the limit
 *          was changed, pages need not keep their addresses any more, another pool of the family has something to give
 * waiter   a request, from its first such wait until it is answered
 * look     it tries the ladder again
 *
 * After a change the waiters look in the order in which they began to wait, and requests that don't wait come after them. So
 * what is idle at some moment goes to the one that has waited longest of those whom it is enough for: a younger one, or a
 * thread that frees and asks all the time, does not take it away. One whom it is not enough for holds nobody up; nor does one
 * that makes its marks, for which the next to look sets aside what it may have without a driver call.
 *
 * Deterministic mode has none of this: there the order of calls says who gets what, and after what.
 *
 * Everything here needs the pool's lock. */
#ifndef WEIR_ALLOC_WAITING_H
#define WEIR_ALLOC_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"

struct weir_pool;
struct weir__extent;
struct weir__request;

struct weir__waiter {
    struct weir__waiter *younger;
    uint64_t seen;              /* changes when it looked last */
    bool listed;                /* it is a waiter */
    bool asleep;                /* it waits for a change; else it looks, or is about something of its own, */
    bool marking;               /* as the marks for what it may be served by */
    struct weir__extent *aside; /* claimed for it meanwhile, or NULL */
    uint64_t family;            /* changes of the family's other pools when they were asked last */
    size_t others_bytes;        /* what they held, and one, when that was asked last */
};

struct weir__waiters {
    struct weir__waiter *oldest;
    uint64_t changes; /* but for marks that passed, which order.h counts */
};

void weir__waiting_change(struct weir_pool *pool);
/* Changes so far. */
uint64_t weir__waiting_changes(const struct weir_pool *pool);
/* (unlocks) The host waits, for a request, until there is a change and it is the request's turn to look. Gives: WEIR_OK to look
 * again. Fails: WEIR_OUT_OF_MEMORY past the request's deadline; WEIR_DRIVER, WEIR_OUT_OF_HOST_MEMORY. */
enum weir_status weir__wait_for_change(struct weir_pool *pool, struct weir__request *request);
/* (unlocks) For a request that is none of them: lets the waiters look first. */
void weir__let_waiters_look(struct weir_pool *pool, const struct weir__request *request);
/* A request has been answered. */
void weir__waiting_end(struct weir_pool *pool, struct weir__request *request);

#endif
