/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, so that pools hear of their end; and contexts. */
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
    weir__preload_stream_captures_no_more(stream);
    return device == NULL ? driver->cuStreamDestroy_v2(stream)
                          : weir__preload_code(weir_stream_destroy(device, stream));
}

CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

/* All that was in the context is gone: weir's pool first, so that it gives back what it has. */
static void end_pool(const struct weir__real *driver, CUdevice device) {
    struct weir_pool *pool = weir__process_pool_made((int)device);
    if (pool == NULL) return;
    weir__preload_device_captures_no_more((int)device);
    weir__pinned_reset(driver, (int)device);
    weir__preload_pool_ends((int)device, pool);
    weir__process_pool_forget((int)device);
}

/* So that host functions that are queued by now go on as ever, where the driver lets them make calls. */
static void wait_for_work(const struct weir__real *driver, int ordinal) {
    if (!weir__preload_enter(driver)) return;
    struct weir_device *device = weir__process_device_made(ordinal);
    if (device != NULL) (void)weir_device_synchronize(device);
    weir__preload_leave(NULL);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    const struct weir__real *driver = weir__real_needed();
    if (driver == NULL || driver->cuDevicePrimaryCtxReset_v2 == NULL) return CUDA_ERROR_NOT_INITIALIZED;
    if (weir__forked() || weir__preload_in_host_function(driver)) return driver->cuDevicePrimaryCtxReset_v2(device);
    wait_for_work(driver, (int)device);
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
