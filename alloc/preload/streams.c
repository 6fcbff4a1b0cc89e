/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, so that pools hear of their end, and contexts. */
#include "alloc/pool.h"
#include "alloc/preload/preload.h"

#define DRIVER_OR_FAIL(driver, symbol)                                                                                 \
    const struct weir__real *driver = weir__real_needed();                                                             \
    if ((driver) == NULL || (driver)->symbol == NULL) return CUDA_ERROR_NOT_INITIALIZED

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

static struct weir_device *device_of(CUstream stream) {
    for (int ordinal = 0; ordinal < weir__process_pools_end(); ordinal++) {
        struct weir_device *device = weir__process_device_made(ordinal);
        if (device != NULL && weir__device_has_stream(device, stream)) return device;
    }
    return NULL;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    DRIVER_OR_FAIL(driver, cuStreamDestroy_v2);
    struct weir_device *device = weir__forked() ? NULL : device_of(stream);
    return device == NULL ? driver->cuStreamDestroy_v2(stream)
                          : weir__preload_code(weir_stream_destroy(device, stream));
}

CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

/* All that was in the context is gone: weir's pool first, so that it gives back what it has. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    DRIVER_OR_FAIL(driver, cuDevicePrimaryCtxReset_v2);
    struct weir_pool *pool = weir__forked() ? NULL : weir__process_pool_made((int)device);
    if (pool != NULL) {
        weir__preload_pool_ends((int)device, pool);
        weir__process_pool_forget((int)device);
    }
    return driver->cuDevicePrimaryCtxReset_v2(device);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuCtxEnablePeerAccess);
    return driver->cuCtxEnablePeerAccess(peer, flags);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    DRIVER_OR_FAIL(driver, cuCtxDisablePeerAccess);
    return driver->cuCtxDisablePeerAccess(peer);
}
