/* SPDX-License-Identifier: Apache-2.0 */
/* Every refusal has one sentence: file, line, byte, reason. */
#include "fixture.h"

#include <sys/stat.h>
#include <unistd.h>

struct refusal {
    const char *lines; /* behind the header */
    const char *sentence;
};

static const struct refusal refusals[] = {
    /* how a line is written */
    {"q 1\n", "line 2 (byte 13): 'q 1' is no operation"},
    {"mm 1 2 3\n", "line 2 (byte 13): 'mm 1 2 3' is no operation"},
    {" m 1 2 3\n", "line 2 (byte 13): ' m 1 2 3' is no operation"},
    {"i\n\x1b[31m\n", "line 3 (byte 15): '?[31m' is no operation"},
    {"m 1 2\n", "line 2 (byte 13): too little: m is followed by BLOCK BYTES STREAM"},
    {"m\n", "line 2 (byte 13): too little: m is followed by BLOCK BYTES STREAM"},
    {"m 1 2 3 4\n", "line 2 (byte 13): '4' is too much: m is followed by BLOCK BYTES STREAM"},
    {"p 1 2\n", "line 2 (byte 13): too little: p is followed by BLOCK BYTES STREAM"},
    {"f\n", "line 2 (byte 13): too little: f is followed by BLOCK, and at most one of STREAM, * and @EVENT"},
    {"m 1 1 0\nf 1 0 0\n",
     "line 3 (byte 21): '0' is too much: f is followed by BLOCK, and at most one of STREAM, * and @EVENT"},
    {"m 1 1 0\nf 1 @\n",
     "line 3 (byte 21): too little: f is followed by BLOCK, and at most one of STREAM, * and @EVENT"},
    {"m 1 1 0\nf 1 **\n",
     "line 3 (byte 21): '**' is no number: f is followed by BLOCK, and at most one of STREAM, * and @EVENT"},
    {"a 1\n", "line 2 (byte 13): too little: a is followed by BLOCK ALIGNMENT"},
    {"u 1\n", "line 2 (byte 13): too little: u is followed by BLOCK STREAM"},
    {"k 1\n", "line 2 (byte 13): too little: k is followed by STREAM MICROSECONDS"},
    {"k 1 2 3\n", "line 2 (byte 13): '3' is too much: k is followed by STREAM MICROSECONDS"},
    {"e 1\n", "line 2 (byte 13): too little: e is followed by EVENT STREAM"},
    {"w 1\n", "line 2 (byte 13): too little: w is followed by EVENT STREAM"},
    {"h\n", "line 2 (byte 13): too little: h is followed by EVENT"},
    {"s\n", "line 2 (byte 13): too little: s is followed by STREAM"},
    {"x 1 1\n", "line 2 (byte 13): '1' is too much: x is followed by STREAM"},
    {"y\n", "line 2 (byte 13): too little: y is followed by EVENT"},
    {"d 0\n", "line 2 (byte 13): '0' is too much: d is followed by nothing"},
    {"i 1\n", "line 2 (byte 13): '1' is too much: i is followed by nothing"},
    {"m -1 1 0\n", "line 2 (byte 13): '-1' is no number: m is followed by BLOCK BYTES STREAM"},
    {"m 1 1k 0\n", "line 2 (byte 13): '1k' is no number: m is followed by BLOCK BYTES STREAM"},
    {"m 0x1 1 0\n", "line 2 (byte 13): '0x1' is no number: m is followed by BLOCK BYTES STREAM"},
    {"m 18446744073709551616 1 0\n", "line 2 (byte 13): 18446744073709551616 is more than the limit of 2^64 - 1"},
    {"m 1 1 99999999999999999999999999999999999999999999999999999999\n",
     "line 2 (byte 13): 9999999999999999999999999999999999999999... is more than the limit of 2^64 - 1"},
    {"k 0 1.25\n", "line 2 (byte 13): '1.25' is no time in microseconds with at most one decimal"},
    {"k 0 1.\n", "line 2 (byte 13): '1.' is no time in microseconds with at most one decimal"},
    {"k 0 1.x\n", "line 2 (byte 13): '1.x' is no time in microseconds with at most one decimal"},
    {"k 0 .5\n", "line 2 (byte 13): '.5' is no time in microseconds with at most one decimal"},
    {"k 0 1.2.3\n", "line 2 (byte 13): '1.2.3' is no time in microseconds with at most one decimal"},
    {"k 0 1,5\n", "line 2 (byte 13): '1,5' is no number: k is followed by STREAM MICROSECONDS"},
    {"k 0 -1\n", "line 2 (byte 13): '-1' is no number: k is followed by STREAM MICROSECONDS"},
    {"k 0 nan\n", "line 2 (byte 13): 'nan' is no number: k is followed by STREAM MICROSECONDS"},
    /* what it says */
    {"k 0 1000000000000.1\n", "line 2 (byte 13): 1000000000000.1 microseconds are more than the limit of 10^12"},
    {"k 0 18446744073709551615\n",
     "line 2 (byte 13): 18446744073709551615 microseconds are more than the limit of 10^12"},
    {"m 1 1152921504606846976 0\n",
     "line 2 (byte 13): 1152921504606846976 bytes beside 0 live ones are more than the limit of 2^50"},
    {"m 1 18446744073709551615 0\n",
     "line 2 (byte 13): 18446744073709551615 bytes beside 0 live ones are more than the limit of 2^50"},
    {"m 1 1125899906842624 0\nm 2 1 0\n",
     "line 3 (byte 36): 1 bytes beside 1125899906842624 live ones are more than the limit of 2^50"},
    {"m 1 1 0\nm 1 1 0\n", "line 3 (byte 21): block 1 is allocated a second time; each has an id of its own"},
    {"m 1 1 0\nf 1\np 1 1 0\n", "line 4 (byte 25): block 1 is allocated a second time; each has an id of its own"},
    {"f 7\n", "line 2 (byte 13): block 7 was never allocated"},
    {"u 7 0\n", "line 2 (byte 13): block 7 was never allocated"},
    {"a 7 8\n", "line 2 (byte 13): block 7 was never allocated"},
    {"m 1 1 0\nf 1\nf 1\n", "line 4 (byte 25): block 1 was freed before"},
    {"m 1 1 0\nf 1\nf 1 *\n", "line 4 (byte 25): block 1 was freed before"},
    {"m 1 1 0\nf 1\nu 1 0\n", "line 4 (byte 25): block 1 was freed before"},
    {"m 1 1 0\nf 1\na 1 8\n", "line 4 (byte 25): block 1 was freed before"},
    {"m 1 1 0\na 1 0\n", "line 3 (byte 21): an alignment of 0 is no power of two from 1 to 2^30"},
    {"m 1 1 0\na 1 24\n", "line 3 (byte 21): an alignment of 24 is no power of two from 1 to 2^30"},
    {"m 1 1 0\na 1 2147483648\n", "line 3 (byte 21): an alignment of 2147483648 is no power of two from 1 to 2^30"},
    {"w 3 0\n", "line 2 (byte 13): event 3 was never recorded, or destroyed since"},
    {"h 3\n", "line 2 (byte 13): event 3 was never recorded, or destroyed since"},
    {"y 3\n", "line 2 (byte 13): event 3 was never recorded, or destroyed since"},
    {"m 1 1 0\nf 1 @3\n", "line 3 (byte 21): event 3 was never recorded, or destroyed since"},
    {"e 3 0\ny 3\nw 3 0\n", "line 4 (byte 23): event 3 was never recorded, or destroyed since"},
    {"e 3 0\ny 3\ny 3\n", "line 4 (byte 23): event 3 was never recorded, or destroyed since"},
    {"e 99999999999999 0\ny 99999999999999\nh 99999999999999\n",
     "line 4 (byte 49): event 99999999999999 was never recorded, or destroyed since"},
    /* how the file ends */
    {"m 1 1 0", "line 2 (byte 13): the file ends in the middle of the line"},
    {"i\n# comment", "line 3 (byte 15): the file ends in the middle of the line"},
};

