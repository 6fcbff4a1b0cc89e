/* SPDX-License-Identifier: Apache-2.0 */
/* The run as text: the chart is as high as what it shows, nothing is wider than asked for or of characters that were not
 * asked for, and what a trace says is no terminal's command. */
#include "page_read.h"
#include "support.h"

/* As the run wrote it; to be freed. */
static char *text_of(struct setup *setup, struct timeline_look look, struct outcome *outcome) {
    FILE *file = tmpfile();
    assert_non_null(file);
    setup->timeline_text = file;
    setup->timeline_look = look;
    *outcome = run_one(setup);
    const long length = ftell(file); /* the child's end of the file is ours as well */
    assert_true(length > 0);
    char *text = calloc(1, (size_t)length + 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)length, file), length);
    fclose(file);
    return text;
}

static char *text_of_lines(const char *lines, size_t bytes, struct timeline_look look) {
    struct trace trace = trace_of(lines);
    struct setup setup = setup_of(&trace, TARGET_POOL, bytes / PAGE);
    struct outcome outcome;
    setup.trace_name = "/tmp/run.trace";
    char *text = text_of(&setup, look, &outcome);
    trace_free(&trace);
    return text;
}

static void assert_says(const char *text, const char *words) {
    if (strstr(text, words) == NULL) fail_msg("\"%s\" is not in:\n%s", words, text);
}

static size_t count_of(const char *text, const char *words) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at += strlen(words)) count++;
    return count;
}

/* In characters; what is no UTF-8 counts by bytes. */
static size_t widest_line(const char *text) {
    size_t widest = 0, line = 0;
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            line = 0;
        else if (((unsigned char)*text & 0xc0) != 0x80 && ++line > widest)
            widest = line;
    }
    return widest;
}

static bool is_ascii(const char *text) {
    for (; *text != '\0'; text++)
        if (*text != '\n' && (*text < ' ' || *text > '~')) return false;
    return true;
}

static const char step[] = "# stream 0 compute\n# stream 5 gather\n"
                           "i\nm 1 8388608 0\nm 2 4194304 5\nk 5 400\ne 1 5\nw 1 0\nk 0 1000\nf 1\nf 2\n"
                           "i\nm 3 8388608 0\nk 0 1000\nf 3\ns 0\ni\n";

static void the_text_says_what_was_the_most(void **state) {
    (void)state;
    char *text = text_of_lines(step, 64 * MIB, (struct timeline_look){.width = 80});
    assert_says(text, "run.trace: completed with weir, policy latency\n");
    assert_says(text, "# live        12.00 MiB at the most");
    assert_says(text, "+ idle  ");
    assert_says(text, "= stranded          0 B\n");
    assert_says(text, ". held  ");
    assert_says(text, "- capacity    64.00 MiB\n");
    assert_says(text, "compute  ");
    assert_says(text, "gather  ");
    assert_says(text, "host waits  ");
    assert_says(text, "iterations  ");
    free(text);
}

/* A third of the device: of 16 lines 5 and a third. */
static void the_chart_is_as_high_as_what_is_live(void **state) {
    (void)state;
    static const char *const ten = "##########", *const low = "__________", *const capacity = "----------";
    char *text = text_of_lines("m 1 20971520 0\nk 0 100000\ns 0\n", 60 * MIB, (struct timeline_look){.width = 36});
    char *below = strstr(text, "\n            0 ");
    assert_non_null(below);
    *below = '\0';
    assert_int_equal(count_of(text, ten), 5);
    assert_int_equal(count_of(text, low), 1);
    assert_int_equal(count_of(text, capacity), 1);
    free(text);
}

