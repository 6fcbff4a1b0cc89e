/* SPDX-License-Identifier: Apache-2.0 */
/* What is recorded can be replayed: the same operations, the same peak. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "tools/trace/trace.h"

static char folder[] = "/tmp/weir_trace_test_XXXXXX";

static const char *path_of(const char *name, char room[static 256]) {
    snprintf(room, 256, "%s/%s", folder, name);
    return room;
}

static char *contents_of(const char *path, char *room, size_t bytes) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    room[fread(room, 1, bytes - 1, file)] = 0;
    fclose(file);
    return room;
}

/* Runs weir-replay; gives its exit status and what it wrote to both outputs. */
static int run_replay(const char *arguments, char *output, size_t room) {
    char command[1024];
    const char *program = getenv("WEIR_REPLAY");
    assert_non_null(program);
    snprintf(command, sizeof command, "'%s' %s 2>&1", program, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, room - 1, pipe)] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static size_t json_number(const char *json, const char *key) {
    const char *at = strstr(json, key);
    assert_non_null(at);
    return strtoull(at + strlen(key), NULL, 10);
}

/* ---- recording ---------------------------------------------------------------------------------------------------- */

static void every_call_becomes_a_line(void **state) {
    (void)state;
    char path[256], text[4096], arguments[512];
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = 64 * PAGE, .trace_path = path_of("lines.trace", path)};
    struct weir_pool *pool = NULL;
    OK(weir_pool_create(test_device(), &options, &pool));
    weir_stream s0 = new_stream(), s1 = new_stream();
    weir_event event, unseen;
    OK(weir_event_create(test_device(), false, &event));
    OK(weir_event_create(test_device(), false, &unseen));
    weir_pool_name_stream(pool, s0, "compute");
    OK(weir_pool_mark_iteration(pool));
    void *a = alloc(pool, 1000, s0), *b = alloc(pool, 2000, s1), *c = alloc(pool, 3000, s1), *d = alloc(pool, 0, s0);
    OK(weir_pool_note(pool, a, s1));
    OK(weir_event_record(test_device(), event, s1));
    OK(weir_stream_wait(test_device(), s0, event));
    OK(weir_stream_wait(test_device(), s0, unseen)); /* never recorded: holds nothing back, and is no line */
    OK(weir_event_synchronize(test_device(), event));
    OK(weir_pool_free(pool, a, s0));
    OK(weir_pool_free(pool, b, s0));
    OK(weir_pool_free_after(pool, c, event));
    OK(weir_pool_free(pool, d, s0));
    void *none;
    assert_int_equal(weir_pool_alloc(pool, 65 * PAGE, s0, &none), WEIR_OUT_OF_MEMORY);
    OK(weir_event_destroy(test_device(), event));
    OK(weir_stream_synchronize(test_device(), s0));
    OK(weir_stream_destroy(test_device(), s1));
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
    assert_string_equal(contents_of(path, text, sizeof text), "weir-trace 1\n"
                                                              "# recorded policy=latency limit=1048576 "
                                                              "granularity=16384 profile=demo deterministic=off\n"
                                                              "# stream 0 stream 0\n# stream 0 compute\ni\n"
                                                              "m 1 1000 0\n"
                                                              "# stream 1 stream 1\nm 2 2000 1\nm 3 3000 1\nm 4 0 0\n"
                                                              "u 1 1\n"
                                                              "e 0 1\nw 0 0\nh 0\n"
                                                              "f 1\nf 2 0\nf 3 @0\nf 4\n"
                                                              "# refused 1064960 0\n"
                                                              "y 0\ns 0\nx 1\nd\n");
    snprintf(arguments, sizeof arguments, "%s --profile demo --capacity 64K --json", path);
    assert_int_equal(run_replay(arguments, text, sizeof text), 0);
    assert_non_null(strstr(text, "\"outcome\":\"out_of_memory\""));
    assert_int_equal(json_number(text, "\"failed_line\":"), 19);
    assert_int_equal(json_number(text, "\"refused_requests\":"), 1);
    assert_int_equal(json_number(text, "\"peak_live_bytes\":"), 65 * PAGE);
    assert_int_equal(json_number(text, "\"operations\":"), 18);
    snprintf(arguments, sizeof arguments, "%s --profile demo --capacity 2M --json", path);
    assert_int_equal(run_replay(arguments, text, sizeof text), 0);
    assert_non_null(strstr(text, "\"outcome\":\"completed\""));
    OK(weir_event_destroy(test_device(), unseen));
    OK(weir_stream_destroy(test_device(), s0));
}

