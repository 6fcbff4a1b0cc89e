/* SPDX-License-Identifier: Apache-2.0 */
/* Where a block goes: pure functions over extents and indexes, without driver, lock or pool.
 *
 * window   the addresses [begin, begin + bytes) proposed for a block: in one run of neighbouring unused extents
 * returned pages of a window that come back: the place is still mapped to them (stale), and they are idle elsewhere
 * lacking  pages of a window that have to be mapped, since nothing is there, or a page that is used elsewhere by now
 * donor    an idle extent whose whole pages are taken away to be mapped elsewhere
 *
 * The best window costs the least: a page to be mapped, a little less for one to be unmapped before. Then it cuts the least
 * off the extents at its ends, then it lies lowest. */
#ifndef WEIR_ALLOC_PLACEMENT_H
#define WEIR_ALLOC_PLACEMENT_H

#include "alloc/extent.h"
#include "alloc/granule.h"
#include "alloc/index.h"
#include "alloc/pages.h"

/* What the asking stream may use of the idle extents; bare ones always. */
struct weir__usable {
    bool (*usable)(const void *context, const struct weir__extent *idle);
    const void *context;
};

/* Where windows are looked for. */
struct weir__ground {
    struct weir__extent *first; /* of all */
    size_t granule;
    const struct weir__pages *pages;
    uint32_t *seen; /* by page: the round in which it was counted; room for pages->limit + 1 */
    uint32_t *round;
    struct weir__usable usable;
    bool keeps; /* mappings are to stay where they are, unless there is no other window */
    bool (*can_unmap)(const void *context, const struct weir__extent *stale); /* its old mappings are used no more */
};

struct weir__window {
    struct weir__extent *first; /* the piece that holds `begin`; NULL: no window */
    uintptr_t begin;
    size_t bytes;
    size_t lacking;    /* pages */
    size_t unmapped;   /* of those, where a stale mapping has to go first */
    size_t returned;   /* pages */
    size_t left;       /* bytes of the first and the last piece that stay unused */
    size_t idle_pages; /* whole pages of idle pieces that the window takes or cuts */
    size_t cost;
};

static inline size_t weir__extent_whole_pages(const struct weir__extent *extent, size_t granule) {
    return weir__whole_pages(extent->address, weir__extent_end(extent), granule);
}

/* Gives: where in an idle extent a block of `bytes` goes that is aligned so: as near as can be to the end that leaves more whole
 * pages, then to the one where the block touches fewer pages, else to the front. 0: nowhere. */
uintptr_t weir__place_within(const struct weir__extent *extent, size_t bytes, size_t alignment, size_t granule);

#define WEIR__COST_OF_MAPPING 40 /* of one page; see placement.c for the others */

/* Gives: the best window that costs no more than `most_cost`; .first NULL if there is none. The less it may cost, the sooner it is
 * found. */
struct weir__window weir__place_window(const struct weir__ground *ground, size_t bytes, size_t alignment,
                                       size_t most_cost);
/* Gives: the window of `bytes` that begins with `first`; .first NULL when not all of it may be used. */
struct weir__window weir__place_at(const struct weir__ground *ground, struct weir__extent *first, size_t bytes);
/* Gives: the window [begin, begin + bytes) where it needs no memory call; else .first is NULL. */
struct weir__window weir__place_again(const struct weir__ground *ground, uintptr_t begin, size_t bytes);
/* The most that a window can cost of which all pages come back; less than one that lacks a page. */
size_t weir__cost_of_returning(const struct weir__ground *ground, size_t bytes);

/* True when the page of a stale place can come back to a window [begin, end); it counts as taken in this round. */
bool weir__place_returns(const struct weir__ground *ground, uint32_t place, uintptr_t begin, uintptr_t end);

/* A part of an idle extent, whole pages, that a donor gives. */
struct weir__donation {
    struct weir__extent *extent;
    uintptr_t address;
    size_t pages;
};

/* Picks donors for `pages` pages among the usable extents of `indexes`: the tightest one that has them all, else the largest
 * ones, so that the ranges are few. `out` may be NULL to count only. Gives: how many donations there are; *found pages in
 * all, at most `pages`. */
size_t weir__place_donors(const struct weir__index *const *indexes, size_t index_count, size_t granule, size_t pages,
                          struct weir__usable usable, struct weir__donation *out, size_t room, size_t *found);

#endif
