/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a run: what it shows is what happened, it stays small whatever the trace's length, what a trace says
 * can't break it, and drawing it changes nothing. */
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

/* ---- reading the page ------------------------------------------------------------------------------------------- */

static char *read_page(void) {
    FILE *file = fopen(page_path, "r");
    struct stat info;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    char *text = calloc(1, (size_t)info.st_size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)info.st_size, file), info.st_size);
    fclose(file);
    return text;
}

/* The data in the page, as a browser would find it: up to the first end of the element. */
static json_t *data_of(const char *page) {
    static const char opening[] = "<script type=\"application/json\" id=\"run\">";
    const char *begin = strstr(page, opening);
    assert_non_null(begin);
    begin += strlen(opening);
    const char *end = strstr(begin, "</script");
    assert_non_null(end);
    json_error_t error;
    json_t *data = json_loadb(begin, (size_t)(end - begin), 0, &error);
    if (data == NULL) fail_msg("line %d: %s", error.line, error.text);
    return data;
}

static json_t *page_data(void) {
    char *page = read_page();
    json_t *data = data_of(page);
    free(page);
    return data;
}

static json_int_t number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* An array of differences: its largest value, or its last. */
static json_int_t summed(const json_t *data, const char *key, bool last) {
    json_int_t sum = 0, most = 0;
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(data, key), i, value) {
        sum += json_integer_value(value);
        if (sum > most) most = sum;
    }
    return last ? sum : most;
}

static const json_t *row_of(const json_t *data, const char *name) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(data, "rows"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0) return row;
    }
    fail_msg("no row \"%s\"", name);
    return NULL;
}

static json_int_t bar(const json_t *row, size_t index) {
    return json_integer_value(json_array_get(json_object_get(row, "bars"), index));
}

static double percent(const json_t *row, size_t index) {
    return json_number_value(json_array_get(json_object_get(row, "bars"), index));
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
    json_t *data = page_data();
    assert_int_equal(number(data, "capacity_bytes"), 64 * MIB);
    assert_int_equal(number(data, "end_ns"), outcome->run_ns);
    assert_int_equal(summed(data, "live", false) * 512, 12 * MIB);
    assert_int_equal(summed(data, "live", true), 0);
    assert_int_equal(summed(data, "held", false) * 512, outcome->peak_held_bytes);
    assert_int_equal(json_array_size(json_object_get(data, "iterations")), 3);
    json_decref(data);
    trace_free(&trace);
}

static void work_is_where_it_ran_and_waits_where_the_host_waited(void **state) {
    (void)state;
    struct trace trace = trace_of(step);
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    assert_completed(run_it(&setup));
    json_t *data = page_data();
    const json_t *gather = row_of(data, "gather"), *compute = row_of(data, "compute");
    assert_int_equal(number(gather, "busy_ns"), 400000);
    assert_int_equal(bar(gather, 1), 400000); /* its length */
    assert_int_equal(number(compute, "busy_ns"), 2000000);
    assert_int_equal(json_array_size(json_object_get(compute, "bars")), 6); /* two bars */
    assert_true(bar(compute, 0) >= bar(gather, 0) + bar(gather, 1));        /* it waited for the other */
    const json_t *host = row_of(data, "host waits");
    assert_true(json_is_true(json_object_get(host, "host")));
    assert_true(number(host, "busy_ns") > 1000000);
    json_decref(data);
    trace_free(&trace);
}

static json_int_t tick_sum(const json_t *data, size_t member) {
    json_int_t sum = 0;
    size_t i;
    json_t *tick;
    json_array_foreach(json_object_get(data, "ticks"), i, tick) {
        sum += json_integer_value(json_array_get(tick, member));
    }
    return sum;
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
    json_t *data = page_data();
    assert_int_equal(tick_sum(data, 1), outcome->memory_calls);
    assert_int_equal(tick_sum(data, 2), outcome->page_moves);
    assert_int_equal(tick_sum(data, 5), outcome->host_waits);
    assert_true(number(row_of(data, "host waits"), "busy_ns") > 0);
    json_decref(data);
    trace_free(&trace);
}

