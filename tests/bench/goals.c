/* SPDX-License-Identifier: Apache-2.0 */
/* Which goal a trace is measured by, and whether it is met. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/replay_goals.h"

#define MIB (1 << 20)
#define GIB 1073741824.0

enum { PAGE, HANDLE, RANGE };

static void a_goal_is_met_up_to_its_figure(void **state) {
    (void)state;
    const struct goal goal = {0.02, 0};
    assert_true(goal_met(goal, 0.02, GIB));
    assert_true(goal_met(goal, -0.1, GIB));
    assert_false(goal_met(goal, 0.020001, GIB));
    assert_false(goal_met(goal, (double)INFINITY, GIB)); /* it did not complete */
    assert_false(goal_met(goal, (double)NAN, GIB));
}

static void a_goal_of_0_is_met_below_a_two_hundredth_of_a_percent(void **state) {
    (void)state;
    const struct goal goal = {0, 0};
    assert_true(goal_met(goal, 0, GIB));
    assert_true(goal_met(goal, 0.000049, GIB));
    assert_false(goal_met(goal, 0.00005, GIB));
    assert_false(goal_met(goal, (double)INFINITY, GIB));
}

static void a_device_little_above_live_does_too(void **state) {
    (void)state;
    const struct goal goal = goal_of_smallest();
    assert_true(goal_met(goal, 1.01, 100 * GIB));
    assert_false(goal_met(goal, 1.0101, 100 * GIB));
    assert_true(goal_met(goal, 1 + 48.0 / 1024, GIB)); /* 48 MiB above a GiB */
    assert_false(goal_met(goal, 1 + 49.0 / 1024, GIB));
    assert_false(goal_met(goal, (double)INFINITY, GIB));
    assert_true(goal_met(goal_of_honest(FAMILY_OTHER, RANGE), 1 + 48.0 / 1024, GIB));
    assert_false(goal_met(goal_of_honest(FAMILY_OTHER, PAGE), 1.101, MIB));
    assert_false(goal_met(goal_of_honest(FAMILY_DENSE, RANGE), 1.011, MIB));
}

static void goals_hang_on_family_and_law(void **state) {
    (void)state;
    static const double of_range[] = {0.005, 0.003, 0.001, 0}, of_others[] = {0.02, 0.013, 0.003, 0};
    for (size_t point = 0; point < GOAL_POINTS; point++)
        for (size_t law = 0; law < LAWS; law++) {
            const double *wanted = law == RANGE ? of_range : of_others;
            assert_true(goal_of_slowdown(FAMILY_MOE, law, point).at_most == wanted[point]);
            assert_true(goal_of_slowdown(FAMILY_OTHER, law, point).at_most == wanted[point]);
            assert_true(goal_of_slowdown(FAMILY_DENSE, law, point).at_most == 0);
        }
    assert_string_equal(law_names[RANGE], "range");
    assert_true(goal_of_honest(FAMILY_MOE, RANGE).at_most == 1.02);
    assert_true(goal_of_honest(FAMILY_MOE, HANDLE).at_most == 1.10);
    assert_true(goal_of_honest(FAMILY_DENSE, PAGE).at_most == 1.01);
}

static void a_family_is_by_name_and_by_what_repeats(void **state) {
    (void)state;
    assert_int_equal(goal_family("made/moe-fsdp2-s1", false), FAMILY_MOE);
    assert_int_equal(goal_family("moe-fsdp1-nosync-s1", true), FAMILY_MOE);
    assert_int_equal(goal_family("made/gpt-dense-s1", true), FAMILY_DENSE);
    assert_int_equal(goal_family("made/ft-varlen-full-s1", false), FAMILY_OTHER);
    assert_int_equal(goal_family("moe-things/gpt", false), FAMILY_OTHER); /* a group is no family */
}

/* ---- what repeats ------------------------------------------------------------------------------------------------ */

static struct op ops[1000];
static struct trace trace;

