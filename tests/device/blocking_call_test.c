/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls block the host, and which return at once. */
#include "tests/device/machine.h"

enum { ROOM = 1024, BYTES = 64 * 1024 };

struct push {
    struct weir_device *device;
    weir_stream stream;
    int times;
    atomic_int pushed, done;
};

static void push_work(void *argument) {
    struct push *push = argument;
    for (int i = 0; i < push->times; i++) {
        submit(push->device, bump, &push->done, push->stream);
        atomic_fetch_add(&push->pushed, 1);
    }
}

static void a_launch_into_a_full_queue_blocks_until_there_is_room(void **state) {
    struct weir_device *device = *state;
    struct gate gate = GATE_INITIALIZER;
    struct push push = {.device = device, .times = 2 * ROOM};
    struct caller caller;
    assert_ok(weir_stream_create(device, &push.stream));
    hold(device, &gate, push.stream);
    start_call(&caller, push_work, &push);
    assert_true(blocks(&caller));
    assert_int_equal(atomic_load(&push.pushed), ROOM - 1); /* the gate holds one place */
    open_gate(&gate);
    finish_call(&caller);
    assert_ok(weir_stream_synchronize(device, push.stream));
    assert_int_equal(atomic_load(&push.done), 2 * ROOM);
    assert_ok(weir_stream_destroy(device, push.stream));
}

static void a_full_queue_blocks_records_and_waits_but_no_other_stream(void **state) {
    struct weir_device *device = *state;
    struct gate gate = GATE_INITIALIZER;
    struct push full = {.device = device, .times = ROOM}, other = {.device = device, .times = 10};
    struct caller caller;
    weir_event event;
    assert_ok(weir_event_create(device, false, &event));
    assert_ok(weir_stream_create(device, &full.stream));
    assert_ok(weir_stream_create(device, &other.stream));
    hold(device, &gate, full.stream);
    for (int i = 0; i < ROOM / 2 - 1; i++) {
        assert_ok(weir_event_record(device, event, full.stream));
        assert_ok(weir_stream_wait(device, full.stream, event));
    }
    start_call(&caller, push_work, &full);
    assert_true(blocks(&caller));
    assert_int_equal(atomic_load(&full.pushed), 1);
    push_work(&other);
    assert_ok(weir_stream_synchronize(device, other.stream));
    open_gate(&gate);
    finish_call(&caller);
    assert_ok(weir_device_synchronize(device));
    assert_int_equal(atomic_load(&full.done), ROOM);
    assert_ok(weir_event_destroy(device, event));
    assert_ok(weir_stream_destroy(device, full.stream));
    assert_ok(weir_stream_destroy(device, other.stream));
}

struct memory {
    struct weir_device *device;
    weir_stream stream;
    CUdeviceptr block;
    void *host;
    atomic_int done;
    int done_at_return;
};

static void free_block(void *argument) {
    struct memory *memory = argument;
    const struct weir__driver *driver = enter(memory->device);
    assert_code(CUDA_SUCCESS, driver->memory_free(memory->block));
    memory->done_at_return = atomic_load(&memory->done);
    weir__device_leave(memory->device);
}

static void copy_out(void *argument) {
    struct memory *memory = argument;
    assert_ok(weir_copy(memory->device, memory->host, (void *)(uintptr_t)memory->block, BYTES, memory->stream));
    memory->done_at_return = atomic_load(&memory->done);
}

static struct memory make(struct weir_device *device) {
    struct memory made = {.device = device, .done_at_return = -1};
    const struct weir__driver *driver = enter(device);
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&made.block, BYTES));
    weir__device_leave(device);
    assert_ok(weir_stream_create(device, &made.stream));
    return made;
}

static void a_plain_free_waits_for_the_work_of_every_stream(void **state) {
    struct memory memory = make(*state);
    struct gate gate = GATE_INITIALIZER;
    struct caller caller;
    hold(*state, &gate, memory.stream);
    assert_ok(weir_set(*state, (void *)(uintptr_t)memory.block, 7, BYTES, memory.stream)); /* would fault if too late */
    submit(*state, bump, &memory.done, memory.stream);
    start_call(&caller, free_block, &memory);
    assert_true(blocks(&caller));
    open_gate(&gate);
    finish_call(&caller);
    assert_int_equal(memory.done_at_return, 1);
    assert_ok(weir_stream_destroy(*state, memory.stream));
}

static void a_copy_to_pageable_memory_is_over_when_it_returns(void **state) {
    struct memory memory = make(*state);
    struct gate gate = GATE_INITIALIZER;
    struct caller caller;
    memory.host = calloc(1, BYTES);
    hold(*state, &gate, memory.stream);
    submit(*state, bump, &memory.done, memory.stream);
    assert_ok(weir_set(*state, (void *)(uintptr_t)memory.block, 7, BYTES, memory.stream));
    start_call(&caller, copy_out, &memory);
    assert_true(blocks(&caller));
    open_gate(&gate);
    finish_call(&caller);
    assert_int_equal(memory.done_at_return, 1);
    assert_int_equal(((unsigned char *)memory.host)[BYTES - 1], 7);
    free(memory.host);
    free_block(&memory);
    assert_ok(weir_stream_destroy(*state, memory.stream));
}

/* The gate is still closed when the call returns; a call that waited would never return. */
static void copy_behind_a_gate(struct memory *memory) {
    struct gate gate = GATE_INITIALIZER;
    hold(memory->device, &gate, memory->stream);
    assert_ok(weir_set(memory->device, (void *)(uintptr_t)memory->block, 9, BYTES, memory->stream));
    copy_out(memory);
    assert_int_equal(((unsigned char *)memory->host)[0], 0);
    open_gate(&gate);
    assert_ok(weir_stream_synchronize(memory->device, memory->stream));
    assert_int_equal(((unsigned char *)memory->host)[0], 9);
    assert_int_equal(((unsigned char *)memory->host)[BYTES - 1], 9);
}

static void a_copy_to_pinned_memory_returns_at_once(void **state) {
    struct memory memory = make(*state);
    assert_ok(weir_host_alloc(*state, BYTES, &memory.host));
    memset(memory.host, 0, BYTES);
    copy_behind_a_gate(&memory);
    assert_ok(weir_host_free(*state, memory.host));

    memory.host = calloc(1, BYTES);
    assert_ok(weir_host_register(*state, memory.host, BYTES));
    copy_behind_a_gate(&memory);
    assert_ok(weir_host_unregister(*state, memory.host));
    free(memory.host);
    free_block(&memory);
    assert_ok(weir_stream_destroy(*state, memory.stream));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(a_launch_into_a_full_queue_blocks_until_there_is_room),
        device_test(a_full_queue_blocks_records_and_waits_but_no_other_stream),
        device_test(a_plain_free_waits_for_the_work_of_every_stream),
        device_test(a_copy_to_pageable_memory_is_over_when_it_returns),
        device_test(a_copy_to_pinned_memory_returns_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
