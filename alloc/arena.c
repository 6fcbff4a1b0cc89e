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

/* Writes an extent down as the one that lies over its pages' first bytes. Nobody asks where nothing is mapped, nor about to be. */
static void own(struct weir_pool *pool, struct weir__extent *extent) {
    struct weir__pages *pages = &pool->pages;
    if (extent->previous == NULL) pool->first = extent;
    if (extent->state == WEIR__BARE && !extent->stale) return;
    uint32_t place = weir__place_of(pages, weir__page_ceil(pages, extent->address));
    const uint32_t end = weir__place_of(pages, weir__page_ceil(pages, weir__extent_end(extent)));
    for (; place < end; place++) pages->extent_at[place] = extent;
}

void weir__own(struct weir_pool *pool, struct weir__extent *extent) { own(pool, extent); }

/* ---- indexes and queues ----------------------------------------------------------------------------------------- */

static bool is_settled(const struct weir_pool *pool, const struct weir__extent *neighbour) {
    return neighbour == NULL || neighbour->state != WEIR__IDLE ||
           !weir__order_extent_is_complete(&pool->order, neighbour);
}

/* True for an extent that is to be looked at when something has become complete: it was not, or has a neighbour (but `cut`,
 * which is being taken) with which it would be one by now. */
static bool is_to_settle(const struct weir_pool *pool, const struct weir__extent *extent,
                         const struct weir__extent *cut) {
    return !weir__order_extent_is_complete(&pool->order, extent) ||
           (extent->previous != cut && !is_settled(pool, extent->previous)) ||
           (extent->next != cut && !is_settled(pool, extent->next));
}

static size_t *idle_pages(struct weir_pool *pool, const struct weir__extent *extent) {
    return extent->fixed ? &pool->fixed_pages : &pool->idle_pages;
}

static void idle_insert(struct weir_pool *pool, struct weir__extent *extent, const struct weir__extent *cut) {
    assert(weir__extent_tagged_bytes(extent) == extent->bytes);
    extent->state = WEIR__IDLE;
    for (uint32_t i = 0; i < extent->tag_count; i++)
        weir__account_idle(pool, extent->tags[i].slot, extent->tags[i].bytes);
    *idle_pages(pool, extent) += weir__extent_whole_pages(extent, pool->granule);
    if (is_to_settle(pool, extent, cut)) weir__queue_add(&pool->incomplete, extent);
    weir__index_insert(&pool->order.slots[extent->home]->idle[0], extent);
}

void weir__idle_insert(struct weir_pool *pool, struct weir__extent *extent) { idle_insert(pool, extent, NULL); }

void weir__idle_remove(struct weir_pool *pool, struct weir__extent *extent) {
    assert(extent->state == WEIR__IDLE);
    for (uint32_t i = 0; i < extent->tag_count; i++)
        weir__account_unidle(pool, extent->tags[i].slot, extent->tags[i].bytes);
    *idle_pages(pool, extent) -= weir__extent_whole_pages(extent, pool->granule);
    weir__queue_remove(extent);
    weir__index_remove(&pool->order.slots[extent->home]->idle[0], extent);
}

static void bare_insert(struct weir_pool *pool, struct weir__extent *extent) {
    if (extent->stale) weir__queue_add(&pool->stale, extent);
    weir__index_insert(&pool->bare, extent);
}

static void bare_remove(struct weir_pool *pool, struct weir__extent *extent) {
    weir__queue_remove(extent);
    weir__index_remove(&pool->bare, extent);
}

void weir__unused_remove(struct weir_pool *pool, struct weir__extent *extent) {
    if (extent->state == WEIR__IDLE)
        weir__idle_remove(pool, extent);
    else
        bare_remove(pool, extent);
}

/* Puts back what is left of an extent, or all of it, beside the part that is being cut out of it. */
static void unused_insert(struct weir_pool *pool, struct weir__extent *extent, const struct weir__extent *cut) {
    if (extent->state == WEIR__IDLE)
        idle_insert(pool, extent, cut);
    else
        bare_insert(pool, extent);
}

