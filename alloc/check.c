/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/check.h"

#define AT(extent) (size_t)(extent)->address, (extent)->bytes

static enum weir_status check_tags(const struct weir_pool *pool, const struct weir__extent *extent) {
    for (uint32_t i = 0; i < extent->tag_count; i++) {
        const struct weir__tag *tag = &extent->tags[i];
        WEIR__HOLDS(tag->slot < pool->order.count, "extent %#zx+%zu: tag of slot %u, there are %u", AT(extent),
                    tag->slot, pool->order.count);
        const struct weir__slot *slot = pool->order.slots[tag->slot];
        WEIR__HOLDS(slot->open, "extent %#zx+%zu: tag of the forgotten slot %u", AT(extent), tag->slot);
        WEIR__HOLDS(tag->tick <= slot->tick, "extent %#zx+%zu: tag of slot %u is in the future", AT(extent), tag->slot);
        for (uint32_t k = 0; k < i; k++)
            WEIR__HOLDS(extent->tags[k].slot != tag->slot, "extent %#zx+%zu: two tags of slot %u", AT(extent),
                        tag->slot);
    }
    return WEIR_OK;
}

enum weir_status weir__check_extent(const struct weir_pool *pool, const struct weir__extent *extent) {
    WEIR__HOLDS(extent->bytes > 0 && extent->bytes % WEIR__ALIGNMENT == 0 && extent->address % WEIR__ALIGNMENT == 0,
                "extent %#zx+%zu is not aligned to %zu", AT(extent), WEIR__ALIGNMENT);
    bool in_blocks = weir__table_get(&pool->blocks, extent->address) == extent;
    WEIR__HOLDS(in_blocks == (extent->state == WEIR__USED), "extent %#zx+%zu: state %d, but %s the table of blocks",
                AT(extent), (int)extent->state, in_blocks ? "in" : "not in");
    WEIR__HOLDS(extent->state != WEIR__IDLE || weir__extent_tagged_bytes(extent) == extent->bytes,
                "extent %#zx+%zu: streams account for %zu bytes", AT(extent), weir__extent_tagged_bytes(extent));
    return check_tags(pool, extent);
}

static enum weir_status check_slots(const struct weir_pool *pool, const struct weir__sums *sums) {
    size_t live = 0, idle = 0;
    for (uint32_t i = 0; i < pool->order.count; i++) {
        const struct weir__slot *slot = pool->order.slots[i];
        live += slot->live_bytes;
        idle += slot->idle_bytes;
        WEIR__HOLDS(slot->complete < slot->tick, "slot %u: tick %llu is complete before it was recorded", i,
                    (unsigned long long)slot->complete);
        for (uint32_t t = 0; t < pool->order.count; t++)
            WEIR__HOLDS(slot->after[t] < pool->order.slots[t]->tick, "slot %u runs after the future of slot %u", i, t);
    }
    WEIR__HOLDS(live == sums->live, "streams have %zu bytes live, the extents %zu", live, sums->live);
    WEIR__HOLDS(idle == sums->idle, "streams have %zu bytes idle, the extents %zu", idle, sums->idle);
    return WEIR_OK;
}

enum weir_status weir__check_sums(const struct weir_pool *pool, const struct weir__sums *sums) {
    WEIR__HOLDS(sums->live == pool->live_bytes, "live is %zu, the extents have %zu", pool->live_bytes, sums->live);
    WEIR__HOLDS(sums->requested == pool->requested_bytes, "requested is %zu, the extents have %zu",
                pool->requested_bytes, sums->requested);
    WEIR__HOLDS(sums->idle == pool->idle_bytes, "idle is %zu, the extents have %zu", pool->idle_bytes, sums->idle);
    WEIR__HOLDS(pool->live_bytes + pool->idle_bytes + pool->moving_bytes + pool->unmapped_bytes == pool->held_bytes,
                "live %zu + idle %zu + moving %zu + unmapped %zu is not held %zu", pool->live_bytes, pool->idle_bytes,
                pool->moving_bytes, pool->unmapped_bytes, pool->held_bytes);
    WEIR__HOLDS(pool->held_bytes <= pool->most_held_bytes && pool->most_held_bytes <= pool->capacity_bytes,
                "held %zu, at most %zu (limit %zu), capacity %zu", pool->held_bytes, pool->most_held_bytes,
                pool->limit_bytes, pool->capacity_bytes);
    WEIR__HOLDS(sums->blocks + sums->kept <= pool->blocks.count && pool->live_blocks + sums->kept == pool->blocks.count,
                "%zu blocks in the table, %zu extents, %zu kept ones, %llu live", pool->blocks.count, sums->blocks,
                sums->kept, (unsigned long long)pool->live_blocks);
    return check_slots(pool, sums);
}

/* ---- the shared pool -------------------------------------------------------------------------------------------- */

static enum weir_status check_neighbours(const struct weir__extent *extent) {
    const struct weir__extent *next = extent->next;
    if (next == NULL) return WEIR_OK;
    WEIR__HOLDS(weir__extent_end(extent) == next->address && next->previous == extent,
                "extents %#zx+%zu and %#zx+%zu do not tile", AT(extent), AT(next));
    WEIR__HOLDS(extent->state != WEIR__BARE || next->state != WEIR__BARE || extent->stale || next->stale,
                "extents %#zx+%zu and its neighbour are both bare", AT(extent));
    return WEIR_OK;
}

