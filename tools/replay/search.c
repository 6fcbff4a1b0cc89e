/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct search_point {
    enum target_kind target;
    size_t pages;
    bool told; /* asked for; else it was made on suspicion, to use a CPU that was idle */
    struct outcome outcome;
};

static const uint64_t grid[] = {1000000, 1010000, 1020000, 1030000, 1050000, 1075000, 1100000, 1150000, 1200000,
                                1250000, 1300000, 1400000, 1500000, 1750000, 2000000, 2500000, 3000000};
enum { GRID = sizeof grid / sizeof *grid, PAGES_ABOVE = 8, STEPS_ABOVE = 10, HONEST_ROUNDS = 3 };

void search_begin(struct search *search, const struct setup *setup, run_function *run, unsigned jobs,
                  size_t page_bytes) {
    *search = (struct search){.setup = *setup, .run = run, .jobs = jobs, .page_bytes = page_bytes};
}

void search_end(struct search *search) {
    for (size_t i = 0; i < search->count; i++) free(search->points[i]);
    free(search->points);
}

static bool no_host_memory(struct search *search) {
    snprintf(search->why, sizeof search->why, "no host memory for what %zu runs gave", search->count);
    return false;
}

/* ---- capacities ------------------------------------------------------------------------------------------------- */

size_t search_pages_of_bytes(const struct search *search, size_t bytes) {
    size_t pages = bytes / search->page_bytes;
    return pages > 0 ? pages : 1;
}

size_t search_pages_of_ratio(const struct search *search, uint64_t millionths) {
    uint64_t peak = search->setup.trace->peak_live_bytes;
    /* the peak is at most 2^50 and the ratio 10^9, so each product fits */
    uint64_t bytes = peak / RATIO_ONE * millionths + (peak % RATIO_ONE * millionths + RATIO_ONE - 1) / RATIO_ONE;
    return search_pages_of_bytes(search, bytes + search->page_bytes - 1);
}

