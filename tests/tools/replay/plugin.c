/* SPDX-License-Identifier: Apache-2.0 */
/* Any library with PyTorch's plug-in functions is a target: it is told what PyTorch would tell it, its refusals and
 * its end are the run's, and its figures are the driver's counts. */
#include <sys/mman.h>

#include "plugin_library.h"
#include "support.h"

static struct seen *seen; /* shared with the runs */

static int share_seen(void **state) {
    (void)state;
    char where[32];
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED) return -1;
    snprintf(where, sizeof where, "%p", (void *)seen);
    return setenv("PLUGIN_SEEN", where, 1);
}

static int forget_seen(void **state) {
    (void)state;
    memset(seen, 0, sizeof *seen);
    return 0;
}

static struct setup setup_of_library(const struct trace *trace, const char *alloc, const char *use) {
    struct setup setup = setup_of(trace, TARGET_PLUGIN, 64 * MIB / PAGE);
    setup.library = getenv("PLUGIN");
    setup.alloc_symbol = alloc;
    setup.free_symbol = "counting_free";
    setup.use_symbol = use;
    return setup;
}

static struct setup setup_of_peer(const struct trace *trace, const char *name, const char *use) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/libweir-peer-%s.so", getenv("PEERS"), name);
    struct setup setup = setup_of_library(trace, "weir_peer_alloc", use);
    setup.library = path;
    setup.free_symbol = "weir_peer_free";
    return setup;
}

/* ---- what it is told -------------------------------------------------------------------------------------------- */

static const char two_streams[] = ""
                                  "m 1 4194304 0\nm 2 2097152 1\nm 3 0 0\n"
                                  "k 0 100\nu 1 1\nk 1 200\n"
                                  "f 1\nf 3\nf 2 0\n";

static void each_request_free_and_use_comes_to_it(void **state) {
    (void)state;
    struct trace trace = trace_of(two_streams);
    const struct setup setup = setup_of_library(&trace, "counting_alloc", "counting_use");
    const struct outcome *outcome = run_it(&setup);
    assert_completed(outcome);
    assert_int_equal(seen->allocs, 2); /* one of no bytes is none */
    assert_int_equal(seen->frees, 2);
    assert_int_equal(seen->uses, 2); /* and the free on another stream tells one */
    assert_int_equal(seen->alloc_bytes, 6 * MIB);
    assert_int_equal(seen->free_bytes, 6 * MIB);
    assert_int_equal(seen->devices, 0);
    assert_ptr_equal(seen->free_stream, seen->alloc_stream); /* block 2's, though freed on the other stream */
    assert_ptr_not_equal(seen->use_stream, seen->free_stream);
    assert_int_equal(outcome->uses_not_told, 0);
    assert_int_equal(outcome->memory_calls, 4);
    assert_int_equal(outcome->peak_held_bytes, 6 * MIB);
    trace_free(&trace);
}

static void without_a_use_function_the_stream_waits_for_uses_before_the_free(void **state) {
    (void)state;
    struct trace trace = trace_of(two_streams);
    const struct setup setup = setup_of_library(&trace, "counting_alloc", NULL);
    const struct outcome *outcome = run_it(&setup);
    assert_completed(outcome);
    assert_int_equal(seen->frees, 2);
    assert_int_equal(outcome->uses_not_told, 2);
    assert_int_equal(outcome->order_calls, 0); /* the replay's, not its own */
    trace_free(&trace);
}

/* The pool of the async peer takes a block back when its stream comes to the free: there the memory is used again only
 * after the other stream's work. */
static void a_use_that_is_not_told_still_keeps_the_block(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 16777216 0\nu 1 1\nk 1 5000\nf 1\nk 0 6000\n");
    const struct setup setup = setup_of_peer(&trace, "async", NULL);
    assert_true(run_it(&setup)->run_ns > 11000 * 1000); /* one after the other */
    trace_free(&trace);
    trace = trace_of("m 1 16777216 0\nk 1 5000\nf 1\nk 0 1\ns 0\nm 2 16777216 0\nf 2 *\n");
    const struct setup any = setup_of_peer(&trace, "async", NULL);
    const struct outcome *outcome = run_it(&any);
    assert_completed(outcome);
    assert_int_equal(outcome->uses_not_told, 1); /* a free that names no stream is a use on every other one */
    trace_free(&trace);
    trace = trace_of("m 1 16777216 0\nk 1 1\nk 2 1\nk 3 1\nu 1 2\nm 2 16777216 2\nf 1 *\nu 2 1\nf 2 *\n");
    const struct setup noted = setup_of_peer(&trace, "async", NULL);
    outcome = run_it(&noted);
    assert_completed(outcome);
    assert_int_equal(outcome->uses_not_told, 3 + 3); /* once, also where it was noted before */
    trace_free(&trace);
}

