/* SPDX-License-Identifier: Apache-2.0 */
/* Peer access: to the driver a mapping has it or not, so it is set for each. */
#include "alloc/alone.h"
#include "alloc/pool.h"
#include "device/emulated.h"

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

/* Threads that map all the time would else keep out who adds a peer. */
void weir__access_open(struct weir__pages *pages) {
    pthread_rwlockattr_t writers_first;
    pthread_rwlockattr_init(&writers_first);
    pthread_rwlockattr_setkind_np(&writers_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&pages->access_lock, &writers_first);
    pthread_rwlockattr_destroy(&writers_first);
}

/* Threads that take turns can't wait for each other at a lock. */
void weir__access_share(struct weir__pages *pages) {
    while (pthread_rwlock_tryrdlock(&pages->access_lock) != 0) {
        if (!weir__device_takes_turns(pages->device)) {
            pthread_rwlock_rdlock(&pages->access_lock);
            return;
        }
        weir__device_pause(pages->device, WEIR__TURN_NS);
    }
}

/* With the pool's lock. */
static void access_take(struct weir_pool *pool) {
    weir__pool_lock(pool);
    while (weir__device_takes_turns(pool->device) && pthread_rwlock_trywrlock(&pool->pages.access_lock) != 0) {
        weir__pool_unlock(pool);
        weir__device_pause(pool->device, WEIR__TURN_NS);
        weir__pool_lock(pool);
    }
    if (!weir__device_takes_turns(pool->device)) pthread_rwlock_wrlock(&pool->pages.access_lock);
}

static bool is_known(const struct weir__pages *pages, CUdevice peer) {
    for (size_t i = 1; i < weir__accessors(pages); i++)
        if (pages->access[i].location.id == peer) return true;
    return false;
}

static enum weir_status add(struct weir_pool *pool, CUdevice peer) {
    struct weir__pages *pages = &pool->pages;
    const size_t at = weir__accessors(pages);
    if (is_known(pages, peer) || at > WEIR__MOST_PEERS) return WEIR_OK;
    enum weir_status status = weir__device_enter(pool->device);
    if (status != WEIR_OK) return status;
    pages->access[at] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer},
                                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    pages->peer_count = (unsigned)at;
    status = set_in_arena(pool, &pages->access[at]);
    if (status == WEIR_OK) status = weir__alone_set_access(pool, &pages->access[at]);
    weir__device_leave(pool->device);
    return status;
}

/* Locks are held over the driver's calls here, as nowhere else: what is mapped must stay so, and a program does this once. None of
 * the calls waits for work. */
enum weir_status weir__pool_add_peer(struct weir_pool *pool, CUdevice peer) {
    enum weir_status status = weir__pool_usable(pool, "cuCtxEnablePeerAccess");
    if (status != WEIR_OK || peer == pool->device->handle) return status;
    access_take(pool);
    status = add(pool, peer);
    pthread_rwlock_unlock(&pool->pages.access_lock);
    weir__pool_unlock(pool);
    return status;
}
