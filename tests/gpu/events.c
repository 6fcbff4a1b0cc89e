/* SPDX-License-Identifier: Apache-2.0 */
/* Events, and streams that wait for them. */
#include "suite.h"

#define SUBJECT   "events"
#define REFERENCE "CUDA Driver API, Event Management, "
#define WAIT      "CUDA Driver API, Stream Management, cuStreamWaitEvent"

enum { BYTES = 1 << 14 };

/* Two streams that are apart, an event, a block. */
struct ground {
    CUstream first, second;
    CUevent event;
    CUdeviceptr block;
};

static struct ground new_ground(void) {
    return (struct ground){new_stream(CU_STREAM_NON_BLOCKING), new_stream(CU_STREAM_NON_BLOCKING), new_event(),
                           new_block(BYTES)};
}

static void drop_ground(const struct ground *ground) {
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(ground->first));
    OK(cu.StreamDestroy(ground->second));
    OK(cu.EventDestroy(ground->event));
    OK(cu.MemFree(ground->block));
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

CASE(an_event_that_was_never_recorded_is_done, REFERENCE
     "cuEventRecord: \"Before the first call to cuEventRecord(), an event represents an empty set of work\"") {
    CUevent event = new_event();
    OK(cu.EventQuery(event));
    OK(cu.EventSynchronize(event));
    OK(cu.EventDestroy(event));
}

CASE(an_event_is_done_when_the_work_before_it_is, REFERENCE "cuEventQuery") {
    struct ground ground = new_ground();
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    event_stays_pending(ground.event);
    let_go(gate);
    event_becomes_done(ground.event);
    drop_ground(&ground);
}

CASE(work_after_a_record_does_not_hold_the_event,
     REFERENCE "cuEventRecord: \"Uses of hStream after this call do not modify hEvent\"") {
    struct ground ground = new_ground();
    set(ground.block, 1, BYTES, ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    struct gate *gate = hold(ground.first);
    event_becomes_done(ground.event);
    GIVES(cu.StreamQuery(ground.first), CUDA_ERROR_NOT_READY);
    let_go(gate);
    drop_ground(&ground);
}

CASE(synchronizing_an_event_waits_for_the_work_before_it, REFERENCE "cuEventSynchronize") {
    struct ground ground = new_ground();
    unsigned char *seen = new_pinned(BYTES);
    struct gate *gate = hold(ground.first);
    set(ground.block, 5, BYTES, ground.first);
    copy(as_device(seen), ground.block, BYTES, ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    let_go_after(gate, 15);
    OK(cu.EventSynchronize(ground.event));
    CHECK(all_are(seen, BYTES, 5));
    drop_ground(&ground);
    OK(cu.MemFreeHost(seen));
}

CASE(an_event_with_blocking_synchronization_is_waited_for_alike, REFERENCE "cuEventCreate: CU_EVENT_BLOCKING_SYNC") {
    struct ground ground = new_ground();
    CUevent event = NULL;
    OK(cu.EventCreate(&event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(event, ground.first));
    event_stays_pending(event);
    let_go_after(gate, 10);
    OK(cu.EventSynchronize(event));
    OK(cu.EventQuery(event));
    OK(cu.EventDestroy(event));
    drop_ground(&ground);
}

CASE(a_later_record_replaces_an_earlier_one,
     REFERENCE "cuEventRecord \"will overwrite the previously captured state\"") {
    struct ground ground = new_ground();
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    event_stays_pending(ground.event);
    OK(cu.EventRecord(ground.event, ground.second));
    event_becomes_done(ground.event);
    let_go(gate);
    drop_ground(&ground);
}

CASE(a_done_event_is_pending_again_after_a_record,
     REFERENCE "cuEventRecord \"can be called multiple times on the same event\"") {
    struct ground ground = new_ground();
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.EventSynchronize(ground.event));
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    event_stays_pending(ground.event);
    let_go(gate);
    OK(cu.EventSynchronize(ground.event));
    drop_ground(&ground);
}

CASE(a_record_with_default_flags_is_a_record, REFERENCE "cuEventRecordWithFlags: CU_EVENT_RECORD_DEFAULT") {
    struct ground ground = new_ground();
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecordWithFlags(ground.event, ground.first, 0));
    event_stays_pending(ground.event);
    let_go(gate);
    OK(cu.EventSynchronize(ground.event));
    drop_ground(&ground);
}

CASE(many_events_are_recorded_and_done, REFERENCE "cuEventCreate, cuEventRecord") {
    enum { COUNT = 1500 };
    static CUevent events[COUNT];
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < COUNT; i++) {
        events[i] = new_event();
        OK(cu.EventRecord(events[i], stream));
    }
    OK(cu.EventSynchronize(events[COUNT - 1]));
    for (int i = 0; i < COUNT; i++) {
        OK(cu.EventQuery(events[i]));
        OK(cu.EventDestroy(events[i]));
    }
    OK(cu.StreamDestroy(stream));
}

