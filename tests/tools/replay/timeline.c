/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a run: what it shows is what happened, it stays small whatever the trace's length, what a trace says
 * can't break it, and drawing it changes nothing. */
#include <signal.h>
#include <sys/resource.h>

#include "page_read.h"
#include "support.h"

static char page_path[] = "/tmp/weir_timeline_test_XXXXXX";

static int make_place(void **state) {
    (void)state;
    const int file = mkstemp(page_path);
    if (file < 0) return -1;
    return close(file);
}

static int remove_place(void **state) {
    (void)state;
    return unlink(page_path) == 0 || access(page_path, F_OK) != 0 ? 0 : -1;
}

/* A run that is drawn. */
static struct setup setup_drawn(const struct trace *trace, size_t bytes) {
    struct setup setup = setup_of(trace, TARGET_POOL, bytes / PAGE);
    setup.timeline_path = page_path;
    return setup;
}

/* ---- what it shows ---------------------------------------------------------------------------------------------- */

static const char step[] = "# stream 0 compute\n# stream 5 gather\n"
                           "i\nm 1 8388608 0\nm 2 4194304 5\nk 5 400\ne 1 5\nw 1 0\nk 0 1000\nf 1\nf 2\n"
                           "i\nm 3 8388608 0\nk 0 1000\nf 3\ns 0\ni\n";

static void the_page_holds_what_happened(void **state) {
    (void)state;
    struct trace trace = trace_of(step);
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    const struct outcome *outcome = run_it(&setup);
    assert_completed(outcome);
    struct page page = page_read(page_path);
    int64_t most_held = 0;
    for (size_t i = 0; i < page.sample_count; i++)
        if (page.samples[i].held > most_held) most_held = page.samples[i].held;
    assert_int_equal(page_number(page.data, "capacity_bytes"), 64 * MIB);
    assert_int_equal(page_number(page.data, "end_ns"), outcome->run_ns);
    assert_int_equal(page_most_live(&page), 12 * MIB);
    assert_int_equal(page.samples[page.sample_count - 1].live, 0);
    assert_int_equal(most_held, outcome->peak_held_bytes);
    assert_int_equal(json_array_size(json_object_get(page.data, "iterations")), 3);
    page_free(&page);
    trace_free(&trace);
}

/* Lines count from 1, the first is the format's. */
static void requests_are_there_one_by_one(void **state) {
    (void)state;
    struct trace trace =
        trace_of("# stream 7 side\np 1 4096 7\nm 2 5000 0\nk 0 10\n\nm 3 8388608 7\nu 3 0\nf 3\nf 1\nf 2 7\n");
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    static const struct shown expected[] = {
        {.kind = 0, .line = 4, .stream = 1, .bytes = 5000, .live = 9096},
        {.kind = 0, .line = 7, .stream = 0, .bytes = 8388608, .live = 8397704},
        {.kind = 2, .line = 8, .stream = 1, .bytes = 0, .live = 8397704},
        {.kind = 1, .line = 9, .stream = 0, .bytes = 8388608, .live = 9096},
        {.kind = 1, .line = 10, .stream = 0, .bytes = 4096, .live = 5000},
        {.kind = 1, .line = 11, .stream = 0, .bytes = 5000, .live = 0},
    };
    assert_completed(run_it(&setup));
    struct page page = page_read(page_path);
    assert_int_equal(page.sample_count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < page.sample_count; i++) {
        const struct shown *is = &page.samples[i];
        assert_true(is->single);
        assert_int_equal(is->kind, expected[i].kind);
        assert_int_equal(is->line, expected[i].line);
        assert_int_equal(is->stream, expected[i].stream);
        assert_int_equal(is->bytes, expected[i].bytes);
        assert_int_equal(is->live, expected[i].live);
    }
    page_free(&page);
    trace_free(&trace);
}

