/* SPDX-License-Identifier: Apache-2.0 */
/* weir's pool in a run: what it hears, what it is asked, what is told of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "runs.h"

/* ---- out of memory ---------------------------------------------------------------------------------------------- */

static void out_of_memory_names_the_line_and_what_filled_the_device(void **state) {
    (void)state;
    struct trace trace = trace_of("# stream 0 compute\nm 1 4194304 0\nk 0 1000\nm 2 4194304 0\nd\n");
    const struct setup setup = setup_of(&trace, TARGET_POOL, 3);
    const struct outcome outcome = run_one(&setup);
    assert_int_equal(outcome.ending, ENDED_OUT_OF_MEMORY);
    assert_int_equal(outcome.failed_line, 5);
    assert_non_null(strstr(outcome.report, "out of memory: 4.00 MiB for compute"));
    assert_int_equal(outcome.peak_held_bytes, 2 * PAGE);
    trace_free(&trace);
}

static void the_report_names_streams_by_the_ids_of_the_trace(void **state) {
    (void)state;
    struct trace trace = trace_of("k 4 1000\nm 1 4194304 9\nm 2 4194304 7\nd\n");
    const struct setup setup = setup_of(&trace, TARGET_POOL, 3);
    const struct outcome outcome = run_one(&setup);
    assert_int_equal(outcome.failed_line, 4);
    assert_non_null(strstr(outcome.report, "out of memory: 4.00 MiB for stream 7"));
    assert_non_null(strstr(outcome.report, "stream 9"));
    trace_free(&trace);
}

static void a_live_block_that_does_not_fit_is_out_of_memory_too(void **state) {
    (void)state;
    struct trace trace = trace_of("p 1 8388608 0\nk 0 1000\n");
    const struct setup setup = setup_of(&trace, TARGET_POOL, 3);
    const struct outcome outcome = run_one(&setup);
    assert_int_equal(outcome.ending, ENDED_OUT_OF_MEMORY);
    assert_int_equal(outcome.failed_line, 2);
    assert_int_equal(outcome.run_ns, 0);
    trace_free(&trace);
}

/* Two pages fit beside the first block, three don't. */
static void what_the_recorded_run_was_refused_is_asked_for_again(void **state) {
    (void)state;
    static const enum target_kind targets[] = {TARGET_POOL, TARGET_FLUID};
    struct trace trace = trace_of("i\ni\nm 1 4194304 0\n# refused 4194304 3\nm 2 4194304 0\nd\n");
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        const struct setup small = setup_of(&trace, targets[i], 3), enough = setup_of(&trace, targets[i], 4);
        const struct outcome refused = run_one(&small), served = run_one(&enough);
        assert_int_equal(refused.ending, ENDED_OUT_OF_MEMORY);
        assert_int_equal(refused.failed_line, 5);
        assert_int_equal(served.ending, ENDED_COMPLETED); /* freed at once, so the next one has its place */
        assert_string_equal(served.why, "");
    }
    const struct setup nothing = setup_of(&trace, TARGET_FREE, 1);
    assert_int_equal(run_one(&nothing).ending, ENDED_COMPLETED);
    trace_free(&trace);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* A page is 2 MiB. Behind a small block 3 MiB go on in its page, unless they are to begin with one. */
static void an_alignment_is_asked_for(void **state) {
    (void)state;
    const struct outcome plain = play("m 1 512 0\nm 2 3145728 0\na 2 512\n", TARGET_POOL, 4);
    const struct outcome strict = play("m 1 512 0\nm 2 3145728 0\na 2 2097152\n", TARGET_POOL, 4);
    assert_int_equal(plain.peak_held_bytes, 2 * PAGE);
    assert_int_equal(strict.peak_held_bytes, 3 * PAGE);
}

