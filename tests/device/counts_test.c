/* SPDX-License-Identifier: Apache-2.0 */
/* The driver counts its memory calls, order calls and waits whoever makes them, and the memory that the process
 * holds. */
#include "tests/device/api.h"

enum { GRANULE = 16 * 1024 };

static struct weir_emu_counts before;

static struct weir_emu_counts counts_now(void) {
    struct weir_emu_counts now = {.size = sizeof now};
    assert_done(cu.weirEmuCounts(&now));
    return now;
}

static void begin_counting(void) { before = counts_now(); }

/* Calls since begin_counting; anything else that the test calls is of no class. */
static void expect_calls(uint64_t memory, uint64_t order, uint64_t wait) {
    const struct weir_emu_counts now = counts_now();
    assert_int_equal(now.memory_calls - before.memory_calls, memory);
    assert_int_equal(now.order_calls - before.order_calls, order);
    assert_int_equal(now.wait_calls - before.wait_calls, wait);
}

static const CUmemAllocationProp page_properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static void each_call_for_pages_and_addresses_is_a_memory_call(void **state) {
    (void)state;
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address;
    CUmemGenericAllocationHandle page;
    begin_counting();
    assert_done(cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
    assert_done(cu.cuMemCreate(&page, GRANULE, &page_properties, 0));
    assert_done(cu.cuMemMap(address, GRANULE, 0, page, 0));
    assert_done(cu.cuMemSetAccess(address, GRANULE, &access, 1));
    expect_calls(4, 0, 0);
    assert_done(cu.cuMemUnmap(address, GRANULE));
    assert_done(cu.cuMemRelease(page));
    assert_done(cu.cuMemAddressFree(address, GRANULE));
    expect_calls(7, 0, 0);
}

static void plain_and_stream_ordered_allocation_is_counted_as_one_call_each(void **state) {
    (void)state;
    CUmemoryPool pool;
    CUdeviceptr block, row;
    size_t pitch;
    begin_counting();
    assert_done(cu.cuMemAlloc_v2(&block, 1));
    assert_done(cu.cuMemAllocPitch_v2(&row, &pitch, 100, 2, 4));
    assert_done(cu.cuMemFree_v2(block));
    assert_done(cu.cuMemFree_v2(row));
    expect_calls(4, 0, 0);
    assert_done(cu.cuDeviceGetDefaultMemPool(&pool, 0)); /* of no class */
    assert_done(cu.cuMemAllocAsync(&block, 1, NULL));
    assert_done(cu.cuMemFreeAsync(block, NULL));
    assert_done(cu.cuMemAllocFromPoolAsync(&block, 1, pool, NULL));
    assert_done(cu.cuMemFreeAsync_ptsz(block, NULL)); /* one that passes on to another */
    expect_calls(8, 0, 0);
}

static void a_refused_call_is_a_call(void **state) {
    (void)state;
    CUdeviceptr block;
    begin_counting();
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&block, SIZE_MAX / 4));
    expect_calls(1, 0, 0);
}

static void records_and_stream_waits_are_order_calls_and_synchronising_is_a_wait(void **state) {
    (void)state;
    CUevent event;
    CUstream stream;
    assert_done(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    begin_counting();
    assert_done(cu.cuEventRecord(event, NULL));
    assert_done(cu.cuEventRecordWithFlags(event, NULL, 0));
    assert_done(cu.cuStreamWaitEvent(stream, event, 0));
    expect_calls(0, 3, 0);
    assert_done(cu.cuEventSynchronize(event));
    assert_done(cu.cuStreamSynchronize(stream));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuEventQuery(event)); /* looks, and does not wait */
    expect_calls(0, 3, 3);
    assert_done(cu.cuEventDestroy_v2(event));
    assert_done(cu.cuStreamDestroy_v2(stream));
}

static void held_bytes_are_whole_pages_and_the_peak_stays(void **state) {
    (void)state;
    CUdeviceptr block;
    CUmemGenericAllocationHandle page;
    begin_counting();
    assert_done(cu.cuMemAlloc_v2(&block, 3 * GRANULE + 1));
    assert_done(cu.cuMemCreate(&page, 2 * GRANULE, &page_properties, 0)); /* taken, though mapped nowhere */
    const uint64_t most = before.held_bytes + 6 * GRANULE;
    assert_int_equal(counts_now().held_bytes, most);
    assert_true(counts_now().peak_held_bytes >= most);
    assert_done(cu.cuMemRelease(page));
    assert_done(cu.cuMemFree_v2(block));
    assert_int_equal(counts_now().held_bytes, before.held_bytes);
    assert_true(counts_now().peak_held_bytes >= most);
    assert_done(cu.cuMemAlloc_v2(&block, 100 * GRANULE));
    assert_int_equal(counts_now().peak_held_bytes, before.held_bytes + 100 * GRANULE);
    assert_done(cu.cuMemFree_v2(block));
}

static void a_caller_that_knows_fewer_members_gets_those(void **state) {
    (void)state;
    struct weir_emu_counts old = {.size = offsetof(struct weir_emu_counts, memory_calls), .memory_calls = 12345};
    assert_done(cu.weirEmuCounts(&old));
    assert_true(old.calls > 0);
    assert_int_equal(old.memory_calls, 12345);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        context_test(each_call_for_pages_and_addresses_is_a_memory_call),
        context_test(plain_and_stream_ordered_allocation_is_counted_as_one_call_each),
        context_test(a_refused_call_is_a_call),
        context_test(records_and_stream_waits_are_order_calls_and_synchronising_is_a_wait),
        context_test(held_bytes_are_whole_pages_and_the_peak_stays),
        context_test(a_caller_that_knows_fewer_members_gets_those),
    };
    return cmocka_run_group_tests(tests, load_driver, NULL);
}
