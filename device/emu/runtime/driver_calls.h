/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's entries that the runtime calls, in the runtime's types: handles, values and layouts are the same on both
 * sides (a test compares them), device addresses are pointers here. A driver that lacks one answers
 * cudaErrorNotSupported in its place. */
#ifndef WEIR_EMU_RUNTIME_DRIVER_CALLS_H
#define WEIR_EMU_RUNTIME_DRIVER_CALLS_H

#include "device/emu/runtime/cudart_abi.h"

typedef struct CUctx_st *rt_context;
typedef void (*rt_callback)(cudaStream_t stream, cudaError_t status, void *argument);

/* CUpointer_attribute */
enum rt_pointer_attribute {
    RT_POINTER_CONTEXT = 1,
    RT_POINTER_MEMORY_TYPE = 2,
    RT_POINTER_DEVICE = 3,
    RT_POINTER_HOST = 4,
    RT_POINTER_IS_MANAGED = 8,
    RT_POINTER_ORDINAL = 9,
};

/* CUmemorytype */
enum rt_memory_type { RT_MEMORY_HOST = 1, RT_MEMORY_DEVICE = 2, RT_MEMORY_UNIFIED = 4 };

/* CUDA_MEMCPY2D; a side of the type RT_MEMORY_UNIFIED is in `device`, whatever it is. */
struct rt_copy_2d_side {
    size_t x_bytes, y;
    enum rt_memory_type type;
    void *host, *device, *array;
    size_t pitch;
};
struct rt_copy_2d {
    struct rt_copy_2d_side from, to;
    size_t width_bytes, height;
};

/* CUDA_MEMCPY3D */
struct rt_copy_3d_side {
    size_t x_bytes, y, z, level;
    enum rt_memory_type type;
    void *host, *device, *array, *reserved;
    size_t pitch, height;
};
struct rt_copy_3d {
    struct rt_copy_3d_side from, to;
    size_t width_bytes, height, depth;
};

/* CUlaunchConfig */
struct rt_launch_config {
    dim3 grid, block;
    unsigned shared_bytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attributes;
    unsigned attribute_count;
};

/* CUDA_KERNEL_NODE_PARAMS */
struct rt_kernel_node {
    cudaFunction_t function;
    dim3 grid, block;
    unsigned shared_bytes;
    void **arguments, **extra;
    cudaKernel_t kernel;
    rt_context context;
};

