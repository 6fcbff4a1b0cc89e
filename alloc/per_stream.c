/* SPDX-License-Identifier: Apache-2.0 */
/* One pool a stream, as caching allocators do today; to compare with. It follows PyTorch's native allocator in its
 * default configuration, with the constants in granules (2 MiB there):
 *
 *   small   at most 1/2 granule: cut from segments of 1 granule
 *   large   above; below 5 granules cut from segments of 10, else a segment of the request rounded up to granules
 *   split   a small block when 512 bytes remain, a large one when more than 1/2 granule remains; the front serves
 *   search  best fit among the free blocks of the asking stream and size class; a block stays with its stream for life
 *   free    a block with noted uses is pending until an event recorded on each noting stream has been seen to pass;
 *           events are looked at in each alloc
 *   full    wait for all events, free every whole free segment of every stream, try once more, then out of memory
 *
 * A free on another stream than the block's is a noted use by that stream, plus the free. The pool is not searched
 * again after the wait; that, too, is as it is there. Memory comes from the driver's plain calls. */
#include <assert.h>
#include <stdlib.h>

#include "alloc/check.h"
#include "alloc/history.h"
#include "alloc/pool.h"

#define SMALL_SEGMENT_GRANULES  1u
#define MEDIUM_SEGMENT_GRANULES 10u
#define LARGE_MIN_GRANULES      5u

struct weir__segment {
    struct weir__segment *next, *previous;
    struct weir__segment *claimed; /* the next that the same call has claimed */
    struct weir__extent *first;    /* its extents tile it; the first one is never merged away */
    size_t bytes;
};

static bool is_small(const struct weir_pool *pool, size_t bytes) { return bytes <= pool->granule / 2; }

static size_t segment_bytes(const struct weir_pool *pool, size_t bytes) {
    if (is_small(pool, bytes)) return SMALL_SEGMENT_GRANULES * pool->granule;
    if (bytes < LARGE_MIN_GRANULES * pool->granule) return MEDIUM_SEGMENT_GRANULES * pool->granule;
    return (bytes + pool->granule - 1) / pool->granule * pool->granule;
}

/* ---- free blocks ------------------------------------------------------------------------------------------------ */

static struct weir__index *index_of(const struct weir_pool *pool, const struct weir__extent *extent) {
    return &pool->order.slots[extent->home]->idle[extent->small];
}

static void take_out(struct weir_pool *pool, struct weir__extent *extent) {
    assert(extent->state == WEIR__IDLE);
    weir__index_remove(index_of(pool, extent), extent);
    weir__account_unidle(pool, extent->home, extent->bytes);
}

static void put_in(struct weir_pool *pool, struct weir__extent *extent) {
    extent->state = WEIR__IDLE;
    weir__extent_tags_clear(extent);
    weir__extent_tag_add(extent, (struct weir__tag){.slot = extent->home, .bytes = extent->bytes});
    weir__account_idle(pool, extent->home, extent->bytes);
    weir__index_insert(index_of(pool, extent), extent);
}

/* One tag each, of one slot: such merges can't fail. */
static struct weir__extent *join(struct weir_pool *pool, struct weir__extent *front, struct weir__extent *back) {
    weir__extent_tags_clear(front);
    weir__extent_tags_clear(back);
    weir__extent_merge(&pool->store, front, back);
    return front;
}

static void free_block(struct weir_pool *pool, struct weir__extent *extent) {
    struct weir__extent *next = extent->next, *previous = extent->previous;
    if (next != NULL && next->state == WEIR__IDLE) {
        take_out(pool, next);
        extent = join(pool, extent, next);
    }
    if (previous != NULL && previous->state == WEIR__IDLE) {
        take_out(pool, previous);
        extent = join(pool, previous, extent);
    }
    put_in(pool, extent);
}

/* ---- pending blocks --------------------------------------------------------------------------------------------- */

