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
void weir__page_properties(struct weir_device *device, CUmemAllocationProp *properties, CUmemAccessDesc *access) {
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->handle};
    *properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    if (device_has(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
        properties->allocFlags.gpuDirectRDMACapable = 1;
    if (device_has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    *access = (CUmemAccessDesc){.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static enum weir_status reserve_arena(struct weir__pages *pages) {
    enum weir_status status = weir__device_enter(pages->device);
    if (status != WEIR_OK) return status;
    weir__page_properties(pages->device, &pages->properties, &pages->access[0]);
    CUdeviceptr base = 0;
    status =
        MEMORY_CALL(pages, "cuMemAddressReserve", address_reserve(&base, pages->arena_bytes, pages->granule, 0, 0));
    weir__device_leave(pages->device);
    pages->arena = (uintptr_t)base;
    return status;
}

static bool make_tables(struct weir__pages *pages, size_t places) {
    pages->handles = calloc(pages->limit + 1, sizeof *pages->handles);
    pages->home = calloc(pages->limit + 1, sizeof *pages->home);
    pages->at = calloc(places, sizeof *pages->at);
    pages->extent_at = calloc(places, sizeof *pages->extent_at);
    pages->spare = calloc(pages->limit, sizeof *pages->spare);
    pages->unnamed = calloc(pages->limit, sizeof *pages->unnamed);
    if (pages->handles == NULL || pages->home == NULL || pages->at == NULL || pages->extent_at == NULL ||
        pages->spare == NULL || pages->unnamed == NULL)
        return false;
    for (size_t i = pages->limit; i > 0; i--) pages->unnamed[pages->unnamed_count++] = (weir__page)i;
    return true;
}

static void free_tables(struct weir__pages *pages) {
    free(pages->handles);
    free(pages->home);
    free(pages->at);
    free(pages->extent_at);
    free(pages->spare);
    free(pages->unnamed);
    *pages = (struct weir__pages){0};
}

enum weir_status weir__pages_open(struct weir__pages *pages, struct weir_device *device, size_t granule, size_t limit) {
    *pages = (struct weir__pages){.device = device, .granule = granule, .limit = limit};
    weir__access_open(pages);
    size_t places = limit * WEIR__ARENA_TIMES;
    pages->arena_bytes = places * granule;
    enum weir_status status = WEIR_OK;
    if (places >= WEIR__NOWHERE)
        status = WEIR__INVALID("a pool of %zu pages is too large; the limit is %u", limit,
                               WEIR__NOWHERE / WEIR__ARENA_TIMES);
    else if (!make_tables(pages, places))
        status = weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a table of %zu pages", places);
    if (status == WEIR_OK) status = reserve_arena(pages);
    if (status != WEIR_OK) free_tables(pages);
    return status;
}

static void release_all(struct weir__pages *pages) {
    for (size_t i = 0; i < pages->unnamed_count; i++) pages->handles[pages->unnamed[i]] = 0;
    for (weir__page page = 1; page <= pages->limit; page++)
        if (pages->handles[page] != 0) weir__pages_release(pages, &page, 1);
}

void weir__pages_close(struct weir__pages *pages) {
    if (pages->at == NULL) return;
    weir__pages_unmap(pages, pages->arena, pages->behind);
    release_all(pages);
    if (weir__device_enter(pages->device) == WEIR_OK) {
        (void)MEMORY_CALL(pages, "cuMemAddressFree", address_free(pages->arena, pages->arena_bytes));
        weir__device_leave(pages->device);
    }
    free_tables(pages);
}

/* ---- pages without a home --------------------------------------------------------------------------------------- */

void weir__pages_take_spare(struct weir__pages *pages, size_t count, weir__page *out) {
    assert(count <= pages->spare_count);
    pages->spare_count -= count;
    memcpy(out, pages->spare + pages->spare_count, count * sizeof *out);
}

void weir__pages_give_spare(struct weir__pages *pages, const weir__page *from, size_t count) {
    assert(pages->spare_count + count <= pages->limit);
    memcpy(pages->spare + pages->spare_count, from, count * sizeof *from);
    pages->spare_count += count;
    for (size_t i = 0; i < count; i++) pages->home[from[i]] = WEIR__NOWHERE;
}

void weir__pages_name(struct weir__pages *pages, size_t count, weir__page *out) {
    assert(count <= pages->unnamed_count);
    for (size_t i = 0; i < count; i++) {
        out[i] = pages->unnamed[--pages->unnamed_count];
        pages->home[out[i]] = WEIR__NOWHERE;
    }
}

void weir__pages_unname(struct weir__pages *pages, const weir__page *from, size_t count) {
    for (size_t i = count; i > 0; i--) {
        pages->handles[from[i - 1]] = 0;
        pages->unnamed[pages->unnamed_count++] = from[i - 1];
    }
}

/* ---- driver calls ----------------------------------------------------------------------------------------------- */

static enum weir_status out_of_memory_or(enum weir_status status) {
    return status == WEIR_DRIVER && weir_last_error()->driver_code == CUDA_ERROR_OUT_OF_MEMORY ? WEIR_OUT_OF_MEMORY
                                                                                               : status;
}

enum weir_status weir__pages_create(struct weir__pages *pages, size_t count, const weir__page *named, size_t *created) {
    *created = 0;
    if (count == 0) return WEIR_OK;
    enum weir_status status = weir__device_enter(pages->device);
    if (status != WEIR_OK) return status;
    while (status == WEIR_OK && *created < count) {
        CUmemGenericAllocationHandle *handle = &pages->handles[named[*created]];
        status = MEMORY_CALL(pages, "cuMemCreate", page_create(handle, pages->granule, &pages->properties, 0));
        if (status == WEIR_OK) ++*created;
    }
    weir__device_leave(pages->device);
    return out_of_memory_or(status);
}

size_t weir__pages_release(struct weir__pages *pages, const weir__page *from, size_t count) {
    if (count == 0 || weir__device_enter(pages->device) != WEIR_OK) return 0;
    size_t done = 0;
    while (done < count && MEMORY_CALL(pages, "cuMemRelease", page_release(pages->handles[from[done]])) == WEIR_OK)
        done++;
    weir__device_leave(pages->device);
    return done;
}

/* Unmaps a run of places that are all mapped. */
static enum weir_status unmap_run(struct weir__pages *pages, uint32_t place, size_t count) {
    enum weir_status status =
        MEMORY_CALL(pages, "cuMemUnmap", page_unmap(weir__place_address(pages, place), count * pages->granule));
    if (status != WEIR_OK) return status;
    for (size_t i = 0; i < count; i++) __atomic_store_n(&pages->at[place + i], 0, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&pages->mapped, count, __ATOMIC_RELAXED);
    return WEIR_OK;
}

/* Undoes a map that failed: unmaps the first `count` pages. */
static enum weir_status undo_map(struct weir__pages *pages, uintptr_t address, size_t count, enum weir_status status) {
    if (count == 0 || unmap_run(pages, weir__place_of(pages, address), count) == WEIR_OK) return status;
    weir__log(WEIR__LOG_ERROR, "pool: %zu pages at %#zx could be neither used nor unmapped", count, (size_t)address);
    return WEIR_BROKEN;
}

/* Places up to `behind` are about to be mapped. */
static void raise_behind(struct weir__pages *pages, size_t behind) {
    size_t seen = __atomic_load_n(&pages->behind, __ATOMIC_RELAXED);
    while (seen < behind &&
           !__atomic_compare_exchange_n(&pages->behind, &seen, behind, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

enum weir_status weir__pages_map(struct weir__pages *pages, uintptr_t address, size_t count, const weir__page *from,
                                 size_t *mapped) {
    enum weir_status status = weir__device_enter(pages->device);
    if (status != WEIR_OK) return status;
    const uint32_t place = weir__place_of(pages, address);
    size_t done = 0;
    raise_behind(pages, place + count);
    weir__access_share(pages);
    while (done < count && status == WEIR_OK) {
        assert(weir__page_at(pages, place + done) == 0 && from[done] != 0);
        status =
            MEMORY_CALL(pages, "cuMemMap",
                        page_map(address + done * pages->granule, pages->granule, 0, pages->handles[from[done]], 0));
        if (status != WEIR_OK) break;
        __atomic_store_n(&pages->at[place + done], from[done], __ATOMIC_RELAXED);
        done++;
    }
    __atomic_fetch_add(&pages->mapped, done, __ATOMIC_RELAXED);
    if (status == WEIR_OK)
        status = MEMORY_CALL(pages, "cuMemSetAccess",
                             page_set_access(address, count * pages->granule, pages->access, weir__accessors(pages)));
    status = out_of_memory_or(status);
    *mapped = done;
    if (status != WEIR_OK) status = undo_map(pages, address, done, status);
    pthread_rwlock_unlock(&pages->access_lock);
    weir__device_leave(pages->device);
    return status;
}

enum weir_status weir__pages_unmap(struct weir__pages *pages, uintptr_t address, size_t count) {
    enum weir_status status = weir__device_enter(pages->device);
    if (status != WEIR_OK) return status;
    uint32_t place = weir__place_of(pages, address);
    const uint32_t end = place + (uint32_t)count;
    weir__access_share(pages);
    while (place < end && status == WEIR_OK) {
        uint32_t behind = place;
        while (behind < end && weir__page_at(pages, behind) != 0 && behind - place < WEIR__LONGEST_UNMAP) behind++;
        if (behind > place) status = unmap_run(pages, place, behind - place);
        place = behind > place ? behind : place + 1;
    }
    pthread_rwlock_unlock(&pages->access_lock);
    weir__device_leave(pages->device);
    return status;
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
