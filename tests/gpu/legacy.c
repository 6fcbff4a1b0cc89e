/* SPDX-License-Identifier: Apache-2.0 */
/* The two default streams: the legacy one, which waits for all blocking streams and holds them back, and each thread's
 * own. */
#include "suite.h"

#define SUBJECT    "default streams"
#define LEGACY     "CUDA Driver API, Stream synchronization behavior, Legacy default stream"
#define PER_THREAD "CUDA Driver API, Stream synchronization behavior, Per-thread default stream"

enum { BYTES = 1 << 14 };

CASE(legacy_work_waits_for_blocking_streams, LEGACY ": \"waits on all blocking streams before its execution\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(blocking);
    mark(blocking, 1);
    mark(NULL, 2);
    stays_pending(NULL);
    let_go(gate);
    OK(cu.CtxSynchronize());
    CHECK(marks_are("12"));
    OK(cu.StreamDestroy(blocking));
    OK(cu.MemFree(block));
}

CASE(blocking_streams_wait_for_legacy_work, LEGACY ": \"all blocking streams wait on the legacy stream after\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(NULL);
    mark(NULL, 1);
    set(block, 1, BYTES, blocking);
    mark(blocking, 2);
    stays_pending(blocking);
    let_go(gate);
    OK(cu.CtxSynchronize());
    CHECK(marks_are("12"));
    OK(cu.StreamDestroy(blocking));
    OK(cu.MemFree(block));
}

CASE(legacy_work_joins_two_blocking_streams, LEGACY ": the example of three kernels") {
    CUstream first = new_stream(CU_STREAM_DEFAULT), second = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(first);
    mark(first, 1);
    mark(NULL, 2);
    mark(second, 3);
    stays_pending(second);
    let_go(gate);
    OK(cu.StreamSynchronize(second));
    CHECK(marks_are("123"));
    OK(cu.StreamDestroy(first));
    OK(cu.StreamDestroy(second));
}

CASE(legacy_work_carries_data_between_blocking_streams, LEGACY) {
    unsigned char *seen = new_pinned(BYTES);
    const CUdeviceptr first_block = new_block(BYTES), second_block = new_block(BYTES);
    CUstream first = new_stream(CU_STREAM_DEFAULT), second = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(first);
    set(first_block, 4, BYTES, first);
    copy(second_block, first_block, BYTES, NULL);
    copy(as_device(seen), second_block, BYTES, second);
    let_go_after(gate, 10);
    OK(cu.StreamSynchronize(second));
    CHECK(all_are(seen, BYTES, 4));
    OK(cu.StreamDestroy(first));
    OK(cu.StreamDestroy(second));
    OK(cu.MemFree(first_block));
    OK(cu.MemFree(second_block));
    OK(cu.MemFreeHost(seen));
}

CASE(blocking_streams_without_legacy_work_between_are_apart,
     LEGACY ": blocking streams wait for the legacy stream, not for one another") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream held = new_stream(CU_STREAM_DEFAULT), other = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(held);
    set(block, 1, BYTES, other);
    becomes_done(other);
    let_go(gate);
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(held));
    OK(cu.StreamDestroy(other));
    OK(cu.MemFree(block));
}

CASE(legacy_work_does_not_hold_a_non_blocking_stream, LEGACY ": \"except for non-blocking streams\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream apart = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(NULL);
    set(block, 1, BYTES, apart);
    becomes_done(apart);
    GIVES(cu.StreamQuery(NULL), CUDA_ERROR_NOT_READY);
    let_go(gate);
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(apart));
    OK(cu.MemFree(block));
}

CASE(a_non_blocking_stream_does_not_hold_legacy_work, LEGACY ": \"except for non-blocking streams\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream apart = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(apart);
    set(block, 1, BYTES, NULL);
    becomes_done(NULL);
    GIVES(cu.StreamQuery(apart), CUDA_ERROR_NOT_READY);
    let_go(gate);
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(apart));
    OK(cu.MemFree(block));
}