CASE(an_event_outlives_its_stream, REFERENCE "cuEventRecord; cuStreamDestroy") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    struct gate *gate = hold(stream);
    OK(cu.EventRecord(event, stream));
    OK(cu.StreamDestroy(stream));
    event_stays_pending(event);
    let_go(gate);
    OK(cu.EventSynchronize(event));
    OK(cu.EventDestroy(event));
}

/* ---- waits ------------------------------------------------------------------------------------------------------ */

CASE(a_stream_waits_for_an_event,
     WAIT ": \"Makes all future work submitted to hStream wait for all work captured in hEvent\"") {
    struct ground ground = new_ground();
    struct gate *gate = hold(ground.first);
    mark(ground.first, 1);
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.StreamWaitEvent(ground.second, ground.event, 0));
    mark(ground.second, 2);
    stays_pending(ground.second);
    let_go(gate);
    OK(cu.StreamSynchronize(ground.second));
    CHECK(marks_are("12"));
    drop_ground(&ground);
}

CASE(a_wait_holds_copies_too, WAIT) {
    struct ground ground = new_ground();
    unsigned char *seen = new_pinned(BYTES);
    struct gate *gate = hold(ground.first);
    set(ground.block, 7, BYTES, ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.StreamWaitEvent(ground.second, ground.event, 0));
    copy(as_device(seen), ground.block, BYTES, ground.second);
    stays_pending(ground.second);
    CHECK(all_are(seen, BYTES, 0));
    let_go(gate);
    OK(cu.StreamSynchronize(ground.second));
    CHECK(all_are(seen, BYTES, 7));
    drop_ground(&ground);
    OK(cu.MemFreeHost(seen));
}

CASE(a_wait_does_not_hold_the_host, WAIT ": the synchronization is performed on the device") {
    struct ground ground = new_ground();
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.StreamWaitEvent(ground.second, ground.event, 0)); /* it would never return if it waited */
    let_go(gate);
    OK(cu.StreamSynchronize(ground.second));
    drop_ground(&ground);
}

CASE(a_wait_for_an_event_that_was_never_recorded_does_not_wait,
     WAIT "; cuEventRecord: \"an event represents an empty set of work\"") {
    struct ground ground = new_ground();
    OK(cu.StreamWaitEvent(ground.first, ground.event, 0));
    set(ground.block, 1, BYTES, ground.first);
    becomes_done(ground.first);
    drop_ground(&ground);
}

CASE(a_wait_means_the_record_before_it,
     REFERENCE "cuEventRecord: waits \"are not affected by later calls to cuEventRecord()\"") {
    struct ground ground = new_ground();
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.EventSynchronize(ground.event));
    OK(cu.StreamWaitEvent(ground.second, ground.event, 0));
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(ground.event, ground.first)); /* later than the wait */
    set(ground.block, 1, BYTES, ground.second);
    becomes_done(ground.second);
    GIVES(cu.EventQuery(ground.event), CUDA_ERROR_NOT_READY);
    let_go(gate);
    drop_ground(&ground);
}

CASE(a_wait_stays_when_its_event_is_recorded_elsewhere,
     REFERENCE "cuEventRecord: waits \"are not affected by later calls to cuEventRecord()\"") {
    struct ground ground = new_ground();
    CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(ground.first);
    mark(ground.first, 1);
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.StreamWaitEvent(ground.second, ground.event, 0));
    OK(cu.EventRecord(ground.event, third)); /* done at once */
    mark(ground.second, 2);
    stays_pending(ground.second);
    let_go(gate);
    OK(cu.StreamSynchronize(ground.second));
    CHECK(marks_are("12"));
    OK(cu.StreamDestroy(third));
    drop_ground(&ground);
}

