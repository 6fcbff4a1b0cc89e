/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks make of their figures: one that is not known is left out, one that is beyond all is counted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/figures.h"
#include "bench/loops.h"

#define NONE   ((double)NAN)
#define BEYOND ((double)INFINITY)

static void the_median_is_the_middle_or_the_mean_of_the_middle_two(void **state) {
    (void)state;
    assert_true(figures_median((double[]){3, 1, 2}, 3) == 2);
    assert_true(figures_median((double[]){4, 1, 3, 2}, 4) == 2.5);
    assert_true(figures_median((double[]){7}, 1) == 7);
}

static void a_figure_that_is_not_known_is_left_out(void **state) {
    (void)state;
    const double values[] = {NONE, 5, NONE, 1, 3, NONE};
    assert_true(figures_median(values, 6) == 3);
    assert_true(figures_least(values, 6) == 1);
    assert_true(figures_most(values, 6) == 5);
    assert_int_equal(figures_known(values, 6), 3);
    assert_int_equal(figures_within(values, 6, 3), 2);
    assert_true(isnan(values[0]) && values[1] == 5); /* they stay in their order */
}

static void a_figure_beyond_all_is_counted(void **state) {
    (void)state;
    const double values[] = {BEYOND, 1, 2, BEYOND, 3};
    assert_true(figures_median(values, 5) == 3);
    assert_true(figures_median(values, 4) == BEYOND); /* 1, 2, beyond, beyond: halfway is beyond too */
    assert_true(figures_median((double[]){BEYOND, 1, BEYOND}, 3) == BEYOND);
    assert_true(figures_most(values, 5) == BEYOND);
    assert_true(figures_least(values, 5) == 1);
    assert_int_equal(figures_known(values, 5), 5);
    assert_int_equal(figures_within(values, 5, 1e9), 3);
}

static void of_no_figure_nothing_is_known(void **state) {
    (void)state;
    const double values[] = {NONE, NONE};
    for (size_t count = 0; count <= 2; count++) {
        assert_true(isnan(figures_median(values, count)));
        assert_true(isnan(figures_least(values, count)));
        assert_true(isnan(figures_most(values, count)));
        assert_int_equal(figures_known(values, count), 0);
        assert_int_equal(figures_within(values, count, BEYOND), 0);
    }
}

static void the_sizes_of_a_mix_are_log_uniform(void **state) {
    (void)state;
    size_t sizes[MIX_SIZES];
    loop_sizes((size_t)64 << 20, sizes);
    assert_int_equal(sizes[0], 512);
    assert_int_equal(sizes[MIX_SIZES - 1], 64 << 20);
    const double step = pow(131072, 1.0 / (MIX_SIZES - 1));
    for (int i = 1; i < MIX_SIZES; i++) assert_true(fabs((double)sizes[i] / (double)sizes[i - 1] / step - 1) < 2e-3);
}

/* ---- loops over an allocator that only counts -------------------------------------------------------------------- */

struct counted {
    int taken[LOOP_MOST_THREADS], used[LOOP_MOST_THREADS], given[LOOP_MOST_THREADS];
    int fails_at; /* the take that fails; 0: none */
    size_t least, most;
    size_t bytes[LOOP_MOST_THREADS]; /* taken and not given */
};

static bool count_take(void *self, int thread, size_t bytes, void **block) {
    struct counted *counted = self;
    if (++counted->taken[thread] == counted->fails_at) return false;
    if (thread == 0 && bytes < counted->least) counted->least = bytes;
    if (thread == 0 && bytes > counted->most) counted->most = bytes;
    counted->bytes[thread] += bytes;
    *block = self;
    return true;
}

static bool count_use(void *self, int thread, void *block) {
    ((struct counted *)self)->used[thread]++;
    return block == self;
}

static bool count_give(void *self, int thread, void *block, size_t bytes) {
    struct counted *counted = self;
    counted->given[thread]++;
    counted->bytes[thread] -= bytes;
    return block == self;
}

LOOP_DEFINE(count_thread, count_take, count_use, count_give)

static void a_loop_takes_and_gives_as_often_as_it_says(void **state) {
    (void)state;
    for (int kind = LOOP_PAIRS; kind <= LOOP_MIX; kind++)
        for (int threads = 1; threads <= LOOP_MOST_THREADS; threads++) {
            struct counted counted = {.least = SIZE_MAX};
            const struct loop loop = {(enum loop_kind)kind, 1 << 20, threads, 1000};
            const int blocks = kind == LOOP_MIX ? MIX_BLOCKS : 0;
            assert_true(loop_ns(&loop, count_thread, CLOCK_MONOTONIC, &counted) > 0);
            for (int i = 0; i < LOOP_MOST_THREADS; i++) {
                assert_int_equal(counted.taken[i], i < threads ? 1500 + blocks : 0);
                assert_int_equal(counted.given[i], counted.taken[i]);
                assert_int_equal(counted.bytes[i], 0); /* a block is given with the size that it was taken with */
                assert_int_equal(counted.used[i], kind == LOOP_USES ? counted.taken[i] : 0);
            }
            assert_int_equal(counted.least, kind == LOOP_MIX ? 512 : 1 << 20);
            assert_int_equal(counted.most, 1 << 20);
        }
}

static void a_loop_in_which_a_call_fails_has_no_time(void **state) {
    (void)state;
    const int at[] = {1, 100, 600, 1200};
    for (int kind = LOOP_PAIRS; kind <= LOOP_MIX; kind++)
        for (int threads = 1; threads <= LOOP_MOST_THREADS; threads++)
            for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
                struct counted counted = {.fails_at = at[i]};
                const struct loop loop = {(enum loop_kind)kind, 4096, threads, 1000};
                assert_true(isnan(loop_ns(&loop, count_thread, CLOCK_MONOTONIC, &counted)));
                assert_int_equal(counted.given[0], counted.taken[0] - 1); /* nothing is kept */
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_median_is_the_middle_or_the_mean_of_the_middle_two),
        cmocka_unit_test(a_figure_that_is_not_known_is_left_out),
        cmocka_unit_test(a_figure_beyond_all_is_counted),
        cmocka_unit_test(of_no_figure_nothing_is_known),
        cmocka_unit_test(the_sizes_of_a_mix_are_log_uniform),
        cmocka_unit_test(a_loop_takes_and_gives_as_often_as_it_says),
        cmocka_unit_test(a_loop_in_which_a_call_fails_has_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
