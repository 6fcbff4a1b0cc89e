/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that do what they should not, or what few do: absurd amounts, threads that just return, waits that fail.
 * Runs under the virtual clock and the watch. */
#include "tests/device/api.h"

#include <math.h>

enum { BYTES = 2 << 20 };

static CUstream a, b;

static int set_up(void **state) {
    enter_context(state);
    assert_done(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    return 0;
}

static int tear_down(void **state) {
    assert_done(cu.cuStreamDestroy_v2(a));
    assert_done(cu.cuStreamDestroy_v2(b));
    return leave_context(state);
}

static CUdeviceptr new_block(void) {
    CUdeviceptr block;
    assert_done(cu.cuMemAlloc_v2(&block, BYTES));
    return block;
}

static size_t free_bytes(void) {
    size_t bytes, total;
    assert_done(cu.cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

static uint64_t now(void) {
    uint64_t ns;
    assert_done(cu.weirEmuNow(&ns));
    return ns;
}

static void expect_clean(void) {
    struct weir_emu_report report = {.size = sizeof report};
    if (cu.weirEmuWatchReport(0, &report) == CUDA_SUCCESS) fail_msg("%s", report.text);
}

/* ---- amounts ---------------------------------------------------------------------------------------------------- */

static CUresult submit_work(double flops, double bytes) {
    const struct weir_emu_work work = {.size = sizeof work, .name = "work", .flops = flops, .bytes = bytes};
    return cu.weirEmuSubmit(&work, a);
}

static void work_of_no_amount_is_refused(void **state) {
    (void)state;
    assert_code(CUDA_ERROR_INVALID_VALUE, submit_work((double)INFINITY, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, submit_work((double)NAN, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, submit_work(0, -1));
}

/* At a trillion rows a second looking at each would take weeks. */
static void rows_beyond_all_memory_are_refused_at_once(void **state) {
    (void)state;
    const CUdeviceptr block = new_block();
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD2D8Async(block, 2, 0, 1, (size_t)1 << 62, a));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD2D8Async(block, SIZE_MAX, 0, 1, 2, a));
    assert_done(cu.cuMemsetD2D8Async(block, 2, 0, 1, BYTES / 2, a));
    assert_done(cu.cuMemFree_v2(block));
}

static void complaints_need_no_room(void **state) {
    (void)state;
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.weirEmuFault("nonsense", NULL, 100));
    assert_done(cu.weirEmuConfigure("nonsense", NULL, 100)); /* after cuInit it changes nothing */
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static void *take_part(void *argument) {
    if (cu.weirEmuThreadBegin("other", 1) != CUDA_SUCCESS) abort();
    return argument;
}

static void a_thread_that_returns_ends_its_part(void **state) {
    (void)state;
    pthread_t thread;
    assert_done(cu.weirEmuThreadEnd());
    assert_int_equal(pthread_create(&thread, NULL, take_part, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_done(cu.weirEmuThreadBegin("main", 1)); /* the turn is free */
    assert_done(cu.cuCtxSynchronize());
}

static void *open_from_outside(void *gate) { return (void *)(uintptr_t)cu.weirEmuGateOpen(gate, 0); }

/* When it came would depend on the machine, not on the seed. */
static void a_thread_that_takes_no_part_opens_no_gate(void **state) {
    (void)state;
    struct weir_emu_gate *gate;
    pthread_t thread;
    void *code;
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_int_equal(pthread_create(&thread, NULL, open_from_outside, gate), 0);
    assert_int_equal(pthread_join(thread, &code), 0);
    assert_code(CUDA_ERROR_NOT_PERMITTED, (CUresult)(uintptr_t)code);
    assert_done(cu.weirEmuGateDestroy(gate));
}

static void *open_later(void *gate) {
    if (cu.weirEmuThreadBegin("opener", 2) != CUDA_SUCCESS) abort();
    if (cu.weirEmuPause(1000000) != CUDA_SUCCESS) abort();
    if (cu.weirEmuGateOpen(gate, 0) != CUDA_SUCCESS) abort();
    if (cu.weirEmuThreadEnd() != CUDA_SUCCESS) abort();
    return NULL;
}

/* It looks at what another thread must do first. */
static void a_thread_that_looks_again_and_again_lets_others_go_on(void **state) {
    (void)state;
    struct weir_emu_gate *gate;
    CUevent event;
    pthread_t thread;
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_done(cu.weirEmuGateHold(gate, a));
    assert_done(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuEventRecord(event, a));
    assert_done(cu.weirEmuThreadEnd());
    assert_int_equal(pthread_create(&thread, NULL, open_later, gate), 0);
    assert_done(cu.weirEmuThreadBegin("main", 2));
    while (cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY) continue;
    while (cu.cuStreamQuery(a) == CUDA_ERROR_NOT_READY) continue;
    assert_done(cu.weirEmuThreadEnd());
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_done(cu.weirEmuThreadBegin("main", 1));
    assert_done(cu.weirEmuGateDestroy(gate));
    assert_done(cu.cuEventDestroy_v2(event));
}

/* ---- waits that fail -------------------------------------------------------------------------------------------- */

/* Work that uses the block and can't go on. */
static struct weir_emu_gate *use_behind_gate(CUdeviceptr block) {
    struct weir_emu_gate *gate;
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_done(cu.weirEmuGateHold(gate, a));
    assert_done(cu.cuMemsetD8Async(block, 1, BYTES, a));
    return gate;
}

static void let_go(struct weir_emu_gate *gate) {
    assert_done(cu.weirEmuGateOpen(gate, 0));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.weirEmuGateDestroy(gate));
}

static void a_free_whose_wait_fails_frees_nothing(void **state) {
    (void)state;
    const size_t before = free_bytes();
    const CUdeviceptr block = new_block();
    struct weir_emu_gate *gate = use_behind_gate(block);
    assert_code(CUDA_ERROR_LAUNCH_TIMEOUT, cu.cuMemFree_v2(block));
    assert_int_equal(free_bytes(), before - BYTES);
    let_go(gate);
    assert_done(cu.cuMemFree_v2(block));
    assert_int_equal(free_bytes(), before);
}

/* A graph's own memory stays while a launch that can't go on uses it. */
static void a_graph_whose_wait_fails_keeps_its_memory(void **state) {
    (void)state;
    const size_t before = free_bytes();
    CUdeviceptr block;
    CUgraph graph;
    CUgraphExec exec;
    struct weir_emu_gate *gate;
    assert_done(cu.cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_done(cu.cuMemAllocAsync(&block, BYTES, b));
    assert_done(cu.cuMemsetD8Async(block, 1, BYTES, b));
    assert_done(cu.cuMemFreeAsync(block, b));
    assert_done(cu.cuStreamEndCapture(b, &graph));
    assert_done(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_done(cu.cuGraphDestroy(graph));
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_done(cu.weirEmuGateHold(gate, a));
    assert_done(cu.cuGraphLaunch(exec, a));
    assert_code(CUDA_ERROR_LAUNCH_TIMEOUT, cu.cuGraphExecDestroy(exec));
    assert_int_equal(free_bytes(), before - BYTES);
    let_go(gate);
    assert_done(cu.cuGraphExecDestroy(exec));
    assert_int_equal(free_bytes(), before);
}

static void a_context_whose_wait_fails_stays(void **state) {
    (void)state;
    const size_t before = free_bytes();
    const CUdeviceptr block = new_block();
    struct weir_emu_gate *gate = use_behind_gate(block);
    assert_code(CUDA_ERROR_LAUNCH_TIMEOUT, cu.cuDevicePrimaryCtxReset_v2(0));
    assert_code(CUDA_ERROR_LAUNCH_TIMEOUT, cu.cuDevicePrimaryCtxRelease_v2(0));
    let_go(gate);
    assert_done(cu.cuMemFree_v2(block));
    assert_int_equal(free_bytes(), before);
}

/* ---- what the watch makes of it --------------------------------------------------------------------------------- */

/* Device addresses come to lie on both sides of the program and its heap, where those lie on x86-64. */
static void memory_of_the_program_is_not_taken_for_memory_of_the_device(void **state) {
    (void)state;
    static char of_the_program[64];
    CUdeviceptr high, block = new_block();
    CUmemGenericAllocationHandle page;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    const CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    assert_done(cu.cuMemAddressReserve(&high, BYTES, 0, 0x567000000000, 0));
    assert_done(cu.cuMemCreate(&page, BYTES, &properties, 0));
    assert_done(cu.cuMemMap(high, BYTES, 0, page, 0));
    assert_done(cu.cuMemSetAccess(high, BYTES, &access, 1));
    assert_done(cu.cuMemsetD8Async(high, 1, BYTES, a));
    assert_done(cu.cuMemcpyAsync(block, (CUdeviceptr)(uintptr_t)of_the_program, sizeof of_the_program, a));
    expect_clean();
    assert_done(cu.cuStreamSynchronize(a));
    assert_done(cu.cuMemUnmap(high, BYTES));
    assert_done(cu.cuMemRelease(page));
    assert_done(cu.cuMemAddressFree(high, BYTES));
    assert_done(cu.cuMemFree_v2(block));
}

static void a_time_between_events_says_that_both_have_passed(void **state) {
    (void)state;
    const CUdeviceptr block = new_block();
    CUevent begin, end;
    float ms;
    assert_done(cu.cuEventCreate(&begin, 0));
    assert_done(cu.cuEventCreate(&end, 0));
    assert_done(cu.cuEventRecord(begin, a));
    assert_done(cu.cuMemsetD8Async(block, 1, BYTES, a));
    assert_done(cu.cuEventRecord(end, a));
    while (cu.cuEventElapsedTime(&ms, begin, end) == CUDA_ERROR_NOT_READY) assert_done(cu.weirEmuPause(1000000));
    assert_done(cu.cuMemsetD8Async(block, 2, BYTES, b));
    expect_clean();
    assert_done(cu.cuEventDestroy_v2(begin));
    assert_done(cu.cuEventDestroy_v2(end));
    assert_done(cu.cuMemFree_v2(block));
}

static void a_synchronous_copy_from_pageable_memory_is_waited_for_up_to_itself(void **state) {
    (void)state;
    static char memory[64];
    struct weir_emu_report report = {.size = sizeof report};
    const CUdeviceptr before = new_block(), target = new_block();
    CUstream blocking;
    assert_done(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    assert_done(cu.cuMemsetD8Async(before, 1, BYTES, blocking));
    assert_done(cu.cuMemcpyHtoD_v2(target, memory, sizeof memory));
    assert_done(cu.cuMemsetD8Async(before, 2, BYTES, b));
    expect_clean();
    assert_done(cu.cuMemsetD8Async(target, 2, BYTES, b));
    assert_done(cu.weirEmuWatchReport(0, &report));
    assert_int_equal(report.kind, WEIR_EMU_RACE);
    assert_done(cu.weirEmuWatchClear());
    assert_done(cu.cuStreamDestroy_v2(blocking));
    assert_done(cu.cuMemFree_v2(before));
    assert_done(cu.cuMemFree_v2(target));
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

/* The last one of all, since time stands still behind it. */
static void time_does_not_wrap_around(void **state) {
    (void)state;
    const CUdeviceptr block = new_block();
    struct weir_emu_gate *gate;
    uint64_t before = now();
    assert_done(submit_work(1e300, 0));
    assert_done(cu.cuMemsetD8Async(block, 1, BYTES, b));
    assert_done(cu.cuStreamSynchronize(b));
    assert_code(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(a));
    assert_true(now() > before);
    before = now();
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_done(cu.weirEmuGateOpen(gate, UINT64_MAX));
    assert_done(cu.weirEmuDelay(b, UINT64_MAX));
    assert_done(cu.cuMemsetD8Async(block, 2, BYTES, b));
    assert_code(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(b));
    assert_done(cu.weirEmuPause(UINT64_MAX));
    assert_true(now() > before);
    before = now();
    assert_done(cu.weirEmuPause(UINT64_MAX - before));
    assert_true(now() >= before);
    assert_done(cu.weirEmuGateWait(gate));
    assert_done(cu.weirEmuGateDestroy(gate));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuMemFree_v2(block));
}

#define odd_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        odd_test(work_of_no_amount_is_refused),
        odd_test(rows_beyond_all_memory_are_refused_at_once),
        odd_test(complaints_need_no_room),
        odd_test(a_thread_that_returns_ends_its_part),
        odd_test(a_thread_that_takes_no_part_opens_no_gate),
        odd_test(a_thread_that_looks_again_and_again_lets_others_go_on),
        odd_test(a_free_whose_wait_fails_frees_nothing),
        odd_test(a_graph_whose_wait_fails_keeps_its_memory),
        odd_test(a_context_whose_wait_fails_stays),
        odd_test(memory_of_the_program_is_not_taken_for_memory_of_the_device),
        odd_test(a_time_between_events_says_that_both_have_passed),
        odd_test(a_synchronous_copy_from_pageable_memory_is_waited_for_up_to_itself),
        odd_test(time_does_not_wrap_around),
    };
    return cmocka_run_group_tests_name("odd_program", tests, load_driver, NULL);
}
