/* SPDX-License-Identifier: Apache-2.0 */
/* What is searched for is found, whatever the runs answer: against runs that are made up, by capacity. */
#include "tools/replay/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE       ((size_t)2 << 20)
#define PEAK_PAGES 10000
#define FREE_NS    1000000
#define PERCENT    10000 /* millionths */

/* ---- runs that are made up -------------------------------------------------------------------------------------- */

/* A stretch of capacities, in pages, both ends in it. */
struct stretch {
    size_t from, to;
};

/* What the target is like. Stretches with to == 0 are none. */
static struct {
    size_t enough;         /* pages from which on it completes */
    struct stretch fails;  /* but not here */
    struct stretch island; /* and here too */
    size_t quick;          /* pages from which on it is as fast as the free allocator; 50 % slower before */
    struct stretch slow;   /* but not here */
    uint32_t jagged;       /* fails in an eighth of the hundred pages from `enough` on, others for each; 0: in none */
    size_t held;           /* pages, where it can have them */
    enum target_kind target;
    bool no_process;
    size_t runs;
    size_t seen[1000]; /* their pages */
} made_up;

static bool is_in(struct stretch stretch, size_t pages) {
    return stretch.to != 0 && pages >= stretch.from && pages <= stretch.to;
}

/* As by a table of random bits. */
static bool is_jagged(size_t pages) {
    if (made_up.jagged == 0 || pages < made_up.enough || pages >= made_up.enough + 100) return false;
    uint32_t bits = (uint32_t)pages * UINT32_C(2654435761) ^ made_up.jagged * UINT32_C(2246822519);
    bits = (bits ^ bits >> 15) * UINT32_C(2246822519);
    return (bits >> 20 & 7) == 0;
}

static bool is_enough(size_t pages) {
    if (is_in(made_up.island, pages)) return true;
    return pages >= made_up.enough && !is_in(made_up.fails, pages) && !is_jagged(pages);
}

static bool is_quick(size_t pages) { return pages >= made_up.quick && !is_in(made_up.slow, pages); }

static void play(const struct setup *setup, struct outcome *outcome) {
    size_t pages = setup->capacity_bytes / PAGE;
    bool free_one = setup->target == TARGET_FREE;
    bool enough = free_one || is_enough(pages), quick = free_one || is_quick(pages);
    *outcome = (struct outcome){.ending = enough ? ENDED_COMPLETED : ENDED_OUT_OF_MEMORY,
                                .steady_ns = quick ? FREE_NS : FREE_NS + FREE_NS / 2,
                                .peak_held_bytes = (pages < made_up.held ? pages : made_up.held) * PAGE};
    if (free_one) return;
    for (size_t i = 0; i < made_up.runs; i++) assert_int_not_equal(made_up.seen[i], pages); /* none is made twice */
    assert_true(made_up.runs < 1000);
    made_up.seen[made_up.runs++] = pages;
}

static bool play_many(const struct setup *setups, size_t count, unsigned jobs, struct outcome *outcomes, char *why,
                      size_t room) {
    assert_true(jobs > 0);
    if (made_up.no_process) snprintf(why, room, "there are no processes");
    for (size_t i = 0; i < count && !made_up.no_process; i++) play(&setups[i], &outcomes[i]);
    return !made_up.no_process;
}

/* ---- a search ---------------------------------------------------------------------------------------------------- */

static struct op ops[] = {{.kind = OP_ALLOC, .bytes = 100 * PAGE}};
static struct trace trace = {
    .ops = ops, .op_count = 1, .peak_live_bytes = PEAK_PAGES * PAGE, .peak_rounded_bytes = PEAK_PAGES * PAGE};

static int reset(void **state) {
    (void)state;
    memset(&made_up, 0, sizeof made_up);
    made_up.enough = made_up.quick = PEAK_PAGES;
    made_up.held = 3 * PEAK_PAGES;
    trace.has_work = true;
    trace.peak_live_bytes = PEAK_PAGES * PAGE;
    return 0;
}

static struct search search_with(unsigned jobs) {
    struct setup setup = {.trace = &trace, .target = made_up.target, .clock = CLOCK_VIRTUAL};
    struct search search;
    search_begin(&search, &setup, play_many, jobs, PAGE);
    return search;
}

