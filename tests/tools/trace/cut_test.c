/* SPDX-License-Identifier: Apache-2.0 */
/* What was compressed, cut short, damaged, or left by a killed recording: read as it is meant, or refused with a
 * sentence. */
#include "fixture.h"

#include "tools/trace/input.h"
#include "tools/trace/output.h"

static const char text[] =
    "weir-trace 1\n# stream 0 compute\nm 1 512 0\nm 2 100 1\na 2 64\nk 0 3.5\ne 4 0\nw 4 1\nu 1 1\n"
    "f 1 @4\ni\nf 2 *\nd\n";
enum { TEXT_BYTES = sizeof text - 1, TEXT_OPS = 10 };

/* The bytes of a file that ends as `ending` says; to be freed. */
static char *compressed(const char *ending, const void *bytes, size_t count, size_t *size) {
    char why[300], name[40];
    snprintf(name, sizeof name, "compressed%s", ending);
    const char *path = in_folder(name);
    struct output *output = output_open(path, why, sizeof why);
    if (output == NULL) fail_msg("%s", why);
    output_put(output, bytes, count);
    if (!output_close(output, false, why, sizeof why)) fail_msg("%s", why);
    return get_file(path, size);
}

static const char *const endings[] = {".gz", ".zst"};
static const char *const names[] = {"gzip", "zstd"};
static const size_t magic_bytes[] = {2, 4};

/* ---- compression ------------------------------------------------------------------------------------------------ */

static void compression_is_known_by_content_whatever_the_name(void **state) {
    (void)state;
    static const char *const paths[] = {"a.trace", "b", "c.gz", "d.zst", "e.txt"};
    for (size_t kind = 0; kind < 3; kind++) {
        size_t size;
        char *bytes = compressed(kind < 2 ? endings[kind] : "", text, TEXT_BYTES, &size);
        assert_int_equal(memcmp(bytes, "weir-trace", 10) == 0, kind == 2);
        for (size_t i = 0; i < COUNT(paths); i++) {
            struct trace trace;
            char why[300];
            put_file(in_folder(paths[i]), bytes, size);
            if (!trace_read(in_folder(paths[i]), &trace, why, sizeof why)) fail_msg("%s", why);
            assert_int_equal(trace.op_count, TEXT_OPS);
            trace_free(&trace);
        }
        free(bytes);
    }
}

static void members_and_frames_may_follow_each_other(void **state) {
    (void)state;
    for (size_t kind = 0; kind < 2; kind++)
        for (size_t cut = 0; cut <= TEXT_BYTES; cut += 13) {
            size_t first_size, second_size;
            char *first = compressed(endings[kind], text, cut, &first_size);
            char *second = compressed(endings[kind], text + cut, TEXT_BYTES - cut, &second_size);
            first = realloc(first, first_size + second_size);
            assert_non_null(first);
            memcpy(first + first_size, second, second_size);
            struct trace trace;
            const char *why = read_bytes(first, first_size + second_size, &trace);
            if (why != NULL) fail_msg("%s", why);
            assert_int_equal(trace.op_count, TEXT_OPS);
            trace_free(&trace);
            free(first);
            free(second);
        }
}

static void what_follows_the_compressed_data_and_is_none_is_refused(void **state) {
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        size_t size;
        char *bytes = compressed(endings[kind], text, TEXT_BYTES, &size), expected[200];
        bytes = realloc(bytes, size + 8);
        assert_non_null(bytes);
        memcpy(bytes + size, "m 3 1 0\n", 8);
        struct trace trace;
        const char *why = read_bytes(bytes, size + 8, &trace);
        assert_non_null(why);
        snprintf(expected, sizeof expected, " of the file is no %s data", names[kind]);
        if (strstr(why, expected) == NULL) fail_msg("%s", why);
        free(bytes);
    }
}

/* A text of which a few bytes of the file make as much as one likes is read up to the limit. */
static void a_text_beyond_the_limit_is_refused(void **state) {
    (void)state;
    enum { BOMB_BYTES = 4 << 20, LIMIT = 1 << 20 };
    char *bomb = malloc(BOMB_BYTES);
    assert_non_null(bomb);
    memset(bomb, '\n', BOMB_BYTES);
    memcpy(bomb, text, TEXT_BYTES);
    for (size_t kind = 0; kind < 3; kind++) {
        size_t size;
        char *bytes = compressed(kind < 2 ? endings[kind] : "", bomb, BOMB_BYTES, &size), why[300];
        assert_true(kind == 2 || size < 10000);
        struct input *input = input_open_bytes(bytes, size, why, sizeof why);
        assert_non_null(input);
        input_limit(input, LIMIT);
        struct trace trace;
        assert_false(trace_read_input(input, "t", &trace, why, sizeof why));
        assert_non_null(strstr(why, "the text is longer than the limit of 1048576 bytes"));
        input_close(input);
        assert_null(read_bytes(bytes, size, &trace));
        trace_free(&trace);
        free(bytes);
    }
    free(bomb);
}

