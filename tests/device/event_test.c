/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a wait takes the latest record at the call, and nothing later; a record passes when its position is reached. */
#include "tests/device/machine.h"

struct two_streams {
    struct weir_device *device;
    weir_stream first, second;
    weir_event event;
    struct gate gate;
    atomic_int done;
};

static struct two_streams make(struct weir_device *device, bool timing) {
    struct two_streams made = {.device = device, .gate = GATE_INITIALIZER};
    assert_ok(weir_stream_create(device, &made.first));
    assert_ok(weir_stream_create(device, &made.second));
    assert_ok(weir_event_create(device, timing, &made.event));
    return made;
}

static void unmake(struct two_streams *made) {
    assert_ok(weir_event_destroy(made->device, made->event));
    assert_ok(weir_stream_destroy(made->device, made->first));
    assert_ok(weir_stream_destroy(made->device, made->second));
}

/* Sees on the second stream what the first one has done. */
static void see(void *argument) {
    struct two_streams *streams = argument;
    assert_int_equal(atomic_load(&streams->done), 1);
    atomic_store(&streams->done, 2);
}

static void a_wait_holds_later_work_until_the_record_is_reached(void **state) {
    struct two_streams streams = make(*state, false);
    hold(*state, &streams.gate, streams.first);
    submit(*state, bump, &streams.done, streams.first);
    assert_ok(weir_event_record(*state, streams.event, streams.first));
    assert_ok(weir_stream_wait(*state, streams.second, streams.event));
    submit(*state, see, &streams, streams.second);
    assert_int_equal(weir_event_query(*state, streams.event), WEIR_NOT_READY);
    open_gate(&streams.gate);
    assert_ok(weir_stream_synchronize(*state, streams.second));
    assert_int_equal(atomic_load(&streams.done), 2);
    assert_ok(weir_event_query(*state, streams.event));
    unmake(&streams);
}

static void an_event_that_was_never_recorded_holds_nothing_back(void **state) {
    struct two_streams streams = make(*state, false);
    hold(*state, &streams.gate, streams.first);
    assert_ok(weir_stream_wait(*state, streams.second, streams.event));
    submit(*state, bump, &streams.done, streams.second);
    assert_ok(weir_stream_synchronize(*state, streams.second));
    assert_ok(weir_event_query(*state, streams.event));
    assert_ok(weir_event_synchronize(*state, streams.event));
    open_gate(&streams.gate);
    assert_ok(weir_stream_synchronize(*state, streams.first));
    unmake(&streams);
}

static void a_wait_is_not_moved_by_a_later_record(void **state) {
    struct two_streams streams = make(*state, false);
    submit(*state, bump, &streams.done, streams.first);
    assert_ok(weir_event_record(*state, streams.event, streams.first));
    assert_ok(weir_stream_wait(*state, streams.second, streams.event));
    hold(*state, &streams.gate, streams.first);
    assert_ok(weir_event_record(*state, streams.event, streams.first)); /* behind the gate */
    submit(*state, see, &streams, streams.second);
    assert_ok(weir_stream_synchronize(*state, streams.second));
    assert_int_equal(weir_event_query(*state, streams.event), WEIR_NOT_READY);
    open_gate(&streams.gate);
    assert_ok(weir_event_synchronize(*state, streams.event));
    unmake(&streams);
}

static void a_wait_after_a_second_record_waits_for_the_second(void **state) {
    struct two_streams streams = make(*state, false);
    assert_ok(weir_event_record(*state, streams.event, streams.first));
    assert_ok(weir_stream_synchronize(*state, streams.first));
    hold(*state, &streams.gate, streams.first);
    submit(*state, bump, &streams.done, streams.first);
    assert_ok(weir_event_record(*state, streams.event, streams.first));
    assert_ok(weir_stream_wait(*state, streams.second, streams.event));
    submit(*state, see, &streams, streams.second);
    open_gate(&streams.gate);
    assert_ok(weir_stream_synchronize(*state, streams.second));
    assert_int_equal(atomic_load(&streams.done), 2);
    unmake(&streams);
}

static void a_wait_outlives_its_event(void **state) {
    struct two_streams streams = make(*state, false);
    weir_event other;
    hold(*state, &streams.gate, streams.first);
    submit(*state, bump, &streams.done, streams.first);
    assert_ok(weir_event_record(*state, streams.event, streams.first));
    assert_ok(weir_stream_wait(*state, streams.second, streams.event));
    submit(*state, see, &streams, streams.second);
    assert_ok(weir_event_destroy(*state, streams.event));

    /* the handle comes back, never recorded, while the old record is still pending */
    assert_ok(weir_event_create(*state, false, &other));
    assert_ptr_equal(other, streams.event);
    assert_ok(weir_event_query(*state, other));
    open_gate(&streams.gate);
    assert_ok(weir_stream_synchronize(*state, streams.second));
    assert_int_equal(atomic_load(&streams.done), 2);
    assert_ok(weir_event_query(*state, other));
    unmake(&streams);
}

static void a_host_synchronise_waits_for_the_record(void **state) {
    struct two_streams streams = make(*state, false);
    submit(*state, bump, &streams.done, streams.first);
    assert_ok(weir_event_record(*state, streams.event, streams.first));
    assert_ok(weir_event_synchronize(*state, streams.event));
    assert_int_equal(atomic_load(&streams.done), 1);
    unmake(&streams);
}

static void elapsed_time_is_that_between_two_passed_records(void **state) {
    struct two_streams streams = make(*state, true);
    weir_event end;
    float ms = -1.0f;
    assert_ok(weir_event_create(*state, true, &end));
    assert_int_equal(weir_event_elapsed(*state, streams.event, end, &ms), WEIR_DRIVER);
    assert_int_equal(weir_last_error()->driver_code, CUDA_ERROR_INVALID_HANDLE);
    assert_ok(weir_event_record(*state, streams.event, streams.first));
    hold(*state, &streams.gate, streams.first);
    assert_ok(weir_event_record(*state, end, streams.first));
    assert_int_equal(weir_event_elapsed(*state, streams.event, end, &ms), WEIR_NOT_READY);
    open_gate(&streams.gate);
    assert_ok(weir_event_synchronize(*state, end));
    assert_ok(weir_event_elapsed(*state, streams.event, end, &ms));
    assert_true(ms >= 0.0f && ms < 60e3f);
    assert_ok(weir_event_elapsed(*state, streams.event, streams.event, &ms));
    assert_true(ms <= 0.0f && ms >= 0.0f);
    assert_ok(weir_event_destroy(*state, end));
    unmake(&streams);
}

static void an_event_without_timing_has_no_time(void **state) {
    struct two_streams streams = make(*state, false);
    float ms;
    assert_ok(weir_event_record(*state, streams.event, streams.first));
    assert_ok(weir_event_synchronize(*state, streams.event));
    assert_int_equal(weir_event_elapsed(*state, streams.event, streams.event, &ms), WEIR_DRIVER);
    unmake(&streams);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(a_wait_holds_later_work_until_the_record_is_reached),
        device_test(an_event_that_was_never_recorded_holds_nothing_back),
        device_test(a_wait_is_not_moved_by_a_later_record),
        device_test(a_wait_after_a_second_record_waits_for_the_second),
        device_test(a_wait_outlives_its_event),
        device_test(a_host_synchronise_waits_for_the_record),
        device_test(elapsed_time_is_that_between_two_passed_records),
        device_test(an_event_without_timing_has_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