static struct found find(unsigned jobs, bool scan, uint64_t honest) {
    struct search search = search_with(jobs);
    struct found found;
    made_up.runs = 0;
    assert_true(search_find(&search, scan, honest, &found));
    search_end(&search);
    return found;
}

#define TOLERANCE (PEAK_PAGES / 500)

static void the_smallest_device_is_found_to_a_fifth_of_a_percent(void **state) {
    (void)state;
    static const size_t enough[] = {PEAK_PAGES, PEAK_PAGES + 1, 10500, 12345, 17000, 29999, 30000};
    for (size_t i = 0; i < sizeof enough / sizeof *enough; i++) {
        made_up.enough = enough[i];
        struct found found = find(1, true, 0);
        assert_in_range(found.min_pages, enough[i], enough[i] + TOLERANCE);
        assert_int_equal(found.fails_above_count, 0);
        assert_int_equal(found.completes_below_count, 0);
        assert_int_equal(found.honest_pages, 0);
        search_found_free(&found);
    }
}

static void a_small_trace_is_searched_to_one_page(void **state) {
    (void)state;
    trace.peak_live_bytes = 100 * PAGE;
    made_up.enough = 137;
    made_up.held = 200;
    struct found found = find(1, true, 0);
    assert_int_equal(found.min_pages, 137);
    search_found_free(&found);
}

static void what_holds_more_than_it_needs_is_searched_up_to_plenty(void **state) {
    (void)state;
    made_up.target = TARGET_PLUGIN;  /* weir's pools are not like that */
    made_up.enough = 6 * PEAK_PAGES; /* it fails where it has but what it held with plenty */
    made_up.held = 5 * PEAK_PAGES;
    struct found found = find(1, true, 0);
    assert_in_range(found.min_pages, made_up.enough, made_up.enough + TOLERANCE);
    search_found_free(&found);
    made_up.enough = 9 * PEAK_PAGES;
    found = find(1, true, 5 * PERCENT);
    assert_int_equal(found.min_pages, 0);
    assert_int_equal(found.honest_pages, 0);
    search_found_free(&found);
}

static void devices_that_fail_above_the_smallest_are_listed(void **state) {
    (void)state;
    made_up.enough = 12000;
    made_up.fails = (struct stretch){13950, 14050}; /* 1.4 is of the grid */
    struct found found = find(1, true, 0);
    assert_in_range(found.min_pages, 12000, 12000 + TOLERANCE);
    assert_int_equal(found.fails_above_count, 1);
    assert_int_equal(found.fails_above[0], 14000);
    search_found_free(&found);
    made_up.fails = (struct stretch){12210, 12450}; /* between grid points: the steps of 1 % see it */
    found = find(1, true, 0);
    assert_in_range(found.min_pages, 12000, 12000 + TOLERANCE);
    assert_int_equal(found.fails_above_count, 2);
    assert_in_range(found.fails_above[0], 12210, 12330);
    assert_in_range(found.fails_above[1], found.fails_above[0] + 1, 12450);
    search_found_free(&found);
}

static void devices_below_the_edge_that_complete_are_listed(void **state) {
    (void)state;
    made_up.enough = 20000;
    made_up.island = (struct stretch){10900, 11100};
    struct found found = find(1, true, 5 * PERCENT); /* the honest grid is tried too, and 1.1 is of it */
    assert_in_range(found.min_pages, 20000, 20000 + TOLERANCE);
    assert_int_equal(found.completes_below_count, 0); /* it stops at the first from above that is no good */
    search_found_free(&found);
    struct search search = search_with(1);
    const struct search_wanted curve = {TARGET_POOL, 11000};
    made_up.runs = 0;
    assert_true(search_make(&search, &curve, 1));
    assert_true(search_find(&search, true, 0, &found));
    assert_int_equal(found.completes_below_count, 1);
    assert_int_equal(found.completes_below[0], 11000);
    search_found_free(&found);
    search_end(&search);
}

