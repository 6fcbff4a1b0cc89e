/* SPDX-License-Identifier: Apache-2.0 */
/* Entries for device memory, plain and virtual, and for pinned host memory. */
#include "device/emu/emu.h"
#include "device/emu/host.h"
#include "device/emu/memory.h"
#include "device/emu/queue.h"
#include "device/emu/settings.h"

/* ---- plain ------------------------------------------------------------------------------------------------------ */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CUcontext context;
    const CUresult code = emu_current(&context);
    if (code != CUDA_SUCCESS) return code;
    if (free_bytes == NULL || total_bytes == NULL) return CUDA_ERROR_INVALID_VALUE;
    *total_bytes = emu_settings()->capacity_bytes;
    *free_bytes = *total_bytes - emu_memory_used(context->ordinal);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    CUcontext context;
    CUresult code = emu_current(&context);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t start = 0;
    code = emu_memory_alloc(context->ordinal, bytes, &start);
    if (code == CUDA_SUCCESS) *address = start;
    return code;
}

/* Waits for the work of the device that owns the memory, as programs rely on. */
CUresult cuMemFree_v2(CUdeviceptr address) {
    CUcontext context;
    CUresult code = emu_current(&context);
    if (code != CUDA_SUCCESS || address == 0) return code;
    CUdevice device;
    code = emu_memory_begin_free((uintptr_t)address, &device);
    if (code != CUDA_SUCCESS) return code;
    code = emu_context_wait(&emu_contexts[device]);
    emu_memory_finish_free((uintptr_t)address);
    return code;
}

/* ---- virtual ---------------------------------------------------------------------------------------------------- */

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags) {
    CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t start = 0;
    code = emu_memory_reserve((uintptr_t)wanted, bytes, alignment, &start);
    if (code == CUDA_SUCCESS) *address = start;
    return code;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    const CUresult code = emu_ready();
    return code != CUDA_SUCCESS ? code : emu_memory_unreserve((uintptr_t)address, bytes);
}

/* Pages are pinned memory of a device of this machine, without a way to share them with another process. */
static CUresult check_properties(const CUmemAllocationProp *properties) {
    if (properties == NULL || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!emu_device_exists(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    return properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option) {
    CUresult code = emu_ready();
    if (code == CUDA_SUCCESS) code = check_properties(properties);
    if (code != CUDA_SUCCESS) return code;
    if (bytes == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) return CUDA_ERROR_INVALID_VALUE;
    *bytes = emu_settings()->granularity_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags) {
    CUresult code = emu_ready();
    if (code == CUDA_SUCCESS) code = check_properties(properties);
    if (code != CUDA_SUCCESS) return code;
    if (handle == NULL || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return emu_memory_create(properties->location.id, bytes, handle);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    const CUresult code = emu_ready();
    return code != CUDA_SUCCESS ? code : emu_memory_release(handle);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE; /* as the documentation demands of offset */
    return emu_memory_map((uintptr_t)address, bytes, handle);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    const CUresult code = emu_ready();
    return code != CUDA_SUCCESS ? code : emu_memory_unmap((uintptr_t)address, bytes);
}

static bool valid_access(const CUmemAccessDesc *access) {
    return access->location.type == CU_MEM_LOCATION_TYPE_DEVICE && emu_device_exists(access->location.id) &&
           (access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
            access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (access == NULL || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!valid_access(&access[i])) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && code == CUDA_SUCCESS; i++)
        code = emu_memory_set_access((uintptr_t)address, bytes, access[i].location.id, access[i].flags);
    return code;
}

/* ---- pinned host memory ----------------------------------------------------------------------------------------- */

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    enum { KNOWN = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED };
    CUcontext context;
    const CUresult code = emu_current(&context);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL || (flags & ~(unsigned)KNOWN) != 0) return CUDA_ERROR_INVALID_VALUE;
    return emu_host_alloc(bytes, address);
}

/* Waits for the device: a copy that is queued may use the memory. */
CUresult cuMemFreeHost(void *address) {
    CUcontext context;
    CUresult code = emu_current(&context);
    if (code == CUDA_SUCCESS) code = emu_context_wait(context);
    return code != CUDA_SUCCESS ? code : emu_host_free(address);
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    enum { KNOWN = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY };
    CUcontext context;
    const CUresult code = emu_current(&context);
    if (code != CUDA_SUCCESS) return code;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_NOT_SUPPORTED;
    if ((flags & ~(unsigned)KNOWN) != 0) return CUDA_ERROR_INVALID_VALUE;
    return emu_host_register((uintptr_t)address, bytes);
}

CUresult cuMemHostUnregister(void *address) {
    CUcontext context;
    const CUresult code = emu_current(&context);
    return code != CUDA_SUCCESS ? code : emu_host_unregister((uintptr_t)address);
}
