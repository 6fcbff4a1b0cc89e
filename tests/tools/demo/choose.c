/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: the search for a larger batch ends after few runs, with the largest that fits where those allow to find it. */
#include "tests/tools/demo/fixture.h"

/* Base 8, peaks of 60 and 80 MiB at 8 and 16 (2.5 MiB a row) on 100 MiB: the line meets the capacity at 24. */
static struct choose a_search(void) {
    return (struct choose){.base_batch = 8,
                           .most_batch = 32,
                           .capacity_bytes = 100 * MIB,
                           .small = {8, 60 * MIB},
                           .large = {16, 80 * MIB}};
}

/* Runs a search on a device on which batches up to `limit` fit; gives the best, counts the runs. */
static int64_t search(struct choose choose, int64_t limit, size_t *runs) {
    *runs = 0;
    for (int64_t batch; (batch = choose_next(&choose)) != 0; (*runs)++) {
        assert_true(batch > choose.base_batch && batch <= choose.most_batch);
        for (size_t i = 0; i < choose.tries; i++) assert_int_not_equal(choose.tried[i].batch, batch);
        choose_note(&choose, batch, batch <= limit);
    }
    return choose_best(&choose);
}

static void the_first_try_is_where_the_line_meets_the_capacity(void **state) {
    (void)state;
    struct choose choose = a_search();
    assert_int_equal(choose_next(&choose), 24);
}

static void a_right_estimate_takes_two_runs(void **state) {
    (void)state;
    size_t runs;
    assert_int_equal(search(a_search(), 24, &runs), 24);
    assert_int_equal(runs, 2);
}

static void an_estimate_that_is_one_off_is_mended(void **state) {
    (void)state;
    size_t runs;
    assert_int_equal(search(a_search(), 23, &runs), 23);
    assert_int_equal(runs, 2);
    assert_int_equal(search(a_search(), 25, &runs), 25);
    assert_true(runs <= 4);
}

static void a_bad_estimate_still_ends_with_a_batch_that_fits(void **state) {
    (void)state;
    for (int64_t limit = 8; limit <= 32; limit++) {
        size_t runs;
        int64_t best = search(a_search(), limit, &runs);
        assert_true(runs <= CHOOSE_TRIES_MOST);
        assert_true(best <= limit);
        if (limit > 8) assert_true(best > 8);
        if (limit == 8) assert_int_equal(best, 0);
    }
}

static void the_last_try_is_the_next_batch_when_none_has_fitted(void **state) {
    (void)state;
    size_t runs;
    struct choose choose = a_search();
    choose.base_batch = choose.small.batch = 64;
    choose.large.batch = 128;
    choose.most_batch = 256;
    for (int64_t limit = 65; limit <= 256; limit++) assert_true(search(choose, limit, &runs) > 64);
}

static void no_batch_beyond_the_largest_allowed_is_tried(void **state) {
    (void)state;
    size_t runs;
    struct choose choose = a_search();
    choose.large.peak_bytes = choose.small.peak_bytes; /* memory does not grow: all would fit */
    assert_int_equal(choose_next(&choose), 32);
    assert_int_equal(search(choose, 1000, &runs), 32);
    assert_int_equal(runs, 1);
}

static void where_even_the_base_is_estimated_too_large_the_next_one_is_tried(void **state) {
    (void)state;
    size_t runs;
    struct choose choose = a_search();
    choose.capacity_bytes = 50 * MIB;
    assert_int_equal(choose_next(&choose), 9);
    assert_int_equal(search(choose, 8, &runs), 0);
    assert_int_equal(runs, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_try_is_where_the_line_meets_the_capacity),
        cmocka_unit_test(a_right_estimate_takes_two_runs),
        cmocka_unit_test(an_estimate_that_is_one_off_is_mended),
        cmocka_unit_test(a_bad_estimate_still_ends_with_a_batch_that_fits),
        cmocka_unit_test(the_last_try_is_the_next_batch_when_none_has_fitted),
        cmocka_unit_test(no_batch_beyond_the_largest_allowed_is_tried),
        cmocka_unit_test(where_even_the_base_is_estimated_too_large_the_next_one_is_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