CASE(a_wait_holds_later_work_only, WAIT ": \"all future work\"") {
    struct ground ground = new_ground();
    CUevent before = new_event();
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    set(ground.block, 1, BYTES, ground.second);
    OK(cu.EventRecord(before, ground.second));
    OK(cu.StreamWaitEvent(ground.second, ground.event, 0));
    event_becomes_done(before);
    stays_pending(ground.second);
    let_go(gate);
    OK(cu.StreamSynchronize(ground.second));
    OK(cu.EventDestroy(before));
    drop_ground(&ground);
}

CASE(a_stream_may_wait_for_its_own_event, WAIT) {
    struct ground ground = new_ground();
    set(ground.block, 1, BYTES, ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.StreamWaitEvent(ground.first, ground.event, 0));
    set(ground.block, 2, BYTES, ground.first);
    becomes_done(ground.first);
    CHECK(device_all_are(ground.block, BYTES, 2));
    drop_ground(&ground);
}

CASE(waits_reach_over_several_streams, WAIT) {
    struct ground ground = new_ground();
    CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent next = new_event();
    struct gate *gate = hold(ground.first);
    mark(ground.first, 1);
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.StreamWaitEvent(ground.second, ground.event, 0));
    OK(cu.EventRecord(next, ground.second));
    OK(cu.StreamWaitEvent(third, next, 0));
    mark(third, 2);
    stays_pending(third);
    let_go(gate);
    OK(cu.StreamSynchronize(third));
    CHECK(marks_are("12"));
    OK(cu.StreamDestroy(third));
    OK(cu.EventDestroy(next));
    drop_ground(&ground);
}

CASE(a_stream_waits_for_each_of_several_events, WAIT) {
    struct ground ground = new_ground();
    CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent other = new_event();
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(ground.event, ground.first));
    OK(cu.EventRecord(other, ground.second)); /* done at once */
    OK(cu.StreamWaitEvent(third, ground.event, 0));
    OK(cu.StreamWaitEvent(third, other, 0));
    set(ground.block, 1, BYTES, third);
    stays_pending(third);
    let_go(gate);
    OK(cu.StreamSynchronize(third));
    OK(cu.StreamDestroy(third));
    OK(cu.EventDestroy(other));
    drop_ground(&ground);
}

