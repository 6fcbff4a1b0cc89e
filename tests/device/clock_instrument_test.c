/* SPDX-License-Identifier: Apache-2.0 */
/* What instruments ask of the virtual clock: the time of a record, what comes next, and calls that cost nothing. Runs with
 * WEIR_EMU=clock:virtual,profile:PATH of virtual_clock.profile (a launch 5 us, a call 1 us). */
#include "tests/device/machine.h"

enum { US = 1000 };

struct scene {
    struct weir_device *device;
    const struct weir__driver *driver;
    weir_stream stream;
    weir_event timed, plain;
};

static uint64_t now(const struct scene *scene) {
    uint64_t ns = 0;
    assert_code(CUDA_SUCCESS, scene->driver->emu_now(&ns));
    return ns;
}

static void work_for(const struct scene *scene, double us) {
    const struct weir_emu_work work = {.size = sizeof work, .name = "work", .alone_ns = us * US};
    assert_code(CUDA_SUCCESS, scene->driver->emu_submit(&work, scene->stream));
}

static void record(const struct scene *scene, weir_event event) {
    assert_code(CUDA_SUCCESS, scene->driver->event_record(event, scene->stream));
}

static uint64_t time_of(const struct scene *scene, weir_event event) {
    uint64_t ns = 0;
    assert_code(CUDA_SUCCESS, scene->driver->emu_event_time(event, &ns));
    return ns;
}

static int open_scene(void **state) {
    static struct scene scene;
    void *device;
    if (open_device(&device) != 0) return -1;
    scene.device = device;
    scene.driver = enter(scene.device);
    assert_code(CUDA_SUCCESS, scene.driver->stream_create(&scene.stream, CU_STREAM_NON_BLOCKING));
    assert_code(CUDA_SUCCESS, scene.driver->event_create(&scene.timed, CU_EVENT_DEFAULT));
    assert_code(CUDA_SUCCESS, scene.driver->event_create(&scene.plain, CU_EVENT_DISABLE_TIMING));
    *state = &scene;
    return 0;
}

static int close_scene(void **state) {
    struct scene *scene = *state;
    scene->driver->emu_charging(1);
    weir__device_leave(scene->device);
    weir_device_close(scene->device);
    return 0;
}

static void a_record_s_time_is_exact(void **state) {
    const struct scene *scene = *state;
    uint64_t ns;
    assert_code(CUDA_ERROR_INVALID_HANDLE, scene->driver->emu_event_time(scene->timed, &ns)); /* never recorded */
    const uint64_t begin = now(scene);
    work_for(scene, 3e7); /* 30 s, at which a float of milliseconds counts in microseconds */
    work_for(scene, 0.007);
    record(scene, scene->timed);
    record(scene, scene->plain);
    assert_code(CUDA_ERROR_NOT_READY, scene->driver->emu_event_time(scene->timed, &ns));
    assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    assert_int_equal(time_of(scene, scene->timed), begin + UINT64_C(30000006007));
    assert_code(CUDA_ERROR_INVALID_HANDLE, scene->driver->emu_event_time(scene->plain, &ns));
    assert_code(CUDA_ERROR_INVALID_HANDLE, scene->driver->emu_event_time(NULL, &ns));
    assert_code(CUDA_ERROR_INVALID_VALUE, scene->driver->emu_event_time(scene->timed, NULL));
}

static void what_comes_next_is_known(void **state) {
    const struct scene *scene = *state;
    uint64_t ns;
    assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    assert_code(CUDA_ERROR_NOT_FOUND, scene->driver->emu_next(&ns));
    work_for(scene, 100);
    const uint64_t submitted = now(scene);
    assert_code(CUDA_SUCCESS, scene->driver->emu_next(&ns));
    assert_int_equal(ns, submitted + 5 * US); /* it begins */
    assert_code(CUDA_SUCCESS, scene->driver->emu_pause(ns - submitted));
    assert_code(CUDA_SUCCESS, scene->driver->emu_next(&ns));
    assert_int_equal(ns, submitted + 105 * US); /* it ends */
    assert_int_equal(now(scene), submitted + 5 * US);
    assert_code(CUDA_SUCCESS, scene->driver->emu_pause(100 * US));
    assert_code(CUDA_ERROR_NOT_FOUND, scene->driver->emu_next(&ns));
    assert_code(CUDA_ERROR_INVALID_VALUE, scene->driver->emu_next(NULL));
}

static void what_is_not_charged_begins_at_once(void **state) {
    const struct scene *scene = *state;
    assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    scene->driver->emu_charging(0);
    const uint64_t begin = now(scene);
    work_for(scene, 100);
    record(scene, scene->timed);
    assert_int_equal(now(scene), begin);
    assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    assert_int_equal(time_of(scene, scene->timed), begin + 100 * US);
    record(scene, scene->plain);
    assert_code(CUDA_SUCCESS, scene->driver->event_query(scene->plain)); /* nothing was before it */
    scene->driver->emu_charging(1);
}

static void look(const struct scene *scene, int times) {
    for (int i = 0; i < times; i++) assert_code(CUDA_ERROR_NOT_READY, scene->driver->event_query(scene->plain));
}

static void a_pause_ends_a_row_of_looks(void **state) {
    const struct scene *scene = *state;
    scene->driver->emu_charging(0);
    work_for(scene, 100);
    work_for(scene, 100);
    record(scene, scene->plain);
    const uint64_t begin = now(scene);
    for (int i = 0; i < 5; i++) {
        look(scene, 900);
        assert_code(CUDA_SUCCESS, scene->driver->emu_pause(0));
    }
    assert_int_equal(now(scene), begin);
    look(scene, 1000); /* who looks so often waits */
    assert_int_equal(now(scene), begin + 100 * US);
    scene->driver->emu_charging(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_s_time_is_exact),
        cmocka_unit_test(what_comes_next_is_known),
        cmocka_unit_test(what_is_not_charged_begins_at_once),
        cmocka_unit_test(a_pause_ends_a_row_of_looks),
    };
    return cmocka_run_group_tests(tests, open_scene, close_scene);
}
