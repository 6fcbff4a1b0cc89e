/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a stream asks for in capture: its address is in the graph, nobody else is given it while the graph lives,
 * and each launch finds it. From the driver API's "Stream Ordered Memory Allocator" and "Graph Management"
 * (cuGraphAddMemAllocNode, cuGraphInstantiate) and the programming guide's chapter on graph memory nodes. */
#include "tests/device/capture.h"

enum { TIMES = 3, KIB = 1024 };

static void launch(CUgraphExec exec, CUstream stream) { assert_done(cu.cuGraphLaunch(exec, stream)); }

static CUgraphExec instantiate_only(CUgraph graph) {
    CUgraphExec exec = instantiate(graph);
    assert_done(cu.cuGraphDestroy(graph));
    return exec;
}

static CUdeviceptr alloc(size_t bytes, CUstream stream) {
    CUdeviceptr address;
    assert_done(cu.cuMemAllocAsync(&address, bytes, stream));
    return address;
}

static void give_back(CUdeviceptr address, CUstream stream) { assert_done(cu.cuMemFreeAsync(address, stream)); }

static size_t free_bytes(void) {
    size_t left, total;
    assert_done(cu.cuMemGetInfo_v2(&left, &total));
    return left;
}

static bool apart(CUdeviceptr one, CUdeviceptr other, size_t bytes) {
    return one + bytes <= other || other + bytes <= one;
}

static void no_one_else_is_given_it_while_the_graph_lives(void **state) {
    (void)state;
    enum { SMALL = 64 * KIB, LARGE = 128 * KIB };
    const size_t before = free_bytes();
    begin_in(scene.a, CU_STREAM_CAPTURE_MODE_GLOBAL); /* the strictest, and it is no unsafe call */
    const CUdeviceptr p = alloc(SMALL, scene.a);
    assert_done(cu.cuMemsetD8Async(p, 1, SMALL, scene.a));
    give_back(p, scene.a);
    const CUdeviceptr q = alloc(LARGE, scene.a);
    assert_done(cu.cuMemsetD8Async(q, 2, LARGE, scene.a));
    assert_done(cu.cuMemcpyAsync(host_piece(0), q, BYTES, scene.a));
    give_back(q, scene.a);
    assert_status(ACTIVE, scene.a);
    CUgraph graph = end();
    assert_int_equal(node_count(graph), 7);
    CUgraphExec exec = instantiate_only(graph);
    for (int i = 0; i < TIMES; i++) {
        memset(scene.host, 0, BYTES);
        launch(exec, scene.a);
        const CUdeviceptr eager[] = {alloc(SMALL, scene.b), alloc(LARGE, scene.b)};
        for (size_t each = 0; each < 2; each++) {
            const size_t bytes = each == 0 ? SMALL : LARGE;
            assert_true(apart(eager[each], p, LARGE) && apart(eager[each], q, LARGE));
            assert_done(cu.cuMemsetD8Async(eager[each], 0xee, bytes, scene.b));
            give_back(eager[each], scene.b);
        }
        assert_done(cu.cuCtxSynchronize());
        assert_bytes(0, 2);
    }
    assert_true(free_bytes() <= before - SMALL - LARGE);
    assert_done(cu.cuGraphExecDestroy(exec));
    assert_int_equal(free_bytes(), before);
}

/* "Graph memory allocations can be used outside, by work that is ordered after the launch." */
static void what_is_not_freed_in_the_graph_is_freed_outside(void **state) {
    (void)state;
    begin();
    const CUdeviceptr p = alloc(BYTES, scene.a);
    assert_done(cu.cuMemsetD8Async(p, 3, BYTES, scene.a));
    CUgraphExec exec = instantiate_only(end());
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(p, scene.a)); /* not allocated yet */
    for (int i = 0; i < TIMES; i++) {
        launch(exec, scene.a);
        assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuGraphLaunch(exec, scene.a)); /* it is allocated still */
        assert_done(cu.cuMemcpyAsync(host_piece((unsigned)i), p, BYTES, scene.a));
        if (i == 1)
            assert_done(cu.cuMemFree_v2(p));
        else
            give_back(p, scene.a);
        assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(p, scene.a));
    }
    assert_done(cu.cuStreamSynchronize(scene.a));
    for (unsigned i = 0; i < TIMES; i++) assert_bytes(i, 3);
    assert_done(cu.cuGraphExecDestroy(exec));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(p, scene.a));
}

static void another_graph_may_free_it(void **state) {
    (void)state;
    begin();
    const CUdeviceptr p = alloc(BYTES, scene.a);
    CUgraphExec maker = instantiate_only(end());
    begin();
    assert_done(cu.cuMemsetD8Async(p, 4, BYTES, scene.a));
    assert_done(cu.cuMemcpyAsync(host_piece(0), p, BYTES, scene.a));
    give_back(p, scene.a);
    CUgraphExec user = instantiate_only(end());
    for (int i = 0; i < TIMES; i++) {
        memset(scene.host, 0, BYTES);
        launch(maker, scene.a);
        launch(user, scene.a);
        assert_done(cu.cuStreamSynchronize(scene.a));
        assert_bytes(0, 4);
    }
    assert_done(cu.cuGraphExecDestroy(maker));
    assert_done(cu.cuGraphExecDestroy(user));
}