/* A stream that works half of the time, in the middle. */
static void a_row_is_as_full_as_the_stream_is_busy(void **state) {
    (void)state;
    char *text = text_of_lines("# stream 1 side\nm 1 2097152 0\nk 0 100000\ne 1 0\nw 1 1\nk 1 200000\ne 2 1\nw 2 0\n"
                               "k 0 100000\ns 0\n",
                               64 * MIB, (struct timeline_look){.width = 80});
    const char *row = strstr(text, "side  ");
    assert_non_null(row);
    char line[81] = "";
    memcpy(line, row, strcspn(row, "\n"));
    assert_in_range(count_of(line, "#"), 27, 29); /* of 56 */
    assert_says(line, " 50 %");
    free(text);
}

/* Two streams that take turns, many in a character's time: each is half busy. */
static void work_that_is_shorter_than_a_character_fills_its_part(void **state) {
    (void)state;
    char lines[40000] = "# stream 1 side\nm 1 2097152 0\n", row[81] = "";
    for (unsigned i = 0; i < 500; i++) strcat(lines, "k 0 1000\ne 1 0\nw 1 1\nk 1 1000\ne 2 1\nw 2 0\n");
    strcat(lines, "s 0\n");
    char *text = text_of_lines(lines, 64 * MIB, (struct timeline_look){.width = 80});
    const char *side = strstr(text, "side  ");
    assert_non_null(side);
    memcpy(row, side, strcspn(side, "\n"));
    assert_in_range(count_of(row, "="), 50, 56);
    assert_int_equal(count_of(row, "#"), 0);
    free(text);
}

static void nothing_is_wider_or_of_other_characters_than_asked_for(void **state) {
    (void)state;
    static const unsigned widths[] = {40, 61, 80, 133, 400};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char *ascii = text_of_lines(step, 64 * MIB, (struct timeline_look){.width = widths[i]});
        char *utf8 = text_of_lines(step, 64 * MIB, (struct timeline_look){.width = widths[i], .utf8 = true});
        char *end = strstr(ascii, "\n\n# live"); /* words are as long as they are */
        assert_non_null(end);
        *end = '\0';
        const char *chart = strstr(ascii, "\n\n");
        assert_non_null(chart);
        assert_int_equal(widest_line(chart), widths[i]);
        assert_true(is_ascii(ascii));
        assert_non_null(strstr(utf8, "\u2588"));
        assert_null(strchr(utf8, '\033'));
        assert_null(strchr(utf8, '#'));
        free(ascii);
        free(utf8);
    }
}

static void colours_come_where_asked_for_and_change_nothing_else(void **state) {
    (void)state;
    char *plain = text_of_lines(step, 64 * MIB, (struct timeline_look){.width = 80});
    char *coloured = text_of_lines(step, 64 * MIB, (struct timeline_look){.width = 80, .colour = true});
    assert_non_null(strstr(coloured, "\033[34m"));
    char *to = coloured;
    for (const char *from = coloured; *from != '\0'; from++) {
        if (*from == '\033')
            from = strchr(from, 'm');
        else
            *to++ = *from;
    }
    *to = '\0';
    assert_string_equal(coloured, plain);
    free(plain);
    free(coloured);
}

static void names_are_no_commands_of_a_terminal(void **state) {
    (void)state;
    struct trace trace = trace_of("# stream 0 b\377\nm 1 2097152 0\nk 0 10\ns 0\n");
    struct setup setup = setup_of(&trace, TARGET_POOL, 64 * MIB / PAGE);
    struct outcome outcome;
    setup.trace_name = "/tmp/a\033[2Jb";
    char *text = text_of(&setup, (struct timeline_look){.width = 80}, &outcome);
    assert_true(is_ascii(text));
    assert_says(text, "a?[2Jb: completed");
    assert_says(text, " b?  ");
    free(text);
    trace_free(&trace);
}

static void a_run_that_ends_says_so(void **state) {
    (void)state;
    char *text =
        text_of_lines("m 1 33554432 0\nk 0 50\nm 2 67108864 0\n", 64 * MIB, (struct timeline_look){.width = 80});
    assert_says(text, "run.trace: out of memory at line 4 with weir, policy latency\n");
    free(text);
}