CASE(a_blocking_stream_made_later_is_not_held_by_a_non_blocking_one, LEGACY ": \"except for non-blocking streams\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream apart = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(apart);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    set(block, 1, BYTES, NULL);
    set(block, 2, BYTES, blocking);
    becomes_done(blocking);
    let_go(gate);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, BYTES, 2));
    OK(cu.StreamDestroy(apart));
    OK(cu.StreamDestroy(blocking));
    OK(cu.MemFree(block));
}

CASE(null_and_the_legacy_handle_are_one_stream,
     "CUDA Driver API, Data types, CU_STREAM_LEGACY: \"Stream handle that can be passed as a CUstream to use an "
     "implicit stream with legacy synchronization behavior\"") {
    struct gate *gate = hold(CU_STREAM_LEGACY);
    stays_pending(NULL);
    stays_pending(CU_STREAM_LEGACY);
    mark(NULL, 1);
    mark(CU_STREAM_LEGACY, 2);
    let_go(gate);
    OK(cu.StreamSynchronize(CU_STREAM_LEGACY));
    CHECK(marks_are("12"));
    OK(cu.StreamQuery(NULL));
}

CASE(legacy_work_waits_for_a_destroyed_blocking_stream, LEGACY "; cuStreamDestroy") {
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(blocking);
    mark(blocking, 1);
    OK(cu.StreamDestroy(blocking));
    mark(NULL, 2);
    stays_pending(NULL);
    let_go(gate);
    OK(cu.StreamSynchronize(NULL));
    CHECK(marks_are("12"));
}

CASE(an_event_recorded_on_the_legacy_stream_covers_blocking_streams,
     "CUDA C++ Programming Guide, Events: \"Events in stream zero are completed after all preceding tasks and commands "
     "in all streams are completed\"") {
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    CUevent event = new_event();
    struct gate *gate = hold(blocking);
    OK(cu.EventRecord(event, NULL));
    event_stays_pending(event);
    let_go(gate);
    OK(cu.EventSynchronize(event));
    OK(cu.StreamSynchronize(blocking));
    OK(cu.EventDestroy(event));
    OK(cu.StreamDestroy(blocking));
}

CASE(a_wait_of_the_legacy_stream_holds_blocking_streams,
     LEGACY ": \"When an action is taken in the legacy stream such as a kernel launch or cudaStreamWaitEvent() ... all "
            "blocking streams wait on the legacy stream\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream apart = new_stream(CU_STREAM_NON_BLOCKING), blocking = new_stream(CU_STREAM_DEFAULT);
    CUevent event = new_event();
    struct gate *gate = hold(apart);
    mark(apart, 1);
    OK(cu.EventRecord(event, apart));
    OK(cu.StreamWaitEvent(NULL, event, 0));
    mark(blocking, 2);
    stays_pending(blocking);
    let_go(gate);
    OK(cu.StreamSynchronize(blocking));
    CHECK(marks_are("12"));
    OK(cu.EventDestroy(event));
    OK(cu.StreamDestroy(apart));
    OK(cu.StreamDestroy(blocking));
    OK(cu.MemFree(block));
}

CASE(an_event_recorded_on_the_legacy_stream_leaves_out_non_blocking_ones,
     LEGACY ": \"except for non-blocking streams\"") {
    CUstream apart = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    struct gate *gate = hold(apart);
    OK(cu.EventRecord(event, NULL));
    event_becomes_done(event);
    let_go(gate);
    OK(cu.CtxSynchronize());
    OK(cu.EventDestroy(event));
    OK(cu.StreamDestroy(apart));
}

CASE(a_synchronous_copy_has_the_legacy_streams_order,
     "CUDA Driver API, Stream synchronization behavior: \"used when 0 is passed as a CUstream or by APIs that operate "
     "on a stream implicitly\"") {
    static unsigned char seen[BYTES];
    const CUdeviceptr block = new_block(BYTES);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    set(block, 1, BYTES, blocking);
    OK(cu.CtxSynchronize());
    struct gate *gate = hold(blocking);
    set(block, 6, BYTES, blocking);
    let_go_after(gate, 15);
    OK(cu.MemcpyDtoH(seen, block, BYTES));
    CHECK(all_are(seen, BYTES, 6));
    OK(cu.StreamDestroy(blocking));
    OK(cu.MemFree(block));
}