/* Nor one of which a byte of the file makes too many, however long the file; a text that is short may. */
static void a_text_that_is_blown_up_is_refused(void **state) {
    (void)state;
    enum { BOMB_BYTES = 66 << 20, SHORT_BYTES = 60 << 20 };
    char *bomb = malloc(BOMB_BYTES);
    assert_non_null(bomb);
    memset(bomb, '\n', BOMB_BYTES);
    memcpy(bomb, text, TEXT_BYTES);
    size_t size;
    char *bytes = compressed(".zst", bomb, BOMB_BYTES, &size);
    struct trace trace;
    const char *why = read_bytes(bytes, size, &trace);
    assert_non_null(why);
    assert_non_null(strstr(why, "more than 1000 from one"));
    free(bytes);
    bytes = compressed(".zst", bomb, SHORT_BYTES, &size);
    assert_true(size < SHORT_BYTES / 1000);
    assert_null(read_bytes(bytes, size, &trace));
    trace_free(&trace);
    free(bytes);
    free(bomb);
}

/* ---- cut short -------------------------------------------------------------------------------------------------- */

static const char *read_prefix(const char *bytes, size_t length, struct trace *trace) {
    char *exact = malloc(length > 0 ? length : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, length);
    const char *why = read_bytes(exact, length, trace);
    free(exact);
    return why;
}

static void a_copy_cut_within_a_line_is_refused_and_one_cut_behind_a_line_is_read(void **state) {
    (void)state;
    for (size_t length = 0; length <= TEXT_BYTES; length++) {
        struct trace trace;
        const char *why = read_prefix(text, length, &trace);
        const bool whole = length > 0 && text[length - 1] == '\n';
        if (whole != (why == NULL)) fail_msg("%zu bytes: %s", length, why != NULL ? why : "read");
        if (whole) trace_free(&trace);
        if (!whole && length > 0) assert_non_null(strstr(why, "the file ends in the middle of the line"));
    }
}

static void a_compressed_copy_that_is_cut_anywhere_is_refused_with_the_place(void **state) {
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        size_t size;
        char *bytes = compressed(endings[kind], text, TEXT_BYTES, &size);
        for (size_t length = magic_bytes[kind]; length < size; length++) {
            struct trace trace;
            char expected[200];
            const char *why = read_prefix(bytes, length, &trace);
            if (why == NULL) fail_msg("%s: %zu of %zu bytes are read", names[kind], length, size);
            snprintf(expected, sizeof expected, "the file ends in the middle of its %s data, at byte %zu of the file",
                     names[kind], length);
            if (strstr(why, expected) == NULL) fail_msg("%zu bytes: %s", length, why);
            assert_memory_equal(why, "t: line ", 8);
        }
        free(bytes);
    }
}

/* Every bit of the compressed forms turned: what is still read is the same trace (there are bits without meaning). */
static void a_damaged_copy_is_refused(void **state) {
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        size_t size, read = 0;
        char *bytes = compressed(endings[kind], text, TEXT_BYTES, &size);
        for (size_t bit = magic_bytes[kind] * 8; bit < size * 8; bit++) {
            struct trace trace;
            bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
            const char *why = read_prefix(bytes, size, &trace);
            bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
            if (why != NULL) continue;
            read++;
            assert_int_equal(trace.op_count, TEXT_OPS);
            trace_free(&trace);
        }
        assert_true(read < 100);
        free(bytes);
    }
}

/* ---- killed recordings ------------------------------------------------------------------------------------------ */

/* A literal with zero bytes and its length. */
#define LINES(literal) literal, sizeof(literal) - 1