static void append_pending(struct weir_pool *pool, struct weir__extent *extent) {
    extent->state = WEIR__PENDING;
    extent->right = NULL;
    weir__account_idle(pool, extent->home, extent->bytes);
    if (pool->pending_last != NULL)
        pool->pending_last->right = extent;
    else
        pool->pending = extent;
    pool->pending_last = extent;
}

static void free_complete_blocks(struct weir_pool *pool) {
    struct weir__extent *extent = pool->pending;
    pool->pending = pool->pending_last = NULL;
    while (extent != NULL) {
        struct weir__extent *next = extent->right;
        weir__account_unidle(pool, extent->home, extent->bytes);
        if (weir__order_extent_is_complete(&pool->order, extent))
            free_block(pool, extent);
        else
            append_pending(pool, extent);
        extent = next;
    }
}

static void process_events(struct weir_pool *pool) {
    if (pool->pending != NULL && weir__order_poll(&pool->order)) free_complete_blocks(pool);
}

/* (unlocks) Waits for an event that holds the oldest pending block back. Needs: a pending block. */
static enum weir_status wait_for_oldest(struct weir_pool *pool, uint64_t deadline_ns) {
    struct weir__tag tag = {0};
    for (uint32_t i = 0; i < pool->pending->tag_count; i++)
        if (!weir__order_is_complete(&pool->order, pool->pending->tags[i])) tag = pool->pending->tags[i];
    enum weir_status status = weir__order_wait_host(&pool->order, tag, deadline_ns);
    if (status == WEIR_OK) free_complete_blocks(pool);
    return status;
}

/* (unlocks) Waits for all events, at most until the deadline. */
static enum weir_status wait_for_events(struct weir_pool *pool, uint64_t deadline_ns) {
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && pool->pending != NULL) status = wait_for_oldest(pool, deadline_ns);
    return status;
}

/* ---- segments --------------------------------------------------------------------------------------------------- */

static void link_segment(struct weir_pool *pool, struct weir__segment *segment) {
    segment->next = pool->segments;
    if (segment->next != NULL) segment->next->previous = segment;
    pool->segments = segment;
}

static void unlink_segment(struct weir_pool *pool, struct weir__segment *segment) {
    if (segment->next != NULL) segment->next->previous = segment->previous;
    if (segment->previous != NULL)
        segment->previous->next = segment->next;
    else
        pool->segments = segment->next;
    segment->next = segment->previous = NULL;
}

/* A stricter alignment is found somewhere in a larger block, the rest of which is free again. */
static size_t padded(const struct weir__request *request) {
    return request->bytes + request->alignment - WEIR__ALIGNMENT;
}

static enum weir_status no_host_memory(void) {
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's segments");
}

/* (unlocks) A new segment for a request, as one extent in no index. Fails: WEIR_OUT_OF_MEMORY at the limit or when the
 * driver has no more. */
static enum weir_status add_segment(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out) {
    size_t bytes = segment_bytes(pool, padded(request));
    weir__account_short(pool, request->slot);
    if (bytes > weir__untaken_bytes(pool)) return WEIR_OUT_OF_MEMORY;
    struct weir__segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL) return no_host_memory();
    if (!weir__account_hold(pool, bytes)) {
        free(segment);
        return WEIR_OUT_OF_MEMORY;
    }
    uintptr_t address = 0;
    pool->unmapped_bytes += bytes;
    pthread_mutex_unlock(&pool->lock);
    enum weir_status status = weir__plain_alloc(pool->device, bytes, &address, &pool->plain_memory_calls);
    pthread_mutex_lock(&pool->lock);
    bool room = weir__extent_reserve(&pool->store, 3);
    if (status == WEIR_OK && !room) {
        pthread_mutex_unlock(&pool->lock);
        weir__plain_free(pool->device, address, &pool->plain_memory_calls);
        pthread_mutex_lock(&pool->lock);
        status = no_host_memory();
    }
    pool->unmapped_bytes -= bytes;
    request->most_created = status == WEIR_OUT_OF_MEMORY ? 0 : SIZE_MAX;
    if (status != WEIR_OK) {
        weir__account_unhold(pool, bytes);
        free(segment);
        return status;
    }
    segment->bytes = bytes;
    segment->first = *out = weir__extent_new(&pool->store, address, bytes, WEIR__MOVING);
    (*out)->home = request->slot;
    (*out)->small = is_small(pool, padded(request));
    link_segment(pool, segment);
    weir__history_segment(pool, WEIR__PAST_TAKEN, *out);
    return WEIR_OK;
}

