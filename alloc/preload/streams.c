/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, so that pools hear of their end; contexts; and the driver's own memory pools. */
#include "alloc/pool.h"
#include "alloc/preload/pinned.h"

/* One that can't be kept in mind is a stream made elsewhere to the pool, which can deal with those. */
static CUresult adopt(const struct weir__real *driver, CUresult code, const CUstream *stream) {
    struct weir_pool *pool = code == CUDA_SUCCESS ? weir__preload_pool(driver, false) : NULL;
    if (pool != NULL) weir__device_adopt_stream(pool->device, *stream);
    return code;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuStreamCreate);
    return adopt(driver, driver->cuStreamCreate(stream, flags), stream);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    DRIVER_OR_FAIL(driver, cuStreamCreateWithPriority);
    return adopt(driver, driver->cuStreamCreateWithPriority(stream, flags, priority), stream);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    DRIVER_OR_FAIL(driver, cuStreamDestroy_v2);
    struct weir_device *device = weir__forked() ? NULL : weir__process_device_made(weir__device_of_stream(stream));
    return device == NULL ? driver->cuStreamDestroy_v2(stream)
                          : weir__preload_code(weir_stream_destroy(device, stream));
}

CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

/* All that was in the context is gone: weir's pool first, so that it gives back what it has. */
static void end_pool(const struct weir__real *driver, CUdevice device) {
    struct weir_pool *pool = weir__process_pool_made((int)device);
    if (pool == NULL) return;
    weir__pinned_reset(driver, (int)device);
    weir__preload_pool_ends((int)device, pool);
    weir__process_pool_forget((int)device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    const struct weir__real *driver = weir__real_needed();
    if (driver == NULL || driver->cuDevicePrimaryCtxReset_v2 == NULL) return CUDA_ERROR_NOT_INITIALIZED;
    if (weir__forked()) return driver->cuDevicePrimaryCtxReset_v2(device);
    weir__preload_alone_begin();
    end_pool(driver, device);
    const CUresult code = driver->cuDevicePrimaryCtxReset_v2(device);
    weir__preload_alone_end();
    return code;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

/* The pool of the device whose primary context this is, made where it is not yet: its memory of later is meant too. */
static struct weir_pool *pool_of(const struct weir__real *driver, CUcontext context) {
    CUcontext current = NULL;
    if (driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || driver->cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return NULL;
    struct weir_pool *pool = weir__preload_pool(driver, false);
    (void)driver->cuCtxSetCurrent(current);
    return pool;
}

/* What the driver lets the current context do with the memory of another's it does not do for memory that is mapped. Access is not taken
 * away again by cuCtxDisablePeerAccess. */
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    CUdevice device;
    DRIVER_OR_FAIL(driver, cuCtxEnablePeerAccess);
    const CUresult code = driver->cuCtxEnablePeerAccess(peer, flags);
    if (code != CUDA_SUCCESS || driver->cuCtxGetDevice(&device) != CUDA_SUCCESS) return code;
    struct weir_pool *pool = pool_of(driver, peer);
    const enum weir_status status = pool == NULL ? WEIR_OK : weir__pool_add_peer(pool, device);
    if (status == WEIR_OK) return CUDA_SUCCESS;
    if (driver->cuCtxDisablePeerAccess != NULL) (void)driver->cuCtxDisablePeerAccess(peer);
    return weir__preload_code(status);
}

/* ---- the driver's memory pools ------------------------------------------------------------------------------------ */

static bool own_pool[WEIR__MOST_DEVICES];

bool weir__preload_has_own_pool(CUdevice device) {
    return device >= 0 && device < WEIR__MOST_DEVICES && __atomic_load_n(&own_pool[device], __ATOMIC_RELAXED);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    CUmemoryPool usual = NULL;
    DRIVER_OR_FAIL(driver, cuDeviceSetMemPool);
    const CUresult code = driver->cuDeviceSetMemPool(device, pool);
    if (code == CUDA_SUCCESS && device >= 0 && device < WEIR__MOST_DEVICES &&
        driver->cuDeviceGetDefaultMemPool != NULL && driver->cuDeviceGetDefaultMemPool(&usual, device) == CUDA_SUCCESS)
        __atomic_store_n(&own_pool[device], pool != usual, __ATOMIC_RELAXED);
    return code;
}

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

/* What both have, the driver for captures and such. */
CUresult cuMemPoolGetAttribute(CUmemoryPool asked, CUmemPool_attribute attribute, void *value) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    DRIVER_OR_FAIL(driver, cuMemPoolGetAttribute);
    struct weir_pool *pool = in_place_of(driver, asked);
    const CUresult code = driver->cuMemPoolGetAttribute(asked, attribute, value);
    if (code != CUDA_SUCCESS || pool == NULL || weir_pool_get_stats(pool, &stats) != WEIR_OK) return code;
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) *(uint64_t *)value += stats.held_bytes;
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) *(uint64_t *)value += stats.peak_held_bytes;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) *(uint64_t *)value += stats.live_bytes;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) *(uint64_t *)value += stats.peak_live_bytes;
    return code;
}
