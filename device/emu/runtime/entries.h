/* SPDX-License-Identifier: Apache-2.0 */
/* Every entry of the CUDA runtime that is really there; the rest of what names_13.list and names_12.list name answers
 * cudaErrorNotSupported (refused.c). Types as in CUDA 13's cuda_runtime_api.h, compared with it by a test. */
#ifndef WEIR_EMU_CUDART_ENTRIES_H
#define WEIR_EMU_CUDART_ENTRIES_H

#include "device/emu/runtime/cudart_abi.h"

/* X(name, types): gives a cudaError_t. */
#define RT_DEVICES_LIST(X)                                                                                             \
    X(cudaGetDeviceCount, (int *))                                                                                     \
    X(cudaSetDevice, (int))                                                                                            \
    X(cudaGetDevice, (int *))                                                                                          \
    X(cudaInitDevice, (int, unsigned, unsigned))                                                                       \
    X(cudaSetValidDevices, (int *, int))                                                                               \
    X(cudaChooseDevice, (int *, const struct cudaDeviceProp *))                                                        \
    X(cudaSetDeviceFlags, (unsigned))                                                                                  \
    X(cudaGetDeviceFlags, (unsigned *))                                                                                \
    X(cudaDeviceReset, (void))                                                                                         \
    X(cudaDeviceSynchronize, (void))                                                                                   \
    X(cudaDeviceSetLimit, (enum cudaLimit, size_t))                                                                    \
    X(cudaDeviceGetLimit, (size_t *, enum cudaLimit))                                                                  \
    X(cudaDeviceSetCacheConfig, (enum cudaFuncCache))                                                                  \
    X(cudaDeviceGetCacheConfig, (enum cudaFuncCache *))                                                                \
    X(cudaDeviceSetSharedMemConfig, (enum cudaSharedMemConfig))                                                        \
    X(cudaDeviceGetSharedMemConfig, (enum cudaSharedMemConfig *))                                                      \
    X(cudaDeviceGetStreamPriorityRange, (int *, int *))                                                                \
    X(cudaDeviceGetByPCIBusId, (int *, const char *))                                                                  \
    X(cudaDeviceGetPCIBusId, (char *, int, int))                                                                       \
    X(cudaDeviceGetAttribute, (int *, enum cudaDeviceAttr, int))                                                       \
    X(cudaDeviceCanAccessPeer, (int *, int, int))                                                                      \
    X(cudaDeviceEnablePeerAccess, (int, unsigned))                                                                     \
    X(cudaDeviceDisablePeerAccess, (int))                                                                              \
    X(cudaDeviceGetP2PAttribute, (int *, enum cudaDeviceP2PAttr, int, int))                                            \
    X(cudaCtxResetPersistingL2Cache, (void))                                                                           \
    X(cudaDriverGetVersion, (int *))                                                                                   \
    X(cudaRuntimeGetVersion, (int *))                                                                                  \
    X(cudaGetDriverEntryPoint, (const char *, void **, unsigned long long, enum cudaDriverEntryPointQueryResult *))    \
    X(cudaGetDriverEntryPointByVersion,                                                                                \
      (const char *, void **, unsigned, unsigned long long, enum cudaDriverEntryPointQueryResult *))                   \
    X(cudaGetExportTable, (const void **, const cudaUUID_t *))                                                         \
    X(cudaProfilerStart, (void))                                                                                       \
    X(cudaProfilerStop, (void))                                                                                        \
    X(cudaGetLastError, (void))                                                                                        \
    X(cudaPeekAtLastError, (void))