static bool is_whole_and_free(const struct weir__segment *segment) {
    return segment->first->state == WEIR__IDLE && segment->first->bytes == segment->bytes;
}

/* Makes whole free segments moving, which nobody else looks at; `only` may leave some out. free_segments ends the claim. */
static struct weir__segment *claim_segments(struct weir_pool *pool,
                                            bool (*only)(const struct weir_pool *, const struct weir__segment *)) {
    struct weir__segment *claimed = NULL;
    for (struct weir__segment *segment = pool->segments; segment != NULL; segment = segment->next) {
        if (!is_whole_and_free(segment) || weir__is_fixed(pool, segment->first) ||
            (only != NULL && !only(pool, segment)))
            continue;
        take_out(pool, segment->first);
        segment->first->state = WEIR__MOVING;
        segment->first->was = WEIR__IDLE;
        pool->moving_bytes += segment->bytes;
        segment->claimed = claimed;
        claimed = segment;
    }
    if (claimed != NULL) weir__claim_begin(pool);
    return claimed;
}

static void unclaim_segment(struct weir_pool *pool, struct weir__segment *segment) {
    pool->moving_bytes -= segment->bytes;
    put_in(pool, segment->first);
}

static void forget_segment(struct weir_pool *pool, struct weir__segment *segment) {
    pool->moving_bytes -= segment->bytes;
    weir__account_unhold(pool, segment->bytes);
    weir__extent_delete(&pool->store, segment->first);
    free(segment);
}

/* (unlocks) While the driver takes it back a segment is the pool's no more: its addresses may be another's before the call
 * returns. */
static enum weir_status give_back(struct weir_pool *pool, struct weir__segment *segment) {
    unlink_segment(pool, segment);
    weir__history_segment(pool, WEIR__PAST_GIVEN_BACK, segment->first);
    pthread_mutex_unlock(&pool->lock);
    const enum weir_status status = weir__plain_free(pool->device, segment->first->address, &pool->plain_memory_calls);
    pthread_mutex_lock(&pool->lock);
    if (status == WEIR_OK) {
        forget_segment(pool, segment);
    } else {
        link_segment(pool, segment);
        weir__history_segment(pool, WEIR__PAST_TAKEN, segment->first);
        unclaim_segment(pool, segment);
    }
    return status;
}

/* (unlocks) Gives claimed segments back to the driver while more than `target_bytes` are held; returns the others. */
static enum weir_status free_segments(struct weir_pool *pool, struct weir__segment *claimed, size_t target_bytes) {
    enum weir_status status = WEIR_OK;
    if (claimed == NULL) return WEIR_OK; /* who waits hears of a change only when there is one */
    while (claimed != NULL) {
        struct weir__segment *segment = claimed;
        claimed = segment->claimed;
        if (status == WEIR_OK && pool->held_bytes > target_bytes)
            status = give_back(pool, segment);
        else
            unclaim_segment(pool, segment);
    }
    weir__claim_end(pool);
    return status;
}

/* What can't be waited for, in time or while a stream captures, is no reason to fail otherwise. */
static enum weir_status out_of_memory_or(struct weir__request *request, enum weir_status status) {
    request->waited_out |= status == WEIR_NOT_READY;
    return status == WEIR_NOT_READY || status == WEIR_NOT_SUPPORTED ? WEIR_OUT_OF_MEMORY : status;
}

