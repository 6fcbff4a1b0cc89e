/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the primary one of a device, those that a program makes, and which is current. */
#include "suite.h"

#define SUBJECT   "contexts"
#define REFERENCE "CUDA Driver API, Context Management, "
#define PRIMARY   "CUDA Driver API, Primary Context Management, "

enum { BYTES = 1 << 14 };

static CUcontext current(void) {
    CUcontext context = NULL;
    OK(cu.CtxGetCurrent(&context));
    return context;
}

static CUcontext new_context(unsigned flags) {
    CUcontext context = NULL;
    OK(cu.CtxCreate(&context, flags, DEVICE));
    CHECK(context != NULL && current() == context);
    return context;
}

/* ---- primary ---------------------------------------------------------------------------------------------------- */

CASE(a_device_has_one_primary_context, PRIMARY "cuDevicePrimaryCtxRetain") {
    CUcontext context = NULL;
    OK(cu.DevicePrimaryCtxRetain(&context, DEVICE));
    CHECK(context == primary);
    OK(cu.DevicePrimaryCtxRelease(DEVICE));
}

CASE(a_device_that_is_not_there_has_no_primary_context, PRIMARY "cuDevicePrimaryCtxRetain: CUDA_ERROR_INVALID_DEVICE") {
    CUcontext context;
    GIVES(cu.DevicePrimaryCtxRetain(&context, device_count() + 5), CUDA_ERROR_INVALID_DEVICE);
}

CASE_BARE(retaining_a_primary_context_does_not_make_it_current,
          PRIMARY "cuDevicePrimaryCtxRetain: \"the newly retained context is not pushed onto the stack\"") {
    CUcontext context = NULL;
    OK(cu.Init(0));
    OK(cu.DevicePrimaryCtxRetain(&context, DEVICE));
    CHECK(context != NULL && current() == NULL);
    OK(cu.DevicePrimaryCtxRelease(DEVICE));
}

CASE_BARE(a_primary_context_that_was_not_retained_is_not_released,
          PRIMARY "cuDevicePrimaryCtxRelease: \"will fail with CUDA_ERROR_INVALID_CONTEXT\"") {
    OK(cu.Init(0));
    GIVES(cu.DevicePrimaryCtxRelease(DEVICE), CUDA_ERROR_INVALID_CONTEXT);
}

static int active(void) {
    unsigned flags;
    int is_active = -1;
    OK(cu.DevicePrimaryCtxGetState(DEVICE, &flags, &is_active));
    return is_active;
}

CASE_BARE(a_primary_context_is_active_from_the_first_retain_to_the_last_release,
          PRIMARY "cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxRelease: \"automatically reset once the last "
                  "reference to it is released\"") {
    CUcontext context;
    OK(cu.Init(0));
    CHECK_EQUAL(0, active());
    OK(cu.DevicePrimaryCtxRetain(&context, DEVICE));
    OK(cu.DevicePrimaryCtxRetain(&context, DEVICE));
    CHECK_EQUAL(1, active());
    OK(cu.DevicePrimaryCtxRelease(DEVICE));
    CHECK_EQUAL(1, active());
    OK(cu.DevicePrimaryCtxRelease(DEVICE));
    CHECK_EQUAL(0, active());
}

CASE_BARE(the_last_release_frees_what_the_context_held,
          PRIMARY "cuDevicePrimaryCtxRelease: \"automatically reset once the last reference to it is released\"") {
    OK(cu.Init(0));
    size_t before = 0;
    for (int times = 0; times < 2; times++) {
        CUcontext context = NULL;
        OK(cu.DevicePrimaryCtxRetain(&context, DEVICE));
        OK(cu.CtxPushCurrent(context));
        if (times == 0) {
            before = free_memory();
            new_block(large_amount());
        } else
            CHECK(free_memory() >= before - large_amount() / 2);
        OK(cu.CtxPopCurrent(&context));
        OK(cu.DevicePrimaryCtxRelease(DEVICE));
    }
}

