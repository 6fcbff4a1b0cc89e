/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and host functions. */
#include "device/emu/runtime/rt.h"

/* ---- streams ---------------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || stream == NULL) return rt_end(code != cudaSuccess ? code : cudaErrorInvalidValue);
    return rt_end(RT_CALL(cuStreamCreateWithPriority, (stream, flags, priority)));
}

RT_PASS(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), cuStreamCreate, (stream, flags))
RT_PASS(cudaStreamCreate, (cudaStream_t * stream), cuStreamCreate, (stream, cudaStreamDefault))
RT_PASS(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy_v2, (stream))
RT_PASS(cudaStreamGetPriority, (cudaStream_t stream, int *priority), cuStreamGetPriority, (stream, priority))
RT_PASS(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags), cuStreamGetFlags, (stream, flags))
RT_PASS(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), cuStreamGetId, (stream, id))
RT_PASS(cudaStreamGetDevice, (cudaStream_t stream, int *device), cuStreamGetDevice, (stream, device))
RT_PASS(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags), cuStreamWaitEvent,
        (stream, event, flags))
RT_PASS(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize, (stream))
RT_PASS(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t callback, void *argument, unsigned flags),
        cuStreamAddCallback, (stream, callback, argument, flags))
RT_PASS(cudaStreamAttachMemAsync, (cudaStream_t stream, void *address, size_t bytes, unsigned flags),
        cuStreamAttachMemAsync, (stream, address, bytes, flags))
RT_PASS(cudaStreamCopyAttributes, (cudaStream_t to, cudaStream_t from), cuStreamCopyAttributes, (to, from))
RT_PASS(cudaStreamGetAttribute, (cudaStream_t stream, cudaLaunchAttributeID id, cudaLaunchAttributeValue *value),
        cuStreamGetAttribute, (stream, id, value))
RT_PASS(cudaStreamSetAttribute, (cudaStream_t stream, cudaLaunchAttributeID id, const cudaLaunchAttributeValue *value),
        cuStreamSetAttribute, (stream, id, value))
RT_PASS(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *argument), cuLaunchHostFunc,
        (stream, function, argument))

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    const cudaError_t begun = rt_begin();
    return rt_end_query(begun == cudaSuccess ? RT_CALL(cuStreamQuery, (stream)) : begun);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

RT_PASS(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), cuEventCreate, (event, flags))
RT_PASS(cudaEventCreate, (cudaEvent_t * event), cuEventCreate, (event, cudaEventDefault))
RT_PASS(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord, (event, stream))
RT_PASS(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize, (event))
RT_PASS(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy_v2, (event))

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    const cudaError_t begun = rt_begin();
    if (begun != cudaSuccess) return rt_end(begun);
    return rt_end(flags == 0 ? RT_CALL(cuEventRecord, (event, stream))
                             : RT_CALL(cuEventRecordWithFlags, (event, stream, flags)));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    const cudaError_t begun = rt_begin();
    return rt_end_query(begun == cudaSuccess ? RT_CALL(cuEventQuery, (event)) : begun);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    const cudaError_t begun = rt_begin();
    return rt_end_query(begun == cudaSuccess ? RT_CALL(cuEventElapsedTime, (ms, start, end)) : begun);
}

/* ---- captures --------------------------------------------------------------------------------------------------- */

RT_PASS(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), cuStreamBeginCapture_v2,
        (stream, mode))
RT_PASS(cudaStreamBeginCaptureToGraph,
        (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
         size_t count, enum cudaStreamCaptureMode mode),
        cuStreamBeginCaptureToGraph, (stream, graph, dependencies, edges, count, mode))
RT_PASS(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode), cuThreadExchangeStreamCaptureMode,
        (mode))
RT_PASS(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), cuStreamEndCapture, (stream, graph))
RT_PASS(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status), cuStreamIsCapturing,
        (stream, status))

/* ---- with the per-thread default stream ------------------------------------------------------------------------- */

cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int *priority) {
    return cudaStreamGetPriority(rt_per_thread(stream), priority);
}
cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned *flags) {
    return cudaStreamGetFlags(rt_per_thread(stream), flags);
}
cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long *id) {
    return cudaStreamGetId(rt_per_thread(stream), id);
}
cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int *device) {
    return cudaStreamGetDevice(rt_per_thread(stream), device);
}
cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return cudaStreamWaitEvent(rt_per_thread(stream), event, flags);
}
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) { return cudaStreamSynchronize(rt_per_thread(stream)); }
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) { return cudaStreamQuery(rt_per_thread(stream)); }
cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback, void *argument,
                                       unsigned flags) {
    return cudaStreamAddCallback(rt_per_thread(stream), callback, argument, flags);
}
cudaError_t cudaStreamAttachMemAsync_ptsz(cudaStream_t stream, void *address, size_t bytes, unsigned flags) {
    return cudaStreamAttachMemAsync(rt_per_thread(stream), address, bytes, flags);
}
cudaError_t cudaStreamCopyAttributes_ptsz(cudaStream_t to, cudaStream_t from) {
    return cudaStreamCopyAttributes(rt_per_thread(to), rt_per_thread(from));
}
cudaError_t cudaStreamGetAttribute_ptsz(cudaStream_t stream, cudaLaunchAttributeID id,
                                        cudaLaunchAttributeValue *value) {
    return cudaStreamGetAttribute(rt_per_thread(stream), id, value);
}
cudaError_t cudaStreamSetAttribute_ptsz(cudaStream_t stream, cudaLaunchAttributeID id,
                                        const cudaLaunchAttributeValue *value) {
    return cudaStreamSetAttribute(rt_per_thread(stream), id, value);
}
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void *argument) {
    return cudaLaunchHostFunc(rt_per_thread(stream), function, argument);
}
cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
    return cudaEventRecord(event, rt_per_thread(stream));
}
cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    return cudaEventRecordWithFlags(event, rt_per_thread(stream), flags);
}
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    return cudaStreamBeginCapture(rt_per_thread(stream), mode);
}
cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t stream, cudaGraph_t graph,
                                               const cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
                                               size_t count, enum cudaStreamCaptureMode mode) {
    return cudaStreamBeginCaptureToGraph(rt_per_thread(stream), graph, dependencies, edges, count, mode);
}
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph) {
    return cudaStreamEndCapture(rt_per_thread(stream), graph);
}
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    return cudaStreamIsCapturing(rt_per_thread(stream), status);
}
