/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a run is the trace's own: computed here by hand, on a machine of round figures (runs.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runs.h"

static uint64_t time_of(const char *lines) { return play(lines, TARGET_FREE, 1).run_ns; }

static void work_begins_after_its_launch_and_takes_what_it_says(void **state) {
    (void)state;
    assert_int_equal(time_of("k 0 1000\n"), 1015 * US);
    assert_int_equal(time_of("k 0 0.1\n"), 15 * US + 100);
}

static void a_stream_waits_for_an_event_of_another(void **state) {
    (void)state;
    assert_int_equal(time_of("k 0 1000\ne 1 0\nw 1 1\nk 1 500\n"), 1515 * US);
    assert_int_equal(time_of("k 0 1000\ne 1 0\nk 1 500\n"), 1015 * US); /* else they go on side by side */
}

static void the_host_goes_on_after_it_woke(void **state) {
    (void)state;
    assert_int_equal(time_of("k 0 1000\ne 1 0\nh 1\nk 0 100\n"), 1133 * US);
    assert_int_equal(time_of("k 0 1000\ns 0\nk 0 100\n"), 1133 * US);
    assert_int_equal(time_of("k 0 1000\nd\n"), 1018 * US);
    assert_int_equal(time_of("k 0 1000\nk 1 9000\ns 0\nk 0 100\n"), 9025 * US);
}

/* 1,200 launches of 100 us each. From some launch on each waits until the one 1,024 before it is done: the last until the
 * 176th is, at 15 + 17,600 us, and 3 us longer. */
static void a_full_launch_queue_holds_the_host_back(void **state) {
    (void)state;
    static char lines[1202 * 16];
    size_t at = 0;
    for (int i = 0; i < 1200; i++) at += (size_t)sprintf(lines + at, "k 0 100\n");
    sprintf(lines + at, "k 1 1000000\n");
    assert_int_equal(time_of(lines), (15 + 17600 + 3 + 10 + 5 + 1000000) * US);
}

static void a_free_allocator_costs_nothing_and_a_pool_its_calls(void **state) {
    (void)state;
    static const char requests[] = "p 1 1048576 0\nf 1\nm 2 1048576 0\nu 2 1\nf 2\nm 3 1048576 0\n";
    assert_int_equal(play(requests, TARGET_FREE, 4).run_ns, 0);
    assert_int_equal(play(requests, TARGET_FLUID, 4).run_ns, 0);
    /* The page is there before time counts; the last request finds the block idle and complete, and asks for a mark. */
    assert_int_equal(play("p 1 1048576 0\nf 1\nm 2 1048576 0\nf 2\nm 3 1048576 0\n", TARGET_POOL, 4).run_ns, 8 * US);
}

static void taking_memory_costs_the_host_and_what_was_live_before_does_not(void **state) {
    (void)state;
    const struct outcome before = play("p 1 4194304 0\nk 0 1000\n", TARGET_POOL, 4);
    const struct outcome inside = play("m 1 4194304 0\nk 0 1000\n", TARGET_POOL, 4);
    assert_int_equal(before.run_ns, 1015 * US);
    assert_true(inside.run_ns > before.run_ns + 2 * US);
    assert_int_equal(inside.memory_calls, before.memory_calls);
    assert_int_equal(before.peak_held_bytes, 2 * PAGE);
}

static void the_steady_part_is_measured_on_the_device_at_both_ends(void **state) {
    (void)state;
    /* The host is at the third i after 20 us; what it queued before takes until 2,015 us. */
    const struct outcome three = play("i\nk 0 1000\ni\nk 0 1000\ni\nk 0 1000\n", TARGET_FREE, 1);
    assert_int_equal(three.run_ns, 3015 * US);
    assert_int_equal(three.steady_ns, 1000 * US);
    const struct outcome four = play("i\nk 0 1000\ni\nk 0 1000\ni\nk 0 1000\ni\nk 0 1000\n", TARGET_FREE, 1);
    assert_int_equal(four.steady_ns, 2000 * US);
    const struct outcome two = play("i\nk 0 1000\ni\nk 0 1000\n", TARGET_FREE, 1);
    assert_int_equal(two.steady_ns, two.run_ns);
    /* The host is last: it waited for all at both ends. */
    const struct outcome synced = play("i\nk 0 1000\nd\ni\nk 0 1000\nd\ni\nk 0 1000\nd\n", TARGET_FREE, 1);
    assert_int_equal(synced.steady_ns, 1018 * US);
}

