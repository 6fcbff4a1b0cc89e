/* SPDX-License-Identifier: Apache-2.0 */
/* A captured graph does the same each time it is launched, in the order that the capture stated, and the watch sees
 * that order. From the driver API's "Graph Management" and the programming guide's chapters on graphs. */
#include "tests/device/capture.h"

enum { TIMES = 3 };

static void launch(CUgraphExec exec, CUstream stream) { assert_done(cu.cuGraphLaunch(exec, stream)); }

static CUgraphExec instantiate_only(CUgraph graph) {
    CUgraphExec exec = instantiate(graph);
    assert_done(cu.cuGraphDestroy(graph));
    return exec;
}

static struct weir_emu_gate *hold_stream(CUstream stream) {
    struct weir_emu_gate *gate;
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_done(cu.weirEmuGateHold(gate, stream));
    return gate;
}

static void release(struct weir_emu_gate *gate) {
    assert_done(cu.weirEmuGateOpen(gate, 0));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.weirEmuGateDestroy(gate));
}

/* Work that says what it accesses and does nothing. */
static void access_piece(const char *name, unsigned index, bool write, CUstream stream) {
    const struct weir_emu_access access = {(const void *)(uintptr_t)piece(index), BYTES, write};
    const struct weir_emu_work work = {.size = sizeof work, .name = name, .accesses = &access, .access_count = 1};
    assert_done(cu.weirEmuSubmit(&work, stream));
}

/* ---- the same each time ----------------------------------------------------------------------------------------- */

/* The host brings 1, b adds what it brings; all of it changes between launches. */
static void a_launch_gives_the_same_bytes_each_time(void **state) {
    (void)state;
    atomic_int calls = 0;
    begin();
    assert_done(cu.cuMemcpyAsync(piece(0), host_piece(0), BYTES, scene.a));
    follow(scene.b, scene.a);
    assert_done(cu.cuMemcpyAsync(piece(1), piece(0), BYTES, scene.b));
    set(2, 0x5c, scene.a);
    follow(scene.a, scene.b);
    bring(1, scene.a);
    bring(2, scene.a);
    assert_done(cu.cuLaunchHostFunc(scene.a, bump, &calls));
    CUgraph graph = end();
    assert_int_equal(node_count(graph), 6);
    CUgraphExec exec = instantiate_only(graph);
    for (int i = 0; i < TIMES; i++) {
        assert_done(cu.cuMemsetD8Async(scene.memory, 0xee, 4 * BYTES, scene.c));
        assert_done(cu.cuStreamSynchronize(scene.c));
        memset(scene.host, 0xdd, 4 * BYTES);
        memset(scene.host, 0x31, BYTES);
        launch(exec, scene.c);
        assert_done(cu.cuStreamSynchronize(scene.c));
        assert_bytes(1, 0x31);
        assert_bytes(2, 0x5c);
        assert_int_equal(calls, i + 1);
    }
    assert_done(cu.cuGraphExecDestroy(exec));
}

