/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that several processes have, by a file descriptor that goes from one to the other. */
#include "device/emu/backing.h"
#include "device/emu/memory_inside.h"
#include "device/emu/settings.h"
#include "device/emu/watch.h"
#include "device/error.h"

/* Where the watch keeps the bytes of other processes' pages: behind what any device has. */
static size_t next_foreign = (size_t)1 << 46;

CUresult emu_memory_export(CUmemGenericAllocationHandle handle, int *descriptor) {
    struct page *page = emu_page_of(handle);
    if (!emu_settings()->backed) return CUDA_ERROR_NOT_SUPPORTED;
    if (page == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (page->properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (page->descriptor >= 0) return CUDA_ERROR_NOT_SUPPORTED; /* its maker exports it */
    *descriptor = emu_backing_export(page->device, page->offset, page->bytes,
                                     page->properties.allocFlags.gpuDirectRDMACapable != 0);
    if (*descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    page->exported = true;
    return CUDA_SUCCESS;
}

/* The page of another process costs this one nothing: the device's memory is counted where it was made. */
static struct page *foreign(const struct emu_import *import) {
    const CUdevice device = emu_device_exists(import->device) ? import->device : 0;
    struct page *page = emu_page_new(device, import->bytes);
    if (page == NULL) return NULL;
    page->descriptor = import->descriptor;
    page->offset = next_foreign;
    page->file_offset = import->offset;
    next_foreign += import->bytes;
    page->properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                             .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                             .location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
                                             .allocFlags = {.gpuDirectRDMACapable = import->rdma_capable}};
    return page;
}

CUresult emu_memory_import(int descriptor, CUmemGenericAllocationHandle *handle) {
    struct emu_import import;
    if (!emu_settings()->backed) return CUDA_ERROR_NOT_SUPPORTED;
    if (!emu_backing_import(descriptor, &import)) return CUDA_ERROR_INVALID_VALUE;
    if (import.own_device >= 0) { /* it was exported here: one more reference */
        struct page *page = emu_page_at_offset(import.own_device, import.offset);
        if (page == NULL) page = emu_page_take_back(import.own_device, import.offset);
        if (page == NULL) return CUDA_ERROR_INVALID_VALUE;
        page->held++;
        *handle = (uintptr_t)page;
        return CUDA_SUCCESS;
    }
    struct page *page = foreign(&import);
    if (page == NULL) {
        emu_backing_close(import.descriptor);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (uintptr_t)page;
    return CUDA_SUCCESS;
}
