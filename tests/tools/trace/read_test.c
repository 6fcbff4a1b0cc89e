/* SPDX-License-Identifier: Apache-2.0 */
/* What is read is what stands there: operations, numbers, names, times, peaks. */
#include "fixture.h"

#include <time.h>

static struct op find_op(const struct trace *trace, size_t at) {
    assert_true(at < trace->op_count);
    return trace->ops[at];
}

static void assert_op(const struct trace *trace, size_t at, struct op expected) {
    const struct op op = find_op(trace, at);
    if (op.kind != expected.kind || op.line != expected.line || op.block != expected.block ||
        op.stream != expected.stream || op.event != expected.event || op.bytes != expected.bytes ||
        op.align != expected.align)
        fail_msg("operation %zu: kind %u line %u block %u stream %u event %u bytes %llu align %u", at, op.kind, op.line,
                 op.block, op.stream, op.event, (unsigned long long)op.bytes, op.align);
}

static void every_operation_becomes_one_of_its_kind(void **state) {
    (void)state;
    static const struct op expected[] = {
        {.kind = OP_LIVE, .line = 2, .block = 0, .stream = 0, .bytes = 4096},
        {.kind = OP_ALLOC, .line = 3, .block = 1, .stream = 1, .bytes = 512},
        {.kind = OP_ALLOC, .line = 4, .block = 2, .stream = 1, .bytes = 0},
        {.kind = OP_ALLOC, .line = 5, .block = 3, .stream = 1, .bytes = 7},
        {.kind = OP_NOTE, .line = 6, .block = 1, .stream = 0},
        {.kind = OP_WORK, .line = 7, .stream = 1, .ns = 35400},
        {.kind = OP_RECORD, .line = 8, .event = 0, .stream = 1},
        {.kind = OP_RECORD, .line = 9, .event = 1, .stream = 2},
        {.kind = OP_WAIT, .line = 10, .event = 1, .stream = 0},
        {.kind = OP_SYNC_STREAM, .line = 11, .stream = 2},
        {.kind = OP_SYNC_DEVICE, .line = 12},
        {.kind = OP_HOST_WAIT, .line = 13, .event = 0},
        {.kind = OP_ITERATION, .line = 14},
        {.kind = OP_FREE, .line = 15, .block = 0, .stream = 0, .bytes = 4096},
        {.kind = OP_FREE, .line = 16, .block = 1, .stream = 2, .bytes = 512},
        {.kind = OP_FREE_ANY, .line = 17, .block = 2, .stream = 1},
        {.kind = OP_FREE_AFTER, .line = 18, .block = 3, .stream = 1, .event = 1, .bytes = 7},
        {.kind = OP_DESTROY_STREAM, .line = 19, .stream = 2},
        {.kind = OP_DESTROY_EVENT, .line = 20, .event = 1},
    };
    struct trace trace;
    read_good("p 10 4096 5\nm 11 512 6\nm 12 0 6\nm 13 7 6\nu 11 5\nk 6 35.4\ne 0 6\ne 900 7\nw 900 5\ns 7\nd\nh 0\ni\n"
              "f 10\nf 11 7\nf 12 *\nf 13 @900\nx 7\ny 900\n",
              &trace);
    assert_int_equal(trace.op_count, COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++) assert_op(&trace, i, expected[i]);
    assert_int_equal(trace.block_count, 4);
    assert_int_equal(trace.stream_count, 3);
    assert_int_equal(trace.event_count, 2);
    assert_int_equal(trace.iteration_count, 1);
    assert_true(trace.has_work);
    assert_int_equal(trace.stream_ids[0], 5);
    assert_int_equal(trace.stream_ids[2], 7);
    trace_free(&trace);
}

static void a_comment_says_that_a_request_was_refused(void **state) {
    (void)state;
    struct trace trace;
    read_good("m 1 1000 0\n# refused 5000 4\nf 1\n# refused 7 0\nm 9 100 0\n", &trace);
    assert_int_equal(trace.op_count, 5);
    assert_op(&trace, 1, (struct op){.kind = OP_REFUSED, .line = 3, .block = 1, .stream = 1, .bytes = 5000});
    assert_op(&trace, 4, (struct op){.kind = OP_ALLOC, .line = 6, .block = 3, .bytes = 100});
    assert_int_equal(trace.peak_live_bytes, 6000);
    assert_int_equal(trace.peak_rounded_bytes, 1024 + 5120);
    assert_int_equal(trace.refused_count, 2);
    assert_int_equal(trace.last_refused, 3);
    trace_free(&trace);
}