/* Pages under an extent that is not moving. A page at an edge may be shared with a neighbour that is mapped too. */
static enum weir_status check_mapping(const struct weir_pool *pool, const struct weir__extent *extent) {
    bool bare = extent->state == WEIR__BARE;
    WEIR__HOLDS(!bare || (extent->address % pool->granule == 0 && extent->bytes % pool->granule == 0),
                "bare extent %#zx+%zu does not begin and end with a page", AT(extent));
    if (bare && extent->bytes > pool->capacity_bytes) return WEIR_OK; /* the arena's long tail */
    uintptr_t at = weir__page_floor(&pool->pages, extent->address);
    for (; at < weir__extent_end(extent); at += pool->granule) {
        const uint32_t place = weir__place_of(&pool->pages, at);
        WEIR__HOLDS(weir__place_is_home(&pool->pages, place) == !bare,
                    "extent %#zx+%zu, state %d: page %#zx is %sat home", AT(extent), (int)extent->state, (size_t)at,
                    bare ? "" : "not ");
        WEIR__HOLDS(!bare || extent->stale || weir__page_at(&pool->pages, place) == 0,
                    "bare extent %#zx+%zu: %#zx is mapped", AT(extent), (size_t)at);
        WEIR__HOLDS((bare && !extent->stale) || at < extent->address || pool->pages.extent_at[place] == extent,
                    "extent %#zx+%zu, state %d: %#zx is written down as another's", AT(extent), (int)extent->state,
                    (size_t)at);
    }
    return WEIR_OK;
}

static enum weir_status check_index(const struct weir__index *index, enum weir__extent_state state, uint32_t home,
                                    size_t *count) {
    const struct weir__extent *before = NULL;
    for (struct weir__extent *at = weir__index_at_least(index, 0, 0); at != NULL; at = weir__index_after(index, at)) {
        WEIR__HOLDS(at->state == state && (state == WEIR__BARE || at->home == home),
                    "extent %#zx+%zu, state %d, home %u is in the index of home %u", AT(at), (int)at->state, at->home,
                    home);
        WEIR__HOLDS(before == NULL || before->bytes < at->bytes || before->address < at->address,
                    "extent %#zx+%zu is out of order in its index", AT(at));
        before = at;
        ++*count;
    }
    return WEIR_OK;
}

static enum weir_status check_indexes(const struct weir_pool *pool, size_t unused) {
    size_t count = 0;
    enum weir_status status = check_index(&pool->bare, WEIR__BARE, 0, &count);
    for (uint32_t i = 0; i < pool->order.count && status == WEIR_OK; i++)
        status = check_index(&pool->order.slots[i]->idle[0], WEIR__IDLE, i, &count);
    if (status != WEIR_OK) return status;
    WEIR__HOLDS(count == unused, "%zu extents are in an index, %zu are idle or bare", count, unused);
    return WEIR_OK;
}

static void add_up(const struct weir_pool *pool, const struct weir__extent *extent, struct weir__sums *sums) {
    switch (extent->state) {
    case WEIR__USED:
        if (extent->kept) {
            sums->idle += extent->bytes;
            sums->kept++;
            break;
        }
        sums->live += extent->bytes;
        sums->requested += extent->requested_bytes;
        sums->blocks++;
        break;
    case WEIR__IDLE:
        sums->idle += extent->bytes;
        if (!extent->fixed) sums->idle_pages += weir__extent_whole_pages(extent, pool->granule);
        break;
    case WEIR__MOVING:
        if (extent->was == WEIR__IDLE) sums->moving += extent->bytes;
        break;
    case WEIR__BARE:
    case WEIR__PENDING:
        break;
    }
}

enum weir_status weir__check_shared(struct weir_pool *pool) {
    struct weir__sums sums = {0};
    size_t unused = 0;
    uintptr_t end = pool->pages.arena;
    for (const struct weir__extent *extent = pool->first; extent != NULL; extent = extent->next) {
        enum weir_status status = weir__check_extent(pool, extent);
        if (status == WEIR_OK) status = check_neighbours(extent);
        if (status == WEIR_OK && extent->state != WEIR__MOVING) status = check_mapping(pool, extent);
        if (status != WEIR_OK) return status;
        add_up(pool, extent, &sums);
        unused += extent->state == WEIR__IDLE || extent->state == WEIR__BARE;
        end = weir__extent_end(extent);
    }
    WEIR__HOLDS(end == pool->pages.arena + pool->pages.arena_bytes, "the extents end at %#zx, not with the arena",
                (size_t)end);
    WEIR__HOLDS(sums.moving + pool->stuck_bytes == pool->moving_bytes, "moving is %zu, the extents have %zu",
                pool->moving_bytes, sums.moving);
    WEIR__HOLDS(sums.idle_pages == pool->idle_pages, "%zu whole idle pages, the extents have %zu", pool->idle_pages,
                sums.idle_pages);
    WEIR__HOLDS(pool->held_bytes == pool->pages.held * pool->granule + pool->alone_bytes,
                "held is %zu bytes, %zu pages and %zu bytes alone", pool->held_bytes, pool->pages.held,
                pool->alone_bytes);
    WEIR__HOLDS(pool->in_flight > 0 || pool->unmapped_bytes == pool->pages.spare_count * pool->granule,
                "unmapped is %zu bytes, %zu pages are spare", pool->unmapped_bytes, pool->pages.spare_count);
    enum weir_status status = check_indexes(pool, unused);
    if (status == WEIR_OK) status = weir__alone_check(pool, &sums);
    return status == WEIR_OK ? weir__check_sums(pool, &sums) : status;
}

enum weir_status weir_pool_check(struct weir_pool *pool) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_check");
    if (status != WEIR_OK) return status;
    weir__pool_lock(pool);
    weir__fronts_show(pool);
    status = pool->policy->check(pool);
    if (status == WEIR_OK) status = weir__fronts_check(pool);
    weir__fronts_hide(pool);
    if (status == WEIR_OK) status = weir__family_check(pool);
    weir__pool_unlock(pool);
    return status;
}