#define RT_MEMORY_LIST(X)                                                                                              \
    X(cudaMalloc, (void **, size_t))                                                                                   \
    X(cudaMallocManaged, (void **, size_t, unsigned))                                                                  \
    X(cudaMallocHost, (void **, size_t))                                                                               \
    X(cudaMallocPitch, (void **, size_t *, size_t, size_t))                                                            \
    X(cudaMalloc3D, (struct cudaPitchedPtr *, struct cudaExtent))                                                      \
    X(cudaFree, (void *))                                                                                              \
    X(cudaFreeHost, (void *))                                                                                          \
    X(cudaHostAlloc, (void **, size_t, unsigned))                                                                      \
    X(cudaHostRegister, (void *, size_t, unsigned))                                                                    \
    X(cudaHostUnregister, (void *))                                                                                    \
    X(cudaHostGetDevicePointer, (void **, void *, unsigned))                                                           \
    X(cudaHostGetFlags, (unsigned *, void *))                                                                          \
    X(cudaMemGetInfo, (size_t *, size_t *))                                                                            \
    X(cudaPointerGetAttributes, (struct cudaPointerAttributes *, const void *))                                        \
    X(cudaMemRangeGetAttribute, (void *, size_t, enum cudaMemRangeAttribute, const void *, size_t))                    \
    X(cudaMemRangeGetAttributes, (void **, size_t *, enum cudaMemRangeAttribute *, size_t, const void *, size_t))      \
    X(cudaMallocAsync, (void **, size_t, cudaStream_t))                                                                \
    X(cudaFreeAsync, (void *, cudaStream_t))                                                                           \
    X(cudaMallocFromPoolAsync, (void **, size_t, cudaMemPool_t, cudaStream_t))                                         \
    X(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *, int))                                                             \
    X(cudaDeviceGetMemPool, (cudaMemPool_t *, int))                                                                    \
    X(cudaDeviceSetMemPool, (int, cudaMemPool_t))                                                                      \
    X(cudaMemPoolTrimTo, (cudaMemPool_t, size_t))                                                                      \
    X(cudaMemPoolSetAttribute, (cudaMemPool_t, enum cudaMemPoolAttr, void *))                                          \
    X(cudaMemPoolGetAttribute, (cudaMemPool_t, enum cudaMemPoolAttr, void *))                                          \
    X(cudaMemPoolSetAccess, (cudaMemPool_t, const struct cudaMemAccessDesc *, size_t))                                 \
    X(cudaMemPoolGetAccess, (enum cudaMemAccessFlags *, cudaMemPool_t, struct cudaMemLocation *))                      \
    X(cudaMemPoolCreate, (cudaMemPool_t *, const struct cudaMemPoolProps *))                                           \
    X(cudaMemPoolDestroy, (cudaMemPool_t))                                                                             \
    X(cudaMemPoolExportToShareableHandle, (void *, cudaMemPool_t, enum cudaMemAllocationHandleType, unsigned))         \
    X(cudaMemPoolImportFromShareableHandle, (cudaMemPool_t *, void *, enum cudaMemAllocationHandleType, unsigned))     \
    X(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData *, void *))                                           \
    X(cudaMemPoolImportPointer, (void **, cudaMemPool_t, struct cudaMemPoolPtrExportData *))                           \
    X(cudaIpcGetEventHandle, (cudaIpcEventHandle_t *, cudaEvent_t))                                                    \
    X(cudaIpcOpenEventHandle, (cudaEvent_t *, cudaIpcEventHandle_t))                                                   \
    X(cudaIpcGetMemHandle, (cudaIpcMemHandle_t *, void *))                                                             \
    X(cudaIpcOpenMemHandle, (void **, cudaIpcMemHandle_t, unsigned))                                                   \
    X(cudaIpcCloseMemHandle, (void *))