/* ---- idle neighbours -------------------------------------------------------------------------------------------- */

/* Tags that are complete and account for no bytes say nothing any more. */
static void prune(const struct weir_pool *pool, struct weir__extent *extent) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (extent->tags[i].bytes > 0 || !weir__order_is_complete(&pool->order, extent->tags[i]))
            extent->tags[kept++] = extent->tags[i];
    extent->tag_count = kept;
}

static bool bears(const struct weir__extent *extent, uint32_t slot, const struct weir__order *order) {
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (extent->tags[i].slot == slot) return !weir__order_is_complete(order, extent->tags[i]);
    return false;
}

static bool all_borne(const struct weir__extent *of, const struct weir__extent *by, const struct weir__order *order) {
    for (uint32_t i = 0; i < of->tag_count; i++)
        if (!weir__order_is_complete(order, of->tags[i]) && !bears(by, of->tags[i].slot, order)) return false;
    return true;
}

#define SMALL_PART 24 /* of what is held */

/* Freed without a stream, and not seen complete: nobody may have it without a wait. */
static bool is_unnamed(const struct weir__order *order, const struct weir__extent *extent) {
    return order->any != WEIR__SLOT_NONE && bears(extent, order->any, order);
}

/* Nobody may have it before a capture ends. */
static bool is_for_a_capture(const struct weir__order *order, const struct weir__extent *extent) {
    return !weir__order_extent_can_be_waited_for(order, extent);
}

/* True for neighbours that are best as one: the same streams still hold both back, or one is small. Large ones that different
 * streams used stay apart until they are complete; else what one stream may use would wait for another one's work beside it. What
 * was freed without a stream, or waits for a capture's end, would hold its neighbour back for all, however small. */
static bool are_best_as_one(const struct weir_pool *pool, const struct weir__extent *a, const struct weir__extent *b) {
    const size_t small = pool->held_bytes / SMALL_PART;
    if (a->fixed != b->fixed || is_unnamed(&pool->order, a) != is_unnamed(&pool->order, b)) return false;
    if (is_for_a_capture(&pool->order, a) != is_for_a_capture(&pool->order, b)) return false;
    return a->bytes < small || b->bytes < small || (all_borne(a, b, &pool->order) && all_borne(b, a, &pool->order));
}

/* Merges two idle neighbours, of which `fresh` is in no index and the other is. Without host memory for the tags they stay
 * apart, which costs a good fit and nothing else. */
static struct weir__extent *join_idle(struct weir_pool *pool, struct weir__extent *front, struct weir__extent *back,
                                      struct weir__extent *fresh) {
    struct weir__extent *other = fresh == front ? back : front, *kept = front->bytes >= back->bytes ? front : back;
    const struct weir__extent *gone = kept == front ? back : front;
    const uintptr_t begin = gone->address, behind = weir__extent_end(gone);
    const uint32_t home = fresh->home;
    const uint64_t number = fresh->number;
    weir__idle_remove(pool, other);
    const bool merged = kept == front ? weir__extent_merge(&pool->store, front, back)
                                      : weir__extent_merge_front(&pool->store, front, back);
    if (!merged) {
        weir__idle_insert(pool, other);
        return fresh;
    }
    kept->home = home;
    kept->number = number;
    kept->state = WEIR__IDLE;
    uint32_t place = weir__place_of(&pool->pages, weir__page_ceil(&pool->pages, begin));
    const uint32_t end = weir__place_of(&pool->pages, weir__page_ceil(&pool->pages, behind));
    for (; place < end; place++) pool->pages.extent_at[place] = kept;
    if (kept->previous == NULL) pool->first = kept;
    return kept;
}

