/* SPDX-License-Identifier: Apache-2.0 */
/* The fluid bound: only bytes count, and the host waits for the pending block that comes first, where it must. Times are
 * computed by hand (runs.h). A launch is over 10 us after it began, work starts 5 us later; a host that waited goes on 3 us
 * after what it waited for. B is a page. */
#include <stdio.h>

#include "runs.h"

#define B "2097152"

static struct outcome fluid(const char *lines, size_t pages) { return play(lines, TARGET_FLUID, pages); }

static void a_block_in_use_elsewhere_is_waited_for_when_nothing_else_is_left(void **state) {
    (void)state;
    static const char lines[] = "m 1 " B " 0\nu 1 1\nk 1 1000\nf 1\nm 2 " B " 0\nk 0 100\n";
    const struct outcome one = fluid(lines, 1);
    assert_int_equal(one.host_waits, 1);
    assert_int_equal(one.host_wait_ns, (1015 + 3 - 10) * US);
    assert_int_equal(one.run_ns, (1018 + 10 + 5 + 100) * US);
    assert_int_equal(one.peak_held_bytes, PAGE);
    const struct outcome two = fluid(lines, 2);
    assert_int_equal(two.host_waits, 0);
    assert_int_equal(two.run_ns, 1015 * US);
    assert_int_equal(two.peak_held_bytes, 2 * PAGE);
}

static void a_block_freed_where_it_was_used_is_never_waited_for(void **state) {
    (void)state;
    const struct outcome own = fluid("m 1 " B " 0\nk 0 1000\nu 1 0\nf 1\nm 2 " B " 0\nk 0 100\n", 1);
    assert_int_equal(own.host_waits, 0);
    assert_int_equal(own.run_ns, 1115 * US);
    const struct outcome other = fluid("m 1 " B " 0\nk 0 1000\nf 1\nm 2 " B " 1\nk 1 100\n", 1); /* bytes move freely */
    assert_int_equal(other.host_waits, 0);
    assert_int_equal(other.run_ns, 1015 * US);
}

/* Freed first is not over first. */
static void the_wait_is_for_what_comes_first(void **state) {
    (void)state;
    const struct outcome outcome = fluid("m 1 " B " 0\nm 2 " B " 0\nu 2 2\nu 1 1\nk 2 3000\nk 1 1000\nf 2\nf 1\nm 3 " B
                                         " 0\nk 0 100\nm 4 " B " 0\nk 0 100\n",
                                         2);
    /* 1,025 us: block 1; the host goes on at 1,028. 3,015 us: block 2; the host, at 1,038, goes on at 3,018. */
    assert_int_equal(outcome.host_waits, 2);
    assert_int_equal(outcome.host_wait_ns, (1028 - 20 + 3018 - 1038) * US);
    assert_int_equal(outcome.run_ns, (3018 + 10 + 5 + 100) * US);
}

/* A request that the first does not satisfy goes on waiting, for what is left. */
static void a_request_waits_as_often_as_it_must(void **state) {
    (void)state;
    const struct outcome outcome = fluid("m 1 " B " 0\nm 2 " B " 0\nu 2 2\nu 1 1\nk 2 3000\nk 1 1000\nf 2\nf 1\nm 3 "
                                         "4194304 0\nk 0 100\n",
                                         2);
    assert_int_equal(outcome.host_waits, 2);
    assert_int_equal(outcome.host_wait_ns, (3018 - 20) * US);
    assert_int_equal(outcome.run_ns, (3018 + 10 + 5 + 100) * US);
}

/* What passes while the host wakes is there when it looks again, and nothing else is to come. */
static void what_passes_meanwhile_is_not_waited_for(void **state) {
    (void)state;
    const struct outcome outcome = fluid("m 1 " B " 0\nm 2 " B " 0\nu 2 2\nu 1 1\nk 1 1000\nk 2 991\nf 2\nf 1\nm 3 "
                                         "4194304 0\nk 0 100\n",
                                         2);
    assert_int_equal(outcome.host_waits, 1); /* 1,015 and 1,016 us */
    assert_int_equal(outcome.host_wait_ns, (1018 - 20) * US);
}