/* Side's 40 MiB are idle when another stream is short of memory. */
/* As handles of one program do. */
static void names_that_differ_at_their_ends_are_told_apart(void **state) {
    (void)state;
    char *text = text_of_lines("m 1 1048576 94102875814480\nm 2 1048576 94102875814672\nk 94102875814480 50\n"
                               "k 94102875814672 50\n",
                               64 * MIB, (struct timeline_look){.width = 80});
    assert_says(text, "\nstream ~75814480 ");
    assert_says(text, "\nstream ~75814672 ");
    free(text);
}

static void what_was_stranded_is_said_with_who_asked(void **state) {
    (void)state;
    struct trace trace =
        trace_of("# stream 0 main\n# stream 9 side\nm 1 41943040 9\nk 9 100\nf 1\nm 2 33554432 0\nk 0 100\n");
    struct setup setup = setup_of(&trace, TARGET_POOL, 64 * MIB / PAGE);
    struct outcome outcome;
    setup.policy = "per-stream";
    char *text = text_of(&setup, (struct timeline_look){.width = 80}, &outcome);
    assert_says(text, "= stranded    40.00 MiB at the most");
    assert_says(text, ", asked on main\n");
    assert_says(text, "40.00 MiB at the most, at ");
    assert_says(text, "        stranded  ");
    free(text);
    trace_free(&trace);
}

static void page_and_text_come_of_one_run(void **state) {
    (void)state;
    char path[] = "/tmp/weir_timeline_text_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    struct trace trace = trace_of(step);
    struct setup setup = setup_of(&trace, TARGET_POOL, 64 * MIB / PAGE);
    struct outcome outcome;
    setup.timeline_path = path;
    char *text = text_of(&setup, (struct timeline_look){.width = 80}, &outcome);
    assert_completed(&outcome);
    struct page page = page_read(path);
    assert_int_equal(page_most_live(&page), 12 * MIB);
    assert_says(text, "# live        12.00 MiB at the most");
    page_free(&page);
    free(text);
    unlink(path);
    trace_free(&trace);
}

static void every_target_has_a_text(void **state) {
    (void)state;
    const enum target_kind kinds[] = {TARGET_POOL, TARGET_FREE, TARGET_FLUID};
    struct trace trace = trace_of(step);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct setup setup = setup_of(&trace, kinds[i], 64 * MIB / PAGE);
        struct outcome outcome;
        char *text = text_of(&setup, (struct timeline_look){.width = 80}, &outcome);
        assert_completed(&outcome);
        assert_says(text, "# live        12.00 MiB at the most");
        free(text);
    }
    trace_free(&trace);
}

/* Nothing happens in it. */
static void a_run_of_nothing_has_a_text(void **state) {
    (void)state;
    char *text = text_of_lines("# stream 0 a\n", 64 * MIB, (struct timeline_look){.width = 80});
    assert_says(text, "# live              0 B\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_says_what_was_the_most),
        cmocka_unit_test(the_chart_is_as_high_as_what_is_live),
        cmocka_unit_test(a_row_is_as_full_as_the_stream_is_busy),
        cmocka_unit_test(work_that_is_shorter_than_a_character_fills_its_part),
        cmocka_unit_test(nothing_is_wider_or_of_other_characters_than_asked_for),
        cmocka_unit_test(colours_come_where_asked_for_and_change_nothing_else),
        cmocka_unit_test(names_are_no_commands_of_a_terminal),
        cmocka_unit_test(a_run_that_ends_says_so),
        cmocka_unit_test(names_that_differ_at_their_ends_are_told_apart),
        cmocka_unit_test(what_was_stranded_is_said_with_who_asked),
        cmocka_unit_test(page_and_text_come_of_one_run),
        cmocka_unit_test(every_target_has_a_text),
        cmocka_unit_test(a_run_of_nothing_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
