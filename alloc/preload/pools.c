/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own memory pools: in the place of a device's default one weir serves, while that is the current one. */
#include <pthread.h>
#include <string.h>

#include "alloc/pool.h"
#include "alloc/preload/preload.h"

/* ---- which is current --------------------------------------------------------------------------------------------- */

static bool own_pool[WEIR__MOST_DEVICES];

bool weir__preload_has_own_pool(CUdevice device) {
    return device >= 0 && device < WEIR__MOST_DEVICES && __atomic_load_n(&own_pool[device], __ATOMIC_RELAXED);
}

static void note_current(const struct weir__real *driver, CUdevice device, CUmemoryPool pool) {
    CUmemoryPool usual = NULL;
    if (device >= 0 && device < WEIR__MOST_DEVICES && driver->cuDeviceGetDefaultMemPool != NULL &&
        driver->cuDeviceGetDefaultMemPool(&usual, device) == CUDA_SUCCESS)
        __atomic_store_n(&own_pool[device], pool != usual, __ATOMIC_RELAXED);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    DRIVER_OR_FAIL(driver, cuDeviceSetMemPool);
    const CUresult code = driver->cuDeviceSetMemPool(device, pool);
    if (code == CUDA_SUCCESS) note_current(driver, device, pool);
    return code;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
    DRIVER_OR_FAIL(driver, cuMemSetMemPool);
    const CUresult code = driver->cuMemSetMemPool(location, type, pool);
    if (code == CUDA_SUCCESS && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED)
        note_current(driver, location->id, pool);
    return code;
}

/* ---- the default one ---------------------------------------------------------------------------------------------- */

/* The pool of weir's that serves in the place of a default one. */
static struct weir_pool *in_place_of(const struct weir__real *driver, CUmemoryPool asked) {
    for (int ordinal = 0; ordinal < weir__process_pools_end(); ordinal++) {
        struct weir_pool *pool = weir__process_pool_made(ordinal);
        if (pool != NULL && weir__preload_is_usual(driver, asked, pool)) return pool;
    }
    return NULL;
}

CUresult cuMemPoolTrimTo(CUmemoryPool asked, size_t keep_bytes) {
    DRIVER_OR_FAIL(driver, cuMemPoolTrimTo);
    struct weir_pool *pool = in_place_of(driver, asked);
    const CUresult code = driver->cuMemPoolTrimTo(asked, keep_bytes);
    return code == CUDA_SUCCESS && pool != NULL ? weir__preload_code(weir_pool_trim(pool, keep_bytes)) : code;
}

/* ---- which devices may use its memory ----------------------------------------------------------------------------- */

/* What the driver lets other devices do with a pool's memory it does not do for memory that is mapped. As with peers of a context,
 * access is not taken away again. */
static CUresult add_accessors(struct weir_pool *pool, const CUmemAccessDesc *access, size_t count) {
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++)
        if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            status = weir__pool_add_peer(pool, access[i].location.id);
    return weir__preload_code(status);
}

CUresult cuMemPoolSetAccess(CUmemoryPool asked, const CUmemAccessDesc *access, size_t count) {
    DRIVER_OR_FAIL(driver, cuMemPoolSetAccess);
    struct weir_pool *pool = in_place_of(driver, asked);
    const CUresult code = driver->cuMemPoolSetAccess(asked, access, count);
    return code == CUDA_SUCCESS && pool != NULL ? add_accessors(pool, access, count) : code;
}

void weir__preload_new_pool(const struct weir__real *driver, struct weir_pool *pool) {
    CUmemoryPool usual = NULL;
    int devices = 0;
    if (driver->cuMemPoolGetAccess == NULL || driver->cuDeviceGetDefaultMemPool == NULL ||
        driver->cuDeviceGetDefaultMemPool(&usual, pool->device->handle) != CUDA_SUCCESS ||
        driver->cuDeviceGetCount(&devices) != CUDA_SUCCESS)
        return;
    for (int i = 0; i < devices; i++) {
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}};
        if (driver->cuMemPoolGetAccess(&access.flags, usual, &access.location) == CUDA_SUCCESS &&
            add_accessors(pool, &access, 1) != CUDA_SUCCESS)
            weir__log(WEIR__LOG_ERROR,
                      "preload: device %d may use the default memory pool of device %d, but not weir's: %s", i,
                      pool->device->ordinal, weir_last_error()->message);
    }
}

