/* SPDX-License-Identifier: Apache-2.0 */
/* A stream captures what is legal and refuses what is not, and is in the documented state after each refusal. From the
 * driver API's "Stream Management", "Graph Management" and "Event Management", and the programming guide's chapter on
 * stream capture. */
#include "tests/device/capture.h"

/* ---- begin and end ---------------------------------------------------------------------------------------------- */

static void nothing_happens_while_it_is_captured(void **state) {
    (void)state;
    atomic_int calls = 0;
    begin();
    assert_status(ACTIVE, scene.a);
    assert_status(NONE, scene.b);
    set(0, 5, scene.a);
    bring(0, scene.a);
    assert_done(cu.cuLaunchHostFunc(scene.a, bump, &calls));
    CUgraph graph = end();
    assert_status(NONE, scene.a);
    assert_int_equal(node_count(graph), 3);
    assert_int_equal(edge_count(graph), 2);
    assert_done(cu.cuStreamSynchronize(scene.a));
    assert_int_equal(calls, 0);
    bring(0, scene.a);
    assert_done(cu.cuStreamSynchronize(scene.a));
    assert_bytes(0, 0);
    assert_done(cu.cuGraphDestroy(graph));
}

/* "Capture may not be initiated if stream is CU_STREAM_LEGACY." */
static void the_legacy_stream_is_not_captured(void **state) {
    (void)state;
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                cu.cuStreamBeginCapture_v2(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_status(NONE, NULL);
}

static void the_per_thread_stream_is_captured(void **state) {
    (void)state;
    CUgraph graph;
    begin_in(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL);
    set(0, 1, CU_STREAM_PER_THREAD);
    assert_status(ACTIVE, CU_STREAM_PER_THREAD);
    assert_done(cu.cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    assert_int_equal(node_count(graph), 1);
    assert_done(cu.cuGraphDestroy(graph));
}

static void a_capture_begins_once_and_ends_once(void **state) {
    (void)state;
    CUgraph graph = (CUgraph)&graph;
    assert_code(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(scene.a, &graph));
    assert_null(graph);
    begin();
    assert_code(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamBeginCapture_v2(scene.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    end_whole();
    assert_code(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(scene.a, &graph));
    assert_code(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(NULL, &graph));
}

static void malformed_requests_are_refused_without_harm(void **state) {
    (void)state;
    CUstreamCaptureMode mode = (CUstreamCaptureMode)3;
    const CUgraphNode *nodes;
    const CUgraphEdgeData *edges;
    CUstreamCaptureStatus status;
    uint64_t id;
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamBeginCapture_v2(scene.a, mode));
    assert_status(NONE, scene.a);
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuThreadExchangeStreamCaptureMode(&mode));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuThreadExchangeStreamCaptureMode(NULL));
    begin();
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamEndCapture(scene.a, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamIsCapturing(scene.a, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamGetCaptureInfo(scene.a, NULL, &id));
    assert_code(CUDA_ERROR_INVALID_VALUE,
                cu.cuStreamGetCaptureInfo_v3(scene.a, &status, NULL, NULL, NULL, &edges, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamUpdateCaptureDependencies(scene.a, NULL, 1, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamUpdateCaptureDependencies(scene.a, NULL, 0, 2));
    CUgraphNode wild = (CUgraphNode)&wild;
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamUpdateCaptureDependencies(scene.a, &wild, 1, 0));
    assert_code(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamIsCapturing((CUstream)&id, &status));
    (void)nodes;
    end_whole();
}

/* "Capture must be ended on the same stream in which it was initiated." */
static void a_capture_ends_where_it_began(void **state) {
    (void)state;
    CUgraph graph = (CUgraph)&graph;
    begin();
    follow(scene.b, scene.a);
    assert_status(ACTIVE, scene.b);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cu.cuStreamEndCapture(scene.b, &graph));
    assert_null(graph);
    assert_status(INVALIDATED, scene.b);
    end_broken();
}

struct ending {
    CUgraph graph;
    CUresult code;
};

static void end_capture(void *argument) {
    struct ending *ending = argument;
    ending->code = cu.cuStreamEndCapture(scene.a, &ending->graph);
}

/* "If mode is not CU_STREAM_CAPTURE_MODE_RELAXED, cuStreamEndCapture must be called on this stream from the same
 * thread." */
static void a_strict_capture_ends_in_its_thread(void **state) {
    (void)state;
    for (CUstreamCaptureMode mode = 0; mode < CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        struct ending ending = {.graph = (CUgraph)&ending};
        begin_in(scene.a, mode);
        in_another_thread(end_capture, &ending);
        assert_code(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, ending.code);
        assert_null(ending.graph);
        end_broken();
    }
}

static void a_relaxed_capture_ends_in_any_thread(void **state) {
    (void)state;
    struct ending ending;
    begin();
    set(0, 1, scene.a);
    in_another_thread(end_capture, &ending);
    assert_done(ending.code);
    assert_int_equal(node_count(ending.graph), 1);
    assert_status(NONE, scene.a);
    assert_done(cu.cuGraphDestroy(ending.graph));
}

static void a_capture_tells_its_state(void **state) {
    (void)state;
    CUstreamCaptureStatus status;
    uint64_t id = 0, same = 0, later = 0;
    CUgraph graph, ended;
    const CUgraphNode *nodes;
    const CUgraphEdgeData *edges;
    CUgraphNode first[2] = {NULL, (CUgraphNode)&first};
    size_t count = 99, room = 2;
    assert_done(cu.cuStreamGetCaptureInfo_v2(scene.a, &status, NULL, NULL, NULL, NULL));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    begin();
    assert_done(cu.cuStreamGetCaptureInfo_v3(scene.a, &status, &id, &graph, &nodes, &edges, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(count, 0);
    set(0, 1, scene.a);
    assert_done(cu.cuStreamGetCaptureInfo_v3(scene.a, &status, &same, &graph, &nodes, &edges, &count));
    assert_int_equal(count, 1);
    assert_int_equal(edges[0].type, 0);
    assert_done(cu.cuGraphGetNodes(graph, first, &room));
    assert_int_equal(room, 1);
    assert_ptr_equal(first[0], nodes[0]);
    assert_null(first[1]);
    assert_int_equal(id, same);
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(graph));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(&(CUgraphExec){NULL}, graph, 0));
    follow(scene.b, scene.a);
    assert_done(cu.cuStreamGetCaptureInfo(scene.b, &status, &same));
    assert_int_equal(id, same);
    ended = end();
    assert_ptr_equal(ended, graph);
    assert_done(cu.cuGraphDestroy(ended));
    begin();
    assert_done(cu.cuStreamGetCaptureInfo(scene.a, &status, &later));
    assert_int_not_equal(id, later);
    end_whole();
}

/* ---- forks and joins -------------------------------------------------------------------------------------------- */

/* "The capture sequence contains a fork that was not joined to the primary stream." */
static void a_fork_must_be_joined(void **state) {
    (void)state;
    CUgraph graph = (CUgraph)&graph;
    begin();
    follow(scene.b, scene.a);
    set(0, 1, scene.b);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu.cuStreamEndCapture(scene.a, &graph));
    assert_null(graph);
    assert_status(NONE, scene.a);
    assert_status(NONE, scene.b);
    begin();
    follow(scene.b, scene.a);
    set(0, 1, scene.b);
    follow(scene.a, scene.b);
    set(1, 1, scene.b); /* behind the join */
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu.cuStreamEndCapture(scene.a, &graph));
    assert_status(NONE, scene.b);
    begin();
    end_whole();
}

