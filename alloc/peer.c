/* SPDX-License-Identifier: Apache-2.0 */
/* Peer access: to the driver a mapping has it or not, so it is set for each. */
#include "alloc/alone.h"
#include "alloc/pool.h"

static enum weir_status set_access(struct weir_pool *pool, uintptr_t address, size_t bytes,
                                   const CUmemAccessDesc *access) {
    __atomic_fetch_add(&pool->pages.memory_calls, 1, __ATOMIC_RELAXED);
    return weir__device_check(pool->device, pool->device->driver->page_set_access(address, bytes, access, 1),
                              "cuMemSetAccess");
}

/* Runs of places that are mapped, one call each. */
static enum weir_status set_in_arena(struct weir_pool *pool, const CUmemAccessDesc *access) {
    const struct weir__pages *pages = &pool->pages;
    const size_t places = pages->at == NULL ? 0 : pages->arena_bytes / pages->granule;
    enum weir_status status = WEIR_OK;
    for (size_t place = 0, behind; place < places && status == WEIR_OK; place = behind + 1) {
        behind = place;
        while (behind < places && weir__page_at(pages, behind) != 0) behind++;
        if (behind > place)
            status = set_access(pool, weir__place_address(pages, (uint32_t)place), (behind - place) * pages->granule,
                                access);
    }
    return status;
}

/* Calls that began to map before now may not know of the peer. */
static enum weir_status wait_for_calls(struct weir_pool *pool) {
    const uint64_t deadline_ns = weir__device_now_ns(pool->device) + pool->wait_limit_ns;
    while (pool->in_flight > 0)
        if (!weir__wait_for_claims(pool, deadline_ns))
            return weir__fail(WEIR_OUT_OF_MEMORY, 0, NULL, "memory is being mapped for longer than the wait limit");
    return WEIR_OK;
}

static bool is_known(const struct weir__pages *pages, CUdevice peer) {
    for (size_t i = 1; i < weir__accessors(pages); i++)
        if (pages->access[i].location.id == peer) return true;
    return false;
}

/* The lock is held over the driver's calls here, as nowhere else: what is mapped must stay so, and a program does this once. None of
 * them waits for work. */
enum weir_status weir__pool_add_peer(struct weir_pool *pool, CUdevice peer) {
    struct weir__pages *pages = &pool->pages;
    enum weir_status status = weir__pool_usable(pool, "cuCtxEnablePeerAccess");
    if (status != WEIR_OK || peer == pool->device->handle) return status;
    weir__pool_lock(pool);
    const size_t at = weir__accessors(pages);
    if (!is_known(pages, peer) && at <= WEIR__MOST_PEERS) {
        pages->access[at] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer},
                                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        __atomic_store_n(&pages->peer_count, (unsigned)at, __ATOMIC_RELEASE);
        status = wait_for_calls(pool);
        if (status == WEIR_OK) status = weir__device_enter(pool->device);
        if (status == WEIR_OK) {
            status = set_in_arena(pool, &pages->access[at]);
            if (status == WEIR_OK) status = weir__alone_set_access(pool, &pages->access[at]);
            weir__device_leave(pool->device);
        }
    }
    weir__pool_unlock(pool);
    return status;
}
