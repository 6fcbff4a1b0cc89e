/* SPDX-License-Identifier: Apache-2.0 */
/* The library's entries for device memory, plain and virtual, and for pinned host memory. */
#include "device/emu/capture.h"
#include "device/emu/emu.h"
#include "device/emu/host.h"
#include "device/emu/memory.h"
#include "device/emu/queue.h"
#include "device/emu/settings.h"
#include "device/emu/watch.h"

/* Enters a call that acts at once and would not happen again when a graph is launched: it may be refused in capture. */
static CUresult enter_unsafe(enum emu_entry entry, CUcontext *context) {
    CUresult code = emu_enter(entry, context);
    if (code != CUDA_SUCCESS) return code;
    code = emu_capture_check_unsafe();
    return code == CUDA_SUCCESS ? CUDA_SUCCESS : emu_leave(code);
}

/* ---- plain ------------------------------------------------------------------------------------------------------ */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuMemGetInfo_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    if (free_bytes == NULL || total_bytes == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *total_bytes = emu_settings()->capacity_bytes;
    const size_t left = emu_memory_free(context->device), cached = emu_settings()->cached_bytes;
    *free_bytes = left > cached ? left - cached : 0;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    CUcontext context;
    CUresult code = enter_unsafe(EMU_AT_cuMemAlloc_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    uintptr_t start = 0;
    code = emu_memory_alloc(context, bytes, &start);
    if (code == CUDA_SUCCESS) *address = start;
    emu_charge(EMU_AT_cuMemAlloc_v2, 1, bytes);
    return emu_leave(code);
}

/* Waits for the work of the device that owns the memory, as programs rely on. For memory of a pool the documentation
 * promises no wait: for the watch there is none, and the memory only stays until no work can touch it. Where the wait
 * fails the work may still come: nothing is freed. */
CUresult cuMemFree_v2(CUdeviceptr address) {
    CUcontext context;
    CUresult code = enter_unsafe(EMU_AT_cuMemFree_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    if (address == 0) return emu_leave(CUDA_SUCCESS);
    CUdevice device;
    bool pooled;
    if (emu_capture_free_outside((uintptr_t)address, &code)) return emu_leave(code);
    code = emu_memory_begin_free((uintptr_t)address, &device, &pooled);
    if (code != CUDA_SUCCESS) return emu_leave(code);
    if (pooled) emu_watch_unmaps((uintptr_t)address, emu_memory_plain_bytes((uintptr_t)address), "cuMemFree");
    code = emu_device_wait(device);
    if (code != CUDA_SUCCESS) {
        emu_memory_cancel_free((uintptr_t)address);
        return emu_leave(code);
    }
    emu_running_wait((uintptr_t)address, emu_memory_plain_bytes((uintptr_t)address)); /* of other devices */
    emu_charge(EMU_AT_cuMemFree_v2, 1, emu_memory_plain_bytes((uintptr_t)address));
    emu_memory_finish_free((uintptr_t)address, pooled ? NULL : "cuMemFree");
    return emu_leave(code);
}

/* ---- virtual ---------------------------------------------------------------------------------------------------- */

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags) {
    CUresult code = emu_enter(EMU_AT_cuMemAddressReserve, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL || flags != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    uintptr_t start = 0;
    code = emu_memory_reserve((uintptr_t)wanted, bytes, alignment, &start);
    if (code == CUDA_SUCCESS) *address = start;
    emu_charge(EMU_AT_cuMemAddressReserve, 1, bytes);
    return emu_leave(code);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    const CUresult code = emu_enter(EMU_AT_cuMemAddressFree, NULL);
    if (code != CUDA_SUCCESS) return code;
    emu_charge(EMU_AT_cuMemAddressFree, 1, bytes);
    return emu_leave(emu_memory_unreserve((uintptr_t)address, bytes));
}

/* Pages are pinned memory of a device of this machine. A process can share them with another by file descriptors, if they
 * lie in a file; those that are addresses only may be asked for as such, since programs do that without a look at what the
 * device says, and are not exported. Memory of the host, and fabric handles, are not there. */
static CUresult check_properties(const CUmemAllocationProp *properties) {
    if (properties == NULL || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type == CU_MEM_LOCATION_TYPE_HOST ||
        properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!emu_device_exists(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    if (properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE) return CUDA_SUCCESS;
    const bool shareable = properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return shareable ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option) {
    CUresult code = emu_enter(EMU_AT_cuMemGetAllocationGranularity, NULL);
    if (code != CUDA_SUCCESS) return code;
    code = check_properties(properties);
    if (code == CUDA_SUCCESS && (bytes == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS) *bytes = emu_settings()->granularity_bytes;
    return emu_leave(code);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags) {
    CUresult code = emu_enter(EMU_AT_cuMemCreate, NULL);
    if (code != CUDA_SUCCESS) return code;
    code = check_properties(properties);
    if (code == CUDA_SUCCESS && (handle == NULL || flags != 0)) code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS) code = emu_memory_create(properties, bytes, handle);
    emu_charge(EMU_AT_cuMemCreate, 1, bytes);
    return emu_leave(code);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    const CUresult code = emu_enter(EMU_AT_cuMemRelease, NULL);
    if (code != CUDA_SUCCESS) return code;
    emu_charge(EMU_AT_cuMemRelease, 1, 0);
    return emu_leave(emu_memory_release(handle));
}

/* An offset must be 0, as the documentation demands. */
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    CUresult code = emu_enter(EMU_AT_cuMemMap, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (offset != 0 || flags != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    code = emu_memory_map((uintptr_t)address, bytes, handle);
    emu_charge(EMU_AT_cuMemMap, 1, bytes);
    return emu_leave(code);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    size_t handles = 0;
    CUresult code = emu_enter(EMU_AT_cuMemUnmap, NULL);
    if (code != CUDA_SUCCESS) return code;
    emu_running_wait((uintptr_t)address, bytes);
    code = emu_memory_unmap((uintptr_t)address, bytes, &handles);
    emu_charge(EMU_AT_cuMemUnmap, handles, bytes);
    return emu_leave(code);
}

static bool valid_access(const CUmemAccessDesc *access) {
    return access->location.type == CU_MEM_LOCATION_TYPE_DEVICE && emu_device_exists(access->location.id) &&
           (access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
            access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    size_t handles = 0;
    CUresult code = emu_enter(EMU_AT_cuMemSetAccess, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (access == NULL || count == 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        if (!valid_access(&access[i])) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_running_wait((uintptr_t)address, bytes);
    for (size_t i = 0; i < count && code == CUDA_SUCCESS; i++)
        code = emu_memory_set_access((uintptr_t)address, bytes, access[i].location.id, access[i].flags, &handles);
    emu_charge(EMU_AT_cuMemSetAccess, handles, bytes);
    return emu_leave(code);
}

/* ---- pinned host memory ----------------------------------------------------------------------------------------- */

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    enum { KNOWN = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED };
    CUcontext context;
    CUresult code = enter_unsafe(EMU_AT_cuMemHostAlloc, &context);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL || (flags & ~(unsigned)KNOWN) != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    code = emu_host_alloc(context, bytes, flags, address);
    emu_charge(EMU_AT_cuMemHostAlloc, 1, bytes);
    return emu_leave(code);
}

/* What taking pinned memory back costs, by the size that it had. */
static void charge_pinned(enum emu_entry entry, const void *address) {
    const struct emu_pinned *pinned = emu_host_find((uintptr_t)address);
    if (pinned != NULL) emu_charge(entry, 1, pinned->bytes);
}

/* Waits for the device: a copy that is queued may use the memory. */
CUresult cuMemFreeHost(void *address) {
    CUcontext context;
    CUresult code = enter_unsafe(EMU_AT_cuMemFreeHost, &context);
    if (code != CUDA_SUCCESS) return code;
    code = emu_context_wait(context);
    if (code != CUDA_SUCCESS) return emu_leave(code);
    const struct emu_pinned *pinned = emu_host_find((uintptr_t)address);
    if (pinned != NULL) emu_running_wait(pinned->start, pinned->bytes); /* of other contexts */
    charge_pinned(EMU_AT_cuMemFreeHost, address);
    return emu_leave(emu_host_free(address));
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    enum { KNOWN = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY };
    CUcontext context;
    CUresult code = enter_unsafe(EMU_AT_cuMemHostRegister_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if ((flags & ~(unsigned)KNOWN) != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    code = emu_host_register(context, (uintptr_t)address, bytes, flags);
    emu_charge(EMU_AT_cuMemHostRegister_v2, 1, bytes);
    return emu_leave(code);
}

CUresult cuMemHostUnregister(void *address) {
    CUcontext context;
    CUresult code = enter_unsafe(EMU_AT_cuMemHostUnregister, &context);
    if (code != CUDA_SUCCESS) return code;
    charge_pinned(EMU_AT_cuMemHostUnregister, address);
    return emu_leave(emu_host_unregister((uintptr_t)address));
}
