/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that streams ask for and give back, and managed memory, under the watch: what is used out of order is found,
 * and what is in order is not. From the driver API's "Stream Ordered Memory Allocator". Runs with WEIR_EMU=watch:on. */
#include "tests/device/api.h"

enum { BYTES = 1 << 16 };

static CUstream a, b;
static size_t known;

static CUdeviceptr new_block(CUstream stream) {
    CUdeviceptr block;
    assert_done(cu.cuMemAllocAsync(&block, BYTES, stream));
    return block;
}

static void fill(CUdeviceptr block, CUstream stream) { assert_done(cu.cuMemsetD8Async(block, 7, BYTES, stream)); }

static void follow(CUstream later, CUstream earlier) {
    CUevent event;
    assert_done(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuEventRecord(event, earlier));
    assert_done(cu.cuStreamWaitEvent(later, event, 0));
    assert_done(cu.cuEventDestroy_v2(event));
}

/* ---- what the watch has found since the last look --------------------------------------------------------------- */

static bool next_report(struct weir_emu_report *report) {
    *report = (struct weir_emu_report){.size = sizeof *report};
    return cu.weirEmuWatchReport(known, report) == CUDA_SUCCESS;
}

static void expect(enum weir_emu_report_kind kind) {
    struct weir_emu_report report;
    if (!next_report(&report)) fail_msg("the watch has found nothing");
    if (report.kind != kind) fail_msg("found instead: %s", report.text);
    while (next_report(&report)) known++;
}

static void expect_clean(void) {
    struct weir_emu_report report;
    if (next_report(&report)) fail_msg("%s", report.text);
}

/* Holds a stream, so that the memory is really there while another one uses it. */
static struct weir_emu_gate *hold_stream(CUstream stream) {
    struct weir_emu_gate *gate;
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_done(cu.weirEmuGateHold(gate, stream));
    return gate;
}

static void let_go(struct weir_emu_gate *gate, CUstream stream) {
    assert_done(cu.weirEmuGateOpen(gate, 0));
    assert_done(cu.cuStreamSynchronize(stream));
    assert_done(cu.weirEmuGateDestroy(gate));
}

/* ---- frees on streams ------------------------------------------------------------------------------------------- */

static void uses_before_the_free_are_in_order(void **state) {
    (void)state;
    CUdeviceptr block = new_block(a);
    fill(block, a);
    follow(b, a);
    fill(block, b);
    follow(a, b);
    assert_done(cu.cuMemFreeAsync(block, a));
    expect_clean();
}

static void a_use_that_the_free_does_not_wait_for_is_found(void **state) {
    (void)state;
    CUdeviceptr block = new_block(a);
    fill(block, a);
    follow(b, a);
    struct weir_emu_gate *gate = hold_stream(a);
    fill(block, b);
    assert_done(cu.cuMemFreeAsync(block, a));
    expect(WEIR_EMU_RACE);
    assert_done(cu.cuStreamSynchronize(b));
    let_go(gate, a);
}

static void a_use_after_the_free_is_found(void **state) {
    (void)state;
    CUdeviceptr block = new_block(a);
    fill(block, a);
    assert_done(cu.cuStreamSynchronize(a));
    struct weir_emu_gate *gate = hold_stream(a);
    assert_done(cu.cuMemFreeAsync(block, a));
    fill(block, b);
    expect(WEIR_EMU_USE_AFTER_FREE);
    assert_done(cu.cuStreamSynchronize(b));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(block, a));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(block));
    let_go(gate, a);
}

/* "This API will not perform any implict synchronization when the pointer was allocated with cuMemAllocAsync." */
static void a_plain_free_of_ordered_memory_does_not_count_as_a_wait(void **state) {
    (void)state;
    CUdeviceptr block = new_block(a);
    fill(block, a);
    assert_done(cu.cuMemFree_v2(block));
    expect(WEIR_EMU_RACE);
    block = new_block(a);
    fill(block, a);
    assert_done(cu.cuStreamSynchronize(a));
    assert_done(cu.cuMemFree_v2(block));
    expect_clean();
}