/* X(symbol, types) */
#define RT_DRIVER_LIST(X)                                                                                              \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDriverGetVersion, (int *))                                                                                     \
    X(cuGetProcAddress_v2, (const char *, void **, int, unsigned long long, enum cudaDriverEntryPointQueryResult *))   \
    X(cuDeviceGetCount, (int *))                                                                                       \
    X(cuDeviceGetName, (char *, int, int))                                                                             \
    X(cuDeviceTotalMem_v2, (size_t *, int))                                                                            \
    X(cuDeviceGetAttribute, (int *, enum cudaDeviceAttr, int))                                                         \
    X(cuDeviceGetPCIBusId, (char *, int, int))                                                                         \
    X(cuDeviceGetByPCIBusId, (int *, const char *))                                                                    \
    X(cuDeviceGetUuid_v2, (cudaUUID_t *, int))                                                                         \
    X(cuDeviceCanAccessPeer, (int *, int, int))                                                                        \
    X(cuDeviceGetP2PAttribute, (int *, enum cudaDeviceP2PAttr, int, int))                                              \
    X(cuDevicePrimaryCtxRetain, (rt_context *, int))                                                                   \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                             \
    X(cuDevicePrimaryCtxReset_v2, (int))                                                                               \
    X(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))                                                            \
    X(cuDevicePrimaryCtxSetFlags_v2, (int, unsigned))                                                                  \
    X(cuCtxGetCurrent, (rt_context *))                                                                                 \
    X(cuCtxSetCurrent, (rt_context))                                                                                   \
    X(cuCtxGetDevice, (int *))                                                                                         \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuCtxGetLimit, (size_t *, enum cudaLimit))                                                                       \
    X(cuCtxSetLimit, (enum cudaLimit, size_t))                                                                         \
    X(cuCtxGetCacheConfig, (enum cudaFuncCache *))                                                                     \
    X(cuCtxSetCacheConfig, (enum cudaFuncCache))                                                                       \
    X(cuCtxGetStreamPriorityRange, (int *, int *))                                                                     \
    X(cuCtxEnablePeerAccess, (rt_context, unsigned))                                                                   \
    X(cuCtxDisablePeerAccess, (rt_context))                                                                            \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                           \
    X(cuMemAlloc_v2, (void **, size_t))                                                                                \
    X(cuMemFree_v2, (const void *))                                                                                    \
    X(cuMemAllocPitch_v2, (void **, size_t *, size_t, size_t, unsigned))                                               \
    X(cuMemAllocManaged, (void **, size_t, unsigned))                                                                  \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                     \
    X(cuMemFreeHost, (void *))                                                                                         \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                                \
    X(cuMemHostUnregister, (void *))                                                                                   \
    X(cuMemHostGetDevicePointer_v2, (void **, void *, unsigned))                                                       \
    X(cuMemHostGetFlags, (unsigned *, void *))                                                                         \
    X(cuPointerGetAttribute, (void *, enum rt_pointer_attribute, const void *))                                        \
    X(cuPointerGetAttributes, (unsigned, enum rt_pointer_attribute *, void **, const void *))                          \
    X(cuMemRangeGetAttribute, (void *, size_t, enum cudaMemRangeAttribute, const void *, size_t))                      \
    X(cuMemRangeGetAttributes, (void **, size_t *, enum cudaMemRangeAttribute *, size_t, const void *, size_t))        \
    X(cuMemPrefetchAsync_v2, (const void *, size_t, struct cudaMemLocation, unsigned, cudaStream_t))                   \
    X(cuMemAdvise_v2, (const void *, size_t, enum cudaMemoryAdvise, struct cudaMemLocation))                           \
    X(cuMemAllocAsync, (void **, size_t, cudaStream_t))                                                                \
    X(cuMemFreeAsync, (const void *, cudaStream_t))                                                                    \
    X(cuMemAllocFromPoolAsync, (void **, size_t, cudaMemPool_t, cudaStream_t))                                         \
    X(cuDeviceGetDefaultMemPool, (cudaMemPool_t *, int))                                                               \
    X(cuDeviceGetMemPool, (cudaMemPool_t *, int))                                                                      \
    X(cuDeviceSetMemPool, (int, cudaMemPool_t))                                                                        \
    X(cuMemPoolTrimTo, (cudaMemPool_t, size_t))                                                                        \
    X(cuMemPoolSetAttribute, (cudaMemPool_t, enum cudaMemPoolAttr, void *))                                            \
    X(cuMemPoolGetAttribute, (cudaMemPool_t, enum cudaMemPoolAttr, void *))                                            \
    X(cuMemPoolSetAccess, (cudaMemPool_t, const struct cudaMemAccessDesc *, size_t))                                   \
    X(cuMemPoolGetAccess, (enum cudaMemAccessFlags *, cudaMemPool_t, struct cudaMemLocation *))                        \
    X(cuMemPoolCreate, (cudaMemPool_t *, const struct cudaMemPoolProps *))                                             \
    X(cuMemPoolDestroy, (cudaMemPool_t))                                                                               \
    X(cuMemPoolExportToShareableHandle, (void *, cudaMemPool_t, enum cudaMemAllocationHandleType, unsigned long long)) \
    X(cuMemPoolImportFromShareableHandle,                                                                              \
      (cudaMemPool_t *, void *, enum cudaMemAllocationHandleType, unsigned long long))                                 \
    X(cuMemPoolExportPointer, (struct cudaMemPoolPtrExportData *, const void *))                                       \
    X(cuMemPoolImportPointer, (void **, cudaMemPool_t, struct cudaMemPoolPtrExportData *))                             \
    X(cuIpcGetEventHandle, (cudaIpcEventHandle_t *, cudaEvent_t))                                                      \
    X(cuIpcOpenEventHandle, (cudaEvent_t *, cudaIpcEventHandle_t))                                                     \
    X(cuIpcGetMemHandle, (cudaIpcMemHandle_t *, const void *))                                                         \
    X(cuIpcOpenMemHandle_v2, (void **, cudaIpcMemHandle_t, unsigned))                                                  \
    X(cuIpcCloseMemHandle, (const void *))                                                                             \
    X(cuMemcpy, (const void *, const void *, size_t))                                                                  \
    X(cuMemcpyAsync, (const void *, const void *, size_t, cudaStream_t))                                               \
    X(cuMemcpyPeer, (const void *, rt_context, const void *, rt_context, size_t))                                      \
    X(cuMemcpyPeerAsync, (const void *, rt_context, const void *, rt_context, size_t, cudaStream_t))                   \
    X(cuMemcpy2DUnaligned_v2, (const struct rt_copy_2d *))                                                             \
    X(cuMemcpy2DAsync_v2, (const struct rt_copy_2d *, cudaStream_t))                                                   \
    X(cuMemsetD8_v2, (const void *, unsigned char, size_t))                                                            \
    X(cuMemsetD8Async, (const void *, unsigned char, size_t, cudaStream_t))                                            \
    X(cuMemsetD2D8_v2, (const void *, size_t, unsigned char, size_t, size_t))                                          \
    X(cuMemsetD2D8Async, (const void *, size_t, unsigned char, size_t, size_t, cudaStream_t))                          \
    X(cuStreamCreate, (cudaStream_t *, unsigned))                                                                      \
    X(cuStreamCreateWithPriority, (cudaStream_t *, unsigned, int))                                                     \
    X(cuStreamDestroy_v2, (cudaStream_t))                                                                              \
    X(cuStreamGetPriority, (cudaStream_t, int *))                                                                      \
    X(cuStreamGetFlags, (cudaStream_t, unsigned *))                                                                    \
    X(cuStreamGetId, (cudaStream_t, unsigned long long *))                                                             \
    X(cuStreamGetDevice, (cudaStream_t, int *))                                                                        \
    X(cuStreamWaitEvent, (cudaStream_t, cudaEvent_t, unsigned))                                                        \
    X(cuStreamAddCallback, (cudaStream_t, rt_callback, void *, unsigned))                                              \
    X(cuStreamSynchronize, (cudaStream_t))                                                                             \
    X(cuStreamQuery, (cudaStream_t))                                                                                   \
    X(cuStreamAttachMemAsync, (cudaStream_t, const void *, size_t, unsigned))                                          \
    X(cuStreamCopyAttributes, (cudaStream_t, cudaStream_t))                                                            \
    X(cuStreamGetAttribute, (cudaStream_t, cudaLaunchAttributeID, cudaLaunchAttributeValue *))                         \
    X(cuStreamSetAttribute, (cudaStream_t, cudaLaunchAttributeID, const cudaLaunchAttributeValue *))                   \
    X(cuLaunchHostFunc, (cudaStream_t, cudaHostFn_t, void *))                                                          \
    X(cuEventCreate, (cudaEvent_t *, unsigned))                                                                        \
    X(cuEventRecord, (cudaEvent_t, cudaStream_t))                                                                      \
    X(cuEventRecordWithFlags, (cudaEvent_t, cudaStream_t, unsigned))                                                   \
    X(cuEventQuery, (cudaEvent_t))                                                                                     \
    X(cuEventSynchronize, (cudaEvent_t))                                                                               \
    X(cuEventDestroy_v2, (cudaEvent_t))                                                                                \
    X(cuEventElapsedTime, (float *, cudaEvent_t, cudaEvent_t))                                                         \
    X(cuStreamBeginCapture_v2, (cudaStream_t, enum cudaStreamCaptureMode))                                             \
    X(cuStreamBeginCaptureToGraph, (cudaStream_t, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphEdgeData *,     \
                                    size_t, enum cudaStreamCaptureMode))                                               \
    X(cuThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode *))                                               \
    X(cuStreamEndCapture, (cudaStream_t, cudaGraph_t *))                                                               \
    X(cuStreamIsCapturing, (cudaStream_t, enum cudaStreamCaptureStatus *))                                             \
    X(cuStreamGetCaptureInfo_v3, (cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *,   \
                                  const cudaGraphNode_t **, const cudaGraphEdgeData **, size_t *))                     \
    X(cuStreamUpdateCaptureDependencies_v2,                                                                            \
      (cudaStream_t, cudaGraphNode_t *, const cudaGraphEdgeData *, size_t, unsigned))                                  \
    X(cuLaunchKernelEx, (const struct rt_launch_config *, cudaFunction_t, void **, void **))                           \
    X(cuLibraryLoadData, (cudaLibrary_t *, const void *, enum cudaJitOption *, void **, unsigned,                      \
                          enum cudaLibraryOption *, void **, unsigned))                                                \
    X(cuLibraryLoadFromFile, (cudaLibrary_t *, const char *, enum cudaJitOption *, void **, unsigned,                  \
                              enum cudaLibraryOption *, void **, unsigned))                                            \
    X(cuLibraryUnload, (cudaLibrary_t))                                                                                \
    X(cuLibraryGetKernel, (cudaKernel_t *, cudaLibrary_t, const char *))                                               \
    X(cuLibraryGetGlobal, (void **, size_t *, cudaLibrary_t, const char *))                                            \
    X(cuLibraryGetManaged, (void **, size_t *, cudaLibrary_t, const char *))                                           \
    X(cuLibraryGetUnifiedFunction, (void **, cudaLibrary_t, const char *))                                             \
    X(cuLibraryGetKernelCount, (unsigned *, cudaLibrary_t))                                                            \
    X(cuLibraryEnumerateKernels, (cudaKernel_t *, unsigned, cudaLibrary_t))                                            \
    X(cuKernelGetFunction, (cudaFunction_t *, cudaKernel_t))                                                           \
    X(cuKernelGetName, (const char **, cudaKernel_t))                                                                  \
    X(cuKernelGetAttribute, (int *, int, cudaKernel_t, int))                                                           \
    X(cuKernelSetAttribute, (int, int, cudaKernel_t, int))                                                             \
    X(cuFuncGetAttribute, (int *, int, cudaFunction_t))                                                                \
    X(cuFuncSetAttribute, (cudaFunction_t, int, int))                                                                  \
    X(cuFuncSetCacheConfig, (cudaFunction_t, enum cudaFuncCache))                                                      \
    X(cuFuncGetName, (const char **, cudaFunction_t))                                                                  \
    X(cuFuncGetParamInfo, (cudaFunction_t, size_t, size_t *, size_t *))                                                \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *, cudaFunction_t, int, size_t, unsigned))            \
    X(cuOccupancyAvailableDynamicSMemPerBlock, (size_t *, cudaFunction_t, int, int))                                   \
    X(cuOccupancyMaxPotentialClusterSize, (int *, cudaFunction_t, const struct rt_launch_config *))                    \
    X(cuOccupancyMaxActiveClusters, (int *, cudaFunction_t, const struct rt_launch_config *))                          \
    X(cuGraphCreate, (cudaGraph_t *, unsigned))                                                                        \
    X(cuGraphDestroy, (cudaGraph_t))                                                                                   \
    X(cuGraphClone, (cudaGraph_t *, cudaGraph_t))                                                                      \
    X(cuGraphAddKernelNode_v2,                                                                                         \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct rt_kernel_node *))                \
    X(cuGraphAddMemcpyNode,                                                                                            \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct rt_copy_3d *, rt_context))        \
    X(cuGraphAddMemsetNode,                                                                                            \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaMemsetParams *, rt_context))  \
    X(cuGraphAddHostNode,                                                                                              \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaHostNodeParams *))            \
    X(cuGraphAddChildGraphNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaGraph_t))        \
    X(cuGraphAddEmptyNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t))                          \
    X(cuGraphAddEventRecordNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaEvent_t))       \
    X(cuGraphAddEventWaitNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaEvent_t))         \
    X(cuGraphAddMemAllocNode,                                                                                          \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, struct cudaMemAllocNodeParams *))              \
    X(cuGraphAddMemFreeNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const void *))          \
    X(cuGraphChildGraphNodeGetGraph, (cudaGraphNode_t, cudaGraph_t *))                                                 \
    X(cuGraphDestroyNode, (cudaGraphNode_t))                                                                           \
    X(cuGraphNodeGetType, (cudaGraphNode_t, enum cudaGraphNodeType *))                                                 \
    X(cuGraphNodeFindInClone, (cudaGraphNode_t *, cudaGraphNode_t, cudaGraph_t))                                       \
    X(cuGraphGetNodes, (cudaGraph_t, cudaGraphNode_t *, size_t *))                                                     \
    X(cuGraphGetRootNodes, (cudaGraph_t, cudaGraphNode_t *, size_t *))                                                 \
    X(cuGraphGetEdges_v2, (cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))          \
    X(cuGraphNodeGetDependencies_v2, (cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))              \
    X(cuGraphNodeGetDependentNodes_v2, (cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))            \
    X(cuGraphAddDependencies_v2,                                                                                       \
      (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, const cudaGraphEdgeData *, size_t))              \
    X(cuGraphRemoveDependencies_v2,                                                                                    \
      (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, const cudaGraphEdgeData *, size_t))              \
    X(cuGraphAddNode_v2, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphEdgeData *, size_t,  \
                          struct cudaGraphNodeParams *))                                                               \
    X(cuGraphInstantiateWithFlags, (cudaGraphExec_t *, cudaGraph_t, unsigned long long))                               \
    X(cuGraphInstantiateWithParams, (cudaGraphExec_t *, cudaGraph_t, cudaGraphInstantiateParams *))                    \
    X(cuGraphExecGetFlags, (cudaGraphExec_t, unsigned long long *))                                                    \
    X(cuGraphExecUpdate_v2, (cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo *))                           \
    X(cuGraphUpload, (cudaGraphExec_t, cudaStream_t))                                                                  \
    X(cuGraphLaunch, (cudaGraphExec_t, cudaStream_t))                                                                  \
    X(cuGraphExecDestroy, (cudaGraphExec_t))                                                                           \
    X(cuGraphDebugDotPrint, (cudaGraph_t, const char *, unsigned))                                                     \
    X(cuGraphRetainUserObject, (cudaGraph_t, cudaUserObject_t, unsigned, unsigned))                                    \
    X(cuGraphReleaseUserObject, (cudaGraph_t, cudaUserObject_t, unsigned))                                             \
    X(cuUserObjectCreate, (cudaUserObject_t *, void *, cudaHostFn_t, unsigned, unsigned))                              \
    X(cuUserObjectRetain, (cudaUserObject_t, unsigned))                                                                \
    X(cuUserObjectRelease, (cudaUserObject_t, unsigned))                                                               \
    X(cuDeviceGraphMemTrim, (int))                                                                                     \
    X(cuDeviceGetGraphMemAttribute, (int, enum cudaGraphMemAttributeType, void *))                                     \
    X(cuDeviceSetGraphMemAttribute, (int, enum cudaGraphMemAttributeType, void *))                                     \
    X(cuGraphConditionalHandleCreate, (cudaGraphConditionalHandle *, cudaGraph_t, rt_context, unsigned, unsigned))

struct rt_driver {
#define RT_DRIVER_MEMBER(symbol, parameters) cudaError_t(*symbol) parameters;
    RT_DRIVER_LIST(RT_DRIVER_MEMBER)
#undef RT_DRIVER_MEMBER
};

#endif
