/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are captured into graphs, and what is illegal meanwhile. */
#include "suite.h"

#define SUBJECT   "capture"
#define REFERENCE "CUDA Driver API, Stream Management, "
#define GUIDE     "CUDA C++ Programming Guide, CUDA Graphs, Creating a Graph Using Stream Capture, "
#define RESULTS   "CUDA Driver API, Data types, "

enum { BYTES = 1 << 14 };

static CUstreamCaptureStatus status_of(CUstream stream) {
    CUstreamCaptureStatus status = (CUstreamCaptureStatus)99;
    OK(cu.StreamIsCapturing(stream, &status));
    return status;
}

/* Ends a capture that has been spoiled: an error, and no graph; the stream is as any other afterwards. */
static void end_spoiled(CUstream stream, CUresult expected) {
    CUgraph graph = (CUgraph)&graph;
    GIVES(cu.StreamEndCapture(stream, &graph), expected);
    CHECK(graph == NULL);
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, status_of(stream));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
}

/* ---- a capture -------------------------------------------------------------------------------------------------- */

CASE(a_stream_says_whether_it_is_captured, REFERENCE "cuStreamIsCapturing") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, status_of(stream));
    OK(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, status_of(stream));
    OK(cu.GraphDestroy(end_capture(stream)));
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, status_of(stream));
    OK(cu.StreamDestroy(stream));
}

CASE(each_capture_has_a_number_of_its_own, REFERENCE
     "cuStreamGetCaptureInfo: \"an id for the capture sequence, which is unique over the lifetime of the process\"") {
    uint64_t ids[2] = {0, 0};
    for (int times = 0; times < 2; times++) {
        CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
        CUstreamCaptureStatus status = (CUstreamCaptureStatus)99;
        OK(cu.StreamGetCaptureInfo(stream, &status, &ids[times], NULL, NULL, NULL));
        CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
        OK(cu.GraphDestroy(end_capture(stream)));
        OK(cu.StreamDestroy(stream));
    }
    CHECK(ids[0] != ids[1]);
}

/* ---- several streams -------------------------------------------------------------------------------------------- */

CASE(a_wait_takes_another_stream_into_the_capture, GUIDE "Cross-stream Dependencies and Events") {
    const CUdeviceptr block = new_block(BYTES);
    CUevent fork = new_event(), join = new_event();
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING), stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    mark(stream, 1);
    OK(cu.EventRecord(fork, stream));
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, status_of(other));
    OK(cu.StreamWaitEvent(other, fork, 0));
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, status_of(other));
    set(block, 5, BYTES, other);
    OK(cu.EventRecord(join, other));
    OK(cu.StreamWaitEvent(stream, join, 0));
    mark(stream, 2);
    CUgraph graph = end_capture(stream);
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, status_of(other));
    CUgraphExec executable = made_ready(graph);
    OK(cu.GraphLaunch(executable, stream));
    OK(cu.StreamSynchronize(stream));
    CHECK(marks_are("12"));
    CHECK(device_all_are(block, BYTES, 5));
    OK(cu.GraphExecDestroy(executable));
    OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
    OK(cu.StreamDestroy(other));
    OK(cu.EventDestroy(fork));
    OK(cu.EventDestroy(join));
    OK(cu.MemFree(block));
}

CASE(branches_that_do_not_come_back_spoil_a_capture, RESULTS "CUDA_ERROR_STREAM_CAPTURE_UNJOINED") {
    const CUdeviceptr block = new_block(BYTES);
    CUevent fork = new_event();
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING), stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.EventRecord(fork, stream));
    OK(cu.StreamWaitEvent(other, fork, 0));
    set(block, 1, BYTES, other);
    end_spoiled(stream, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    OK(cu.StreamDestroy(other));
    OK(cu.EventDestroy(fork));
    OK(cu.MemFree(block));
}

CASE(a_capture_ends_on_the_stream_where_it_began,
     RESULTS "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: \"The capture was not initiated in this stream\"") {
    CUevent fork = new_event(), join = new_event();
    CUgraph graph = NULL;
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING), stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.EventRecord(fork, stream));
    OK(cu.StreamWaitEvent(other, fork, 0));
    GIVES(cu.StreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    cu.StreamEndCapture(stream, &graph); /* whether it can still succeed is left open */
    OK(cu.StreamDestroy(stream));
    OK(cu.StreamDestroy(other));
    OK(cu.EventDestroy(fork));
    OK(cu.EventDestroy(join));
}

