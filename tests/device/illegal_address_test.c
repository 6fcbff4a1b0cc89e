/* SPDX-License-Identifier: Apache-2.0 */
/* Work whose memory is gone when its turn comes: the context answers CUDA_ERROR_ILLEGAL_ADDRESS from then on, its later work does
 * nothing, and nothing else is hurt. Under either clock. */
#include "tests/device/entries.h"

#include <sys/mman.h>

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

static void note_status(CUstream stream, CUresult status, void *argument) {
    (void)stream;
    atomic_store((atomic_int *)argument, (int)status);
}

/* "In the event of a device error, all subsequently executed callbacks will receive an appropriate CUresult." */
static void a_stream_callback_is_told_of_the_error(void **state) {
    (void)state;
    static atomic_int status;
    assert_done(cu.cuMemsetD8Async(place.at, 1, GRANULE, place.stream));
    assert_done(cu.cuStreamAddCallback(place.stream, note_status, &status, 0));
    take_page_away();
    open_the_gate();
    assert_broken(cu.cuStreamSynchronize(place.stream));
    assert_int_equal(atomic_load(&status), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Work of one context that sets memory of another: running when it returns. */
static CUstream keep_busy_in(CUdeviceptr at, size_t bytes, CUcontext *context) {
    CUstream stream;
    CUevent begun;
    assert_done(cu.cuCtxCreate_v2(context, 0, 0));
    assert_done(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuEventCreate(&begun, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuMemsetD8Async(at, 1, bytes, stream));
    assert_done(cu.cuEventRecord(begun, stream));
    for (int i = 0; i < 3; i++) assert_done(cu.cuMemsetD8Async(at, 1, bytes, stream));
    assert_done(cu.cuEventSynchronize(begun));
    return stream;
}

static void a_context_s_memory_is_not_taken_from_under_a_set_of_another(void **state) {
    (void)state;
    enum { TIMES = 50, BYTES = 4 * GRANULE };
    open_the_gate();
    for (int i = 0; i < TIMES; i++) {
        CUcontext owner, user;
        CUdeviceptr at;
        void *host = NULL;
        assert_done(cu.cuCtxCreate_v2(&owner, 0, 0));
        if (i % 2 == 0)
            assert_done(cu.cuMemAlloc_v2(&at, BYTES));
        else
            assert_done(cu.cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_PORTABLE));
        CUstream stream = keep_busy_in(host != NULL ? (CUdeviceptr)(uintptr_t)host : at, BYTES, &user);
        assert_done(cu.cuCtxPushCurrent_v2(owner));
        if (host != NULL) assert_done(cu.cuMemFreeHost(host));
        assert_done(cu.cuCtxDestroy_v2(owner));
        cu.cuStreamSynchronize(stream); /* done, or it met the hole */
        assert_done(cu.cuCtxDestroy_v2(user));
        assert_done(cu.cuCtxPopCurrent_v2(&owner)); /* where it was current first */
    }
}

static atomic_bool enough;
static atomic_int pushes;

/* In virtual time it takes no part, and is refused at once. */
static void push_without_end(void *argument) {
    cu.cuCtxSetCurrent(argument);
    while (!atomic_load(&enough) && cu.cuMemsetD8Async(place.at, 1, GRANULE, place.stream) == CUDA_SUCCESS)
        atomic_fetch_add(&pushes, 1);
}

/* The stream always has more to do: as many sets as it holds, and one that waits for room. */
static void a_busy_stream_does_not_hold_up_calls_about_its_memory(void **state) {
    (void)state;
    enum { TIMES = 5, ROOM = 1024 };
    struct caller caller;
    open_the_gate();
    atomic_store(&enough, false);
    start_call(&caller, push_without_end, place.context);
    while (!atomic_load(&caller.returned) && atomic_load(&pushes) < ROOM + TIMES) sched_yield();
    for (int i = 0; i < TIMES; i++) assert_done(cu.cuMemSetAccess(place.at, GRANULE, &read_write, 1));
    atomic_store(&enough, true);
    finish_call(&caller);
    assert_done(cu.cuCtxSynchronize());
}

static void rows_of_the_host_may_have_nothing_between_them(void **state) {
    (void)state;
    enum { ROWS = 4 };
    open_the_gate();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pitch = 2 * page;
    char *rows = mmap(NULL, ROWS * pitch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(rows, MAP_FAILED);
    memset(rows, 5, ROWS * pitch);
    for (size_t row = 0; row < ROWS; row++) assert_int_equal(munmap(rows + row * pitch + page, page), 0);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = rows,
                          .srcPitch = pitch,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = place.at,
                          .dstPitch = page,
                          .WidthInBytes = page,
                          .Height = ROWS};
    assert_done(cu.cuMemcpy2DAsync_v2(&copy, place.other));
    assert_done(cu.cuMemcpyDtoHAsync_v2(place.host, place.at, ROWS * page, place.other));
    assert_done(cu.cuStreamSynchronize(place.other));
    assert_int_equal(place.host[ROWS * page - 1], 5);
    assert_int_equal(munmap(rows + pitch, page), 0);
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpy2DAsync_v2(&copy, place.other));
    for (size_t row = 0; row < ROWS; row++) munmap(rows + row * pitch, page);
}

struct free_call {
    CUcontext context;
    CUdeviceptr address;
    CUresult result;
};

static void destroy_place(void *argument) { *(CUresult *)argument = cu.cuCtxDestroy_v2(place.context); }

static void free_there(void *argument) {
    struct free_call *call = argument;
    cu.cuCtxSetCurrent(call->context);
    call->result = cu.cuMemFree_v2(call->address);
}

/* One stream of the place has met an error, the other stands at the gate that it gives. */
static struct weir_emu_gate *break_beside_a_gate(CUstream breaks, CUstream stands) {
    struct weir_emu_gate *gate;
    assert_done(cu.weirEmuGateCreate(&gate, 0));
    assert_done(cu.weirEmuGateHold(gate, place.other));
    assert_done(cu.cuMemsetD8Async(place.at, 1, GRANULE, breaks));
    take_page_away();
    assert_done(cu.weirEmuGateOpen(stands == place.other ? place.gate : gate, 0));
    assert_broken(cu.cuStreamSynchronize(breaks));
    return gate;
}

/* Both wait for the work of a context that is broken; mostly the one that destroys it goes on first. In virtual time the
 * threads take no part. */
static void a_free_beside_a_broken_context_that_ends_is_done(void **state) {
    for (int i = 0; i < 10; i++) {
        struct free_call call = {.result = CUDA_SUCCESS};
        struct caller destroys, frees;
        CUresult destroyed = CUDA_SUCCESS;
        CUstream stands = i % 2 == 0 ? place.stream : place.other;
        struct weir_emu_gate *gate = break_beside_a_gate(i % 2 == 0 ? place.other : place.stream, stands);
        assert_done(cu.cuCtxCreate_v2(&call.context, 0, 0));
        assert_done(cu.cuMemAlloc_v2(&call.address, GRANULE));
        start_call(&destroys, destroy_place, &destroyed);
        blocks(&destroys);
        start_call(&frees, free_there, &call);
        blocks(&frees);
        assert_done(cu.weirEmuGateOpen(stands == place.other ? gate : place.gate, 0));
        finish_call(&destroys);
        finish_call(&frees);
        const bool refused = destroyed == CUDA_ERROR_NOT_PERMITTED;
        if (!refused) assert_done(call.result);
        assert_done(cu.cuCtxDestroy_v2(call.context));
        if (refused)
            assert_done(cu.cuCtxDestroy_v2(place.context));
        else
            assert_done(destroyed);
        assert_done(cu.weirEmuGateDestroy(gate));
        assert_done(cu.weirEmuGateDestroy(place.gate));
        assert_done(cu.cuCtxSetCurrent(NULL));
        assert_int_equal(open_place(state), 0);
    }
    open_the_gate();
}

/* Work that met an error ends no wait for other work; whichever stream is looked at last. On the real clock the wait would
 * not end. */
static void a_broken_context_stays_whose_work_can_t_end(void **state) {
    const char *settings = getenv("WEIR_EMU");
    if (settings == NULL || strstr(settings, "clock:virtual") == NULL) {
        open_the_gate();
        skip();
    }
    for (int i = 0; i < 2; i++) {
        CUstream stands = i == 0 ? place.other : place.stream;
        struct weir_emu_gate *gate = break_beside_a_gate(i == 0 ? place.stream : place.other, stands);
        assert_code(CUDA_ERROR_LAUNCH_TIMEOUT, cu.cuCtxDestroy_v2(place.context));
        assert_done(cu.weirEmuGateOpen(stands == place.other ? gate : place.gate, 0));
        close_place(state);
        assert_done(cu.weirEmuGateDestroy(gate));
        open_place(state);
    }
    open_the_gate();
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
        place_test(a_stream_callback_is_told_of_the_error),
        place_test(a_context_s_memory_is_not_taken_from_under_a_set_of_another),
        place_test(a_busy_stream_does_not_hold_up_calls_about_its_memory),
        place_test(rows_of_the_host_may_have_nothing_between_them),
        place_test(a_free_beside_a_broken_context_that_ends_is_done),
        place_test(a_broken_context_stays_whose_work_can_t_end),
    };
    return cmocka_run_group_tests(tests, load_entries, NULL);
}
