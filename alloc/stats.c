/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts, and statistics of the pool and by stream. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "alloc/pool.h"

static void raise_to(size_t *peak, size_t value) {
    if (value > *peak) *peak = value;
}

bool weir__account_hold(struct weir_pool *pool, size_t bytes) {
    if (!weir__family_hold(pool, bytes)) return false;
    raise_to(&pool->peak_held_bytes, pool->held_bytes);
    assert(pool->held_bytes <= pool->most_held_bytes);
    return true;
}

void weir__account_unhold(struct weir_pool *pool, size_t bytes) {
    assert(bytes <= pool->held_bytes);
    weir__family_unhold(pool, bytes);
    pool->most_held_bytes = pool->held_bytes > pool->limit_bytes ? pool->held_bytes : pool->limit_bytes;
}

/* What fronts keep is no part of a peak. */
static void count_peaks(struct weir_pool *pool, struct weir__slot *slot) {
    size_t kept = 0, requested = 0;
    const bool withheld = pool->fronts.withheld_bytes > 0 || pool->fronts.withheld_requested_bytes > 0;
    if (withheld || weir__fronts_keep_any(pool)) weir__fronts_pause(pool, &kept, &requested);
    raise_to(&pool->peak_live_bytes, pool->live_bytes - kept);
    raise_to(&pool->peak_requested_bytes, pool->requested_bytes - requested);
    raise_to(&slot->peak_live_bytes, slot->live_bytes - (kept > 0 ? weir__front_kept_bytes(slot) : 0));
}

void weir__account_live(struct weir_pool *pool, const struct weir__extent *used) {
    struct weir__slot *slot = pool->order.slots[used->home];
    pool->live_bytes += used->bytes;
    pool->requested_bytes += used->requested_bytes;
    pool->live_blocks++;
    slot->live_bytes += used->bytes;
    if (pool->live_bytes - pool->fronts.withheld_bytes > pool->peak_live_bytes ||
        pool->requested_bytes - pool->fronts.withheld_requested_bytes > pool->peak_requested_bytes ||
        slot->live_bytes - weir__front_withheld_bytes(slot) > slot->peak_live_bytes)
        count_peaks(pool, slot);
}

void weir__account_taken(struct weir_pool *pool, struct weir__slot *slot) { count_peaks(pool, slot); }

void weir__account_dead(struct weir_pool *pool, const struct weir__extent *used) {
    struct weir__slot *slot = pool->order.slots[used->home];
    assert(pool->live_bytes >= used->bytes && slot->live_bytes >= used->bytes && pool->live_blocks > 0);
    pool->live_bytes -= used->bytes;
    pool->requested_bytes -= used->requested_bytes;
    pool->live_blocks--;
    slot->live_bytes -= used->bytes;
}

/* A front looks at these two without the pool's lock. */
static void set_idle(struct weir__slot *slot, size_t bytes) {
    const size_t with_kept = bytes + weir__front_kept_bytes(slot);
    __atomic_store_n(&slot->idle_bytes, bytes, __ATOMIC_RELAXED);
    if (with_kept > slot->peak_idle_bytes) __atomic_store_n(&slot->peak_idle_bytes, with_kept, __ATOMIC_RELAXED);
}

void weir__account_idle(struct weir_pool *pool, uint32_t slot_number, size_t bytes) {
    struct weir__slot *slot = pool->order.slots[slot_number];
    pool->idle_bytes += bytes;
    set_idle(slot, slot->idle_bytes + bytes);
}

void weir__account_kept(struct weir__slot *slot) { set_idle(slot, slot->idle_bytes); }

void weir__account_unidle(struct weir_pool *pool, uint32_t slot_number, size_t bytes) {
    struct weir__slot *slot = pool->order.slots[slot_number];
    assert(pool->idle_bytes >= bytes && slot->idle_bytes >= bytes);
    pool->idle_bytes -= bytes;
    __atomic_store_n(&slot->idle_bytes, slot->idle_bytes - bytes, __ATOMIC_RELAXED);
}

void weir__fronts_count(struct weir_pool *pool, struct weir__front *front) {
    pool->allocs += front->allocs;
    pool->frees += front->frees;
    front->slot->allocs += front->allocs;
    front->slot->frees += front->frees;
    front->allocs = front->frees = 0;
}