static void a_free_after_an_event_waits_for_it_on_the_allocations_stream(void **state) {
    (void)state;
    struct trace trace =
        trace_of("m 1 33554432 0\nk 1 3000\ne 7 1\nf 1 @7\nm 2 33554432 0\nm 3 33554432 0\nk 0 4000\n");
    struct setup setup = setup_of_peer(&trace, "async", NULL);
    setup.capacity_bytes = 64 * MIB; /* block 3 needs what block 1 had, which is there after the event */
    const struct outcome *outcome = run_it(&setup);
    assert_completed(outcome);
    assert_true(outcome->run_ns > 7000 * 1000);
    trace_free(&trace);
}

/* ---- refusals and ends ------------------------------------------------------------------------------------------ */

static void no_memory_is_out_of_memory_with_its_line(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 4194304 0\nm 2 9437184 0\nm 3 4194304 0\n");
    const struct setup setup = setup_of_library(&trace, "limited_alloc", NULL);
    const struct outcome *outcome = run_it(&setup);
    assert_int_equal(outcome->ending, ENDED_OUT_OF_MEMORY);
    assert_int_equal(outcome->failed_line, 3);
    assert_non_null(strstr(outcome->report, "9437184 bytes"));
    assert_int_equal(seen->allocs, 1);
    trace_free(&trace);
}

static void the_capacity_is_the_devices(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 33554432 0\nf 1\nm 2 33554432 0\nm 3 33554432 0\n");
    struct setup setup = setup_of_library(&trace, "counting_alloc", NULL);
    assert_completed(run_it(&setup));
    setup.capacity_bytes = 62 * MIB;
    const struct outcome *outcome = run_it(&setup);
    assert_int_equal(outcome->ending, ENDED_OUT_OF_MEMORY);
    assert_int_equal(outcome->failed_line, 5);
    trace_free(&trace);
}

static void a_crash_is_the_runs_end_and_not_the_programs(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 1024 0\n");
    struct setup setup = setup_of_library(&trace, "crashing_alloc", NULL);
    const struct outcome *outcome = run_it(&setup);
    assert_int_equal(outcome->ending, ENDED_FAILED);
    assert_non_null(strstr(outcome->why, "ABRT"));
    setup.alloc_symbol = "leaving_alloc";
    outcome = run_it(&setup);
    assert_int_equal(outcome->ending, ENDED_FAILED);
    assert_non_null(strstr(outcome->why, "status 3"));
    trace_free(&trace);
}

static void expect_failure(const struct setup *setup, const char *first, const char *second) {
    const struct outcome *outcome = run_it(setup);
    assert_int_equal(outcome->ending, ENDED_FAILED);
    if (strstr(outcome->why, first) == NULL || strstr(outcome->why, second) == NULL)
        fail_msg("\"%s\" does not say %s and %s", outcome->why, first, second);
}

static void what_can_not_be_loaded_is_said_by_name(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 1024 0\n");
    struct setup setup = setup_of_library(&trace, "no_such_alloc", NULL);
    expect_failure(&setup, "no_such_alloc", setup.library);
    setup = setup_of_library(&trace, "counting_alloc", "no_such_use");
    expect_failure(&setup, "no_such_use", setup.library);
    setup.free_symbol = "no_such_free";
    expect_failure(&setup, "no_such_free", setup.library);
    setup.library = "/no/such/library.so";
    expect_failure(&setup, "/no/such/library.so", "does not exist");
    setup.library = "/proc/self/maps";
    expect_failure(&setup, "/proc/self/maps", "can't be loaded");
    trace_free(&trace);
}

static void an_address_that_is_not_the_devices_fails_the_run(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 8388608 0\nf 1\n");
    struct setup setup = setup_of_library(&trace, "host_alloc", NULL);
    expect_failure(&setup, "line 2: ", "8388608 bytes");
    expect_failure(&setup, setup.library, "not memory of the device");
    setup.alloc_symbol = "short_alloc";
    expect_failure(&setup, "line 2: ", "not memory of the device");
    trace_free(&trace);
}