/* Bisecting ends when an edge is as close as this. */
static size_t tolerance_pages(const struct search *search) {
    size_t pages = (size_t)search->setup.trace->peak_live_bytes / 500 / search->page_bytes;
    return pages > 0 ? pages : 1;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static struct search_point *find_point(const struct search *search, enum target_kind target, size_t pages) {
    for (size_t i = 0; i < search->count; i++)
        if (search->points[i]->target == target && search->points[i]->pages == pages) return search->points[i];
    return NULL;
}

static struct search_point *add_point(struct search *search, enum target_kind target, size_t pages) {
    if (search->count == search->room) {
        size_t larger = search->room == 0 ? 64 : search->room * 2;
        struct search_point **moved = realloc(search->points, larger * sizeof *moved);
        if (moved == NULL) return NULL;
        search->points = moved;
        search->room = larger;
    }
    struct search_point *point = calloc(1, sizeof *point);
    if (point == NULL) return NULL;
    point->target = target;
    point->pages = pages;
    search->points[search->count++] = point;
    return point;
}

const struct outcome *search_outcome(const struct search *search, enum target_kind target, size_t pages) {
    const struct search_point *point = find_point(search, target, pages);
    return point != NULL ? &point->outcome : NULL;
}

bool search_is_timed(const struct search *search) {
    return search->setup.trace->has_work && search->setup.clock == CLOCK_VIRTUAL;
}

double search_slowdown(const struct search *search, const struct outcome *outcome) {
    const struct search_point *without = find_point(search, TARGET_FREE, 1);
    bool known = search_is_timed(search) && outcome != NULL && outcome->ending == ENDED_COMPLETED && without != NULL &&
                 without->outcome.ending == ENDED_COMPLETED && without->outcome.steady_ns > 0;
    return known ? (double)outcome->steady_ns / (double)without->outcome.steady_ns - 1 : (double)NAN;
}

/* True when the run is one that was made on a larger device: the target would not notice the difference. */
static bool is_roomy(const struct search *search, const struct search_wanted *wanted) {
    return wanted->target == search->setup.target && search->roomy_pages != 0 && wanted->pages >= search->roomy_pages;
}

static struct setup setup_of(const struct search *search, const struct search_wanted *wanted) {
    struct setup setup = search->setup;
    setup.target = wanted->target;
    setup.capacity_bytes = wanted->pages * search->page_bytes;
    return setup;
}

/* Makes a point of every run that is wanted and that there is not; `fresh` gets those to be run. */
static bool prepare(struct search *search, const struct search_wanted *wanted, size_t count, bool told,
                    struct search_point **fresh, struct setup *setups, size_t *fresh_count) {
    for (size_t i = 0; i < count; i++) {
        struct search_point *point = find_point(search, wanted[i].target, wanted[i].pages);
        bool there = point != NULL;
        if (!there && (point = add_point(search, wanted[i].target, wanted[i].pages)) == NULL)
            return no_host_memory(search);
        point->told = point->told || told;
        if (there) continue;
        if (is_roomy(search, &wanted[i])) {
            point->outcome = find_point(search, wanted[i].target, search->plenty_pages)->outcome;
            continue;
        }
        fresh[*fresh_count] = point;
        setups[(*fresh_count)++] = setup_of(search, &wanted[i]);
    }
    return true;
}

/* A run that can't be made leaves points without outcomes: nothing may be asked of the search afterwards. */
static bool make(struct search *search, const struct search_wanted *wanted, size_t count, bool told) {
    struct search_point **fresh = calloc(count + 1, sizeof *fresh);
    struct setup *setups = calloc(count + 1, sizeof *setups);
    struct outcome *outcomes = calloc(count + 1, sizeof *outcomes);
    size_t fresh_count = 0;
    bool made = fresh != NULL && setups != NULL && outcomes != NULL;
    if (!made) no_host_memory(search);
    made =
        made && prepare(search, wanted, count, told, fresh, setups, &fresh_count) &&
        (fresh_count == 0 || search->run(setups, fresh_count, search->jobs, outcomes, search->why, sizeof search->why));
    for (size_t i = 0; made && i < fresh_count; i++) {
        fresh[i]->outcome = outcomes[i];
        search->failed_runs += outcomes[i].ending == ENDED_FAILED;
    }
    free(fresh);
    free(setups);
    free(outcomes);
    return made;
}

bool search_make(struct search *search, const struct search_wanted *wanted, size_t count) {
    return make(search, wanted, count, true);
}

enum { AT_ONCE = 64 }; /* more than any step below lists */

static bool make_pages(struct search *search, const size_t *pages, size_t count, bool told) {
    struct search_wanted wanted[AT_ONCE] = {{0}};
    assert(count <= AT_ONCE);
    for (size_t i = 0; i < count; i++) wanted[i] = (struct search_wanted){search->setup.target, pages[i]};
    return make(search, wanted, count, told);
}

/* ---- what a run is judged by ------------------------------------------------------------------------------------ */

static bool completes(const struct search *search, size_t pages) {
    return search_outcome(search, search->setup.target, pages)->ending == ENDED_COMPLETED;
}

static bool is_good(const struct search *search, size_t pages, uint64_t honest) {
    double slowdown = search_slowdown(search, search_outcome(search, search->setup.target, pages));
    return slowdown <= (double)honest / (double)RATIO_ONE; /* false for NaN */
}

/* ---- bisecting -------------------------------------------------------------------------------------------------- */

struct edge {
    bool wanted;
    uint64_t honest;  /* 0: completing is enough */
    size_t low, high; /* low does not do, high does */
};

static bool is_closed(const struct search *search, const struct edge *edge) {
    return !edge->wanted || edge->high - edge->low <= tolerance_pages(search);
}

static size_t middle_of(size_t low, size_t high) { return low + (high - low) / 2; }

static bool add_unless_there(struct search *search, size_t *list, size_t *count, size_t most, size_t pages) {
    if (*count >= most || find_point(search, search->setup.target, pages) != NULL) return false;
    for (size_t i = 0; i < *count; i++)
        if (list[i] == pages) return false;
    list[(*count)++] = pages;
    return true;
}

/* The runs of the next rounds, whatever the answers: the middles of `depth` halvings, until the CPUs are busy. */
static void suspect(struct search *search, size_t low, size_t high, int depth, size_t *list, size_t *count,
                    size_t most) {
    if (high - low <= tolerance_pages(search)) return;
    size_t middle = middle_of(low, high);
    if (depth == 0) {
        add_unless_there(search, list, count, most, middle);
        return;
    }
    suspect(search, low, middle, depth - 1, list, count, most);
    suspect(search, middle, high, depth - 1, list, count, most);
}

static void halve(const struct search *search, struct edge *edge) {
    size_t middle = middle_of(edge->low, edge->high);
    bool does = edge->honest != 0 ? is_good(search, middle, edge->honest) : completes(search, middle);
    *(does ? &edge->high : &edge->low) = middle;
}

/* One halving of every edge that is open; CPUs without a run of that make some of the next halvings'. */
static bool round_of(struct search *search, struct edge *edges, size_t count) {
    size_t asked[2], asked_count = 0, list[AT_ONCE], listed = 0;
    size_t most = search->jobs < AT_ONCE ? search->jobs : AT_ONCE;
    for (size_t i = 0; i < count; i++)
        if (!is_closed(search, &edges[i])) asked[asked_count++] = middle_of(edges[i].low, edges[i].high);
    for (size_t i = 0; i < asked_count; i++) add_unless_there(search, list, &listed, AT_ONCE, asked[i]);
    for (int depth = 1; listed > 0 && depth < 4; depth++)
        for (size_t i = 0; i < count; i++)
            if (!is_closed(search, &edges[i])) suspect(search, edges[i].low, edges[i].high, depth, list, &listed, most);
    if (!make_pages(search, list, listed, false) || !make_pages(search, asked, asked_count, true)) return false;
    for (size_t i = 0; i < count; i++)
        if (!is_closed(search, &edges[i])) halve(search, &edges[i]);
    return true;
}

static bool bisect(struct search *search, struct edge *edges, size_t count) {
    bool open = true;
    while (open) {
        if (!round_of(search, edges, count)) return false;
        open = false;
        for (size_t i = 0; i < count; i++) open = open || !is_closed(search, &edges[i]);
    }
    return true;
}

/* ---- where to begin --------------------------------------------------------------------------------------------- */

/* Larger than what any request asks for at once, in pages: its own with its alignment, and the smallest segments of
 * caches. */
static size_t slack_pages(const struct search *search) {
    const struct trace *trace = search->setup.trace;
    uint64_t largest = 0;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct op *op = &trace->ops[i];
        uint64_t bytes = op->kind <= OP_LIVE ? op->bytes + (UINT64_C(1) << (op->align & 63)) : 0;
        if (bytes > largest) largest = bytes;
    }
    return (size_t)(largest / search->page_bytes) + 16;
}