static void a_coarse_search_looks_at_nothing_above(void **state) {
    (void)state;
    made_up.enough = 12000;
    made_up.fails = (struct stretch){12210, 12450};
    made_up.quick = 12600;
    made_up.slow = (struct stretch){12650, 12900}; /* none of the grid */
    struct found found = find(1, true, 5 * PERCENT);
    const size_t runs = made_up.runs;
    assert_true(found.honest_pages > 12900 && found.fails_above_count > 0);
    search_found_free(&found);
    struct search search = search_with(1);
    search.coarse = true;
    made_up.runs = 0;
    assert_true(search_find(&search, true, 5 * PERCENT, &found));
    assert_in_range(found.min_pages, 12000, 12000 + TOLERANCE);
    assert_in_range(found.honest_pages, 12600, 13000 + TOLERANCE);
    assert_true(made_up.runs < runs * 2 / 3);
    search_found_free(&found);
    search_end(&search);
}

static bool same_list(const size_t *one, size_t one_count, const size_t *other, size_t other_count) {
    return one_count == other_count && (one_count == 0 || memcmp(one, other, one_count * sizeof *one) == 0);
}

static void the_answer_does_not_depend_on_how_many_runs_are_made_at_a_time(void **state) {
    (void)state;
    static const unsigned jobs[] = {2, 3, 7, 64, JOBS_MOST};
    made_up.enough = 12347;
    made_up.fails = (struct stretch){12600, 13100};
    made_up.quick = 16000;
    made_up.slow = (struct stretch){16700, 17777};
    struct found first = find(1, true, 1 * PERCENT);
    assert_true(first.fails_above_count > 0);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct found found = find(jobs[i], true, 1 * PERCENT);
        assert_int_equal(found.min_pages, first.min_pages);
        assert_int_equal(found.honest_pages, first.honest_pages);
        assert_true(same_list(found.fails_above, found.fails_above_count, first.fails_above, first.fails_above_count));
        assert_true(same_list(found.completes_below, found.completes_below_count, first.completes_below,
                              first.completes_below_count));
        search_found_free(&found);
    }
    search_found_free(&first);
}

static void idle_cpus_make_the_next_halvings_runs(void **state) {
    (void)state;
    size_t batches[2];
    made_up.enough = 12347;
    for (unsigned i = 0; i < 2; i++) {
        struct found found = find(i == 0 ? 1 : 3, true, 0);
        batches[i] = made_up.runs;
        search_found_free(&found);
    }
    assert_true(batches[1] > batches[0]);
}

/* ---- honest ------------------------------------------------------------------------------------------------------ */

static void honest_is_the_smallest_from_which_all_larger_ones_are_good(void **state) {
    (void)state;
    made_up.enough = 10000;
    made_up.quick = 10400;
    struct found found = find(1, false, 1 * PERCENT);
    assert_in_range(found.honest_pages, 10400, 10400 + TOLERANCE); /* between 1.03 and 1.05, refined */
    assert_int_equal(found.min_pages, 0);
    search_found_free(&found);
    made_up.slow = (struct stretch){14900, 15100}; /* 1.5 is slow, and so nothing below it is honest */
    found = find(1, true, 1 * PERCENT);
    assert_in_range(found.honest_pages, 15100, 15100 + TOLERANCE);
    assert_int_equal(found.min_pages, 10000);
    search_found_free(&found);
    made_up.slow.to = 0;
    made_up.fails = (struct stretch){19000, 20000}; /* what does not complete is not good either */
    found = find(1, false, 1 * PERCENT);
    assert_in_range(found.honest_pages, 20001, 20001 + TOLERANCE);
    search_found_free(&found);
}

static bool is_listed(const size_t *list, size_t count, size_t pages) {
    bool listed = false;
    for (size_t i = 0; i < count; i++) listed = listed || list[i] == pages;
    return listed;
}

