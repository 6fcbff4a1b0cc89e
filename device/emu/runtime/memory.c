/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, managed and pinned host memory, and what an address is. */
#include "device/emu/runtime/rt.h"

/* ---- device memory ---------------------------------------------------------------------------------------------- */

/* The runtime gives NULL for no bytes, where the driver refuses. */
cudaError_t cudaMalloc(void **address, size_t bytes) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || address == NULL) return rt_end(code != cudaSuccess ? code : cudaErrorInvalidValue);
    *address = NULL;
    return bytes == 0 ? cudaSuccess : rt_end(RT_CALL(cuMemAlloc_v2, (address, bytes)));
}

cudaError_t cudaFree(void *address) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || address == NULL) return rt_end(code);
    return rt_end(RT_CALL(cuMemFree_v2, (address)));
}

cudaError_t cudaMallocPitch(void **address, size_t *pitch, size_t width_bytes, size_t height) {
    enum { ELEMENT = 4 }; /* the alignment of the rows does not depend on it */
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess) return rt_end(code);
    if (address == NULL || pitch == NULL) return rt_end(cudaErrorInvalidValue);
    *address = NULL;
    *pitch = 0;
    if (width_bytes == 0 || height == 0) return cudaSuccess;
    return rt_end(RT_CALL(cuMemAllocPitch_v2, (address, pitch, width_bytes, height, ELEMENT)));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *place, struct cudaExtent extent) {
    if (place == NULL) return rt_end(cudaErrorInvalidValue);
    size_t rows;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return rt_end(cudaErrorMemoryAllocation);
    place->xsize = extent.width;
    place->ysize = extent.height;
    return cudaMallocPitch(&place->ptr, &place->pitch, extent.width, rows);
}

RT_PASS(cudaMemGetInfo, (size_t * free_bytes, size_t *total_bytes), cuMemGetInfo_v2, (free_bytes, total_bytes))

/* ---- managed memory --------------------------------------------------------------------------------------------- */

cudaError_t cudaMallocManaged(void **address, size_t bytes, unsigned flags) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess) return rt_end(code);
    if (address == NULL || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return rt_end(cudaErrorInvalidValue);
    return rt_end(RT_CALL(cuMemAllocManaged, (address, bytes, flags)));
}

RT_PASS(cudaMemRangeGetAttribute,
        (void *data, size_t room, enum cudaMemRangeAttribute attribute, const void *address, size_t bytes),
        cuMemRangeGetAttribute, (data, room, attribute, address, bytes))
RT_PASS(cudaMemRangeGetAttributes,
        (void **data, size_t *rooms, enum cudaMemRangeAttribute *attributes, size_t count, const void *address,
         size_t bytes),
        cuMemRangeGetAttributes, (data, rooms, attributes, count, address, bytes))

/* ---- pinned host memory ----------------------------------------------------------------------------------------- */

cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned flags) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || address == NULL) return rt_end(code != cudaSuccess ? code : cudaErrorInvalidValue);
    *address = NULL;
    return bytes == 0 ? cudaSuccess : rt_end(RT_CALL(cuMemHostAlloc, (address, bytes, flags)));
}

cudaError_t cudaMallocHost(void **address, size_t bytes) { return cudaHostAlloc(address, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void *address) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || address == NULL) return rt_end(code);
    return rt_end(RT_CALL(cuMemFreeHost, (address)));
}

RT_PASS(cudaHostRegister, (void *address, size_t bytes, unsigned flags), cuMemHostRegister_v2, (address, bytes, flags))
RT_PASS(cudaHostUnregister, (void *address), cuMemHostUnregister, (address))
RT_PASS(cudaHostGetDevicePointer, (void **device, void *host, unsigned flags), cuMemHostGetDevicePointer_v2,
        (device, host, flags))
RT_PASS(cudaHostGetFlags, (unsigned *flags, void *host), cuMemHostGetFlags, (flags, host))

/* ---- what an address is ----------------------------------------------------------------------------------------- */

/* Unknown to the driver: plain host memory, if anything, which some devices can reach by itself. */
static cudaError_t tell_unregistered(struct cudaPointerAttributes *attributes, void *address) {
    int device, reachable = 0;
    cudaError_t code = rt_device(&device);
    if (code == cudaSuccess)
        code = RT_CALL(cuDeviceGetAttribute, (&reachable, cudaDevAttrPageableMemoryAccess, device));
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = address;
    attributes->devicePointer = reachable != 0 ? address : NULL;
    return code;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *address) {
    const cudaError_t begun = rt_begin();
    if (begun != cudaSuccess || attributes == NULL) return rt_end(begun != cudaSuccess ? begun : cudaErrorInvalidValue);
    unsigned type = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    void *on_device = NULL, *on_host = NULL;
    enum rt_pointer_attribute wanted[] = {RT_POINTER_MEMORY_TYPE, RT_POINTER_IS_MANAGED, RT_POINTER_ORDINAL,
                                          RT_POINTER_DEVICE, RT_POINTER_HOST};
    void *places[] = {&type, &managed, &device, &on_device, &on_host};
    const cudaError_t code = RT_CALL(cuPointerGetAttributes, (sizeof wanted / sizeof *wanted, wanted, places, address));
    if (code != cudaSuccess) return rt_end(code);
    if (type == 0) return rt_end(tell_unregistered(attributes, (void *)(size_t)address));
    attributes->type = (managed & 0xff) != 0      ? cudaMemoryTypeManaged /* the driver may write one byte */
                       : type == RT_MEMORY_DEVICE ? cudaMemoryTypeDevice
                                                  : cudaMemoryTypeHost;
    attributes->device = device;
    attributes->devicePointer = on_device;
    attributes->hostPointer = on_host;
    return cudaSuccess;
}
