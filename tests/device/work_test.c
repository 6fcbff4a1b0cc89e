/* SPDX-License-Identifier: Apache-2.0 */
/* Work in its one form: what is checked, what is copied, what a host function may not do, who is told. */
#include "tests/device/machine.h"

struct numbers {
    int first, second;
};

struct copy_check {
    struct numbers numbers;
    atomic_int *sum;
};

static void add_up(void *argument) {
    const struct copy_check *check = argument;
    atomic_store(check->sum, check->numbers.first + check->numbers.second);
}

static void an_argument_with_a_size_is_copied_at_the_call(void **state) {
    struct weir_device *device = *state;
    struct gate gate = GATE_INITIALIZER;
    atomic_int sum = 0;
    struct copy_check check = {{40, 2}, &sum};
    const struct weir_work work = {.name = "add", .run = add_up, .argument = &check, .argument_bytes = sizeof check};
    hold(device, &gate, NULL);
    assert_ok(weir_device_submit(device, &work, NULL));
    memset(&check, 0, sizeof check);
    open_gate(&gate);
    assert_ok(weir_stream_synchronize(device, NULL));
    assert_int_equal(atomic_load(&sum), 42);
}

static void an_argument_without_a_size_is_passed_on_as_it_is(void **state) {
    struct weir_device *device = *state;
    struct gate gate = GATE_INITIALIZER;
    atomic_int sum = 0;
    struct copy_check check = {{40, 2}, &sum};
    hold(device, &gate, NULL);
    submit(device, add_up, &check, NULL);
    check.numbers.second = 3;
    open_gate(&gate);
    assert_ok(weir_stream_synchronize(device, NULL));
    assert_int_equal(atomic_load(&sum), 43);
}

static int launch(void *argument, weir_stream stream) {
    *(weir_stream *)argument = stream;
    return CUDA_SUCCESS;
}
static int launch_badly(void *argument, weir_stream stream) {
    (void)argument, (void)stream;
    return CUDA_ERROR_LAUNCH_FAILED;
}

static void a_launch_is_called_at_once_and_its_error_is_kept(void **state) {
    struct weir_device *device = *state;
    weir_stream stream, seen = NULL;
    assert_ok(weir_stream_create(device, &stream));
    const struct weir_work good = {.name = "good", .launch = launch, .argument = &seen},
                           bad = {.name = "bad", .launch = launch_badly};
    assert_ok(weir_device_submit(device, &good, stream));
    assert_ptr_equal(seen, stream);
    assert_int_equal(weir_device_submit(device, &bad, stream), WEIR_DRIVER);
    assert_int_equal(weir_last_error()->driver_code, CUDA_ERROR_LAUNCH_FAILED);
    assert_ok(weir_stream_destroy(device, stream));
}

static void malformed_work_is_refused_with_a_sentence(void **state) {
    struct weir_device *device = *state;
    const struct weir_work neither = {.name = "nothing"}, both = {.name = "all", .run = bump, .launch = launch};
    const struct weir_work no_argument = {.name = "copy", .run = bump, .argument_bytes = 8};
    const struct weir_work no_list = {.name = "list", .run = bump, .access_count = 2};
    assert_int_equal(weir_device_submit(device, &neither, NULL), WEIR_INVALID);
    assert_string_equal(weir_last_error()->message,
                        "work \"nothing\" sets neither of run and launch: exactly one must be set");
    assert_int_equal(weir_device_submit(device, &both, NULL), WEIR_INVALID);
    assert_int_equal(weir_device_submit(device, &no_argument, NULL), WEIR_INVALID);
    assert_int_equal(weir_device_submit(device, &no_list, NULL), WEIR_INVALID);
    assert_int_equal(weir_device_submit(device, NULL, NULL), WEIR_INVALID);
    assert_int_equal(weir_device_submit(NULL, &both, NULL), WEIR_INVALID);
}

struct inside {
    struct weir_device *device;
    enum weir_status statuses[6];
    CUresult code;
};

