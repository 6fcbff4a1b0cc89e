/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/placement.h"

#include <assert.h>

static uintptr_t floor_to(uintptr_t address, size_t granule) { return weir__floor_to(address, granule); }
static uintptr_t ceil_to(uintptr_t address, size_t granule) { return weir__ceil_to(address, granule); }
static uintptr_t later(uintptr_t a, uintptr_t b) { return a > b ? a : b; }
static uintptr_t earlier(uintptr_t a, uintptr_t b) { return a < b ? a : b; }

static size_t touched_pages(uintptr_t begin, uintptr_t end, size_t granule) {
    return weir__granules(ceil_to(end, granule) - floor_to(begin, granule), granule);
}

/* Whole pages that a block in an extent leaves beside it. */
static size_t pages_left(const struct weir__extent *extent, uintptr_t begin, size_t bytes, size_t granule) {
    return weir__whole_pages(extent->address, begin, granule) +
           weir__whole_pages(begin + bytes, weir__extent_end(extent), granule);
}

uintptr_t weir__place_within(const struct weir__extent *extent, size_t bytes, size_t alignment, size_t granule) {
    assert(bytes <= extent->bytes);
    const uintptr_t first = ceil_to(extent->address, alignment);
    const uintptr_t last = floor_to(weir__extent_end(extent) - bytes, alignment);
    if (first > last) return 0;
    const size_t in_front = pages_left(extent, first, bytes, granule),
                 behind = pages_left(extent, last, bytes, granule);
    if (in_front != behind) return behind > in_front ? last : first;
    return touched_pages(last, last + bytes, granule) < touched_pages(first, first + bytes, granule) ? last : first;
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

/* What a window costs, as the driver's calls are to one another, roughly. A run of places is mapped in two calls and more; a
 * page that comes back costs no call, but takes itself out of where it was. */
enum { COST_OF_UNMAPPING = 30, COST_OF_RUN = 100, COST_OF_RETURN = 4 };
#define COST_OF_MAPPING WEIR__COST_OF_MAPPING
#define CANT_BE_HAD     (SIZE_MAX / 4)

/* What can be a piece of a window, whoever used it. */
static bool is_unused(const struct weir__extent *piece) {
    return piece != NULL && (piece->state == WEIR__BARE || piece->state == WEIR__IDLE);
}

static bool joins(const struct weir__ground *ground, const struct weir__extent *piece) {
    if (piece == NULL) return false;
    if (piece->state == WEIR__BARE) return true;
    return piece->state == WEIR__IDLE && ground->usable.usable(ground->usable.context, piece);
}

/* Places of one extent, whose pages may come back or not. */
struct homes {
    uint32_t begin, end;
    bool may_go;
};

/* The homes around one place of which the same holds. */
static struct homes homes_around(const struct weir__ground *ground, uint32_t home) {
    const struct weir__pages *pages = ground->pages;
    const struct weir__extent *extent = pages->extent_at[home];
    const uintptr_t end = weir__extent_end(extent);
    struct homes homes = {.begin = weir__place_of(pages, weir__page_ceil(pages, extent->address)),
                          .end = weir__place_of(pages, weir__page_ceil(pages, end))};
    if (extent->state != WEIR__IDLE || extent->fixed || !ground->usable.usable(ground->usable.context, extent))
        return homes;
    const uint32_t whole = weir__place_of(pages, weir__page_floor(pages, end)); /* the page at the end may be cut */
    homes.may_go = home < whole;
    *(homes.may_go ? &homes.end : &homes.begin) = whole;
    return homes;
}

/* True when the page at a place can come back to a window over the places [begin, end). */
static inline bool returns(const struct weir__ground *ground, uint32_t place, uint32_t begin, uint32_t end,
                           struct homes *homes) {
    const weir__page page = weir__page_at(ground->pages, place);
    if (page == 0) return false;
    const uint32_t home = ground->pages->home[page];
    if (home == WEIR__NOWHERE) return false;
    if (home < homes->begin || home >= homes->end) *homes = homes_around(ground, home);
    if (!homes->may_go || (home >= begin && home < end) || ground->seen[page] == *ground->round) return false;
    ground->seen[page] = *ground->round;
    return true;
}

bool weir__place_returns(const struct weir__ground *ground, uint32_t place, uintptr_t begin, uintptr_t end) {
    struct homes homes = {0};
    return returns(ground, place, weir__place_of(ground->pages, floor_to(begin, ground->granule)),
                   weir__place_of(ground->pages, ceil_to(end, ground->granule)), &homes);
}

/* A window while it is measured, and what the place before was. */
struct measure {
    struct weir__window window; /* its cost is the least that it can be by what has been seen */
    struct homes homes;
    bool in_run; /* of places that lack a page */
};

static void add_lack(struct measure *measure, size_t count, size_t cost) {
    measure->window.lacking += count;
    measure->window.cost += cost + (measure->in_run ? 0 : COST_OF_RUN);
    measure->in_run = true;
}

/* Where mappings are to stay, one that goes is dearer than all of the window elsewhere. */
static size_t cost_of_unmapping(const struct weir__ground *ground, const struct weir__window *window) {
    if (!ground->keeps) return COST_OF_UNMAPPING;
    return (window->bytes / ground->granule + 2) * COST_OF_MAPPING + COST_OF_RUN;
}

/* Adds what the window needs in a stale piece, of which [from, to) is in it, beyond pages that come back; stops when it costs
 * more than `most`. */
static void add_stale(const struct weir__ground *ground, const struct weir__extent *piece, uintptr_t from, uintptr_t to,
                      size_t most, struct measure *measure) {
    struct weir__window *window = &measure->window;
    const struct weir__pages *pages = ground->pages;
    const size_t to_unmap =
        ground->can_unmap(ground->usable.context, piece) ? cost_of_unmapping(ground, window) : CANT_BE_HAD;
    const uint32_t behind = weir__place_of(pages, ceil_to(to, ground->granule));
    const uint32_t begin = weir__place_of(pages, floor_to(window->begin, ground->granule));
    const uint32_t end = weir__place_of(pages, ceil_to(window->begin + window->bytes, ground->granule));
    uint32_t place = weir__place_of(pages, floor_to(from, ground->granule));
    for (; place < behind && window->cost <= most; place++) {
        if (returns(ground, place, begin, end, &measure->homes)) {
            window->returned++;
            measure->in_run = false;
            continue;
        }
        add_lack(measure, 1, COST_OF_MAPPING - COST_OF_RETURN);
        if (weir__page_at(pages, place) == 0) continue;
        window->unmapped++;
        window->cost += to_unmap;
    }
}

static bool better(const struct weir__window *a, const struct weir__window *b) {
    if (b->first == NULL) return true;
    if (a->cost != b->cost) return a->cost < b->cost;
    if (a->left != b->left) return a->left < b->left;
    return a->begin < b->begin;
}

/* Whole pages of an idle piece of which [from, to) is taken, that are no donors any more: also one that is cut. */
static size_t pages_taken(const struct weir__extent *piece, uintptr_t from, uintptr_t to, size_t granule) {
    return weir__extent_whole_pages(piece, granule) - weir__whole_pages(piece->address, from, granule) -
           weir__whole_pages(to, weir__extent_end(piece), granule);
}

/* What is known of the window at `begin`, which lies in `piece`, without a look at its places: they all come back. */
static struct weir__window outline(const struct weir__ground *ground, struct weir__extent *piece, uintptr_t begin,
                                   size_t bytes) {
    struct weir__window window = {.first = piece, .begin = begin, .bytes = bytes, .left = begin - piece->address};
    const uintptr_t end = begin + bytes;
    for (;; piece = piece->next) {
        const uintptr_t from = later(begin, piece->address), to = earlier(end, weir__extent_end(piece));
        if (piece->state == WEIR__BARE)
            window.cost += touched_pages(from, to, ground->granule) * (piece->stale ? COST_OF_RETURN : COST_OF_MAPPING);
        else if (!piece->fixed)
            window.idle_pages += pages_taken(piece, from, to, ground->granule);
        if (to < end) continue;
        window.left += weir__extent_end(piece) - to;
        return window;
    }
}

/* Measures the window at `begin`, which lies in `piece`. */
static void try_window(const struct weir__ground *ground, struct weir__extent *piece, uintptr_t begin, size_t bytes,
                       struct weir__window *best) {
    const size_t most = best->cost;
    const uintptr_t end = begin + bytes;
    struct measure measure = {.window = outline(ground, piece, begin, bytes)};
    ++*ground->round;
    for (; measure.window.cost <= most && better(&measure.window, best); piece = piece->next) {
        const uintptr_t from = later(begin, piece->address), to = earlier(end, weir__extent_end(piece));
        if (piece->state != WEIR__BARE)
            measure.in_run = false;
        else if (piece->stale)
            add_stale(ground, piece, from, to, most, &measure);
        else
            add_lack(&measure, touched_pages(from, to, ground->granule), 0);
        if (to < end) continue;
        if (measure.window.cost <= most && better(&measure.window, best)) *best = measure.window;
        return;
    }
}

/* A run of neighbouring unused extents, all of which may be used. */
struct run {
    struct weir__extent *first, *last;
};

/* Then none is better but by what it leaves. */
static bool costs_nothing(const struct weir__window *best) { return best->first != NULL && best->cost == 0; }

#define SMALL_PIECE 8 /* pieces of so small a part of a block give no reason for a window of their own */

/* Windows that begin with a piece and such that end with one. */
static void try_run(const struct weir__ground *ground, const struct run *run, size_t bytes, size_t alignment,
                    struct weir__window *best) {
    const uintptr_t run_begin = run->first->address, run_end = weir__extent_end(run->last);
    const size_t least =
        alignment > ground->granule ? 0 : bytes / SMALL_PIECE; /* few places are aligned more strictly */
    struct weir__extent *holds = run->first;                   /* what a window that ends with `piece` begins in */
    for (struct weir__extent *piece = run->first;; piece = piece->next) {
        if (piece->bytes < least && piece != run->first && piece != run->last) continue;
        const uintptr_t begin = ceil_to(piece->address, alignment);
        if (begin < weir__extent_end(piece) && begin <= run_end - bytes) try_window(ground, piece, begin, bytes, best);
        if (weir__extent_end(piece) - run_begin >= bytes) {
            const uintptr_t from = floor_to(weir__extent_end(piece) - bytes, alignment);
            while (weir__extent_end(holds) <= from) holds = holds->next;
            if (from >= run_begin && from > holds->address) try_window(ground, holds, from, bytes, best);
        }
        if (piece == run->last || costs_nothing(best)) return;
    }
}

struct weir__window weir__place_at(const struct weir__ground *ground, struct weir__extent *first, size_t bytes) {
    struct weir__window window = {.cost = CANT_BE_HAD - 1};
    if (first == NULL) return window;
    const struct weir__extent *piece = first;
    while (joins(ground, piece) && weir__extent_end(piece) - first->address < bytes) piece = piece->next;
    if (joins(ground, piece)) try_window(ground, first, first->address, bytes, &window);
    return window;
}

size_t weir__cost_of_returning(const struct weir__ground *ground, size_t bytes) {
    return (bytes / ground->granule + 2) * COST_OF_RETURN;
}

/* The runs among neighbouring unused extents, of which `last` is the last. */
static void try_row(const struct weir__ground *ground, struct weir__extent *first, const struct weir__extent *last,
                    size_t bytes, size_t alignment, struct weir__window *best) {
    for (struct weir__extent *at = first, *behind = last->next; at != behind; at = at->next) {
        if (!joins(ground, at)) continue;
        struct run run = {at, at};
        while (joins(ground, run.last->next)) run.last = run.last->next;
        at = run.last;
        if (weir__extent_end(at) - run.first->address >= bytes) try_run(ground, &run, bytes, alignment, best);
        if (costs_nothing(best)) return;
    }
}

struct weir__window weir__place_window(const struct weir__ground *ground, size_t bytes, size_t alignment,
                                       size_t most_cost) {
    struct weir__window best = {.cost = most_cost < CANT_BE_HAD ? most_cost : CANT_BE_HAD - 1};
    for (struct weir__extent *at = ground->first; at != NULL && !costs_nothing(&best); at = at->next) {
        if (!is_unused(at)) continue;
        struct weir__extent *first = at;
        while (is_unused(at->next)) at = at->next;
        if (weir__extent_end(at) - first->address >= bytes) try_row(ground, first, at, bytes, alignment, &best);
    }
    return best;
}

/* The unused piece that holds an address whose page is mapped, or NULL. Nothing is written down of places that are not mapped. */
static struct weir__extent *piece_at(const struct weir__ground *ground, uintptr_t address) {
    const uint32_t place = weir__place_of(ground->pages, floor_to(address, ground->granule));
    if (weir__page_at(ground->pages, place) == 0) return NULL;
    struct weir__extent *piece = ground->pages->extent_at[place];
    while (piece != NULL && weir__extent_end(piece) <= address) piece = piece->next;
    return piece;
}

struct weir__window weir__place_again(const struct weir__ground *ground, uintptr_t begin, size_t bytes) {
    struct weir__window window = {.cost = weir__cost_of_returning(ground, bytes)};
    struct weir__extent *first = piece_at(ground, begin), *piece = first;
    while (joins(ground, piece) && weir__extent_end(piece) < begin + bytes) piece = piece->next;
    if (joins(ground, piece)) try_window(ground, first, begin, bytes, &window);
    if (window.lacking > 0) window.first = NULL;
    return window;
}

/* ---- donors ----------------------------------------------------------------------------------------------------- */

struct donors {
    struct weir__donation *out;
    size_t count, room, found, wanted, granule;
    struct weir__usable usable;
};

/* What an extent can give: its whole pages. */
static struct weir__donation offer_of(const struct donors *donors, struct weir__extent *extent) {
    struct weir__donation offer = {.extent = extent};
    if (extent->fixed || !donors->usable.usable(donors->usable.context, extent)) return offer;
    offer.pages = weir__extent_whole_pages(extent, donors->granule);
    offer.address = ceil_to(extent->address, donors->granule);
    return offer;
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
                          struct weir__usable usable, struct weir__donation *out, size_t room, size_t *found) {
    struct donors donors = {.out = out, .room = room, .wanted = pages, .granule = granule, .usable = usable};
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