static void forks_are_joined_directly_or_through_others(void **state) {
    (void)state;
    begin();
    set(0, 1, scene.a);
    follow(scene.b, scene.a);
    set(1, 1, scene.b);
    follow(scene.c, scene.b);
    set(2, 1, scene.c);
    follow(scene.b, scene.c);
    follow(scene.a, scene.b);
    set(3, 1, scene.a);
    assert_status(ACTIVE, scene.c);
    CUgraph graph = end();
    assert_status(NONE, scene.b);
    assert_status(NONE, scene.c);
    assert_int_equal(node_count(graph), 4);
    assert_int_equal(edge_count(graph), 5); /* the join comes after two, its node after three */
    assert_done(cu.cuGraphDestroy(graph));
}

/* "It is invalid to wait on a non-captured event from a stream which is being captured." */
static void a_capture_does_not_wait_for_what_is_outside(void **state) {
    (void)state;
    assert_done(cu.cuEventRecord(scene.event, scene.b));
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cu.cuStreamWaitEvent(scene.a, scene.event, 0));
    end_broken();
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                cu.cuStreamWaitEvent(scene.a, scene.other_event, 0)); /* never recorded */
    end_broken();
}

/* "It is invalid to merge two separate capture graphs." */
static void two_captures_do_not_merge(void **state) {
    (void)state;
    CUgraph graph;
    begin();
    begin_in(scene.b, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_done(cu.cuEventRecord(scene.event, scene.b));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_MERGE, cu.cuStreamWaitEvent(scene.a, scene.event, 0));
    assert_status(INVALIDATED, scene.a);
    assert_status(INVALIDATED, scene.b);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(scene.b, &graph));
    end_broken();
}