static void call_the_driver(void *argument) {
    struct inside *inside = argument;
    weir_stream stream = NULL;
    struct weir_device *again = NULL;
    inside->statuses[0] = weir_stream_create(inside->device, &stream);
    inside->statuses[1] = weir_device_synchronize(inside->device);
    inside->statuses[2] = weir_event_query(inside->device, NULL);
    inside->statuses[3] = weir_host_register(inside->device, &stream, sizeof stream);
    inside->statuses[4] = weir_device_open(NULL, &again);
    inside->statuses[5] = weir_set(inside->device, &stream, 0, 1, NULL);
    inside->code = inside->device->driver->context_synchronize(); /* past the library */
}

static void driver_calls_inside_a_host_function_are_refused(void **state) {
    struct inside inside = {.device = *state};
    submit(*state, call_the_driver, &inside, NULL);
    assert_ok(weir_stream_synchronize(*state, NULL));
    for (size_t i = 0; i < sizeof inside.statuses / sizeof *inside.statuses; i++)
        assert_int_equal(inside.statuses[i], WEIR_NOT_SUPPORTED);
    assert_int_equal(inside.code, CUDA_ERROR_NOT_PERMITTED);
    assert_false(weir__in_host_function());
}

/* ---- observers -------------------------------------------------------------------------------------------------- */

struct told {
    int recorded, waited, destroyed_events, destroyed_streams, synchronized, submitted;
    weir_stream stream;
};

static void on_record(void *self, weir_event event, weir_stream stream) {
    (void)event;
    ((struct told *)self)->recorded++;
    ((struct told *)self)->stream = stream;
}
static void on_wait(void *self, weir_stream stream, weir_event event) {
    (void)stream, (void)event;
    ((struct told *)self)->waited++;
}
static void on_event_destroyed(void *self, weir_event event) {
    (void)event;
    ((struct told *)self)->destroyed_events++;
}
static void on_stream_destroyed(void *self, weir_stream stream) {
    (void)stream;
    ((struct told *)self)->destroyed_streams++;
}
static void on_device_synchronized(void *self) { ((struct told *)self)->synchronized++; }
static void on_work(void *self, const struct weir_work *work, weir_stream stream) {
    (void)work, (void)stream;
    ((struct told *)self)->submitted++;
}

static void order_calls(struct weir_device *device) {
    weir_stream stream;
    weir_event event;
    atomic_int done = 0;
    assert_ok(weir_stream_create(device, &stream));
    assert_ok(weir_event_create(device, false, &event));
    submit(device, bump, &done, stream);
    assert_ok(weir_event_record(device, event, stream));
    assert_ok(weir_stream_wait(device, stream, event));
    assert_int_equal(weir_stream_wait(device, stream, (weir_event)&stream), WEIR_DRIVER); /* told of nothing */
    assert_ok(weir_device_synchronize(device));
    assert_ok(weir_event_destroy(device, event));
    assert_ok(weir_stream_destroy(device, stream));
}

static void an_observer_is_told_of_what_the_driver_has_accepted(void **state) {
    struct told told = {0};
    struct weir__observer observer = {.event_recorded = on_record,
                                      .stream_waited = on_wait,
                                      .event_destroyed = on_event_destroyed,
                                      .stream_destroyed = on_stream_destroyed,
                                      .device_synchronized = on_device_synchronized,
                                      .work_submitted = on_work,
                                      .self = &told};
    struct weir__observer silent = {.self = NULL};
    weir__device_observe(*state, &observer);
    weir__device_observe(*state, &silent);
    order_calls(*state);
    weir__device_unobserve(*state, &observer);
    weir__device_unobserve(*state, &silent);
    order_calls(*state);
    assert_non_null(told.stream);
    const struct told once = {1, 1, 1, 1, 1, 1, told.stream};
    assert_memory_equal(&told, &once, sizeof once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(an_argument_with_a_size_is_copied_at_the_call),
        device_test(an_argument_without_a_size_is_passed_on_as_it_is),
        device_test(a_launch_is_called_at_once_and_its_error_is_kept),
        device_test(malformed_work_is_refused_with_a_sentence),
        device_test(driver_calls_inside_a_host_function_are_refused),
        device_test(an_observer_is_told_of_what_the_driver_has_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