/* The handle of a destroyed stream says nothing of who allocated: the driver may have given it to another one. */
static void a_free_on_another_stream_names_it_when_the_first_is_gone(void **state) {
    (void)state;
    char path[256], text[1024];
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = 64 * PAGE, .trace_path = path_of("gone.trace", path)};
    struct weir_pool *pool = NULL;
    OK(weir_pool_create(test_device(), &options, &pool));
    weir_stream first = new_stream();
    void *a = alloc(pool, PAGE, first), *b = alloc(pool, PAGE, first);
    OK(weir_stream_destroy(test_device(), first));
    OK(weir_pool_free(pool, a, NULL)); /* the first stream is gone, and forgotten here */
    OK(weir_pool_free(pool, b, NULL));
    close_pool(pool);
    assert_non_null(strstr(contents_of(path, text, sizeof text), "x 0\n# stream 1 stream 1\nf 1 1\nf 2 1\n"));
}

/* Addresses that a replay can compare. A block of no bytes has none in the arena. */
static void in_deterministic_mode_the_trace_says_where_blocks_lie(void **state) {
    (void)state;
    char path[256], why[512];
    struct trace trace;
    struct weir_pool_options options = {.size = sizeof options,
                                        .limit_bytes = 64 * PAGE,
                                        .trace_path = path_of("placed.trace", path),
                                        .deterministic = true};
    struct weir_pool *pool = NULL;
    OK(weir_pool_create(test_device(), &options, &pool));
    const char *blocks[5];
    const uintptr_t arena = pool->pages.arena;
    for (size_t i = 0; i < 5; i++) blocks[i] = alloc(pool, i * 5000, NULL);
    for (size_t i = 0; i < 5; i++) OK(weir_pool_free(pool, (void *)(uintptr_t)blocks[i], NULL));
    close_pool(pool);
    if (!trace_read(path, &trace, why, sizeof why)) fail_msg("%s", why);
    assert_true(trace.origin.deterministic);
    assert_int_equal(trace.origin.limit_bytes, 64 * PAGE);
    assert_int_equal(trace.offset_count, 4);
    assert_int_equal(trace.offsets[0], UINT64_MAX);
    for (size_t i = 1; i < 5; i++) assert_int_equal(trace.offsets[i], (uintptr_t)blocks[i] - arena);
    trace_free(&trace);
}

static void a_recorded_run_replays_with_the_same_peak(void **state) {
    (void)state;
    char path[256], text[4096], arguments[512];
    struct weir_pool_options options = {.size = sizeof options, .trace_path = path_of("run.trace", path)};
    struct weir_pool *pool = NULL;
    OK(weir_pool_create(test_device(), &options, &pool));
    weir_stream streams[3] = {new_stream(), new_stream(), new_stream()};
    void *blocks[64] = {0};
    uint64_t chance = seed_of(10);
    for (int i = 0; i < 3000; i++) {
        void **block = &blocks[draw(&chance) % 64];
        weir_stream stream = streams[draw(&chance) % 3];
        if (*block == NULL) {
            *block = alloc(pool, draw(&chance) % (8 * PAGE), stream);
        } else {
            OK(weir_pool_free(pool, *block, stream));
            *block = NULL;
        }
    }
    struct weir_pool_stats stats = stats_of(pool);
    weir_pool_destroy(pool);
    snprintf(arguments, sizeof arguments, "%s --profile demo --policy=footprint --scan --json=%s/run.json", path,
             folder);
    assert_int_equal(run_replay(arguments, text, sizeof text), 0);
    assert_non_null(strstr(text, "smallest sufficient device"));
    char json[256];
    contents_of(path_of("run.json", json), text, sizeof text);
    assert_int_equal(json_number(text, "\"peak_live_bytes\":"), stats.peak_requested_bytes);
    assert_int_equal(json_number(text, "\"peak_rounded_bytes\":"), stats.peak_live_bytes);
    size_t smallest = json_number(text, "\"min_capacity_bytes\":");
    assert_true(smallest >= stats.peak_live_bytes / PAGE * PAGE);
    assert_true(smallest <= stats.peak_live_bytes + stats.peak_live_bytes / 100 + 24 * PAGE);
    snprintf(arguments, sizeof arguments, "%s --profile demo --capacity %zu --json", path, stats.peak_live_bytes / 2);
    assert_int_equal(run_replay(arguments, text, sizeof text), 0); /* out of memory is an answer too */
    assert_non_null(strstr(text, "\"outcome\":\"out_of_memory\""));
    assert_true(json_number(text, "\"failed_line\":") > 1);
}

/* Blocks of many sizes that live for a while, on four streams, each given back by the stream after its own. */
static void write_mixed_trace(const char *path) {
    enum { BLOCKS = 600, ALIVE = 24, STREAMS = 4 };
    FILE *file = fopen(path, "we");
    uint32_t random = 1;
    assert_non_null(file);
    fprintf(file, "weir-trace 1\n");
    for (int i = 0; i < BLOCKS; i++) {
        random = random * 1664525u + 1013904223u;
        fprintf(file, "m %d %u %d\n", i, 512 * (1 + (random >> 16) % 600), i % STREAMS);
        if (i >= ALIVE) fprintf(file, "u %d %d\nf %d\n", i - ALIVE, (i + 1) % STREAMS, i - ALIVE);
    }
    assert_int_equal(fclose(file), 0);
}

