/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that both versions have, by different names. */
#include "device/emu/runtime/version.h"

RT_PASS(RT_NEW(cudaMemPrefetchAsync),
        (const void *address, size_t bytes, struct cudaMemLocation location, unsigned flags, cudaStream_t stream),
        cuMemPrefetchAsync_v2, (address, bytes, location, flags, stream))
RT_PASS(RT_NEW(cudaMemAdvise),
        (const void *address, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation location),
        cuMemAdvise_v2, (address, bytes, advice, location))
RT_PASS(RT_NEWEST(cudaStreamGetCaptureInfo),
        (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
         const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count),
        cuStreamGetCaptureInfo_v3, (stream, status, id, graph, nodes, edges, count))
RT_PASS(RT_NEW(cudaStreamUpdateCaptureDependencies),
        (cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t count, unsigned flags),
        cuStreamUpdateCaptureDependencies_v2, (stream, nodes, edges, count, flags))
RT_PASS(RT_NEW(cudaGraphGetEdges),
        (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edges, size_t *count),
        cuGraphGetEdges_v2, (graph, from, to, edges, count))
RT_PASS(RT_NEW(cudaGraphNodeGetDependencies),
        (cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count),
        cuGraphNodeGetDependencies_v2, (node, nodes, edges, count))
RT_PASS(RT_NEW(cudaGraphNodeGetDependentNodes),
        (cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count),
        cuGraphNodeGetDependentNodes_v2, (node, nodes, edges, count))
RT_PASS(RT_NEW(cudaGraphAddDependencies),
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
         size_t count),
        cuGraphAddDependencies_v2, (graph, from, to, edges, count))
RT_PASS(RT_NEW(cudaGraphRemoveDependencies),
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
         size_t count),
        cuGraphRemoveDependencies_v2, (graph, from, to, edges, count))
RT_PASS(RT_NEW(cudaGraphAddNode),
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after, const cudaGraphEdgeData *edges,
         size_t count, struct cudaGraphNodeParams *what),
        cuGraphAddNode_v2, (node, graph, after, edges, count, what))

/* ---- device properties ------------------------------------------------------------------------------------------ */

int rt_attribute(int attribute, int device) {
    int value = 0;
    return RT_CALL(cuDeviceGetAttribute, (&value, (enum cudaDeviceAttr)attribute, device)) == cudaSuccess ? value : 0;
}

cudaError_t rt_identify(int device, char *name, size_t room, cudaUUID_t *uuid, size_t *bytes) {
    cudaError_t code = RT_CALL(cuDeviceGetName, (name, (int)room, device));
    if (code == cudaSuccess) code = RT_CALL(cuDeviceTotalMem_v2, (bytes, device));
    if (code == cudaSuccess) (void)RT_CALL(cuDeviceGetUuid_v2, (uuid, device)); /* all zero where it has none */
    return code;
}
