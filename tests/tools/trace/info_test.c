/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace info's figures, of a trace small enough to count by hand. */
#include "fixture.h"

#include "tools/trace/info.h"

/* Two blocks from before; three iterations that allocate 100 on compute and 50 on copy, keep what the first made, and
 * differ in the third; the program's end. Live: 1000 + 512, then per iteration 100 + 50 more at most. */
static const char lines[] = "# stream 0 compute\n"    /* 2 */
                            "p 1 1000 0\n"            /* 3 */
                            "m 2 512 0\n"             /* 4 */
                            "i\n"                     /* 5 */
                            "m 10 100 0\nm 11 50 9\n" /* 6, 7 */
                            "k 0 10.5\nu 11 0\nu 10 0\n"
                            "e 1 9\nw 1 0\nf 11\n"
                            "i\n"                     /* 14 */
                            "m 20 100 0\nm 21 50 9\n" /* 15, 16: the peak */
                            "k 9 2\nf 21\nf 20\n"
                            "i\n" /* 20 */
                            "m 30 100 0\nm 31 40 9\n"
                            "f 31 *\nf 30\nf 10\n"
                            "f 2\n";

static struct trace trace;
static struct info info;

static int gather(void **state) {
    (void)state;
    read_good(lines, &trace);
    assert_true(info_gather(&trace, &info));
    return 0;
}

static int drop(void **state) {
    (void)state;
    info_free(&info);
    trace_free(&trace);
    return 0;
}

static void assert_share(struct info_share share, uint64_t blocks, uint64_t bytes) {
    assert_int_equal(share.blocks, blocks);
    assert_int_equal(share.bytes, bytes);
}

static void operations_are_counted_by_kind(void **state) {
    (void)state;
    assert_int_equal(info.by_kind[OP_LIVE], 1);
    assert_int_equal(info.by_kind[OP_ALLOC], 7);
    assert_int_equal(info.by_kind[OP_FREE], 6);
    assert_int_equal(info.by_kind[OP_FREE_ANY], 1);
    assert_int_equal(info.by_kind[OP_ITERATION], 3);
    assert_int_equal(info.work_ns, 12500);
    assert_string_equal(info_kind_names[OP_ITERATION], "iteration");
}

static void the_peak_is_shared_out_by_age_stream_and_size(void **state) {
    (void)state;
    assert_int_equal(trace.peak_live_bytes, 1762);
    assert_int_equal(trace.ops[info.peak_op].line, 16);
    assert_int_equal(info.peak_iteration, 2);
    assert_share(info.at_peak, 5, 1762);
    assert_share(info.at_peak_before, 2, 1512);
    assert_share(info.at_peak_earlier, 1, 100);
    assert_share(info.at_peak_own, 2, 150);
    assert_share(info.streams[0].at_peak, 4, 1712);
    assert_share(info.streams[1].at_peak, 1, 50);
    assert_share(info.sizes_at_peak[7], 2, 200); /* from 64 */
    assert_int_equal(info.group_count, 4);
    assert_int_equal(info.groups[0].bytes, 1000);
    assert_int_equal(info.groups[2].bytes, 100);
    assert_int_equal(info.groups[2].blocks, 2);
    assert_int_equal(info.groups[2].line, 6);
    assert_int_equal(info.groups[3].stream, 1);
}

static void the_first_of_equal_peaks_counts(void **state) {
    (void)state;
    struct trace own;
    struct info of_own;
    read_good("m 1 5 0\nf 1\nm 2 5 0\n", &own);
    assert_true(info_gather(&own, &of_own));
    assert_int_equal(of_own.peak_op, 0);
    info_free(&of_own);
    trace_free(&own);
}

static void streams_have_their_own_peaks(void **state) {
    (void)state;
    assert_share(info.streams[0].allocated, 5, 1812);
    assert_share(info.streams[1].allocated, 3, 140);
    assert_int_equal(info.streams[0].peak_live_bytes, 1712);
    assert_int_equal(info.streams[1].peak_live_bytes, 50);
    assert_int_equal(info.streams[0].uses_by_others, 0);
    assert_int_equal(info.streams[1].uses_by_others, 1);
    assert_int_equal(info.streams[0].waits, 1);
    assert_int_equal(info.streams[0].work_ns, 10500);
    assert_int_equal(info.streams[1].works, 1);
    char name[40];
    assert_string_equal(info_stream_name(&trace, 0, name, sizeof name), "compute");
    assert_string_equal(info_stream_name(&trace, 1, name, sizeof name), "stream 9");
}

static void lifetimes_are_counted_by_operations_and_by_iterations(void **state) {
    (void)state;
    assert_share(info.never_freed, 1, 1000);
    assert_share(info.windows[0], 5, 340); /* 11, 20, 21, 30, 31 */
    assert_share(info.windows[1], 2, 612);
    assert_share(info.spans[0], 5, 340);
    assert_share(info.spans[1], 0, 0);
    assert_share(info.spans[2], 2, 612);
}

static void the_largest_sizes_are_listed(void **state) {
    (void)state;
    assert_int_equal(info.largest_count, 5);
    assert_int_equal(info.largest[2].bytes, 100);
    assert_int_equal(info.largest[2].blocks, 3);
    assert_int_equal(info.largest[4].bytes, 40);
}