void weir__account_shown(struct weir_pool *pool, struct weir__front *front, bool shown) {
    struct weir__slot *slot = front->slot;
    const size_t bytes = shown ? front->kept_bytes : 0 - front->kept_bytes; /* to be taken off; wraps */
    const size_t requested = shown ? front->kept_requested_bytes : 0 - front->kept_requested_bytes;
    weir__fronts_count(pool, front);
    pool->live_bytes -= bytes;
    pool->idle_bytes += bytes;
    pool->requested_bytes -= requested;
    pool->live_blocks -= shown ? front->kept : 0 - (uint64_t)front->kept;
    slot->live_bytes -= bytes;
    slot->idle_bytes += bytes;
}

void weir__account_short(struct weir_pool *pool, uint32_t slot_number) {
    struct weir__slot *slot = pool->order.slots[slot_number];
    slot->stranded_bytes = pool->idle_bytes - slot->idle_bytes;
    raise_to(&slot->peak_stranded_bytes, slot->stranded_bytes);
    raise_to(&pool->stranded_bytes, slot->stranded_bytes);
    raise_to(&pool->peak_stranded_bytes, slot->stranded_bytes);
}

void weir__account_device_wait(struct weir_pool *pool, uint32_t slot) {
    pool->device_waits++;
    pool->order.slots[slot]->device_waits++;
}

void weir__account_host_wait(struct weir_pool *pool, uint32_t slot) {
    pool->host_waits++;
    if (slot != WEIR__SLOT_NONE) pool->order.slots[slot]->host_waits++;
}

void weir__account_host_waited(struct weir_pool *pool, uint32_t slot, uint64_t since_ns) {
    const uint64_t ns = weir__device_now_ns(pool->device) - since_ns;
    pool->host_wait_ns += ns;
    if (slot != WEIR__SLOT_NONE) pool->order.slots[slot]->host_wait_ns += ns;
}

void weir__account_rename(struct weir_pool *pool, uint32_t from, uint32_t to, size_t bytes) {
    struct weir__slot *of = pool->order.slots[from], *now = pool->order.slots[to];
    assert(of->live_bytes >= bytes);
    of->live_bytes -= bytes;
    now->live_bytes += bytes;
    raise_to(&now->peak_live_bytes, now->live_bytes);
}

void weir__account_gone(struct weir_pool *pool, uint32_t slot_number) {
    struct weir__slot *of = pool->order.slots[slot_number], *gone = pool->order.slots[WEIR__SLOT_GONE];
#define HAND_OVER(type, field, text)                                                                                   \
    gone->field += of->field;                                                                                          \
    of->field = 0;
    WEIR_STREAM_COUNTS_LIST(HAND_OVER)
#undef HAND_OVER
}

void weir__charge(struct weir_pool *pool, uint32_t slot_number) {
    const struct weir__spent spent = weir__spent_take();
    if (spent.memory_calls + spent.order_calls == 0) return; /* the usual case */
    pool->memory_call_ns += spent.memory_call_ns;
    pool->order_call_ns += spent.order_call_ns;
    if (slot_number == WEIR__SLOT_NONE) return;
    struct weir__slot *slot = pool->order.slots[slot_number];
    slot->memory_calls += spent.memory_calls;
    slot->memory_call_ns += spent.memory_call_ns;
    slot->order_calls += spent.order_calls;
    slot->order_call_ns += spent.order_call_ns;
}

const char *weir__slot_name(const struct weir_pool *pool, uint32_t slot, char *room, size_t bytes) {
    const struct weir__slot *of = pool->order.slots[slot];
    if (of->name[0] != 0)
        snprintf(room, bytes, "%s", of->name);
    else
        snprintf(room, bytes, "stream %u", slot - 1);
    return room;
}

/* ---- what is told ----------------------------------------------------------------------------------------------- */

struct weir_pool_stats weir__tell_stats(const struct weir_pool *pool) {
    return (struct weir_pool_stats){
        .size = sizeof(struct weir_pool_stats),
        .capacity_bytes = pool->capacity_bytes,
        .limit_bytes = pool->limit_bytes,
        .live_bytes = pool->live_bytes,
        .requested_bytes = pool->requested_bytes,
        .held_bytes = pool->held_bytes,
        .idle_bytes = pool->idle_bytes,
        .moving_bytes = pool->moving_bytes,
        .unmapped_bytes = pool->unmapped_bytes,
        .peak_live_bytes = pool->peak_live_bytes,
        .peak_requested_bytes = pool->peak_requested_bytes,
        .peak_held_bytes = pool->peak_held_bytes,
        .live_blocks = pool->live_blocks,
        .allocs = pool->allocs,
        .frees = pool->frees,
        .out_of_memory = pool->out_of_memory,
        .memory_calls = __atomic_load_n(&pool->pages.memory_calls, __ATOMIC_RELAXED) +
                        __atomic_load_n(&pool->plain_memory_calls, __ATOMIC_RELAXED),
        .order_calls = pool->order.order_calls,
        .device_waits = pool->device_waits,
        .host_waits = pool->host_waits,
        .host_wait_ns = pool->host_wait_ns,
        .pages_moved = pool->pages_moved,
        .peak_stranded_bytes = pool->peak_stranded_bytes,
        .moved_bytes = pool->pages_moved * pool->granule,
        .memory_call_ns = pool->memory_call_ns,
        .order_call_ns = pool->order_call_ns,
    };
}