static void what_does_not_say_what_was_refused_is_a_plain_comment(void **state) {
    (void)state;
    struct trace trace;
    read_good("# refused\n# refused 5\n# refused five 0\n# refused 5 0 1\n# refused 1125899906842625 0\n"
              "# refused 99999999999999999999 0\n# refused 5 *\nm 1 1 0\n# refused 1125899906842624 0\n",
              &trace);
    assert_int_equal(trace.op_count, 1);
    assert_int_equal(trace.block_count, 1);
    assert_int_equal(trace.refused_count, 0);
    assert_int_equal(trace.peak_live_bytes, 1);
    trace_free(&trace);
}

static void an_alignment_belongs_to_its_allocation(void **state) {
    (void)state;
    struct trace trace;
    read_good("m 1 10 0\nm 2 10 0\na 1 1073741824\na 2 1\np 3 1 0\na 3 256\n", &trace);
    assert_int_equal(trace.op_count, 3);
    assert_int_equal(trace.ops[0].align, 30);
    assert_int_equal(trace.ops[1].align, 0);
    assert_int_equal(trace.ops[2].align, 8);
    trace_free(&trace);
}

static void a_destroyed_stream_gives_its_id_to_another(void **state) {
    (void)state;
    struct trace trace;
    read_good("# stream 4 first\nm 1 1 4\nx 4\nf 1\ns 4\n# stream 4 second\nm 2 1 99999999999\nx 99999999999\n"
              "s 99999999999\n",
              &trace);
    assert_int_equal(trace.stream_count, 4);
    assert_op(&trace, 2, (struct op){.kind = OP_FREE_ANY, .line = 5, .bytes = 1});
    assert_op(&trace, 3, (struct op){.kind = OP_SYNC_STREAM, .line = 6, .stream = 1});
    assert_op(&trace, 6, (struct op){.kind = OP_SYNC_STREAM, .line = 10, .stream = 3});
    assert_string_equal(trace.stream_names[0], "first");
    assert_string_equal(trace.stream_names[1], "second");
    assert_int_equal(trace.stream_ids[1], 4);
    trace_free(&trace);
}

static void a_destroyed_event_gives_its_id_to_another(void **state) {
    (void)state;
    struct trace trace;
    read_good("e 1 0\ne 1 0\ny 1\ne 1 0\nh 1\n", &trace);
    assert_int_equal(trace.event_count, 2);
    assert_op(&trace, 1, (struct op){.kind = OP_RECORD, .line = 3});
    assert_op(&trace, 4, (struct op){.kind = OP_HOST_WAIT, .line = 6, .event = 1});
    trace_free(&trace);
}

/* A terminal would obey them. */
static void a_name_has_no_control_characters(void **state) {
    (void)state;
    struct trace trace;
    read_good("# stream 3 a\x1b[m\x7f\x9b\xc2\x9b\xc3\xa9\n# stream 4 thirty characters and then \xc3\xa9\n", &trace);
    assert_string_equal(trace.stream_names[0], "a [m????\xc3\xa9");
    assert_string_equal(trace.stream_names[1], "thirty characters and then \xc3\xa9");
    trace_free(&trace);
}

static void a_comment_names_a_stream(void **state) {
    (void)state;
    struct trace trace;
    read_good("# stream 3 the compute stream \t\n# stream 4 a name of more than thirty-one characters\n#stream 5 near\n"
              "# stream 6\n# stream x y\n# streams 7 none\nm 1 1 3\n# stream 3 renamed\n",
              &trace);
    assert_int_equal(trace.stream_count, 3);
    assert_string_equal(trace.stream_names[0], "renamed");
    assert_string_equal(trace.stream_names[1], "a name of more than thirty-one ");
    assert_string_equal(trace.stream_names[2], "near");
    trace_free(&trace);
}