static void assert_refused(const char *why, const char *sentence) {
    char expected[400];
    snprintf(expected, sizeof expected, "t: %s", sentence);
    if (why == NULL) fail_msg("accepted; expected \"%s\"", expected);
    assert_string_equal(why, expected);
}

static void each_refusal_has_its_sentence(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(refusals); i++) {
        struct trace trace;
        assert_refused(read_lines(refusals[i].lines, strlen(refusals[i].lines), &trace), refusals[i].sentence);
        assert_null(trace.ops);
        assert_null(trace.stream_names);
    }
}

static void what_is_no_trace_is_refused_at_its_first_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "line 1 (byte 0): the file is empty"},
        {"weir-tra", "line 1 (byte 0): the file ends in the middle of the line"},
        {"weir-trace 1", "line 1 (byte 0): the file ends in the middle of the line"},
        {"weir-trace 2\nq\n", "line 1 (byte 0): version '2' of the format is not known; 1 is"},
        {"weir-trace 1.5\n", "line 1 (byte 0): version '1.5' of the format is not known; 1 is"},
        {"weir-trace 11\n", "line 1 (byte 0): version '11' of the format is not known; 1 is"},
        {"weir-trace\n", "line 1 (byte 0): 'weir-trace' is not 'weir-trace 1', so this is no trace: of other logs "
                         "weir-trace convert makes one"},
        {"\nweir-trace 1\n",
         "line 1 (byte 0): '' is not 'weir-trace 1', so this is no trace: of other logs weir-trace convert makes one"},
        {"op,id,size\n1,2,3\n", "line 1 (byte 0): 'op,id,size' is not 'weir-trace 1', so this is no trace: of other "
                                "logs weir-trace convert makes one"},
        {"\x7f\x02\xff", "line 1 (byte 0): '?\?\?' is not 'weir-trace 1', so this is no trace: of other logs "
                         "weir-trace convert makes one"},
    };
    struct trace trace;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(read_bytes(cases[i].text, strlen(cases[i].text), &trace), cases[i].sentence);
    assert_refused(read_bytes("\0weir-trace 1\n", 14, &trace),
                   "line 1 (byte 0): it begins with a zero byte, so this is no trace");
    assert_refused(read_bytes("weir-\0trace 1\n", 14, &trace),
                   "line 1 (byte 0): 'weir-' is not 'weir-trace 1', so this is no trace: of other logs weir-trace "
                   "convert makes one");
}