/* With one run at a time all that were made are told. */
static void assert_consistent(const struct found *found) {
    size_t failing_above = 0, largest_bad = 0, next = 0;
    for (size_t i = 0; i < made_up.runs; i++) {
        size_t pages = made_up.seen[i];
        bool enough = is_enough(pages);
        if (pages > found->min_pages && !enough) {
            failing_above++;
            assert_true(is_listed(found->fails_above, found->fails_above_count, pages));
        }
        if (pages > largest_bad && !(enough && is_quick(pages))) largest_bad = pages;
    }
    for (size_t i = 0; i < made_up.runs; i++)
        if (made_up.seen[i] > largest_bad && (next == 0 || made_up.seen[i] < next)) next = made_up.seen[i];
    assert_int_equal(found->fails_above_count, failing_above);
    assert_true(found->honest_pages >= found->min_pages);
    assert_int_equal(found->honest_pages, next > found->min_pages ? next : found->min_pages);
}

static void what_is_found_on_a_jagged_edge_agrees_with_every_run(void **state) {
    (void)state;
    static const size_t peaks[] = {100, 900, PEAK_PAGES};
    size_t above = 0;
    for (uint32_t seed = 1; seed <= 300; seed++) {
        size_t peak = peaks[seed % 3];
        trace.peak_live_bytes = peak * PAGE;
        made_up.jagged = seed;
        made_up.enough = peak + 1 + seed % 37;
        made_up.held = 2 * peak;
        made_up.quick = seed % 2 == 0 ? peak + 10 + seed % 53 : peak;
        struct found found = find(1, true, 1 * PERCENT);
        assert_consistent(&found);
        above += found.fails_above_count > 0;
        assert_in_range(made_up.runs, 1, 130); /* as docs/replay.md says */
        search_found_free(&found);
    }
    assert_true(above > 100);
}

static void pages_that_fail_right_above_the_smallest_device_are_found(void **state) {
    (void)state;
    trace.peak_live_bytes = 900 * PAGE;
    made_up.enough = made_up.quick = 934;
    made_up.held = 1800;
    made_up.fails = (struct stretch){938, 938};
    struct found found = find(1, true, 1 * PERCENT);
    assert_int_equal(found.min_pages, 934);
    assert_int_equal(found.fails_above_count, 1);
    assert_int_equal(found.fails_above[0], 938);
    assert_int_equal(found.honest_pages, 939);
    search_found_free(&found);
    found = find(1, false, 1 * PERCENT); /* honest's own neighbourhood, without a scan */
    assert_int_equal(found.honest_pages, 939);
    search_found_free(&found);
}

static void what_is_slow_enough_is_honest(void **state) {
    (void)state;
    made_up.quick = 20000; /* 50 % slower before */
    struct found found = find(1, false, 50 * PERCENT);
    assert_int_equal(found.honest_pages, 10000);
    search_found_free(&found);
    found = find(1, false, 49 * PERCENT);
    assert_in_range(found.honest_pages, 20000, 20000 + TOLERANCE);
    search_found_free(&found);
}

static void there_is_no_honest_device_when_three_times_the_peak_is_slow(void **state) {
    (void)state;
    made_up.quick = 3 * PEAK_PAGES + 1;
    struct found found = find(2, false, 1 * PERCENT);
    assert_int_equal(found.honest_pages, 0);
    search_found_free(&found);
}

static void without_work_no_device_is_honest_and_no_slowdown_known(void **state) {
    (void)state;
    trace.has_work = false;
    struct search search = search_with(1);
    struct found found;
    assert_true(search_find(&search, true, 1 * PERCENT, &found));
    assert_int_equal(found.min_pages, PEAK_PAGES);
    assert_int_equal(found.honest_pages, 0);
    assert_true(isnan(search_slowdown(&search, search_outcome(&search, TARGET_POOL, PEAK_PAGES))));
    search_found_free(&found);
    search_end(&search);
    found = find(1, false, 1 * PERCENT);
    assert_in_range(made_up.runs, 0, 1); /* there is nothing to look for */
    search_found_free(&found);
}