static void two_captures_go_on_side_by_side(void **state) {
    (void)state;
    CUgraph first, second;
    begin();
    begin_in(scene.b, CU_STREAM_CAPTURE_MODE_RELAXED);
    set(0, 1, scene.a);
    set(1, 1, scene.b);
    set(0, 2, scene.a);
    assert_done(cu.cuStreamEndCapture(scene.a, &first));
    assert_status(ACTIVE, scene.b);
    assert_done(cu.cuStreamEndCapture(scene.b, &second));
    assert_int_equal(node_count(first), 2);
    assert_int_equal(node_count(second), 1);
    assert_done(cu.cuGraphDestroy(first));
    assert_done(cu.cuGraphDestroy(second));
}

static void an_event_of_a_broken_or_finished_capture_brings_no_stream_in(void **state) {
    (void)state;
    begin();
    assert_done(cu.cuEventRecord(scene.event, scene.a));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(scene.a));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(scene.b, scene.event, 0));
    assert_status(NONE, scene.b);
    end_broken();
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(scene.b, scene.event, 0));
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cu.cuStreamWaitEvent(scene.a, scene.event, 0));
    end_broken();
    assert_done(cu.cuEventRecord(scene.event, scene.a)); /* makes it an ordinary event again */
    assert_done(cu.cuStreamWaitEvent(scene.b, scene.event, 0));
    assert_done(cu.cuEventSynchronize(scene.event));
}

/* "Nodes that are removed from the dependency set via this API do not result in CUDA_ERROR_STREAM_CAPTURE_UNJOINED." */
static void what_the_next_node_comes_after_can_be_changed(void **state) {
    (void)state;
    CUstreamCaptureStatus status;
    const CUgraphNode *front;
    CUgraphNode nodes[3];
    size_t count;
    assert_code(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamUpdateCaptureDependencies(scene.a, NULL, 0, 1));
    begin();
    for (unsigned i = 0; i < 3; i++) {
        assert_done(cu.cuStreamUpdateCaptureDependencies(scene.a, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        set(i, 1, scene.a);
        assert_done(cu.cuStreamGetCaptureInfo_v2(scene.a, &status, NULL, NULL, &front, &count));
        assert_int_equal(count, 1);
        nodes[i] = front[0];
    }
    assert_done(cu.cuStreamUpdateCaptureDependencies_v2(scene.a, nodes, NULL, 2, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    set(3, 1, scene.a);
    assert_done(cu.cuStreamGetCaptureInfo_v2(scene.a, &status, NULL, NULL, &front, &count));
    assert_int_equal(count, 1);
    size_t before = 0;
    assert_done(cu.cuGraphNodeGetDependencies(front[0], NULL, &before));
    assert_int_equal(before, 3);
    CUgraph graph = end();
    size_t roots = 0;
    assert_done(cu.cuGraphGetRootNodes(graph, NULL, &roots));
    assert_int_equal(roots, 3);
    assert_done(cu.cuGraphDestroy(graph));
}

/* ---- what the host may not ask ---------------------------------------------------------------------------------- */

/* "It is invalid to synchronize or query the execution status of a stream which is being captured or a captured
 * event." */
static void a_capturing_stream_is_not_queried_nor_waited_for(void **state) {
    (void)state;
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(scene.a));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamQuery(scene.a));
    end_broken();
    begin();
    follow(scene.b, scene.a);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(scene.b));
    assert_status(INVALIDATED, scene.b);
    end_broken();
}

static void a_captured_event_is_not_queried_nor_waited_for(void **state) {
    (void)state;
    CUresult (*const asks[])(CUevent) = {cu.cuEventQuery, cu.cuEventSynchronize};
    for (size_t i = 0; i < 2; i++) {
        begin();
        assert_done(cu.cuEventRecord(scene.event, scene.a));
        assert_code(CUDA_ERROR_CAPTURED_EVENT, asks[i](scene.event));
        end_broken();
        assert_code(CUDA_ERROR_CAPTURED_EVENT, asks[i](scene.event)); /* it "was last recorded in a capture" still */
        assert_done(cu.cuEventRecord(scene.event, scene.a));
        assert_done(cu.cuEventSynchronize(scene.event));
    }
}

static void a_captured_event_has_no_time(void **state) {
    (void)state;
    CUevent first, second;
    float ms;
    assert_done(cu.cuEventCreate(&first, 0));
    assert_done(cu.cuEventCreate(&second, 0));
    assert_done(cu.cuEventRecord(first, scene.a));
    assert_done(cu.cuEventRecord(second, scene.a));
    assert_done(cu.cuEventSynchronize(second));
    begin();
    assert_done(cu.cuEventElapsedTime(&ms, first, second));
    assert_done(cu.cuEventRecord(second, scene.a));
    assert_code(CUDA_ERROR_CAPTURED_EVENT, cu.cuEventElapsedTime(&ms, first, second));
    end_broken();
    assert_done(cu.cuEventDestroy_v2(first));
    assert_done(cu.cuEventDestroy_v2(second));
}

static void other_streams_and_events_are_free_meanwhile(void **state) {
    (void)state;
    begin();
    set(0, 3, scene.b);
    bring(0, scene.b);
    assert_done(cu.cuEventRecord(scene.event, scene.b));
    assert_done(cu.cuEventSynchronize(scene.event));
    assert_done(cu.cuStreamQuery(scene.b));
    assert_done(cu.cuStreamSynchronize(scene.b));
    assert_bytes(0, 3);
    end_whole();
}

/* "It is also invalid to ... synchronize a broader handle which encompasses an active stream capture." */
static void a_context_is_not_waited_for_while_a_stream_captures(void **state) {
    (void)state;
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuCtxSynchronize());
    end_broken();
}