/* ---- peaks, which a program may set back -------------------------------------------------------------------------- */

/* The pool counts all its peaks anew at once. What they were before is kept: of the whole run for the summary, and of each of the two
 * that a program can see until that one is set back. */
static struct {
    struct weir_pool_stats run;
    size_t used, reserved;
} before[WEIR__MOST_DEVICES];
static pthread_mutex_t before_lock = PTHREAD_MUTEX_INITIALIZER;

static void raise(size_t *peak, size_t to) { *peak = *peak < to ? to : *peak; }

static void raise_all(struct weir_pool_stats *peaks, const struct weir_pool_stats *to) {
    raise(&peaks->peak_live_bytes, to->peak_live_bytes);
    raise(&peaks->peak_requested_bytes, to->peak_requested_bytes);
    raise(&peaks->peak_held_bytes, to->peak_held_bytes);
    raise(&peaks->peak_stranded_bytes, to->peak_stranded_bytes);
}

void weir__preload_whole_peaks(int ordinal, struct weir_pool_stats *stats) {
    pthread_mutex_lock(&before_lock);
    raise_all(stats, &before[ordinal].run);
    pthread_mutex_unlock(&before_lock);
}

void weir__preload_forget_peaks(int ordinal) {
    pthread_mutex_lock(&before_lock);
    memset(&before[ordinal], 0, sizeof before[ordinal]);
    pthread_mutex_unlock(&before_lock);
}

static CUresult reset_peak(struct weir_pool *pool, bool used) {
    const int at = pool->device->ordinal;
    struct weir_pool_stats stats = {.size = sizeof stats};
    pthread_mutex_lock(&before_lock);
    enum weir_status status = weir_pool_get_stats(pool, &stats);
    if (status == WEIR_OK) status = weir_pool_reset_peaks(pool);
    if (status == WEIR_OK) {
        raise_all(&before[at].run, &stats);
        raise(&before[at].used, stats.peak_live_bytes);
        raise(&before[at].reserved, stats.peak_held_bytes);
        *(used ? &before[at].used : &before[at].reserved) = 0;
    }
    pthread_mutex_unlock(&before_lock);
    return weir__preload_code(status);
}

static void raise_seen(int ordinal, struct weir_pool_stats *stats) {
    pthread_mutex_lock(&before_lock);
    raise(&stats->peak_live_bytes, before[ordinal].used);
    raise(&stats->peak_held_bytes, before[ordinal].reserved);
    pthread_mutex_unlock(&before_lock);
}

/* ---- attributes --------------------------------------------------------------------------------------------------- */

CUresult cuMemPoolSetAttribute(CUmemoryPool asked, CUmemPool_attribute attribute, void *value) {
    const bool used = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    DRIVER_OR_FAIL(driver, cuMemPoolSetAttribute);
    struct weir_pool *pool = in_place_of(driver, asked);
    const CUresult code = driver->cuMemPoolSetAttribute(asked, attribute, value);
    if (code != CUDA_SUCCESS || pool == NULL || (!used && attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)) return code;
    return reset_peak(pool, used);
}

/* What both have, the driver for captures and such. */
CUresult cuMemPoolGetAttribute(CUmemoryPool asked, CUmemPool_attribute attribute, void *value) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    DRIVER_OR_FAIL(driver, cuMemPoolGetAttribute);
    struct weir_pool *pool = in_place_of(driver, asked);
    const CUresult code = driver->cuMemPoolGetAttribute(asked, attribute, value);
    if (code != CUDA_SUCCESS || pool == NULL || weir_pool_get_stats(pool, &stats) != WEIR_OK) return code;
    raise_seen(pool->device->ordinal, &stats);
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) *(uint64_t *)value += stats.held_bytes;
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) *(uint64_t *)value += stats.peak_held_bytes;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) *(uint64_t *)value += stats.live_bytes;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) *(uint64_t *)value += stats.peak_live_bytes;
    return code;
}
