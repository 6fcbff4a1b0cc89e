/* SPDX-License-Identifier: Apache-2.0 */
/* Under the virtual clock a recording says what each piece of work takes, as the machine's profile has it: the same time
 * that passes in the run itself. On a real clock nobody knows it beforehand, and nothing is said. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/emulated.h"
#include "support.h"
#include "tools/trace/trace.h"

static char path[] = "/tmp/weir_trace_work_XXXXXX";

static void nothing(void *argument) { (void)argument; }

/* One stream, one thing after the other. */
static void queue_work(struct weir_device *device, char *block, char *host, weir_stream stream) {
    const struct weir_access access = {block, 64 * PAGE, true};
    const struct weir_work kernel = {
        .name = "kernel", .run = nothing, .accesses = &access, .access_count = 1, .flops = 1e10, .bytes = 1e7};
    OK(weir_device_submit(device, &kernel, stream));
    OK(weir_set(device, block, 1, 32 * PAGE, stream));
    OK(weir_copy(device, block + 32 * PAGE, block, 32 * PAGE, stream));
    OK(weir_copy(device, host, block, 32 * PAGE, stream));
    OK(weir_copy(device, block, host, 32 * PAGE, stream));
    OK(weir_copy(device, block, host, 0, stream)); /* takes nothing, and is no line */
}

/* What passes between two events around the work, in the run itself. */
static float record(const char *emu) {
    struct weir_device *device;
    struct weir_pool *pool;
    weir_stream stream;
    weir_event begin, end;
    void *block, *host;
    float ms;
    struct weir_device_options machine = {.size = sizeof machine, .machine = "emulated", .emu = emu};
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = 128 * PAGE, .trace_path = path};
    OK(weir_device_open(&machine, &device));
    OK(weir_pool_create(device, &options, &pool));
    OK(weir_stream_create(device, &stream));
    OK(weir_event_create(device, true, &begin));
    OK(weir_event_create(device, true, &end));
    OK(weir_pool_alloc(pool, 64 * PAGE, stream, &block));
    OK(weir_host_alloc(device, 32 * PAGE, &host));
    OK(weir_event_record(device, begin, stream));
    queue_work(device, block, host, stream);
    OK(weir_event_record(device, end, stream));
    OK(weir_event_synchronize(device, end));
    OK(weir_event_elapsed(device, begin, end, &ms));
    OK(weir_host_free(device, host));
    OK(weir_pool_free(pool, block, stream));
    OK(weir_event_destroy(device, begin));
    OK(weir_event_destroy(device, end));
    OK(weir_stream_destroy(device, stream));
    weir_pool_destroy(pool);
    weir_device_close(device);
    return ms;
}

static struct trace read_back(void) {
    struct trace trace;
    char why[512];
    if (!trace_read(path, &trace, why, sizeof why)) fail_msg("%s", why);
    assert_string_equal(trace.origin.profile, "demo");
    return trace;
}

static double work_ms(const struct trace *trace, size_t *pieces) {
    double ms = 0;
    *pieces = 0;
    for (size_t i = 0; i < trace->op_count; i++) {
        if (trace->ops[i].kind != OP_WORK) continue;
        ms += (double)trace->ops[i].ns / 1e6;
        ++*pieces;
    }
    return ms;
}

static void record_under_the_virtual_clock(void) {
    const float ms = record("profile:demo,clock:virtual,capacity:16M");
    struct trace trace = read_back();
    size_t pieces;
    const double sum = work_ms(&trace, &pieces);
    assert_int_equal(pieces, 5);
    assert_true(trace.has_work);
    if (sum > (double)ms || sum < 0.95 * (double)ms) fail_msg("%f ms of work in a run of %f ms", sum, (double)ms);
    trace_free(&trace);
}

static void record_on_the_real_clock(void) {
    record("profile:demo,clock:real,capacity:16M");
    struct trace trace = read_back();
    size_t pieces;
    work_ms(&trace, &pieces);
    assert_int_equal(pieces, 0);
    assert_false(trace.has_work);
    trace_free(&trace);
}

/* The machine's settings are those of a process. */
static void in_child(void (*test)(void)) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        test();
        exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void work_takes_in_the_trace_what_it_took_in_the_run(void **state) {
    (void)state;
    in_child(record_under_the_virtual_clock);
}

static void on_a_real_clock_no_work_is_recorded(void **state) {
    (void)state;
    in_child(record_on_the_real_clock);
}

static int make_file(void **state) {
    (void)state;
    const int descriptor = mkstemp(path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_takes_in_the_trace_what_it_took_in_the_run),
        cmocka_unit_test(on_a_real_clock_no_work_is_recorded),
    };
    return cmocka_run_group_tests_name("trace work", tests, make_file, remove_file);
}
