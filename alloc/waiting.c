/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/waiting.h"

#include <stddef.h>
#include <time.h>

#include "alloc/pool.h"

#define FIRST_PAUSE_NS   UINT64_C(10000)
#define LONGEST_PAUSE_NS UINT64_C(500000)

void weir__waiting_change(struct weir_pool *pool) {
    pool->waiters.changes++;
    if (pool->waiters.oldest != NULL) pthread_cond_broadcast(&pool->changed);
}

uint64_t weir__waiting_changes(const struct weir_pool *pool) { return pool->waiters.changes + pool->order.passed; }

/* ---- whose turn it is ------------------------------------------------------------------------------------------- */

static void join(struct weir_pool *pool, struct weir__waiter *waiter) {
    struct weir__waiter **link = &pool->waiters.oldest;
    if (waiter->listed) return;
    while (*link != NULL) link = &(*link)->younger;
    *link = waiter;
    waiter->listed = true;
    weir__fronts_waited(pool, true);
}

void weir__waiting_end(struct weir_pool *pool, struct weir__request *request) {
    struct weir__waiter *waiter = &request->waiter, **link = &pool->waiters.oldest;
    if (!waiter->listed) return;
    while (*link != waiter) link = &(*link)->younger;
    *link = waiter->younger;
    waiter->listed = false;
    weir__fronts_waited(pool, pool->waiters.oldest != NULL);
}

/* True when one who waits, and has waited longer than `than` (NULL: than nobody), has not looked since the last change. */
static bool one_is_to_look(const struct weir_pool *pool, const struct weir__waiter *than) {
    const uint64_t changes = weir__waiting_changes(pool);
    for (const struct weir__waiter *waiter = pool->waiters.oldest; waiter != than; waiter = waiter->younger)
        if (waiter->asleep && waiter->seen != changes) return true;
    return false;
}

/* Claims what a request may have without a driver call: it is this request's when it looks. */
static void set_aside(struct weir_pool *pool, struct weir__request *request) {
    if (request->alone || request->slot == WEIR__SLOT_NONE || pool->pages.arena_bytes == 0) return;
    const struct weir__choice choice = weir__ladder_next(pool, request);
    if (choice.step != WEIR__TAKE || !weir__extent_reserve(&pool->store, 2)) return;
    struct weir__extent *aside = weir__carve(pool, choice.idle, choice.window.begin, request->bytes);
    if (aside == NULL) return;
    weir__mark_moving(pool, aside);
    weir__claim_begin(pool);
    request->waiter.aside = aside;
}

/* Those that have waited longer than `than` (NULL: all) and make marks, which may hang at a full queue, look at nothing before
 * these are made; so that nobody waits for that, and nothing is taken away meanwhile, it is looked for them. */
static void look_for_marking(struct weir_pool *pool, const struct weir__waiter *than) {
    for (struct weir__waiter *waiter = pool->waiters.oldest; waiter != than; waiter = waiter->younger) {
        const uint64_t changes = weir__waiting_changes(pool);
        if (!waiter->marking || waiter->aside != NULL || waiter->seen == changes) continue;
        waiter->seen = changes;
        set_aside(pool, (struct weir__request *)((char *)waiter - offsetof(struct weir__request, waiter)));
    }
}

/* (unlocks) For a while, or until there is a change. The first pause is a call of the machine's, which so hears that the host
 * waits; under the virtual clock all are, since other threads go on only then. */
