/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual clock: work takes what the profile says, engines are shared as it says, threads run one at a time, and a
 * run is a function of its inputs and its seed. Runs with WEIR_EMU=clock:virtual,profile:PATH of virtual_clock.profile
 * (round figures: 1 TFLOP/s, 1 GB/s each way and 0.5 together, a kernel 10 us, a launch 5 us, a call 1 us). */
#include "tests/device/machine.h"

#include <spawn.h>
#include <sys/wait.h>

enum { US = 1000, MS = 1000 * US, MIB = 1 << 20 };

static uint64_t now(struct weir_device *device) {
    uint64_t ns = 0;
    assert_code(CUDA_SUCCESS, device->driver->emu_now(&ns));
    return ns;
}

static void work_for(struct weir_device *device, weir_stream stream, double us) {
    const struct weir_emu_work work = {.size = sizeof work, .name = "work", .flops = (us - 10) * 1e6};
    const struct weir__driver *driver = enter(device);
    assert_code(CUDA_SUCCESS, driver->emu_submit(&work, stream));
    weir__device_leave(device);
}

static weir_stream new_stream(struct weir_device *device) {
    weir_stream stream;
    assert_ok(weir_stream_create(device, &stream));
    return stream;
}

/* The time from the first of `begin`'s record to `end`'s, in microseconds. */
struct span {
    weir_event begin, end;
};

static struct span new_span(struct weir_device *device) {
    struct span span;
    assert_ok(weir_event_create(device, true, &span.begin));
    assert_ok(weir_event_create(device, true, &span.end));
    return span;
}

static double microseconds(struct weir_device *device, struct span span) {
    float ms;
    assert_ok(weir_event_synchronize(device, span.end));
    assert_ok(weir_event_elapsed(device, span.begin, span.end, &ms));
    return 1e3 * (double)ms;
}

static void assert_near(double expected, double found) {
    if (found < expected * 0.99 - 0.5 || found > expected * 1.01 + 0.5)
        fail_msg("%.2f us instead of %.2f", found, expected);
}

/* ---- what work takes -------------------------------------------------------------------------------------------- */

static void a_kernel_takes_the_larger_of_its_arithmetic_and_its_bytes(void **state) {
    struct weir_device *device = *state;
    struct span span = new_span(device);
    weir_stream stream = new_stream(device);
    const struct weir_emu_work bound_by_memory = {.size = sizeof bound_by_memory, .flops = 1e6, .bytes = 1e6};
    const struct weir__driver *driver = enter(device);
    work_for(device, stream, 50); /* the host gets ahead */
    assert_ok(weir_event_record(device, span.begin, stream));
    work_for(device, stream, 100);
    assert_code(CUDA_SUCCESS, driver->emu_submit(&bound_by_memory, stream)); /* 10 us + 1e6 B at 10 GB/s */
    assert_ok(weir_event_record(device, span.end, stream));
    assert_near(100 + 110, microseconds(device, span));
    weir__device_leave(device);
}

static void kernels_of_two_streams_share_the_device(void **state) {
    struct weir_device *device = *state;
    weir_stream one = new_stream(device), two = new_stream(device);
    struct span first = new_span(device), second = new_span(device);
    assert_ok(weir_event_record(device, first.begin, one));
    assert_ok(weir_event_record(device, second.begin, two));
    work_for(device, one, 1000);
    work_for(device, two, 3000);
    assert_ok(weir_event_record(device, first.end, one));
    assert_ok(weir_event_record(device, second.end, two));
    assert_near(2000, microseconds(device, first)); /* half the device each, until the first is done */
    assert_near(4000, microseconds(device, second));
}