#define RT_COPIES_LIST(X)                                                                                              \
    X(cudaMemcpy, (void *, const void *, size_t, enum cudaMemcpyKind))                                                 \
    X(cudaMemcpyAsync, (void *, const void *, size_t, enum cudaMemcpyKind, cudaStream_t))                              \
    X(cudaMemcpyPeer, (void *, int, const void *, int, size_t))                                                        \
    X(cudaMemcpyPeerAsync, (void *, int, const void *, int, size_t, cudaStream_t))                                     \
    X(cudaMemcpy2D, (void *, size_t, const void *, size_t, size_t, size_t, enum cudaMemcpyKind))                       \
    X(cudaMemcpy2DAsync, (void *, size_t, const void *, size_t, size_t, size_t, enum cudaMemcpyKind, cudaStream_t))    \
    X(cudaMemcpy3D, (const struct cudaMemcpy3DParms *))                                                                \
    X(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *, cudaStream_t))                                             \
    X(cudaMemcpy3DPeer, (const struct cudaMemcpy3DPeerParms *))                                                        \
    X(cudaMemcpy3DPeerAsync, (const struct cudaMemcpy3DPeerParms *, cudaStream_t))                                     \
    X(cudaMemset, (void *, int, size_t))                                                                               \
    X(cudaMemsetAsync, (void *, int, size_t, cudaStream_t))                                                            \
    X(cudaMemset2D, (void *, size_t, int, size_t, size_t))                                                             \
    X(cudaMemset2DAsync, (void *, size_t, int, size_t, size_t, cudaStream_t))                                          \
    X(cudaMemset3D, (struct cudaPitchedPtr, int, struct cudaExtent))                                                   \
    X(cudaMemset3DAsync, (struct cudaPitchedPtr, int, struct cudaExtent, cudaStream_t))                                \
    X(cudaMemcpyToSymbol, (const void *, const void *, size_t, size_t, enum cudaMemcpyKind))                           \
    X(cudaMemcpyFromSymbol, (void *, const void *, size_t, size_t, enum cudaMemcpyKind))                               \
    X(cudaMemcpyToSymbolAsync, (const void *, const void *, size_t, size_t, enum cudaMemcpyKind, cudaStream_t))        \
    X(cudaMemcpyFromSymbolAsync, (void *, const void *, size_t, size_t, enum cudaMemcpyKind, cudaStream_t))            \
    X(cudaGetSymbolAddress, (void **, const void *))                                                                   \
    X(cudaGetSymbolSize, (size_t *, const void *))
#define RT_STREAMS_LIST(X)                                                                                             \
    X(cudaStreamCreate, (cudaStream_t *))                                                                              \
    X(cudaStreamCreateWithFlags, (cudaStream_t *, unsigned))                                                           \
    X(cudaStreamCreateWithPriority, (cudaStream_t *, unsigned, int))                                                   \
    X(cudaStreamDestroy, (cudaStream_t))                                                                               \
    X(cudaStreamGetPriority, (cudaStream_t, int *))                                                                    \
    X(cudaStreamGetFlags, (cudaStream_t, unsigned *))                                                                  \
    X(cudaStreamGetId, (cudaStream_t, unsigned long long *))                                                           \
    X(cudaStreamGetDevice, (cudaStream_t, int *))                                                                      \
    X(cudaStreamWaitEvent, (cudaStream_t, cudaEvent_t, unsigned))                                                      \
    X(cudaStreamAddCallback, (cudaStream_t, cudaStreamCallback_t, void *, unsigned))                                   \
    X(cudaStreamSynchronize, (cudaStream_t))                                                                           \
    X(cudaStreamQuery, (cudaStream_t))                                                                                 \
    X(cudaStreamAttachMemAsync, (cudaStream_t, void *, size_t, unsigned))                                              \
    X(cudaStreamCopyAttributes, (cudaStream_t, cudaStream_t))                                                          \
    X(cudaStreamGetAttribute, (cudaStream_t, cudaLaunchAttributeID, cudaLaunchAttributeValue *))                       \
    X(cudaStreamSetAttribute, (cudaStream_t, cudaLaunchAttributeID, const cudaLaunchAttributeValue *))                 \
    X(cudaEventCreate, (cudaEvent_t *))                                                                                \
    X(cudaEventCreateWithFlags, (cudaEvent_t *, unsigned))                                                             \
    X(cudaEventRecord, (cudaEvent_t, cudaStream_t))                                                                    \
    X(cudaEventRecordWithFlags, (cudaEvent_t, cudaStream_t, unsigned))                                                 \
    X(cudaEventQuery, (cudaEvent_t))                                                                                   \
    X(cudaEventSynchronize, (cudaEvent_t))                                                                             \
    X(cudaEventDestroy, (cudaEvent_t))                                                                                 \
    X(cudaEventElapsedTime, (float *, cudaEvent_t, cudaEvent_t))                                                       \
    X(cudaLaunchHostFunc, (cudaStream_t, cudaHostFn_t, void *))                                                        \
    X(cudaStreamBeginCapture, (cudaStream_t, enum cudaStreamCaptureMode))                                              \
    X(cudaStreamBeginCaptureToGraph, (cudaStream_t, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphEdgeData *,   \
                                      size_t, enum cudaStreamCaptureMode))                                             \
    X(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode *))                                             \
    X(cudaStreamEndCapture, (cudaStream_t, cudaGraph_t *))                                                             \
    X(cudaStreamIsCapturing, (cudaStream_t, enum cudaStreamCaptureStatus *))