/* A use on several streams is over when the last of them is. */
static void a_block_waits_for_all_its_uses(void **state) {
    (void)state;
    const struct outcome outcome = fluid("m 1 " B " 0\nu 1 1\nu 1 2\nu 1 1\nk 1 1000\nk 2 2000\nf 1\nm 2 " B " 0\n", 1);
    assert_int_equal(outcome.host_waits, 1);
    assert_int_equal(outcome.host_wait_ns, (2025 + 3 - 20) * US);
}

static void what_passed_long_ago_is_not_waited_for(void **state) {
    (void)state;
    const struct outcome outcome = fluid("m 1 " B " 0\nu 1 1\nk 1 1000\nf 1\nk 0 5000\ns 0\nm 2 " B " 0\nk 0 100\n", 1);
    assert_int_equal(outcome.host_waits, 0);
    assert_int_equal(outcome.peak_held_bytes, PAGE);
}

/* The event's position counts, not what the stream is given later; and the record at the free, not a later one. */
static void a_free_after_an_event_is_over_with_its_record(void **state) {
    (void)state;
    const struct outcome outcome =
        fluid("m 1 " B " 0\nk 1 1000\ne 1 1\nk 1 5000\nf 1 @1\ne 1 1\nm 2 " B " 0\nk 0 100\nf 2\nh 1\ny 1\n", 1);
    /* The host: 10, 11, 21, free, 22; the record passes at 1,015 us. */
    assert_int_equal(outcome.host_waits, 1);
    assert_int_equal(outcome.host_wait_ns, (1018 - 22) * US);
    const struct outcome destroyed = fluid("m 1 " B " 0\nk 1 1000\ne 1 1\nf 1 @1\ny 1\nm 2 " B " 0\n", 1);
    assert_int_equal(destroyed.host_wait_ns, (1018 - 12) * US);
    /* Two blocks after one record; and the event used again when they are over. */
    const struct outcome both = fluid("m 1 " B " 0\nm 2 " B " 0\nk 1 1000\ne 1 1\nf 1 @1\nf 2 @1\nm 3 4194304 0\nf 3\n"
                                      "e 1 1\nh 1\nm 4 " B " 0\nf 4 @1\nm 5 " B " 0\n",
                                      2);
    assert_int_equal(both.host_waits, 1);
}

/* Whatever was freed before it on that stream. */
static void an_early_record_comes_before_a_late_use(void **state) {
    (void)state;
    const struct outcome outcome = fluid("m 1 " B " 0\nm 2 " B " 0\nu 1 1\nk 1 1000\ne 1 1\nk 1 5000\nf 1\nf 2 @1\n"
                                         "m 3 " B " 0\n",
                                         2);
    assert_int_equal(outcome.host_wait_ns, (1018 - 21) * US);
}

static void an_event_that_passed_serves_the_next_block_too(void **state) {
    (void)state;
    const struct outcome outcome =
        fluid("m 1 " B " 0\nk 1 1000\ne 1 1\nf 1 @1\nm 2 " B " 0\nf 2 @1\nm 3 " B " 0\nf 3 @1\n"
              "k 1 1000\ne 1 1\nm 4 " B " 0\nf 4 @1\nm 5 " B " 0\n",
              1);
    /* The host goes on at 1,018, 1,028, 1,029; the second record passes at 2,033. */
    assert_int_equal(outcome.host_waits, 2);
    assert_int_equal(outcome.host_wait_ns, (1018 - 11 + 2036 - 1029) * US);
}