static const struct {
    const char *lines;
    size_t length, ops, torn;
} recordings[] = {
    {LINES("m 1 512 0\n\0\0\0\0\0\0"), 1, 0},                     /* zero bytes at the end */
    {LINES("m 1 512 0\n\0\0\0\0f 1\n"), 2, 0},                    /* a line that was not begun */
    {LINES("m 1 512 0\n\0 2 512 0\nf 1\n"), 2, 1},                /* all but the first byte */
    {LINES("m 1 512 0\n\0 2 5\0\0\0\0f 1\n"), 2, 1},              /* a part of it, and no end */
    {LINES("m 1 512 0\n\0 2 5\0\0\0\nf 1\n"), 2, 1},              /* a part of it, and its end */
    {LINES("m 1 512 0\n\0 2 \0\0 0\nf 1\n"), 2, 1},               /* two parts of one line */
    {LINES("m 1 512 0\n\0 2 \0\0 5\0\0\0 0\nf 1\n"), 2, 1},       /* three */
    {LINES("m 1 512 0\n\0 2 5\0\0f 1\n\0 3\n"), 2, 2},            /* one, a whole line, and another */
    {LINES("m 1 512 0\n\0\0\0\nf 1\n"), 2, 1},                    /* its end alone */
    {LINES("m 1 512 0\n\0\nf 1\n"), 2, 1},                        /* of a line of one letter */
    {LINES("\0\0\0\n\0\0 1 1 \n\0\0\0\0i\n\0 1\0\0\0d\n"), 2, 3}, /* several */
    {LINES("m 1 512 0\n\0 2 512 0"), 1, 1},                       /* the file ends in it */
    {LINES("m 1 512 0\n\0 2 512 0\0\0"), 1, 1},                   /* it is the last one */
    {LINES("m 1 512 0\nf 1\0\0\0\0\0\0"), 1, 1},                  /* begun and not ended, and nothing behind it */
    {LINES("m 1 512 0\n\0# at 1 0\n\0\0 at 1 0\n"), 1, 1},        /* comments too */
};

static void a_killed_recording_is_read_without_its_unfinished_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(recordings); i++) {
        struct trace trace;
        const char *why = read_lines(recordings[i].lines, recordings[i].length, &trace);
        if (why != NULL) fail_msg("recording %zu: %s", i, why);
        if (trace.op_count != recordings[i].ops || trace.torn_lines != recordings[i].torn)
            fail_msg("recording %zu: %zu operations, %zu torn lines", i, trace.op_count, trace.torn_lines);
        trace_free(&trace);
    }
}

static void a_long_row_of_zero_bytes_is_nothing(void **state) {
    (void)state;
    enum { ZEROS = 5 << 20 };
    char *lines = calloc(1, ZEROS + 20);
    assert_non_null(lines);
    memcpy(lines, "m 1 1 0\n", 8);
    memcpy(lines + ZEROS, "f 1\n", 4);
    struct trace trace;
    assert_null(read_lines(lines, ZEROS + 20, &trace));
    assert_int_equal(trace.op_count, 2);
    assert_int_equal(trace.ops[1].line, 3);
    assert_int_equal(trace.torn_lines, 0);
    trace_free(&trace);
    free(lines);
}

static void zero_bytes_elsewhere_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *lines;
        size_t length;
        const char *sentence;
    } cases[] = {
        {LINES("m 1 \0"
               "512 0\n"),
         "t: line 2 (byte 13): there are zero bytes inside the line"},
        {LINES("m 1 5\0\0\0m 2 1 0\n"), "t: line 2 (byte 13): there are zero bytes inside the line"},
        {LINES("d\n# a\0comment\n"), "t: line 3 (byte 15): there are zero bytes inside the line"},
        {LINES("d\n\0\0f 7\n"), "t: line 3 (byte 17): block 7 was never allocated"},    /* it is whole, and wrong */
        {LINES("\0 1\n\0\0f 7\n"), "t: line 3 (byte 19): block 7 was never allocated"}, /* behind a torn one too */
        {LINES("\0 1 1\0\0d\nm 1 1 0"), "t: line 3 (byte 22): the file ends in the middle of the line"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trace trace;
        const char *why = read_lines(cases[i].lines, cases[i].length, &trace);
        assert_non_null(why);
        assert_string_equal(why, cases[i].sentence);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compression_is_known_by_content_whatever_the_name),
        cmocka_unit_test(members_and_frames_may_follow_each_other),
        cmocka_unit_test(what_follows_the_compressed_data_and_is_none_is_refused),
        cmocka_unit_test(a_text_beyond_the_limit_is_refused),
        cmocka_unit_test(a_text_that_is_blown_up_is_refused),
        cmocka_unit_test(a_copy_cut_within_a_line_is_refused_and_one_cut_behind_a_line_is_read),
        cmocka_unit_test(a_compressed_copy_that_is_cut_anywhere_is_refused_with_the_place),
        cmocka_unit_test(a_damaged_copy_is_refused),
        cmocka_unit_test(a_killed_recording_is_read_without_its_unfinished_lines),
        cmocka_unit_test(a_long_row_of_zero_bytes_is_nothing),
        cmocka_unit_test(zero_bytes_elsewhere_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