static void a_stream_callback_is_not_captured(void **state) {
    (void)state;
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                cu.cuStreamAddCallback(scene.a, (CUstreamCallback)(void (*)(void))bump, NULL, 0));
    end_broken();
}

/* ---- the legacy stream ------------------------------------------------------------------------------------------ */

/* "When a blocking stream is capturing, the legacy stream is in an unusable state until the capture is terminated." */
static void the_legacy_stream_is_of_no_use_while_a_blocking_stream_captures(void **state) {
    (void)state;
    CUstreamCaptureStatus status;
    uint64_t id;
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamIsCapturing(NULL, &status));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamGetCaptureInfo(CU_STREAM_LEGACY, &status, &id));
    assert_status(ACTIVE, scene.a); /* "The blocking stream capture is not invalidated." */
    assert_code(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuMemsetD8Async(piece(0), 1, BYTES, NULL));
    end_broken();
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamSynchronize(NULL));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamQuery(NULL));
    end_broken();
    begin();
    assert_code(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuMemcpy(host_piece(0), piece(0), BYTES));
    end_broken();
    begin();
    assert_done(cu.cuEventRecord(scene.event, scene.a));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamWaitEvent(NULL, scene.event, 0));
    end_broken();
    assert_done(cu.cuMemsetD8Async(piece(0), 1, BYTES, NULL));
    assert_done(cu.cuStreamSynchronize(NULL));
}

static void the_legacy_stream_goes_on_beside_a_non_blocking_capture(void **state) {
    (void)state;
    CUgraph graph;
    CUstream apart;
    assert_done(cu.cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    begin_in(apart, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_status(NONE, NULL);
    assert_done(cu.cuMemsetD8Async(piece(0), 4, BYTES, NULL));
    assert_done(cu.cuMemcpy(host_piece(0), piece(0), BYTES));
    assert_bytes(0, 4);
    assert_status(ACTIVE, apart);
    assert_done(cu.cuEventRecord(scene.event, apart));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamWaitEvent(NULL, scene.event, 0));
    assert_status(INVALIDATED, apart);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(apart, &graph));
    assert_done(cu.cuStreamDestroy_v2(apart));
}

/* ---- handles that go -------------------------------------------------------------------------------------------- */

