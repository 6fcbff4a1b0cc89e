/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, captures and contexts under the preloaded library (programs/streams.c has the scenes): every code is the driver's. */
#include "support.h"

#define SMALL "WEIR_EMU=devices:2,capacity:16M,watch:abort"
#define LARGE "WEIR_EMU=devices:2,capacity:64M,watch:abort" /* holds all that is freed late */

static struct outcome outcome;

static void play(const char *scene, const char *emu, const char *more) {
    static struct outcome without;
    const char *const *settings = ARGUMENTS(emu, more);
    run_plain(ARGUMENTS(PROGRAM("streams"), scene), settings, &without);
    assert_ended(0, &without);
    run_preloaded(ARGUMENTS(PROGRAM("streams"), scene), settings, &outcome);
    assert_ended(0, &outcome);
    assert_string_equal(outcome.out, without.out);
}

static void a_capture_is_left_alone_and_memory_is_to_be_had_beside_it(void **state) {
    (void)state;
    play("captures", SMALL, NULL);
    assert_int_equal(counted_allocs(&outcome), 8 * (200 + 3));
    assert_int_equal(counted_frees(&outcome), 8 * (200 + 3));
}

/* What is freed after it gets marks: the host waits for nothing in another way. */
static void a_capture_that_ends_with_its_stream_holds_nothing_back(void **state) {
    (void)state;
    play("captures_end", SMALL, NULL);
    assert_true(counted(&outcome, "order_calls") > 0);
}

static void a_free_on_a_stream_of_another_context_comes_after_what_is_queued_there(void **state) {
    (void)state;
    play("elsewhere", LARGE, "WEIR_OPTIONS=limit:6M");
    assert_int_equal(counted_allocs(&outcome), 20);
    assert_int_equal(counted_frees(&outcome), 20);
}

static void a_free_on_no_stream_is_refused_and_the_right_one_works(void **state) {
    (void)state;
    play("nowhere", SMALL, NULL);
    assert_int_equal(counted_allocs(&outcome), 4);
    assert_int_equal(counted_frees(&outcome), 4);
}

/* The watch would call it a race, as it is without the library: a handle that has been given again is another stream. */
static void streams_that_end_under_other_threads_do_no_harm(void **state) {
    (void)state;
    run_preloaded(ARGUMENTS(PROGRAM("streams"), "gone"), ARGUMENTS("WEIR_EMU=capacity:16M"), &outcome);
    assert_ended(0, &outcome);
    assert_int_equal(counted_allocs(&outcome), counted_frees(&outcome));
}

static void calls_in_a_host_function_are_answered_as_by_the_driver(void **state) {
    (void)state;
    play("inside_alone", SMALL, "WEIR_LOG=error");
    assert_int_equal(counted_frees(&outcome), 1);
    for (int times = 0; times < 5; times++) play("inside_reset", SMALL, "WEIR_LOG=error");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capture_is_left_alone_and_memory_is_to_be_had_beside_it),
        cmocka_unit_test(a_capture_that_ends_with_its_stream_holds_nothing_back),
        cmocka_unit_test(a_free_on_a_stream_of_another_context_comes_after_what_is_queued_there),
        cmocka_unit_test(a_free_on_no_stream_is_refused_and_the_right_one_works),
        cmocka_unit_test(streams_that_end_under_other_threads_do_no_harm),
        cmocka_unit_test(calls_in_a_host_function_are_answered_as_by_the_driver),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
