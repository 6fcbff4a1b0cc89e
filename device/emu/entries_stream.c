/* SPDX-License-Identifier: Apache-2.0 */
/* The library's entries for streams, events and the work that is queued on them. */
#include <float.h>

#include "device/emu/capture.h"
#include "device/emu/clock.h"
#include "device/emu/cost.h"
#include "device/emu/enter.h"
#include "device/emu/event.h"
#include "device/emu/machine.h"
#include "device/emu/memory.h"
#include "device/emu/settings.h"
#include "device/emu/stream.h"
#include "device/emu/submit.h"

/* ---- streams ---------------------------------------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuStreamCreate, &context);
    if (code != CUDA_SUCCESS) return code;
    if (stream == NULL || flags > CU_STREAM_NON_BLOCKING) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(emu_stream_create(context, flags, 0, stream));
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    const CUresult code = emu_enter(EMU_AT_cuStreamDestroy_v2, NULL);
    return code != CUDA_SUCCESS ? code : emu_leave(emu_stream_destroy(stream));
}

CUresult cuStreamSynchronize(CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuStreamSynchronize, stream, &queue);
    return code != CUDA_SUCCESS ? code : emu_leave(emu_stream_wait(queue));
}

CUresult cuStreamQuery(CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuStreamQuery, stream, &queue);
    return code != CUDA_SUCCESS ? code : emu_leave(emu_stream_query(queue));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuStreamWaitEvent, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_event_alive(event)) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (flags == CU_EVENT_WAIT_EXTERNAL && queue->capture != NULL)
        return emu_leave(emu_capture_event_node(queue, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT));
    if (flags != CU_EVENT_WAIT_DEFAULT) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(emu_submit_wait(queue, event));
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    enum { KNOWN = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING };
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuEventCreate, &context);
    if (code != CUDA_SUCCESS) return code;
    if (flags & CU_EVENT_INTERPROCESS) return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (event == NULL || (flags & ~(unsigned)KNOWN) != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(emu_event_create(context, flags, event));
}

CUresult cuEventDestroy_v2(CUevent event) {
    const CUresult code = emu_enter(EMU_AT_cuEventDestroy_v2, NULL);
    return code != CUDA_SUCCESS ? code : emu_leave(emu_event_destroy(event));
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuEventRecord, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(emu_event_alive(event) ? emu_submit_record(queue, event) : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuEventQuery(CUevent event) {
    const CUresult code = emu_enter_event(EMU_AT_cuEventQuery, event);
    return code != CUDA_SUCCESS ? code : emu_leave(emu_event_query(event));
}

CUresult cuEventSynchronize(CUevent event) {
    const CUresult code = emu_enter_event(EMU_AT_cuEventSynchronize, event);
    return code != CUDA_SUCCESS ? code : emu_leave(emu_event_wait(event));
}

CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
    const CUresult code = emu_enter_event(EMU_AT_cuEventElapsedTime, begin);
    if (code != CUDA_SUCCESS) return code;
    if (ms == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!emu_event_alive(end)) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    return emu_leave(emu_event_elapsed(begin, end, ms));
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuLaunchHostFunc, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (function == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    const struct emu_operation call = {.kind = EMU_FUNCTION,
                                       .name = "host function",
                                       .alone_ns = emu_settings()->profile.host_function_ns,
                                       .function = {.run = function, .argument = argument}};
    struct emu_point point;
    return emu_leave(emu_queue_push(queue, &call, &point));
}

static bool is_amount(double value) { return value >= 0 && value <= DBL_MAX; }

static bool is_work(const struct weir_emu_work *work) {
    return work != NULL && work->size == sizeof *work && (work->access_count == 0 || work->accesses != NULL) &&
           is_amount(work->flops) && is_amount(work->bytes) && is_amount(work->alone_ns);
}

static double work_ns(const struct weir_emu_work *work) {
    return work->alone_ns > 0 ? work->alone_ns : emu_cost_kernel(work->flops, work->bytes);
}

CUresult weirEmuWorkTime(const struct weir_emu_work *work, double *ns) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (!is_work(work) || ns == NULL) return CUDA_ERROR_INVALID_VALUE;
    *ns = work_ns(work);
    return CUDA_SUCCESS;
}

/* Work that costs neither arithmetic nor memory (a transfer that something else makes) occupies no engine. */
CUresult weirEmuSubmit(const struct weir_emu_work *work, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuLaunchHostFunc, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (!is_work(work)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    const bool costs = (work->flops > 0 || work->bytes > 0) && work->alone_ns == 0;
    const struct emu_operation kernel = {.kind = EMU_KERNEL,
                                         .engine = costs ? EMU_ENGINE_COMPUTE : EMU_ENGINE_NONE,
                                         .name = work->name,
                                         .alone_ns = work_ns(work),
                                         .accesses = work->accesses,
                                         .access_count = work->access_count,
                                         .described = work->accesses != NULL,
                                         .function = {.run = work->function, .argument = work->argument}};
    struct emu_point point;
    return emu_leave(emu_queue_push(queue, &kernel, &point));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuMemcpyAsync, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_rows rows = {(uintptr_t)to, (uintptr_t)from, bytes, 1, bytes, bytes};
    return emu_leave(emu_submit_copy(queue, &rows, EMU_COPY_ANY));
}

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuMemsetD8Async, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(emu_submit_set(queue, (uintptr_t)at, value, 1, bytes, 1, bytes));
}