static void a_stream_that_is_gone_still_counts(void **state) {
    (void)state;
    assert_int_equal(time_of("k 0 5000\nx 0\nk 1 10\n"), 5015 * US);
    /* Stream 0 goes at 11 us and is busy until 5,015; so that is when the steady part begins. */
    const struct outcome outcome = play("i\ni\nk 0 5000\nx 0\ni\nk 1 6000\n", TARGET_FREE, 1);
    assert_int_equal(outcome.run_ns, (10 + 1 + 10 + 5 + 6000) * US);
    assert_int_equal(outcome.steady_ns, outcome.run_ns - 5015 * US);
}

static void counts_of_the_steady_part_are_apart(void **state) {
    (void)state;
    const struct outcome early = play("i\nm 1 4194304 0\ni\ni\nf 1\nm 2 4194304 0\n", TARGET_POOL, 4);
    assert_true(early.memory_calls > 0);
    assert_int_equal(early.memory_calls_steady, 0);
    const struct outcome late = play("i\ni\ni\nm 1 4194304 0\n", TARGET_POOL, 4);
    assert_true(late.memory_calls_steady > 0 && late.memory_calls_steady < late.memory_calls);
    struct trace ended = trace_of("i\nm 1 4194304 0\ni\nm 2 4194304 0\ni\nd\n");
    const struct setup setup = setup_of(&ended, TARGET_POOL, 3);
    const struct outcome none = run_one(&setup);
    assert_int_equal(none.ending, ENDED_OUT_OF_MEMORY);
    assert_true(none.memory_calls > 0 && none.memory_calls_steady == NOT_KNOWN);
    assert_true(none.order_calls_steady == NOT_KNOWN);
    trace_free(&ended);
}

static void an_event_that_was_destroyed_holds_nothing_back(void **state) {
    (void)state;
    assert_int_equal(time_of("k 0 1000\ne 1 0\nw 1 1\ny 1\nk 1 500\n"), 1515 * US); /* what waits already still does */
    assert_int_equal(time_of("k 0 1000\ne 1 0\ny 1\ne 1 1\nw 1 2\nk 2 500\n"), 1015 * US);
}

static void without_a_clock_what_was_queued_is_done(void **state) {
    (void)state;
    struct trace trace = trace_of("i\ni\ni\nm 1 2097152 0\nu 1 1\nk 1 1000\ne 1 1\nf 1\nm 2 2097152 0\nh 1\nd\n");
    const enum target_kind targets[] = {TARGET_FREE, TARGET_FLUID, TARGET_POOL};
    for (int i = 0; i < 3; i++) {
        struct setup setup = setup_of(&trace, targets[i], 1);
        setup.clock = CLOCK_NONE;
        const struct outcome outcome = run_one(&setup);
        assert_int_equal(outcome.ending, ENDED_COMPLETED);
        assert_int_equal(outcome.run_ns, 0);
        assert_int_equal(outcome.steady_ns, 0);
        assert_int_equal(outcome.host_waits, 0);
        assert_int_equal(outcome.device_waits, 0);
    }
    trace_free(&trace);
}

static void the_environment_says_nothing_of_the_machine(void **state) {
    (void)state;
    static const char lines[] = "m 1 2097152 0\nk 0 1000\nf 1\nd\n";
    const struct outcome as_asked = play(lines, TARGET_POOL, 4);
    char *kept = strdup(getenv("WEIR_EMU") != NULL ? getenv("WEIR_EMU") : "");
    setenv("WEIR_EMU",
           "capacity:64M,seed:7,jitter:0.3,delay:1ms,watch:on,memory:backed,devices:2,others:8M,refuse:never", 1);
    const struct outcome beside = play(lines, TARGET_POOL, 4);
    setenv("WEIR_OPTIONS", "policy:nonsense,deterministic:on", 1);
    const struct outcome with_options = play(lines, TARGET_POOL, 4);
    unsetenv("WEIR_OPTIONS");
    setenv("WEIR_EMU", kept, 1);
    free(kept);
    assert_same(&as_asked, &beside);
    assert_same(&as_asked, &with_options);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_begins_after_its_launch_and_takes_what_it_says),
        cmocka_unit_test(a_stream_waits_for_an_event_of_another),
        cmocka_unit_test(the_host_goes_on_after_it_woke),
        cmocka_unit_test(a_full_launch_queue_holds_the_host_back),
        cmocka_unit_test(a_free_allocator_costs_nothing_and_a_pool_its_calls),
        cmocka_unit_test(taking_memory_costs_the_host_and_what_was_live_before_does_not),
        cmocka_unit_test(the_steady_part_is_measured_on_the_device_at_both_ends),
        cmocka_unit_test(a_stream_that_is_gone_still_counts),
        cmocka_unit_test(counts_of_the_steady_part_are_apart),
        cmocka_unit_test(an_event_that_was_destroyed_holds_nothing_back),
        cmocka_unit_test(without_a_clock_what_was_queued_is_done),
        cmocka_unit_test(the_environment_says_nothing_of_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