#define RT_KERNELS_LIST(X)                                                                                             \
    X(cudaLaunchKernel, (const void *, dim3, dim3, void **, size_t, cudaStream_t))                                     \
    X(cudaLaunchKernelExC, (const cudaLaunchConfig_t *, const void *, void **))                                        \
    X(cudaLaunchCooperativeKernel, (const void *, dim3, dim3, void **, size_t, cudaStream_t))                          \
    X(cudaFuncSetCacheConfig, (const void *, enum cudaFuncCache))                                                      \
    X(cudaFuncSetSharedMemConfig, (const void *, enum cudaSharedMemConfig))                                            \
    X(cudaFuncGetAttributes, (struct cudaFuncAttributes *, const void *))                                              \
    X(cudaFuncSetAttribute, (const void *, enum cudaFuncAttribute, int))                                               \
    X(cudaFuncGetName, (const char **, const void *))                                                                  \
    X(cudaFuncGetParamInfo, (const void *, size_t, size_t *, size_t *))                                                \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *, const void *, int, size_t))                               \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *, const void *, int, size_t, unsigned))            \
    X(cudaOccupancyAvailableDynamicSMemPerBlock, (size_t *, const void *, int, int))                                   \
    X(cudaOccupancyMaxPotentialClusterSize, (int *, const void *, const cudaLaunchConfig_t *))                         \
    X(cudaOccupancyMaxActiveClusters, (int *, const void *, const cudaLaunchConfig_t *))                               \
    X(cudaGetFuncBySymbol, (cudaFunction_t *, const void *))                                                           \
    X(cudaGetKernel, (cudaKernel_t *, const void *))                                                                   \
    X(cudaKernelSetAttributeForDevice, (cudaKernel_t, enum cudaFuncAttribute, int, int))                               \
    X(cudaLibraryLoadData, (cudaLibrary_t *, const void *, enum cudaJitOption *, void **, unsigned,                    \
                            enum cudaLibraryOption *, void **, unsigned))                                              \
    X(cudaLibraryLoadFromFile, (cudaLibrary_t *, const char *, enum cudaJitOption *, void **, unsigned,                \
                                enum cudaLibraryOption *, void **, unsigned))                                          \
    X(cudaLibraryUnload, (cudaLibrary_t))                                                                              \
    X(cudaLibraryGetKernel, (cudaKernel_t *, cudaLibrary_t, const char *))                                             \
    X(cudaLibraryGetGlobal, (void **, size_t *, cudaLibrary_t, const char *))                                          \
    X(cudaLibraryGetManaged, (void **, size_t *, cudaLibrary_t, const char *))                                         \
    X(cudaLibraryGetUnifiedFunction, (void **, cudaLibrary_t, const char *))                                           \
    X(cudaLibraryGetKernelCount, (unsigned *, cudaLibrary_t))                                                          \
    X(cudaLibraryEnumerateKernels, (cudaKernel_t *, unsigned, cudaLibrary_t))
