/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver has no memory for while weir holds some idle, which counts as free to programs. Some of the driver's entries are here
 * for that alone: none of their memory is weir's. */
#include "alloc/pool.h"
#include "alloc/preload/preload.h"

int weir__preload_device_of(const struct weir__real *driver, CUstream stream) {
    CUcontext own = NULL, current = NULL;
    CUdevice device = -1;
    const int known = weir__device_of_stream(stream);
    if (known >= 0) return known;
    if (driver->cuCtxGetDevice == NULL) return -1;
    if (stream != NULL && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD &&
        driver->cuStreamGetCtx != NULL && driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
        driver->cuStreamGetCtx(stream, &own) == CUDA_SUCCESS && driver->cuCtxSetCurrent(own) == CUDA_SUCCESS) {
        if (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS) device = -1;
        (void)driver->cuCtxSetCurrent(current);
        return device;
    }
    return driver->cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

bool weir__preload_make_room(int ordinal, struct weir__room *room) {
    struct weir_pool *pool = weir__process_pool_made(ordinal);
    return pool != NULL && !weir__forked() && weir__pool_make_room(pool, room);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags) {
    DRIVER_OR_FAIL(driver, cuMemCreate);
    FROM_DRIVER(driver, properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties->location.id : -1, bytes,
                cuMemCreate(handle, bytes, properties, flags));
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuMemAllocManaged);
    FROM_DRIVER(driver, weir__preload_device_of(driver, NULL), bytes, cuMemAllocManaged(address, bytes, flags));
}

CUresult cuArrayCreate_v2(CUarray *array, const void *shape) {
    DRIVER_OR_FAIL(driver, cuArrayCreate_v2);
    FROM_DRIVER(driver, weir__preload_device_of(driver, NULL), 0, cuArrayCreate_v2(array, shape));
}

CUresult cuArray3DCreate_v2(CUarray *array, const void *shape) {
    DRIVER_OR_FAIL(driver, cuArray3DCreate_v2);
    FROM_DRIVER(driver, weir__preload_device_of(driver, NULL), 0, cuArray3DCreate_v2(array, shape));
}

CUresult cuMipmappedArrayCreate(void **array, const void *shape, unsigned levels) {
    DRIVER_OR_FAIL(driver, cuMipmappedArrayCreate);
    FROM_DRIVER(driver, weir__preload_device_of(driver, NULL), 0, cuMipmappedArrayCreate(array, shape, levels));
}

/* ---- graphs whose nodes allocate ---------------------------------------------------------------------------------- */

CUresult cuGraphUpload(CUgraphExec graph, CUstream stream) {
    DRIVER_OR_FAIL(driver, cuGraphUpload);
    FROM_DRIVER(driver, weir__preload_device_of(driver, stream), 0, cuGraphUpload(graph, stream));
}

CUresult cuGraphUpload_ptsz(CUgraphExec graph, CUstream stream) {
    return cuGraphUpload(graph, weir__preload_own(stream));
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
    DRIVER_OR_FAIL(driver, cuGraphLaunch);
    FROM_DRIVER(driver, weir__preload_device_of(driver, stream), 0, cuGraphLaunch(graph, stream));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
    return cuGraphLaunch(graph, weir__preload_own(stream));
}
