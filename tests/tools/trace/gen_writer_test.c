/* SPDX-License-Identifier: Apache-2.0 */
/* The check that goes along while a trace is generated: it finds each order that is missing, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tools/trace/gen_writer.h"

static char found[256]; /* the latest violation; "": none */

static void keep_violation(const char *sentence) { snprintf(found, sizeof found, "%s", sentence); }

static struct gen_writer out;

static int open_writer(void **state) {
    (void)state;
    found[0] = '\0';
    gen_writer_open(&out, NULL);
    out.violated = keep_violation;
    return 0;
}

static int close_writer(void **state) {
    (void)state;
    gen_writer_close(&out);
    return 0;
}

static void assert_found(const char *words) {
    if (strstr(found, words) == NULL) fail_msg("found \"%s\", expected \"%s\"", found, words);
}

static void assert_nothing_found(void) {
    if (found[0] != '\0') fail_msg("found \"%s\"", found);
}

/* Work on compute, then a buffer there. */
static struct buf late_buffer(void) {
    gen_work(&out, COMPUTE, 10);
    return gen_alloc(&out, 100, COMPUTE);
}

static void a_use_that_nothing_orders_after_the_allocation_is_found(void **state) {
    (void)state;
    struct buf buf = late_buffer();
    WORK(&out, EXPERTS, 10, buf);
    assert_found("nothing orders the use of buffer 1 on ep-comm after its allocation on compute");
}

static void an_event_orders_a_use_after_the_allocation(void **state) {
    (void)state;
    struct buf buf = late_buffer();
    gen_after(&out, EXPERTS, COMPUTE);
    WORK(&out, EXPERTS, 10, buf);
    assert_nothing_found();
}

static void an_event_recorded_before_the_allocation_does_not(void **state) {
    (void)state;
    gen_work(&out, COMPUTE, 10);
    struct gen_event event = gen_record(&out, COMPUTE);
    struct buf buf = late_buffer();
    gen_wait(&out, &event, EXPERTS);
    WORK(&out, EXPERTS, 10, buf);
    assert_found("nothing orders");
}

static void an_event_orders_through_a_third_stream(void **state) {
    (void)state;
    struct buf buf = late_buffer();
    gen_after(&out, GATHER, COMPUTE);
    gen_after(&out, EXPERTS, GATHER);
    WORK(&out, EXPERTS, 10, buf);
    assert_nothing_found();
}

static void a_host_that_waited_orders_what_it_queues_later(void **state) {
    (void)state;
    struct buf buf = late_buffer();
    gen_sync(&out, COMPUTE);
    WORK(&out, EXPERTS, 10, buf);
    gen_sync_device(&out);
    FREE(&out, buf);
    gen_work(&out, COMPUTE, 10);
    assert_nothing_found();
}

/* A buffer of compute that ep-comm uses, in order. */
static struct buf lent_buffer(void) {
    struct buf buf = late_buffer();
    gen_after(&out, EXPERTS, COMPUTE);
    WORK(&out, EXPERTS, 10, buf);
    return buf;
}

static void a_stream_that_goes_on_over_a_free_of_what_another_still_uses_is_found(void **state) {
    (void)state;
    struct buf buf = lent_buffer();
    FREE(&out, buf);
    assert_nothing_found();
    gen_work(&out, COMPUTE, 10);
    assert_found("compute goes on after a free, though ep-comm may still use what was freed");
}

static void waiting_after_the_free_is_early_enough(void **state) {
    (void)state;
    struct buf buf = lent_buffer();
    FREE(&out, buf);
    gen_after(&out, COMPUTE, EXPERTS);
    gen_work(&out, COMPUTE, 10);
    assert_nothing_found();
}

static void waiting_for_an_event_before_the_last_use_is_found(void **state) {
    (void)state;
    struct buf buf = lent_buffer();
    struct gen_event event = gen_record(&out, EXPERTS);
    WORK(&out, EXPERTS, 10, buf);
    gen_wait(&out, &event, COMPUTE);
    FREE(&out, buf);
    gen_work(&out, COMPUTE, 10);
    assert_found("though ep-comm may still use");
}

static void a_recorded_use_needs_no_wait(void **state) {
    (void)state;
    struct buf buf = lent_buffer();
    gen_note(&out, buf, EXPERTS);
    FREE(&out, buf);
    gen_work(&out, COMPUTE, 10);
    assert_nothing_found();
}