static void work_is_where_it_ran_and_waits_where_the_host_waited(void **state) {
    (void)state;
    struct trace trace = trace_of(step);
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    size_t gathers, computes;
    assert_completed(run_it(&setup));
    struct page page = page_read(page_path);
    const json_t *gather = page_row(&page, "gather"), *compute = page_row(&page, "compute");
    struct shown_bar *gathered = page_bars(gather, &gathers), *computed = page_bars(compute, &computes);
    assert_int_equal(page_number(gather, "busy_ns"), 400000);
    assert_int_equal(gathers, 1);
    assert_int_equal(gathered[0].end - gathered[0].start, 400000);
    assert_int_equal(page_number(compute, "busy_ns"), 2000000);
    assert_int_equal(computes, 2);
    assert_true(computed[0].start >= gathered[0].end); /* it waited for the other */
    const json_t *host = page_row(&page, "host waits");
    assert_true(json_is_true(json_object_get(host, "host")));
    assert_true(page_number(host, "busy_ns") > 1000000);
    free(gathered);
    free(computed);
    page_free(&page);
    trace_free(&trace);
}

/* Blocks of a page and a half: the page across the first two can be had only once both are unused. */
static void requests_that_moved_pages_or_waited_are_marked(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 3145728 1\nm 2 3145728 2\nm 3 2097152 0\nk 1 500\nf 1\nf 2\n"
                                  "m 4 65011712 0\nk 0 10\n");
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    const struct outcome *outcome = run_it(&setup);
    assert_completed(outcome);
    assert_true(outcome->page_moves > 0 && outcome->host_waits > 0);
    struct page page = page_read(page_path);
    assert_int_equal(page_counted(&page, CALLS), outcome->memory_calls);
    assert_int_equal(page_counted(&page, MOVES), outcome->page_moves);
    assert_int_equal(page_counted(&page, MOVED) * 512, outcome->moved_bytes);
    assert_int_equal(page_counted(&page, HOST_WAITS), outcome->host_waits);
    assert_int_equal(page_counted(&page, HOST_WAIT_NS), outcome->host_wait_ns);
    assert_true(page_number(page_row(&page, "host waits"), "busy_ns") > 0);
    page_free(&page);
    trace_free(&trace);
}

static void idle_bytes_are_shown_by_stream(void **state) {
    (void)state;
    struct trace trace = trace_of("# stream 9 side\nm 1 16777216 9\nk 9 100\nf 1\nm 2 8388608 0\nk 0 100\nf 2\n");
    struct setup setup = setup_drawn(&trace, 64 * MIB);
    setup.policy = "per-stream";
    assert_completed(run_it(&setup));
    struct page page = page_read(page_path);
    const size_t side = page_layer(&page, "side"), other = page_layer(&page, "stream 0");
    const int64_t expected[][2] = {{0, 0}, {16 * MIB, 0}, {16 * MIB, 0}, {16 * MIB, 8 * MIB}};
    assert_int_equal(page.sample_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(page.samples[i].idle[side], expected[i][0]);
        assert_in_range(page.samples[i].idle[other], expected[i][1], expected[i][1] + 16 * MIB);
    }
    page_free(&page);
    trace_free(&trace);
}

/* Side keeps 40 MiB that the asking stream can't be given: the second request is short of memory, the first is not. */
static void what_was_stranded_is_said_where_it_was(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 41943040 9\nk 9 100\nf 1\nm 2 8388608 0\nm 3 33554432 0\nk 0 100\n");
    struct setup setup = setup_drawn(&trace, 64 * MIB);
    setup.policy = "per-stream";
    const struct outcome *outcome = run_it(&setup);
    struct page page = page_read(page_path);
    int64_t most = 0;
    for (size_t i = 0; i < page.sample_count; i++)
        if (page.samples[i].counts[STRANDED] > most) most = page.samples[i].counts[STRANDED];
    assert_int_equal(page.samples[1].counts[STRANDED], 0); /* a free asks for nothing */
    assert_int_equal(page.samples[3].counts[STRANDED] * 512, 40 * MIB);
    assert_int_equal(most * 512, outcome->peak_stranded_bytes);
    page_free(&page);
    trace_free(&trace);
}

