/* SPDX-License-Identifier: Apache-2.0 */
/* Work whose memory is gone when its turn comes: the context answers CUDA_ERROR_ILLEGAL_ADDRESS from then on, its later work does
 * nothing, and nothing else is hurt. Under either clock. */
#include "tests/device/entries.h"

enum { GRANULE = 2 << 20 };

static const CUmemAllocationProp pinned = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc read_write = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static const CUmemAccessDesc read_only = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READ};

/* A context of the test's own, with a stream that waits at a gate, and a page. */
static struct place {
    CUcontext context;
    CUstream stream, other;
    CUevent event;
    struct weir_emu_gate *gate;
    CUdeviceptr at;
    CUmemGenericAllocationHandle page;
    unsigned char *host;
} place;

static int open_place(void **state) {
    (void)state;
    void *host;
    assert_done(cu.cuCtxCreate_v2(&place.context, 0, 0));
    assert_done(cu.cuStreamCreate(&place.stream, CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuStreamCreate(&place.other, CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&place.event, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuMemHostAlloc(&host, GRANULE, 0));
    place.host = memset(host, 7, GRANULE);
    assert_done(cu.cuMemAddressReserve(&place.at, GRANULE, 0, 0, 0));
    assert_done(cu.cuMemCreate(&place.page, GRANULE, &pinned, 0));
    assert_done(cu.cuMemMap(place.at, GRANULE, 0, place.page, 0));
    assert_done(cu.cuMemSetAccess(place.at, GRANULE, &read_write, 1));
    assert_done(cu.weirEmuGateCreate(&place.gate, 0));
    assert_done(cu.weirEmuGateHold(place.gate, place.stream));
    return 0;
}

static void open_the_gate(void) { assert_done(cu.weirEmuGateOpen(place.gate, 0)); }

static void take_page_away(void) {
    assert_done(cu.cuMemUnmap(place.at, GRANULE));
    assert_done(cu.cuMemRelease(place.page));
    assert_done(cu.cuMemAddressFree(place.at, GRANULE));
}

#define assert_broken(call) assert_code(CUDA_ERROR_ILLEGAL_ADDRESS, call)

/* Every kind of call says so, as often as it is asked. */
static void assert_all_is_broken(void) {
    CUdeviceptr address;
    CUmemGenericAllocationHandle page;
    CUevent event;
    assert_broken(cu.cuStreamSynchronize(place.stream));
    assert_broken(cu.cuStreamSynchronize(place.stream));
    assert_broken(cu.cuCtxSynchronize());
    assert_broken(cu.cuStreamQuery(place.other));
    assert_broken(cu.cuEventQuery(place.event));
    assert_broken(cu.cuEventSynchronize(place.event));
    assert_broken(cu.cuEventRecord(place.event, place.other));
    assert_broken(cu.cuEventCreate(&event, 0));
    assert_broken(cu.cuMemAlloc_v2(&address, GRANULE));
    assert_broken(cu.cuMemCreate(&page, GRANULE, &pinned, 0));
    assert_broken(cu.cuMemsetD8Async(place.at, 1, 1, place.other));
}

/* With the context its error ends; the device serves others. */
static int close_place(void **state) {
    (void)state;
    CUdeviceptr address;
    assert_done(cu.cuCtxDestroy_v2(place.context));
    assert_done(cu.weirEmuGateDestroy(place.gate));
    assert_done(cu.cuCtxCreate_v2(&place.context, 0, 0));
    assert_done(cu.cuMemAlloc_v2(&address, GRANULE));
    assert_done(cu.cuMemsetD8Async(address, 1, GRANULE, NULL));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuCtxDestroy_v2(place.context));
    return 0;
}

static void a_copy_from_memory_that_is_gone_breaks_the_context(void **state) {
    (void)state;
    assert_done(cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)place.host, place.at, GRANULE, place.stream));
    take_page_away();
    assert_code(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(place.stream));
    open_the_gate();
    assert_all_is_broken();
    assert_int_equal(place.host[0], 7);
}

static void a_copy_to_memory_that_is_gone_breaks_the_context(void **state) {
    (void)state;
    assert_done(cu.cuMemcpyAsync(place.at, (CUdeviceptr)(uintptr_t)place.host, GRANULE, place.stream));
    take_page_away();
    open_the_gate();
    assert_all_is_broken();
}

static void a_set_of_memory_that_is_gone_breaks_the_context(void **state) {
    (void)state;
    assert_done(cu.cuMemsetD8Async(place.at, 1, GRANULE, place.stream));
    take_page_away();
    open_the_gate();
    assert_all_is_broken();
}

static void a_set_of_memory_that_may_only_be_read_breaks_the_context(void **state) {
    (void)state;
    assert_done(cu.cuMemsetD8Async(place.at, 1, GRANULE, place.stream));
    assert_done(cu.cuMemSetAccess(place.at, GRANULE, &read_only, 1));
    open_the_gate();
    assert_all_is_broken();
}

