/* SPDX-License-Identifier: Apache-2.0 */
/* Where a block goes: pure functions over extents and indexes, without driver, lock or pool.
 *
 * window   the addresses [begin, begin + bytes) proposed for a block: in one run of neighbouring unused extents
 * lacking  pages of the window that are bare and have to be mapped
 * donor    an idle extent whose whole pages are taken away to be mapped elsewhere
 *
 * The best window lacks the fewest pages, then leaves the least of its run, then lies lowest. */
#ifndef WEIR_ALLOC_PLACEMENT_H
#define WEIR_ALLOC_PLACEMENT_H

#include "alloc/extent.h"
#include "alloc/index.h"

/* What the asking stream may use of the idle extents; bare ones always. */
struct weir__usable {
    bool (*usable)(const void *context, const struct weir__extent *idle);
    const void *context;
};

struct weir__window {
    struct weir__extent *first; /* the piece that holds `begin`; NULL: no window */
    uintptr_t begin;
    size_t bytes;
    size_t lacking;    /* pages */
    size_t left;       /* bytes of the run that stay unused */
    size_t idle_pages; /* whole pages of idle pieces in the window */
};

/* Whole pages in [begin, end). */
size_t weir__whole_pages(uintptr_t begin, uintptr_t end, size_t granule);
static inline size_t weir__extent_whole_pages(const struct weir__extent *extent, size_t granule) {
    return weir__whole_pages(extent->address, weir__extent_end(extent), granule);
}

/* Gives: where in an idle extent a block of `bytes` goes: at the end that leaves more whole pages, then at the one where
 * the block touches fewer pages, else in front. */
uintptr_t weir__place_within(const struct weir__extent *extent, size_t bytes, size_t granule);

/* Gives: the best window that lacks at least one page, over all runs that have a bare extent; .first NULL if none. */
struct weir__window weir__place_window(const struct weir__index *bare, size_t bytes, size_t granule,
                                       struct weir__usable usable);

/* A part of an idle extent, whole pages, that a donor gives. */
struct weir__donation {
    struct weir__extent *extent;
    uintptr_t address;
    size_t pages;
};

/* Picks donors for `pages` pages among the usable extents of `indexes`, none inside `window` (NULL: anywhere): the
 * tightest one that has them all, else the largest ones, so that the ranges are few. `out` may be NULL to count only.
 * Gives: how many donations there are; *found pages in all, at most `pages`. */
size_t weir__place_donors(const struct weir__index *const *indexes, size_t index_count, size_t granule, size_t pages,
                          const struct weir__window *window, struct weir__usable usable, struct weir__donation *out,
                          size_t room, size_t *found);

#endif
