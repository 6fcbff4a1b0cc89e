/* SPDX-License-Identifier: Apache-2.0 */
/* A process that ends with work queued, blocks live and streams open ends with its own status: no hang, no crash. */
#include "tests/device/machine.h"

#include <sys/wait.h>

enum { SECONDS = 120, GRANULE = 16 * 1024 };

static struct weir_device *device;
static struct gate never_opened = GATE_INITIALIZER;
static atomic_int done;

static void open_it(void) {
    void *state = NULL;
    if (open_device(&state) != 0) exit(9);
    device = state;
}

/* Programs free and close in their exit handlers, with work still pending. */
static void call_at_exit(void) {
    weir_stream stream;
    assert_ok(weir_stream_create(device, &stream));
    assert_ok(weir_stream_destroy(device, stream));
}

static void leave_with_work_queued_and_running(void) {
    open_it();
    weir_stream held, busy;
    CUdeviceptr block, other;
    atexit(call_at_exit);
    assert_ok(weir_stream_create(device, &held));
    assert_ok(weir_stream_create(device, &busy));
    assert_code(CUDA_SUCCESS, enter(device)->memory_alloc(&block, 64 * GRANULE));
    assert_code(CUDA_SUCCESS, device->driver->memory_alloc(&other, 64 * GRANULE));
    hold(device, &never_opened, held);
    for (int i = 0; i < 100; i++) {
        assert_ok(weir_set(device, (void *)(uintptr_t)block, 1, 64 * GRANULE, held));
        assert_ok(weir_set(device, (void *)(uintptr_t)other, 2, 64 * GRANULE, busy));
        submit(device, bump, &done, NULL);
    }
    await_gate(&never_opened);
    exit(7);
}

static void fill_queue(void *argument) {
    (void)argument;
    for (;;) submit(device, bump, &done, NULL);
}

static void leave_with_a_thread_blocked_in_a_full_queue(void) {
    open_it();
    struct caller caller;
    hold(device, &never_opened, NULL);
    start_call(&caller, fill_queue, NULL);
    exit(blocks(&caller) ? 7 : 8);
}

static void assert_ends_with_7(void (*program)(void)) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(SECONDS); /* a hang ends with a signal */
        program();
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void a_process_with_work_queued_and_running_ends_with_its_own_status(void **state) {
    (void)state;
    for (int times = 0; times < 5; times++) assert_ends_with_7(leave_with_work_queued_and_running);
}

static void a_process_with_a_thread_blocked_in_a_launch_ends_with_its_own_status(void **state) {
    (void)state;
    assert_ends_with_7(leave_with_a_thread_blocked_in_a_full_queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_with_work_queued_and_running_ends_with_its_own_status),
        cmocka_unit_test(a_process_with_a_thread_blocked_in_a_launch_ends_with_its_own_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