/* What the target does when it has all it wants. Weir's pools look at a device's size only when they ask the driver
 * for pages: so where even the largest request beside all that was held would have fitted, a larger device makes no
 * difference. */
static bool run_on_plenty(struct search *search) {
    size_t pages = search_pages_of_ratio(search, SEARCH_MOST_TIMES * RATIO_ONE);
    size_t most = search_pages_of_bytes(search, SEARCH_MOST_BYTES),
           least = search_pages_of_ratio(search, 3 * RATIO_ONE);
    if (pages > most) pages = most > least ? most : least;
    if (!make_pages(search, &pages, 1, true)) return false;
    const struct outcome *outcome = search_outcome(search, search->setup.target, pages);
    search->plenty_pages = pages;
    if (search->setup.target == TARGET_POOL && outcome->ending == ENDED_COMPLETED &&
        outcome->peak_held_bytes != NOT_KNOWN)
        search->roomy_pages = (size_t)(outcome->peak_held_bytes / search->page_bytes) + slack_pages(search);
    return true;
}

/* The upper end for bisecting: what the target held when it had plenty; if that is not enough, more. 0: nothing is. */
static bool find_upper(struct search *search, size_t low, size_t *upper) {
    const struct outcome *outcome = search_outcome(search, search->setup.target, search->plenty_pages);
    *upper = 0;
    if (outcome->ending != ENDED_COMPLETED) return true;
    size_t pages = search->plenty_pages;
    if (outcome->peak_held_bytes != NOT_KNOWN)
        pages = (size_t)((outcome->peak_held_bytes + search->page_bytes - 1) / search->page_bytes);
    if (pages <= low) pages = low + 1;
    while (pages < search->plenty_pages) {
        if (!make_pages(search, &pages, 1, true)) return false;
        if (completes(search, pages)) break;
        pages += pages / 8 + 1;
    }
    *upper = pages < search->plenty_pages ? pages : search->plenty_pages;
    return true;
}

