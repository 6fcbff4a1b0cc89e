/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that were captured, and are launched. */
#include "suite.h"

#define SUBJECT   "graphs"
#define REFERENCE "CUDA Driver API, Stream Management, "

enum { BYTES = 1 << 14 };

CASE(captured_work_happens_when_the_graph_is_launched,
     REFERENCE "cuStreamBeginCapture: \"will not be executed, but will instead be captured into a graph\"") {
    const CUdeviceptr block = new_block(BYTES);
    set(block, 1, BYTES, NULL);
    OK(cu.CtxSynchronize());
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    set(block, 2, BYTES, stream);
    CUgraph graph = end_capture(stream);
    CUgraphExec executable = made_ready(graph);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 1));
    OK(cu.GraphLaunch(executable, stream));
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 2));
    OK(cu.GraphExecDestroy(executable));
    OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(a_graph_is_launched_as_often_as_one_likes, "CUDA Driver API, Graph Management, cuGraphLaunch") {
    unsigned char *mine = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    copy(block, as_device(mine), BYTES, stream);
    CUgraph graph = end_capture(stream);
    CUgraphExec executable = made_ready(graph);
    for (int times = 1; times <= 5; times++) {
        memset(mine, times, BYTES);
        OK(cu.GraphLaunch(executable, stream));
        OK(cu.StreamSynchronize(stream));
        CHECK(device_all_are(block, BYTES, times));
    }
    OK(cu.GraphExecDestroy(executable));
    OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(mine));
}

CASE(a_launch_has_its_place_in_the_stream, "CUDA Driver API, Graph Management, cuGraphLaunch: \"Each launch is ordered "
                                           "behind both any previous work in hStream\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    mark(stream, 2);
    mark(stream, 3);
    CUgraph graph = end_capture(stream);
    CUgraphExec executable = made_ready(graph);
    OK(cu.GraphLaunch(executable, stream)); /* whatever a first launch has to load is there now */
    OK(cu.StreamSynchronize(stream));
    CHECK(marks_are("23"));
    struct gate *gate = hold(stream);
    mark(stream, 1);
    OK(cu.GraphLaunch(executable, stream));
    mark(stream, 4);
    stays_pending(stream);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    CHECK(marks_are("1234"));
    OK(cu.GraphExecDestroy(executable));
    OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(an_executable_outlives_its_graph, "CUDA Driver API, Graph Management, cuGraphInstantiate, cuGraphDestroy") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    set(block, 7, BYTES, stream);
    CUgraph graph = end_capture(stream);
    CUgraphExec executable = made_ready(graph);
    OK(cu.GraphDestroy(graph));
    OK(cu.GraphLaunch(executable, stream));
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 7));
    OK(cu.GraphExecDestroy(executable));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(an_executable_destroyed_in_flight_is_finished,
     "CUDA Driver API, Graph Management, cuGraphExecDestroy: \"it will not be terminated, but rather freed "
     "asynchronously on completion\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    set(block, 9, BYTES, stream);
    CUgraph graph = end_capture(stream);
    CUgraphExec executable = made_ready(graph);
    OK(cu.GraphLaunch(executable, stream));
    set(block, 1, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    struct gate *gate = hold(stream);
    OK(cu.GraphLaunch(executable, stream));
    OK(cu.GraphExecDestroy(executable));
    OK(cu.GraphDestroy(graph));
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 9));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(a_captured_operation_is_a_node, "CUDA Driver API, Graph Management, cuGraphGetNodes") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUgraph empty = end_capture(stream);
    CHECK_EQUAL(0, node_count(empty));
    OK(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    set(block, 1, BYTES, stream);
    set(block, 2, BYTES, stream);
    CUgraph graph = end_capture(stream);
    CHECK_EQUAL(2, node_count(graph));
    OK(cu.GraphDestroy(empty));
    OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(work_in_order_is_a_chain_and_branches_are_roots, "CUDA Driver API, Graph Management, cuGraphGetRootNodes") {
    const CUdeviceptr block = new_block(2 * BYTES);
    CUevent fork = new_event(), join = new_event();
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING), stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    size_t roots = 99;
    set(block, 1, BYTES, stream);
    set(block, 2, BYTES, stream);
    CUgraph chain = end_capture(stream);
    OK(cu.GraphGetRootNodes(chain, NULL, &roots));
    CHECK_EQUAL(1, roots);
    OK(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.EventRecord(fork, stream)); /* before anything: the branches start at once */
    OK(cu.StreamWaitEvent(other, fork, 0));
    set(block, 1, BYTES, stream);
    set(block + BYTES, 2, BYTES, other);
    OK(cu.EventRecord(join, other));
    OK(cu.StreamWaitEvent(stream, join, 0));
    CUgraph branches = end_capture(stream);
    OK(cu.GraphGetRootNodes(branches, NULL, &roots));
    CHECK_EQUAL(2, roots);
    OK(cu.GraphDestroy(chain));
    OK(cu.GraphDestroy(branches));
    OK(cu.StreamDestroy(stream));
    OK(cu.StreamDestroy(other));
    OK(cu.EventDestroy(fork));
    OK(cu.EventDestroy(join));
    OK(cu.MemFree(block));
}

