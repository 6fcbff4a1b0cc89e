/* SPDX-License-Identifier: Apache-2.0 */
/* What the watch's tests share: a device with a block of memory and three streams, work that says what it accesses, and
 * what the watch has found. Programs run with WEIR_EMU=watch:on. */
#ifndef WEIR_TESTS_WATCH_SCENE_H
#define WEIR_TESTS_WATCH_SCENE_H

#include "tests/device/machine.h"

enum { SCENE_GRANULE = 16 * 1024, SCENE_BYTES = 4 * SCENE_GRANULE };

struct scene {
    struct weir_device *device;
    const struct weir__driver *driver; /* its context is current until the scene is closed */
    CUdeviceptr block;                 /* SCENE_BYTES, written */
    CUstream a, b, c;
    CUevent event;
    struct weir_emu_gate *gate; /* holds the streams back until the host waits, or NULL */
};

/* `held`: nothing that is queued on the streams happens before the host comes to wait for some of it. */
static inline void scene_open(struct scene *scene, struct weir_device *device, bool held) {
    *scene = (struct scene){.device = device, .driver = enter(device)};
    const struct weir__driver *driver = scene->driver;
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&scene->block, SCENE_BYTES));
    CUstream *streams[] = {&scene->a, &scene->b, &scene->c};
    if (held) assert_code(CUDA_SUCCESS, driver->emu_gate_create(&scene->gate, WEIR_EMU_GATE_OPENS_WHEN_HOST_WAITS));
    for (size_t i = 0; i < 3; i++) assert_code(CUDA_SUCCESS, driver->stream_create(streams[i], CU_STREAM_NON_BLOCKING));
    assert_code(CUDA_SUCCESS, driver->event_create(&scene->event, CU_EVENT_DISABLE_TIMING));
    assert_code(CUDA_SUCCESS, driver->set_bytes(scene->block, 0, SCENE_BYTES, scene->a));
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(scene->a));
    for (size_t i = 0; held && i < 3; i++) assert_code(CUDA_SUCCESS, driver->emu_gate_hold(scene->gate, *streams[i]));
    assert_code(CUDA_SUCCESS, driver->emu_watch_clear());
}

static inline void scene_close(struct scene *scene) {
    const struct weir__driver *driver = scene->driver;
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->memory_free(scene->block));
    assert_code(CUDA_SUCCESS, driver->stream_destroy(scene->a));
    assert_code(CUDA_SUCCESS, driver->stream_destroy(scene->b));
    assert_code(CUDA_SUCCESS, driver->stream_destroy(scene->c));
    assert_code(CUDA_SUCCESS, driver->event_destroy(scene->event));
    if (scene->gate != NULL) assert_code(CUDA_SUCCESS, driver->emu_gate_destroy(scene->gate));
    weir__device_leave(scene->device);
}

/* Work that does nothing but say that it accesses the bytes. */
static inline void scene_access(struct scene *scene, CUstream stream, const char *name, CUdeviceptr at, size_t bytes,
                                bool write) {
    const struct weir_emu_access access = {(const void *)(uintptr_t)at, bytes, write};
    const struct weir_emu_work work = {
        .size = sizeof work, .name = name, .accesses = &access, .access_count = 1, .bytes = (double)bytes};
    assert_code(CUDA_SUCCESS, scene->driver->emu_submit(&work, stream));
}

static inline void scene_write(struct scene *scene, CUstream stream, const char *name) {
    scene_access(scene, stream, name, scene->block, SCENE_BYTES, true);
}

static inline void scene_read(struct scene *scene, CUstream stream, const char *name) {
    scene_access(scene, stream, name, scene->block, SCENE_BYTES, false);
}

/* What `second` queues later comes after what `first` has queued so far. */
static inline void scene_follow(struct scene *scene, CUstream second, CUstream first) {
    assert_code(CUDA_SUCCESS, scene->driver->event_record(scene->event, first));
    assert_code(CUDA_SUCCESS, scene->driver->stream_wait(second, scene->event, 0));
}

/* ---- what it found ---- */

static inline struct weir_emu_report scene_report(const struct scene *scene, size_t index) {
    struct weir_emu_report report = {.size = sizeof report};
    assert_code(CUDA_SUCCESS, scene->driver->emu_watch_report(index, &report));
    return report;
}

static inline size_t scene_reports(const struct scene *scene) {
    struct weir_emu_counts counts = {.size = sizeof counts};
    assert_code(CUDA_SUCCESS, scene->driver->emu_counts(&counts));
    return (size_t)counts.reports;
}

static inline void expect_clean(struct scene *scene) {
    if (scene_reports(scene) > 0) fail_msg("%s", scene_report(scene, 0).text);
}

/* Exactly one report, of that kind and between those two. Gives it, and forgets it. */
static inline struct weir_emu_report expect_report(struct scene *scene, enum weir_emu_report_kind kind,
                                                   const char *first, const char *second) {
    if (scene_reports(scene) == 0) fail_msg("nothing was reported; expected %s, then %s", first, second);
    const struct weir_emu_report report = scene_report(scene, 0);
    if (scene_reports(scene) > 1) fail_msg("two reports: %s; %s", report.text, scene_report(scene, 1).text);
    if (report.kind != kind || strcmp(report.first, first) != 0 || strcmp(report.second, second) != 0)
        fail_msg("expected kind %d, %s, then %s: %s", (int)kind, first, second, report.text);
    assert_code(CUDA_SUCCESS, scene->driver->emu_watch_clear());
    return report;
}

static inline void expect_race(struct scene *scene, const char *first, const char *second) {
    expect_report(scene, WEIR_EMU_RACE, first, second);
}

/* Each scene is played with the streams held back until the host waits, and running free: it must not matter. */
#define SCENE(name)                                                                                                    \
    static void play_##name(struct scene *scene);                                                                      \
    static void name(void **state) {                                                                                   \
        for (int held = 0; held < 2; held++) {                                                                         \
            struct scene scene;                                                                                        \
            scene_open(&scene, *state, held);                                                                          \
            play_##name(&scene);                                                                                       \
            scene_close(&scene);                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    static void play_##name(struct scene *scene)

#endif