static void a_scan_answers_with_a_run_that_completed_and_always_the_same(void **state) {
    (void)state;
    char path[256], arguments[512], first[2048], text[2048];
    write_mixed_trace(path_of("mixed.trace", path));
    snprintf(arguments, sizeof arguments, "%s --profile demo --policy=per-stream --scan", path);
    assert_int_equal(run_replay(arguments, first, sizeof first), 0);
    assert_non_null(strstr(first, "smallest sufficient device"));
    assert_non_null(strstr(first, "It fits: per-stream caching completes on"));
    for (int times = 0; times < 5; times++) {
        assert_int_equal(run_replay(arguments, text, sizeof text), 0);
        assert_string_equal(text, first);
    }
}

/* A block that another stream has used comes back to the per-stream pool once that stream's work is seen complete: at the
 * very next request, since work takes no time, so one segment of ten pages serves them all. */
static void work_takes_no_time_without_a_clock(void **state) {
    (void)state;
    char path[256], arguments[512], text[2048];
    FILE *file = fopen(path_of("noted.trace", path), "w");
    assert_non_null(file);
    fputs("weir-trace 1\n", file);
    for (int id = 1; id <= 200; id++) fprintf(file, "m %d 65536 0\nu %d 1\nf %d\n", id, id, id);
    fclose(file);
    snprintf(arguments, sizeof arguments, "%s --profile demo --clock none --policy=per-stream --capacity=32M --json",
             path);
    assert_int_equal(run_replay(arguments, text, sizeof text), 0);
    assert_int_equal(json_number(text, "\"peak_held_bytes\":"), 10 * PAGE);
}

/* ---- answers and options ------------------------------------------------------------------------------------------- */

static void an_answer_that_can_not_be_written_is_a_failure(void **state) {
    (void)state;
    char path[256], arguments[512], output[2048];
    FILE *file = fopen(path_of("short.trace", path), "w");
    assert_non_null(file);
    fputs("weir-trace 1\nm 1 8 0\n", file);
    fclose(file);
    const char *const places[] = {">/dev/full", "--json >/dev/full", "--json=/dev/full"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(arguments, sizeof arguments, "%s %s", path, places[i]);
        assert_int_equal(run_replay(arguments, output, sizeof output), 1);
    }
}

static void bad_options_are_named(void **state) {
    (void)state;
    static const struct {
        const char *arguments, *words;
    } bad[] = {
        {"", "no trace given"},
        {"a b", "'b' is a second one"},
        {"a --polcy latency", "did you mean --policy?"},
        {"a --policy", "--policy needs a value"},
        {"a --policy fast", "latency, footprint, per-stream"},
        {"a --capacity much", "--capacity much"},
        {"a --capacity 0x", "--capacity 0x"},
        {"a --scan=1", "--scan takes no value"},
        {"a --polcy=per-stream", "unknown option --polcy; did you mean --policy?"},
        {"a --profile a,b", "no profile's name"},
    };
    char output[2048], path[256], arguments[512];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(run_replay(bad[i].arguments, output, sizeof output), 2);
        if (strstr(output, bad[i].words) == NULL) fail_msg("'%s' does not say '%s'", output, bad[i].words);
    }
    snprintf(arguments, sizeof arguments, "%s --profile nosuch", path_of("lines.trace", path));
    assert_int_equal(run_replay(arguments, output, sizeof output), 2);
    assert_int_equal(run_replay("--help", output, sizeof output), 0);
    assert_non_null(strstr(output, "--capacity"));
    assert_int_equal(run_replay("--version", output, sizeof output), 0);
    assert_non_null(strstr(output, "weir-replay 0."));
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"lines.trace", "gone.trace", "placed.trace", "short.trace", "run.trace",
                                        "run.json",    "bad.trace",  "long.trace",   "mixed.trace", "noted.trace"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(names[i], path));
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_becomes_a_line),
        cmocka_unit_test(a_free_on_another_stream_names_it_when_the_first_is_gone),
        cmocka_unit_test(in_deterministic_mode_the_trace_says_where_blocks_lie),
        cmocka_unit_test(a_recorded_run_replays_with_the_same_peak),
        cmocka_unit_test(a_scan_answers_with_a_run_that_completed_and_always_the_same),
        cmocka_unit_test(work_takes_no_time_without_a_clock),
        cmocka_unit_test(an_answer_that_can_not_be_written_is_a_failure),
        cmocka_unit_test(bad_options_are_named),
    };
    return cmocka_run_group_tests_name("trace", tests, make_folder, remove_folder);
}