static void iterations_are_compared_request_by_request(void **state) {
    (void)state;
    assert_int_equal(info.iterations[0].requests, 3);
    assert_int_equal(info.iterations[1].requests, 4);
    assert_int_equal(info.iterations[1].same, 3);
    assert_false(info.iterations[1].identical);
    assert_int_equal(info.iterations[2].same, 1);
    assert_int_equal(info.identical_iterations, 0);
}

static uint64_t identical_of(const char *text) {
    struct trace own;
    struct info of_own;
    read_good(text, &own);
    assert_true(info_gather(&own, &of_own));
    const uint64_t identical = of_own.identical_iterations;
    info_free(&of_own);
    trace_free(&own);
    return identical;
}

static void iterations_are_identical_in_kind_bytes_and_stream(void **state) {
    (void)state;
    assert_int_equal(identical_of("i\nm 1 5 0\nf 1\ni\nm 2 5 0\nk 0 1\nf 2\ni\nm 3 5 0\nf 3\n"), 2);
    assert_int_equal(identical_of("i\nm 1 5 0\nf 1\ni\nm 2 5 0\nf 2\nm 3 1 0\nf 3\n"), 1); /* the end follows */
    assert_int_equal(identical_of("i\nm 1 5 0\nf 1\ni\nm 2 5 0\nf 2\nm 3 1 0\nf 3\ni\n"), 0);
    assert_int_equal(identical_of("i\nm 1 5 0\nf 1\ni\nm 2 6 0\nf 2\n"), 0);
    assert_int_equal(identical_of("i\nm 1 5 0\nf 1\ni\nm 2 5 1\nf 2\n"), 0);
    assert_int_equal(identical_of("i\nm 1 5 0\nf 1\ni\nm 2 5 0\nf 2 1\n"), 0);
    assert_int_equal(identical_of("i\nm 1 5 0\nf 1\ni\nm 2 5 0\nm 3 5 0\n"), 0);
    assert_int_equal(identical_of("i\nm 1 5 0\nf 1\ni\nm 2 5 0\n"), 0);
}

static void sizes_at_the_borders_have_their_classes(void **state) {
    (void)state;
    struct trace own;
    struct info of_own;
    read_good("m 1 0 0\nm 2 1 0\nm 3 511 0\nm 4 512 0\nm 5 1125899906000000 0\nf 5\nf 1\nf 2\nf 3\nf 4\n"
              "m 6 1125899906842624 0\n",
              &own);
    assert_true(info_gather(&own, &of_own));
    assert_share(of_own.sizes[0], 1, 0);
    assert_share(of_own.sizes[1], 1, 1);
    assert_share(of_own.sizes[9], 1, 511);
    assert_share(of_own.sizes[10], 1, 512);
    assert_share(of_own.sizes[50], 1, UINT64_C(1125899906000000));
    assert_share(of_own.sizes[51], 1, UINT64_C(1125899906842624));
    info_free(&of_own);
    trace_free(&own);
}

static void what_was_refused_counts_as_freed_at_once(void **state) {
    (void)state;
    struct trace own;
    struct info of_own;
    char text[8192];
    read_good("m 1 100 0\n# refused 3000 0\n# refused 5000 4\nf 1\n", &own);
    assert_true(info_gather(&own, &of_own));
    assert_int_equal(of_own.by_kind[OP_REFUSED], 2);
    assert_share(of_own.at_peak, 2, 5100);
    assert_share(of_own.never_freed, 0, 0);
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    info_put_words(out, "own", &of_own);
    fclose(out);
    assert_non_null(
        strstr(text, "\nthe recorded run was refused 2 requests (the last 4.88 KiB on stream 4 at line 4): "));
    assert_non_null(strstr(text, ", 2 refused,"));
    info_free(&of_own);
    trace_free(&own);
}

static void traces_of_nothing_and_of_no_bytes_can_be_looked_at(void **state) {
    (void)state;
    assert_int_equal(identical_of(""), 0);
    assert_int_equal(identical_of("i\n"), 0);
    assert_int_equal(identical_of("m 1 0 0\nf 1\n"), 0);
    assert_int_equal(identical_of("s 5\nx 5\n"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_are_counted_by_kind),
        cmocka_unit_test(the_peak_is_shared_out_by_age_stream_and_size),
        cmocka_unit_test(the_first_of_equal_peaks_counts),
        cmocka_unit_test(streams_have_their_own_peaks),
        cmocka_unit_test(lifetimes_are_counted_by_operations_and_by_iterations),
        cmocka_unit_test(the_largest_sizes_are_listed),
        cmocka_unit_test(iterations_are_compared_request_by_request),
        cmocka_unit_test(iterations_are_identical_in_kind_bytes_and_stream),
        cmocka_unit_test(sizes_at_the_borders_have_their_classes),
        cmocka_unit_test(what_was_refused_counts_as_freed_at_once),
        cmocka_unit_test(traces_of_nothing_and_of_no_bytes_can_be_looked_at),
    };
    return cmocka_run_group_tests(tests, gather, drop);
}