CASE(two_captures_do_not_become_one, RESULTS "CUDA_ERROR_STREAM_CAPTURE_MERGE") {
    CUevent event = new_event();
    CUgraph graph = NULL;
    CUstream first = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL), second = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.EventRecord(event, first));
    GIVES(cu.StreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    cu.StreamEndCapture(first, &graph);
    cu.StreamEndCapture(second, &graph);
    OK(cu.StreamDestroy(first));
    OK(cu.StreamDestroy(second));
    OK(cu.EventDestroy(event));
}

CASE(a_capture_does_not_wait_for_what_is_outside,
     RESULTS "CUDA_ERROR_STREAM_CAPTURE_ISOLATION: \"a dependency would have been created that crosses the capture "
             "sequence boundary\"") {
    CUevent event = new_event();
    CUstream outside = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.EventRecord(event, outside));
    OK(cu.StreamSynchronize(outside));
    CUgraph graph = NULL;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    GIVES(cu.StreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    cu.StreamEndCapture(stream, &graph);
    OK(cu.StreamDestroy(stream));
    OK(cu.StreamDestroy(outside));
    OK(cu.EventDestroy(event));
}

CASE(other_streams_work_on_during_a_capture, GUIDE "streams that take no part are not affected") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING), stream = new_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    set(block, 6, BYTES, other);
    becomes_done(other);
    OK(cu.GraphDestroy(end_capture(stream)));
    CHECK(device_all_are(block, BYTES, 6));
    OK(cu.StreamDestroy(stream));
    OK(cu.StreamDestroy(other));
    OK(cu.MemFree(block));
}

/* ---- what is illegal -------------------------------------------------------------------------------------------- */