#define RT_GRAPHS_LIST(X)                                                                                              \
    X(cudaGraphCreate, (cudaGraph_t *, unsigned))                                                                      \
    X(cudaGraphDestroy, (cudaGraph_t))                                                                                 \
    X(cudaGraphClone, (cudaGraph_t *, cudaGraph_t))                                                                    \
    X(cudaGraphAddKernelNode,                                                                                          \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaKernelNodeParams *))          \
    X(cudaGraphAddMemcpyNode1D, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *,              \
                                 const void *, size_t, enum cudaMemcpyKind))                                           \
    X(cudaGraphAddMemsetNode,                                                                                          \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaMemsetParams *))              \
    X(cudaGraphAddHostNode,                                                                                            \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaHostNodeParams *))            \
    X(cudaGraphAddChildGraphNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaGraph_t))      \
    X(cudaGraphAddEmptyNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t))                        \
    X(cudaGraphAddEventRecordNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaEvent_t))     \
    X(cudaGraphAddEventWaitNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaEvent_t))       \
    X(cudaGraphAddMemAllocNode,                                                                                        \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, struct cudaMemAllocNodeParams *))              \
    X(cudaGraphAddMemFreeNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *))              \
    X(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t, cudaGraph_t *))                                               \
    X(cudaGraphDestroyNode, (cudaGraphNode_t))                                                                         \
    X(cudaGraphNodeGetType, (cudaGraphNode_t, enum cudaGraphNodeType *))                                               \
    X(cudaGraphNodeFindInClone, (cudaGraphNode_t *, cudaGraphNode_t, cudaGraph_t))                                     \
    X(cudaGraphGetNodes, (cudaGraph_t, cudaGraphNode_t *, size_t *))                                                   \
    X(cudaGraphGetRootNodes, (cudaGraph_t, cudaGraphNode_t *, size_t *))                                               \
    X(cudaGraphInstantiate, (cudaGraphExec_t *, cudaGraph_t, unsigned long long))                                      \
    X(cudaGraphInstantiateWithFlags, (cudaGraphExec_t *, cudaGraph_t, unsigned long long))                             \
    X(cudaGraphInstantiateWithParams, (cudaGraphExec_t *, cudaGraph_t, cudaGraphInstantiateParams *))                  \
    X(cudaGraphExecGetFlags, (cudaGraphExec_t, unsigned long long *))                                                  \
    X(cudaGraphExecUpdate, (cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo *))                            \
    X(cudaGraphUpload, (cudaGraphExec_t, cudaStream_t))                                                                \
    X(cudaGraphLaunch, (cudaGraphExec_t, cudaStream_t))                                                                \
    X(cudaGraphExecDestroy, (cudaGraphExec_t))                                                                         \
    X(cudaGraphDebugDotPrint, (cudaGraph_t, const char *, unsigned))                                                   \
    X(cudaGraphRetainUserObject, (cudaGraph_t, cudaUserObject_t, unsigned, unsigned))                                  \
    X(cudaGraphReleaseUserObject, (cudaGraph_t, cudaUserObject_t, unsigned))                                           \
    X(cudaUserObjectCreate, (cudaUserObject_t *, void *, cudaHostFn_t, unsigned, unsigned))                            \
    X(cudaUserObjectRetain, (cudaUserObject_t, unsigned))                                                              \
    X(cudaUserObjectRelease, (cudaUserObject_t, unsigned))                                                             \
    X(cudaDeviceGraphMemTrim, (int))                                                                                   \
    X(cudaDeviceGetGraphMemAttribute, (int, enum cudaGraphMemAttributeType, void *))                                   \
    X(cudaDeviceSetGraphMemAttribute, (int, enum cudaGraphMemAttributeType, void *))                                   \
    X(cudaGraphConditionalHandleCreate, (cudaGraphConditionalHandle *, cudaGraph_t, unsigned, unsigned))

/* Entries that CUDA 12 has otherwise. */
#define RT_13_LIST(X)                                                                                                  \
    X(cudaGetDeviceProperties, (struct cudaDeviceProp *, int))                                                         \
    X(cudaMemPrefetchAsync, (const void *, size_t, struct cudaMemLocation, unsigned, cudaStream_t))                    \
    X(cudaMemAdvise, (const void *, size_t, enum cudaMemoryAdvise, struct cudaMemLocation))                            \
    X(cudaStreamGetCaptureInfo, (cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *,    \
                                 const cudaGraphNode_t **, const cudaGraphEdgeData **, size_t *))                      \
    X(cudaStreamUpdateCaptureDependencies,                                                                             \
      (cudaStream_t, cudaGraphNode_t *, const cudaGraphEdgeData *, size_t, unsigned))                                  \
    X(cudaGraphGetEdges, (cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))           \
    X(cudaGraphNodeGetDependencies, (cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))               \
    X(cudaGraphNodeGetDependentNodes, (cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))             \
    X(cudaGraphAddDependencies,                                                                                        \
      (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, const cudaGraphEdgeData *, size_t))              \
    X(cudaGraphRemoveDependencies,                                                                                     \
      (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, const cudaGraphEdgeData *, size_t))              \
    X(cudaGraphAddNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphEdgeData *, size_t,   \
                         struct cudaGraphNodeParams *))