static void a_comment_says_where_the_trace_comes_from(void **state) {
    (void)state;
    struct trace trace;
    read_good(
        "# recorded policy=footprint limit=1073741824 granularity=2097152 profile=gh200 deterministic=on colour=red\n"
        "# recorded by hand\n",
        &trace);
    assert_string_equal(trace.origin.policy, "footprint");
    assert_string_equal(trace.origin.profile, "gh200");
    assert_int_equal(trace.origin.limit_bytes, 1073741824);
    assert_int_equal(trace.origin.granularity_bytes, 2097152);
    assert_true(trace.origin.deterministic);
    trace_free(&trace);
    read_good("m 1 1 0\n", &trace);
    assert_string_equal(trace.origin.policy, "");
    assert_false(trace.origin.deterministic);
    trace_free(&trace);
}

static void a_comment_says_where_a_block_was(void **state) {
    (void)state;
    struct trace trace;
    read_good("# at 1 5\nm 1 1 0\nm 2 1 0\n# at 2 1048576\n# at 2 2097152\n# at 9 1\n# at 1 -1\n# at 1 "
              "18446744073709551615\nm 3 1 0\n",
              &trace);
    assert_int_equal(trace.offset_count, 1);
    assert_int_equal(trace.offsets[0], UINT64_MAX);
    assert_int_equal(trace.offsets[1], 2097152);
    assert_int_equal(trace.offsets[2], UINT64_MAX);
    trace_free(&trace);
    read_good("m 1 1 0\n", &trace);
    assert_null(trace.offsets);
    trace_free(&trace);
}

static void every_block_has_an_offset_when_one_has(void **state) {
    (void)state;
    static char lines[200000];
    size_t length = (size_t)snprintf(lines, sizeof lines, "m 0 1 0\n# at 0 7\n");
    for (int i = 1; i < 5000; i++) length += (size_t)snprintf(lines + length, sizeof lines - length, "m %d 1 0\n", i);
    struct trace trace;
    read_good(lines, &trace);
    assert_int_equal(trace.block_count, 5000);
    assert_int_equal(trace.offsets[0], 7);
    for (int i = 1; i < 5000; i++) assert_int_equal(trace.offsets[i], UINT64_MAX);
    trace_free(&trace);
}

static void other_comments_say_nothing_however_long(void **state) {
    (void)state;
    static char lines[300000];
    memset(lines, 'x', sizeof lines);
    memcpy(lines, "#", 1);
    const char end[] = "\n#\n\nd\n# refuses 12 0\n";
    memcpy(lines + sizeof lines - sizeof end, end, sizeof end);
    struct trace trace;
    read_good(lines, &trace);
    assert_int_equal(trace.op_count, 1);
    assert_int_equal(trace.ops[0].line, 5);
    trace_free(&trace);
}

static void times_are_exact(void **state) {
    (void)state;
    static const uint64_t expected[] = {0, 100, 900, 35400, 35000, 123456789012300, 1000000000000000, 7000};
    struct trace trace;
    read_good("k 0 0\nk 0 0.1\nk 0 0.9\nk 0 35.4\nk 0 35\nk 0 123456789012.3\nk 0 1000000000000\nk 0 007.0\n", &trace);
    assert_int_equal(trace.op_count, COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++) assert_int_equal(trace.ops[i].ns, expected[i]);
    trace_free(&trace);
}

static void peaks_are_of_requested_and_of_rounded_bytes(void **state) {
    (void)state;
    struct trace trace;
    read_good("m 1 1000 0\nm 2 1 0\nf 1\nm 3 900 0\nf 2\nf 3\nm 4 600 1\n", &trace);
    assert_int_equal(trace.peak_live_bytes, 1001);
    assert_int_equal(trace.peak_rounded_bytes, 1536);
    assert_false(trace.has_work);
    trace_free(&trace);
}

static void blanks_tabs_and_carriage_returns_do_no_harm(void **state) {
    (void)state;
    static const char text[] = "weir-trace 1\r\nm  1\t512 \t 0 \r\nf 1\t\r\n\r\n";
    struct trace trace;
    assert_null(read_bytes(text, sizeof text - 1, &trace));
    assert_int_equal(trace.op_count, 2);
    assert_int_equal(trace.peak_live_bytes, 512);
    trace_free(&trace);
}