CASE(the_legacy_stream_is_not_captured,
     REFERENCE "cuStreamBeginCapture: \"Capture may not be initiated if stream is CU_STREAM_LEGACY\"") {
    REFUSED(cu.StreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    REFUSED(cu.StreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

CASE(a_captured_stream_is_not_captured_again,
     REFERENCE "cuStreamBeginCapture: \"it may only be initiated if the stream is not already in capture mode\"") {
    CUgraph graph = NULL;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    REFUSED(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    cu.StreamEndCapture(stream, &graph);
    OK(cu.StreamDestroy(stream));
}

CASE(a_capture_that_was_not_begun_does_not_end,
     REFERENCE "cuStreamEndCapture: \"Capture must have been initiated on hStream\"") {
    CUgraph graph;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    REFUSED(cu.StreamEndCapture(stream, &graph));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
}

CASE(a_captured_stream_cannot_be_waited_for, GUIDE "Prohibited and Unhandled Operations: \"invalid to synchronize or "
                                                   "query the execution status of a stream which is being captured\"") {
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    GIVES(cu.StreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status_of(stream));
    end_spoiled(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

CASE(a_captured_stream_cannot_be_queried, GUIDE "Prohibited and Unhandled Operations: \"invalid to synchronize or "
                                                "query the execution status of a stream which is being captured\"") {
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    GIVES(cu.StreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_spoiled(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

CASE(a_context_with_a_captured_stream_cannot_be_waited_for,
     GUIDE "Prohibited and Unhandled Operations: nor \"a broader handle which encompasses active stream capture\"") {
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    GIVES(cu.CtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_spoiled(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

CASE(a_captured_event_cannot_be_queried,
     RESULTS "CUDA_ERROR_CAPTURED_EVENT: \"not permitted on an event which was last recorded in a capturing stream\"") {
    CUevent event = new_event();
    CUgraph graph = NULL;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.EventRecord(event, stream));
    GIVES(cu.EventQuery(event), CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    cu.StreamEndCapture(stream, &graph);
    OK(cu.StreamDestroy(stream));
    OK(cu.EventDestroy(event));
}

CASE(a_captured_event_cannot_be_waited_for_by_the_host,
     RESULTS "CUDA_ERROR_CAPTURED_EVENT: \"not permitted on an event which was last recorded in a capturing stream\"") {
    CUevent event = new_event();
    CUgraph graph = NULL;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.EventRecord(event, stream));
    GIVES(cu.EventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    cu.StreamEndCapture(stream, &graph);
    OK(cu.StreamDestroy(stream));
    OK(cu.EventDestroy(event));
}

CASE(an_allocation_is_unsafe_during_a_capture,
     REFERENCE "cuThreadExchangeStreamCaptureMode: CU_STREAM_CAPTURE_MODE_GLOBAL, \"prohibited from potentially unsafe "
               "API calls\"") {
    CUdeviceptr block;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    GIVES(cu.MemAlloc(&block, BYTES), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_spoiled(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

CASE(an_allocation_is_unsafe_during_a_capture_of_the_thread,
     REFERENCE "cuThreadExchangeStreamCaptureMode: CU_STREAM_CAPTURE_MODE_THREAD_LOCAL") {
    CUdeviceptr block;
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    GIVES(cu.MemAlloc(&block, BYTES), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_spoiled(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

CASE(an_allocation_is_allowed_during_a_relaxed_capture,
     REFERENCE "cuThreadExchangeStreamCaptureMode: CU_STREAM_CAPTURE_MODE_RELAXED, \"not prohibited from potentially "
               "unsafe API calls\"") {
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    const CUdeviceptr block = new_block(BYTES);
    OK(cu.GraphDestroy(end_capture(stream)));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(legacy_work_during_the_capture_of_a_blocking_stream_is_refused,
     RESULTS "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: \"a disallowed implicit dependency on a current capture sequence "
             "from cudaStreamLegacy\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    OK(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    GIVES(cu.MemsetD8Async(block, 1, BYTES, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end_spoiled(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cu.MemFree(block));
}

CASE(asking_the_legacy_stream_does_not_spoil_the_capture_of_a_blocking_one, REFERENCE
     "cuStreamIsCapturing: \"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ... The blocking stream capture is not invalidated\"") {
    CUstreamCaptureStatus status;
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    OK(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    GIVES(cu.StreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, status_of(stream));
    OK(cu.GraphDestroy(end_capture(stream)));
    OK(cu.StreamDestroy(stream));
}

CASE(legacy_work_during_the_capture_of_a_non_blocking_stream_goes_on,
     GUIDE "Prohibited and Unhandled Operations: the legacy stream has implicit dependencies on streams \"not created "
           "with cudaStreamNonBlocking\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    set(block, 3, BYTES, NULL);
    becomes_done(NULL);
    OK(cu.GraphDestroy(end_capture(stream)));
    CHECK(device_all_are(block, BYTES, 3));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

struct ending {
    CUstream stream;
    CUgraph graph;
    CUresult code;
};

static void end_in_thread(void *argument) {
    struct ending *ending = argument;
    OK(cu.CtxSetCurrent(primary));
    ending->code = cu.StreamEndCapture(ending->stream, &ending->graph);
    OK(cu.CtxSetCurrent(NULL));
}

CASE(a_capture_ends_in_the_thread_where_it_began, RESULTS "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD") {
    struct ending ending = {new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL), NULL, CUDA_ERROR_UNKNOWN};
    on_another_thread(end_in_thread, &ending);
    GIVES(ending.code, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    cu.StreamEndCapture(ending.stream, &ending.graph);
    OK(cu.StreamDestroy(ending.stream));
}

CASE(a_relaxed_capture_ends_in_any_thread,
     REFERENCE "cuStreamBeginCapture: \"If mode is not CU_STREAM_CAPTURE_MODE_RELAXED, cuStreamEndCapture must be "
               "called on this stream from the same thread\"") {
    struct ending ending = {new_capture(CU_STREAM_CAPTURE_MODE_RELAXED), NULL, CUDA_ERROR_UNKNOWN};
    on_another_thread(end_in_thread, &ending);
    OK(ending.code);
    CHECK(ending.graph != NULL);
    OK(cu.GraphDestroy(ending.graph));
    OK(cu.StreamDestroy(ending.stream));
}

CASE(a_threads_mode_is_exchanged,
     REFERENCE "cuThreadExchangeStreamCaptureMode: CU_STREAM_CAPTURE_MODE_GLOBAL \"is the default mode\"") {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cu.ThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQUAL(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
    OK(cu.ThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQUAL(CU_STREAM_CAPTURE_MODE_RELAXED, mode);
}

CASE(a_relaxed_thread_may_allocate_during_its_capture, REFERENCE
     "cuThreadExchangeStreamCaptureMode: CU_STREAM_CAPTURE_MODE_RELAXED, \"The local thread is not prohibited\"") {
    CUstream stream = new_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cu.ThreadExchangeStreamCaptureMode(&mode));
    const CUdeviceptr block = new_block(BYTES);
    OK(cu.ThreadExchangeStreamCaptureMode(&mode));
    OK(cu.GraphDestroy(end_capture(stream)));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}