static void the_flag_frees_it_before_the_next_launch(void **state) {
    (void)state;
    CUgraphExec exec;
    begin();
    const CUdeviceptr p = alloc(BYTES, scene.a);
    assert_done(cu.cuMemsetD8Async(p, 3, BYTES, scene.a));
    CUgraph graph = end();
    assert_done(cu.cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    for (int i = 0; i < TIMES; i++) launch(exec, scene.a);
    assert_done(cu.cuGraphExecDestroy(exec));
    assert_done(cu.cuGraphDestroy(graph));
}

/* "There can be at most one executable graph in existence for that graph at a time." */
static void such_a_graph_is_instantiated_once_at_a_time(void **state) {
    (void)state;
    CUgraphExec first, second;
    begin();
    give_back(alloc(BYTES, scene.a), scene.a);
    CUgraph graph = end();
    assert_done(cu.cuGraphInstantiateWithFlags(&first, graph, 0));
    assert_code(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphInstantiateWithFlags(&second, graph, 0));
    launch(first, scene.a);
    assert_done(cu.cuGraphExecDestroy(first));
    assert_done(cu.cuGraphInstantiateWithFlags(&second, graph, 0));
    launch(second, scene.a);
    assert_done(cu.cuGraphDestroy(graph));
    assert_done(cu.cuGraphExecDestroy(second));
}

static void its_contents_are_new_in_each_launch(void **state) {
    (void)state;
    struct weir_emu_report report = {.size = sizeof report};
    begin();
    const CUdeviceptr p = alloc(BYTES, scene.a);
    assert_done(cu.cuMemcpyAsync(host_piece(0), p, BYTES, scene.a));
    assert_done(cu.cuMemsetD8Async(p, 3, BYTES, scene.a));
    give_back(p, scene.a);
    CUgraphExec exec = instantiate_only(end());
    for (int i = 0; i < TIMES; i++) {
        launch(exec, scene.a);
        assert_done(cu.weirEmuWatchReport(0, &report));
        assert_int_equal(report.kind, WEIR_EMU_UNINITIALISED_READ);
        assert_done(cu.weirEmuWatchClear());
    }
    assert_done(cu.cuGraphExecDestroy(exec));
}

static void what_is_refused_of_it_does_no_harm(void **state) {
    (void)state;
    CUdeviceptr address = 5, outside = alloc(BYTES, scene.b);
    begin();
    give_back(alloc(BYTES, scene.a), scene.a);
    CUgraphExec exec = instantiate_only(end());
    begin();
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemAllocAsync(&address, 0, scene.a));
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&address, (size_t)1 << 50, scene.a));
    assert_int_equal(address, 5);
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(outside, scene.a));
    assert_code(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphLaunch(exec, scene.a));
    assert_status(ACTIVE, scene.a);
    CUgraph graph = end();
    assert_int_equal(node_count(graph), 0);
    assert_done(cu.cuGraphDestroy(graph));
    assert_done(cu.cuGraphExecDestroy(exec));
    give_back(outside, scene.b);
}

static void a_broken_capture_gives_its_memory_back(void **state) {
    (void)state;
    CUgraph graph;
    const size_t before = free_bytes();
    begin();
    alloc(BYTES, scene.a);
    assert_true(free_bytes() < before);
    assert_code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(scene.a));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuMemAllocAsync(&(CUdeviceptr){0}, BYTES, scene.a));
    assert_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(scene.a, &graph));
    assert_int_equal(free_bytes(), before);
}

static void it_stays_until_the_last_launch_is_over(void **state) {
    (void)state;
    struct weir_emu_gate *gate;
    begin();
    const CUdeviceptr p = alloc(BYTES, scene.a);
    assert_done(cu.cuMemsetD8Async(p, 6, BYTES, scene.a));
    assert_done(cu.cuMemcpyAsync(host_piece(0), p, BYTES, scene.a));
    give_back(p, scene.a);
    CUgraphExec exec = instantiate_only(end());
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_OPENS_WHEN_HOST_WAITS));
    assert_done(cu.weirEmuGateHold(gate, scene.a));
    launch(exec, scene.a);
    assert_bytes(0, 0);
    assert_done(cu.cuGraphExecDestroy(exec)); /* waits */
    assert_bytes(0, 6);
    assert_done(cu.weirEmuGateDestroy(gate));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scene_test(no_one_else_is_given_it_while_the_graph_lives),
        scene_test(what_is_not_freed_in_the_graph_is_freed_outside),
        scene_test(another_graph_may_free_it),
        scene_test(the_flag_frees_it_before_the_next_launch),
        scene_test(such_a_graph_is_instantiated_once_at_a_time),
        scene_test(its_contents_are_new_in_each_launch),
        scene_test(what_is_refused_of_it_does_no_harm),
        scene_test(a_broken_capture_gives_its_memory_back),
        scene_test(it_stays_until_the_last_launch_is_over),
    };
    return cmocka_run_group_tests(tests, load_entries, NULL);
}