static void a_use_recorded_on_one_stream_does_not_excuse_another(void **state) {
    (void)state;
    struct buf buf = lent_buffer();
    gen_after(&out, GATHER, COMPUTE);
    WORK(&out, GATHER, 10, buf);
    gen_note(&out, buf, EXPERTS);
    FREE(&out, buf);
    gen_work(&out, COMPUTE, 10);
    assert_found("though allgather may still use");
}

static void a_use_after_the_free_is_found_also_when_its_place_was_taken_again(void **state) {
    (void)state;
    struct buf buf = gen_alloc(&out, 100, COMPUTE);
    FREE(&out, buf);
    gen_alloc(&out, 200, COMPUTE);
    WORK(&out, COMPUTE, 10, buf);
    assert_found("buffer 1 is used after it was freed");
}

static void a_second_free_is_found(void **state) {
    (void)state;
    struct buf buf = gen_alloc(&out, 100, COMPUTE);
    FREE(&out, buf, buf);
    assert_found("buffer 1 is freed again after it was freed");
}

static void a_note_after_the_free_is_found(void **state) {
    (void)state;
    struct buf buf = gen_alloc(&out, 100, COMPUTE);
    FREE(&out, buf);
    gen_note(&out, buf, EXPERTS);
    assert_found("buffer 1 is noted after it was freed");
}

static void no_buffer_is_taken_and_ignored(void **state) {
    (void)state;
    WORK(&out, COMPUTE, 10, NO_BUF);
    gen_note(&out, NO_BUF, EXPERTS);
    FREE(&out, NO_BUF);
    assert_nothing_found();
    assert_int_equal(out.operations, 1);
}

static void live_bytes_rise_and_fall(void **state) {
    (void)state;
    struct buf one = gen_alloc(&out, 100, COMPUTE), other = gen_alloc(&out, 0, COMPUTE);
    FREE(&out, one);
    gen_alloc(&out, 50, COMPUTE);
    assert_int_equal(other.bytes, 1);
    assert_int_equal(out.peak_live_bytes, 101);
    assert_int_equal(out.live_bytes, 51);
    assert_int_equal(out.total_bytes, 151);
    gen_free_everything(&out);
    assert_int_equal(out.live_bytes, 0);
    assert_nothing_found();
}

static void more_operations_than_a_trace_may_have_stop_it(void **state) {
    (void)state;
    out.operations = GEN_MOST_OPERATIONS - 1;
    gen_work(&out, COMPUTE, 10);
    assert_false(gen_stopped(&out));
    gen_work(&out, COMPUTE, 10);
    assert_true(gen_stopped(&out));
    assert_non_null(strstr(out.stopped, "20000000 operations"));
}

static void more_bytes_than_a_trace_may_hold_stop_it_and_never_overflow(void **state) {
    (void)state;
    gen_alloc(&out, INT64_C(1) << 50, COMPUTE);
    assert_false(gen_stopped(&out));
    for (int i = 0; i < 100; i++) gen_alloc(&out, INT64_C(1) << 60, COMPUTE);
    assert_true(gen_stopped(&out));
    assert_non_null(strstr(out.stopped, "live at once"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_writer, close_writer)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_use_that_nothing_orders_after_the_allocation_is_found),
        TEST(an_event_orders_a_use_after_the_allocation),
        TEST(an_event_recorded_before_the_allocation_does_not),
        TEST(an_event_orders_through_a_third_stream),
        TEST(a_host_that_waited_orders_what_it_queues_later),
        TEST(a_stream_that_goes_on_over_a_free_of_what_another_still_uses_is_found),
        TEST(waiting_after_the_free_is_early_enough),
        TEST(waiting_for_an_event_before_the_last_use_is_found),
        TEST(a_recorded_use_needs_no_wait),
        TEST(a_use_recorded_on_one_stream_does_not_excuse_another),
        TEST(a_use_after_the_free_is_found_also_when_its_place_was_taken_again),
        TEST(a_second_free_is_found),
        TEST(a_note_after_the_free_is_found),
        TEST(no_buffer_is_taken_and_ignored),
        TEST(live_bytes_rise_and_fall),
        TEST(more_operations_than_a_trace_may_have_stop_it),
        TEST(more_bytes_than_a_trace_may_hold_stop_it_and_never_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