CASE_BARE(a_reset_frees_and_does_not_release,
          PRIMARY "cuDevicePrimaryCtxReset: \"Resetting the primary context does not release it\"") {
    CUcontext context = NULL;
    OK(cu.Init(0));
    OK(cu.DevicePrimaryCtxRetain(&context, DEVICE));
    OK(cu.CtxPushCurrent(context));
    const size_t before = free_memory();
    new_block(large_amount());
    OK(cu.CtxPopCurrent(&context));
    OK(cu.DevicePrimaryCtxReset(DEVICE));
    OK(cu.DevicePrimaryCtxRetain(&context, DEVICE));
    OK(cu.CtxPushCurrent(context));
    CHECK(free_memory() >= before - large_amount() / 2);
    OK(cu.CtxPopCurrent(&context));
    OK(cu.DevicePrimaryCtxRelease(DEVICE));
    OK(cu.DevicePrimaryCtxRelease(DEVICE));
}

CASE_BARE(a_primary_context_has_the_flags_that_were_set,
          PRIMARY "cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxGetState") {
    CUcontext context = NULL;
    unsigned flags = 0;
    int is_active;
    OK(cu.Init(0));
    OK(cu.DevicePrimaryCtxSetFlags(DEVICE, CU_CTX_SCHED_BLOCKING_SYNC));
    OK(cu.DevicePrimaryCtxGetState(DEVICE, &flags, &is_active));
    CHECK((flags & CU_CTX_SCHED_BLOCKING_SYNC) != 0);
    OK(cu.DevicePrimaryCtxRetain(&context, DEVICE));
    OK(cu.CtxPushCurrent(context));
    flags = 0;
    OK(cu.CtxGetFlags(&flags));
    CHECK((flags & CU_CTX_SCHED_BLOCKING_SYNC) != 0);
    OK(cu.CtxPopCurrent(&context));
    OK(cu.DevicePrimaryCtxRelease(DEVICE));
}

/* ---- who is current --------------------------------------------------------------------------------------------- */

CASE(a_created_context_is_current, REFERENCE "cuCtxCreate: \"associates it with the calling thread\"") {
    CUcontext context = new_context(0), popped = NULL;
    CHECK(context != primary);
    OK(cu.CtxPopCurrent(&popped));
    CHECK(popped == context);
    CHECK(current() == primary); /* "may be restored by a subsequent call to cuCtxPopCurrent()" */
    OK(cu.CtxDestroy(context));
}

CASE(current_contexts_are_a_stack, REFERENCE "cuCtxPushCurrent, cuCtxPopCurrent") {
    CUcontext context = new_context(0), popped = NULL;
    OK(cu.CtxPushCurrent(primary));
    OK(cu.CtxPushCurrent(context));
    CHECK(current() == context);
    OK(cu.CtxPopCurrent(&popped));
    CHECK(popped == context && current() == primary);
    OK(cu.CtxPopCurrent(&popped));
    CHECK(popped == primary && current() == context);
    OK(cu.CtxDestroy(context));
    CHECK(current() == primary);
}

CASE(set_current_replaces_the_top_of_the_stack,
     REFERENCE "cuCtxSetCurrent: \"this will replace the top of that stack with ctx\"") {
    CUcontext context = new_context(0), popped = NULL;
    OK(cu.CtxPushCurrent(primary));
    OK(cu.CtxSetCurrent(context));
    CHECK(current() == context);
    OK(cu.CtxPopCurrent(&popped));
    CHECK(popped == context && current() == context);
    OK(cu.CtxDestroy(context));
    CHECK(current() == primary);
}

CASE(setting_no_context_pops,
     REFERENCE "cuCtxSetCurrent: \"If ctx is NULL then this will be equivalent to popping the top\"") {
    CUcontext context = new_context(0);
    OK(cu.CtxSetCurrent(NULL));
    CHECK(current() == primary);
    OK(cu.CtxDestroy(context));
}

