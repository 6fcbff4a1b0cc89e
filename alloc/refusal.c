/* SPDX-License-Identifier: Apache-2.0 */
/* The answer out of memory: what fills the device at that moment. */
#include <stdio.h>
#include <string.h>

#include "alloc/history.h"
#include "alloc/pool.h"
#include "alloc/trace.h"
#include "device/budget.h"

/* ---- what fills the device -------------------------------------------------------------------------------------- */

size_t weir__device_free_bytes(const struct weir_pool *pool) {
    size_t free_bytes = 0, total_bytes = 0;
    if (weir__in_host_function() || weir__device_enter(pool->device) != WEIR_OK) return WEIR__FREE_NOT_KNOWN;
    const CUresult code = pool->device->driver->memory_info(&free_bytes, &total_bytes);
    weir__device_leave(pool->device);
    return code == CUDA_SUCCESS ? weir__device_free(pool->device, free_bytes) : WEIR__FREE_NOT_KNOWN;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* What the pool does not hold is others', or free: within the limit or above it. The driver's figure is of another moment
 * than ours, so it is cut to what is left; where it is not known, nothing is others'. */
static void divide_rest(const struct weir_pool *pool, size_t free_bytes, struct weir_pool_refusal *parts) {
    const size_t rest = pool->capacity_bytes - pool->held_bytes, unused = least(free_bytes, rest);
    parts->others_bytes = rest - unused;
    parts->untaken_bytes = least(weir__untaken_bytes(pool), unused);
    parts->above_limit_bytes = unused - parts->untaken_bytes;
}

struct weir_pool_refusal weir__parts(const struct weir_pool *pool, uint32_t slot, size_t free_bytes) {
    const size_t asker = slot == WEIR__SLOT_NONE ? 0 : pool->order.slots[slot]->idle_bytes;
    struct weir_pool_refusal parts = {
        .size = sizeof parts,
        .iteration = pool->iteration,
        .capacity_bytes = pool->capacity_bytes,
        .limit_bytes = pool->limit_bytes,
        .live_bytes = pool->live_bytes,
        .idle_asker_bytes = asker,
        .idle_others_bytes = pool->idle_bytes - asker,
        .moving_bytes = pool->moving_bytes,
        .unmapped_bytes = pool->unmapped_bytes,
    };
    divide_rest(pool, free_bytes, &parts);
    return parts;
}

size_t weir__parts_of_family(const struct weir_pool *pool, const struct weir_pool_refusal *parts) {
    return least(weir__family_others(pool), parts->others_bytes);
}

/* ---- the refusal ------------------------------------------------------------------------------------------------ */

static enum weir_status say(const struct weir_pool *pool, const struct weir_pool_refusal *refusal) {
    char waited[96] = "", family[64] = "";
    if (pool->refused_family_bytes > 0)
        snprintf(family, sizeof family, "%zu held by its family, ", pool->refused_family_bytes);
    if (pool->waited_out)
        snprintf(waited, sizeof waited, "; the wait limit of %g s passed with idle memory in use still",
                 (double)pool->wait_limit_ns * 1e-9);
    return weir__fail(WEIR_OUT_OF_MEMORY, 0, NULL,
                      "%zu bytes for %s can't be had: of %zu bytes, %zu are live, %zu idle on it, %zu idle on other "
                      "streams, %zu not taken, %s%zu held by others%s%s (weir_pool_report has more)",
                      refusal->asked_bytes, pool->refused_stream, refusal->limit_bytes, refusal->live_bytes,
                      refusal->idle_asker_bytes, refusal->idle_others_bytes, refusal->untaken_bytes, family,
                      refusal->others_bytes - pool->refused_family_bytes,
                      pool->driver_refused ? ", since the driver had no more" : "", waited);
}

enum weir_status weir__refuse(struct weir_pool *pool, const struct weir__request *request, size_t free_bytes) {
    struct weir__slot *slot = pool->order.slots[request->slot];
    weir__fronts_drain(pool);
    weir__account_short(pool, request->slot);
    pool->out_of_memory++;
    slot->refusals++;
    pool->was_refused = true;
    pool->refused_allocs = pool->allocs;
    pool->driver_refused = request->most_created != SIZE_MAX || request->most_mapped != SIZE_MAX;
    pool->waited_out = request->waited_out;
    pool->refusal = weir__parts(pool, request->slot, free_bytes);
    pool->refused_family_bytes = weir__parts_of_family(pool, &pool->refusal);
    pool->refusal.asked_bytes = request->requested_bytes;
    pool->refusal.stream = weir__slot_stream(slot);
    pool->refusal.largest_idle_bytes = pool->policy->largest_idle(pool, request->slot);
    weir__slot_name(pool, request->slot, pool->refused_stream, sizeof pool->refused_stream);
    weir__trace_refused(pool->trace, request->requested_bytes, slot->stream);
    weir__history_add(pool, WEIR__PAST_REFUSED, pool->refusal.untaken_bytes + pool->refusal.above_limit_bytes,
                      request->requested_bytes, request->slot);
    return say(pool, &pool->refusal);
}

/* ---- public ----------------------------------------------------------------------------------------------------- */

enum weir_status weir_pool_get_refusal(struct weir_pool *pool, struct weir_pool_refusal *refusal) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_get_refusal");
    if (status != WEIR_OK) return status;
    if (refusal == NULL) return WEIR__INVALID("weir_pool_get_refusal: refusal is NULL");
    if (refusal->size < sizeof refusal->size)
        return WEIR__INVALID("weir_pool_get_refusal: refusal->size must be sizeof(struct weir_pool_refusal)");
    weir__pool_lock(pool);
    bool refused = pool->was_refused;
    struct weir_pool_refusal last = pool->refusal;
    weir__pool_unlock(pool);
    if (!refused) return WEIR_NOT_READY;
    last.size = refusal->size < sizeof last ? refusal->size : sizeof last;
    memcpy(refusal, &last, last.size);
    return WEIR_OK;
}
