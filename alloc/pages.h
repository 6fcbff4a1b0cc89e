/* SPDX-License-Identifier: Apache-2.0 */
/* Pages: physical handles of one granule each, created once and used again, and where they are mapped in the arena.
 *
 * arena    the reserved range of addresses, much longer than the device's memory
 * spare    pages that are held and mapped nowhere
 *
 * Invariants.
 *   held == mapped + spare + in hands      (in hands: with a call that moves or creates pages)
 *   handle_at[i] == 0                      exactly where the arena's page i is bare
 *
 * Locking: the functions that take or give spare pages and change `held` need the pool's lock. The functions that call
 * the driver (create, release, map, unmap) must be called without it, on pages and addresses that the caller claimed. */
#ifndef WEIR_ALLOC_PAGES_H
#define WEIR_ALLOC_PAGES_H

#include "device/device.h"

typedef CUmemGenericAllocationHandle weir__page;

/* Addresses reserved, as a multiple of the pages that there can be: holes that no request fits are left behind, never run out. */
#define WEIR__ARENA_TIMES 32

struct weir__pages {
    struct weir_device *device;
    size_t granule;
    size_t limit; /* pages that there can ever be */
    uintptr_t arena;
    size_t arena_bytes;
    weir__page *handle_at; /* by page of the arena; mapped lazily by the system */
    weir__page *spare;     /* room for `limit` */
    size_t spare_count;
    size_t held;
    uint64_t memory_calls; /* atomic */
    CUmemAllocationProp properties;
    CUmemAccessDesc access;
};

/* Reserves an arena for `limit` pages. Fails: WEIR_DRIVER, WEIR_OUT_OF_HOST_MEMORY; nothing is left. */
enum weir_status weir__pages_open(struct weir__pages *pages, struct weir_device *device, size_t granule, size_t limit);
/* Unmaps and gives back everything. Needs: no work on the arena. */
void weir__pages_close(struct weir__pages *pages);

static inline uintptr_t weir__page_floor(const struct weir__pages *pages, uintptr_t address) {
    return address - address % pages->granule;
}
static inline uintptr_t weir__page_ceil(const struct weir__pages *pages, uintptr_t address) {
    return weir__page_floor(pages, address + pages->granule - 1);
}
static inline weir__page *weir__page_at(const struct weir__pages *pages, uintptr_t address) {
    return &pages->handle_at[(address - pages->arena) / pages->granule];
}

/* Takes `count` spare pages. Needs: so many. */
void weir__pages_take_spare(struct weir__pages *pages, size_t count, weir__page *out);
void weir__pages_give_spare(struct weir__pages *pages, const weir__page *from, size_t count);

/* Creates `count` pages. Gives: *created, also on failure. Fails: WEIR_OUT_OF_MEMORY when the driver has no more,
 * WEIR_DRIVER. */
enum weir_status weir__pages_create(struct weir__pages *pages, size_t count, weir__page *out, size_t *created);
/* Gives pages back to the driver. Gives: how many it took, from the front on. */
size_t weir__pages_release(struct weir__pages *pages, const weir__page *from, size_t count);
/* Maps `count` pages from `address` on and makes them usable: one set-access for all.
 * Fails: WEIR_DRIVER; nothing is mapped. WEIR_OUT_OF_MEMORY when the driver has none for more mappings; nothing is mapped,
 * *mapped says how many were before it refused. WEIR_BROKEN when the driver would not undo what it had done: the pages stay
 * mapped in part, and the addresses must not be used again. */
enum weir_status weir__pages_map(struct weir__pages *pages, uintptr_t address, size_t count, const weir__page *from,
                                 size_t *mapped);
/* Unmaps `count` pages from `address` on in one call. Gives: the pages. Fails: WEIR_DRIVER; all are still mapped. */
enum weir_status weir__pages_unmap(struct weir__pages *pages, uintptr_t address, size_t count, weir__page *out);

/* For the per-stream policy: memory by the driver's plain calls, counted alike. */
enum weir_status weir__plain_alloc(struct weir_device *device, size_t bytes, uintptr_t *out, uint64_t *memory_calls);
enum weir_status weir__plain_free(struct weir_device *device, uintptr_t address, uint64_t *memory_calls);

#endif