struct weir__extent *weir__settle_idle(struct weir_pool *pool, struct weir__extent *extent) {
    extent->state = WEIR__IDLE;
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (extent->tags[i].number == 0) extent->tags[i].number = extent->number;
    extent->fixed = weir__is_fixed(pool, extent);
    struct weir__extent *previous = extent->previous, *next = extent->next;
    if (next != NULL && next->state == WEIR__IDLE && are_best_as_one(pool, extent, next))
        extent = join_idle(pool, extent, next, extent);
    if (previous != NULL && previous->state == WEIR__IDLE && are_best_as_one(pool, previous, extent))
        extent = join_idle(pool, previous, extent, extent);
    prune(pool, extent);
    weir__idle_insert(pool, extent);
    return extent;
}

bool weir__settle_complete(struct weir_pool *pool) {
    struct weir__queue *queue = &pool->incomplete;
    bool merged = false;
    size_t left = 0; /* what is put back on the way is not looked at again */
    for (const struct weir__extent *extent = queue->oldest; extent != NULL; extent = extent->newer) left++;
    for (struct weir__extent *extent = queue->oldest; extent != NULL && left > 0; extent = queue->cursor, left--) {
        queue->cursor = extent->newer;
        if (!weir__order_extent_is_complete(&pool->order, extent)) continue;
        const size_t bytes = extent->bytes;
        weir__idle_remove(pool, extent);
        merged |= weir__settle_idle(pool, extent)->bytes > bytes;
    }
    queue->cursor = NULL;
    return merged;
}

/* ---- bare ones -------------------------------------------------------------------------------------------------- */

struct weir__extent *weir__settle_bare(struct weir_pool *pool, struct weir__extent *extent) {
    extent->state = WEIR__BARE;
    if (extent->stale) {
        for (uint32_t i = 0; i < extent->tag_count; i++) extent->tags[i].bytes = 0;
        prune(pool, extent);
        bare_insert(pool, extent);
        return extent;
    }
    struct weir__extent *previous = extent->previous, *next = extent->next;
    weir__extent_tags_clear(extent);
    if (next != NULL && next->state == WEIR__BARE && !next->stale) {
        bare_remove(pool, next);
        weir__extent_merge(&pool->store, extent, next);
    }
    if (previous != NULL && previous->state == WEIR__BARE && !previous->stale) {
        bare_remove(pool, previous);
        weir__extent_merge(&pool->store, previous, extent);
        extent = previous;
    }
    bare_insert(pool, extent);
    return extent;
}

/* ---- carving ---------------------------------------------------------------------------------------------------- */

/* Cuts an extent after `bytes` bytes; the shorter part is the new one, since its pages are to be written down again.
 * Gives: the back; NULL without host memory. */
static struct weir__extent *cut(struct weir_pool *pool, struct weir__extent *extent, size_t bytes) {
    if (bytes < extent->bytes - bytes) {
        struct weir__extent *front = weir__extent_split_front(&pool->store, extent, bytes);
        if (front == NULL) return NULL;
        own(pool, front);
        return extent;
    }
    struct weir__extent *back = weir__extent_split(&pool->store, extent, bytes);
    if (back != NULL) own(pool, back);
    return back;
}

struct weir__extent *weir__carve(struct weir_pool *pool, struct weir__extent *extent, uintptr_t begin, size_t bytes) {
    assert(extent->address <= begin && begin + bytes <= weir__extent_end(extent) && bytes > 0);
    struct weir__extent *middle = extent;
    weir__unused_remove(pool, extent);
    if (begin > middle->address) {
        struct weir__extent *back = cut(pool, middle, begin - middle->address);
        if (back == NULL) {
            unused_insert(pool, middle, NULL);
            return NULL;
        }
        unused_insert(pool, back->previous, back);
        middle = back;
    }
    if (bytes < middle->bytes) {
        struct weir__extent *back = cut(pool, middle, bytes);
        if (back == NULL) {
            unused_insert(pool, middle,
                          NULL); /* apart from what is before it, which costs a good fit and nothing else */
            return NULL;
        }
        middle = back->previous;
        unused_insert(pool, back, middle);
    }
    return middle;
}