/* (unlocks) What a plain free waits for, made explicit and bounded: all that is queued on the streams so far. */
static enum weir_status wait_for_streams(struct weir_pool *pool, uint64_t deadline_ns) {
    enum weir_status status = WEIR_OK;
    for (uint32_t i = 1; i < pool->order.count && status == WEIR_OK; i++)
        if (pool->order.slots[i]->open)
            status = weir__order_wait_host(&pool->order, weir__order_tag(&pool->order, i, 0), deadline_ns);
    return status;
}

/* (unlocks) Waits for all events, then frees every whole free segment. */
static enum weir_status release_cached(struct weir_pool *pool, struct weir__request *request) {
    uint64_t since_ns = weir__device_now_ns(pool->device);
    weir__begin_host_wait(pool, request);
    enum weir_status status = wait_for_events(pool, request->deadline_ns);
    if (status != WEIR_OK) {
        weir__account_host_waited(pool, request->slot, since_ns);
        return out_of_memory_or(request, status);
    }
    struct weir__segment *claimed = claim_segments(pool, NULL);
    if (claimed != NULL) status = wait_for_streams(pool, request->deadline_ns);
    weir__account_host_waited(pool, request->slot, since_ns);
    enum weir_status freed = free_segments(pool, claimed, status == WEIR_OK ? 0 : SIZE_MAX);
    if (status == WEIR_OK) status = freed;
    return out_of_memory_or(request, status);
}

/* ---- the policy ------------------------------------------------------------------------------------------------- */

static struct weir__extent *find_free(struct weir_pool *pool, const struct weir__request *request) {
    const struct weir__slot *slot = pool->order.slots[request->slot];
    const size_t bytes = padded(request);
    struct weir__extent *extent = weir__index_at_least(&slot->idle[is_small(pool, bytes)], bytes, 0);
    if (extent != NULL) take_out(pool, extent);
    return extent;
}

/* Cuts off what lies before the first address that is aligned as asked. Gives: the rest. The extent is in no index. */
static struct weir__extent *align(struct weir_pool *pool, struct weir__extent *extent, size_t alignment) {
    const size_t before = (alignment - extent->address % alignment) % alignment;
    if (before == 0) return extent;
    weir__extent_tags_clear(extent);
    struct weir__extent *rest = weir__extent_split(&pool->store, extent, before);
    put_in(pool, extent);
    return rest;
}

/* Cuts off what a request leaves, where the rule says so. The extent is in no index. */
static void split(struct weir_pool *pool, struct weir__extent *extent, size_t bytes) {
    size_t remains = extent->bytes - bytes;
    if (extent->small ? remains < WEIR__ALIGNMENT : remains <= pool->granule / 2) return;
    weir__extent_tags_clear(extent);
    put_in(pool, weir__extent_split(&pool->store, extent, bytes));
}

static enum weir_status grow(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out) {
    enum weir_status status = add_segment(pool, request, out);
    if (status != WEIR_OUT_OF_MEMORY) return status;
    if (pool->in_flight > 0 &&
        weir__wait_for_claims(pool, weir__device_now_ns(pool->device) + request->wait_limit_ns)) {
        status = add_segment(pool, request, out);
        if (status != WEIR_OUT_OF_MEMORY) return status;
    }
    status = release_cached(pool, request);
    return status == WEIR_OK ? add_segment(pool, request, out) : status;
}

/* (unlocks) Deterministic mode: events are not looked at, so the oldest blocks that they hold back are waited for until one
 * serves, before memory is taken. */
static enum weir_status find_pending(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out) {
    uint64_t since_ns = weir__device_now_ns(pool->device);
    request->deadline_ns = since_ns + request->wait_limit_ns;
    weir__account_short(pool, request->slot);
    weir__account_host_wait(pool, request->slot);
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && *out == NULL && pool->pending != NULL) {
        status = wait_for_oldest(pool, request->deadline_ns);
        if (status == WEIR_OK) *out = find_free(pool, request);
    }
    weir__account_host_waited(pool, request->slot, since_ns);
    return out_of_memory_or(request, status);
}

