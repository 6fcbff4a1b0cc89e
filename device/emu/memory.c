/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/memory.h"

#include <assert.h>
#include <stdlib.h>

#include "device/emu/backing.h"
#include "device/emu/host.h"
#include "device/emu/memory_inside.h"
#include "device/emu/pool.h"
#include "device/emu/settings.h"
#include "device/emu/watch.h"

static struct emu_ranges reservations, mappings;
static struct emu_slots pages = EMU_SLOTS_INITIALIZER(struct page);
static size_t used[EMU_MOST_DEVICES], most_used[EMU_MOST_DEVICES], others[EMU_MOST_DEVICES];
static struct page *lent; /* given back here, and still in use by another process */
static uint64_t last_id;

uint64_t emu_memory_new_id(void) { return ++last_id; }

static bool whole_granules(size_t value) { return value % emu_settings()->granularity_bytes == 0; }

/* ---- reservations ----------------------------------------------------------------------------------------------- */

static CUresult reserve(uintptr_t wanted, size_t bytes, size_t alignment, struct reservation **out) {
    const size_t granule = emu_settings()->granularity_bytes;
    if (alignment < granule) alignment = granule;
    struct reservation *made = calloc(1, sizeof *made);
    if (made == NULL || !emu_ranges_prepare(&reservations)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const uintptr_t start = emu_backing_reserve(&reservations, wanted, bytes, alignment);
    if (start == 0) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->range = (struct emu_range){start, bytes};
    made->id = ++last_id;
    emu_ranges_insert(&reservations, &made->range);
    *out = made;
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
    struct reservation *made;
    const CUresult code = reserve(wanted, bytes, alignment, &made);
    if (code == CUDA_SUCCESS) *start = made->range.start;
    return code;
}

CUresult emu_memory_unreserve(uintptr_t start, size_t bytes) {
    struct reservation *reservation = reservation_at(start);
    const bool whole = reservation != NULL && reservation->plain.context == NULL && reservation->range.bytes == bytes;
    const bool empty = whole && !emu_ranges_overlap(&mappings, start, bytes);
    if (empty) unreserve(reservation);
    return empty ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

struct page *emu_page_new(CUdevice device, size_t bytes) {
    struct page *page = emu_slots_take(&pages);
    if (page == NULL) return NULL;
    const struct emu_slot slot = page->slot;
    *page = (struct page){.slot = slot, .device = device, .bytes = bytes, .descriptor = -1, .id = ++last_id, .held = 1};
    return page;
}

static CUresult create(CUdevice device, size_t bytes, struct page **out) {
    if (bytes > emu_memory_free(device) && !emu_settings()->never_refuses) return CUDA_ERROR_OUT_OF_MEMORY;
    struct page *page = emu_page_new(device, bytes);
    if (page == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!emu_backing_take(device, bytes, &page->offset)) {
        emu_slots_give(&pages, page);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    page->file_offset = page->offset;
    used[device] += bytes;
    if (used[device] > most_used[device]) most_used[device] = used[device];
    emu_watch_page_made(device, page->offset, bytes);
    *out = page;
    return CUDA_SUCCESS;
}

static void give_back(struct page *page) {
    emu_watch_page_gone(page->device, page->offset, page->bytes);
    emu_backing_give(page->device, page->offset, page->bytes);
    assert(used[page->device] >= page->bytes);
    used[page->device] -= page->bytes;
    emu_slots_give(&pages, page);
}

/* A page that another process has imported, or that a descriptor can bring back, is not free before those are gone. */
static void drop_if_unused(struct page *page) {
    if (page->held > 0 || page->mapped > 0) return;
    if (page->descriptor >= 0) {
        emu_watch_page_gone(page->device, page->offset, page->bytes);
        emu_backing_close(page->descriptor);
        emu_slots_give(&pages, page);
    } else if (page->exported && emu_backing_in_use(page->device, page->offset, page->bytes)) {
        page->next_lent = lent;
        lent = page;
    } else {
        give_back(page);
    }
}

static void take_lent(void) {
    for (struct page **place = &lent; *place != NULL;) {
        struct page *page = *place;
        if (emu_backing_in_use(page->device, page->offset, page->bytes)) {
            place = &page->next_lent;
            continue;
        }
        *place = page->next_lent;
        give_back(page);
    }
}

struct page *emu_page_take_back(CUdevice device, size_t offset) {
    for (struct page **place = &lent; *place != NULL; place = &(*place)->next_lent) {
        struct page *page = *place;
        if (page->device != device || page->offset != offset) continue;
        *place = page->next_lent;
        return page;
    }
    return NULL;
}

struct page *emu_page_of(CUmemGenericAllocationHandle handle) {
    struct page *page = (struct page *)(uintptr_t)handle;
    return emu_slots_alive(&pages, page) && page->held > 0 ? page : NULL;
}

struct page *emu_page_at_offset(CUdevice device, size_t offset) {
    for (struct page *page = emu_slots_next(&pages, NULL); page != NULL; page = emu_slots_next(&pages, page))
        if (page->device == device && page->offset == offset && (page->held > 0 || page->mapped > 0)) return page;
    return NULL;
}

CUresult emu_memory_create(const CUmemAllocationProp *properties, size_t bytes, CUmemGenericAllocationHandle *handle) {
    if (bytes == 0 || !whole_granules(bytes)) return CUDA_ERROR_INVALID_VALUE;
    struct page *page = NULL;
    const CUresult code = create(properties->location.id, bytes, &page);
    if (code != CUDA_SUCCESS) return code;
    page->properties = *properties;
    *handle = (uintptr_t)page;
    return CUDA_SUCCESS;
}

CUresult emu_memory_release(CUmemGenericAllocationHandle handle) {
    struct page *page = emu_page_of(handle);
    if (page == NULL) return CUDA_ERROR_INVALID_VALUE;
    page->held--;
    drop_if_unused(page);
    return CUDA_SUCCESS;
}

size_t emu_memory_free(CUdevice device) {
    take_lent();
    const size_t capacity = emu_settings()->capacity_bytes, taken = used[device] + others[device];
    return taken < capacity ? capacity - taken : 0;
}

size_t emu_memory_held(CUdevice device) { return used[device]; }
size_t emu_memory_most_held(CUdevice device) { return most_used[device]; }

bool emu_memory_others(CUdevice device, size_t bytes) {
    const size_t capacity = emu_settings()->capacity_bytes; /* less than used, where a driver never refuses */
    const size_t left = used[device] < capacity ? capacity - used[device] : 0;
    if (bytes > left && bytes > others[device]) return false;
    others[device] = bytes;
    return true;
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
    if (!emu_backing_map(start, bytes, page->device, page->descriptor, page->file_offset, splits)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->range = (struct emu_range){start, bytes};
    made->page = page;
    page->mapped++;
    emu_ranges_insert(&mappings, &made->range);
    const bool first = page->mapped == 1; /* else the bytes may be in use by another address */
    if (page->descriptor >= 0 && first) emu_watch_host_writes(start, bytes, "another process");
    return CUDA_SUCCESS;
}

/* The watch has been told. */
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
        if (emu_ranges_item(&mappings, *end)->start != reached) return false;
        reached = emu_range_end(emu_ranges_item(&mappings, *end));
    }
    return reached == start + bytes;
}

static CUresult map_checked(uintptr_t start, size_t bytes, CUmemGenericAllocationHandle handle) {
    struct page *page = emu_page_of(handle);
    if (page == NULL || bytes > page->bytes) return CUDA_ERROR_INVALID_VALUE;
    const struct reservation *reservation = emu_ranges_at(&reservations, start);
    if (reservation == NULL || reservation->plain.context != NULL) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > emu_range_end(&reservation->range) - start) return CUDA_ERROR_INVALID_VALUE;
    if (emu_ranges_overlap(&mappings, start, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return map(reservation, start, bytes, page);
}

CUresult emu_memory_map(uintptr_t start, size_t bytes, CUmemGenericAllocationHandle handle) {
    if (bytes == 0 || !whole_granules(bytes) || !whole_granules(start)) return CUDA_ERROR_INVALID_VALUE;
    return map_checked(start, bytes, handle);
}

static bool plain_at(uintptr_t start) {
    const struct reservation *reservation = emu_ranges_at(&reservations, start);
    return reservation != NULL && reservation->plain.context != NULL;
}

CUresult emu_memory_unmap(uintptr_t start, size_t bytes, size_t *handles) {
    size_t first, end;
    const bool whole = !plain_at(start) && whole_mappings(start, bytes, &first, &end);
    if (!whole) return CUDA_ERROR_INVALID_VALUE;
    *handles = end - first;
    emu_watch_unmaps(start, bytes, "cuMemUnmap");
    for (size_t i = end; i > first; i--) unmap((struct mapping *)emu_ranges_item(&mappings, i - 1));
    return CUDA_SUCCESS;
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
        const uintptr_t start = emu_ranges_item(&mappings, first)->start;
        const CUmemAccess_flags access = access_of((struct mapping *)emu_ranges_item(&mappings, first));
        uintptr_t reached = start;
        while (first < end && access_of((struct mapping *)emu_ranges_item(&mappings, first)) == access)
            reached = emu_range_end(emu_ranges_item(&mappings, first++));
        emu_backing_protect(start, reached - start, access);
    }
}

static void set_access(size_t first, size_t end, CUdevice device, CUmemAccess_flags access) {
    for (size_t i = first; i < end; i++)
        ((struct mapping *)emu_ranges_item(&mappings, i))->access[device] = (unsigned char)access;
    protect(first, end);
}

CUresult emu_memory_set_access(uintptr_t start, size_t bytes, CUdevice device, CUmemAccess_flags access,
                               size_t *handles) {
    size_t first, end;
    const bool whole = !plain_at(start) && whole_mappings(start, bytes, &first, &end);
    if (whole) *handles += end - first;
    if (whole) set_access(first, end, device, access);
    return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Walks the mappings over a run of a reservation. */
static bool accessible(uintptr_t start, size_t bytes, unsigned needed) {
    uintptr_t at = start;
    for (size_t i = emu_ranges_upto(&mappings, start); at - start < bytes; i++) {
        const struct mapping *mapping =
            i > 0 && i <= mappings.count ? (struct mapping *)emu_ranges_item(&mappings, i - 1) : NULL;
        if (mapping == NULL || mapping->range.start > at || emu_range_end(&mapping->range) <= at) return false;
        if ((access_of(mapping) & needed) != needed) return false;
        at = emu_range_end(&mapping->range);
    }
    return true;
}

const struct mapping *emu_mapping_at(uintptr_t address) { return emu_ranges_at(&mappings, address); }

const struct reservation *emu_reservation_at(uintptr_t address) { return emu_ranges_at(&reservations, address); }

CUdevice emu_memory_device(uintptr_t address) { return emu_mapping_at(address)->page->device; }

enum emu_place emu_memory_place(uintptr_t start, size_t bytes, bool write) {
    if (bytes > UINTPTR_MAX - start) return EMU_PLACE_INVALID;
    const unsigned needed = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    const bool reserved = emu_ranges_overlap(&reservations, start, bytes);
    const bool usable = reserved && accessible(start, bytes, needed);
    if (reserved) return usable ? EMU_PLACE_DEVICE : EMU_PLACE_INVALID;
    if (emu_host_pinned(start, bytes)) return EMU_PLACE_PINNED;
    return !emu_settings()->backed || emu_host_exists(start, bytes) ? EMU_PLACE_PAGEABLE : EMU_PLACE_INVALID;
}

enum emu_place emu_memory_place_rows(uintptr_t start, size_t bytes, size_t rows, size_t pitch, bool write) {
    const size_t span = (rows - 1) * pitch + bytes;
    if (span < bytes) return EMU_PLACE_INVALID;
    enum emu_place place = emu_memory_place(start, span, write); /* mostly so, however many the rows are */
    if (place != EMU_PLACE_INVALID || span > UINTPTR_MAX - start) return place;
    for (size_t row = 0; row < rows; row++) {
        const enum emu_place each = emu_memory_place(start + row * pitch, bytes, write);
        const bool mixed = row > 0 && (each == EMU_PLACE_DEVICE) != (place == EMU_PLACE_DEVICE);
        if (each == EMU_PLACE_INVALID || mixed) return EMU_PLACE_INVALID;
        place = row == 0 || each == place ? each : EMU_PLACE_PAGEABLE;
    }
    return place;
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

/* The piece at the beginning of a run, within one mapping or up to the next. */
static struct emu_piece piece_at(uintptr_t start, size_t bytes, size_t *next) {
    const struct mapping *mapping = NULL;
    while (*next < mappings.count && emu_range_end(emu_ranges_item(&mappings, *next)) <= start) ++*next;
    if (*next < mappings.count) mapping = (struct mapping *)emu_ranges_item(&mappings, *next);
    struct emu_piece piece = {.start = start, .bytes = bytes, .device = -1};
    if (mapping == NULL || mapping->range.start >= start + bytes) return piece;
    if (mapping->range.start > start) {
        piece.bytes = mapping->range.start - start;
        return piece;
    }
    const size_t left = emu_range_end(&mapping->range) - start;
    if (piece.bytes > left) piece.bytes = left;
    piece.device = mapping->page->device;
    piece.offset = mapping->page->offset + (start - mapping->range.start);
    return piece;
}

static bool goes_on(const struct emu_piece *piece, const struct emu_piece *with) {
    return piece->device == with->device && (piece->device < 0 || piece->offset + piece->bytes == with->offset);
}

bool emu_memory_pieces(uintptr_t start, size_t bytes, void (*visit)(void *self, const struct emu_piece *piece),
                       void *self) {
    if (!emu_ranges_overlap(&reservations, start, bytes)) return false;
    size_t next = emu_ranges_upto(&mappings, start);
    if (next > 0) next--;
    struct emu_piece piece = piece_at(start, bytes, &next);
    for (size_t done = piece.bytes; done < bytes;) {
        const struct emu_piece with = piece_at(start + done, bytes - done, &next);
        done += with.bytes;
        if (goes_on(&piece, &with)) {
            piece.bytes += with.bytes;
            continue;
        }
        visit(self, &piece);
        piece = with;
    }
    visit(self, &piece);
    return true;
}

size_t emu_memory_plain_bytes(uintptr_t start) {
    const struct reservation *reservation = reservation_at(start);
    return reservation != NULL && reservation->plain.context != NULL ? reservation->range.bytes : 0;
}

/* ---- plain allocation ------------------------------------------------------------------------------------------- */

static void set_plain_access(const struct reservation *reservation, CUmemAccess_flags access) {
    const size_t at = emu_ranges_upto(&mappings, reservation->range.start) - 1;
    set_access(at, at + 1, reservation->plain.device, access);
}

static CUresult alloc(const struct emu_plain *plain, size_t asked, size_t bytes, uintptr_t *start) {
    struct page *page;
    struct reservation *reservation;
    CUresult code = create(plain->device, bytes, &page);
    if (code != CUDA_SUCCESS) return code;
    page->held = 0; /* the mapping is what keeps it */
    code = reserve(0, bytes, 0, &reservation);
    if (code != CUDA_SUCCESS) goto drop;
    reservation->plain = *plain;
    reservation->asked = asked;
    *start = reservation->range.start;
    code = map(reservation, *start, bytes, page);
    if (code != CUDA_SUCCESS) goto unreserve;
    set_plain_access(reservation, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return CUDA_SUCCESS;
unreserve:
    unreserve(reservation);
drop:
    drop_if_unused(page);
    return code;
}

CUresult emu_memory_alloc_as(const struct emu_plain *plain, size_t bytes, uintptr_t *start) {
    const size_t granule = emu_settings()->granularity_bytes;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > SIZE_MAX - granule) return CUDA_ERROR_OUT_OF_MEMORY;
    return alloc(plain, bytes, (bytes + granule - 1) / granule * granule, start);
}

CUresult emu_memory_alloc(CUcontext context, size_t bytes, uintptr_t *start) {
    const struct emu_plain plain = {.context = context, .device = context->device};
    return emu_memory_alloc_as(&plain, bytes, start);
}

static struct reservation *plain_that_starts_at(uintptr_t start) {
    struct reservation *reservation = reservation_at(start);
    return reservation != NULL && reservation->plain.context != NULL ? reservation : NULL;
}

CUresult emu_memory_begin_free(uintptr_t start, CUdevice *device, bool *pooled) {
    struct reservation *reservation = plain_that_starts_at(start);
    if (reservation == NULL || reservation->freeing) return CUDA_ERROR_INVALID_VALUE;
    reservation->freeing = true;
    *device = reservation->plain.device;
    *pooled = reservation->plain.pool != NULL;
    return CUDA_SUCCESS;
}

void emu_memory_cancel_free(uintptr_t start) { reservation_at(start)->freeing = false; }

static void give_up(struct reservation *reservation) {
    unmap(emu_ranges_at(&mappings, reservation->range.start));
    unreserve(reservation);
}

/* What a pool keeps can't be touched until it is handed out again. */
static void free_plain(struct reservation *reservation, const char *entry) {
    CUmemoryPool pool = reservation->plain.pool;
    const size_t bytes = reservation->range.bytes;
    const bool keep = pool != NULL && emu_pool_keeps(pool, bytes);
    emu_watch_unmaps(reservation->range.start, bytes, keep ? NULL : entry);
    if (keep) {
        set_plain_access(reservation, CU_MEM_ACCESS_FLAGS_PROT_NONE);
        reservation->next_idle = pool->idle;
        pool->idle = reservation;
    } else {
        give_up(reservation);
    }
    if (pool != NULL) emu_pool_has_back(pool, bytes, keep);
}

void emu_memory_finish_free(uintptr_t start, const char *entry) { free_plain(reservation_at(start), entry); }

bool emu_memory_reuse(const struct emu_plain *plain, size_t bytes, uintptr_t *start) {
    struct reservation **place = &plain->pool->idle;
    while (*place != NULL && (*place)->range.bytes != bytes) place = &(*place)->next_idle;
    struct reservation *reservation = *place;
    if (reservation == NULL) return false;
    *place = reservation->next_idle;
    reservation->plain = *plain;
    reservation->asked = bytes;
    reservation->id = ++last_id;
    reservation->freeing = false;
    set_plain_access(reservation, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    *start = reservation->range.start;
    const struct page *page = emu_mapping_at(*start)->page;
    emu_watch_page_made(page->device, page->offset, page->bytes);
    return true;
}

size_t emu_memory_trim(CUmemoryPool pool, size_t bytes) {
    size_t given = 0;
    while (pool->idle != NULL && given + pool->idle->range.bytes <= bytes) {
        struct reservation *reservation = pool->idle;
        pool->idle = reservation->next_idle;
        given += reservation->range.bytes;
        emu_charge_call(EMU_AT_cuMemUnmap, reservation->range.bytes);
        emu_charge_call(EMU_AT_cuMemRelease, reservation->range.bytes);
        give_up(reservation);
    }
    return given;
}

static bool is_idle(const struct reservation *reservation) {
    if (reservation->plain.pool == NULL) return false;
    const struct reservation *each = reservation->plain.pool->idle;
    while (each != NULL && each != reservation) each = each->next_idle;
    return each != NULL;
}

uintptr_t emu_memory_next_plain(CUcontext context, uintptr_t from, size_t *bytes) {
    for (size_t i = from > 0 ? emu_ranges_upto(&reservations, from - 1) : 0; i < reservations.count; i++) {
        const struct reservation *reservation = (const struct reservation *)emu_ranges_item(&reservations, i);
        if (reservation->plain.context != context) continue;
        *bytes = reservation->range.bytes;
        return reservation->range.start;
    }
    return 0;
}

/* What pools keep belongs to no context. */
void emu_memory_forget(CUcontext context) {
    for (size_t i = reservations.count; i > 0; i--) {
        struct reservation *reservation = (struct reservation *)emu_ranges_item(&reservations, i - 1);
        if (reservation->plain.context == context && !reservation->freeing) free_plain(reservation, "cuCtxDestroy");
    }
}

bool emu_memory_frees_pending(CUdevice device) {
    for (size_t i = 0; i < reservations.count; i++) {
        const struct reservation *reservation = (struct reservation *)emu_ranges_item(&reservations, i);
        if (reservation->freeing && reservation->plain.device == device && !is_idle(reservation)) return true;
    }
    return false;
}