static void a_run_that_ends_says_where(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 33554432 0\nk 0 50\nm 2 67108864 0\n");
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    assert_int_equal(run_it(&setup)->ending, ENDED_OUT_OF_MEMORY);
    struct page page = page_read(page_path);
    assert_non_null(strstr(page.text, "out of memory at line 4"));
    assert_true(json_is_true(json_object_get(page.data, "failed")));
    assert_int_equal(page_number(page.data, "failed_line"), 4);
    assert_int_equal(page_number(page.data, "asked_bytes"), 64 * MIB);
    assert_int_equal(page.samples[page.sample_count - 1].kind, 3);
    page_free(&page);
    trace_free(&trace);
}

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

enum { STREAMS = 8, ROUNDS = 24000, PEAK_ROUND = 109, PEAK = 3 * MIB };

/* Work apart by so much that it does not touch, and memory that never stays the same. */
static struct trace long_trace(void) {
    const size_t room = (size_t)ROUNDS * STREAMS * 40;
    char *text = malloc(room);
    assert_non_null(text);
    size_t length = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        length += (size_t)snprintf(text + length, room - length, "i\nm %u %u %u\nf %u\n", i,
                                   i == PEAK_ROUND ? PEAK : 4096 + 512 * (i % 977), i % STREAMS, i);
        for (unsigned s = 0; s < STREAMS && i % 2 == 0; s++)
            length += (size_t)snprintf(text + length, room - length, "k %u 3\n", s);
    }
    const struct trace trace = trace_of(text);
    free(text);
    return trace;
}

static void a_long_trace_makes_a_page_that_adds_up(void **state) {
    (void)state;
    struct trace trace = long_trace();
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    assert_completed(run_it(&setup));
    struct page page = page_read(page_path);
    assert_true(strlen(page.text) < 2 * MIB);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(page.data, "rows"), i, row) {
        if (json_is_true(json_object_get(row, "host"))) continue;
        size_t count;
        struct shown_bar *bars = page_bars(row, &count);
        int64_t busy = 0;
        for (size_t k = 0; k < count; k++) busy += bars[k].busy;
        assert_int_equal(busy, (int64_t)ROUNDS / 2 * 3000);
        assert_int_equal(page_number(row, "busy_ns"), busy);
        free(bars);
    }
    assert_int_equal(page.sample_count, 2 * ROUNDS);
    const size_t iterations = json_array_size(json_object_get(page.data, "iterations"));
    assert_true(iterations > 500 && iterations <= 2048);
    assert_int_equal(page_most_live(&page), PEAK);
    page_free(&page);
    trace_free(&trace);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static size_t times_in(const char *page, const char *text) {
    size_t count = 0;
    for (const char *at = page; (at = strstr(at, text)) != NULL; at++) count++;
    return count;
}

static void what_a_trace_says_stays_text(void **state) {
    (void)state;
    static const char name[] = "</script><script>a(\"&'\\\xff";
    struct trace trace;
    char text[300];
    snprintf(text, sizeof text, "# stream 0 %s\nm 1 4194304 0\nk 0 10\nf 1\nk 0 10\nm 2 4096 1\n", name);
    trace = trace_of(text);
    memcpy(trace.stream_names[0], name, sizeof name); /* as it is: the reader takes no such byte */
    struct setup setup = setup_drawn(&trace, 64 * MIB);
    setup.policy = "per-stream";
    setup.trace_name = "/tmp/<b>&\"x.trace";
    assert_completed(run_it(&setup));
    struct page page = page_read(page_path);
    assert_int_equal(times_in(page.text, "<script"), 2); /* the data's and the script's own */
    assert_int_equal(times_in(page.text, "</script"), 2);
    assert_null(strstr(page.text, "<b>"));
    assert_non_null(strstr(page.text, "&#60;b&#62;&#38;&#34;x.trace"));
    (void)page_row(&page, "</script><script>a(\"&'\\\xef\xbf\xbd");
    page_free(&page);
    trace_free(&trace);
}

/* ---- no effect -------------------------------------------------------------------------------------------------- */