static enum weir_status per_stream_alloc(struct weir_pool *pool, struct weir__request *request,
                                         struct weir__extent **out) {
    if (!request->host_function) process_events(pool);
    if (!weir__extent_reserve(&pool->store, 2)) return no_host_memory();
    struct weir__extent *extent = find_free(pool, request);
    if (extent == NULL && request->host_function)
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                          "%zu bytes can't be allocated inside a host function: it would take a driver call",
                          request->requested_bytes);
    enum weir_status status = WEIR_OK;
    if (extent == NULL && pool->deterministic && pool->pending != NULL) status = find_pending(pool, request, &extent);
    if (status == WEIR_OK && extent == NULL) status = grow(pool, request, &extent);
    if (status != WEIR_OK) return status;
    extent = align(pool, extent, request->alignment);
    split(pool, extent, request->bytes);
    weir__extent_tags_clear(extent);
    extent->state = WEIR__USED;
    extent->requested_bytes = request->requested_bytes;
    weir__account_live(pool, extent);
    *out = extent;
    return WEIR_OK;
}

/* Drops the tag of the block's own stream: reuse there is in order anyway, if it is one. */
static void drop_own_tag(const struct weir_pool *pool, struct weir__extent *extent) {
    uint32_t kept = 0;
    if (extent->home == pool->order.any) return;
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (extent->tags[i].slot != extent->home) extent->tags[kept++] = extent->tags[i];
    extent->tag_count = kept;
}

static void per_stream_release(struct weir_pool *pool, struct weir__extent *extent) {
    drop_own_tag(pool, extent);
    for (uint32_t i = 0; i < extent->tag_count; i++) {
        struct weir__slot *slot = pool->order.slots[extent->tags[i].slot];
        slot->wants_mark = slot->wants_mark || (slot->alive && extent->tags[i].tick == slot->tick);
    }
    if (extent->tag_count > 0)
        append_pending(pool, extent);
    else
        free_block(pool, extent);
    weir__waiting_change(pool);
}

/* One event on each stream that noted the block. */
static void per_stream_after_release(struct weir_pool *pool, uint32_t freed_on) {
    for (uint32_t i = 0; i < pool->order.count; i++) {
        if (!pool->order.slots[i]->wants_mark) continue;
        pool->order.slots[i]->wants_mark = false;
        if (weir__order_mark(&pool->order, i, i == freed_on) != WEIR_OK)
            weir__log(WEIR__LOG_WARN, "pool: an event could not be recorded: %s", weir_last_error()->message);
    }
}

/* Nothing is queued on the segment's stream: it is gone and done, or its last query found it empty and nothing was freed
 * there since. */
static bool is_over(const struct weir_pool *pool, const struct weir__segment *segment) {
    const struct weir__slot *slot = pool->order.slots[segment->first->home];
    if (!slot->alive) return weir__order_is_over(&pool->order, slot->number);
    return slot->complete + 1 == slot->tick && weir__slot_frees(slot) == 0;
}

static enum weir_status per_stream_trim(struct weir_pool *pool, size_t target_bytes) {
    if (pool->deterministic) {
        uint64_t since_ns = weir__device_now_ns(pool->device), deadline_ns = since_ns + pool->wait_limit_ns;
        weir__account_host_wait(pool, WEIR__SLOT_NONE);
        if (wait_for_events(pool, deadline_ns) == WEIR_OK) wait_for_streams(pool, deadline_ns);
        weir__account_host_waited(pool, WEIR__SLOT_NONE, since_ns);
    }
    weir__order_reach(&pool->order);
    weir__order_poll_streams(&pool->order);
    free_complete_blocks(pool); /* also those that another look has seen complete */
    return free_segments(pool, claim_segments(pool, is_over), target_bytes);
}