static void copies_of_one_direction_follow_one_another_and_both_ways_are_slower(void **state) {
    struct weir_device *device = *state;
    weir_stream one = new_stream(device), two = new_stream(device), back = new_stream(device);
    void *host;
    CUdeviceptr memory;
    const struct weir__driver *driver = enter(device);
    assert_ok(weir_host_alloc(device, 3 * MIB, &host));
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&memory, 3 * MIB));
    assert_code(CUDA_SUCCESS, driver->set_bytes(memory, 0, 3 * MIB, 0));
    assert_ok(weir_device_synchronize(device));

    struct span alone = new_span(device), queued = new_span(device), both = new_span(device);
    const size_t bytes = 1000 * US / 10; /* 100 us at 1 GB/s */
    void *to = (void *)(uintptr_t)memory;
    assert_ok(weir_event_record(device, alone.begin, one));
    assert_ok(weir_copy(device, to, host, 10 * bytes, one));
    assert_ok(weir_event_record(device, alone.end, one));
    assert_ok(weir_event_record(device, queued.begin, two));
    assert_ok(weir_copy(device, (char *)to + MIB, (char *)host + MIB, 10 * bytes, two));
    assert_ok(weir_event_record(device, queued.end, two));
    assert_near(1000, microseconds(device, alone));
    assert_near(2000, microseconds(device, queued));

    assert_ok(weir_event_record(device, both.begin, one));
    assert_ok(weir_copy(device, to, host, 10 * bytes, one));
    assert_ok(weir_copy(device, (char *)host + 2 * MIB, (char *)to + 2 * MIB, 5 * bytes, back));
    assert_ok(weir_event_record(device, both.end, one));
    assert_near(1500,
                microseconds(device, both)); /* half the rate for the 1,000 us that the other takes at half its own */
    weir__device_leave(device);
}

static void the_host_pays_for_its_calls_and_runs_ahead(void **state) {
    struct weir_device *device = *state;
    weir_stream stream = new_stream(device);
    const uint64_t begin = now(device);
    for (int i = 0; i < 100; i++) work_for(device, stream, 1000);
    const double submitting = (double)(now(device) - begin) / US;
    assert_near(100 * 3, submitting); /* push, launch and pop of the context: 1 us each */
    assert_ok(weir_stream_synchronize(device, stream));
    const double all = (double)(now(device) - begin) / US;
    if (all < 100 * 1000 || all > 100 * 1000 + 50) fail_msg("%.1f us", all);
}

static void a_full_launch_queue_holds_the_host_back(void **state) {
    struct weir_device *device = *state;
    weir_stream stream = new_stream(device);
    const uint64_t begin = now(device);
    for (int i = 0; i < 1024 + 100; i++) work_for(device, stream, 1000);
    const double submitting = (double)(now(device) - begin) / US;
    if (submitting < 99 * 1000 || submitting > 101 * 1000) fail_msg("%.1f us", submitting);
    assert_ok(weir_stream_synchronize(device, stream));
}

static void a_delay_comes_before_each_operation_of_its_stream(void **state) {
    struct weir_device *device = *state;
    weir_stream stream = new_stream(device);
    struct span span = new_span(device);
    const struct weir__driver *driver = enter(device);
    assert_ok(weir_event_record(device, span.begin, stream));
    assert_ok(weir_stream_synchronize(device, stream));
    assert_code(CUDA_SUCCESS, driver->emu_delay(stream, 500 * US));
    work_for(device, stream, 100);
    assert_ok(weir_event_record(device, span.end, stream));
    const double us = microseconds(device, span);
    if (us < 500 + 100 + 500 || us > 500 + 100 + 500 + 50) fail_msg("%.1f us", us);
    weir__device_leave(device);
}

static void memory_of_terabytes_costs_nothing(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    CUdeviceptr memory;
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&memory, (size_t)64 << 30));
    for (int i = 0; i < 100; i++) assert_code(CUDA_SUCCESS, driver->set_bytes(memory, 1, (size_t)64 << 30, 0));
    assert_ok(weir_device_synchronize(device));
    assert_true(now(device) > 600ull * 1000 * MS); /* 6.4 TB at 10 GB/s */
    assert_code(CUDA_SUCCESS, driver->memory_free(memory));
    weir__device_leave(device);
}

/* ---- waits that can't end, and gates ---------------------------------------------------------------------------- */