static void put(enum op_kind kind, uint32_t block, uint32_t stream, uint64_t bytes) {
    ops[trace.op_count++] = (struct op){.kind = (uint8_t)kind, .block = block, .stream = stream, .bytes = bytes};
    if (block >= trace.block_count) trace.block_count = block + 1;
}

/* Passes of ten blocks, of which the last of each pass is freed in the next one. The first pass makes one that lasts. */
static void make_passes(int passes) {
    uint32_t block = 1;
    memset(&trace, 0, sizeof trace);
    trace.ops = ops;
    for (int pass = 0; pass < passes; pass++) {
        put(OP_ITERATION, 0, 0, 0);
        if (pass == 0) put(OP_ALLOC, 0, 0, 1 << 20);
        for (int i = 0; i < 10; i++, block++) {
            put(OP_ALLOC, block, i % 2 == 0, 512 + 512 * (uint64_t)i);
            put(OP_NOTE, block, 2, 0);
            put(OP_WORK, 0, 0, 1000 + 7 * block); /* work may take as long as it likes */
            if (block > 1) put(OP_FREE, block - 1, i % 2 != 0, 0);
        }
    }
    put(OP_FREE, block - 1, 0, 0);
    put(OP_FREE, 0, 0, 0);
}

static struct op *nth_of(enum op_kind kind, size_t nth) {
    for (size_t i = 0; i < trace.op_count; i++)
        if (ops[i].kind == kind && nth-- == 0) return &ops[i];
    fail();
    return NULL;
}

static void passes_that_ask_for_the_same_repeat(void **state) {
    (void)state;
    make_passes(6);
    assert_true(goal_trace_repeats(&trace));
    make_passes(4);
    assert_true(goal_trace_repeats(&trace));
    make_passes(3); /* one between the first and the last: nothing to compare it with */
    assert_false(goal_trace_repeats(&trace));
    make_passes(0);
    assert_false(goal_trace_repeats(&trace));
}

static void the_third_of_the_same_is_counted_from_the_first_that_is_like_the_others(void **state) {
    (void)state;
    make_passes(6);
    assert_int_equal(goal_third_of_the_same(&trace), 4); /* the first makes what lasts */
    memset(&trace, 0, sizeof trace);
    trace.ops = ops;
    for (uint32_t pass = 0; pass < 5; pass++) {
        put(OP_ITERATION, 0, 0, 0);
        put(OP_ALLOC, pass, 0, 512);
        put(OP_FREE, pass, 0, 0);
    }
    assert_true(goal_trace_repeats(&trace));
    assert_int_equal(goal_third_of_the_same(&trace), 3);
}

static void one_difference_in_one_pass_is_seen(void **state) {
    (void)state;
    make_passes(6);
    nth_of(OP_ALLOC, 37)->bytes += 512;
    assert_false(goal_trace_repeats(&trace));
    make_passes(6);
    nth_of(OP_NOTE, 35)->stream = 3;
    assert_false(goal_trace_repeats(&trace));
    make_passes(6);
    struct op *one = nth_of(OP_FREE, 33), *other = nth_of(OP_FREE, 34);
    const uint32_t block = one->block; /* two blocks freed the other way round */
    one->block = other->block;
    other->block = block;
    assert_false(goal_trace_repeats(&trace));
    make_passes(6);
    nth_of(OP_ALLOC, 55)->bytes += 512; /* in the last pass, which gives back what lasts: not looked at */
    assert_true(goal_trace_repeats(&trace));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_goal_is_met_up_to_its_figure),
        cmocka_unit_test(a_goal_of_0_is_met_below_a_two_hundredth_of_a_percent),
        cmocka_unit_test(a_device_little_above_live_does_too),
        cmocka_unit_test(goals_hang_on_family_and_law),
        cmocka_unit_test(a_family_is_by_name_and_by_what_repeats),
        cmocka_unit_test(passes_that_ask_for_the_same_repeat),
        cmocka_unit_test(the_third_of_the_same_is_counted_from_the_first_that_is_like_the_others),
        cmocka_unit_test(one_difference_in_one_pass_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
