/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: built, instantiated and launched by the driver. */
#include "device/emu/runtime/rt.h"

RT_PASS(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), cuGraphCreate, (graph, flags))
RT_PASS(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy, (graph))
RT_PASS(cudaGraphClone, (cudaGraph_t * copy, cudaGraph_t graph), cuGraphClone, (copy, graph))
RT_PASS(cudaGraphDestroyNode, (cudaGraphNode_t node), cuGraphDestroyNode, (node))
RT_PASS(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *type), cuGraphNodeGetType, (node, type))
RT_PASS(cudaGraphNodeFindInClone, (cudaGraphNode_t * copy, cudaGraphNode_t node, cudaGraph_t graph),
        cuGraphNodeFindInClone, (copy, node, graph))
RT_PASS(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), cuGraphGetNodes,
        (graph, nodes, count))
RT_PASS(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), cuGraphGetRootNodes,
        (graph, nodes, count))
RT_PASS(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned flags), cuGraphDebugDotPrint,
        (graph, path, flags))

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

RT_PASS(cudaGraphAddEmptyNode,
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t after_count),
        cuGraphAddEmptyNode, (node, graph, after, after_count))
RT_PASS(cudaGraphAddHostNode,
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t after_count,
         const struct cudaHostNodeParams *what),
        cuGraphAddHostNode, (node, graph, after, after_count, what))
RT_PASS(cudaGraphAddChildGraphNode,
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t after_count,
         cudaGraph_t child),
        cuGraphAddChildGraphNode, (node, graph, after, after_count, child))
RT_PASS(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *child), cuGraphChildGraphNodeGetGraph,
        (node, child))
RT_PASS(cudaGraphAddEventRecordNode,
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t after_count,
         cudaEvent_t event),
        cuGraphAddEventRecordNode, (node, graph, after, after_count, event))
RT_PASS(cudaGraphAddEventWaitNode,
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t after_count,
         cudaEvent_t event),
        cuGraphAddEventWaitNode, (node, graph, after, after_count, event))
RT_PASS(cudaGraphAddMemAllocNode,
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t after_count,
         struct cudaMemAllocNodeParams *what),
        cuGraphAddMemAllocNode, (node, graph, after, after_count, what))
RT_PASS(cudaGraphAddMemFreeNode,
        (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t after_count, void *address),
        cuGraphAddMemFreeNode, (node, graph, after, after_count, address))

static cudaError_t begin_in(rt_context *context) {
    const cudaError_t code = rt_begin();
    return code == cudaSuccess ? RT_CALL(cuCtxGetCurrent, (context)) : code;
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                   size_t after_count, const struct cudaMemsetParams *what) {
    rt_context context = NULL;
    const cudaError_t code = begin_in(&context);
    return rt_end(code == cudaSuccess ? RT_CALL(cuGraphAddMemsetNode, (node, graph, after, after_count, what, context))
                                      : code);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                     size_t after_count, void *to, const void *from, size_t bytes,
                                     enum cudaMemcpyKind kind) {
    rt_context context = NULL;
    cudaError_t code = begin_in(&context);
    if (code == cudaSuccess && (unsigned)kind > cudaMemcpyDefault) code = cudaErrorInvalidMemcpyDirection;
    if (code != cudaSuccess) return rt_end(code);
    const struct rt_copy_3d what = {
        .from = {.type = RT_MEMORY_UNIFIED, .device = (void *)(size_t)from, .pitch = bytes, .height = 1},
        .to = {.type = RT_MEMORY_UNIFIED, .device = to, .pitch = bytes, .height = 1},
        .width_bytes = bytes,
        .height = 1,
        .depth = 1,
    };
    return rt_end(RT_CALL(cuGraphAddMemcpyNode, (node, graph, after, after_count, &what, context)));
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                   size_t after_count, const struct cudaKernelNodeParams *what) {
    cudaFunction_t function = NULL;
    cudaError_t code = rt_begin();
    if (code == cudaSuccess) code = what != NULL ? rt_find_function(what->func, &function) : cudaErrorInvalidValue;
    if (code != cudaSuccess) return rt_end(code);
    const struct rt_kernel_node same = {
        .function = function,
        .grid = what->gridDim,
        .block = what->blockDim,
        .shared_bytes = what->sharedMemBytes,
        .arguments = what->kernelParams,
        .extra = what->extra,
    };
    return rt_end(RT_CALL(cuGraphAddKernelNode_v2, (node, graph, after, after_count, &same)));
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph, unsigned value,
                                             unsigned flags) {
    rt_context context = NULL;
    const cudaError_t code = begin_in(&context);
    return rt_end(code == cudaSuccess ? RT_CALL(cuGraphConditionalHandleCreate, (handle, graph, context, value, flags))
                                      : code);
}

/* ---- executable graphs ------------------------------------------------------------------------------------------ */

RT_PASS(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiateWithFlags, (executable, graph, flags))
RT_PASS(cudaGraphInstantiate, (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiateWithFlags, (executable, graph, flags))
RT_PASS(cudaGraphInstantiateWithParams,
        (cudaGraphExec_t * executable, cudaGraph_t graph, cudaGraphInstantiateParams *parameters),
        cuGraphInstantiateWithParams, (executable, graph, parameters))
RT_PASS(cudaGraphExecGetFlags, (cudaGraphExec_t executable, unsigned long long *flags), cuGraphExecGetFlags,
        (executable, flags))
RT_PASS(cudaGraphExecUpdate, (cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *result),
        cuGraphExecUpdate_v2, (executable, graph, result))
RT_PASS(cudaGraphUpload, (cudaGraphExec_t executable, cudaStream_t stream), cuGraphUpload, (executable, stream))
RT_PASS(cudaGraphLaunch, (cudaGraphExec_t executable, cudaStream_t stream), cuGraphLaunch, (executable, stream))
RT_PASS(cudaGraphExecDestroy, (cudaGraphExec_t executable), cuGraphExecDestroy, (executable))

/* The only stream in the parameters is that of an upload, which has nothing to do here. */
cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *executable, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *parameters) {
    return cudaGraphInstantiateWithParams(executable, graph, parameters);
}
cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t executable, cudaStream_t stream) {
    return cudaGraphUpload(executable, rt_per_thread(stream));
}
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t executable, cudaStream_t stream) {
    return cudaGraphLaunch(executable, rt_per_thread(stream));
}

/* ---- what graphs hold ------------------------------------------------------------------------------------------- */

RT_PASS(cudaUserObjectCreate,
        (cudaUserObject_t * object, void *address, cudaHostFn_t destroy, unsigned references, unsigned flags),
        cuUserObjectCreate, (object, address, destroy, references, flags))
RT_PASS(cudaUserObjectRetain, (cudaUserObject_t object, unsigned count), cuUserObjectRetain, (object, count))
RT_PASS(cudaUserObjectRelease, (cudaUserObject_t object, unsigned count), cuUserObjectRelease, (object, count))
RT_PASS(cudaGraphRetainUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags),
        cuGraphRetainUserObject, (graph, object, count, flags))
RT_PASS(cudaGraphReleaseUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned count),
        cuGraphReleaseUserObject, (graph, object, count))
RT_PASS_DEVICE(cudaDeviceGraphMemTrim, (int device), device, cuDeviceGraphMemTrim, (device))
RT_PASS_DEVICE(cudaDeviceGetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attribute, void *value),
               device, cuDeviceGetGraphMemAttribute, (device, attribute, value))
RT_PASS_DEVICE(cudaDeviceSetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attribute, void *value),
               device, cuDeviceSetGraphMemAttribute, (device, attribute, value))