static void a_line_that_does_not_end_is_refused(void **state) {
    (void)state;
    static char lines[1 << 20];
    memset(lines, '1', sizeof lines);
    memcpy(lines, "m ", 2);
    struct trace trace;
    assert_refused(read_lines(lines, sizeof lines, &trace),
                   "line 2 (byte 13): the line is longer than the limit of 4096 bytes");
}

static void the_place_is_right_far_into_a_text(void **state) {
    (void)state;
    enum { LINES = 300000 };
    char *lines = malloc(LINES * 2 + 4);
    assert_non_null(lines);
    for (size_t i = 0; i < LINES; i++) memcpy(lines + i * 2, "i\n", 2);
    memcpy(lines + LINES * 2, "f 7\n", 4);
    struct trace trace;
    assert_refused(read_lines(lines, LINES * 2 + 4, &trace), "line 300002 (byte 600013): block 7 was never allocated");
    free(lines);
}

static void more_streams_than_the_limit_are_refused_and_named_ones_forgotten(void **state) {
    (void)state;
    static char lines[80000];
    size_t length = 0;
    for (int i = 0; i < TRACE_MOST_STREAMS; i++)
        length += (size_t)snprintf(lines + length, sizeof lines - length, "s %d\nx %d\n", i % 100, i % 100);
    length += (size_t)snprintf(lines + length, sizeof lines - length, "# stream 7 too many\n");
    struct trace trace;
    assert_null(read_lines(lines, length, &trace));
    assert_int_equal(trace.stream_count, TRACE_MOST_STREAMS);
    trace_free(&trace);
    length += (size_t)snprintf(lines + length, sizeof lines - length, "s 2147483648\n");
    const char *why = read_lines(lines, length, &trace);
    assert_non_null(why);
    assert_non_null(strstr(why, ": stream 2147483648 is one more than the limit of 4096 streams"));
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void assert_file_refused(const char *path, const char *reason) {
    struct trace trace;
    char why[600], expected[600];
    assert_false(trace_read(path, &trace, why, sizeof why));
    snprintf(expected, sizeof expected, "%s: %s", path, reason);
    assert_string_equal(why, expected);
}

static void files_that_can_not_be_read_are_refused(void **state) {
    (void)state;
    const char *empty = in_folder("empty"), *closed = in_folder("closed"), *fifo = in_folder("fifo");
    put_file(empty, "", 0);
    put_file(closed, "weir-trace 1\n", 13);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_file_refused(in_folder("none"), "No such file or directory");
    assert_file_refused("/tmp", "it is a folder");
    assert_file_refused(empty, "line 1 (byte 0): the file is empty");
    assert_file_refused(fifo, "line 1 (byte 0): the file is empty");
    assert_file_refused("/dev/zero", "line 1 (byte 0): it begins with a zero byte, so this is no trace");
    if (geteuid() == 0) {
        print_message("root may read everything: not tried without permission\n");
        return;
    }
    assert_int_equal(chmod(closed, 0), 0);
    assert_file_refused(closed, "Permission denied");
}

static void a_sentence_fits_the_room_there_is(void **state) {
    (void)state;
    struct trace trace;
    char why[12];
    assert_false(trace_read("/dev/zero", &trace, why, sizeof why));
    assert_string_equal(why, "/dev/zero: ");
    assert_false(trace_read(in_folder("none"), &trace, why, 1));
    assert_string_equal(why, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_has_its_sentence),
        cmocka_unit_test(what_is_no_trace_is_refused_at_its_first_line),
        cmocka_unit_test(a_line_that_does_not_end_is_refused),
        cmocka_unit_test(the_place_is_right_far_into_a_text),
        cmocka_unit_test(more_streams_than_the_limit_are_refused_and_named_ones_forgotten),
        cmocka_unit_test(files_that_can_not_be_read_are_refused),
        cmocka_unit_test(a_sentence_fits_the_room_there_is),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
