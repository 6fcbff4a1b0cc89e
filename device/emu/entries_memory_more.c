/* SPDX-License-Identifier: Apache-2.0 */
/* Entries for memory beyond those that the library uses: other ways to get it, and to share it. */
#include "device/emu/enter.h"
#include "device/emu/figures.h"
#include "device/emu/host.h"
#include "device/emu/memory_inside.h"
#include "device/emu/settings.h"
#include "device/emu/watch.h"

/* ---- device memory ---------------------------------------------------------------------------------------------- */

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    CUcontext context;
    CUresult code = emu_enter(EMU_AT_cuMemAllocPitch_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL || pitch == NULL || width == 0 || height == 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (element != 4 && element != 8 && element != 16) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (width > SIZE_MAX / 2 / height - EMU_TEXTURE_ALIGNMENT) return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    const size_t row = (width + EMU_TEXTURE_ALIGNMENT - 1) / EMU_TEXTURE_ALIGNMENT * EMU_TEXTURE_ALIGNMENT;
    uintptr_t start = 0;
    code = emu_memory_alloc(context, row * height, &start);
    emu_charge(EMU_AT_cuMemAllocPitch_v2, 1, row * height);
    if (code != CUDA_SUCCESS) return emu_leave(code);
    *address = start;
    *pitch = row;
    return emu_leave(CUDA_SUCCESS);
}

/* Device memory that the host may touch, as all is here that is backed; it does not move, and the host's accesses are
 * not watched. */
CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
    CUcontext context;
    CUresult code = emu_enter(EMU_AT_cuMemAllocManaged, &context);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!emu_settings()->backed) return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    const struct emu_plain plain = {.context = context, .device = context->device, .managed = true};
    uintptr_t start = 0;
    code = emu_memory_alloc_as(&plain, bytes, &start);
    emu_charge(EMU_AT_cuMemAllocManaged, 1, bytes);
    if (code != CUDA_SUCCESS) return emu_leave(code);
    emu_watch_host_writes(start, bytes, "the host");
    *address = start;
    return emu_leave(CUDA_SUCCESS);
}

/* Hints for managed memory; it does not move here, and the devices see all of it. */
static CUresult check_hint(CUdeviceptr address, size_t bytes, const CUmemLocation *location) {
    const struct reservation *reservation = emu_reservation_at((uintptr_t)address);
    if (reservation == NULL || !reservation->plain.managed || reservation->freeing || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > emu_range_end(&reservation->range) - (uintptr_t)address) return CUDA_ERROR_INVALID_VALUE;
    const bool device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (device && !emu_device_exists(location->id)) return CUDA_ERROR_INVALID_DEVICE;
    const bool valid = device || (location->type >= CU_MEM_LOCATION_TYPE_HOST &&
                                  location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location) {
    const CUresult code = emu_enter(EMU_AT_cuMemAdvise_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(check_hint(address, bytes, &location));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                               CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuMemPrefetchAsync_v2, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(flags != 0 ? CUDA_ERROR_INVALID_VALUE : check_hint(address, bytes, &location));
}

/* ---- host memory ------------------------------------------------------------------------------------------------ */

CUresult cuMemAllocHost_v2(void **address, size_t bytes) {
    CUcontext context;
    CUresult code = emu_enter(EMU_AT_cuMemAllocHost_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    code = emu_host_alloc(context, bytes, 0, address);
    emu_charge(EMU_AT_cuMemAllocHost_v2, 1, bytes);
    return emu_leave(code);
}

/* The device uses the host's addresses. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuMemHostGetDevicePointer_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    if (address == NULL || flags != 0 || emu_host_find((uintptr_t)host) == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *address = (uintptr_t)host;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned *flags, void *host) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuMemHostGetFlags, &context);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_pinned *pinned = emu_host_find((uintptr_t)host);
    if (flags == NULL || pinned == NULL || !pinned->own) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = pinned->flags;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    const CUresult code = emu_enter(EMU_AT_cuMemRetainAllocationHandle, NULL);
    if (code != CUDA_SUCCESS) return code;
    const struct mapping *mapping = emu_mapping_at((uintptr_t)address);
    const struct reservation *reservation = emu_reservation_at((uintptr_t)address);
    if (handle == NULL || mapping == NULL || reservation->plain.context != NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    mapping->page->held++;
    *handle = (uintptr_t)mapping->page;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle) {
    const CUresult code = emu_enter(EMU_AT_cuMemGetAllocationPropertiesFromHandle, NULL);
    if (code != CUDA_SUCCESS) return code;
    const struct page *page = emu_page_of(handle);
    if (properties == NULL || page == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *properties = page->properties;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address) {
    const CUresult code = emu_enter(EMU_AT_cuMemGetAccess, NULL);
    if (code != CUDA_SUCCESS) return code;
    const struct mapping *mapping = emu_mapping_at((uintptr_t)address);
    if (flags == NULL || location == NULL || mapping == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!emu_device_exists(location->id)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *flags = mapping->access[location->id];
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void *place, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
    const CUresult code = emu_enter(EMU_AT_cuMemExportToShareableHandle, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (place == NULL || flags != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    return emu_leave(emu_memory_export(handle, place));
}

/* The descriptor is passed by value, in a pointer. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                        CUmemAllocationHandleType type) {
    const CUresult code = emu_enter(EMU_AT_cuMemImportFromShareableHandle, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (handle == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    return emu_leave(emu_memory_import((int)(intptr_t)shared, handle));
}