/* CUDA 12's of the same names, and what it calls CUDA 13's. */
#define RT_12_LIST(X)                                                                                                  \
    X(cudaGetDeviceProperties_v2, (struct rt_device_prop_12 *, int))                                                   \
    X(cudaMemPrefetchAsync, (const void *, size_t, int, cudaStream_t))                                                 \
    X(cudaMemAdvise, (const void *, size_t, enum cudaMemoryAdvise, int))                                               \
    X(cudaStreamGetCaptureInfo, (cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *))                  \
    X(cudaStreamGetCaptureInfo_v2, (cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *, \
                                    const cudaGraphNode_t **, size_t *))                                               \
    X(cudaStreamUpdateCaptureDependencies, (cudaStream_t, cudaGraphNode_t *, size_t, unsigned))                        \
    X(cudaGraphGetEdges, (cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, size_t *))                                \
    X(cudaGraphNodeGetDependencies, (cudaGraphNode_t, cudaGraphNode_t *, size_t *))                                    \
    X(cudaGraphNodeGetDependentNodes, (cudaGraphNode_t, cudaGraphNode_t *, size_t *))                                  \
    X(cudaGraphAddDependencies, (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, size_t))               \
    X(cudaGraphRemoveDependencies, (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, size_t))            \
    X(cudaGraphAddNode,                                                                                                \
      (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, struct cudaGraphNodeParams *))                 \
    X(cudaEventElapsedTime_v2, (float *, cudaEvent_t, cudaEvent_t))                                                    \
    X(cudaThreadExit, (void))                                                                                          \
    X(cudaThreadSynchronize, (void))                                                                                   \
    X(cudaMemPrefetchAsync_v2, (const void *, size_t, struct cudaMemLocation, unsigned, cudaStream_t))                 \
    X(cudaMemAdvise_v2, (const void *, size_t, enum cudaMemoryAdvise, struct cudaMemLocation))                         \
    X(cudaStreamGetCaptureInfo_v3, (cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *, \
                                    const cudaGraphNode_t **, const cudaGraphEdgeData **, size_t *))                   \
    X(cudaStreamUpdateCaptureDependencies_v2,                                                                          \
      (cudaStream_t, cudaGraphNode_t *, const cudaGraphEdgeData *, size_t, unsigned))                                  \
    X(cudaGraphGetEdges_v2, (cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))        \
    X(cudaGraphNodeGetDependencies_v2, (cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))            \
    X(cudaGraphNodeGetDependentNodes_v2, (cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *))          \
    X(cudaGraphAddDependencies_v2,                                                                                     \
      (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, const cudaGraphEdgeData *, size_t))              \
    X(cudaGraphRemoveDependencies_v2,                                                                                  \
      (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, const cudaGraphEdgeData *, size_t))              \
    X(cudaGraphAddNode_v2, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphEdgeData *,        \
                            size_t, struct cudaGraphNodeParams *))

/* Those that also exist with the per-thread default stream in place of the legacy one: of a stream given as 0 (_ptsz),
 * and implied by a synchronous call (_ptds). X(name): of the type of the entry `name`. */