static void a_capture_goes_with_its_origin(void **state) {
    (void)state;
    begin();
    assert_done(cu.cuEventRecord(scene.event, scene.a));
    assert_done(cu.cuStreamWaitEvent(scene.b, scene.event, 0));
    set(0, 1, scene.a);
    assert_done(cu.cuStreamDestroy_v2(scene.a));
    scene.a = NULL;
    assert_status(NONE, scene.b);
    assert_code(CUDA_ERROR_CAPTURED_EVENT, cu.cuEventQuery(scene.event));
    assert_done(cu.cuStreamSynchronize(scene.b));
    assert_done(cu.cuCtxSynchronize());
}

static void what_a_destroyed_fork_did_must_be_joined_still(void **state) {
    (void)state;
    CUgraph graph;
    for (int joined = 0; joined < 2; joined++) {
        begin();
        follow(scene.b, scene.a);
        set(0, 1, scene.b);
        if (joined) follow(scene.a, scene.b);
        assert_done(cu.cuStreamDestroy_v2(scene.b));
        assert_status(ACTIVE, scene.a);
        const CUresult code = cu.cuStreamEndCapture(scene.a, &graph);
        assert_code(joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED, code);
        assert_done(cu.cuStreamCreate(&scene.b, CU_STREAM_DEFAULT));
        assert_status(NONE, scene.b);
    }
    assert_done(cu.cuGraphDestroy(graph));
}

/* The next stream may have what a destroyed one had behind it. */
static void a_destroyed_fork_leaves_nothing_to_the_next_stream(void **state) {
    (void)state;
    CUgraph graph;
    begin();
    follow(scene.b, scene.a);
    assert_done(cu.cuStreamDestroy_v2(scene.b));
    assert_done(cu.cuStreamCreate(&scene.b, CU_STREAM_DEFAULT));
    begin_in(scene.b, CU_STREAM_CAPTURE_MODE_RELAXED);
    end_whole();
    assert_status(ACTIVE, scene.b);
    assert_done(cu.cuStreamEndCapture(scene.b, &graph));
    assert_done(cu.cuGraphDestroy(graph));
}

static void an_event_may_go_while_its_capture_goes_on(void **state) {
    (void)state;
    CUevent event;
    begin();
    assert_done(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuEventRecord(event, scene.a));
    assert_done(cu.cuStreamWaitEvent(scene.b, event, 0));
    assert_done(cu.cuEventDestroy_v2(event));
    assert_done(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)); /* the same handle, and no captured event */
    assert_done(cu.cuEventQuery(event));
    assert_done(cu.cuEventDestroy_v2(event));
    end_whole();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scene_test(nothing_happens_while_it_is_captured),
        scene_test(the_legacy_stream_is_not_captured),
        scene_test(the_per_thread_stream_is_captured),
        scene_test(a_capture_begins_once_and_ends_once),
        scene_test(malformed_requests_are_refused_without_harm),
        scene_test(a_capture_ends_where_it_began),
        scene_test(a_strict_capture_ends_in_its_thread),
        scene_test(a_relaxed_capture_ends_in_any_thread),
        scene_test(a_capture_tells_its_state),
        scene_test(a_fork_must_be_joined),
        scene_test(forks_are_joined_directly_or_through_others),
        scene_test(a_capture_does_not_wait_for_what_is_outside),
        scene_test(two_captures_do_not_merge),
        scene_test(two_captures_go_on_side_by_side),
        scene_test(an_event_of_a_broken_or_finished_capture_brings_no_stream_in),
        scene_test(what_the_next_node_comes_after_can_be_changed),
        scene_test(a_capturing_stream_is_not_queried_nor_waited_for),
        scene_test(a_captured_event_is_not_queried_nor_waited_for),
        scene_test(a_captured_event_has_no_time),
        scene_test(other_streams_and_events_are_free_meanwhile),
        scene_test(a_context_is_not_waited_for_while_a_stream_captures),
        scene_test(a_stream_callback_is_not_captured),
        scene_test(the_legacy_stream_is_of_no_use_while_a_blocking_stream_captures),
        scene_test(the_legacy_stream_goes_on_beside_a_non_blocking_capture),
        scene_test(a_capture_goes_with_its_origin),
        scene_test(what_a_destroyed_fork_did_must_be_joined_still),
        scene_test(a_destroyed_fork_leaves_nothing_to_the_next_stream),
        scene_test(an_event_may_go_while_its_capture_goes_on),
    };
    return cmocka_run_group_tests(tests, load_entries, NULL);
}