/* Blocks of 4096 bytes and a few, at as many KiB as those are. */
static void a_block_where_another_one_is_live_fails_the_run(void **state) {
    (void)state;
    static const struct {
        const char *lines, *first, *second;
    } cases[] = {
        {"m 1 4106 0\nm 2 4106 0\n", "line 3: ", "the block of line 2 is live (4106 bytes"},
        {"m 1 4106 0\nm 2 4114 0\nm 3 4098 0\nm 4 4115 0\n", "line 5: ", "line 3 is live (4114 bytes"},
        {"m 1 4106 0\nm 2 4114 0\nm 3 4098 0\nm 4 4097 0\n", "line 5: ", "line 4 is live (4098 bytes"},
        {"m 1 4106 0\nm 2 4114 0\nf 1\nm 3 4107 0\nm 4 4108 0\n", "line 6: ", "line 5 is live (4107 bytes"},
        {"m 1 4106 0\nm 2 12298 0\n", "line 3: ", "line 2 is live (4106 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trace trace = trace_of(cases[i].lines);
        struct setup setup = setup_of_library(&trace, "inner_alloc", NULL);
        setup.free_symbol = "counting_use";
        expect_failure(&setup, cases[i].first, cases[i].second);
        trace_free(&trace);
    }
    struct trace trace = trace_of("m 1 4106 0\nm 2 4116 0\nf 1\nm 3 4106 0\nf 2\nm 4 4116 0\n");
    struct setup setup = setup_of_library(&trace, "inner_alloc", NULL);
    setup.free_symbol = "counting_use";
    assert_completed(run_it(&setup));
    trace_free(&trace);
}

/* ---- peers ------------------------------------------------------------------------------------------------------ */

/* Ten iterations of what a training step does, on two streams. */
static struct trace steps(void) {
    char text[20000];
    int length = 0;
    for (int i = 0; i < 10; i++)
        length += snprintf(
            text + length, sizeof text - (size_t)length,
            "i\nm %d 8388608 0\nm %d 4194304 1\nk 1 50\ne 1 1\nw 1 0\nu %d 0\nk 0 300\nf %d\nk 0 10\nf %d\ns 0\n",
            2 * i, 2 * i + 1, 2 * i + 1, 2 * i + 1, 2 * i);
    return trace_of(text);
}

static void peers_complete_and_hold_what_they_should(void **state) {
    (void)state;
    struct trace trace = steps();
    const struct setup plain = setup_of_peer(&trace, "plain", "weir_peer_use");
    const struct outcome *outcome = run_it(&plain);
    assert_completed(outcome);
    assert_int_equal(outcome->peak_held_bytes, 12 * MIB); /* gives all back, at once */
    assert_int_equal(outcome->memory_calls, 40);
    assert_int_equal(outcome->memory_calls_steady, 32);
    const uint64_t plain_ns = outcome->steady_ns;

    const struct setup async = setup_of_peer(&trace, "async", NULL);
    outcome = run_it(&async);
    assert_completed(outcome);
    assert_true(outcome->peak_held_bytes >= 12 * MIB && outcome->peak_held_bytes <= 24 * MIB); /* keeps it */
    assert_int_equal(outcome->memory_calls, 40);
    assert_int_equal(outcome->uses_not_told, 10);
    assert_true(outcome->steady_ns < plain_ns); /* frees of its do not wait for the device */
    trace_free(&trace);
}

static void a_small_device_is_no_less_for_peers(void **state) {
    (void)state;
    struct trace trace = steps();
    struct setup setup = setup_of_peer(&trace, "plain", "weir_peer_use");
    setup.capacity_bytes = 12 * MIB;
    assert_completed(run_it(&setup));
    setup.capacity_bytes = 10 * MIB;
    assert_int_equal(run_it(&setup)->ending, ENDED_OUT_OF_MEMORY);
    trace_free(&trace);
}

#define plugin_test(function) cmocka_unit_test_setup(function, forget_seen)

int main(void) {
    const struct CMUnitTest tests[] = {
        plugin_test(each_request_free_and_use_comes_to_it),
        plugin_test(without_a_use_function_the_stream_waits_for_uses_before_the_free),
        plugin_test(a_use_that_is_not_told_still_keeps_the_block),
        plugin_test(a_free_after_an_event_waits_for_it_on_the_allocations_stream),
        plugin_test(no_memory_is_out_of_memory_with_its_line),
        plugin_test(the_capacity_is_the_devices),
        plugin_test(a_crash_is_the_runs_end_and_not_the_programs),
        plugin_test(what_can_not_be_loaded_is_said_by_name),
        plugin_test(an_address_that_is_not_the_devices_fails_the_run),
        plugin_test(a_block_where_another_one_is_live_fails_the_run),
        plugin_test(peers_complete_and_hold_what_they_should),
        plugin_test(a_small_device_is_no_less_for_peers),
    };
    return cmocka_run_group_tests(tests, share_seen, NULL);
}