static void a_free_elsewhere_or_anywhere_is_over_there(void **state) {
    (void)state;
    const struct outcome elsewhere = fluid("m 1 " B " 0\nk 1 1000\nf 1 1\nm 2 " B " 0\n", 1);
    assert_int_equal(elsewhere.host_wait_ns, (1018 - 10) * US);
    const struct outcome anywhere = fluid("m 1 " B " 0\nk 1 1000\nk 2 3000\nf 1 *\nm 2 " B " 0\n", 1);
    assert_int_equal(anywhere.host_wait_ns, (3025 + 3 - 20) * US);
}

static void nothing_pending_and_no_room_is_out_of_memory(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 2097152 0\nk 0 1000\nm 2 1 0\nd\n");
    const struct setup setup = setup_of(&trace, TARGET_FLUID, 1);
    const struct outcome outcome = run_one(&setup);
    assert_int_equal(outcome.ending, ENDED_OUT_OF_MEMORY);
    assert_int_equal(outcome.failed_line, 4);
    assert_string_equal(outcome.report, "of 2097152 bytes 2097152 are live and 0 pending\n");
    trace_free(&trace);
}

/* Each size is rounded up to 512. */
static void bytes_are_rounded(void **state) {
    (void)state;
    const struct outcome outcome = fluid("m 1 1 0\nm 2 513 0\nm 3 0 0\n", 1);
    assert_int_equal(outcome.peak_held_bytes, 512 + 1024);
}

/* Looking at what is pending is no waiting, however often it is done: each request raises the peak, and so looks. */
static void looking_takes_no_time(void **state) {
    (void)state;
    static char lines[1 << 17];
    size_t at = (size_t)sprintf(lines, "m 1 " B " 0\nu 1 1\nk 1 100000\nf 1\n");
    for (int i = 2; i < 3000; i++) at += (size_t)sprintf(lines + at, "m %d 512 0\n", i);
    sprintf(lines + at, "k 0 200000\n");
    const struct outcome outcome = fluid(lines, 2);
    assert_int_equal(outcome.host_waits, 0);
    assert_int_equal(outcome.run_ns, (10 + 10 + 5 + 200000) * US);
}

/* On each of 1,100 streams a block is pending. */
static void looking_at_many_streams_takes_no_time(void **state) {
    (void)state;
    enum { STREAMS = 1100 };
    static char lines[STREAMS * 64];
    size_t at = 0;
    for (int i = 1; i <= STREAMS; i++)
        at += (size_t)sprintf(lines + at, "m %d 512 0\nu %d %d\nk %d 100000\nf %d\n", i, i, i, i, i);
    sprintf(lines + at, "m 9999 512 0\nk 0 200000\n");
    const struct outcome outcome = fluid(lines, 2);
    assert_int_equal(outcome.host_waits, 0);
    assert_int_equal(outcome.run_ns, (STREAMS * 10 + 10 + 5 + 200000) * US);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_in_use_elsewhere_is_waited_for_when_nothing_else_is_left),
        cmocka_unit_test(a_block_freed_where_it_was_used_is_never_waited_for),
        cmocka_unit_test(the_wait_is_for_what_comes_first),
        cmocka_unit_test(a_request_waits_as_often_as_it_must),
        cmocka_unit_test(what_passes_meanwhile_is_not_waited_for),
        cmocka_unit_test(a_block_waits_for_all_its_uses),
        cmocka_unit_test(what_passed_long_ago_is_not_waited_for),
        cmocka_unit_test(a_free_after_an_event_is_over_with_its_record),
        cmocka_unit_test(an_early_record_comes_before_a_late_use),
        cmocka_unit_test(an_event_that_passed_serves_the_next_block_too),
        cmocka_unit_test(a_free_elsewhere_or_anywhere_is_over_there),
        cmocka_unit_test(nothing_pending_and_no_room_is_out_of_memory),
        cmocka_unit_test(bytes_are_rounded),
        cmocka_unit_test(looking_takes_no_time),
        cmocka_unit_test(looking_at_many_streams_takes_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