#define RT_PTSZ_LIST(X)                                                                                                \
    X(cudaEventRecordWithFlags)                                                                                        \
    X(cudaEventRecord)                                                                                                 \
    X(cudaFreeAsync)                                                                                                   \
    X(cudaGetDriverEntryPointByVersion)                                                                                \
    X(cudaGetDriverEntryPoint)                                                                                         \
    X(cudaGraphInstantiateWithParams)                                                                                  \
    X(cudaGraphLaunch)                                                                                                 \
    X(cudaGraphUpload)                                                                                                 \
    X(cudaLaunchCooperativeKernel)                                                                                     \
    X(cudaLaunchHostFunc)                                                                                              \
    X(cudaLaunchKernelExC)                                                                                             \
    X(cudaLaunchKernel)                                                                                                \
    X(cudaMallocAsync)                                                                                                 \
    X(cudaMallocFromPoolAsync)                                                                                         \
    X(cudaMemcpy2DAsync)                                                                                               \
    X(cudaMemcpy3DAsync)                                                                                               \
    X(cudaMemcpy3DPeerAsync)                                                                                           \
    X(cudaMemcpyAsync)                                                                                                 \
    X(cudaMemcpyFromSymbolAsync)                                                                                       \
    X(cudaMemcpyToSymbolAsync)                                                                                         \
    X(cudaMemset2DAsync)                                                                                               \
    X(cudaMemset3DAsync)                                                                                               \
    X(cudaMemsetAsync)                                                                                                 \
    X(cudaStreamAddCallback)                                                                                           \
    X(cudaStreamAttachMemAsync)                                                                                        \
    X(cudaStreamBeginCaptureToGraph)                                                                                   \
    X(cudaStreamBeginCapture)                                                                                          \
    X(cudaStreamCopyAttributes)                                                                                        \
    X(cudaStreamEndCapture)                                                                                            \
    X(cudaStreamGetAttribute)                                                                                          \
    X(cudaStreamGetDevice)                                                                                             \
    X(cudaStreamGetFlags)                                                                                              \
    X(cudaStreamGetId)                                                                                                 \
    X(cudaStreamGetPriority)                                                                                           \
    X(cudaStreamIsCapturing)                                                                                           \
    X(cudaStreamQuery)                                                                                                 \
    X(cudaStreamSetAttribute)                                                                                          \
    X(cudaStreamSynchronize)                                                                                           \
    X(cudaStreamWaitEvent)
#define RT_PTDS_LIST(X)                                                                                                \
    X(cudaMemcpy2D)                                                                                                    \
    X(cudaMemcpy3DPeer)                                                                                                \
    X(cudaMemcpy3D)                                                                                                    \
    X(cudaMemcpyFromSymbol)                                                                                            \
    X(cudaMemcpyToSymbol)                                                                                              \
    X(cudaMemcpy)                                                                                                      \
    X(cudaMemset2D)                                                                                                    \
    X(cudaMemset3D)                                                                                                    \
    X(cudaMemset)
#define RT_13_PTSZ_LIST(X)                                                                                             \
    X(cudaMemPrefetchAsync)                                                                                            \
    X(cudaStreamGetCaptureInfo)                                                                                        \
    X(cudaStreamUpdateCaptureDependencies)

/* What objects compiled by nvcc call, and what does not give a cudaError_t. X(type, name, types) */
#define RT_OTHER_LIST(X)                                                                                               \
    X(const char *, cudaGetErrorName, (cudaError_t))                                                                   \
    X(const char *, cudaGetErrorString, (cudaError_t))                                                                 \
    X(struct cudaChannelFormatDesc, cudaCreateChannelDesc, (int, int, int, int, enum cudaChannelFormatKind))           \
    X(void **, __cudaRegisterFatBinary, (void *))                                                                      \
    X(void, __cudaRegisterFatBinaryEnd, (void **))                                                                     \
    X(void, __cudaUnregisterFatBinary, (void **))                                                                      \
    X(void, __cudaRegisterFunction,                                                                                    \
      (void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *, dim3 *, int *))                     \
    X(void, __cudaRegisterVar, (void **, char *, char *, const char *, int, size_t, int, int))                         \
    X(void, __cudaRegisterManagedVar, (void **, void **, char *, const char *, int, size_t, int, int))                 \
    X(char, __cudaInitModule, (void **))                                                                               \
    X(unsigned, __cudaPushCallConfiguration, (dim3, dim3, size_t, struct CUstream_st *))                               \
    X(cudaError_t, __cudaPopCallConfiguration, (dim3 *, dim3 *, size_t *, void *))                                     \
    X(cudaError_t, __cudaGetKernel, (cudaKernel_t *, const void *))                                                    \
    X(cudaError_t, __cudaLaunchKernel, (cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t))                      \
    X(cudaError_t, __cudaLaunchKernel_ptsz, (cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t))

#define RT_COMMON_LIST(X)                                                                                              \
    RT_DEVICES_LIST(X) RT_MEMORY_LIST(X) RT_COPIES_LIST(X) RT_STREAMS_LIST(X) RT_KERNELS_LIST(X) RT_GRAPHS_LIST(X)

#endif