static void ids_are_any_64_bits(void **state) {
    (void)state;
    struct trace trace;
    read_good("m 18446744073709551615 8 18446744073709551615\ne 18446744073709551614 2147483648\n"
              "f 18446744073709551615 @18446744073709551614\nm 0 1 0\nf 0 18446744073709551615\n",
              &trace);
    assert_int_equal(trace.stream_count, 3);
    assert_op(&trace, 2, (struct op){.kind = OP_FREE_AFTER, .line = 4, .bytes = 8});
    assert_op(&trace, 4, (struct op){.kind = OP_FREE, .line = 6, .block = 1, .bytes = 1});
    trace_free(&trace);
}

enum { MANY = 60000 };

/* Of three kinds: low ones, ones all over, ones that agree in their low bits. */
static uint64_t id_of(int kind, uint64_t i) {
    const uint64_t ids[] = {i + 1, (i * UINT64_C(0x9E3779B97F4A7C15)) | (UINT64_C(1) << 63), (i + 1) << 40};
    return ids[kind];
}

/* Allocates MANY blocks with such ids and frees them, all kinds in turn. */
static void read_many(int first_kind, int end_kind, struct trace *trace) {
    char *lines = malloc(MANY * 3 * 2 * 40);
    assert_non_null(lines);
    size_t length = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < MANY; i++)
            for (int kind = first_kind; kind < end_kind; kind++)
                length += (size_t)sprintf(lines + length, pass == 0 ? "m %llu 1 0\n" : "f %llu\n",
                                          (unsigned long long)id_of(kind, i));
    const char *why = read_lines(lines, length, trace);
    if (why != NULL) fail_msg("%s", why);
    free(lines);
}

static void many_ids_of_any_kind_are_found_again(void **state) {
    (void)state;
    struct trace trace;
    read_many(0, 3, &trace);
    assert_int_equal(trace.block_count, MANY * 3);
    for (size_t i = 0; i < MANY * 3; i++) assert_int_equal(trace.ops[MANY * 3 + i].block, i);
    trace_free(&trace);
}

static double seconds_of_kind(int kind) {
    struct trace trace;
    const clock_t begin = clock(); /* this process's own time: whatever else the machine does */
    read_many(kind, kind + 1, &trace);
    const clock_t end = clock();
    trace_free(&trace);
    return (double)(end - begin) / CLOCKS_PER_SEC;
}

/* With a table that takes the low bits it is a hundred times as long, and grows with the square. */
static void ids_that_agree_in_their_low_bits_take_no_longer(void **state) {
    (void)state;
    const double spread = seconds_of_kind(1), alike = seconds_of_kind(2);
    if (alike > 5 * spread + 0.1) fail_msg("%.3f s, where ids all over take %.3f s", alike, spread);
}

static void a_trace_of_nothing_is_a_trace(void **state) {
    (void)state;
    struct trace trace;
    read_good("", &trace);
    assert_int_equal(trace.op_count, 0);
    trace_free(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_becomes_one_of_its_kind),
        cmocka_unit_test(a_comment_says_that_a_request_was_refused),
        cmocka_unit_test(what_does_not_say_what_was_refused_is_a_plain_comment),
        cmocka_unit_test(an_alignment_belongs_to_its_allocation),
        cmocka_unit_test(a_destroyed_stream_gives_its_id_to_another),
        cmocka_unit_test(a_destroyed_event_gives_its_id_to_another),
        cmocka_unit_test(a_name_has_no_control_characters),
        cmocka_unit_test(a_comment_names_a_stream),
        cmocka_unit_test(a_comment_says_where_the_trace_comes_from),
        cmocka_unit_test(a_comment_says_where_a_block_was),
        cmocka_unit_test(every_block_has_an_offset_when_one_has),
        cmocka_unit_test(other_comments_say_nothing_however_long),
        cmocka_unit_test(times_are_exact),
        cmocka_unit_test(peaks_are_of_requested_and_of_rounded_bytes),
        cmocka_unit_test(blanks_tabs_and_carriage_returns_do_no_harm),
        cmocka_unit_test(ids_are_any_64_bits),
        cmocka_unit_test(many_ids_of_any_kind_are_found_again),
        cmocka_unit_test(ids_that_agree_in_their_low_bits_take_no_longer),
        cmocka_unit_test(a_trace_of_nothing_is_a_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
