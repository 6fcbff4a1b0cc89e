/* SPDX-License-Identifier: Apache-2.0 */
/* Every entry of the driver that is really there, beside weir's own: the library's list (device/driver.h) and what
 * other programs and the emulated runtime need. One list makes declarations, numbers, costs and faults. Variants that
 * only pass on to an entry are in variants.h; the driver's other names are there by name only (names.h). */
#ifndef WEIR_EMU_ENTRIES_H
#define WEIR_EMU_ENTRIES_H

#include "device/driver.h"
#include "device/emu/emu_types.h"

/* X(symbol, parameters) */
#define EMU_CONTEXT_LIST(X)                                                                                            \
    X(cuCtxSetCurrent, (CUcontext context))                                                                            \
    X(cuCtxDestroy_v2, (CUcontext context))                                                                            \
    X(cuDevicePrimaryCtxReset_v2, (CUdevice device))                                                                   \
    X(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active))                                     \
    X(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags))                                                \
    X(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))                                          \
    X(cuCtxCreate_v3,                                                                                                  \
      (CUcontext * context, CUexecAffinityParam * affinities, int count, unsigned flags, CUdevice device))             \
    X(cuCtxCreate_v4, (CUcontext * context, CUctxCreateParams * parameters, unsigned flags, CUdevice device))          \
    X(cuCtxGetDevice_v2, (CUdevice * device, CUcontext context))                                                       \
    X(cuCtxSynchronize_v2, (CUcontext context))                                                                        \
    X(cuCtxGetId, (CUcontext context, unsigned long long *id))                                                         \
    X(cuCtxGetApiVersion, (CUcontext context, unsigned *version))                                                      \
    X(cuCtxGetFlags, (unsigned *flags))                                                                                \
    X(cuCtxSetFlags, (unsigned flags))                                                                                 \
    X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                                        \
    X(cuCtxGetLimit, (size_t * value, CUlimit limit))                                                                  \
    X(cuCtxSetLimit, (CUlimit limit, size_t value))                                                                    \
    X(cuCtxGetCacheConfig, (CUfunc_cache * config))                                                                    \
    X(cuCtxSetCacheConfig, (CUfunc_cache config))                                                                      \
    X(cuCtxGetSharedMemConfig, (CUsharedconfig * config))                                                              \
    X(cuCtxSetSharedMemConfig, (CUsharedconfig config))                                                                \
    X(cuCtxResetPersistingL2Cache, (void))                                                                             \
    X(cuProfilerStart, (void))                                                                                         \
    X(cuProfilerStop, (void))                                                                                          \
    X(cuFlushGPUDirectRDMAWrites, (CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope))    \
    X(cuDeviceGetP2PAttribute, (int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to))              \
    X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                                                         \
    X(cuCtxDisablePeerAccess, (CUcontext peer))                                                                        \
    X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                                            \
    X(cuDeviceComputeCapability, (int *major, int *minor, CUdevice device))                                            \
    X(cuDeviceGetProperties, (CUdevprop * properties, CUdevice device))                                                \
    X(cuDeviceGetByPCIBusId, (CUdevice * device, const char *id))                                                      \
    X(cuDeviceGetExecAffinitySupport, (int *supported, CUexecAffinityType type, CUdevice device))

#define EMU_MEMORY_LIST(X)                                                                                             \
    X(cuMemAllocPitch_v2, (CUdeviceptr * address, size_t * pitch, size_t width, size_t height, unsigned element))      \
    X(cuMemAllocManaged, (CUdeviceptr * address, size_t bytes, unsigned flags))                                        \
    X(cuMemAllocHost_v2, (void **address, size_t bytes))                                                               \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *host, unsigned flags))                               \
    X(cuMemHostGetFlags, (unsigned *flags, void *host))                                                                \
    X(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address))                             \
    X(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle)) \
    X(cuMemGetAccess, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address))                 \
    X(cuMemExportToShareableHandle,                                                                                    \
      (void *place, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags))    \
    X(cuMemImportFromShareableHandle,                                                                                  \
      (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType type))                           \
    X(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t * bytes, CUdeviceptr address))                              \
    X(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr address))                         \
    X(cuPointerGetAttributes, (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address))     \
    X(cuPointerSetAttribute, (const void *value, CUpointer_attribute attribute, CUdeviceptr address))                  \
    X(cuMemAllocAsync, (CUdeviceptr * address, size_t bytes, CUstream stream))                                         \
    X(cuMemAllocFromPoolAsync, (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))              \
    X(cuMemFreeAsync, (CUdeviceptr address, CUstream stream))                                                          \
    X(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *properties))                                        \
    X(cuMemPoolDestroy, (CUmemoryPool pool))                                                                           \
    X(cuMemPoolTrimTo, (CUmemoryPool pool, size_t bytes))                                                              \
    X(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                          \
    X(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                          \
    X(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *access, size_t count))                            \
    X(cuMemPoolGetAccess, (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation * location))                    \
    X(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device))                                               \
    X(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice device))                                                      \
    X(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool))                                                        \
    X(cuMemGetDefaultMemPool, (CUmemoryPool * pool, CUmemLocation * location, CUmemAllocationType type))               \
    X(cuMemGetMemPool, (CUmemoryPool * pool, CUmemLocation * location, CUmemAllocationType type))                      \
    X(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool))                        \
    X(cuMemAdvise_v2, (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location))                \
    X(cuMemPrefetchAsync_v2,                                                                                           \
      (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream))

