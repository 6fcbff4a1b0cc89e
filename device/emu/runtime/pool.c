/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own pools, stream-ordered memory, and sharing with other processes. */
#include "device/emu/runtime/rt.h"

RT_PASS(cudaMallocAsync, (void **address, size_t bytes, cudaStream_t stream), cuMemAllocAsync, (address, bytes, stream))
RT_PASS(cudaMallocFromPoolAsync, (void **address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
        cuMemAllocFromPoolAsync, (address, bytes, pool, stream))

cudaError_t cudaFreeAsync(void *address, cudaStream_t stream) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || address == NULL) return rt_end(code);
    return rt_end(RT_CALL(cuMemFreeAsync, (address, stream)));
}

cudaError_t cudaMallocAsync_ptsz(void **address, size_t bytes, cudaStream_t stream) {
    return cudaMallocAsync(address, bytes, rt_per_thread(stream));
}
cudaError_t cudaMallocFromPoolAsync_ptsz(void **address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync(address, bytes, pool, rt_per_thread(stream));
}
cudaError_t cudaFreeAsync_ptsz(void *address, cudaStream_t stream) {
    return cudaFreeAsync(address, rt_per_thread(stream));
}

/* ---- pools ------------------------------------------------------------------------------------------------------ */

RT_PASS_DEVICE(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device), device, cuDeviceGetDefaultMemPool,
               (pool, device))
RT_PASS_DEVICE(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device), device, cuDeviceGetMemPool, (pool, device))
RT_PASS_DEVICE(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), device, cuDeviceSetMemPool, (device, pool))
RT_PASS(cudaMemPoolCreate, (cudaMemPool_t * pool, const struct cudaMemPoolProps *properties), cuMemPoolCreate,
        (pool, properties))
RT_PASS(cudaMemPoolDestroy, (cudaMemPool_t pool), cuMemPoolDestroy, (pool))
RT_PASS(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), cuMemPoolTrimTo, (pool, bytes))
RT_PASS(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
        cuMemPoolSetAttribute, (pool, attribute, value))
RT_PASS(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
        cuMemPoolGetAttribute, (pool, attribute, value))
RT_PASS(cudaMemPoolSetAccess, (cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count),
        cuMemPoolSetAccess, (pool, access, count))
RT_PASS(cudaMemPoolGetAccess, (enum cudaMemAccessFlags * access, cudaMemPool_t pool, struct cudaMemLocation *location),
        cuMemPoolGetAccess, (access, pool, location))

/* ---- other processes -------------------------------------------------------------------------------------------- */

RT_PASS(cudaMemPoolExportToShareableHandle,
        (void *handle, cudaMemPool_t pool, enum cudaMemAllocationHandleType type, unsigned flags),
        cuMemPoolExportToShareableHandle, (handle, pool, type, flags))
RT_PASS(cudaMemPoolImportFromShareableHandle,
        (cudaMemPool_t * pool, void *handle, enum cudaMemAllocationHandleType type, unsigned flags),
        cuMemPoolImportFromShareableHandle, (pool, handle, type, flags))
RT_PASS(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData * data, void *address), cuMemPoolExportPointer,
        (data, address))
RT_PASS(cudaMemPoolImportPointer, (void **address, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data),
        cuMemPoolImportPointer, (address, pool, data))
RT_PASS(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event), cuIpcGetEventHandle, (handle, event))
RT_PASS(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle), cuIpcOpenEventHandle,
        (event, handle))
RT_PASS(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *address), cuIpcGetMemHandle, (handle, address))
RT_PASS(cudaIpcOpenMemHandle, (void **address, cudaIpcMemHandle_t handle, unsigned flags), cuIpcOpenMemHandle_v2,
        (address, handle, flags))
RT_PASS(cudaIpcCloseMemHandle, (void *address), cuIpcCloseMemHandle, (address))
