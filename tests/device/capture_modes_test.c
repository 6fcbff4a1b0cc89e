/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a capture can't see are refused while it goes on, by its mode, the thread's mode and whose capture it is,
 * and make it invalid. From the driver API's "Stream Management" (cuThreadExchangeStreamCaptureMode). */
#include "tests/device/capture.h"

struct attempt {
    CUstreamCaptureMode mode; /* of the thread */
    CUresult code;
};

static void allocate(void *argument) {
    struct attempt *attempt = argument;
    CUdeviceptr address = 0;
    CUstreamCaptureMode mode = attempt->mode;
    assert_done(cu.cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* "This is the default mode." */
    attempt->code = cu.cuMemAlloc_v2(&address, BYTES);
    if (attempt->code == CUDA_SUCCESS) assert_done(cu.cuMemFree_v2(address));
    assert_done(cu.cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, attempt->mode);
}

/* The table of cuThreadExchangeStreamCaptureMode: by the capture's mode, the thread's, and whose capture it is. */
static void unsafe_calls_are_refused_by_the_modes(void **state) {
    (void)state;
    static const struct {
        CUstreamCaptureMode capture, thread;
        bool other, refused;
    } cases[] = {
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false, true},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false, true},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, false, false},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false, true},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false, true},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED, false, false},
        {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, false, false},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true, true},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, true, false},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, true, false},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true, false},
        {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct attempt attempt = {.mode = cases[i].thread};
        begin_in(scene.a, cases[i].capture);
        if (cases[i].other)
            in_another_thread(allocate, &attempt);
        else
            allocate(&attempt);
        const CUresult expected = cases[i].refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
        if (attempt.code != expected) fail_msg("case %zu: %d instead of %d", i, attempt.code, expected);
        if (cases[i].refused)
            end_broken();
        else
            end_whole();
    }
}

static void each_unsafe_call_is_refused(void **state) {
    (void)state;
    void *host;
    static char own[BYTES];
    CUdeviceptr address;
    assert_done(cu.cuEventRecord(scene.event, scene.b));
    for (unsigned i = 0; i < 8; i++) {
        begin_in(scene.a, CU_STREAM_CAPTURE_MODE_GLOBAL);
        const CUresult codes[] = {
            i == 0 ? cu.cuMemAlloc_v2(&address, BYTES) : 0,
            i == 1 ? cu.cuMemFree_v2(scene.memory) : 0,
            i == 2 ? cu.cuMemHostAlloc(&host, BYTES, 0) : 0,
            i == 3 ? cu.cuMemFreeHost(scene.host) : 0,
            i == 4 ? cu.cuMemHostRegister_v2(own, sizeof own, 0) : 0,
            i == 5 ? cu.cuMemHostUnregister(own) : 0,
            i == 6 ? cu.cuEventQuery(scene.event) : 0,
            i == 7 ? cu.cuEventSynchronize(scene.event) : 0,
        };
        assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, codes[i]);
        end_broken();
    }
}

/* They use the legacy stream, which is of no use while a blocking stream captures; beside another they are unsafe. */
static void synchronous_copies_are_refused(void **state) {
    (void)state;
    CUgraph graph;
    CUstream apart;
    begin_in(scene.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuMemcpy(host_piece(0), piece(0), BYTES));
    end_broken();
    assert_done(cu.cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    begin_in(apart, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuMemcpy(host_piece(0), piece(0), BYTES));
    assert_status(INVALIDATED, apart);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(apart, &graph));
    begin_in(apart, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_done(cu.cuMemcpy(host_piece(0), piece(0), BYTES));
    assert_done(cu.cuStreamEndCapture(apart, &graph));
    assert_done(cu.cuGraphDestroy(graph));
    assert_done(cu.cuStreamDestroy_v2(apart));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scene_test(unsafe_calls_are_refused_by_the_modes),
        scene_test(each_unsafe_call_is_refused),
        scene_test(synchronous_copies_are_refused),
    };
    return cmocka_run_group_tests(tests, load_entries, NULL);
}
