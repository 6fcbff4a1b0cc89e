/* SPDX-License-Identifier: Apache-2.0 */
/* The legacy default stream waits for every blocking stream and holds them back; non-blocking streams are apart. */
#include "tests/device/machine.h"

struct streams {
    CUstream blocking, other_blocking;
    weir_stream apart;
    struct gate gate;
    atomic_int done;
};

static struct streams make(struct weir_device *device) {
    struct streams made = {.gate = GATE_INITIALIZER};
    const struct weir__driver *driver = enter(device);
    assert_code(CUDA_SUCCESS, driver->stream_create(&made.blocking, CU_STREAM_DEFAULT));
    assert_code(CUDA_SUCCESS, driver->stream_create(&made.other_blocking, CU_STREAM_DEFAULT));
    weir__device_leave(device);
    assert_ok(weir_stream_create(device, &made.apart));
    return made;
}

static void unmake(struct weir_device *device, struct streams *made) {
    assert_ok(weir_stream_destroy(device, made->blocking));
    assert_ok(weir_stream_destroy(device, made->other_blocking));
    assert_ok(weir_stream_destroy(device, made->apart));
}

static void must_be_first(void *argument) { assert_int_equal(atomic_fetch_add((atomic_int *)argument, 1), 0); }
static void must_be_second(void *argument) { assert_int_equal(atomic_fetch_add((atomic_int *)argument, 1), 1); }

static void work_on_it_waits_for_all_blocking_streams(void **state) {
    struct weir_device *device = *state;
    struct streams streams = make(device);
    hold(device, &streams.gate, streams.blocking);
    submit(device, must_be_first, &streams.done, streams.blocking);
    submit(device, must_be_second, &streams.done, NULL);
    open_gate(&streams.gate);
    assert_ok(weir_stream_synchronize(device, NULL));
    assert_int_equal(atomic_load(&streams.done), 2);
    unmake(device, &streams);
}

static void blocking_streams_wait_for_work_on_it(void **state) {
    struct weir_device *device = *state;
    struct streams streams = make(device);
    hold(device, &streams.gate, NULL);
    submit(device, must_be_first, &streams.done, NULL);
    submit(device, must_be_second, &streams.done, streams.other_blocking);
    open_gate(&streams.gate);
    assert_ok(weir_stream_synchronize(device, streams.other_blocking));
    assert_int_equal(atomic_load(&streams.done), 2);
    unmake(device, &streams);
}

static void it_joins_two_blocking_streams(void **state) {
    struct weir_device *device = *state;
    struct streams streams = make(device);
    hold(device, &streams.gate, streams.blocking);
    submit(device, must_be_first, &streams.done, streams.blocking);
    atomic_int between = 0;
    submit(device, bump, &between, NULL);
    submit(device, must_be_second, &streams.done, streams.other_blocking);
    open_gate(&streams.gate);
    assert_ok(weir_device_synchronize(device));
    assert_int_equal(atomic_load(&streams.done), 2);
    unmake(device, &streams);
}

static void a_destroyed_blocking_stream_is_waited_for_too(void **state) {
    struct weir_device *device = *state;
    struct streams streams = make(device);
    hold(device, &streams.gate, streams.blocking);
    submit(device, must_be_first, &streams.done, streams.blocking);
    assert_ok(weir_stream_destroy(device, streams.blocking));
    submit(device, must_be_second, &streams.done, NULL);
    open_gate(&streams.gate);
    assert_ok(weir_stream_synchronize(device, NULL));
    assert_int_equal(atomic_load(&streams.done), 2);
    assert_ok(weir_stream_destroy(device, streams.other_blocking));
    assert_ok(weir_stream_destroy(device, streams.apart));
}

static void non_blocking_streams_are_not_ordered_with_it(void **state) {
    struct weir_device *device = *state;
    struct streams streams = make(device);
    struct gate second = GATE_INITIALIZER;
    hold(device, &streams.gate, NULL);
    submit(device, bump, &streams.done, streams.apart);
    assert_ok(weir_stream_synchronize(device, streams.apart));
    assert_int_equal(atomic_load(&streams.done), 1);
    open_gate(&streams.gate);
    assert_ok(weir_stream_synchronize(device, NULL));

    hold(device, &second, streams.apart);
    submit(device, bump, &streams.done, CU_STREAM_LEGACY);
    assert_ok(weir_stream_synchronize(device, NULL));
    assert_int_equal(atomic_load(&streams.done), 2);
    open_gate(&second);
    assert_ok(weir_device_synchronize(device));
    unmake(device, &streams);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(work_on_it_waits_for_all_blocking_streams),
        device_test(blocking_streams_wait_for_work_on_it),
        device_test(it_joins_two_blocking_streams),
        device_test(a_destroyed_blocking_stream_is_waited_for_too),
        device_test(non_blocking_streams_are_not_ordered_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
