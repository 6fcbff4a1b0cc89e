/* SPDX-License-Identifier: Apache-2.0 */
/* Pages: physical handles of one granule each, created once and used again, and where they are mapped in the arena.
 *
 * arena    the reserved range of addresses, much longer than the device's memory
 * page     a number that stands for a handle; 0 is none
 * home     the one place of the arena through which a page is used, or may be next
 * stale    a place that is mapped to a page whose home is elsewhere by now: left behind when the page went, so that it can come
 *          back without a driver call. The driver lets a page be mapped at several addresses; work that writes through
 *          one is seen through the others once it has ended, and a block's work is ordered after that of those before it
 * spare    pages that are held and mapped nowhere
 *
 * Invariants.
 *   held == pages with a home + spare + in hands      (in hands: with a call that moves or creates pages)
 *   at[i] == 0                       nothing is mapped at the arena's page i
 *   home[at[i]] == i                 exactly where an extent that is used or idle touches it
 *
 * Locking: everything needs the pool's lock, but the functions that call the driver (create, release, map, unmap): they must be
 * called without it, on pages and addresses that the caller claimed. */
#ifndef WEIR_ALLOC_PAGES_H
#define WEIR_ALLOC_PAGES_H

#include "alloc/granule.h"
#include "device/device.h"

typedef uint32_t weir__page;
struct weir__extent;

#define WEIR__NOWHERE UINT32_MAX

/* Addresses reserved, as a multiple of the pages that there can be: holes that no request fits are left behind, never run out. */
#define WEIR__ARENA_TIMES 32
/* Places that may be mapped at once, as a multiple of the limit; beyond it the oldest stale ones are unmapped. */
#define WEIR__MAPPED_TIMES 4
/* Pages that one call unmaps at most: so many are unmapped, or none. */
#define WEIR__LONGEST_UNMAP 512u

/* Devices beside the pool's own that may use its memory. */
#define WEIR__MOST_PEERS 63u

struct weir__pages {
    struct weir_device *device;
    size_t granule;
    size_t limit; /* pages that there can ever be */
    uintptr_t arena;
    size_t arena_bytes;
    CUmemGenericAllocationHandle *handles; /* by page */
    uint32_t *home;                        /* by page: which page of the arena, or WEIR__NOWHERE */
    weir__page *at;                  /* by page of the arena; this and the next are made real lazily by the system */
    struct weir__extent **extent_at; /* the extent over its first byte; not set where that is bare and not stale */
    weir__page *spare;               /* room for `limit`, as the next */
    weir__page *unnamed;             /* numbers that stand for no handle */
    size_t spare_count, unnamed_count;
    size_t held;
    size_t mapped;         /* atomic: places that are */
    size_t behind;         /* atomic: this place, and those after it, have never been mapped */
    uint64_t memory_calls; /* atomic */
    CUmemAllocationProp properties;
    CUmemAccessDesc access[WEIR__MOST_PEERS + 1]; /* the device's own, then its peers' */
    unsigned peer_count;
    pthread_rwlock_t
        access_lock; /* read: by calls that map and unmap; written: while what is mapped gets another peer */
};

void weir__access_open(struct weir__pages *pages);
/* Around calls that map or unmap: what is mapped gets no other peer meanwhile. Ends by the lock's unlock. (peer.c) */
void weir__access_share(struct weir__pages *pages);

/* Reserves an arena for `limit` pages. Fails: WEIR_DRIVER, WEIR_OUT_OF_HOST_MEMORY; nothing is left. */
enum weir_status weir__pages_open(struct weir__pages *pages, struct weir_device *device, size_t granule, size_t limit);
/* Unmaps and gives back everything. Needs: no work on the arena. */
void weir__pages_close(struct weir__pages *pages);

static inline size_t weir__accessors(const struct weir__pages *pages) { return 1 + (size_t)pages->peer_count; }
static inline uintptr_t weir__page_floor(const struct weir__pages *pages, uintptr_t address) {
    return weir__floor_to(address, pages->granule);
}
static inline uintptr_t weir__page_ceil(const struct weir__pages *pages, uintptr_t address) {
    return weir__page_floor(pages, address + pages->granule - 1);
}
/* The number of an address's place in the arena, and back. */
static inline uint32_t weir__place_of(const struct weir__pages *pages, uintptr_t address) {
    return (uint32_t)weir__granules(address - pages->arena, pages->granule);
}
static inline uintptr_t weir__place_address(const struct weir__pages *pages, uint32_t place) {
    return pages->arena + place * pages->granule;
}
/* What is mapped at a place, 0 if nothing: of one that the caller has not claimed, another call may be changing it right now. */
static inline weir__page weir__page_at(const struct weir__pages *pages, size_t place) {
    return __atomic_load_n(&pages->at[place], __ATOMIC_RELAXED);
}
/* Gives: a place from which on nothing is mapped, but for what another call is mapping right now. */
static inline size_t weir__pages_behind(const struct weir__pages *pages) {
    return __atomic_load_n(&pages->behind, __ATOMIC_RELAXED);
}
/* True when the page that is mapped at a place is at home there. */
static inline bool weir__place_is_home(const struct weir__pages *pages, uint32_t place) {
    return weir__page_at(pages, place) != 0 && pages->home[weir__page_at(pages, place)] == place;
}

/* Takes `count` spare pages. Needs: so many. */
void weir__pages_take_spare(struct weir__pages *pages, size_t count, weir__page *out);
void weir__pages_give_spare(struct weir__pages *pages, const weir__page *from, size_t count);
/* Takes numbers for pages that are to be created, and gives back those for which there is no handle (any more). */
void weir__pages_name(struct weir__pages *pages, size_t count, weir__page *out);
void weir__pages_unname(struct weir__pages *pages, const weir__page *from, size_t count);

/* Creates handles for `count` named pages. Gives: *created, also on failure. Fails: WEIR_OUT_OF_MEMORY when the driver has no
 * more, WEIR_DRIVER. */
enum weir_status weir__pages_create(struct weir__pages *pages, size_t count, const weir__page *named, size_t *created);
/* Gives pages that are mapped nowhere back to the driver. Gives: how many it took, from the front on. */
size_t weir__pages_release(struct weir__pages *pages, const weir__page *from, size_t count);
/* Maps `count` pages from `address` on, where nothing is mapped, and makes them usable: one set-access for all.
 * Fails: WEIR_DRIVER; nothing is mapped. WEIR_OUT_OF_MEMORY when the driver has none for more mappings; nothing is mapped,
 * *mapped says how many were before it refused. WEIR_BROKEN when the driver would not undo what it had done: the pages stay
 * mapped in part, and the addresses must not be used again. */
enum weir_status weir__pages_map(struct weir__pages *pages, uintptr_t address, size_t count, const weir__page *from,
                                 size_t *mapped);
/* Unmaps what is mapped in `count` places from `address` on, one call a run. Fails: WEIR_DRIVER; what it did not reach is
 * still mapped. */
enum weir_status weir__pages_unmap(struct weir__pages *pages, uintptr_t address, size_t count);

/* What all memory of the pool is like: it can be used by RDMA and exported where the device can. */
void weir__page_properties(struct weir_device *device, CUmemAllocationProp *properties, CUmemAccessDesc *access);

/* For the per-stream policy: memory by the driver's plain calls, counted alike. */
enum weir_status weir__plain_alloc(struct weir_device *device, size_t bytes, uintptr_t *out, uint64_t *memory_calls);
enum weir_status weir__plain_free(struct weir_device *device, uintptr_t address, uint64_t *memory_calls);

#endif
