/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of capture and graphs share: the driver's entries by their own names, a device with memory and
 * streams, and what is seen of a capture. Programs run with WEIR_EMU=watch:on, under either clock. */
#ifndef WEIR_TESTS_DEVICE_CAPTURE_H
#define WEIR_TESTS_DEVICE_CAPTURE_H

#include "tests/device/entries.h"

enum { BYTES = 4096, STREAMS = 3 };

/* Of each test. `a` is the stream that captures. */
static struct scene {
    CUcontext context;
    CUdeviceptr memory; /* 4 pieces of BYTES, 0 */
    CUstream a, b, c;
    CUevent event, other_event;
    unsigned char *host; /* pinned; 4 pieces of BYTES */
} scene;

static inline CUdeviceptr piece(unsigned index) { return scene.memory + index * (CUdeviceptr)BYTES; }
static inline CUdeviceptr host_piece(unsigned index) { return (CUdeviceptr)(uintptr_t)(scene.host + index * BYTES); }

static int open_scene(void **state) {
    (void)state;
    void *host;
    assert_done(cu.cuDevicePrimaryCtxRetain(&scene.context, 0));
    assert_done(cu.cuCtxPushCurrent_v2(scene.context));
    assert_done(cu.cuMemAlloc_v2(&scene.memory, 4 * BYTES));
    assert_done(cu.cuMemHostAlloc(&host, 4 * BYTES, 0));
    scene.host = host;
    assert_done(cu.cuStreamCreate(&scene.a, CU_STREAM_DEFAULT));
    assert_done(cu.cuStreamCreate(&scene.b, CU_STREAM_DEFAULT));
    assert_done(cu.cuStreamCreate(&scene.c, CU_STREAM_DEFAULT));
    assert_done(cu.cuEventCreate(&scene.event, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuEventCreate(&scene.other_event, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuMemsetD8Async(scene.memory, 0, 4 * BYTES, scene.a));
    assert_done(cu.cuCtxSynchronize());
    memset(scene.host, 0, 4 * BYTES);
    return 0;
}

/* The watch has found what the test has looked at, and nothing else. */
static int close_scene(void **state) {
    (void)state;
    struct weir_emu_report report = {.size = sizeof report};
    assert_done(cu.cuCtxSynchronize());
    if (cu.weirEmuWatchReport(0, &report) == CUDA_SUCCESS) fail_msg("%s", report.text);
    assert_done(cu.cuEventDestroy_v2(scene.event));
    assert_done(cu.cuEventDestroy_v2(scene.other_event));
    CUstream streams[STREAMS] = {scene.a, scene.b, scene.c};
    for (size_t i = 0; i < STREAMS; i++)
        if (streams[i] != NULL) assert_done(cu.cuStreamDestroy_v2(streams[i]));
    assert_done(cu.cuMemFreeHost(scene.host));
    assert_done(cu.cuMemFree_v2(scene.memory));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    return cu.cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS ? 0 : -1;
}

#define scene_test(function) cmocka_unit_test_setup_teardown(function, open_scene, close_scene)

/* ---- other threads ---------------------------------------------------------------------------------------------- */

struct errand {
    void (*run)(void *argument);
    void *argument;
};

static inline void *run_errand(void *argument) {
    const struct errand *errand = argument;
    assert_done(cu.weirEmuThreadBegin("other", 1));
    assert_done(cu.cuCtxPushCurrent_v2(scene.context));
    errand->run(errand->argument);
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_done(cu.weirEmuThreadEnd());
    return NULL;
}

static inline void in_another_thread(void (*run)(void *argument), void *argument) {
    struct errand errand = {run, argument};
    pthread_t thread;
    assert_done(cu.weirEmuThreadEnd());
    assert_int_equal(pthread_create(&thread, NULL, run_errand, &errand), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_done(cu.weirEmuThreadBegin("main", 1));
}

/* ---- captures --------------------------------------------------------------------------------------------------- */

static inline void begin_in(CUstream stream, CUstreamCaptureMode mode) {
    assert_done(cu.cuStreamBeginCapture_v2(stream, mode));
}

/* Relaxed, so that tests may ask and allocate meanwhile. */
static inline void begin(void) { begin_in(scene.a, CU_STREAM_CAPTURE_MODE_RELAXED); }

static inline CUgraph end(void) {
    CUgraph graph;
    assert_done(cu.cuStreamEndCapture(scene.a, &graph));
    assert_non_null(graph);
    return graph;
}

static inline CUstreamCaptureStatus status_of(CUstream stream) {
    CUstreamCaptureStatus status;
    assert_done(cu.cuStreamIsCapturing(stream, &status));
    return status;
}

#define assert_status(expected, stream) assert_int_equal(CU_STREAM_CAPTURE_STATUS_##expected, status_of(stream))

/* The second stream comes after the first, in capture or not. */
static inline void follow(CUstream second, CUstream first) {
    assert_done(cu.cuEventRecord(scene.event, first));
    assert_done(cu.cuStreamWaitEvent(second, scene.event, 0));
}

static inline void set(unsigned index, unsigned char value, CUstream stream) {
    assert_done(cu.cuMemsetD8Async(piece(index), value, BYTES, stream));
}

static inline void bring(unsigned index, CUstream stream) {
    assert_done(cu.cuMemcpyAsync(host_piece(index), piece(index), BYTES, stream));
}

static inline CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec;
    assert_done(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static inline size_t node_count(CUgraph graph) {
    size_t count = 0;
    assert_done(cu.cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static inline size_t edge_count(CUgraph graph) {
    size_t count = 0;
    assert_done(cu.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &count));
    return count;
}

static inline void assert_bytes(unsigned index, unsigned char value) {
    for (size_t i = 0; i < BYTES; i++)
        if (scene.host[index * BYTES + i] != value)
            fail_msg("byte %zu of piece %u is %#x instead of %#x", i, index, scene.host[index * BYTES + i], value);
}

/* Ends a capture that was broken: no graph, and the streams work again. */
static inline void end_broken(void) {
    CUgraph graph = (CUgraph)&graph;
    assert_status(INVALIDATED, scene.a);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuMemsetD8Async(piece(0), 9, BYTES, scene.a));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(scene.a, &graph));
    assert_null(graph);
    assert_status(NONE, scene.a);
    assert_status(NONE, scene.b);
    set(0, 7, scene.a);
    bring(0, scene.a);
    assert_done(cu.cuStreamSynchronize(scene.a));
    assert_bytes(0, 7);
}

/* Ends a capture that was not harmed. */
static inline void end_whole(void) {
    assert_status(ACTIVE, scene.a);
    assert_done(cu.cuGraphDestroy(end()));
    assert_status(NONE, scene.a);
}

#endif
