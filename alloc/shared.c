/* SPDX-License-Identifier: Apache-2.0 */
/* The shared pool: every idle byte may serve every stream, in the order that the ladder finds. */
#include <assert.h>
#include <stdlib.h>

#include "alloc/check.h"
#include "alloc/pool.h"

static enum weir_status shared_open(struct weir_pool *pool) {
    enum weir_status status =
        weir__pages_open(&pool->pages, pool->device, pool->granule, pool->capacity_bytes / pool->granule);
    if (status != WEIR_OK) return status;
    pool->seen = calloc(pool->pages.limit + 1, sizeof *pool->seen);
    status = pool->seen == NULL ? weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a pool's tables")
                                : weir__arena_open(pool, pool->pages.arena, pool->pages.arena_bytes);
    if (status == WEIR_OK) return status;
    free(pool->seen);
    weir__pages_close(&pool->pages);
    return status;
}

static void shared_close(struct weir_pool *pool) {
    weir__pages_close(&pool->pages);
    free(pool->seen);
    weir__plan_clear(&pool->plan);
}

static enum weir_status take(struct weir_pool *pool, const struct weir__request *request,
                             const struct weir__choice *choice, struct weir__extent **out) {
    if (!weir__extent_reserve(&pool->store, 2))
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's extents");
    struct weir__extent *block = weir__carve(pool, choice->idle, choice->window.begin, request->bytes);
    if (block == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for an extent's tags");
    assert(weir__order_extent_is_ordered(&pool->order, request->slot, block));
    weir__order_untag(&pool->order, block);
    weir__extent_tags_clear(block);
    block->state = WEIR__USED;
    block->home = request->slot;
    block->requested_bytes = request->requested_bytes;
    weir__account_live(pool, block);
    *out = block;
    return WEIR_OK;
}

#define NO_DEADLINE (UINT64_MAX / 2)

static bool frees_wait(const struct weir_pool *pool) {
    return pool->waits_out_frees && pool->order.any != WEIR__SLOT_NONE &&
           pool->order.slots[pool->order.any]->idle_bytes > 0;
}

uint64_t weir__deadline(struct weir_pool *pool, struct weir__request *request) {
    if (request->deadline_ns == 0) request->deadline_ns = weir__device_now_ns(pool->device) + request->wait_limit_ns;
    return frees_wait(pool) ? NO_DEADLINE : request->deadline_ns;
}

void weir__begin_host_wait(struct weir_pool *pool, struct weir__request *request) {
    if (!request->host_waited) weir__account_host_wait(pool, request->slot);
    request->host_waited = true;
    weir__deadline(pool, request);
}

enum weir_status weir__wait_for_tags(struct weir_pool *pool, struct weir__request *request,
                                     const struct weir__extent *unused) {
    const uint32_t count = unused->tag_count;
    struct weir__tag tags[count > 0 ? count : 1];
    for (uint32_t i = 0; i < count; i++) tags[i] = unused->tags[i];
    enum weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
        status = weir__order_wait_host(&pool->order, tags[i], weir__deadline(pool, request));
    weir__settle_complete(pool);
    if (status != WEIR_NOT_READY) return status;
    request->waited_out = true;
    return WEIR_OUT_OF_MEMORY;
}

enum weir_status weir__wait_for_extent(struct weir_pool *pool, struct weir__request *request,
                                       const struct weir__extent *unused) {
    const uint64_t since_ns = weir__device_now_ns(pool->device);
    weir__begin_host_wait(pool, request);
    const enum weir_status status = weir__wait_for_tags(pool, request, unused);
    weir__account_host_waited(pool, request->slot, since_ns);
    return status;
}

/* In deterministic mode for what was freed first, whatever else comes. */
enum weir_status weir__wait_on_host(struct weir_pool *pool, struct weir__request *request,
                                    const struct weir__extent *idle) {
    if (request->slot != WEIR__SLOT_NONE) weir__account_short(pool, request->slot);
    if (pool->deterministic || pool->policy->name == WEIR_POLICY_PER_STREAM ||
        weir__order_extent_is_complete(&pool->order, idle))
        return weir__wait_for_extent(pool, request, idle);
    return weir__wait_for_change(pool, request);
}

static enum weir_status wait_for_donors(struct weir_pool *pool, struct weir__request *request) {
    const struct weir__extent *idle = weir__ladder_oldest_incomplete(pool);
    if (idle == NULL) return WEIR_NOT_READY; /* they are done by now */
    const enum weir_status status = weir__wait_on_host(pool, request, idle);
    return status == WEIR_OK ? WEIR_NOT_READY : status;
}

/* One step of the ladder. WEIR_NOT_READY: look again from the top. */
static enum weir_status take_step(struct weir_pool *pool, struct weir__request *request,
                                  const struct weir__choice *choice, struct weir__extent **out) {
    enum weir_status status = WEIR_OUT_OF_MEMORY;
    size_t given_back = 0;
    switch (choice->step) {
    case WEIR__TAKE:
        return take(pool, request, choice, out);
    case WEIR__MAP:
        if (choice->window.lacking > choice->spare) weir__account_short(pool, request->slot);
        status = weir__move(pool, request, choice, out);
        return status == WEIR_NOT_READY && request->donors_in_use ? wait_for_donors(pool, request) : status;
    case WEIR__GIVE_BACK:
        weir__account_short(pool, request->slot);
        status = weir__give_back(pool, choice->created, &given_back);
        if (request->most_created != SIZE_MAX) request->most_created += given_back; /* so many more are there now */
        return status == WEIR_OK && given_back > 0 ? WEIR_NOT_READY : WEIR_OUT_OF_MEMORY;
    case WEIR__WAIT_HOST:
        status = weir__wait_on_host(pool, request, choice->idle);
        request->waited_in_vain |= status == WEIR_OUT_OF_MEMORY;
        return status == WEIR_OK || (status == WEIR_OUT_OF_MEMORY && choice->may_go_on) ? WEIR_NOT_READY : status;
    case WEIR__NO_DRIVER:
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                          "%zu bytes can't be allocated inside a host function: it would take a driver call",
                          request->requested_bytes);
    case WEIR__GIVE_UP:
        if (weir__settle_complete(pool)) return WEIR_NOT_READY;
        break;
    }
    if (pool->in_flight > 0 && weir__wait_for_claims(pool, weir__deadline(pool, request))) return WEIR_NOT_READY;
    return status;
}