/* The edge to be found; on the peak of live bytes itself there is nothing to look for. */
static bool begin_scan(struct search *search, struct edge *edge) {
    size_t low = search_pages_of_ratio(search, RATIO_ONE), upper = 0;
    if (!make_pages(search, &low, 1, true)) return false;
    if (completes(search, low)) {
        *edge = (struct edge){.wanted = true, .low = low, .high = low};
        return true;
    }
    if (!find_upper(search, low, &upper)) return false;
    *edge = (struct edge){.wanted = upper != 0, .low = low, .high = upper};
    return true;
}

/* From the largest grid point down, `jobs` at a time, to the first that is not good. */
static bool begin_honest(struct search *search, uint64_t honest, struct edge *edge) {
    size_t above = 0;
    for (size_t left = GRID; left > 0;) {
        size_t pages[GRID], count = search->jobs < left ? search->jobs : left;
        for (size_t i = 0; i < count; i++) pages[i] = search_pages_of_ratio(search, grid[left - 1 - i]);
        if (!make_pages(search, pages, count, false)) return false;
        for (size_t i = 0; i < count; i++, left--) {
            make_pages(search, &pages[i], 1, true); /* it is there */
            if (!is_good(search, pages[i], honest)) {
                *edge = (struct edge){.wanted = above != 0, .honest = honest, .low = pages[i], .high = above};
                return true;
            }
            above = pages[i];
        }
    }
    *edge = (struct edge){.wanted = true, .honest = honest, .low = above, .high = above};
    return true;
}

/* ---- what else is known ----------------------------------------------------------------------------------------- */

/* What lies right above an answer: the next pages one by one, where an edge is jagged, and steps of 1 %; and the grid,
 * where it is not tried anyway. */
static bool check_above(struct search *search, size_t answer, bool with_grid) {
    size_t pages[PAGES_ABOVE + STEPS_ABOVE + GRID], count = 0, last = answer;
    for (size_t i = 1; i <= PAGES_ABOVE; i++) pages[count++] = last = answer + i;
    for (size_t i = 1; i <= STEPS_ABOVE; i++) {
        size_t next = answer + (answer * i + 99) / 100;
        if (next > last) pages[count++] = last = next;
    }
    for (size_t i = 0; with_grid && i < GRID; i++) {
        size_t next = search_pages_of_ratio(search, grid[i]);
        if (next > last) pages[count++] = last = next;
    }
    return make_pages(search, pages, count, true);
}

