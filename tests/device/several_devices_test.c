/* SPDX-License-Identifier: Apache-2.0 */
/* Several devices in one process are apart: capacity, streams and contexts; memory moves between them.
 * Runs with WEIR_EMU=devices:2,capacity:1M. */
#include "tests/device/machine.h"

enum { MIB = 1 << 20, GRANULE = 16 * 1024 };

struct pair {
    struct weir_device *first, *second;
};

static struct weir_device *open_number(int ordinal) {
    const struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .ordinal = ordinal};
    struct weir_device *device;
    assert_ok(weir_device_open(&options, &device));
    return device;
}

static struct pair open_both(void) { return (struct pair){open_number(0), open_number(1)}; }

static void close_both(struct pair *pair) {
    weir_device_close(pair->first);
    weir_device_close(pair->second);
}

static CUdeviceptr alloc(struct weir_device *device, size_t bytes) {
    CUdeviceptr block;
    assert_code(CUDA_SUCCESS, enter(device)->memory_alloc(&block, bytes));
    weir__device_leave(device);
    return block;
}

static void release(struct weir_device *device, CUdeviceptr block) {
    assert_code(CUDA_SUCCESS, enter(device)->memory_free(block));
    weir__device_leave(device);
}

static void each_device_has_its_own_capacity(void **state) {
    (void)state;
    struct pair both = open_both();
    size_t left, total;
    const CUdeviceptr block = alloc(both.first, MIB);
    assert_ok(weir_device_memory(both.first, &left, &total));
    assert_int_equal(left, 0);
    assert_ok(weir_device_memory(both.second, &left, &total));
    assert_int_equal(left, MIB);
    assert_int_equal(total, MIB);
    release(both.first, block);
    close_both(&both);
}

static void a_device_that_does_not_exist_is_named(void **state) {
    (void)state;
    const struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .ordinal = 2};
    struct weir_device *device;
    assert_int_equal(weir_device_open(&options, &device), WEIR_NO_DEVICE);
    assert_null(device);
    assert_string_equal(weir_last_error()->message, "device 2 does not exist: the driver has 2, numbered from 0");
}

static void a_device_opened_twice_is_the_same_until_both_close_it(void **state) {
    (void)state;
    struct weir_device *first = open_number(0), *again = open_number(0);
    assert_ptr_equal(first, again);
    weir_device_close(first);
    assert_ok(weir_device_synchronize(again));
    weir_device_close(again);
}

static void a_call_restores_the_context_that_was_current(void **state) {
    (void)state;
    struct pair both = open_both();
    CUcontext current;
    const struct weir__driver *driver = enter(both.second);
    assert_ok(weir_device_synchronize(both.first));
    assert_code(CUDA_SUCCESS, driver->context_current(&current));
    assert_ptr_equal(current, both.second->context);
    weir__device_leave(both.second);
    assert_code(CUDA_SUCCESS, driver->context_current(&current));
    assert_null(current);
    assert_code(CUDA_ERROR_INVALID_CONTEXT, driver->context_synchronize());
    close_both(&both);
}

static void a_stream_waits_for_an_event_of_another_device(void **state) {
    (void)state;
    struct pair both = open_both();
    struct gate gate = GATE_INITIALIZER;
    weir_stream from, to;
    weir_event event;
    const CUdeviceptr source = alloc(both.first, GRANULE), target = alloc(both.second, GRANULE);
    assert_ok(weir_stream_create(both.first, &from));
    assert_ok(weir_stream_create(both.second, &to));
    assert_ok(weir_event_create(both.first, false, &event));
    hold(both.first, &gate, from);
    assert_ok(weir_set(both.first, (void *)(uintptr_t)source, 5, GRANULE, from));
    assert_ok(weir_event_record(both.first, event, from));
    assert_ok(weir_stream_wait(both.second, to, event));
    assert_ok(weir_copy(both.second, (void *)(uintptr_t)target, (void *)(uintptr_t)source, GRANULE, to));
    assert_int_equal(weir_event_record(both.second, event, to), WEIR_DRIVER); /* an event of the other device */
    open_gate(&gate);
    assert_ok(weir_stream_synchronize(both.second, to));
    assert_int_equal(((unsigned char *)(uintptr_t)target)[GRANULE - 1], 5);
    assert_ok(weir_event_destroy(both.first, event));
    assert_ok(weir_stream_destroy(both.first, from));
    assert_ok(weir_stream_destroy(both.second, to));
    release(both.first, source);
    release(both.second, target);
    close_both(&both);
}