static enum weir_status shared_alloc(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out) {
    enum weir_status status = WEIR_NOT_READY;
    weir__let_waiters_look(pool, request);
    while (status == WEIR_NOT_READY) {
        if (!weir__limit_has_room(pool, request->bytes)) return WEIR_OUT_OF_MEMORY; /* it may change during a wait */
        struct weir__choice choice = weir__ladder_next(pool, request);
        status = take_step(pool, request, &choice, out);
    }
    if (status == WEIR_OK) weir__plan_add(&pool->plan, request->bytes, request->slot, (*out)->address);
    return status;
}

static void shared_release(struct weir_pool *pool, struct weir__extent *extent) {
    extent->number = weir__stamp(pool);
    weir__settle_by_registration(pool, extent);
    weir__waiting_change(pool);
}

static void shared_after_release(struct weir_pool *pool, uint32_t slot) {
    if (!weir__order_mark_is_due(&pool->order, slot)) return;
    if (weir__order_mark(&pool->order, slot, true) != WEIR_OK)
        weir__log(WEIR__LOG_WARN, "pool: a mark could not be recorded: %s", weir_last_error()->message);
    if (weir__order_poll(&pool->order)) weir__settle_complete(pool);
}

/* The old mappings that have to go with their pages may be used for longer than the host has seen of those. */
static const struct weir__extent *oldest_incomplete(const struct weir_pool *pool) {
    const struct weir__extent *extent = weir__ladder_oldest_incomplete(pool);
    if (extent != NULL) return extent;
    extent = pool->stale.oldest;
    while (extent != NULL && weir__order_extent_is_complete(&pool->order, extent)) extent = extent->newer;
    return extent;
}

/* In deterministic mode nothing is seen to be complete by itself. False when there is nothing to wait for, or no time. */
static bool wait_for_more(struct weir_pool *pool, struct weir__request *trim) {
    if (!pool->deterministic) return false;
    const struct weir__extent *unused = oldest_incomplete(pool);
    return unused != NULL && weir__wait_for_extent(pool, trim, unused) == WEIR_OK;
}

static enum weir_status shared_trim(struct weir_pool *pool, size_t target_bytes) {
    struct weir__request trim = {.slot = WEIR__SLOT_NONE, .wait_limit_ns = pool->wait_limit_ns};
    enum weir_status status = WEIR_OK;
    size_t done = 1;
    if (pool->held_bytes > target_bytes) weir__order_reach(&pool->order);
    while (status == WEIR_OK && pool->held_bytes > target_bytes && (done > 0 || wait_for_more(pool, &trim))) {
        size_t over = pool->held_bytes - target_bytes;
        weir__fronts_drain(pool);
        status = weir__give_back(pool, (over + pool->granule - 1) / pool->granule, &done);
    }
    return status;
}

static size_t shared_largest_idle(const struct weir_pool *pool, uint32_t slot) {
    size_t largest = 0;
    (void)slot;
    for (uint32_t i = 0; i < pool->order.count; i++) {
        const struct weir__extent *extent = weir__index_largest(&pool->order.slots[i]->idle[0]);
        if (extent != NULL && extent->bytes > largest) largest = extent->bytes;
    }
    return largest;
}

static void shared_each_extent(struct weir_pool *pool, void (*visit)(struct weir_pool *, struct weir__extent *)) {
    for (struct weir__extent *extent = pool->first; extent != NULL; extent = extent->next)
        if (extent->state != WEIR__BARE || extent->stale) visit(pool, extent);
    weir__alone_each(pool, visit);
}

/* A graph's memory: nothing is recorded, nothing given back (capture.h). */
static void graph_after_release(struct weir_pool *pool, uint32_t slot) {
    (void)pool;
    (void)slot;
}

static enum weir_status graph_trim(struct weir_pool *pool, size_t target_bytes) {
    (void)pool;
    (void)target_bytes;
    return WEIR_OK;
}

#define SHARED_POLICY(id, word, kind)                                                                                  \
    {                                                                                                                  \
        .name = (id), .text = (word), .open = shared_open, .close = shared_close, .alloc = shared_alloc,               \
        .release = shared_release, .after_release = kind##_after_release, .trim = kind##_trim,                         \
        .largest_idle = shared_largest_idle, .each_extent = shared_each_extent, .check = weir__check_shared            \
    }
const struct weir__policy weir__policy_latency = SHARED_POLICY(WEIR_POLICY_LATENCY, "latency", shared);
const struct weir__policy weir__policy_footprint = SHARED_POLICY(WEIR_POLICY_FOOTPRINT, "footprint", shared);
const struct weir__policy weir__policy_graph = SHARED_POLICY(WEIR_POLICY_LATENCY, "graph", graph);
