/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA 12's runtime: its older types of entries, and those that CUDA 13 no longer has. */
#include "device/emu/runtime/version.h"

const int rt_version = 12090;

cudaError_t cudaGetDeviceProperties_v2(struct rt_device_prop_12 *properties, int device) {
    cudaError_t code = rt_begin_with_device(device);
    if (code == cudaSuccess && properties == NULL) code = cudaErrorInvalidValue;
    if (code != cudaSuccess) return rt_end(code);
    *properties = (struct rt_device_prop_12){.name = ""};
    RT_PROPERTY_LIST(RT_FILL)
    RT_PROPERTY_12_LIST(RT_FILL)
    return rt_end(
        rt_identify(device, properties->name, sizeof properties->name, &properties->uuid, &properties->totalGlobalMem));
}

cudaError_t cudaThreadExit(void) { return cudaDeviceReset(); }
cudaError_t cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }

cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end) {
    return cudaEventElapsedTime(ms, start, end);
}

/* ---- managed memory: a device, or the host as cudaCpuDeviceId --------------------------------------------------- */

static struct cudaMemLocation location_of(int device) {
    const bool host = device == cudaCpuDeviceId;
    return (struct cudaMemLocation){.type = host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
                                    .id = host ? 0 : device};
}

cudaError_t cudaMemPrefetchAsync(const void *address, size_t bytes, int device, cudaStream_t stream) {
    return cudaMemPrefetchAsync_v2(address, bytes, location_of(device), 0, stream);
}
cudaError_t cudaMemPrefetchAsync_ptsz(const void *address, size_t bytes, int device, cudaStream_t stream) {
    return cudaMemPrefetchAsync_v2(address, bytes, location_of(device), 0, rt_per_thread(stream));
}
cudaError_t cudaMemPrefetchAsync_v2_ptsz(const void *address, size_t bytes, struct cudaMemLocation location,
                                         unsigned flags, cudaStream_t stream) {
    return cudaMemPrefetchAsync_v2(address, bytes, location, flags, rt_per_thread(stream));
}
cudaError_t cudaMemAdvise(const void *address, size_t bytes, enum cudaMemoryAdvise advice, int device) {
    return cudaMemAdvise_v2(address, bytes, advice, location_of(device));
}

/* ---- captures and graphs without edge data ---------------------------------------------------------------------- */

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id) {
    return cudaStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
                                        size_t *count) {
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, NULL, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes, size_t count,
                                                unsigned flags) {
    return cudaStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, count, flags);
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
    return cudaGraphGetEdges_v2(graph, from, to, NULL, count);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count) {
    return cudaGraphNodeGetDependencies_v2(node, nodes, NULL, count);
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count) {
    return cudaGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     size_t count) {
    return cudaGraphAddDependencies_v2(graph, from, to, NULL, count);
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                        size_t count) {
    return cudaGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                             struct cudaGraphNodeParams *what) {
    return cudaGraphAddNode_v2(node, graph, after, NULL, count, what);
}

/* ---- with the per-thread default stream ------------------------------------------------------------------------- */

cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id) {
    return cudaStreamGetCaptureInfo(rt_per_thread(stream), status, id);
}
cudaError_t cudaStreamGetCaptureInfo_v2_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                             unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
                                             size_t *count) {
    return cudaStreamGetCaptureInfo_v2(rt_per_thread(stream), status, id, graph, nodes, count);
}
cudaError_t cudaStreamGetCaptureInfo_v3_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                             unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
                                             const cudaGraphEdgeData **edges, size_t *count) {
    return cudaStreamGetCaptureInfo_v3(rt_per_thread(stream), status, id, graph, nodes, edges, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t *nodes, size_t count,
                                                     unsigned flags) {
    return cudaStreamUpdateCaptureDependencies(rt_per_thread(stream), nodes, count, flags);
}
cudaError_t cudaStreamUpdateCaptureDependencies_v2_ptsz(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                        const cudaGraphEdgeData *edges, size_t count, unsigned flags) {
    return cudaStreamUpdateCaptureDependencies_v2(rt_per_thread(stream), nodes, edges, count, flags);
}
