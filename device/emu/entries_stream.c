/* SPDX-License-Identifier: Apache-2.0 */
/* Entries for streams, events and the work that is queued on them. */
#include "device/emu/clock.h"
#include "device/emu/emu.h"
#include "device/emu/event.h"
#include "device/emu/memory.h"
#include "device/emu/stream.h"

static CUresult find_queue(CUstream stream, struct emu_queue **queue) {
    CUcontext context;
    const CUresult code = emu_current(&context);
    return code != CUDA_SUCCESS ? code : emu_stream_queue(context, stream, queue);
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    CUcontext context;
    const CUresult code = emu_current(&context);
    if (code != CUDA_SUCCESS) return code;
    if (stream == NULL || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    return emu_stream_create(context, flags == CU_STREAM_DEFAULT, stream);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    const CUresult code = emu_ready();
    return code != CUDA_SUCCESS ? code : emu_stream_destroy(stream);
}

CUresult cuStreamSynchronize(CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = find_queue(stream, &queue);
    if (code == CUDA_SUCCESS) emu_clock_wait(emu_queue_end(queue));
    return code;
}

CUresult cuStreamQuery(CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = find_queue(stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_point_passed(emu_queue_end(queue)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    struct emu_queue *queue;
    const CUresult code = find_queue(stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_event_alive(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const struct emu_operation wait = {.kind = EMU_WAIT, .after = {emu_event_point(event)}};
    struct emu_point point;
    return emu_queue_push(queue, &wait, &point);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    CUcontext context;
    const CUresult code = emu_current(&context);
    if (code != CUDA_SUCCESS) return code;
    if (event == NULL || (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING)) != 0)
        return flags & CU_EVENT_INTERPROCESS ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    return emu_event_create(context, flags, event);
}

CUresult cuEventDestroy_v2(CUevent event) {
    const CUresult code = emu_ready();
    return code != CUDA_SUCCESS ? code : emu_event_destroy(event);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = find_queue(stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_event_alive(event) ? emu_event_record(event, queue) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventQuery(CUevent event) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (!emu_event_alive(event)) return CUDA_ERROR_INVALID_HANDLE;
    return emu_point_passed(emu_event_point(event)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (!emu_event_alive(event)) return CUDA_ERROR_INVALID_HANDLE;
    emu_clock_wait(emu_event_point(event));
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (ms == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!emu_event_alive(begin) || !emu_event_alive(end)) return CUDA_ERROR_INVALID_HANDLE;
    return emu_event_elapsed(begin, end, ms);
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

static CUresult push_function(CUstream stream, CUhostFn function, void *argument) {
    struct emu_queue *queue;
    const CUresult code = find_queue(stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_operation call = {.kind = EMU_FUNCTION, .function = {function, argument}};
    struct emu_point point;
    return emu_queue_push(queue, &call, &point);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument) {
    if (function == NULL) return CUDA_ERROR_INVALID_VALUE;
    return push_function(stream, function, argument);
}

/* On the real clock work takes the time it takes; the description is checked and asks for nothing. */
CUresult weirEmuSubmit(const struct weir_emu_work *work, CUstream stream) {
    if (work == NULL || work->size != sizeof *work) return CUDA_ERROR_INVALID_VALUE;
    if (work->access_count > 0 && work->accesses == NULL) return CUDA_ERROR_INVALID_VALUE;
    return push_function(stream, work->function, work->argument);
}

/* Copies from or to pageable memory are over when the call returns: a real driver stages them through memory of its
 * own, and programs reuse theirs at once. */
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    struct emu_queue *queue;
    CUresult code = find_queue(stream, &queue);
    if (code != CUDA_SUCCESS || bytes == 0) return code;
    const enum emu_place target = emu_memory_place((uintptr_t)to, bytes, true);
    const enum emu_place source = emu_memory_place((uintptr_t)from, bytes, false);
    if (to == 0 || from == 0 || target == EMU_PLACE_INVALID || source == EMU_PLACE_INVALID)
        return CUDA_ERROR_INVALID_VALUE;
    const struct emu_operation copy = {.kind = EMU_COPY,
                                       .copy = {(void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes}};
    struct emu_point point;
    code = emu_queue_push(queue, &copy, &point);
    if (code == CUDA_SUCCESS && (target == EMU_PLACE_PAGEABLE || source == EMU_PLACE_PAGEABLE)) emu_clock_wait(point);
    return code;
}

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = find_queue(stream, &queue);
    if (code != CUDA_SUCCESS || bytes == 0) return code;
    const enum emu_place place = emu_memory_place((uintptr_t)at, bytes, true);
    if (place != EMU_PLACE_DEVICE && place != EMU_PLACE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    const struct emu_operation set = {.kind = EMU_SET, .set = {(void *)(uintptr_t)at, bytes, value}};
    struct emu_point point;
    return emu_queue_push(queue, &set, &point);
}
