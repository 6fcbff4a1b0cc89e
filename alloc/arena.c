/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "alloc/pool.h"

enum weir_status weir__arena_open(struct weir_pool *pool, uintptr_t base, size_t bytes) {
    if (!weir__extent_reserve(&pool->store, 1))
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's extents");
    pool->first = weir__extent_new(&pool->store, base, bytes, WEIR__BARE);
    weir__index_insert(&pool->bare, pool->first);
    return WEIR_OK;
}

static struct weir__index *index_of(struct weir_pool *pool, const struct weir__extent *extent) {
    return extent->state == WEIR__BARE ? &pool->bare : &pool->order.slots[extent->home]->idle[0];
}

void weir__idle_insert(struct weir_pool *pool, struct weir__extent *extent) {
    assert(weir__extent_tagged_bytes(extent) == extent->bytes);
    extent->state = WEIR__IDLE;
    for (uint32_t i = 0; i < extent->tag_count; i++)
        weir__account_idle(pool, extent->tags[i].slot, extent->tags[i].bytes);
    pool->idle_pages += weir__extent_whole_pages(extent, pool->granule);
    weir__index_insert(index_of(pool, extent), extent);
}

void weir__idle_remove(struct weir_pool *pool, struct weir__extent *extent) {
    assert(extent->state == WEIR__IDLE);
    for (uint32_t i = 0; i < extent->tag_count; i++)
        weir__account_unidle(pool, extent->tags[i].slot, extent->tags[i].bytes);
    pool->idle_pages -= weir__extent_whole_pages(extent, pool->granule);
    weir__index_remove(index_of(pool, extent), extent);
}

static void unused_remove(struct weir_pool *pool, struct weir__extent *extent) {
    if (extent->state == WEIR__IDLE)
        weir__idle_remove(pool, extent);
    else
        weir__index_remove(&pool->bare, extent);
}

static void unused_insert(struct weir_pool *pool, struct weir__extent *extent) {
    if (extent->state == WEIR__IDLE)
        weir__idle_insert(pool, extent);
    else
        weir__index_insert(&pool->bare, extent);
}

/* Tags that are complete and account for no bytes say nothing any more. */
static void prune(const struct weir_pool *pool, struct weir__extent *extent) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (extent->tags[i].bytes > 0 || !weir__order_is_complete(&pool->order, extent->tags[i]))
            extent->tags[kept++] = extent->tags[i];
    extent->tag_count = kept;
}

/* Merges two idle neighbours, of which `before` is in its index and `extent` is in none, or the other way round.
 * Without host memory for the tags they stay apart, which costs a good fit and nothing else. */
static struct weir__extent *join_idle(struct weir_pool *pool, struct weir__extent *front, struct weir__extent *back,
                                      struct weir__extent *fresh) {
    struct weir__extent *other = fresh == front ? back : front;
    uint32_t home = fresh->home;
    uint64_t number = fresh->number;
    weir__idle_remove(pool, other);
    if (!weir__extent_merge(&pool->store, front, back)) {
        weir__idle_insert(pool, other);
        return fresh;
    }
    front->home = home;
    front->number = number;
    return front;
}

struct weir__extent *weir__settle_idle(struct weir_pool *pool, struct weir__extent *extent) {
    extent->state = WEIR__IDLE;
    struct weir__extent *previous = extent->previous, *next = extent->next;
    if (next != NULL && next->state == WEIR__IDLE) extent = join_idle(pool, extent, next, extent);
    if (previous != NULL && previous->state == WEIR__IDLE) extent = join_idle(pool, previous, extent, extent);
    prune(pool, extent);
    weir__idle_insert(pool, extent);
    return extent;
}

struct weir__extent *weir__settle_bare(struct weir_pool *pool, struct weir__extent *extent) {
    struct weir__extent *previous = extent->previous, *next = extent->next;
    extent->state = WEIR__BARE;
    weir__extent_tags_clear(extent);
    if (next != NULL && next->state == WEIR__BARE) {
        weir__index_remove(&pool->bare, next);
        weir__extent_merge(&pool->store, extent, next);
    }
    if (previous != NULL && previous->state == WEIR__BARE) {
        weir__index_remove(&pool->bare, previous);
        weir__extent_merge(&pool->store, previous, extent);
        extent = previous;
    }
    weir__index_insert(&pool->bare, extent);
    return extent;
}

struct weir__extent *weir__carve(struct weir_pool *pool, struct weir__extent *extent, uintptr_t begin, size_t bytes) {
    assert(extent->address <= begin && begin + bytes <= weir__extent_end(extent) && bytes > 0);
    struct weir__extent *front = NULL, *back = NULL, *middle = extent;
    unused_remove(pool, extent);
    if (begin > extent->address) {
        front = extent;
        middle = weir__extent_split(&pool->store, extent, begin - extent->address);
    }
    if (middle != NULL && bytes < middle->bytes) {
        back = weir__extent_split(&pool->store, middle, bytes);
        if (back == NULL && front != NULL) weir__extent_merge(&pool->store, front, middle);
        if (back == NULL) middle = NULL;
    }
    if (middle == NULL) {
        unused_insert(pool, extent);
        return NULL;
    }
    if (front != NULL) unused_insert(pool, front);
    if (back != NULL) unused_insert(pool, back);
    return middle;
}