static void waiting_for_one_device_does_not_wait_for_the_other(void **state) {
    (void)state;
    struct pair both = open_both();
    struct gate gate = GATE_INITIALIZER;
    hold(both.first, &gate, NULL);
    await_gate(&gate);
    assert_ok(weir_device_synchronize(both.second));
    open_gate(&gate);
    close_both(&both);
}

static void closing_a_device_ends_what_its_context_owns(void **state) {
    (void)state;
    struct weir_device *device = open_number(0);
    const struct weir__driver *driver = device->driver;
    struct gate gate = GATE_INITIALIZER;
    atomic_int done = 0;
    weir_stream stream;
    weir_event event;
    size_t left, total;
    assert_ok(weir_stream_create(device, &stream));
    assert_ok(weir_event_create(device, false, &event));
    alloc(device, MIB);
    hold(device, &gate, stream);
    submit(device, bump, &done, stream);
    open_gate(&gate);
    weir_device_close(device);
    assert_int_equal(atomic_load(&done), 1);
    assert_code(CUDA_ERROR_INVALID_HANDLE, driver->stream_destroy(stream));
    assert_code(CUDA_ERROR_INVALID_HANDLE, driver->event_destroy(event));
    device = open_number(0);
    assert_ok(weir_device_memory(device, &left, &total));
    assert_int_equal(left, total);
    weir_device_close(device);
}

struct ending {
    struct weir_device *device;
    atomic_int done;
    int done_at_return;
};

static void release_context(void *argument) {
    struct ending *ending = argument;
    assert_code(CUDA_SUCCESS, ending->device->driver->primary_context_release(ending->device->handle));
    ending->done_at_return = atomic_load(&ending->done);
}

static void the_last_release_of_a_context_waits_for_its_work(void **state) {
    (void)state;
    struct ending ending = {.device = open_number(0)};
    struct gate gate = GATE_INITIALIZER;
    struct caller caller;
    CUcontext context;
    hold(ending.device, &gate, NULL);
    submit(ending.device, bump, &ending.done, NULL);
    start_call(&caller, release_context, &ending);
    assert_true(blocks(&caller));
    open_gate(&gate);
    finish_call(&caller);
    assert_int_equal(ending.done_at_return, 1);
    assert_code(CUDA_ERROR_INVALID_CONTEXT, ending.device->driver->context_push(ending.device->context));
    assert_code(CUDA_SUCCESS, ending.device->driver->primary_context_retain(&context, ending.device->handle));
    weir_device_close(ending.device);
}

static void the_device_says_what_it_is(void **state) {
    (void)state;
    struct weir_device *device = open_number(1);
    struct weir_device_info info = {.size = sizeof info};
    assert_ok(weir_device_get_info(device, &info));
    assert_true(info.emulated);
    assert_int_equal(info.ordinal, 1);
    assert_int_equal(info.capacity_bytes, MIB);
    assert_int_equal(info.granularity_bytes, GRANULE);
    assert_string_equal(info.profile, "demo");
    assert_non_null(strstr(info.name, "scale model"));
    assert_true(info.numa_node == 0 || info.numa_node == -1);
    info.size = sizeof info + 1;
    assert_int_equal(weir_device_get_info(device, &info), WEIR_INVALID);
    weir_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_device_has_its_own_capacity),
        cmocka_unit_test(a_device_that_does_not_exist_is_named),
        cmocka_unit_test(a_device_opened_twice_is_the_same_until_both_close_it),
        cmocka_unit_test(a_call_restores_the_context_that_was_current),
        cmocka_unit_test(a_stream_waits_for_an_event_of_another_device),
        cmocka_unit_test(waiting_for_one_device_does_not_wait_for_the_other),
        cmocka_unit_test(closing_a_device_ends_what_its_context_owns),
        cmocka_unit_test(the_last_release_of_a_context_waits_for_its_work),
        cmocka_unit_test(the_device_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
