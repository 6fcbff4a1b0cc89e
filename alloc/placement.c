/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/placement.h"

#include <assert.h>

static uintptr_t floor_to(uintptr_t address, size_t granule) { return address - address % granule; }
static uintptr_t ceil_to(uintptr_t address, size_t granule) { return floor_to(address + granule - 1, granule); }
static uintptr_t later(uintptr_t a, uintptr_t b) { return a > b ? a : b; }
static uintptr_t earlier(uintptr_t a, uintptr_t b) { return a < b ? a : b; }

size_t weir__whole_pages(uintptr_t begin, uintptr_t end, size_t granule) {
    uintptr_t first = ceil_to(begin, granule), last = floor_to(end, granule);
    return last > first ? (last - first) / granule : 0;
}

static size_t touched_pages(uintptr_t begin, uintptr_t end, size_t granule) {
    return (ceil_to(end, granule) - floor_to(begin, granule)) / granule;
}

uintptr_t weir__place_within(const struct weir__extent *extent, size_t bytes, size_t granule) {
    uintptr_t begin = extent->address, end = weir__extent_end(extent);
    assert(bytes <= extent->bytes);
    size_t left_behind = weir__whole_pages(begin + bytes, end, granule);
    size_t left_before = weir__whole_pages(begin, end - bytes, granule);
    if (left_before != left_behind) return left_before > left_behind ? end - bytes : begin;
    return touched_pages(end - bytes, end, granule) < touched_pages(begin, begin + bytes, granule) ? end - bytes
                                                                                                   : begin;
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

/* A run of neighbouring unused extents. */
struct run {
    struct weir__extent *first, *last;
    size_t bytes;
};

static bool joins(const struct weir__extent *piece, struct weir__usable usable) {
    if (piece == NULL) return false;
    if (piece->state == WEIR__BARE) return true;
    return piece->state == WEIR__IDLE && usable.usable(usable.context, piece);
}

/* The run around a bare extent; .first NULL when an earlier bare extent of the same run stands for it. */
static struct run run_around(struct weir__extent *bare, struct weir__usable usable) {
    struct run run = {.first = bare, .last = bare, .bytes = bare->bytes};
    while (joins(run.first->previous, usable)) {
        run.first = run.first->previous;
        run.bytes += run.first->bytes;
        if (run.first->state == WEIR__BARE) return (struct run){0};
    }
    while (joins(run.last->next, usable)) {
        run.last = run.last->next;
        run.bytes += run.last->bytes;
    }
    return run;
}

/* What a window at `begin` lacks, walked from the first piece of the run that it touches. */
static struct weir__window measure(const struct run *run, uintptr_t begin, size_t bytes, size_t granule) {
    struct weir__window window = {.begin = begin, .bytes = bytes, .left = run->bytes - bytes};
    uintptr_t end = begin + bytes;
    struct weir__extent *piece = run->first;
    while (weir__extent_end(piece) <= begin) piece = piece->next;
    window.first = piece;
    for (; piece != NULL && piece->address < end; piece = piece->next) {
        uintptr_t from = later(begin, piece->address), to = earlier(end, weir__extent_end(piece));
        if (piece->state == WEIR__BARE)
            window.lacking += (ceil_to(to, granule) - floor_to(from, granule)) / granule;
        else
            window.idle_pages += weir__whole_pages(from, to, granule);
        if (piece == run->last) break;
    }
    return window;
}

static bool better(const struct weir__window *a, const struct weir__window *b) {
    if (b->first == NULL) return true;
    if (a->lacking != b->lacking) return a->lacking < b->lacking;
    if (a->left != b->left) return a->left < b->left;
    return a->begin < b->begin;
}

/* Windows that begin with a piece and such that end with one: no other lacks fewer pages. */
static void try_run(const struct run *run, size_t bytes, size_t granule, struct weir__window *best) {
    uintptr_t run_begin = run->first->address, run_end = weir__extent_end(run->last);
    for (struct weir__extent *piece = run->first;; piece = piece->next) {
        uintptr_t begins[2] = {piece->address, weir__extent_end(piece) - bytes};
        for (int i = 0; i < 2; i++) {
            if (begins[i] < run_begin || begins[i] > run_end - bytes) continue;
            struct weir__window window = measure(run, begins[i], bytes, granule);
            if (window.lacking > 0 && better(&window, best)) *best = window;
        }
        if (piece == run->last) return;
    }
}

struct weir__window weir__place_window(const struct weir__index *bare, size_t bytes, size_t granule,
                                       struct weir__usable usable) {
    struct weir__window best = {0};
    for (struct weir__extent *at = weir__index_at_least(bare, 0, 0); at != NULL; at = weir__index_after(bare, at)) {
        struct run run = run_around(at, usable);
        if (run.first != NULL && run.bytes >= bytes) try_run(&run, bytes, granule, &best);
    }
    return best;
}

/* ---- donors ----------------------------------------------------------------------------------------------------- */

struct donors {
    struct weir__donation *out;
    size_t count, room, found, wanted, granule;
    const struct weir__window *window;
    struct weir__usable usable;
};

static bool overlaps(const struct weir__extent *extent, const struct weir__window *window) {
    return window != NULL && extent->address < window->begin + window->bytes &&
           window->begin < weir__extent_end(extent);
}

/* What an extent can give: its whole pages, less those in the window. */
static struct weir__donation offer_of(const struct donors *donors, struct weir__extent *extent) {
    struct weir__donation none = {.extent = extent};
    uintptr_t begin = extent->address, end = weir__extent_end(extent);
    if (!donors->usable.usable(donors->usable.context, extent)) return none;
    if (overlaps(extent, donors->window)) {
        uintptr_t window_end = donors->window->begin + donors->window->bytes;
        if (donors->window->begin > begin)
            end = donors->window->begin;
        else
            begin = window_end < end ? window_end : end;
    }
    none.pages = weir__whole_pages(begin, end, donors->granule);
    none.address = ceil_to(begin, donors->granule);
    return none;
}

static void accept(struct donors *donors, struct weir__donation offer) {
    size_t wanted = donors->wanted - donors->found;
    if (offer.pages > wanted) offer.pages = wanted;
    if (donors->out != NULL) donors->out[donors->count] = offer;
    donors->count++;
    donors->found += offer.pages;
}

/* As in an index. */
static bool comes_before(const struct weir__extent *a, const struct weir__extent *b) {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

/* The smallest extent that has all wanted pages: the ones before it in the index are too small. */
static struct weir__donation tightest(const struct donors *donors, const struct weir__index *index) {
    const int tries = 8;
    struct weir__extent *at = weir__index_at_least(index, donors->wanted * donors->granule, 0);
    for (int i = 0; at != NULL && i < tries; i++, at = weir__index_after(index, at)) {
        struct weir__donation offer = offer_of(donors, at);
        if (offer.pages >= donors->wanted) return offer;
    }
    return (struct weir__donation){0};
}

static bool one_for_all(struct donors *donors, const struct weir__index *const *indexes, size_t index_count) {
    struct weir__donation best = {0};
    for (size_t i = 0; i < index_count; i++) {
        struct weir__donation offer = tightest(donors, indexes[i]);
        if (offer.pages > 0 && (best.pages == 0 || comes_before(offer.extent, best.extent))) best = offer;
    }
    if (best.pages == 0) return false;
    accept(donors, best);
    return true;
}

/* The next of all indexes, from the largest down. `at` holds the place in each. */
static struct weir__extent *next_largest(const struct weir__index *const *indexes, struct weir__extent **at,
                                         size_t index_count) {
    size_t best = index_count;
    for (size_t i = 0; i < index_count; i++)
        if (at[i] != NULL && (best == index_count || comes_before(at[best], at[i]))) best = i;
    if (best == index_count) return NULL;
    struct weir__extent *extent = at[best];
    at[best] = weir__index_before(indexes[best], extent);
    return extent;
}

size_t weir__place_donors(const struct weir__index *const *indexes, size_t index_count, size_t granule, size_t pages,
                          const struct weir__window *window, struct weir__usable usable, struct weir__donation *out,
                          size_t room, size_t *found) {
    struct donors donors = {
        .out = out, .room = room, .wanted = pages, .granule = granule, .window = window, .usable = usable};
    struct weir__extent *at[index_count > 0 ? index_count : 1];
    if (!one_for_all(&donors, indexes, index_count)) {
        for (size_t i = 0; i < index_count; i++) at[i] = weir__index_largest(indexes[i]);
        struct weir__extent *extent;
        while (donors.found < pages && (out == NULL || donors.count < room) &&
               (extent = next_largest(indexes, at, index_count)) != NULL && extent->bytes >= granule) {
            struct weir__donation offer = offer_of(&donors, extent);
            if (offer.pages > 0) accept(&donors, offer);
        }
    }
    *found = donors.found;
    return donors.count;
}
