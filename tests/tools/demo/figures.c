/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: the figures are those of the right rank at the right moment, and the goals and losses are judged by them. */
#include "tests/tools/demo/fixture.h"

#include <math.h>
#include <string.h>

static void a_completed_run_counts_its_peak_on_the_fullest_rank(void **state) {
    (void)state;
    struct run run = fixture_run("run_completed.json", "weir");
    struct figures figures = run_figures(&run);
    assert_int_equal(figures.rank, 1);
    assert_true(figures.utilisation == 0.97);
    assert_int_equal(figures.live_bytes, 41 * MIB);
    assert_int_equal(figures.idle_asker_bytes, 0);
    assert_int_equal(figures.idle_others_bytes, 13 * MIB);
    run_free(&run);
}

static void a_failed_run_counts_the_moment_of_the_refusal_on_the_rank_that_failed(void **state) {
    (void)state;
    struct run run = fixture_run("run_out_of_memory.json", "per-stream");
    struct figures figures = run_figures(&run);
    assert_int_equal(run_fullest(&run)->rank, 0);
    assert_int_equal(figures.rank, 1);
    assert_true(figures.utilisation == 0.71);
    assert_int_equal(figures.live_bytes, 71 * MIB);
    assert_int_equal(figures.peak_live_bytes, 90 * MIB);
    assert_int_equal(figures.idle_asker_bytes, 8 * MIB);
    assert_int_equal(figures.idle_others_bytes, 16 * MIB);
    run_free(&run);
}

static void without_the_failed_rank_the_fullest_refused_one_counts(void **state) {
    (void)state;
    struct run run = fixture_run("run_out_of_memory.json", "per-stream");
    run.ranks[0].refused = true;
    run.ranks[0].refusal.live_bytes = 72 * MIB;
    assert_int_equal(run_subject(&run)->rank, 1);
    run.failed_rank = DEMO_UNKNOWN;
    assert_int_equal(run_subject(&run)->rank, 0);
    run.ranks[0].refused = false;
    assert_int_equal(run_subject(&run)->rank, 1);
    run.ranks[0].refused = run.ranks[1].refused = false;
    assert_int_equal(run_subject(&run)->rank, 0);
    assert_true(run_figures(&run).utilisation == 0.99);
    run_free(&run);
}

static void the_capacity_is_the_peak_and_three_percent_in_whole_pages(void **state) {
    (void)state;
    const size_t page = 16 << 10;
    assert_int_equal(demo_capacity(100 * page, page), 103 * page);
    assert_int_equal(demo_capacity(100 * page + 1, page), 104 * page);
    assert_int_equal(demo_capacity(1, page), page);
}

static void the_page_is_the_reports_else_the_profiles(void **state) {
    (void)state;
    struct run run = {.profile = "demo"};
    assert_int_equal(run_page_bytes(&run), 16 << 10);
    snprintf(run.profile, sizeof run.profile, "gh200");
    assert_int_equal(run_page_bytes(&run), 2 << 20);
    run.granularity_bytes = 64 << 10;
    assert_int_equal(run_page_bytes(&run), 64 << 10);
}

static void the_goals_are_met_only_by_the_figures(void **state) {
    (void)state;
    struct fixture_demo fixture;
    fixture_demo_make(&fixture);
    struct refusal *refusal = &fixture.per_stream.ranks[1].refusal;
    assert_true(demo_goals(&fixture.demo).per_stream && demo_goals(&fixture.demo).weir);
    refusal->live_bytes = 80 * MIB;
    assert_false(demo_goals(&fixture.demo).per_stream);
    refusal->live_bytes = 79 * MIB;
    refusal->idle_others_bytes = 10 * MIB;
    assert_true(demo_goals(&fixture.demo).per_stream);
    refusal->idle_others_bytes = 10 * MIB - 1;
    assert_false(demo_goals(&fixture.demo).per_stream);
    fixture.weir.ranks[1].peak_live_bytes = 95 * MIB;
    assert_true(demo_goals(&fixture.demo).weir);
    fixture.weir.ranks[0].peak_live_bytes = fixture.weir.ranks[1].peak_live_bytes = 95 * MIB - 1;
    assert_false(demo_goals(&fixture.demo).weir);
    fixture_demo_free(&fixture);
}

static void goals_are_not_met_by_the_other_outcome(void **state) {
    (void)state;
    struct fixture_demo fixture;
    fixture_demo_make(&fixture);
    fixture.per_stream.outcome = RUN_COMPLETED;
    fixture.weir.outcome = RUN_OUT_OF_MEMORY;
    assert_false(demo_goals(&fixture.demo).per_stream);
    assert_false(demo_goals(&fixture.demo).weir);
    fixture.demo.runs[DEMO_WEIR] = NULL;
    assert_false(demo_goals(&fixture.demo).asked);
    fixture_demo_free(&fixture);
}

static void losses_are_compared_over_the_steps_that_both_made(void **state) {
    (void)state;
    struct run weir = fixture_run("run_completed.json", "weir");
    struct run other = fixture_run("run_out_of_memory.json", "per-stream");
    const struct run *runs[] = {&weir, &other};
    struct loss_check check = losses_compare(runs, 2);
    assert_true(check.same);
    assert_int_equal(check.pairs, 1);
    assert_int_equal(check.steps, 1);
    other.batch = 10;
    assert_int_equal(losses_compare(runs, 2).steps, 0);
    run_free(&weir);
    run_free(&other);
}

static void one_bit_of_difference_in_a_loss_is_told(void **state) {
    (void)state;
    struct run one = fixture_run("run_completed.json", "one"), other = fixture_run("run_completed.json", "other");
    const struct run *runs[] = {&one, &other};
    assert_true(losses_compare(runs, 2).same);
    other.losses[2] = nextafter(other.losses[2], 10.0);
    struct loss_check check = losses_compare(runs, 2);
    assert_false(check.same);
    assert_int_equal(check.step, 3);
    assert_ptr_equal(check.other, &other);
    other.steps_asked = 2; /* a schedule may depend on it: only the first step compares */
    assert_true(losses_compare(runs, 2).same);
    assert_int_equal(losses_compare(runs, 2).steps, 1);
    run_free(&one);
    run_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_completed_run_counts_its_peak_on_the_fullest_rank),
        cmocka_unit_test(a_failed_run_counts_the_moment_of_the_refusal_on_the_rank_that_failed),
        cmocka_unit_test(without_the_failed_rank_the_fullest_refused_one_counts),
        cmocka_unit_test(the_capacity_is_the_peak_and_three_percent_in_whole_pages),
        cmocka_unit_test(the_page_is_the_reports_else_the_profiles),
        cmocka_unit_test(the_goals_are_met_only_by_the_figures),
        cmocka_unit_test(goals_are_not_met_by_the_other_outcome),
        cmocka_unit_test(losses_are_compared_over_the_steps_that_both_made),
        cmocka_unit_test(one_bit_of_difference_in_a_loss_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