/* One page: whoever asks next must wait for every use that the free did not rule out. */
static void a_free_promises_what_its_line_says(void **state) {
    (void)state;
    static const char own[] = "m 1 2097152 0\nk 0 1000\nk 1 5000\nf 1\nm 2 2097152 0\nk 0 100\n";
    static const char any[] = "m 1 2097152 0\nk 0 1000\nk 1 5000\nf 1 *\nm 2 2097152 0\nk 0 100\n";
    static const char there[] = "m 1 2097152 0\nk 0 1000\nk 1 5000\nf 1 1\nm 2 2097152 0\nk 0 100\n";
    static const char after[] = "m 1 2097152 0\nk 0 1000\nk 1 5000\ne 1 1\nk 1 9000\nf 1 @1\nm 2 2097152 0\nk 0 100\n";
    const uint64_t own_ns = play(own, TARGET_POOL, 1).run_ns, any_ns = play(any, TARGET_POOL, 1).run_ns;
    const uint64_t there_ns = play(there, TARGET_POOL, 1).run_ns, after_ns = play(after, TARGET_POOL, 1).run_ns;
    assert_true(own_ns < 5100 * US); /* stream 0's work alone, while stream 1 is busy until some 5,000 us */
    assert_true(any_ns > 5100 * US && any_ns < 5200 * US);
    assert_true(there_ns > 5100 * US && there_ns < 5200 * US);
    assert_true(after_ns > 14000 * US && after_ns < 14200 * US); /* stream 1's own, which goes on meanwhile */
}

/* ---- addresses -------------------------------------------------------------------------------------------------- */

static struct outcome compared(const char *lines, bool deterministic) {
    struct trace trace = trace_of(lines);
    struct setup setup = setup_of(&trace, TARGET_POOL, 8);
    setup.deterministic = deterministic;
    const struct outcome outcome = run_one(&setup);
    assert_int_equal(outcome.ending, ENDED_COMPLETED);
    trace_free(&trace);
    return outcome;
}

/* Nothing may be recorded on a handle that is gone, or is another stream's by now. */
static void blocks_outlive_their_stream(void **state) {
    (void)state;
    static const char *const policies[] = {"latency", "footprint", "per-stream"};
    static const char *const lines[] = {
        "m 4 700 1\nm 5 700 1\nm 6 1 0\nx 0\nm 7 1 1\nf 6\nm 8 3000000 1\n",
        "m 0 700 2\nm 1 3000000 0\nm 3 3000000 1\nm 4 1 2\nm 5 3000000 0\nf 5\nx 2\nf 4\nm 6 1 0\nf 6 *\nm 7 1 0\n"
        "m 9 700 0\nm 10 3000000 1\nm 12 3000000 0\n"};
    for (size_t i = 0; i < 2 * sizeof policies / sizeof *policies; i++) {
        struct trace trace = trace_of(lines[i % 2]);
        struct setup setup = setup_of(&trace, TARGET_POOL, 10);
        setup.policy = policies[i / 2];
        const struct outcome outcome = run_one(&setup);
        assert_string_equal(outcome.why, ""); /* out of memory it may be */
        assert_int_not_equal(outcome.ending, ENDED_FAILED);
        trace_free(&trace);
    }
}

static void addresses_are_compared_with_those_recorded(void **state) {
    (void)state;
    /* The second block lies behind the first; of the third nothing is said. */
    struct outcome outcome = compared("m 1 1024 0\n# at 1 0\nm 2 2048 0\n# at 2 1024\nm 3 512 0\n", true);
    assert_int_equal(outcome.addresses_compared, 2);
    assert_int_equal(outcome.addresses_equal, 2);
    outcome = compared("m 1 1024 0\n# at 1 0\nm 2 2048 0\n# at 2 4096\n", true);
    assert_int_equal(outcome.addresses_compared, 2);
    assert_int_equal(outcome.addresses_equal, 1);
    outcome = compared("m 1 1024 0\n# at 1 0\n", false);
    assert_int_equal(outcome.addresses_compared, 0);
}

/* ---- blind ------------------------------------------------------------------------------------------------------ */

struct heard {
    unsigned records, destroyed_events, waits, destroyed_streams, synchronized_streams, synchronized_events, devices;
};