/* ---- memory of a graph ------------------------------------------------------------------------------------------ */

#define GRAPH_MEMORY "CUDA C++ Programming Guide, CUDA Graphs, Graph Memory Nodes"

static void need_pools(void) {
    SKIP_IF(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0, "the device has no memory pools");
}

CASE(a_captured_allocation_is_made_at_each_launch, "CUDA Driver API, Stream Ordered Memory Allocator, cuMemAllocAsync: "
                                                   "\"During stream capture, this function results in "
                                                   "the creation of an allocation node\"") {
    need_pools();
    unsigned char *seen = new_pinned(BYTES);
    CUdeviceptr block = 0;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.MemAllocAsync(&block, BYTES, stream));
    CHECK(block != 0);
    set(block, 8, BYTES, stream);
    copy(as_device(seen), block, BYTES, stream);
    OK(cu.MemFreeAsync(block, stream));
    CUgraph graph = end_capture(stream);
    CHECK_EQUAL(4, node_count(graph));
    CUgraphExec executable = made_ready(graph);
    for (int times = 0; times < 3; times++) {
        memset(seen, 0, BYTES);
        OK(cu.GraphLaunch(executable, stream));
        OK(cu.StreamSynchronize(stream));
        CHECK(all_are(seen, BYTES, 8));
    }
    OK(cu.GraphExecDestroy(executable));
    OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFreeHost(seen));
}

CASE(a_graphs_allocation_is_used_and_freed_outside, GRAPH_MEMORY ", Accessing and Freeing Graph Memory Outside of the "
                                                                 "Allocating Graph") {
    need_pools();
    CUdeviceptr block = 0;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.MemAllocAsync(&block, BYTES, stream));
    CUgraph graph = end_capture(stream);
    CUgraphExec executable = made_ready(graph);
    for (int times = 1; times <= 2; times++) {
        OK(cu.GraphLaunch(executable, stream));
        set(block, times, BYTES, stream);
        OK(cu.StreamSynchronize(stream));
        CHECK(device_all_are(block, BYTES, times));
        OK(cu.MemFreeAsync(block, stream));
    }
    OK(cu.StreamSynchronize(stream));
    OK(cu.GraphExecDestroy(executable));
    OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
}

CASE(a_graph_is_not_launched_again_before_its_memory_is_freed,
     "CUDA Driver API, Graph Management, cuGraphLaunch: \"If any allocations created by hGraphExec remain unfreed ... "
     "the "
     "launch will fail with CUDA_ERROR_INVALID_VALUE\"") {
    need_pools();
    CUdeviceptr block = 0;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.MemAllocAsync(&block, BYTES, stream));
    CUgraph graph = end_capture(stream);
    CUgraphExec executable = made_ready(graph);
    OK(cu.GraphLaunch(executable, stream));
    GIVES(cu.GraphLaunch(executable, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    OK(cu.GraphExecDestroy(executable));
    OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
}

CASE(a_plain_block_is_not_freed_by_a_graph, "CUDA Driver API, Stream Ordered Memory Allocator, cuMemFreeAsync: during "
                                            "capture it \"must therefore be passed the "
                                            "address of a graph allocation\"") {
    need_pools();
    CUgraph graph = NULL;
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    REFUSED(cu.MemFreeAsync(block, stream));
    cu.StreamEndCapture(stream, &graph);
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}
