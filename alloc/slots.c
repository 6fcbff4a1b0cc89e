/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that come and go: finding the slot of one, and letting the extents forget those that are gone. */
#include <assert.h>

#include "alloc/pool.h"

#define MOST_GONE 32u

static bool names_gone(const struct weir_pool *pool, const struct weir__extent *extent) {
    if (weir__order_is_over(&pool->order, extent->home)) return true;
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (weir__order_is_over(&pool->order, extent->tags[i].slot)) return true;
    return false;
}

/* What a stream that is gone used last is now accounted to the slot that stands for all of them; a noted use by it is
 * over, and says nothing any more. */
static void rename_tags(const struct weir_pool *pool, struct weir__extent *extent) {
    size_t gone_bytes = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < extent->tag_count; i++) {
        struct weir__tag tag = extent->tags[i];
        if (tag.slot != WEIR__SLOT_GONE && !weir__order_is_over(&pool->order, tag.slot))
            extent->tags[kept++] = tag;
        else
            gone_bytes += tag.bytes;
    }
    if (kept != extent->tag_count) extent->tag_count = kept;
    if (gone_bytes > 0) weir__extent_tag_add(extent, (struct weir__tag){.slot = WEIR__SLOT_GONE, .bytes = gone_bytes});
}

static void rename_home(struct weir_pool *pool, struct weir__extent *extent) {
    if (!weir__order_is_over(&pool->order, extent->home)) return;
    if (extent->state == WEIR__USED) weir__account_rename(pool, extent->home, WEIR__SLOT_GONE, extent->bytes);
    extent->home = WEIR__SLOT_GONE;
}

static void visit(struct weir_pool *pool, struct weir__extent *extent) {
    if (!names_gone(pool, extent)) return;
    bool idle = extent->state == WEIR__IDLE;
    if (idle) weir__idle_remove(pool, extent);
    rename_tags(pool, extent);
    rename_home(pool, extent);
    if (idle) weir__idle_insert(pool, extent);
}

/* Blocks of no bytes lie in no arena, and the per-stream pool does not visit its extents. */
static void drop_notes_of_gone(struct weir_pool *pool) {
    for (size_t i = 0; i < pool->blocks.room; i++) {
        struct weir__extent *block = pool->blocks.entries[i].value;
        if (block == NULL) continue;
        rename_tags(pool, block);
        if (block->bytes == 0) rename_home(pool, block);
    }
}

void weir__forget_gone(struct weir_pool *pool) {
    weir__order_poll(&pool->order);
    weir__fronts_lock(pool); /* they change the notes of their own */
    drop_notes_of_gone(pool);
    if (pool->policy->each_extent != NULL)
        pool->policy->each_extent(pool, visit);
    else
        weir__alone_each(pool, visit);
    weir__fronts_unlock(pool);
    for (uint32_t i = 1; i < pool->order.count; i++) {
        const struct weir__slot *slot = pool->order.slots[i];
        bool unnamed = pool->policy->each_extent != NULL || (slot->live_bytes == 0 && slot->idle_bytes == 0 &&
                                                             pool->pending == NULL && pool->moving_bytes == 0);
        if (!weir__order_is_over(&pool->order, i) || !unnamed) continue;
        weir__account_gone(pool, i);
        weir__order_forget(&pool->order, i);
    }
}

void weir__forget_gone_in_order(struct weir_pool *pool) {
    if (!pool->deterministic || pool->order.not_alive < pool->gone_kept + MOST_GONE) return;
    uint64_t since_ns = weir__device_now_ns(pool->device), deadline_ns = since_ns + pool->wait_limit_ns;
    weir__account_host_wait(pool, WEIR__SLOT_GONE);
    for (uint32_t i = 1; i < pool->order.count; i++) {
        const struct weir__slot *slot = pool->order.slots[i];
        if (!slot->open || slot->alive) continue;
        weir__order_wait_host(&pool->order, (struct weir__tag){.slot = i, .tick = slot->final_tick}, deadline_ns);
    }
    weir__account_host_waited(pool, WEIR__SLOT_GONE, since_ns);
    weir__forget_gone(pool);
    pool->gone_kept = pool->order.not_alive;
}

uint32_t weir__slot_for(struct weir_pool *pool, weir_stream stream) {
    uint32_t slot = weir__order_find(&pool->order, stream);
    if (slot != WEIR__SLOT_NONE) return slot;
    if (!pool->deterministic && pool->order.not_alive > 0 && !weir__in_host_function()) weir__forget_gone(pool);
    return weir__order_add(&pool->order, stream);
}
