/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/memory.h"

#include <assert.h>
#include <stdlib.h>

#include "device/emu/backing.h"
#include "device/emu/host.h"
#include "device/emu/ranges.h"
#include "device/emu/settings.h"
#include "device/emu/slots.h"

struct page {
    struct emu_slot slot;
    CUdevice device;
    size_t bytes;
    size_t offset; /* in the device's file */
    bool held;     /* not released yet */
    unsigned mapped;
};

struct reservation {
    struct emu_range range;
    bool plain; /* a plain allocation: the program can't map there */
    bool freeing;
};

struct mapping {
    struct emu_range range;
    struct page *page;
    unsigned char access[EMU_MOST_DEVICES]; /* CUmemAccess_flags a device */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_ranges reservations, mappings;
static struct emu_slots pages = EMU_SLOTS_INITIALIZER(struct page);
static size_t used[EMU_MOST_DEVICES];

static bool whole_granules(size_t value) { return value % emu_settings()->granularity_bytes == 0; }

/* ---- reservations ----------------------------------------------------------------------------------------------- */

static CUresult reserve(uintptr_t wanted, size_t bytes, size_t alignment, bool plain, uintptr_t *start) {
    const size_t granule = emu_settings()->granularity_bytes;
    if (alignment < granule) alignment = granule;
    struct reservation *made = calloc(1, sizeof *made);
    if (made == NULL || !emu_ranges_prepare(&reservations)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *start = emu_backing_reserve(&reservations, wanted, bytes, alignment);
    if (*start == 0) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->range = (struct emu_range){*start, bytes};
    made->plain = plain;
    emu_ranges_insert(&reservations, &made->range);
    return CUDA_SUCCESS;
}

static void unreserve(struct reservation *reservation) {
    emu_backing_unreserve(reservation->range.start, reservation->range.bytes);
    emu_ranges_remove(&reservations, &reservation->range);
    free(reservation);
}

static struct reservation *reservation_at(uintptr_t start) {
    struct reservation *reservation = emu_ranges_at(&reservations, start);
    return reservation != NULL && reservation->range.start == start ? reservation : NULL;
}

CUresult emu_memory_reserve(uintptr_t wanted, size_t bytes, size_t alignment, uintptr_t *start) {
    if (bytes == 0 || !whole_granules(bytes) || bytes > SIZE_MAX / 4) return CUDA_ERROR_INVALID_VALUE;
    if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const CUresult code = reserve(wanted, bytes, alignment, false, start);
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult emu_memory_unreserve(uintptr_t start, size_t bytes) {
    pthread_mutex_lock(&lock);
    struct reservation *reservation = reservation_at(start);
    const bool whole = reservation != NULL && !reservation->plain && reservation->range.bytes == bytes;
    const bool empty = whole && !emu_ranges_overlap(&mappings, start, bytes);
    if (empty) unreserve(reservation);
    pthread_mutex_unlock(&lock);
    return empty ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

static CUresult create(CUdevice device, size_t bytes, struct page **out) {
    if (bytes > emu_settings()->capacity_bytes - used[device]) return CUDA_ERROR_OUT_OF_MEMORY;
    struct page *page = emu_slots_take(&pages);
    if (page == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t offset;
    if (!emu_backing_take(device, bytes, &offset)) {
        emu_slots_give(&pages, page);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    page->device = device;
    page->bytes = bytes;
    page->offset = offset;
    page->held = true;
    page->mapped = 0;
    used[device] += bytes;
    *out = page;
    return CUDA_SUCCESS;
}

static void drop_if_unused(struct page *page) {
    if (page->held || page->mapped > 0) return;
    emu_backing_give(page->device, page->offset, page->bytes);
    assert(used[page->device] >= page->bytes);
    used[page->device] -= page->bytes;
    emu_slots_give(&pages, page);
}

static struct page *page_of(CUmemGenericAllocationHandle handle) {
    struct page *page = (struct page *)(uintptr_t)handle;
    return emu_slots_alive(&pages, page) && page->held ? page : NULL;
}

CUresult emu_memory_create(CUdevice device, size_t bytes, CUmemGenericAllocationHandle *handle) {
    if (bytes == 0 || !whole_granules(bytes)) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct page *page = NULL;
    const CUresult code = create(device, bytes, &page);
    pthread_mutex_unlock(&lock);
    *handle = (uintptr_t)page;
    return code;
}

CUresult emu_memory_release(CUmemGenericAllocationHandle handle) {
    pthread_mutex_lock(&lock);
    struct page *page = page_of(handle);
    if (page != NULL) {
        page->held = false;
        drop_if_unused(page);
    }
    pthread_mutex_unlock(&lock);
    return page != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

size_t emu_memory_used(CUdevice device) {
    pthread_mutex_lock(&lock);
    const size_t bytes = used[device];
    pthread_mutex_unlock(&lock);
    return bytes;
}

/* ---- mappings --------------------------------------------------------------------------------------------------- */

/* Sides of a run at which reserved addresses without a mapping lie: there the kernel needs one mapping more. */
static unsigned bare_sides(const struct reservation *reservation, uintptr_t start, size_t bytes) {
    const uintptr_t end = start + bytes;
    const bool before = start > reservation->range.start && emu_ranges_at(&mappings, start - 1) == NULL;
    const bool behind = end < emu_range_end(&reservation->range) && emu_ranges_at(&mappings, end) == NULL;
    return (unsigned)before + (unsigned)behind;
}

static CUresult map(const struct reservation *reservation, uintptr_t start, size_t bytes, struct page *page) {
    struct mapping *made = calloc(1, sizeof *made);
    if (made == NULL || !emu_ranges_prepare(&mappings)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const unsigned splits = bare_sides(reservation, start, bytes);
    if (!emu_backing_map(start, bytes, page->device, page->offset, splits)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->range = (struct emu_range){start, bytes};
    made->page = page;
    page->mapped++;
    emu_ranges_insert(&mappings, &made->range);
    return CUDA_SUCCESS;
}

static void unmap(struct mapping *mapping) {
    const uintptr_t start = mapping->range.start;
    const size_t bytes = mapping->range.bytes;
    emu_ranges_remove(&mappings, &mapping->range);
    emu_backing_unmap(start, bytes, bare_sides(emu_ranges_at(&reservations, start), start, bytes));
    assert(mapping->page->mapped > 0);
    mapping->page->mapped--;
    drop_if_unused(mapping->page);
    free(mapping);
}

/* Finds the mappings that tile a run exactly: [*first, *end) of the list. False when one sticks out or there is a gap. */
static bool whole_mappings(uintptr_t start, size_t bytes, size_t *first, size_t *end) {
    if (bytes == 0 || bytes > UINTPTR_MAX - start) return false;
    if (emu_ranges_at(&mappings, start) == NULL) return false;
    *first = emu_ranges_upto(&mappings, start) - 1;
    uintptr_t reached = start;
    for (*end = *first; *end < mappings.count && reached < start + bytes; ++*end) {
        if (mappings.items[*end]->start != reached) return false;
        reached = emu_range_end(mappings.items[*end]);
    }
    return reached == start + bytes;
}

static CUresult map_checked(uintptr_t start, size_t bytes, CUmemGenericAllocationHandle handle) {
    struct page *page = page_of(handle);
    if (page == NULL || bytes > page->bytes) return CUDA_ERROR_INVALID_VALUE;
    const struct reservation *reservation = emu_ranges_at(&reservations, start);
    if (reservation == NULL || reservation->plain) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > emu_range_end(&reservation->range) - start) return CUDA_ERROR_INVALID_VALUE;
    if (emu_ranges_overlap(&mappings, start, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return map(reservation, start, bytes, page);
}

CUresult emu_memory_map(uintptr_t start, size_t bytes, CUmemGenericAllocationHandle handle) {
    if (bytes == 0 || !whole_granules(bytes) || !whole_granules(start)) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const CUresult code = map_checked(start, bytes, handle);
    pthread_mutex_unlock(&lock);
    return code;
}

static bool plain_at(uintptr_t start) {
    const struct reservation *reservation = emu_ranges_at(&reservations, start);
    return reservation != NULL && reservation->plain;
}

CUresult emu_memory_unmap(uintptr_t start, size_t bytes) {
    size_t first, end;
    pthread_mutex_lock(&lock);
    const bool whole = !plain_at(start) && whole_mappings(start, bytes, &first, &end);
    if (whole)
        for (size_t i = end; i > first; i--) unmap((struct mapping *)mappings.items[i - 1]);
    pthread_mutex_unlock(&lock);
    return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- access ----------------------------------------------------------------------------------------------------- */

/* All devices of a process share its page tables here, so a page allows what any of them is allowed. */
static CUmemAccess_flags access_of(const struct mapping *mapping) {
    unsigned access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (int device = 0; device < EMU_MOST_DEVICES; device++) access |= mapping->access[device];
    return (CUmemAccess_flags)access;
}

/* One system call a run of mappings that come to have the same access. */
static void protect(size_t first, size_t end) {
    while (first < end) {
        const uintptr_t start = mappings.items[first]->start;
        const CUmemAccess_flags access = access_of((struct mapping *)mappings.items[first]);
        uintptr_t reached = start;
        while (first < end && access_of((struct mapping *)mappings.items[first]) == access)
            reached = emu_range_end(mappings.items[first++]);
        emu_backing_protect(start, reached - start, access);
    }
}

static void set_access(size_t first, size_t end, CUdevice device, CUmemAccess_flags access) {
    for (size_t i = first; i < end; i++) ((struct mapping *)mappings.items[i])->access[device] = (unsigned char)access;
    protect(first, end);
}

CUresult emu_memory_set_access(uintptr_t start, size_t bytes, CUdevice device, CUmemAccess_flags access) {
    size_t first, end;
    pthread_mutex_lock(&lock);
    const bool whole = !plain_at(start) && whole_mappings(start, bytes, &first, &end);
    if (whole) set_access(first, end, device, access);
    pthread_mutex_unlock(&lock);
    return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Walks the mappings over a run of a reservation. */
static bool accessible(uintptr_t start, size_t bytes, unsigned needed) {
    uintptr_t at = start;
    for (size_t i = emu_ranges_upto(&mappings, start); at - start < bytes; i++) {
        const struct mapping *mapping = i > 0 && i <= mappings.count ? (struct mapping *)mappings.items[i - 1] : NULL;
        if (mapping == NULL || mapping->range.start > at || emu_range_end(&mapping->range) <= at) return false;
        if ((access_of(mapping) & needed) != needed) return false;
        at = emu_range_end(&mapping->range);
    }
    return true;
}

enum emu_place emu_memory_place(uintptr_t start, size_t bytes, bool write) {
    if (bytes > UINTPTR_MAX - start) return EMU_PLACE_INVALID;
    const unsigned needed = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    pthread_mutex_lock(&lock);
    const bool reserved = emu_ranges_overlap(&reservations, start, bytes);
    const bool usable = reserved && accessible(start, bytes, needed);
    pthread_mutex_unlock(&lock);
    if (reserved) return usable ? EMU_PLACE_DEVICE : EMU_PLACE_INVALID;
    return emu_host_pinned(start, bytes) ? EMU_PLACE_PINNED : EMU_PLACE_PAGEABLE;
}

/* ---- plain allocation ------------------------------------------------------------------------------------------- */

static CUresult alloc(CUdevice device, size_t bytes, uintptr_t *start) {
    struct page *page;
    CUresult code = create(device, bytes, &page);
    if (code != CUDA_SUCCESS) return code;
    page->held = false; /* the mapping is what keeps it */
    code = reserve(0, bytes, 0, true, start);
    if (code != CUDA_SUCCESS) goto drop;
    code = map(reservation_at(*start), *start, bytes, page);
    if (code != CUDA_SUCCESS) goto unreserve;
    const size_t at = emu_ranges_upto(&mappings, *start) - 1;
    set_access(at, at + 1, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return CUDA_SUCCESS;
unreserve:
    unreserve(reservation_at(*start));
drop:
    drop_if_unused(page);
    return code;
}

CUresult emu_memory_alloc(CUdevice device, size_t bytes, uintptr_t *start) {
    const size_t granule = emu_settings()->granularity_bytes;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > SIZE_MAX - granule) return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    const CUresult code = alloc(device, (bytes + granule - 1) / granule * granule, start);
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult emu_memory_begin_free(uintptr_t start, CUdevice *device) {
    pthread_mutex_lock(&lock);
    struct reservation *reservation = reservation_at(start);
    const bool valid = reservation != NULL && reservation->plain && !reservation->freeing;
    if (valid) {
        reservation->freeing = true;
        *device = ((struct mapping *)emu_ranges_at(&mappings, start))->page->device;
    }
    pthread_mutex_unlock(&lock);
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void free_plain(struct reservation *reservation) {
    unmap(emu_ranges_at(&mappings, reservation->range.start));
    unreserve(reservation);
}

void emu_memory_finish_free(uintptr_t start) {
    pthread_mutex_lock(&lock);
    free_plain(reservation_at(start));
    pthread_mutex_unlock(&lock);
}

void emu_memory_forget(CUdevice device) {
    pthread_mutex_lock(&lock);
    for (size_t i = reservations.count; i > 0; i--) {
        struct reservation *reservation = (struct reservation *)reservations.items[i - 1];
        if (!reservation->plain || reservation->freeing) continue;
        const struct mapping *mapping = emu_ranges_at(&mappings, reservation->range.start);
        if (mapping->page->device == device) free_plain(reservation);
    }
    pthread_mutex_unlock(&lock);
}
