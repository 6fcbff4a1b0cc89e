/* SPDX-License-Identifier: Apache-2.0 */
/* The limit, which may change at any time, and the peaks. */
#include "alloc/limit.h"

#include "alloc/pool.h"

static size_t above(size_t a, size_t b) { return a > b ? a - b : 0; }

size_t weir__untaken_bytes(const struct weir_pool *pool) {
    const size_t own = above(pool->limit_bytes, pool->held_bytes), family = weir__family_untaken(pool);
    return own < family ? own : family;
}

size_t weir__excess_bytes(const struct weir_pool *pool) {
    const size_t own = above(pool->held_bytes, pool->limit_bytes), family = weir__family_excess(pool);
    const size_t most = own > family ? own : family;
    return most < pool->held_bytes ? most : pool->held_bytes;
}

enum weir_status weir__trim(struct weir_pool *pool, size_t target_bytes) {
    struct weir__request trim = {.slot = WEIR__SLOT_NONE, .wait_limit_ns = pool->wait_limit_ns};
    do weir__alone_trim(pool, target_bytes);
    while (pool->deterministic && pool->held_bytes > target_bytes && weir__alone_wait(pool, &trim));
    return pool->policy->trim(pool, target_bytes);
}

void weir__give_excess_back(struct weir_pool *pool) {
    const size_t excess = weir__excess_bytes(pool);
    weir__fronts_recorded(pool, pool->plan.records);
    weir__fronts_shut(pool, excess > 0 || weir__plan_follows(&pool->plan));
    if (excess > 0 && weir__trim(pool, pool->held_bytes - excess) != WEIR_OK)
        weir__log(WEIR__LOG_WARN, "pool: memory above the limit could not be given back: %s",
                  weir_last_error()->message);
}

/* What others take as fast as it is given back would be given back for ever. */
static bool can_help(const struct weir_pool *pool, const struct weir__room *room) {
    const size_t live_bytes = pool->live_bytes - weir__fronts_kept_bytes(pool);
    return room->bytes <= above(pool->capacity_bytes, live_bytes) && room->given_bytes <= pool->capacity_bytes;
}

bool weir__pool_make_room(struct weir_pool *pool, struct weir__room *room) {
    struct weir__request request = {
        .slot = WEIR__SLOT_NONE, .wait_limit_ns = pool->wait_limit_ns, .deadline_ns = room->deadline_ns};
    if (weir__pool_usable(pool, "giving idle memory back") != WEIR_OK || weir__in_host_function()) return false;
    weir__pool_begin(pool);
    const size_t held = pool->held_bytes;
    if (can_help(pool, room)) do
            (void)weir__trim(pool, 0);
        while (pool->held_bytes >= held && weir__wait_for_idle(pool, &request));
    const size_t given = above(held, pool->held_bytes);
    room->given_bytes += given;
    room->deadline_ns = request.deadline_ns;
    weir__waiting_end(pool, &request);
    weir__charge(pool, WEIR__SLOT_NONE);
    weir__pool_end(pool);
    return given > 0;
}

bool weir__limit_has_room(const struct weir_pool *pool, size_t bytes) {
    return pool->held_bytes <= pool->limit_bytes || weir__limit_leaves(pool, bytes);
}

bool weir__limit_leaves(const struct weir_pool *pool, size_t bytes) {
    const size_t live_bytes = pool->live_bytes - weir__fronts_kept_bytes(pool);
    return live_bytes < pool->limit_bytes && bytes <= pool->limit_bytes - live_bytes;
}

/* ---- public ----------------------------------------------------------------------------------------------------- */

static enum weir_status may_change(const struct weir_pool *pool, const char *call) {
    enum weir_status status = weir__pool_usable(pool, call);
    if (status != WEIR_OK) return status;
    if (pool->deterministic)
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s: in deterministic mode the limit is fixed at the start",
                          call);
    if (weir__in_host_function())
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s can't be called inside a host function", call);
    return WEIR_OK;
}

static enum weir_status change(struct weir_pool *pool, struct weir__limit wanted) {
    size_t bytes;
    enum weir_status status = weir__limit_settle(pool, wanted, &bytes);
    if (status != WEIR_OK) return status;
    weir__pool_begin(pool);
    pool->limit_bytes = bytes;
    pool->most_held_bytes = pool->held_bytes > bytes ? pool->held_bytes : bytes;
    if (pool->family->root == pool) weir__family_set_limit(pool);
    weir__give_excess_back(pool);
    weir__family_give_excess_back(pool);
    weir__waiting_change(pool);
    weir__charge(pool, WEIR__SLOT_NONE);
    weir__pool_end(pool);
    return WEIR_OK;
}

enum weir_status weir_pool_set_limit(struct weir_pool *pool, size_t bytes) {
    enum weir_status status = may_change(pool, "weir_pool_set_limit");
    return status == WEIR_OK ? change(pool, (struct weir__limit){.bytes = bytes}) : status;
}

enum weir_status weir_pool_set_limit_fraction(struct weir_pool *pool, double fraction) {
    enum weir_status status = may_change(pool, "weir_pool_set_limit_fraction");
    if (status != WEIR_OK) return status;
    if (!(fraction > 0 && fraction <= 1))
        return WEIR__INVALID("weir_pool_set_limit_fraction: %g is not above 0 and at most 1", fraction);
    return change(pool, (struct weir__limit){.fraction = fraction});
}

enum weir_status weir_pool_reset_peaks(struct weir_pool *pool) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_reset_peaks");
    if (status != WEIR_OK) return status;
    weir__pool_lock(pool);
    weir__fronts_drain(pool); /* so that no alloc from a front goes past the new peaks unseen */
    pool->peak_live_bytes = pool->live_bytes;
    pool->peak_requested_bytes = pool->requested_bytes;
    pool->peak_held_bytes = pool->held_bytes;
    pool->peak_stranded_bytes = 0;
    for (uint32_t i = 0; i < pool->order.count; i++) {
        struct weir__slot *slot = pool->order.slots[i];
        slot->peak_live_bytes = slot->live_bytes;
        __atomic_store_n(&slot->peak_idle_bytes, slot->idle_bytes, __ATOMIC_RELAXED);
        slot->peak_stranded_bytes = 0;
    }
    weir__pool_unlock(pool);
    return WEIR_OK;
}