static void a_wait_that_nothing_can_end_is_an_error(void **state) {
    struct weir_device *device = *state;
    weir_stream stream = new_stream(device);
    struct weir_emu_gate *gate;
    const struct weir__driver *driver = enter(device);
    assert_code(CUDA_SUCCESS, driver->emu_gate_create(&gate, WEIR_EMU_GATE_PLAIN));
    assert_code(CUDA_SUCCESS, driver->emu_gate_hold(gate, stream));
    assert_code(CUDA_ERROR_LAUNCH_TIMEOUT, driver->stream_synchronize(stream));
    assert_code(CUDA_ERROR_NOT_READY, driver->stream_query(stream));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->emu_gate_destroy(gate)); /* it holds a stream */
    assert_code(CUDA_SUCCESS, driver->emu_gate_open(gate, 0));
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(stream));
    assert_code(CUDA_SUCCESS, driver->emu_gate_destroy(gate));
    assert_code(CUDA_ERROR_INVALID_HANDLE, driver->emu_gate_open(gate, 0));
    weir__device_leave(device);
}

static void a_gate_may_open_by_itself_when_the_host_waits(void **state) {
    struct weir_device *device = *state;
    weir_stream stream = new_stream(device);
    struct weir_emu_gate *gate;
    const struct weir__driver *driver = enter(device);
    assert_code(CUDA_SUCCESS, driver->emu_gate_create(&gate, WEIR_EMU_GATE_OPENS_WHEN_HOST_WAITS));
    assert_code(CUDA_SUCCESS, driver->emu_gate_hold(gate, stream));
    for (int i = 0; i < 1000; i++) assert_code(CUDA_ERROR_NOT_READY, driver->stream_query(stream));
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(stream));
    assert_code(CUDA_SUCCESS, driver->emu_gate_destroy(gate));
    weir__device_leave(device);
}

static void open_gate_later(void *argument) {
    void **pair = argument;
    struct weir_device *device = pair[0];
    if (device->driver->emu_gate_open(pair[1], 700 * US) != CUDA_SUCCESS) abort();
}

static void a_host_function_opens_a_gate_after_a_delay(void **state) {
    struct weir_device *device = *state;
    weir_stream one = new_stream(device), two = new_stream(device);
    struct weir_emu_gate *gate;
    struct span span = new_span(device);
    const struct weir__driver *driver = enter(device);
    assert_code(CUDA_SUCCESS, driver->emu_gate_create(&gate, WEIR_EMU_GATE_PLAIN));
    assert_code(CUDA_SUCCESS, driver->emu_gate_hold(gate, two));
    assert_ok(weir_event_record(device, span.end, two));
    void *pair[] = {device, gate};
    assert_ok(weir_event_record(device, span.begin, one));
    work_for(device, one, 300);
    assert_code(CUDA_SUCCESS, driver->host_function(one, open_gate_later, pair)); /* takes 20 us */
    assert_near(300 + 20 + 700, microseconds(device, span));
    assert_code(CUDA_SUCCESS, driver->emu_gate_destroy(gate));
    weir__device_leave(device);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static void *call_unregistered(void *argument) {
    struct weir_device *device = argument;
    int count;
    return (void *)(intptr_t)device->driver->device_count(&count);
}

static void a_thread_that_takes_no_part_is_refused(void **state) {
    pthread_t thread;
    void *code;
    assert_int_equal(pthread_create(&thread, NULL, call_unregistered, *state), 0);
    assert_int_equal(pthread_join(thread, &code), 0);
    assert_code(CUDA_ERROR_NOT_PERMITTED, (CUresult)(intptr_t)code);
}

enum { THREADS = 3, TURNS = 50 };

struct worker {
    struct weir_device *device;
    char name[24];
    int number;
    pthread_t thread;
};

static int order[THREADS * TURNS];
static size_t order_count; /* no lock: one thread runs at a time, which the thread sanitizer checks */

static void *take_turns(void *argument) {
    struct worker *worker = argument;
    const struct weir__driver *driver = worker->device->driver;
    weir_stream stream;
    if (driver->emu_thread_begin(worker->name, THREADS) != CUDA_SUCCESS) abort();
    if (weir_stream_create(worker->device, &stream) != WEIR_OK) abort();
    for (int i = 0; i < TURNS; i++) {
        work_for(worker->device, stream, 50 + 10 * worker->number);
        if (weir_stream_synchronize(worker->device, stream) != WEIR_OK) abort();
        order[order_count++] = worker->number;
    }
    driver->emu_thread_end();
    return NULL;
}

static uint64_t digest_of_turns(struct weir_device *device) {
    struct worker workers[THREADS];
    order_count = 0;
    assert_code(CUDA_SUCCESS, device->driver->emu_thread_end());
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.device = device, .number = i};
        snprintf(workers[i].name, sizeof workers[i].name, "worker %d", i);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, take_turns, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    assert_code(CUDA_SUCCESS, device->driver->emu_thread_begin("main", 1));
    assert_int_equal(order_count, THREADS * TURNS);
    uint64_t digest = now(device);
    for (size_t i = 0; i < order_count; i++) digest = digest * 31 + (unsigned)order[i];
    return digest;
}

