/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/spent.h"

/* Every driver call that changes memory goes through here, between enter and leave, and is counted. */
#define MEMORY_CALL(pages, name, call)                                                                                 \
    (__atomic_fetch_add(&(pages)->memory_calls, 1, __ATOMIC_RELAXED), weir__spend((pages)->device),                    \
     weir__spent_on_memory((pages)->device, weir__device_check((pages)->device, (pages)->device->driver->call, name)))

/* ---- open and close --------------------------------------------------------------------------------------------- */

static bool device_has(struct weir_device *device, CUdevice_attribute attribute) {
    int value = 0;
    return device->driver->device_attribute(&value, attribute, device->handle) == CUDA_SUCCESS && value != 0;
}

/* RDMA and sharing can't be added to a page later, so they are asked for where the device has them. */
static void set_properties(struct weir__pages *pages) {
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pages->device->handle};
    pages->properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    if (device_has(pages->device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
        pages->properties.allocFlags.gpuDirectRDMACapable = 1;
    if (device_has(pages->device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        pages->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    pages->access = (CUmemAccessDesc){.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static enum weir_status reserve_arena(struct weir__pages *pages) {
    enum weir_status status = weir__device_enter(pages->device);
    if (status != WEIR_OK) return status;
    set_properties(pages);
    CUdeviceptr base = 0;
    status =
        MEMORY_CALL(pages, "cuMemAddressReserve", address_reserve(&base, pages->arena_bytes, pages->granule, 0, 0));
    weir__device_leave(pages->device);
    pages->arena = (uintptr_t)base;
    return status;
}

enum weir_status weir__pages_open(struct weir__pages *pages, struct weir_device *device, size_t granule, size_t limit) {
    *pages = (struct weir__pages){.device = device, .granule = granule, .limit = limit};
    size_t slots = limit * WEIR__ARENA_TIMES;
    pages->arena_bytes = slots * granule;
    pages->handle_at = calloc(slots, sizeof *pages->handle_at);
    pages->spare = calloc(limit, sizeof *pages->spare);
    enum weir_status status = WEIR_OK;
    if (pages->handle_at == NULL || pages->spare == NULL)
        status = weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a table of %zu pages", slots);
    if (status == WEIR_OK) status = reserve_arena(pages);
    if (status == WEIR_OK) return WEIR_OK;
    free(pages->handle_at);
    free(pages->spare);
    *pages = (struct weir__pages){0};
    return status;
}

#define UNMAP_RUN 512 /* pages unmapped at once at the end */

static void unmap_all(struct weir__pages *pages) {
    size_t slots = pages->arena_bytes / pages->granule;
    for (size_t i = 0, run; i < slots && pages->held > pages->spare_count; i += run) {
        for (run = 0; run < UNMAP_RUN && i + run < slots && pages->handle_at[i + run] != 0; run++) {
        }
        if (run == 0) {
            run = 1;
            continue;
        }
        weir__page out[UNMAP_RUN];
        if (weir__pages_unmap(pages, pages->arena + i * pages->granule, run, out) == WEIR_OK)
            pages->held -= weir__pages_release(pages, out, run);
        else
            pages->held -= run; /* lost with the arena; the driver has said why */
    }
}

void weir__pages_close(struct weir__pages *pages) {
    if (pages->handle_at == NULL) return;
    unmap_all(pages);
    weir__pages_release(pages, pages->spare, pages->spare_count);
    if (weir__device_enter(pages->device) == WEIR_OK) {
        (void)MEMORY_CALL(pages, "cuMemAddressFree", address_free(pages->arena, pages->arena_bytes));
        weir__device_leave(pages->device);
    }
    free(pages->handle_at);
    free(pages->spare);
    *pages = (struct weir__pages){0};
}

/* ---- spare pages ------------------------------------------------------------------------------------------------ */

void weir__pages_take_spare(struct weir__pages *pages, size_t count, weir__page *out) {
    assert(count <= pages->spare_count);
    pages->spare_count -= count;
    memcpy(out, pages->spare + pages->spare_count, count * sizeof *out);
}

void weir__pages_give_spare(struct weir__pages *pages, const weir__page *from, size_t count) {
    assert(pages->spare_count + count <= pages->limit);
    memcpy(pages->spare + pages->spare_count, from, count * sizeof *from);
    pages->spare_count += count;
}

/* ---- driver calls ----------------------------------------------------------------------------------------------- */

static enum weir_status out_of_memory_or(enum weir_status status) {
    return status == WEIR_DRIVER && weir_last_error()->driver_code == CUDA_ERROR_OUT_OF_MEMORY ? WEIR_OUT_OF_MEMORY
                                                                                               : status;
}

enum weir_status weir__pages_create(struct weir__pages *pages, size_t count, weir__page *out, size_t *created) {
    *created = 0;
    if (count == 0) return WEIR_OK;
    enum weir_status status = weir__device_enter(pages->device);
    if (status != WEIR_OK) return status;
    while (status == WEIR_OK && *created < count) {
        status = MEMORY_CALL(pages, "cuMemCreate", page_create(&out[*created], pages->granule, &pages->properties, 0));
        if (status == WEIR_OK) ++*created;
    }
    weir__device_leave(pages->device);
    return out_of_memory_or(status);
}

size_t weir__pages_release(struct weir__pages *pages, const weir__page *from, size_t count) {
    if (count == 0 || weir__device_enter(pages->device) != WEIR_OK) return 0;
    size_t done = 0;
    while (done < count && MEMORY_CALL(pages, "cuMemRelease", page_release(from[done])) == WEIR_OK) done++;
    weir__device_leave(pages->device);
    return done;
}

/* Undoes a map that failed: unmaps the first `count` pages. */
static enum weir_status undo_map(struct weir__pages *pages, uintptr_t address, size_t count, enum weir_status status) {
    if (count == 0) return status;
    if (MEMORY_CALL(pages, "cuMemUnmap", page_unmap(address, count * pages->granule)) == WEIR_OK) {
        memset(weir__page_at(pages, address), 0, count * sizeof(weir__page));
        return status;
    }
    weir__log(WEIR__LOG_ERROR, "pool: %zu pages at %#zx could be neither used nor unmapped", count, (size_t)address);
    return WEIR_BROKEN;
}

enum weir_status weir__pages_map(struct weir__pages *pages, uintptr_t address, size_t count, const weir__page *from,
                                 size_t *mapped) {
    enum weir_status status = weir__device_enter(pages->device);
    if (status != WEIR_OK) return status;
    size_t done = 0;
    for (; done < count && status == WEIR_OK; done++) {
        uintptr_t at = address + done * pages->granule;
        assert(*weir__page_at(pages, at) == 0 && from[done] != 0);
        status = MEMORY_CALL(pages, "cuMemMap", page_map(at, pages->granule, 0, from[done], 0));
        if (status != WEIR_OK) break;
        *weir__page_at(pages, at) = from[done];
    }
    if (status == WEIR_OK)
        status =
            MEMORY_CALL(pages, "cuMemSetAccess", page_set_access(address, count * pages->granule, &pages->access, 1));
    status = out_of_memory_or(status);
    *mapped = done;
    if (status != WEIR_OK) status = undo_map(pages, address, done, status);
    weir__device_leave(pages->device);
    return status;
}

enum weir_status weir__pages_unmap(struct weir__pages *pages, uintptr_t address, size_t count, weir__page *out) {
    enum weir_status status = weir__device_enter(pages->device);
    if (status != WEIR_OK) return status;
    status = MEMORY_CALL(pages, "cuMemUnmap", page_unmap(address, count * pages->granule));
    weir__device_leave(pages->device);
    if (status != WEIR_OK) return status;
    memcpy(out, weir__page_at(pages, address), count * sizeof *out);
    memset(weir__page_at(pages, address), 0, count * sizeof *out);
    return WEIR_OK;
}

enum weir_status weir__plain_alloc(struct weir_device *device, size_t bytes, uintptr_t *out, uint64_t *memory_calls) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    CUdeviceptr address = 0;
    __atomic_fetch_add(memory_calls, 1, __ATOMIC_RELAXED);
    weir__spend(device);
    status = weir__spent_on_memory(
        device, weir__device_check(device, device->driver->memory_alloc(&address, bytes), "cuMemAlloc"));
    weir__device_leave(device);
    *out = (uintptr_t)address;
    return out_of_memory_or(status);
}

enum weir_status weir__plain_free(struct weir_device *device, uintptr_t address, uint64_t *memory_calls) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    __atomic_fetch_add(memory_calls, 1, __ATOMIC_RELAXED);
    weir__spend(device);
    status =
        weir__spent_on_memory(device, weir__device_check(device, device->driver->memory_free(address), "cuMemFree"));
    weir__device_leave(device);
    return status;
}