static void event_recorded(void *self, weir_event event, weir_stream stream) {
    (void)event;
    (void)stream;
    ((struct heard *)self)->records++;
}
static void event_destroyed(void *self, weir_event event) {
    (void)event;
    ((struct heard *)self)->destroyed_events++;
}
static void stream_waited(void *self, weir_stream stream, weir_event event) {
    (void)stream;
    (void)event;
    ((struct heard *)self)->waits++;
}
static void stream_destroyed(void *self, weir_stream stream) {
    (void)stream;
    ((struct heard *)self)->destroyed_streams++;
}
static void stream_synchronized(void *self, weir_stream stream) {
    (void)stream;
    ((struct heard *)self)->synchronized_streams++;
}
static void event_synchronized(void *self, weir_event event) {
    (void)event;
    ((struct heard *)self)->synchronized_events++;
}
static void device_synchronized(void *self) { ((struct heard *)self)->devices++; }

/* An observer of the run's device. The machine's settings are those with which a process opens it first, so all this
 * happens in a child. */
static struct heard hear(bool blind) {
    struct heard *heard = mmap(NULL, sizeof *heard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(heard != MAP_FAILED);
    const pid_t process = fork();
    if (process == 0) {
        struct weir_device_options options = {
            .size = sizeof options, .machine = "emulated", .emu = "memory:unbacked,clock:virtual,watch:off"};
        struct weir_device *device;
        struct weir__observer observer = {.event_recorded = event_recorded,
                                          .event_destroyed = event_destroyed,
                                          .stream_waited = stream_waited,
                                          .stream_destroyed = stream_destroyed,
                                          .stream_synchronized = stream_synchronized,
                                          .event_synchronized = event_synchronized,
                                          .device_synchronized = device_synchronized,
                                          .self = heard};
        if (weir_device_open(&options, &device) != WEIR_OK) _exit(1);
        device->observers = &observer;
        struct trace trace = trace_of("k 0 1\ne 1 0\nw 1 1\nh 1\ns 0\nd\ny 1\nx 0\n");
        struct setup setup = setup_of(&trace, TARGET_FREE, 1);
        setup.blind = blind;
        struct outcome outcome;
        run_here(&setup, &outcome);
        _exit(outcome.ending == ENDED_COMPLETED ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    struct heard copy = *heard;
    copy.devices--; /* to close a device is to wait for it */
    munmap(heard, sizeof *heard);
    return copy;
}

static void the_pool_hears_of_the_program_s_order(void **state) {
    (void)state;
    const struct heard heard = hear(false), all = {1, 1, 1, 1, 1, 1, 1};
    assert_memory_equal(&heard, &all, sizeof heard);
}

static void a_blind_one_hears_of_nothing(void **state) {
    (void)state;
    const struct heard heard = hear(true), nothing = {0};
    assert_memory_equal(&heard, &nothing, sizeof heard);
}

/* Who can't name an event says that its stream uses the block. */
static void a_blind_free_after_an_event_is_after_its_stream(void **state) {
    (void)state;
    struct trace trace = trace_of("m 1 2097152 0\nk 1 1000\ne 1 1\nk 1 5000\nf 1 @1\nm 2 2097152 0\nk 0 100\nd\n");
    struct setup setup = setup_of(&trace, TARGET_POOL, 1);
    const struct outcome told = run_one(&setup);
    setup.blind = true;
    const struct outcome blind = run_one(&setup);
    assert_int_equal(told.ending, ENDED_COMPLETED);
    assert_int_equal(blind.ending, ENDED_COMPLETED);
    assert_true(told.run_ns < 6100 * US);  /* beside the 5,000 us */
    assert_true(blind.run_ns > 6100 * US); /* behind them */
    trace_free(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_memory_names_the_line_and_what_filled_the_device),
        cmocka_unit_test(the_report_names_streams_by_the_ids_of_the_trace),
        cmocka_unit_test(a_live_block_that_does_not_fit_is_out_of_memory_too),
        cmocka_unit_test(what_the_recorded_run_was_refused_is_asked_for_again),
        cmocka_unit_test(an_alignment_is_asked_for),
        cmocka_unit_test(a_free_promises_what_its_line_says),
        cmocka_unit_test(blocks_outlive_their_stream),
        cmocka_unit_test(addresses_are_compared_with_those_recorded),
        cmocka_unit_test(the_pool_hears_of_the_program_s_order),
        cmocka_unit_test(a_blind_one_hears_of_nothing),
        cmocka_unit_test(a_blind_free_after_an_event_is_after_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