static void threads_run_one_at_a_time(void **state) { digest_of_turns(*state); }

/* ---- the same again --------------------------------------------------------------------------------------------- */

/* What a run with a seed gives: its end, the order of its threads, its addresses. */
static int print_digest(void) {
    void *state = NULL;
    if (open_device(&state) != 0) return 1;
    struct weir_device *device = state;
    const struct weir__driver *driver = enter(device);
    uint64_t digest = digest_of_turns(device);
    for (int i = 0; i < 20; i++) {
        CUdeviceptr memory;
        assert_code(CUDA_SUCCESS, driver->memory_alloc(&memory, (size_t)(1 + i % 7) * MIB));
        if (i % 3 != 0) assert_code(CUDA_SUCCESS, driver->memory_free(memory));
        digest = digest * 31 + memory;
    }
    weir__device_leave(device);
    printf("%016llx\n", (unsigned long long)(digest * 31 + now(device)));
    return 0;
}

static void run_with_seed(int seed, char *digest, int room) {
    char command[4400], own[4096];
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    assert_true(length > 0);
    own[length] = '\0';
    snprintf(command, sizeof command, "WEIR_EMU=\"$WEIR_EMU,seed:%d,jitter:0.2\" '%s' digest", seed, own);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_non_null(fgets(digest, room, output));
    assert_int_equal(pclose(output), 0);
}

static void a_seed_gives_the_same_times_turns_and_addresses_again_and_another_seed_others(void **state) {
    (void)state;
    char first[32], again[32], other[32];
    run_with_seed(1, first, sizeof first);
    run_with_seed(1, again, sizeof again);
    run_with_seed(2, other, sizeof other);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "digest") == 0) return print_digest();
    const struct CMUnitTest tests[] = {
        device_test(a_kernel_takes_the_larger_of_its_arithmetic_and_its_bytes),
        device_test(kernels_of_two_streams_share_the_device),
        device_test(copies_of_one_direction_follow_one_another_and_both_ways_are_slower),
        device_test(the_host_pays_for_its_calls_and_runs_ahead),
        device_test(a_full_launch_queue_holds_the_host_back),
        device_test(a_delay_comes_before_each_operation_of_its_stream),
        device_test(memory_of_terabytes_costs_nothing),
        device_test(a_wait_that_nothing_can_end_is_an_error),
        device_test(a_gate_may_open_by_itself_when_the_host_waits),
        device_test(a_host_function_opens_a_gate_after_a_delay),
        device_test(a_thread_that_takes_no_part_is_refused),
        device_test(threads_run_one_at_a_time),
        device_test(a_seed_gives_the_same_times_turns_and_addresses_again_and_another_seed_others),
    };
    return cmocka_run_group_tests_name("virtual_clock", tests, NULL, NULL);
}