static void pause_waiting(struct weir_pool *pool, uint64_t *pause_ns) {
    const uint64_t ns = *pause_ns;
    if (*pause_ns < LONGEST_PAUSE_NS) *pause_ns += *pause_ns / 4;
    if (ns == FIRST_PAUSE_NS || weir__device_takes_turns(pool->device)) {
        pthread_mutex_unlock(&pool->lock);
        weir__device_pause(pool->device, ns);
        pthread_mutex_lock(&pool->lock);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
}

void weir__let_waiters_look(struct weir_pool *pool, const struct weir__request *request) {
    if (pool->waiters.oldest == NULL || request->host_function || request->waiter.listed) return;
    weir__order_poll(&pool->order);
    for (uint64_t pause_ns = FIRST_PAUSE_NS; one_is_to_look(pool, NULL);) {
        pthread_cond_broadcast(&pool->changed);
        pause_waiting(pool, &pause_ns);
    }
    look_for_marking(pool, NULL);
}

/* ---- the wait --------------------------------------------------------------------------------------------------- */

/* Around what makes marks. What the request has seen is what it saw before. Gives, at the end: whether something is put aside for it. */
static uint64_t begin_marking(struct weir__waiter *waiter) {
    waiter->asleep = false;
    waiter->marking = true;
    return waiter->seen;
}

static bool end_marking(struct weir_pool *pool, struct weir__waiter *waiter, uint64_t seen) {
    waiter->marking = false;
    waiter->seen = seen;
    if (waiter->aside == NULL) return false;
    weir__unclaim(pool, waiter->aside);
    weir__claim_end(pool);
    waiter->aside = NULL;
    return true;
}

/* (unlocks) Marks are made of the other pools too. Gives: whether to look at once. */
static bool listen_to_family(struct weir_pool *pool, struct weir__request *request) {
    const uint64_t seen = begin_marking(&request->waiter);
    if (weir__family_has_changed(pool, request)) weir__waiting_change(pool);
    const bool aside = end_marking(pool, &request->waiter, seen);
    request->waiter.asleep = true;
    return aside;
}

/* True when there is a change, and nobody who has waited longer is to look at it first. */
static bool may_look(struct weir_pool *pool, struct weir__request *request) {
    struct weir__waiter *waiter = &request->waiter;
    weir__pool_take_inbox(pool);
    if (!pool->is_graph && weir__order_poll_waited(&pool->order)) weir__settle_complete(pool);
    if (listen_to_family(pool, request)) return true;
    if (waiter->seen == weir__waiting_changes(pool)) return false;
    if (one_is_to_look(pool, waiter)) {
        pthread_cond_broadcast(&pool->changed);
        return false;
    }
    look_for_marking(pool, waiter);
    return true;
}

static enum weir_status sleep_until_change(struct weir_pool *pool, struct weir__request *request) {
    uint64_t pause_ns = FIRST_PAUSE_NS;
    while (!may_look(pool, request)) {
        if (pool->order.query_error != CUDA_SUCCESS)
            return weir__device_check(pool->device, pool->order.query_error, "cuEventQuery");
        request->waited_out = weir__device_now_ns(pool->device) >= weir__deadline(pool, request);
        if (request->waited_out) return WEIR_OUT_OF_MEMORY;
        pause_waiting(pool, &pause_ns);
    }
    return WEIR_OK;
}

/* What is freed and marked by nothing yet gets its mark now, but in a graph's pool, which waits for others alone. Where none
 * can be made the host waits for the context instead, once there is nothing else to wait for. */
static enum weir_status make_marks(struct weir_pool *pool, struct weir__request *request) {
    if (pool->is_graph) return WEIR_OK;
    enum weir_status status = weir__order_mark_all(&pool->order);
    if (status != WEIR_OK || weir__order_has_marks(&pool->order)) return status;
    const struct weir__extent *unused = weir__ladder_oldest_incomplete(pool);
    if (unused == NULL) unused = weir__alone_oldest_incomplete(pool);
    return unused == NULL ? WEIR_OK : weir__wait_for_tags(pool, request, unused);
}

enum weir_status weir__wait_for_change(struct weir_pool *pool, struct weir__request *request) {
    struct weir__waiter *waiter = &request->waiter;
    const uint64_t since_ns = weir__device_now_ns(pool->device);
    weir__begin_host_wait(pool, request);
    join(pool, waiter);
    waiter->seen = weir__waiting_changes(pool);
    const uint64_t seen = begin_marking(waiter);
    enum weir_status status = make_marks(pool, request);
    if (!end_marking(pool, waiter, seen) && status == WEIR_OK) {
        waiter->asleep = true;
        status = sleep_until_change(pool, request);
        waiter->asleep = false;
    }
    waiter->seen = weir__waiting_changes(pool);
    pthread_cond_broadcast(&pool->changed); /* others may look now */
    weir__account_host_waited(pool, request->slot, since_ns);
    return status;
}