static void a_slowdown_is_over_the_free_allocator(void **state) {
    (void)state;
    struct search search = search_with(1);
    const struct search_wanted wanted[] = {{TARGET_FREE, 1}, {TARGET_POOL, 9000}, {TARGET_POOL, 11000}};
    made_up.quick = 12000;
    assert_true(search_make(&search, wanted, 3));
    assert_true(fabs(search_slowdown(&search, search_outcome(&search, TARGET_POOL, 11000)) - 0.5) < 1e-9);
    assert_true(isnan(search_slowdown(&search, search_outcome(&search, TARGET_POOL, 9000)))); /* not completed */
    assert_null(search_outcome(&search, TARGET_POOL, 11001));
    assert_true(isnan(search_slowdown(&search, NULL)));
    search_end(&search);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* How many runs are made on more than that, with a target that never held as much. */
static size_t runs_above(size_t pages) {
    struct found found = find(1, true, 1 * PERCENT);
    size_t above = 0;
    for (size_t i = 0; i < made_up.runs; i++) above += made_up.seen[i] > pages;
    search_found_free(&found);
    return above;
}

static void larger_devices_than_a_pool_can_notice_are_not_run(void **state) {
    (void)state;
    made_up.held = 12000;                      /* and the largest request is of 100 pages */
    assert_int_equal(runs_above(12200), 1);    /* that on plenty */
    made_up.target = TARGET_PLUGIN;            /* of which nothing is known */
    assert_in_range(runs_above(12200), 9, 20); /* the grid's */
}

static void capacities_are_rounded_up_to_whole_pages(void **state) {
    (void)state;
    struct search search = search_with(1);
    assert_int_equal(search_pages_of_ratio(&search, 1020000), 10200);
    assert_int_equal(search_pages_of_ratio(&search, 1020001), 10201);
    assert_int_equal(search_pages_of_bytes(&search, 3 * PAGE - 1), 2);
    assert_int_equal(search_pages_of_bytes(&search, 1), 1);
    trace.peak_live_bytes = 2 * PAGE + 1; /* half of it is half a byte more than a page */
    assert_int_equal(search_pages_of_ratio(&search, 500000), 2);
    trace.peak_live_bytes = TRACE_MOST_BYTES;
    assert_int_equal(search_pages_of_ratio(&search, RATIO_MOST), (TRACE_MOST_BYTES / PAGE) * 1000);
    trace.peak_live_bytes = 0;
    assert_int_equal(search_pages_of_ratio(&search, 1020000), 1);
    search_end(&search);
}

static void a_run_that_can_not_be_made_ends_the_search(void **state) {
    (void)state;
    struct search search = search_with(1);
    struct found found;
    made_up.no_process = true;
    assert_false(search_find(&search, true, 0, &found));
    assert_string_equal(search.why, "there are no processes");
    search_found_free(&found);
    search_end(&search);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_smallest_device_is_found_to_a_fifth_of_a_percent, reset),
        cmocka_unit_test_setup(a_small_trace_is_searched_to_one_page, reset),
        cmocka_unit_test_setup(what_holds_more_than_it_needs_is_searched_up_to_plenty, reset),
        cmocka_unit_test_setup(devices_that_fail_above_the_smallest_are_listed, reset),
        cmocka_unit_test_setup(devices_below_the_edge_that_complete_are_listed, reset),
        cmocka_unit_test_setup(a_coarse_search_looks_at_nothing_above, reset),
        cmocka_unit_test_setup(the_answer_does_not_depend_on_how_many_runs_are_made_at_a_time, reset),
        cmocka_unit_test_setup(idle_cpus_make_the_next_halvings_runs, reset),
        cmocka_unit_test_setup(honest_is_the_smallest_from_which_all_larger_ones_are_good, reset),
        cmocka_unit_test_setup(what_is_found_on_a_jagged_edge_agrees_with_every_run, reset),
        cmocka_unit_test_setup(pages_that_fail_right_above_the_smallest_device_are_found, reset),
        cmocka_unit_test_setup(what_is_slow_enough_is_honest, reset),
        cmocka_unit_test_setup(there_is_no_honest_device_when_three_times_the_peak_is_slow, reset),
        cmocka_unit_test_setup(without_work_no_device_is_honest_and_no_slowdown_known, reset),
        cmocka_unit_test_setup(a_slowdown_is_over_the_free_allocator, reset),
        cmocka_unit_test_setup(larger_devices_than_a_pool_can_notice_are_not_run, reset),
        cmocka_unit_test_setup(capacities_are_rounded_up_to_whole_pages, reset),
        cmocka_unit_test_setup(a_run_that_can_not_be_made_ends_the_search, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