static void drawing_changes_nothing(void **state) {
    (void)state;
    struct trace trace = long_trace();
    struct setup setup = setup_drawn(&trace, 8 * MIB);
    const struct outcome drawn = *run_it(&setup);
    setup.timeline_path = NULL;
    const struct outcome *plain = run_it(&setup);
    assert_int_equal(drawn.run_ns, plain->run_ns);
    assert_int_equal(drawn.steady_ns, plain->steady_ns);
    assert_int_equal(drawn.memory_calls, plain->memory_calls);
    assert_int_equal(drawn.order_calls, plain->order_calls);
    assert_int_equal(drawn.host_wait_ns, plain->host_wait_ns);
    trace_free(&trace);
}

static void every_target_can_be_drawn(void **state) {
    (void)state;
    struct trace trace = trace_of(step);
    struct setup setup = setup_drawn(&trace, 64 * MIB);
    const enum target_kind kinds[] = {TARGET_POOL, TARGET_FREE, TARGET_FLUID};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        setup.target = kinds[i];
        assert_completed(run_it(&setup));
        struct page page = page_read(page_path);
        assert_int_equal(page_most_live(&page), 12 * MIB);
        page_free(&page);
    }
    trace_free(&trace);
}

static void a_page_that_can_not_be_written_is_said(void **state) {
    (void)state;
    struct trace trace = trace_of(step);
    struct setup setup = setup_drawn(&trace, 64 * MIB);
    char full[sizeof page_path + 8]; /* a link: what takes a name's place takes the link's, and harms nobody */
    snprintf(full, sizeof full, "%s.full", page_path);
    assert_int_equal(symlink("/dev/full", full), 0);
    const char *const places[] = {"/no/such/folder/x.html", full};
    for (size_t i = 0; i < 2; i++) {
        setup.timeline_path = places[i];
        const struct outcome *outcome = run_it(&setup);
        assert_int_equal(outcome->ending, ENDED_FAILED);
        assert_non_null(strstr(outcome->why, places[i]));
    }
    assert_int_equal(unlink(full), 0); /* it is still there */
    trace_free(&trace);
}

static void what_could_be_written_in_part_only_is_no_page(void **state) {
    (void)state;
    struct trace trace = trace_of(step);
    struct rlimit whole, part;
    FILE *older = fopen(page_path, "w");
    assert_non_null(older);
    assert_true(fputs("older", older) >= 0 && fclose(older) == 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
    part = whole;
    part.rlim_cur = 9000;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &part), 0);
    const struct outcome *outcome = run_it(&setup);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
    signal(SIGXFSZ, before);
    assert_int_equal(outcome->ending, ENDED_FAILED);
    char there[16] = "";
    older = fopen(page_path, "r");
    assert_non_null(older);
    assert_non_null(fgets(there, sizeof there, older));
    fclose(older);
    assert_string_equal(there, "older"); /* the one that was there */
    char unfinished[sizeof page_path + 8];
    snprintf(unfinished, sizeof unfinished, "%s.part", page_path);
    assert_int_equal(access(unfinished, F_OK), -1);
    trace_free(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_holds_what_happened),
        cmocka_unit_test(requests_are_there_one_by_one),
        cmocka_unit_test(work_is_where_it_ran_and_waits_where_the_host_waited),
        cmocka_unit_test(requests_that_moved_pages_or_waited_are_marked),
        cmocka_unit_test(idle_bytes_are_shown_by_stream),
        cmocka_unit_test(what_was_stranded_is_said_where_it_was),
        cmocka_unit_test(a_run_that_ends_says_where),
        cmocka_unit_test(a_long_trace_makes_a_page_that_adds_up),
        cmocka_unit_test(what_a_trace_says_stays_text),
        cmocka_unit_test(drawing_changes_nothing),
        cmocka_unit_test(every_target_can_be_drawn),
        cmocka_unit_test(a_page_that_can_not_be_written_is_said),
        cmocka_unit_test(what_could_be_written_in_part_only_is_no_page),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