static void pending_launches_follow_one_another(void **state) {
    (void)state;
    atomic_int calls = 0;
    begin();
    follow(scene.b, scene.a);
    assert_done(cu.cuLaunchHostFunc(scene.b, bump, &calls));
    follow(scene.a, scene.b);
    CUgraphExec exec = instantiate_only(end());
    struct weir_emu_gate *gate = hold_stream(scene.a);
    for (int i = 0; i < TIMES; i++) launch(exec, scene.a);
    assert_int_equal(calls, 0);
    release(gate);
    assert_int_equal(calls, TIMES);
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* Names and lists of accesses are the caller's; what is captured of them is copied. */
static void what_was_described_is_kept(void **state) {
    (void)state;
    char name[] = "described";
    struct weir_emu_access access = {(const void *)(uintptr_t)piece(0), BYTES, 1};
    const struct weir_emu_work work = {.size = sizeof work, .name = name, .accesses = &access, .access_count = 1};
    begin();
    assert_done(cu.weirEmuSubmit(&work, scene.a));
    CUgraphExec exec = instantiate_only(end());
    memset(name, 'x', sizeof name - 1);
    access = (struct weir_emu_access){NULL, 1, 0};
    struct weir_emu_report report = {.size = sizeof report};
    for (int i = 0; i < TIMES; i++) {
        assert_done(cu.weirEmuWatchClear());
        launch(exec, scene.a);
        access_piece("racing", 0, false, scene.b);
        assert_done(cu.weirEmuWatchReport(0, &report));
        assert_int_equal(report.kind, WEIR_EMU_RACE);
        assert_string_equal(report.first, "described");
        assert_string_equal(report.second, "racing");
        assert_ptr_equal(report.address, (void *)(uintptr_t)piece(0));
        assert_done(cu.cuCtxSynchronize());
    }
    assert_done(cu.weirEmuWatchClear());
    assert_done(cu.cuGraphExecDestroy(exec));
}

static void a_graph_may_be_longer_than_a_launch_queue(void **state) {
    (void)state;
    enum { NODES = 2500 };
    atomic_int calls = 0;
    begin();
    follow(scene.b, scene.a);
    for (int i = 0; i < NODES; i++) assert_done(cu.cuLaunchHostFunc(i % 2 ? scene.a : scene.b, bump, &calls));
    follow(scene.a, scene.b);
    CUgraphExec exec = instantiate_only(end());
    for (int i = 0; i < TIMES; i++) launch(exec, scene.a);
    assert_done(cu.cuStreamSynchronize(scene.a));
    assert_int_equal(calls, TIMES * NODES);
    assert_done(cu.cuGraphExecDestroy(exec));
}

static void an_empty_graph_does_nothing(void **state) {
    (void)state;
    CUgraph graph;
    size_t count = 99;
    assert_done(cu.cuGraphCreate(&graph, 0));
    assert_done(cu.cuGraphGetRootNodes(graph, NULL, &count));
    assert_int_equal(count, 0);
    CUgraphExec exec = instantiate_only(graph);
    for (int i = 0; i < TIMES; i++) launch(exec, scene.a);
    assert_done(cu.cuStreamSynchronize(scene.a));
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

/* "Each launch is ordered behind both any previous work in hStream and any previous launches of hGraphExec." */
static void a_launch_comes_after_the_stream_and_after_earlier_launches(void **state) {
    (void)state;
    atomic_int calls = 0;
    begin();
    follow(scene.b, scene.a);
    assert_done(cu.cuLaunchHostFunc(scene.b, bump, &calls));
    follow(scene.a, scene.b);
    CUgraphExec exec = instantiate_only(end());
    struct weir_emu_gate *gate = hold_stream(scene.a);
    launch(exec, scene.a);
    launch(exec, scene.c);
    assert_code(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(scene.a));
    assert_code(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(scene.c));
    assert_done(cu.cuStreamSynchronize(scene.b)); /* the capture's streams are not used */
    assert_int_equal(calls, 0);
    release(gate);
    assert_int_equal(calls, 2);
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* Every branch is over before what comes after the launch; the watch sees both borders. */
static void the_stream_goes_on_after_the_whole_of_it(void **state) {
    (void)state;
    begin();
    follow(scene.b, scene.a);
    access_piece("branch", 0, true, scene.b);
    follow(scene.a, scene.b);
    CUgraphExec exec = instantiate_only(end());
    for (int i = 0; i < TIMES; i++) {
        access_piece("before", 0, true, scene.c);
        launch(exec, scene.c);
        access_piece("behind", 0, true, scene.c);
    }
    assert_done(cu.cuStreamSynchronize(scene.c));
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* The branches are ordered with the legacy stream as the launching stream is. */
static void a_launch_is_ordered_with_the_legacy_stream(void **state) {
    (void)state;
    begin();
    follow(scene.b, scene.a);
    access_piece("branch", 0, true, scene.b);
    follow(scene.a, scene.b);
    CUgraphExec exec = instantiate_only(end());
    for (int i = 0; i < TIMES; i++) {
        access_piece("before", 0, true, NULL);
        launch(exec, scene.a);
        access_piece("between", 0, true, NULL);
        launch(exec, NULL);
        access_piece("behind", 0, true, scene.c);
    }
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* A wait that the capture lacks is a race in every launch, whatever the timing. */
static void branches_without_order_race(void **state) {
    (void)state;
    begin();
    follow(scene.b, scene.a);
    access_piece("one branch", 0, true, scene.a);
    access_piece("other branch", 0, false, scene.b);
    follow(scene.a, scene.b);
    CUgraphExec exec = instantiate_only(end());
    struct weir_emu_report report = {.size = sizeof report};
    assert_code(CUDA_ERROR_NOT_FOUND, cu.weirEmuWatchReport(0, &report));
    for (int i = 0; i < TIMES; i++) {
        assert_done(cu.weirEmuWatchClear());
        launch(exec, scene.c);
        assert_done(cu.weirEmuWatchReport(0, &report));
        assert_int_equal(report.kind, WEIR_EMU_RACE);
        assert_string_equal(report.first, "one branch");
        assert_string_equal(report.second, "other branch");
    }
    assert_done(cu.weirEmuWatchClear());
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* Also when one stream's front was replaced: its earlier nodes and its later ones have no order then. */
static void what_a_replaced_front_cut_off_is_a_branch(void **state) {
    (void)state;
    begin();
    access_piece("cut off", 0, true, scene.a);
    assert_done(cu.cuStreamUpdateCaptureDependencies(scene.a, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    access_piece("later", 0, false, scene.a);
    CUgraphExec exec = instantiate_only(end());
    struct weir_emu_report report = {.size = sizeof report};
    launch(exec, scene.a);
    assert_done(cu.weirEmuWatchReport(0, &report));
    assert_string_equal(report.first, "cut off");
    assert_string_equal(report.second, "later");
    assert_done(cu.weirEmuWatchClear());
    access_piece("behind", 0, true, scene.a); /* both are over */
    assert_done(cu.cuGraphExecDestroy(exec));
}

static void branches_with_order_do_not(void **state) {
    (void)state;
    begin();
    access_piece("trunk", 1, true, scene.a);
    follow(scene.b, scene.a);
    access_piece("first", 0, true, scene.a);
    access_piece("beside", 1, false, scene.b);
    follow(scene.b, scene.a);
    access_piece("second", 0, false, scene.b);
    follow(scene.a, scene.b);
    access_piece("third", 0, true, scene.a);
    CUgraphExec exec = instantiate_only(end());
    for (int i = 0; i < TIMES; i++) launch(exec, i == 1 ? scene.b : scene.c);
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* ---- nodes of other kinds --------------------------------------------------------------------------------------- */

static void a_graph_launched_in_a_capture_becomes_part_of_it(void **state) {
    (void)state;
    begin();
    follow(scene.b, scene.a);
    set(0, 1, scene.a);
    access_piece("root", 2, false, scene.b); /* comes after what is before the launch */
    follow(scene.b, scene.a);
    assert_done(cu.cuMemcpyAsync(piece(1), piece(0), BYTES, scene.b));
    follow(scene.a, scene.b);
    CUgraphExec inner = instantiate_only(end());
    begin();
    set(1, 9, scene.a);
    access_piece("before", 2, true, scene.a);
    launch(inner, scene.a);
    bring(1, scene.a);
    assert_status(ACTIVE, scene.a);
    CUgraph graph = end();
    assert_int_equal(node_count(graph), 6);
    CUgraphExec exec = instantiate_only(graph);
    assert_done(cu.cuGraphExecDestroy(inner));
    for (int i = 0; i < TIMES; i++) {
        memset(scene.host, 0xdd, 4 * BYTES);
        launch(exec, scene.a);
        assert_done(cu.cuStreamSynchronize(scene.a));
        assert_bytes(1, 1);
    }
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* "Event is captured in the graph as an external event node": recorded and waited for by each launch. */
static void external_events_are_nodes(void **state) {
    (void)state;
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuEventRecordWithFlags(scene.event, scene.a, CU_EVENT_RECORD_EXTERNAL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(scene.a, scene.event, CU_EVENT_WAIT_EXTERNAL));
    begin();
    assert_done(cu.cuStreamWaitEvent(scene.a, scene.other_event, CU_EVENT_WAIT_EXTERNAL));
    set(0, 4, scene.a);
    assert_done(cu.cuEventRecordWithFlags(scene.event, scene.a, CU_EVENT_RECORD_EXTERNAL));
    CUgraphExec exec = instantiate_only(end());
    for (int i = 0; i < TIMES; i++) {
        struct weir_emu_gate *gate = hold_stream(scene.b);
        assert_done(cu.cuEventRecord(scene.other_event, scene.b));
        launch(exec, scene.a);
        assert_code(CUDA_ERROR_NOT_READY, cu.cuEventQuery(scene.event));
        release(gate);
        assert_done(cu.cuEventQuery(scene.event));
        assert_done(cu.cuStreamWaitEvent(scene.c, scene.event, 0));
        bring(0, scene.c);
        assert_done(cu.cuStreamSynchronize(scene.c));
        assert_bytes(0, 4);
    }
    assert_done(cu.cuGraphExecDestroy(exec));
}

static void nodes_tell_their_types_and_order(void **state) {
    (void)state;
    CUgraphNode nodes[5], before[2], from[8], to[8];
    CUgraphEdgeData edges[8];
    CUgraphNodeType types[5];
    size_t count = 5;
    begin();
    set(0, 1, scene.a);
    follow(scene.b, scene.a);
    bring(0, scene.a);
    access_piece("work", 0, false, scene.b);
    follow(scene.a, scene.b);
    assert_done(cu.cuLaunchHostFunc(scene.a, bump, NULL));
    CUgraph graph = end();
    assert_done(cu.cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 4);
    assert_null(nodes[4]);
    for (size_t i = 0; i < count; i++) assert_done(cu.cuGraphNodeGetType(nodes[i], &types[i]));
    assert_int_equal(types[0], CU_GRAPH_NODE_TYPE_MEMSET);
    assert_int_equal(types[1], CU_GRAPH_NODE_TYPE_MEMCPY);
    assert_int_equal(types[2], CU_GRAPH_NODE_TYPE_KERNEL);
    assert_int_equal(types[3], CU_GRAPH_NODE_TYPE_HOST);
    count = 2;
    assert_done(cu.cuGraphNodeGetDependencies_v2(nodes[3], before, edges, &count));
    assert_int_equal(count, 2);
    assert_ptr_equal(before[0], nodes[1]);
    assert_ptr_equal(before[1], nodes[2]);
    count = 8;
    assert_done(cu.cuGraphGetEdges_v2(graph, from, to, edges, &count));
    assert_int_equal(count, 4);
    assert_ptr_equal(from[1], nodes[0]);
    assert_ptr_equal(to[1], nodes[2]);
    assert_done(cu.cuGraphDestroy(graph));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphNodeGetType(nodes[0], types));
}

/* A stream of another device joins as any other; each branch runs on its own device. */
static void a_graph_may_span_devices(void **state) {
    (void)state;
    CUcontext second;
    CUstream far;
    CUevent there;
    CUdeviceptr memory;
    assert_done(cu.cuDevicePrimaryCtxRetain(&second, 1));
    assert_done(cu.cuCtxPushCurrent_v2(second));
    assert_done(cu.cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuMemAlloc_v2(&memory, BYTES));
    begin();
    set(0, 6, scene.a);
    assert_code(CUDA_ERROR_INVALID_HANDLE, cu.cuEventRecord(there, scene.a)); /* of another context */
    assert_done(cu.cuEventRecord(scene.event, scene.a));
    assert_done(cu.cuStreamWaitEvent(far, scene.event, 0));
    assert_done(cu.cuMemcpyAsync(memory, piece(0), BYTES, far));
    assert_done(cu.cuEventRecord(there, far));
    assert_done(cu.cuStreamWaitEvent(scene.a, there, 0));
    assert_done(cu.cuMemcpyAsync(host_piece(0), memory, BYTES, scene.a));
    CUgraphExec exec = instantiate_only(end());
    CUstream streams[TIMES] = {scene.b, far, scene.a};
    for (int i = 0; i < TIMES; i++) {
        memset(scene.host, 0, BYTES);
        launch(exec, streams[i]);
        assert_done(cu.cuStreamSynchronize(streams[i]));
        assert_bytes(0, 6);
    }
    assert_done(cu.cuMemFree_v2(memory));
    assert_done(cu.cuStreamDestroy_v2(far));
    assert_done(cu.cuEventDestroy_v2(there));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(1));
    assert_code(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuGraphLaunch(exec, scene.a));
    assert_done(cu.cuGraphExecDestroy(exec));
}

/* In the stream of the launch where that is of the same context, else beside it. */
static void a_node_stays_on_the_device_where_it_was_captured(void **state) {
    (void)state;
    CUcontext second;
    CUstream far;
    uint64_t near_number, far_number;
    struct weir_emu_report report = {.size = sizeof report};
    assert_done(cu.cuDevicePrimaryCtxRetain(&second, 1));
    assert_done(cu.cuCtxPushCurrent_v2(second));
    assert_done(cu.cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
    begin();
    access_piece("node", 0, true, scene.a);
    CUgraphExec exec = instantiate_only(end());
    assert_done(cu.weirEmuStreamNumber(scene.c, &near_number));
    assert_done(cu.weirEmuStreamNumber(far, &far_number));
    for (int i = 0; i < 2; i++) {
        launch(exec, i == 0 ? scene.c : far);
        access_piece("racing", 0, true, scene.b);
        assert_done(cu.weirEmuWatchReport(0, &report));
        assert_string_equal(report.first, "node");
        assert_true((report.first_stream == near_number) == (i == 0));
        assert_true(report.first_stream != far_number);
        assert_done(cu.cuStreamSynchronize(far));
        assert_done(cu.cuStreamSynchronize(scene.b));
        assert_done(cu.cuStreamSynchronize(scene.c));
        assert_done(cu.weirEmuWatchClear());
    }
    assert_done(cu.cuGraphExecDestroy(exec));
    assert_done(cu.cuStreamDestroy_v2(far));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(1));
}

/* ---- lives ------------------------------------------------------------------------------------------------------ */

static void a_launch_outlives_its_executable_graph(void **state) {
    (void)state;
    begin();
    follow(scene.b, scene.a);
    set(0, 3, scene.b);
    follow(scene.a, scene.b);
    bring(0, scene.a);
    CUgraphExec exec = instantiate_only(end());
    struct weir_emu_gate *gate = hold_stream(scene.a);
    launch(exec, scene.a);
    assert_done(cu.cuGraphExecDestroy(exec));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphLaunch(exec, scene.a));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphExecDestroy(exec));
    assert_bytes(0, 0);
    release(gate);
    assert_bytes(0, 3);
}

/* The driver would meet a hole when the graph runs; here nothing of it is queued. */
static void a_launch_is_refused_when_its_memory_is_gone(void **state) {
    (void)state;
    CUdeviceptr memory;
    begin();
    assert_done(cu.cuMemAlloc_v2(&memory, BYTES));
    set(0, 3, scene.a);
    assert_done(cu.cuMemsetD8Async(memory, 3, BYTES, scene.a));
    CUgraphExec exec = instantiate_only(end());
    launch(exec, scene.a);
    assert_done(cu.cuMemFree_v2(memory));
    set(0, 5, scene.a);
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphLaunch(exec, scene.a));
    bring(0, scene.a);
    assert_done(cu.cuStreamSynchronize(scene.a));
    assert_bytes(0, 5);
    assert_done(cu.cuGraphExecDestroy(exec));
}

static void a_launch_is_refused_when_its_event_is_gone(void **state) {
    (void)state;
    CUevent event;
    assert_done(cu.cuEventCreate(&event, 0));
    begin();
    assert_done(cu.cuEventRecordWithFlags(event, scene.a, CU_EVENT_RECORD_EXTERNAL));
    CUgraphExec exec = instantiate_only(end());
    launch(exec, scene.a);
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuEventDestroy_v2(event));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphLaunch(exec, scene.a));
    assert_done(cu.cuGraphExecDestroy(exec));
}

static void malformed_requests_are_refused(void **state) {
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    size_t count = 0;
    uint64_t flags;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY};
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphCreate(&graph, 1));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphCreate(NULL, 0));
    assert_done(cu.cuGraphCreate(&graph, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphGetNodes(graph, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphGetNodes((CUgraph)&graph, NULL, &count));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(NULL, graph, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(&exec, graph, 16));
    assert_code(CUDA_ERROR_INVALID_VALUE, /* with params only */
                cu.cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD));
    assert_code(CUDA_ERROR_NOT_SUPPORTED,
                cu.cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithParams(&exec, graph, NULL));
    assert_done(cu.cuGraphInstantiateWithParams(&exec, graph, &params));
    assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    assert_done(cu.cuGraphExecGetFlags(exec, &flags));
    assert_int_equal(flags, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    assert_done(cu.cuGraphUpload(exec, scene.a));
    assert_code(CUDA_ERROR_INVALID_HANDLE, cu.cuGraphLaunch(exec, (CUstream)&exec));
    assert_done(cu.cuGraphExecDestroy(exec));
    params.flags = 64;
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithParams(&exec, graph, &params));
    assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_ERROR);
    assert_done(cu.cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
    assert_done(cu.cuGraphExecDestroy(exec));
    assert_done(cu.cuGraphDestroy(graph));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(graph));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scene_test(a_launch_gives_the_same_bytes_each_time),
        scene_test(pending_launches_follow_one_another),
        scene_test(what_was_described_is_kept),
        scene_test(a_graph_may_be_longer_than_a_launch_queue),
        scene_test(an_empty_graph_does_nothing),
        scene_test(a_launch_comes_after_the_stream_and_after_earlier_launches),
        scene_test(the_stream_goes_on_after_the_whole_of_it),
        scene_test(a_launch_is_ordered_with_the_legacy_stream),
        scene_test(branches_without_order_race),
        scene_test(what_a_replaced_front_cut_off_is_a_branch),
        scene_test(branches_with_order_do_not),
        scene_test(a_graph_launched_in_a_capture_becomes_part_of_it),
        scene_test(external_events_are_nodes),
        scene_test(nodes_tell_their_types_and_order),
        scene_test(a_graph_may_span_devices),
        scene_test(a_node_stays_on_the_device_where_it_was_captured),
        scene_test(a_launch_outlives_its_executable_graph),
        scene_test(a_launch_is_refused_when_its_memory_is_gone),
        scene_test(a_launch_is_refused_when_its_event_is_gone),
        scene_test(malformed_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, load_entries, NULL);
}
