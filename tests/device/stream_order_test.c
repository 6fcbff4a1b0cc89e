/* SPDX-License-Identifier: Apache-2.0 */
/* Work on a stream happens in the order in which it was queued; streams do not wait for each other unasked. */
#include "tests/device/machine.h"

#include <dirent.h>

struct sequence {
    atomic_int next;
    int seen[100];
};

struct step {
    struct sequence *sequence;
    int number;
};

static void take_step(void *argument) {
    const struct step *step = argument;
    step->sequence->seen[step->number] = atomic_fetch_add(&step->sequence->next, 1);
}

static void work_on_one_stream_happens_in_the_order_of_its_submission(void **state) {
    struct weir_device *device = *state;
    struct sequence sequence = {0};
    weir_stream stream;
    assert_ok(weir_stream_create(device, &stream));
    for (int i = 0; i < 100; i++) {
        const struct step step = {&sequence, i};
        const struct weir_work work = {
            .name = "step", .run = take_step, .argument = (void *)&step, .argument_bytes = sizeof step};
        assert_ok(weir_device_submit(device, &work, stream));
    }
    assert_ok(weir_stream_synchronize(device, stream));
    for (int i = 0; i < 100; i++) assert_int_equal(sequence.seen[i], i);
    assert_ok(weir_stream_destroy(device, stream));
}

static void a_stream_that_is_held_does_not_hold_another(void **state) {
    struct weir_device *device = *state;
    struct gate gate = GATE_INITIALIZER;
    atomic_int held = 0, free_running = 0;
    weir_stream first, second;
    assert_ok(weir_stream_create(device, &first));
    assert_ok(weir_stream_create(device, &second));
    hold(device, &gate, first);
    submit(device, bump, &held, first);
    submit(device, bump, &free_running, second);
    assert_ok(weir_stream_synchronize(device, second));
    assert_int_equal(atomic_load(&free_running), 1);
    assert_int_equal(atomic_load(&held), 0);
    open_gate(&gate);
    assert_ok(weir_stream_synchronize(device, first));
    assert_int_equal(atomic_load(&held), 1);
    assert_ok(weir_stream_destroy(device, first));
    assert_ok(weir_stream_destroy(device, second));
}

static void work_queued_on_a_destroyed_stream_still_happens(void **state) {
    struct weir_device *device = *state;
    struct gate gate = GATE_INITIALIZER;
    atomic_int done = 0;
    weir_stream stream, later;
    assert_ok(weir_stream_create(device, &stream));
    hold(device, &gate, stream);
    submit(device, bump, &done, stream);
    assert_ok(weir_stream_destroy(device, stream));
    assert_int_equal(atomic_load(&done), 0);

    /* the handle comes back while the old work is pending, and does not wait for it */
    assert_ok(weir_stream_create(device, &later));
    assert_ptr_equal(later, stream);
    assert_ok(weir_stream_synchronize(device, later));
    assert_int_equal(atomic_load(&done), 0);

    open_gate(&gate);
    assert_ok(weir_device_synchronize(device));
    assert_int_equal(atomic_load(&done), 1);
    assert_ok(weir_stream_destroy(device, later));
}

static void a_destroyed_stream_is_an_error_that_names_the_call(void **state) {
    struct weir_device *device = *state;
    weir_stream stream;
    assert_ok(weir_stream_create(device, &stream));
    assert_ok(weir_stream_destroy(device, stream));
    assert_int_equal(weir_stream_synchronize(device, stream), WEIR_DRIVER);
    assert_int_equal(weir_last_error()->driver_code, CUDA_ERROR_INVALID_HANDLE);
    assert_string_equal(weir_last_error()->call, "cuStreamSynchronize");
    assert_int_equal(weir_stream_destroy(device, (weir_stream)&device), WEIR_DRIVER);
}

static int threads_of_this_process(void) {
    DIR *folder = opendir("/proc/self/task");
    int threads = -2; /* . and .. */
    while (readdir(folder) != NULL) threads++;
    closedir(folder);
    return threads;
}

static void streams_made_again_and_again_share_few_threads(void **state) {
    struct weir_device *device = *state;
    atomic_int done = 0;
    const int before = threads_of_this_process();
    for (int i = 0; i < 100; i++) {
        weir_stream stream;
        assert_ok(weir_stream_create(device, &stream));
        submit(device, bump, &done, stream);
        assert_ok(weir_stream_synchronize(device, stream));
        assert_ok(weir_stream_destroy(device, stream));
    }
    assert_int_equal(atomic_load(&done), 100);
    assert_true(threads_of_this_process() <= before + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(work_on_one_stream_happens_in_the_order_of_its_submission),
        device_test(a_stream_that_is_held_does_not_hold_another),
        device_test(work_queued_on_a_destroyed_stream_still_happens),
        device_test(streams_made_again_and_again_share_few_threads),
        device_test(a_destroyed_stream_is_an_error_that_names_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