static void work_behind_it_and_beside_it_does_nothing(void **state) {
    (void)state;
    static atomic_int runs;
    struct weir_emu_gate *gate;
    assert_done(cu.weirEmuGateCreate(&gate, 0));
    assert_done(cu.cuMemsetD8Async(place.at, 1, GRANULE, place.stream));
    assert_done(cu.cuLaunchHostFunc(place.stream, bump, &runs));
    assert_done(cu.weirEmuGateHold(gate, place.other));
    assert_done(cu.cuLaunchHostFunc(place.other, bump, &runs));
    take_page_away();
    open_the_gate();
    assert_broken(cu.cuStreamSynchronize(place.stream));
    assert_done(cu.weirEmuGateOpen(gate, 0));
    assert_done(cu.cuCtxDestroy_v2(place.context)); /* after all of its work */
    assert_int_equal(atomic_load(&runs), 0);
    assert_done(cu.weirEmuGateDestroy(gate));
    assert_done(cu.cuCtxCreate_v2(&place.context, 0, 0));
}

/* Also where the other one's memory is freed, which waits for the device. */
static void another_context_of_the_device_goes_on(void **state) {
    (void)state;
    CUcontext other;
    CUdeviceptr address;
    assert_done(cu.cuMemsetD8Async(place.at, 1, GRANULE, place.stream));
    take_page_away();
    open_the_gate();
    assert_broken(cu.cuStreamSynchronize(place.stream));
    assert_done(cu.cuCtxCreate_v2(&other, 0, 0));
    assert_done(cu.cuMemAlloc_v2(&address, GRANULE));
    assert_done(cu.cuMemsetD8Async(address, 1, GRANULE, NULL));
    assert_done(cu.cuMemFree_v2(address));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuCtxDestroy_v2(other));
    assert_all_is_broken();
}

static void a_primary_context_is_whole_again_after_a_reset(void **state) {
    (void)state;
    CUcontext primary;
    CUstream stream;
    CUdeviceptr address;
    assert_done(cu.cuDevicePrimaryCtxRetain(&primary, 0));
    assert_done(cu.cuCtxPushCurrent_v2(primary));
    assert_done(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_done(cu.weirEmuGateHold(place.gate, stream));
    assert_done(cu.cuMemsetD8Async(place.at, 1, GRANULE, stream));
    take_page_away();
    open_the_gate();
    assert_broken(cu.cuStreamSynchronize(stream));
    assert_done(cu.cuDevicePrimaryCtxReset_v2(0));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(0));
    assert_done(cu.cuDevicePrimaryCtxRetain(&primary, 0));
    assert_done(cu.cuMemAlloc_v2(&address, GRANULE));
    assert_done(cu.cuMemsetD8Async(address, 1, GRANULE, NULL));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuMemFree_v2(address));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(0));
    assert_done(cu.cuCtxPopCurrent_v2(&primary));
}

/* Nothing is behind these addresses any more, and so they are not taken for the host's. */
static void addresses_that_were_given_back_are_refused(void **state) {
    (void)state;
    take_page_away();
    assert_code(CUDA_ERROR_INVALID_VALUE,
                cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)place.host, place.at, GRANULE, place.other));
    assert_code(CUDA_ERROR_INVALID_VALUE,
                cu.cuMemcpyAsync(place.at, (CUdeviceptr)(uintptr_t)place.host, GRANULE, place.other));
    open_the_gate();
}

/* Unmapping comes at any time of a copy: before it, in it, after it. */
static void memory_is_not_taken_from_under_a_copy(void **state) {
    (void)state;
    enum { TIMES = 100, PAGES = 1 };
    open_the_gate();
    for (int i = 0; i < TIMES; i++) {
        CUcontext own;
        CUstream streams[2];
        CUdeviceptr at;
        CUmemGenericAllocationHandle page;
        assert_done(cu.cuCtxCreate_v2(&own, 0, 0));
        assert_done(cu.cuMemAddressReserve(&at, PAGES * GRANULE, 0, 0, 0));
        assert_done(cu.cuMemCreate(&page, PAGES * GRANULE, &pinned, 0));
        assert_done(cu.cuMemMap(at, PAGES * GRANULE, 0, page, 0));
        assert_done(cu.cuMemSetAccess(at, PAGES * GRANULE, &read_write, 1));
        for (int j = 0; j < 2; j++) assert_done(cu.cuStreamCreate(&streams[j], CU_STREAM_NON_BLOCKING));
        for (int j = 0; j < 8; j++) assert_done(cu.cuMemsetD8Async(at, 1, PAGES * GRANULE, streams[j % 2]));
        cu.cuMemUnmap(at, PAGES * GRANULE); /* done, or told that the context is broken */
        cu.cuStreamSynchronize(streams[0]);
        assert_done(cu.cuCtxDestroy_v2(own));
        cu.cuMemUnmap(at, PAGES * GRANULE);
        assert_done(cu.cuMemRelease(page));
        assert_done(cu.cuMemAddressFree(at, PAGES * GRANULE));
    }
}

#define place_test(function) cmocka_unit_test_setup_teardown(function, open_place, close_place)

int main(void) {
    const struct CMUnitTest tests[] = {
        place_test(a_copy_from_memory_that_is_gone_breaks_the_context),
        place_test(a_copy_to_memory_that_is_gone_breaks_the_context),
        place_test(a_set_of_memory_that_is_gone_breaks_the_context),
        place_test(a_set_of_memory_that_may_only_be_read_breaks_the_context),
        place_test(work_behind_it_and_beside_it_does_nothing),
        place_test(another_context_of_the_device_goes_on),
        place_test(a_primary_context_is_whole_again_after_a_reset),
        place_test(addresses_that_were_given_back_are_refused),
        place_test(memory_is_not_taken_from_under_a_copy),
    };
    return cmocka_run_group_tests(tests, load_entries, NULL);
}