static void ask_in_a_new_thread(void *argument) {
    CUcontext context = NULL, popped;
    CUdevice device;
    CUdeviceptr block;
    (void)argument;
    CHECK(current() == NULL);
    GIVES(cu.CtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.MemAlloc(&block, 256), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.CtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
    OK(cu.CtxSetCurrent(NULL)); /* "or a no-op if the calling CPU thread's CUDA context stack is empty" */
    OK(cu.CtxSetCurrent(primary));
    CHECK(current() == primary);
    OK(cu.CtxPopCurrent(&context));
    CHECK(context == primary);
}

CASE(a_new_thread_has_no_context, REFERENCE "cuCtxGetCurrent, cuCtxPopCurrent: CUDA_ERROR_INVALID_CONTEXT") {
    on_another_thread(ask_in_a_new_thread, NULL);
    CHECK(current() == primary);
}

static void work_in_thread(void *argument) {
    const CUdeviceptr *block = argument;
    OK(cu.CtxPushCurrent(primary));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    set(*block, 3, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
    CUcontext popped;
    OK(cu.CtxPopCurrent(&popped));
}

CASE(threads_share_a_context, REFERENCE "cuCtxPushCurrent: a context may be current to several threads") {
    CUdeviceptr block = new_block(BYTES);
    on_another_thread(work_in_thread, &block);
    CHECK(device_all_are(block, BYTES, 3));
    OK(cu.MemFree(block));
}

CASE(the_current_context_tells_its_device, REFERENCE "cuCtxGetDevice") {
    CUdevice device = -1;
    OK(cu.CtxGetDevice(&device));
    CHECK_EQUAL(DEVICE, device);
}

CASE(no_context_cannot_be_pushed, REFERENCE "cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE") {
    GIVES(cu.CtxPushCurrent(NULL), CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE);
    CHECK(current() == primary);
}

CASE(a_context_has_the_flags_that_it_was_made_with, REFERENCE "cuCtxGetFlags") {
    CUcontext context = new_context(CU_CTX_SCHED_BLOCKING_SYNC);
    unsigned flags = 0;
    OK(cu.CtxGetFlags(&flags));
    CHECK((flags & 7) == CU_CTX_SCHED_BLOCKING_SYNC);
    OK(cu.CtxDestroy(context));
}

CASE(a_context_has_a_version, REFERENCE "cuCtxGetApiVersion") {
    unsigned version = 0, same = 0;
    OK(cu.CtxGetApiVersion(primary, &version));
    OK(cu.CtxGetApiVersion(
        NULL, &same)); /* "If ctx is NULL, returns the API version used to create the currently bound context" */
    CHECK(version >= 3010 && version == same);
}

CASE(a_context_is_not_made_on_a_device_that_is_not_there, REFERENCE "cuCtxCreate: CUDA_ERROR_INVALID_DEVICE") {
    CUcontext context;
    GIVES(cu.CtxCreate(&context, 0, device_count() + 5), CUDA_ERROR_INVALID_DEVICE);
    CHECK(current() == primary);
}

/* ---- destroy ---------------------------------------------------------------------------------------------------- */

CASE(destroying_the_current_context_pops_it,
     REFERENCE "cuCtxDestroy: \"then ctx will also be popped from the current thread's context stack\"") {
    CUcontext context = new_context(0);
    OK(cu.CtxDestroy(context));
    CHECK(current() == primary);
}

CASE(destroying_a_context_frees_its_blocks,
     REFERENCE "cuCtxDestroy: \"These resources also include memory allocations by cuMemAlloc()\"") {
    const size_t before = free_memory();
    CUcontext context = new_context(0);
    new_block(large_amount());
    OK(cu.CtxDestroy(context));
    CHECK(free_memory() >= before - large_amount() / 2);
}

CASE(pages_outlive_the_context_that_they_were_made_in,
     REFERENCE "cuCtxDestroy \"will not destroy memory allocations by cuMemCreate()\"") {
    const size_t unit = granule();
    CUcontext context = new_context(0);
    const CUmemGenericAllocationHandle page = new_page(unit);
    OK(cu.CtxDestroy(context));
    const CUdeviceptr at = new_reservation(unit);
    map_page(at, unit, page);
    set(at, 5, unit, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(at, unit, 5));
    OK(cu.MemUnmap(at, unit));
    OK(cu.MemRelease(page));
    OK(cu.MemAddressFree(at, unit));
}

static void destroy_context(void *argument) { OK(cu.CtxDestroy(argument)); }

CASE_APART(a_context_destroyed_by_another_thread_is_current_and_of_no_use,
           REFERENCE "cuCtxDestroy: \"ctx will remain current to those threads, and attempting to access ctx ... will "
                     "result in the error CUDA_ERROR_CONTEXT_IS_DESTROYED\"") {
    CUcontext context = new_context(0);
    on_another_thread(destroy_context, context);
    CHECK(current() == context);
    GIVES(cu.CtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CUdeviceptr block;
    GIVES(cu.MemAlloc(&block, 256), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/* ---- between contexts ------------------------------------------------------------------------------------------- */

CASE(an_event_is_recorded_in_its_own_context_only, "CUDA Driver API, Event Management, cuEventRecord: \"must be from "
                                                   "the same context otherwise CUDA_ERROR_INVALID_HANDLE\"") {
    CUevent event = new_event();
    CUcontext context = new_context(0);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    GIVES(cu.EventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.StreamDestroy(stream));
    OK(cu.CtxDestroy(context));
    OK(cu.EventDestroy(event));
}

CASE(a_stream_waits_for_an_event_of_another_context,
     "CUDA Driver API, Stream Management, cuStreamWaitEvent: \"may be from a different context or device\"") {
    CUevent event = new_event();
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING);
    CUcontext context = new_context(0), popped;
    CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.CtxPopCurrent(&popped));
    struct gate *gate = hold(first);
    mark(first, 1);
    OK(cu.EventRecord(event, first));
    OK(cu.CtxPushCurrent(context));
    OK(cu.StreamWaitEvent(second, event, 0));
    mark(second, 2);
    stays_pending(second);
    let_go(gate);
    OK(cu.StreamSynchronize(second));
    CHECK(marks_are("12"));
    OK(cu.StreamDestroy(second));
    OK(cu.CtxDestroy(context));
    OK(cu.StreamDestroy(first));
    OK(cu.EventDestroy(event));
}

CASE(each_context_has_a_legacy_stream_of_its_own, "CUDA Driver API, Stream synchronization behavior: the legacy stream "
                                                  "\"synchronizes with all other streams in the same CUcontext\"") {
    CUcontext context = new_context(0), popped;
    const CUdeviceptr block = new_block(BYTES);
    set(block, 1, BYTES, NULL);
    OK(cu.CtxSynchronize());
    OK(cu.CtxPopCurrent(&popped));
    struct gate *gate = hold(NULL);
    OK(cu.CtxPushCurrent(context));
    set(block, 2, BYTES, NULL);
    becomes_done(NULL);
    OK(cu.CtxPopCurrent(&popped));
    GIVES(cu.StreamQuery(NULL), CUDA_ERROR_NOT_READY);
    let_go(gate);
    OK(cu.CtxSynchronize());
    OK(cu.CtxDestroy(context));
}

CASE(data_is_copied_between_contexts_of_a_device,
     "CUDA Driver API, Memory Management, cuMemcpyPeer: \"Copies device memory between two contexts\"") {
    static unsigned char back[BYTES];
    const CUdeviceptr block = new_block(BYTES);
    CUcontext context = new_context(0), popped;
    const CUdeviceptr other = new_block(BYTES);
    OK(cu.MemsetD8(other, 6, BYTES));
    OK(cu.CtxSynchronize());
    OK(cu.CtxPopCurrent(&popped));
    OK(cu.MemcpyPeer(block, primary, other, context, BYTES));
    OK(cu.CtxSynchronize());
    OK(cu.MemcpyDtoH(back, block, BYTES));
    CHECK(all_are(back, BYTES, 6));
    OK(cu.CtxDestroy(context));
    OK(cu.MemFree(block));
}