/* Streams that are there, and what those that are gone have left and counted. */
static bool is_told(const struct weir_pool *pool, uint32_t number) {
    const struct weir__slot *slot = pool->order.slots[number];
    if (number != WEIR__SLOT_GONE) return slot->open;
#define IS_TOLD(type, field, text)                                                                                     \
    if (slot->field > 0) return true;
    WEIR_STREAM_STATS_LIST(IS_TOLD)
#undef IS_TOLD
    return false;
}

static void tell(const struct weir_pool *pool, uint32_t number, struct weir_stream_stats *entry) {
    const struct weir__slot *slot = pool->order.slots[number];
    *entry =
        (struct weir_stream_stats){.size = entry->size, .stream = weir__slot_stream(slot), .destroyed = !slot->alive};
    weir__slot_name(pool, number, entry->name, sizeof entry->name);
#define TELL(type, field, text) entry->field = slot->field;
    WEIR_STREAM_STATS_LIST(TELL)
#undef TELL
}

/* Into an entry of the caller's size. */
static void tell_into(const struct weir_pool *pool, uint32_t number, size_t size, void *at) {
    struct weir_stream_stats entry = {.size = size};
    tell(pool, number, &entry);
    memcpy(at, &entry, size < sizeof entry ? size : sizeof entry);
    if (size > sizeof entry) memset((char *)at + sizeof entry, 0, size - sizeof entry);
}

size_t weir__tell_streams(const struct weir_pool *pool, size_t size, void *entries, size_t room) {
    size_t count = 0;
    for (uint32_t i = 0; i < pool->order.count; i++) {
        if (!is_told(pool, i)) continue;
        if (count < room) tell_into(pool, i, size, (char *)entries + count * size);
        count++;
    }
    return count;
}

/* ---- public ----------------------------------------------------------------------------------------------------- */

enum weir_status weir_pool_get_stats(struct weir_pool *pool, struct weir_pool_stats *stats) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_get_stats");
    if (status != WEIR_OK) return status;
    if (stats == NULL) return WEIR__INVALID("weir_pool_get_stats: stats is NULL");
    if (stats->size < sizeof stats->size)
        return WEIR__INVALID("weir_pool_get_stats: stats->size must be sizeof(struct weir_pool_stats)");
    weir__pool_lock(pool);
    weir__fronts_show(pool);
    struct weir_pool_stats now = weir__tell_stats(pool);
    now.size = stats->size < sizeof now ? stats->size : sizeof now;
    weir__fronts_hide(pool);
    weir__pool_unlock(pool);
    memcpy(stats, &now, now.size);
    return WEIR_OK;
}

#define LARGEST_ENTRY ((size_t)65536) /* more than any header's: the size was not set */

enum weir_status weir_pool_get_stream_stats(struct weir_pool *pool, struct weir_stream_stats *stats, size_t room,
                                            size_t *count) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_get_stream_stats");
    if (status != WEIR_OK) return status;
    if (count == NULL) return WEIR__INVALID("weir_pool_get_stream_stats: count is NULL");
    if (room > 0 && stats == NULL)
        return WEIR__INVALID("weir_pool_get_stream_stats: stats is NULL, with room for %zu", room);
    *count = 0;
    const size_t size = room > 0 ? stats->size : sizeof *stats;
    if (size < offsetof(struct weir_stream_stats, live_bytes) || size > LARGEST_ENTRY ||
        size % _Alignof(struct weir_stream_stats) != 0)
        return WEIR__INVALID("weir_pool_get_stream_stats: stats[0].size is %zu, not sizeof(struct weir_stream_stats)",
                             size);
    weir__pool_lock(pool);
    weir__fronts_show(pool);
    *count = weir__tell_streams(pool, size, stats, room);
    weir__fronts_hide(pool);
    weir__pool_unlock(pool);
    return WEIR_OK;
}