#define EMU_COPY_LIST(X)                                                                                               \
    X(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                                      \
    X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                                               \
    X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                                     \
    X(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                               \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                         \
    X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                               \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                         \
    X(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes))    \
    X(cuMemcpyPeerAsync,                                                                                               \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
    X(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy))                                                                      \
    X(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy))                                                             \
    X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))                                                \
    X(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy))                                                                      \
    X(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream))                                                \
    X(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy))                                                                \
    X(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream))                                          \
    X(cuMemsetD8_v2, (CUdeviceptr at, unsigned char value, size_t count))                                              \
    X(cuMemsetD2D8_v2, (CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height))               \
    X(cuMemsetD2D8Async,                                                                                               \
      (CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream))               \
    X(cuMemsetD16_v2, (CUdeviceptr at, unsigned short value, size_t count))                                            \
    X(cuMemsetD16Async, (CUdeviceptr at, unsigned short value, size_t count, CUstream stream))                         \
    X(cuMemsetD2D16_v2, (CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height))             \
    X(cuMemsetD2D16Async,                                                                                              \
      (CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream))              \
    X(cuMemsetD32_v2, (CUdeviceptr at, unsigned value, size_t count))                                                  \
    X(cuMemsetD32Async, (CUdeviceptr at, unsigned value, size_t count, CUstream stream))                               \
    X(cuMemsetD2D32_v2, (CUdeviceptr at, size_t pitch, unsigned value, size_t width, size_t height))                   \
    X(cuMemsetD2D32Async, (CUdeviceptr at, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream))

#define EMU_STREAM_LIST(X)                                                                                             \
    X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))                                   \
    X(cuStreamGetPriority, (CUstream stream, int *priority))                                                           \
    X(cuStreamGetFlags, (CUstream stream, unsigned *flags))                                                            \
    X(cuStreamGetCtx, (CUstream stream, CUcontext * context))                                                          \
    X(cuStreamGetDevice, (CUstream stream, CUdevice * device))                                                         \
    X(cuStreamGetId, (CUstream stream, unsigned long long *id))                                                        \
    X(cuStreamGetAttribute, (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue * value))                    \
    X(cuStreamSetAttribute, (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value))               \
    X(cuStreamCopyAttributes, (CUstream to, CUstream from))                                                            \
    X(cuStreamAddCallback, (CUstream stream, CUstreamCallback function, void *argument, unsigned flags))               \
    X(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags))                                        \
    X(cuCtxRecordEvent, (CUcontext context, CUevent event))                                                            \
    X(cuStreamGetCtx_v2, (CUstream stream, CUcontext * context, CUgreenCtx * green))

#define EMU_KERNEL_LIST(X)                                                                                             \
    X(cuModuleLoad, (CUmodule * module, const char *path))                                                             \
    X(cuModuleLoadData, (CUmodule * module, const void *image))                                                        \
    X(cuModuleLoadDataEx,                                                                                              \
      (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values))                    \
    X(cuModuleLoadFatBinary, (CUmodule * module, const void *image))                                                   \
    X(cuModuleUnload, (CUmodule module))                                                                               \
    X(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode))                                                            \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                                 \
    X(cuModuleGetGlobal_v2, (CUdeviceptr * address, size_t * bytes, CUmodule module, const char *name))                \
    X(cuLibraryLoadData, (CUlibrary * library, const void *image, CUjit_option *jit_options, void **jit_values,        \
                          unsigned jit_count, CUlibraryOption *options, void **values, unsigned count))                \
    X(cuLibraryLoadFromFile, (CUlibrary * library, const char *path, CUjit_option *jit_options, void **jit_values,     \
                              unsigned jit_count, CUlibraryOption *options, void **values, unsigned count))            \
    X(cuLibraryUnload, (CUlibrary library))                                                                            \
    X(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char *name))                                    \
    X(cuLibraryGetGlobal, (CUdeviceptr * address, size_t * bytes, CUlibrary library, const char *name))                \
    X(cuKernelGetFunction, (CUfunction * function, CUkernel kernel))                                                   \
    X(cuKernelGetLibrary, (CUlibrary * library, CUkernel kernel))                                                      \
    X(cuKernelGetName, (const char **name, CUkernel kernel))                                                           \
    X(cuKernelGetAttribute, (int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device))            \
    X(cuKernelSetAttribute, (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device))             \
    X(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice device))                                 \
    X(cuFuncGetModule, (CUmodule * module, CUfunction function))                                                       \
    X(cuFuncGetName, (const char **name, CUfunction function))                                                         \
    X(cuFuncLoad, (CUfunction function))                                                                               \
    X(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function))                           \
    X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))                            \
    X(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config))                                                \
    X(cuFuncSetSharedMemConfig, (CUfunction function, CUsharedconfig config))                                          \
    X(cuLaunchKernel,                                                                                                  \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra))                     \
    X(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))          \
    X(cuLaunchCooperativeKernel,                                                                                       \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters))                                   \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                                     \
      (int *blocks, CUfunction function, int threads, size_t shared_bytes))                                            \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,                                                            \
      (int *blocks, CUfunction function, int threads, size_t shared_bytes, unsigned flags))                            \
    X(cuOccupancyMaxPotentialBlockSize, (int *least_grid, int *block, CUfunction function,                             \
                                         CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit))                \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags,                                                                       \
      (int *least_grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit, \
       unsigned flags))                                                                                                \
    X(cuOccupancyAvailableDynamicSMemPerBlock, (size_t * shared_bytes, CUfunction function, int blocks, int threads))  \
    X(cuLibraryGetModule, (CUmodule * module, CUlibrary library))                                                      \
    X(cuFuncIsLoaded, (CUfunctionLoadingState * state, CUfunction function))                                           \
    X(cuLinkCreate_v2, (unsigned count, CUjit_option *options, void **values, CUlinkState *state))                     \
    X(cuLinkAddData_v2, (CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,           \
                         unsigned count, CUjit_option *options, void **values))                                        \
    X(cuLinkAddFile_v2, (CUlinkState state, CUjitInputType type, const char *path, unsigned count,                     \
                         CUjit_option *options, void **values))                                                        \
    X(cuLinkComplete, (CUlinkState state, void **image, size_t *bytes))                                                \
    X(cuLinkDestroy, (CUlinkState state))                                                                              \
    X(cuOccupancyMaxPotentialClusterSize, (int *blocks, CUfunction function, const CUlaunchConfig *config))            \
    X(cuOccupancyMaxActiveClusters, (int *clusters, CUfunction function, const CUlaunchConfig *config))