CASE(a_wait_without_an_event_is_refused, WAIT ": hEvent \"may not be NULL\"") {
    struct ground ground = new_ground();
    GIVES(cu.StreamWaitEvent(ground.first, NULL, 0), CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

CASE(unknown_wait_flags_are_refused, WAIT ": \"See CUevent_capture_flags\"") {
    struct ground ground = new_ground();
    GIVES(cu.StreamWaitEvent(ground.first, ground.event, 0x80), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

/* ---- destroy ---------------------------------------------------------------------------------------------------- */

CASE(destroying_a_pending_event_does_not_wait,
     REFERENCE "cuEventDestroy: \"the call does not block on completion of the event\"") {
    struct ground ground = new_ground();
    CUevent event = new_event();
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(event, ground.first));
    OK(cu.EventDestroy(event)); /* it would never return if it waited */
    let_go(gate);
    drop_ground(&ground);
}

CASE(a_wait_outlives_its_event,
     REFERENCE "cuEventDestroy: \"resources will automatically be released asynchronously at completion\"") {
    struct ground ground = new_ground();
    CUevent event = new_event();
    struct gate *gate = hold(ground.first);
    mark(ground.first, 1);
    OK(cu.EventRecord(event, ground.first));
    OK(cu.StreamWaitEvent(ground.second, event, 0));
    OK(cu.EventDestroy(event));
    mark(ground.second, 2);
    stays_pending(ground.second);
    let_go(gate);
    OK(cu.StreamSynchronize(ground.second));
    CHECK(marks_are("12"));
    drop_ground(&ground);
}

CASE(a_new_event_knows_nothing_of_a_destroyed_one,
     REFERENCE "cuEventCreate: an event represents an empty set of work at first") {
    struct ground ground = new_ground();
    CUevent event = new_event();
    struct gate *gate = hold(ground.first);
    OK(cu.EventRecord(event, ground.first));
    OK(cu.EventDestroy(event));
    event = new_event(); /* perhaps the same handle */
    OK(cu.EventQuery(event));
    let_go(gate);
    OK(cu.EventDestroy(event));
    drop_ground(&ground);
}

/* ---- flags and times -------------------------------------------------------------------------------------------- */

CASE(unknown_event_flags_are_refused, REFERENCE "cuEventCreate: CUDA_ERROR_INVALID_VALUE") {
    CUevent event;
    GIVES(cu.EventCreate(&event, 0x8000), CUDA_ERROR_INVALID_VALUE);
}

CASE(an_interprocess_event_must_be_without_time,
     REFERENCE "cuEventCreate: CU_EVENT_INTERPROCESS \"must be specified along with CU_EVENT_DISABLE_TIMING\"") {
    CUevent event;
    const CUresult code = cu.EventCreate(&event, CU_EVENT_INTERPROCESS);
    CHECK(code != CUDA_SUCCESS); /* a driver that has no such events says CUDA_ERROR_NOT_SUPPORTED */
}

CASE(time_passes_between_two_records, REFERENCE "cuEventElapsedTime") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent begin = NULL, end = NULL;
    float ms = -1;
    OK(cu.EventCreate(&begin, CU_EVENT_DEFAULT));
    OK(cu.EventCreate(&end, CU_EVENT_DEFAULT));
    OK(cu.EventRecord(begin, stream));
    OK(cu.EventSynchronize(begin));
    struct gate *gate = hold(stream);
    let_go_after(gate, 20);
    OK(cu.EventRecord(end, stream));
    OK(cu.EventSynchronize(end));
    OK(cu.EventElapsedTime(&ms, begin, end));
    CHECK(ms >= 15 && ms < 10000);
    OK(cu.EventElapsedTime(&ms, end, end));
    CHECK(ms >= -0.001f && ms <= 0.001f);
    OK(cu.EventDestroy(begin));
    OK(cu.EventDestroy(end));
    OK(cu.StreamDestroy(stream));
}

CASE(an_event_that_was_never_recorded_has_no_time, REFERENCE
     "cuEventElapsedTime: \"If cuEventRecord() has not been called on either event then CUDA_ERROR_INVALID_HANDLE\"") {
    CUevent begin = NULL, end = NULL;
    float ms;
    OK(cu.EventCreate(&begin, CU_EVENT_DEFAULT));
    OK(cu.EventCreate(&end, CU_EVENT_DEFAULT));
    GIVES(cu.EventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.EventRecord(begin, NULL));
    OK(cu.EventSynchronize(begin));
    GIVES(cu.EventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.EventDestroy(begin));
    OK(cu.EventDestroy(end));
}

CASE(a_pending_event_has_no_time_yet, REFERENCE "cuEventElapsedTime: CUDA_ERROR_NOT_READY") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent begin = NULL, end = NULL;
    float ms;
    OK(cu.EventCreate(&begin, CU_EVENT_DEFAULT));
    OK(cu.EventCreate(&end, CU_EVENT_DEFAULT));
    OK(cu.EventRecord(begin, stream));
    OK(cu.EventSynchronize(begin));
    struct gate *gate = hold(stream);
    OK(cu.EventRecord(end, stream));
    GIVES(cu.EventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
    let_go(gate);
    OK(cu.EventSynchronize(end));
    OK(cu.EventElapsedTime(&ms, begin, end));
    OK(cu.EventDestroy(begin));
    OK(cu.EventDestroy(end));
    OK(cu.StreamDestroy(stream));
}

CASE(an_event_without_timing_has_no_time,
     REFERENCE "cuEventElapsedTime: \"If either event was created with the CU_EVENT_DISABLE_TIMING flag, then this "
               "function will return CUDA_ERROR_INVALID_HANDLE\"") {
    CUevent begin = new_event(), end = NULL;
    float ms;
    OK(cu.EventCreate(&end, CU_EVENT_DEFAULT));
    OK(cu.EventRecord(begin, NULL));
    OK(cu.EventRecord(end, NULL));
    OK(cu.CtxSynchronize());
    GIVES(cu.EventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.EventDestroy(begin));
    OK(cu.EventDestroy(end));
}