/* Of what was tried and told: the largest that is not good, and the smallest above it. 0: there is none. */
static struct edge edge_of_all(const struct search *search, uint64_t honest) {
    struct edge edge = {.honest = honest};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < search->count; i++) {
            const struct search_point *point = search->points[i];
            if (!point->told || point->target != search->setup.target) continue;
            if (round == 0 && point->pages > edge.low && !is_good(search, point->pages, honest))
                edge.low = point->pages;
            if (round == 1 && point->pages > edge.low && (edge.high == 0 || point->pages < edge.high))
                edge.high = point->pages;
        }
    edge.wanted = edge.low != 0 && edge.high != 0;
    return edge;
}

/* An answer that a larger device contradicts is raised above that one, bisected and checked anew; at last it is what
 * all that was tried says. */
static bool settle_honest(struct search *search, uint64_t honest, struct found *found) {
    for (int round = 0; round < HONEST_ROUNDS; round++) {
        size_t checked = found->honest_pages;
        if (!check_above(search, checked, false)) return false;
        struct edge edge = edge_of_all(search, honest);
        found->honest_pages = edge.high;
        if (edge.high <= checked) break;
        if (!bisect(search, &edge, 1)) return false;
        found->honest_pages = edge_of_all(search, honest).high;
        if (found->honest_pages == 0) break;
    }
    if (found->honest_pages != 0) found->honest_pages = edge_of_all(search, honest).high;
    if (found->honest_pages != 0 && found->honest_pages < found->min_pages) found->honest_pages = found->min_pages;
    return true;
}

static int by_size(const void *a, const void *b) {
    size_t one = *(const size_t *)a, other = *(const size_t *)b;
    return (one > other) - (one < other);
}

/* Runs that say that completing is not monotone. */
static bool list_exceptions(struct search *search, struct found *found) {
    found->fails_above = calloc(search->count + 1, sizeof *found->fails_above);
    found->completes_below = calloc(search->count + 1, sizeof *found->completes_below);
    if (found->fails_above == NULL || found->completes_below == NULL) return no_host_memory(search);
    for (size_t i = 0; i < search->count; i++) {
        const struct search_point *point = search->points[i];
        if (!point->told || point->target != search->setup.target) continue;
        bool completed = point->outcome.ending == ENDED_COMPLETED;
        if (point->pages > found->min_pages && !completed)
            found->fails_above[found->fails_above_count++] = point->pages;
        if (point->pages < found->min_pages && completed)
            found->completes_below[found->completes_below_count++] = point->pages;
    }
    qsort(found->fails_above, found->fails_above_count, sizeof *found->fails_above, by_size);
    qsort(found->completes_below, found->completes_below_count, sizeof *found->completes_below, by_size);
    return true;
}

bool search_find(struct search *search, bool scan, uint64_t honest, struct found *found) {
    struct edge edges[2] = {{0}};
    const struct search_wanted without = {TARGET_FREE, 1};
    *found = (struct found){0};
    if (!scan && honest == 0) return true;
    if (!search_make(search, &without, 1) || !run_on_plenty(search)) return false;
    if (scan && !begin_scan(search, &edges[0])) return false;
    if (honest != 0 && search_is_timed(search) && !begin_honest(search, honest, &edges[1])) return false;
    if (!bisect(search, edges, 2)) return false;
    if (edges[0].wanted) found->min_pages = edges[0].high;
    if (edges[1].wanted) found->honest_pages = edges[1].high;
    if (search->coarse && found->honest_pages != 0 && found->honest_pages < found->min_pages)
        found->honest_pages = found->min_pages;
    if (!search->coarse && found->min_pages != 0 && !check_above(search, found->min_pages, true)) return false;
    if (!search->coarse && found->honest_pages != 0 && !settle_honest(search, honest, found)) return false;
    return found->min_pages == 0 || list_exceptions(search, found);
}

void search_found_free(struct found *found) {
    free(found->fails_above);
    free(found->completes_below);
    *found = (struct found){0};
}
