/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA 13's runtime. */
#include "device/emu/runtime/version.h"

const int rt_version = 13000;

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    cudaError_t code = rt_begin_with_device(device);
    if (code == cudaSuccess && properties == NULL) code = cudaErrorInvalidValue;
    if (code != cudaSuccess) return rt_end(code);
    *properties = (struct cudaDeviceProp){.name = ""};
    RT_PROPERTY_LIST(RT_FILL)
    RT_PROPERTY_13_LIST(RT_FILL)
    return rt_end(
        rt_identify(device, properties->name, sizeof properties->name, &properties->uuid, &properties->totalGlobalMem));
}

cudaError_t cudaMemPrefetchAsync_ptsz(const void *address, size_t bytes, struct cudaMemLocation location,
                                      unsigned flags, cudaStream_t stream) {
    return cudaMemPrefetchAsync(address, bytes, location, flags, rt_per_thread(stream));
}
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
                                          const cudaGraphEdgeData **edges, size_t *count) {
    return cudaStreamGetCaptureInfo(rt_per_thread(stream), status, id, graph, nodes, edges, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                     const cudaGraphEdgeData *edges, size_t count, unsigned flags) {
    return cudaStreamUpdateCaptureDependencies(rt_per_thread(stream), nodes, edges, count, flags);
}