CASE(a_synchronous_set_has_the_legacy_streams_order,
     "CUDA Driver API, Stream synchronization behavior: \"by APIs that operate on a stream implicitly\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(blocking);
    set(block, 6, BYTES, blocking);
    let_go_after(gate, 15);
    OK(cu.MemsetD8(block, 7, BYTES));
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, BYTES, 7));
    OK(cu.StreamDestroy(blocking));
    OK(cu.MemFree(block));
}

/* ---- each thread's own ------------------------------------------------------------------------------------------ */

CASE(work_on_the_threads_stream_happens_in_order, "CUDA Driver API, Data types, CU_STREAM_PER_THREAD") {
    const CUdeviceptr block = new_block(BYTES);
    set(block, 1, BYTES, CU_STREAM_PER_THREAD);
    set(block, 2, BYTES, CU_STREAM_PER_THREAD);
    OK(cu.StreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(device_all_are(block, BYTES, 2));
    OK(cu.StreamQuery(CU_STREAM_PER_THREAD));
    OK(cu.MemFree(block));
}

CASE(the_threads_stream_waits_for_legacy_work,
     PER_THREAD ": \"not a non-blocking stream and will synchronize with the legacy default stream\"") {
    struct gate *gate = hold(NULL);
    mark(NULL, 1);
    mark(CU_STREAM_PER_THREAD, 2);
    stays_pending(CU_STREAM_PER_THREAD);
    let_go(gate);
    OK(cu.StreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(marks_are("12"));
}

CASE(legacy_work_waits_for_the_threads_stream,
     PER_THREAD ": \"not a non-blocking stream and will synchronize with the legacy default stream\"") {
    struct gate *gate = hold(CU_STREAM_PER_THREAD);
    mark(CU_STREAM_PER_THREAD, 1);
    mark(NULL, 2);
    stays_pending(NULL);
    let_go(gate);
    OK(cu.StreamSynchronize(NULL));
    CHECK(marks_are("12"));
}

CASE(the_threads_stream_does_not_hold_other_streams,
     PER_THREAD ": \"does not synchronize with other streams (just like explicitly created streams)\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(CU_STREAM_PER_THREAD);
    set(block, 1, BYTES, blocking);
    becomes_done(blocking);
    let_go(gate);
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(blocking));
    OK(cu.MemFree(block));
}

static void use_my_stream(void *argument) {
    const CUdeviceptr *block = argument;
    OK(cu.CtxSetCurrent(primary));
    OK(cu.StreamQuery(CU_STREAM_PER_THREAD));
    set(*block, 5, BYTES, CU_STREAM_PER_THREAD);
    becomes_done(CU_STREAM_PER_THREAD);
    OK(cu.CtxSetCurrent(NULL));
}

CASE(each_thread_has_a_stream_of_its_own,
     PER_THREAD ": \"an implicit stream local to both the thread and the CUcontext\"") {
    CUdeviceptr block = new_block(BYTES);
    struct gate *gate = hold(CU_STREAM_PER_THREAD);
    on_another_thread(use_my_stream, &block);
    GIVES(cu.StreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    let_go(gate);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, BYTES, 5));
    OK(cu.MemFree(block));
}

static void leave_work_on_my_stream(void *argument) {
    const CUdeviceptr *place = argument;
    OK(cu.CtxSetCurrent(primary));
    set(*place, 8, BYTES, CU_STREAM_PER_THREAD);
    OK(cu.CtxSetCurrent(NULL));
}

CASE(work_of_a_thread_that_has_ended_is_done, PER_THREAD "; cuCtxSynchronize: \"all preceding requested tasks\"") {
    enum { THREADS = 10 };
    const CUdeviceptr block = new_block(THREADS * BYTES);
    for (size_t i = 0; i < THREADS; i++) {
        CUdeviceptr place = block + i * BYTES;
        on_another_thread(leave_work_on_my_stream, &place);
    }
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, THREADS * BYTES, 8));
    OK(cu.MemFree(block));
}