static void idle_bytes_are_shown_by_stream(void **state) {
    (void)state;
    struct trace trace = trace_of("# stream 9 side\nm 1 16777216 9\nk 9 100\nf 1\nm 2 8388608 0\nk 0 100\nf 2\n");
    struct setup setup = setup_drawn(&trace, 64 * MIB);
    setup.policy = "per-stream";
    assert_completed(run_it(&setup));
    json_t *data = page_data();
    char key[32] = "";
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(data, "idle"), i, name) {
        if (strcmp(json_string_value(name), "side") == 0) snprintf(key, sizeof key, "idle%zu", i);
    }
    assert_string_not_equal(key, "");
    assert_int_equal(summed(data, key, false) * 512, 16 * MIB);
    json_decref(data);
    trace_free(&trace);
}

static void a_run_that_ends_says_where(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 33554432 0\nk 0 50\nm 2 67108864 0\n");
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    assert_int_equal(run_it(&setup)->ending, ENDED_OUT_OF_MEMORY);
    char *page = read_page();
    assert_non_null(strstr(page, "out of memory at line 4"));
    json_t *data = data_of(page);
    assert_true(json_is_true(json_object_get(data, "failed")));
    assert_int_equal(number(data, "failed_line"), 4);
    assert_int_equal(number(data, "asked_bytes"), 64 * MIB);
    json_decref(data);
    free(page);
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

static void a_long_trace_makes_a_small_page_that_still_adds_up(void **state) {
    (void)state;
    struct trace trace = long_trace();
    const struct setup setup = setup_drawn(&trace, 64 * MIB);
    assert_completed(run_it(&setup));
    char *page = read_page();
    assert_true(strlen(page) < 3 * MIB);
    json_t *data = data_of(page);
    size_t i, bars = 0;
    double busy = 0;
    json_t *row;
    json_array_foreach(json_object_get(data, "rows"), i, row) {
        bars += json_array_size(json_object_get(row, "bars")) / 3;
        if (json_is_false(json_object_get(row, "host")))
            assert_int_equal(number(row, "busy_ns"), (json_int_t)ROUNDS / 2 * 3000);
        if (i == 0)
            for (size_t k = 0; k < json_array_size(json_object_get(row, "bars")); k += 3)
                busy += (double)bar(row, k + 1) * percent(row, k + 2) / 100;
    }
    assert_true(busy > ROUNDS / 2 * 2950.0 && busy < ROUNDS / 2 * 3050.0);
    assert_true(bars > 10000 && bars <= 65536);
    const size_t columns = json_array_size(json_object_get(data, "time"));
    assert_true(columns > 1000 && columns <= 4096);
    const size_t iterations = json_array_size(json_object_get(data, "iterations"));
    assert_true(iterations > 500 && iterations <= 2048);
    assert_int_equal(summed(data, "live", false), PEAK / 512); /* the peak is not thinned away */
    json_decref(data);
    free(page);
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
    struct setup setup = setup_drawn(&trace, 64 * MIB);
    setup.policy = "per-stream";
    setup.trace_name = "/tmp/<b>&\"x.trace";
    assert_completed(run_it(&setup));
    char *page = read_page();
    assert_int_equal(times_in(page, "<script"), 2); /* the data's and the script's own */
    assert_int_equal(times_in(page, "</script"), 2);
    assert_null(strstr(page, "<b>"));
    assert_non_null(strstr(page, "&#60;b&#62;&#38;&#34;x.trace"));
    json_t *data = data_of(page);
    (void)row_of(data, "</script><script>a(\"&'\\\xef\xbf\xbd");
    json_decref(data);
    free(page);
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
        json_t *data = page_data();
        assert_int_equal(summed(data, "live", false) * 512, 12 * MIB);
        json_decref(data);
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
    char *page = read_page(); /* the one that was there */
    assert_string_equal(page, "older");
    free(page);
    char unfinished[sizeof page_path + 8];
    snprintf(unfinished, sizeof unfinished, "%s.part", page_path);
    assert_int_equal(access(unfinished, F_OK), -1);
    trace_free(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_holds_what_happened),
        cmocka_unit_test(work_is_where_it_ran_and_waits_where_the_host_waited),
        cmocka_unit_test(requests_that_moved_pages_or_waited_are_marked),
        cmocka_unit_test(idle_bytes_are_shown_by_stream),
        cmocka_unit_test(a_run_that_ends_says_where),
        cmocka_unit_test(a_long_trace_makes_a_small_page_that_still_adds_up),
        cmocka_unit_test(what_a_trace_says_stays_text),
        cmocka_unit_test(drawing_changes_nothing),
        cmocka_unit_test(every_target_can_be_drawn),
        cmocka_unit_test(a_page_that_can_not_be_written_is_said),
        cmocka_unit_test(what_could_be_written_in_part_only_is_no_page),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