static size_t per_stream_largest_idle(const struct weir_pool *pool, uint32_t slot) {
    size_t largest = 0;
    for (int small = 0; small < 2; small++) {
        const struct weir__extent *extent = weir__index_largest(&pool->order.slots[slot]->idle[small]);
        if (extent != NULL && extent->bytes > largest) largest = extent->bytes;
    }
    return largest;
}

static enum weir_status per_stream_open(struct weir_pool *pool) {
    (void)pool;
    return WEIR_OK;
}

static void per_stream_close(struct weir_pool *pool) {
    while (pool->segments != NULL) {
        struct weir__segment *segment = pool->segments;
        unlink_segment(pool, segment);
        weir__plain_free(pool->device, segment->first->address, &pool->plain_memory_calls);
        free(segment); /* its extents go with the store */
    }
}

void weir__per_stream_each_segment(const struct weir_pool *pool,
                                   void (*visit)(void *self, const struct weir_pool *pool,
                                                 const struct weir__extent *first),
                                   void *self) {
    for (const struct weir__segment *segment = pool->segments; segment != NULL; segment = segment->next)
        visit(self, pool, segment->first);
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

static enum weir_status check_segment(const struct weir_pool *pool, const struct weir__segment *segment,
                                      struct weir__sums *sums) {
    size_t bytes = 0;
    for (const struct weir__extent *extent = segment->first; extent != NULL; extent = extent->next) {
        enum weir_status status = weir__check_extent(pool, extent);
        if (status != WEIR_OK) return status;
        WEIR__HOLDS(extent->next == NULL ||
                        (extent->next->address == weir__extent_end(extent) && extent->next->previous == extent),
                    "extent %#zx+%zu and the next do not tile", (size_t)extent->address, extent->bytes);
        WEIR__HOLDS(extent->next == NULL || extent->state != WEIR__IDLE || extent->next->state != WEIR__IDLE,
                    "extent %#zx+%zu and the next are both free", (size_t)extent->address, extent->bytes);
        WEIR__HOLDS(extent->home == segment->first->home && extent->small == segment->first->small,
                    "extent %#zx+%zu is not of its segment's stream and class", (size_t)extent->address, extent->bytes);
        bytes += extent->bytes;
        if (extent->state == WEIR__USED) {
            sums->live += extent->bytes;
            sums->requested += extent->requested_bytes;
            sums->blocks++;
        } else if (extent->state != WEIR__MOVING) {
            sums->idle += extent->bytes;
        }
    }
    WEIR__HOLDS(bytes == segment->bytes, "segment %#zx of %zu bytes has extents of %zu",
                (size_t)segment->first->address, segment->bytes, bytes);
    sums->mapped += bytes;
    return WEIR_OK;
}

static enum weir_status per_stream_check(struct weir_pool *pool) {
    struct weir__sums sums = {0};
    for (const struct weir__segment *segment = pool->segments; segment != NULL; segment = segment->next) {
        enum weir_status status = check_segment(pool, segment, &sums);
        if (status != WEIR_OK) return status;
    }
    WEIR__HOLDS(pool->in_flight > 0 || sums.mapped + pool->unmapped_bytes + pool->alone_bytes == pool->held_bytes,
                "held is %zu, the segments have %zu", pool->held_bytes, sums.mapped);
    enum weir_status status = weir__alone_check(pool, &sums);
    return status != WEIR_OK ? status : weir__check_sums(pool, &sums);
}

const struct weir__policy weir__policy_per_stream = {
    .name = WEIR_POLICY_PER_STREAM,
    .text = "per-stream",
    .open = per_stream_open,
    .close = per_stream_close,
    .alloc = per_stream_alloc,
    .release = per_stream_release,
    .after_release = per_stream_after_release,
    .trim = per_stream_trim,
    .largest_idle = per_stream_largest_idle,
    .each_extent = NULL,
    .check = per_stream_check,
};