#define EMU_GRAPH_LIST(X)                                                                                              \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                            \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                          \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                                          \
    X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode))                                                 \
    X(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id))                        \
    X(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id, CUgraph * graph,     \
                                  const CUgraphNode **nodes, size_t *count))                                           \
    X(cuStreamGetCaptureInfo_v3, (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id, CUgraph * graph,     \
                                  const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count))            \
    X(cuStreamUpdateCaptureDependencies, (CUstream stream, CUgraphNode * nodes, size_t count, unsigned flags))         \
    X(cuStreamUpdateCaptureDependencies_v2,                                                                            \
      (CUstream stream, CUgraphNode * nodes, const CUgraphEdgeData *edges, size_t count, unsigned flags))              \
    X(cuGraphCreate, (CUgraph * graph, unsigned flags))                                                                \
    X(cuGraphDestroy, (CUgraph graph))                                                                                 \
    X(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * count))                                           \
    X(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode * nodes, size_t * count))                                       \
    X(cuGraphGetEdges, (CUgraph graph, CUgraphNode * from, CUgraphNode * to, size_t * count))                          \
    X(cuGraphGetEdges_v2,                                                                                              \
      (CUgraph graph, CUgraphNode * from, CUgraphNode * to, CUgraphEdgeData * edges, size_t * count))                  \
    X(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType * type))                                                  \
    X(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode * nodes, size_t * count))                             \
    X(cuGraphNodeGetDependencies_v2, (CUgraphNode node, CUgraphNode * nodes, CUgraphEdgeData * edges, size_t * count)) \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                      \
    X(cuGraphInstantiate_v2, (CUgraphExec * exec, CUgraph graph, CUgraphNode * at_fault, char *text, size_t room))     \
    X(cuGraphInstantiateWithParams, (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * params))       \
    X(cuGraphUpload, (CUgraphExec exec, CUstream stream))                                                              \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                              \
    X(cuGraphExecGetFlags, (CUgraphExec exec, uint64_t * flags))                                                       \
    X(cuGraphExecDestroy, (CUgraphExec exec))

#define EMU_LOOKUP_LIST(X)                                                                                             \
    X(cuGetProcAddress, (const char *symbol, void **function, int version, uint64_t flags))                            \
    X(cuGetProcAddress_v2,                                                                                             \
      (const char *symbol, void **function, int version, uint64_t flags, CUdriverProcAddressQueryResult *status))      \
    X(cuGetExportTable, (const void **table, const CUuuid *id))

#define EMU_ENTRY_LIST(X)                                                                                              \
    EMU_CONTEXT_LIST(X)                                                                                                \
    EMU_MEMORY_LIST(X) EMU_COPY_LIST(X) EMU_STREAM_LIST(X) EMU_KERNEL_LIST(X) EMU_GRAPH_LIST(X) EMU_LOOKUP_LIST(X)

enum emu_entry {
#define EMU_NUMBER(member, symbol, parameters) EMU_AT_##symbol,
#define EMU_NUMBER_2(symbol, parameters)       EMU_AT_##symbol,
    WEIR__DRIVER_LIST(EMU_NUMBER) EMU_ENTRY_LIST(EMU_NUMBER_2)
#undef EMU_NUMBER
#undef EMU_NUMBER_2
        EMU_ENTRIES
};

#endif