static void plain_memory_may_be_freed_on_a_stream(void **state) {
    (void)state;
    CUdeviceptr block;
    assert_done(cu.cuMemAlloc_v2(&block, BYTES));
    fill(block, a);
    assert_done(cu.cuMemFreeAsync(block, a));
    assert_done(cu.cuStreamSynchronize(a));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8_v2(block, 1, BYTES));
    expect_clean();
}

/* ---- pools that keep memory ------------------------------------------------------------------------------------- */

static void what_a_pool_keeps_cannot_be_used_and_comes_back_without_its_past(void **state) {
    (void)state;
    CUmemoryPool pool;
    uint64_t all = UINT64_MAX, bytes;
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    assert_done(cu.cuMemPoolCreate(&pool, &properties));
    assert_done(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    CUdeviceptr block, again;
    assert_done(cu.cuMemAllocFromPoolAsync(&block, BYTES, pool, a));
    fill(block, a);
    assert_done(cu.cuMemFreeAsync(block, a));
    assert_done(cu.cuStreamSynchronize(a));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8_v2(block, 1, BYTES));
    assert_done(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    assert_true(bytes >= BYTES);
    expect_clean();
    assert_done(cu.cuMemAllocFromPoolAsync(&again, BYTES, pool, b));
    assert_true(again == block);
    fill(again, b);
    expect_clean();
    unsigned char *host = malloc(BYTES);
    assert_done(cu.cuMemAllocFromPoolAsync(&block, BYTES, pool, b));
    assert_done(cu.cuMemcpyDtoHAsync_v2(host, block, BYTES, b));
    expect(WEIR_EMU_UNINITIALISED_READ);
    free(host);
    assert_done(cu.cuMemFreeAsync(block, b));
    assert_done(cu.cuMemFreeAsync(again, b));
    assert_done(cu.cuMemPoolDestroy(pool));
    assert_done(cu.cuStreamSynchronize(b));
    expect_clean();
}

/* ---- managed memory --------------------------------------------------------------------------------------------- */

static void what_the_host_wrote_to_managed_memory_is_read_by_the_device(void **state) {
    (void)state;
    CUdeviceptr managed, copy;
    int is_managed = 0;
    assert_done(cu.cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    assert_done(cu.cuMemAlloc_v2(&copy, BYTES));
    memset((void *)(uintptr_t)managed, 9, BYTES);
    assert_done(cu.cuMemPrefetchAsync_v2(managed, BYTES, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, a));
    assert_done(cu.cuMemcpyDtoDAsync_v2(copy, managed, BYTES, a));
    assert_done(cu.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    assert_int_equal(is_managed, 1);
    assert_code(CUDA_ERROR_INVALID_VALUE,
                cu.cuMemPrefetchAsync_v2(copy, BYTES, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, a));
    assert_done(cu.cuMemFree_v2(managed));
    assert_done(cu.cuMemFree_v2(copy));
    expect_clean();
}

static int begin(void **state) {
    if (enter_context(state) != 0) return -1;
    assert_done(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    return 0;
}

static int end(void **state) {
    assert_done(cu.cuStreamDestroy_v2(a));
    assert_done(cu.cuStreamDestroy_v2(b));
    return leave_context(state);
}

#define stream_test(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        stream_test(uses_before_the_free_are_in_order),
        stream_test(a_use_that_the_free_does_not_wait_for_is_found),
        stream_test(a_use_after_the_free_is_found),
        stream_test(a_plain_free_of_ordered_memory_does_not_count_as_a_wait),
        stream_test(plain_memory_may_be_freed_on_a_stream),
        stream_test(what_a_pool_keeps_cannot_be_used_and_comes_back_without_its_past),
        stream_test(what_the_host_wrote_to_managed_memory_is_read_by_the_device),
    };
    return cmocka_run_group_tests(tests, load_driver, NULL);
}
