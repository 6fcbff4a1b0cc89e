/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's entries that the preloaded library stands before. A runtime, shared or static, comes to the driver by one of three ways,
 * each of which ends here: by name (the dynamic linker finds this library first), by dlsym and dlvsym, by cuGetProcAddress. So
 * nothing of the runtime itself has to be replaced, and its errors, last errors and checks are its own.
 *
 * Whatever the way, either all calls of a block are weir's or none: whose a block is says its address (memory.c). Blocks of
 * cuMemAlloc's first version, with addresses of 32 bits, are the driver's, from alloc to free.
 *
 * One list makes the exported functions, the table of the driver's own ones, and what look-ups answer.
 * X(symbol, name in cuGetProcAddress, first version, stream 0 is the thread's own, parameters) */
#ifndef WEIR_ALLOC_PRELOAD_HOOKS_H
#define WEIR_ALLOC_PRELOAD_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/driver.h"
#include "device/emu/emu_types.h"

#define WEIR__HOOK_LIST(X)                                                                                             \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, false, (CUdeviceptr * address, size_t bytes))                                   \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, false,                                                                \
      (CUdeviceptr * address, size_t * pitch, size_t width, size_t height, unsigned element))                          \
    X(cuMemFree_v2, cuMemFree, 3020, false, (CUdeviceptr address))                                                     \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, false, (CUdeviceptr * address, size_t bytes, CUstream stream))          \
    X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, true, (CUdeviceptr * address, size_t bytes, CUstream stream))      \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, false,                                                  \
      (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                                       \
    X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, true,                                              \
      (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                                       \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, false, (CUdeviceptr address, CUstream stream))                            \
    X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, true, (CUdeviceptr address, CUstream stream))                        \
    X(cuMemUnmap, cuMemUnmap, 10020, false, (CUdeviceptr address, size_t bytes))                                       \
    X(cuMemAddressFree, cuMemAddressFree, 10020, false, (CUdeviceptr address, size_t bytes))                           \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, false, (size_t * free_bytes, size_t * total_bytes))                         \
    X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, false,                                                      \
      (CUdeviceptr * base, size_t * bytes, CUdeviceptr address))                                                       \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, false,                                                       \
      (void *data, CUpointer_attribute attribute, CUdeviceptr address))                                                \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, false,                                                     \
      (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address))                             \
    X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, false,                                                       \
      (const void *value, CUpointer_attribute attribute, CUdeviceptr address))                                         \
    X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, false,                                          \
      (CUmemGenericAllocationHandle * handle, void *address))                                                          \
    X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, false,                                      \
      (void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type, unsigned long long flags))          \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, false, (CUipcMemHandle * handle, CUdeviceptr address))               \
    X(cuMemCreate, cuMemCreate, 10020, false,                                                                          \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,                     \
       unsigned long long flags))                                                                                      \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, false, (CUdeviceptr * address, size_t bytes, unsigned flags))        \
    X(cuArrayCreate_v2, cuArrayCreate, 3020, false, (CUarray * array, const void *shape))                              \
    X(cuArray3DCreate_v2, cuArray3DCreate, 3020, false, (CUarray * array, const void *shape))                          \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, false, (void **array, const void *shape, unsigned levels)) \
    X(cuGraphUpload, cuGraphUpload, 11010, false, (CUgraphExec graph, CUstream stream))                                \
    X(cuGraphUpload_ptsz, cuGraphUpload, 11010, true, (CUgraphExec graph, CUstream stream))                            \
    X(cuGraphLaunch, cuGraphLaunch, 10000, false, (CUgraphExec graph, CUstream stream))                                \
    X(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, true, (CUgraphExec graph, CUstream stream))                            \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, false, (void **address, size_t bytes, unsigned flags))                     \
    X(cuMemAllocHost_v2, cuMemAllocHost, 3020, false, (void **address, size_t bytes))                                  \
    X(cuMemFreeHost, cuMemFreeHost, 2000, false, (void *address))                                                      \
    X(cuMemHostGetFlags, cuMemHostGetFlags, 2030, false, (unsigned *flags, void *address))                             \
    X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, false,                                            \
      (CUdeviceptr * address, void *host, unsigned flags))                                                             \
    X(cuStreamCreate, cuStreamCreate, 2000, false, (CUstream * stream, unsigned flags))                                \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, false,                                             \
      (CUstream * stream, unsigned flags, int priority))                                                               \
    X(cuStreamDestroy, cuStreamDestroy, 2000, false, (CUstream stream))                                                \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000, false, (CUstream stream))                                             \
    X(cuEventRecord, cuEventRecord, 2000, false, (CUevent event, CUstream stream))                                     \
    X(cuEventRecord_ptsz, cuEventRecord, 7000, true, (CUevent event, CUstream stream))                                 \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, false, (CUevent event, CUstream stream, unsigned flags))  \
    X(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, 11010, true,                                                \
      (CUevent event, CUstream stream, unsigned flags))                                                                \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, false, (CUstream stream, CUevent event, unsigned flags))             \
    X(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, 7000, true, (CUstream stream, CUevent event, unsigned flags))         \
    X(cuEventDestroy, cuEventDestroy, 2000, false, (CUevent event))                                                    \
    X(cuEventDestroy_v2, cuEventDestroy, 4000, false, (CUevent event))                                                 \
    X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, false, (CUstream stream))                                     \
    X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, 10000, true, (CUstream stream))                                 \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, false, (CUstream stream, CUstreamCaptureMode mode))        \
    X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, 10010, true, (CUstream stream, CUstreamCaptureMode mode))    \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, false,                                          \
      (CUstream stream, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t count,           \
       CUstreamCaptureMode mode))                                                                                      \
    X(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, 12030, true,                                      \
      (CUstream stream, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t count,           \
       CUstreamCaptureMode mode))                                                                                      \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, false, (CUstream stream, CUgraph * graph))                        \
    X(cuStreamEndCapture_ptsz, cuStreamEndCapture, 10000, true, (CUstream stream, CUgraph * graph))                    \
    X(cuCtxCreate, cuCtxCreate, 2000, false, (CUcontext * context, unsigned flags, CUdevice device))                   \
    X(cuCtxCreate_v2, cuCtxCreate, 3020, false, (CUcontext * context, unsigned flags, CUdevice device))                \
    X(cuCtxCreate_v3, cuCtxCreate, 11040, false,                                                                       \
      (CUcontext * context, CUexecAffinityParam * affinities, int count, unsigned flags, CUdevice device))             \
    X(cuCtxCreate_v4, cuCtxCreate, 12050, false,                                                                       \
      (CUcontext * context, CUctxCreateParams * parameters, unsigned flags, CUdevice device))                          \
    X(cuGreenCtxCreate, cuGreenCtxCreate, 12040, false,                                                                \
      (CUgreenCtx * context, void *resources, CUdevice device, unsigned flags))                                        \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, false, (CUdevice device, CUmemoryPool pool))                      \
    X(cuMemSetMemPool, cuMemSetMemPool, 13000, false,                                                                  \
      (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool))                                         \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, false,                                                      \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                                                 \
    X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, false,                                                            \
      (CUmemoryPool pool, const CUmemAccessDesc *access, size_t count))                                                \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, false, (CUmemoryPool pool, size_t keep_bytes))                          \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, false,                                                      \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                                                 \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, false, (CUdevice device))                                \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, false, (CUdevice device))                            \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, false, (CUcontext peer, unsigned flags))                     \
    X(cuGetProcAddress, cuGetProcAddress, 11030, false,                                                                \
      (const char *name, void **function, int version, uint64_t flags))                                                \
    X(cuGetProcAddress_v2, cuGetProcAddress, 12000, false,                                                             \
      (const char *name, void **function, int version, uint64_t flags, CUdriverProcAddressQueryResult *status))

/* What they need of the driver besides; any may be missing in an old one. */
#define WEIR__NEEDED_LIST(X)                                                                                           \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuCtxGetCurrent, (CUcontext * context))                                                                          \
    X(cuCtxSetCurrent, (CUcontext context))                                                                            \
    X(cuCtxGetDevice, (CUdevice * device))                                                                             \
    X(cuCtxDisablePeerAccess, (CUcontext peer))                                                                        \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                                          \
    X(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device))                                               \
    X(cuMemPoolGetAccess, (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation * location))                    \
    X(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active))                                     \
    X(cuStreamGetCtx, (CUstream stream, CUcontext * context))

struct weir__real {
#define WEIR__REAL_HOOKED(symbol, name, version, own, parameters) CUresult(*symbol) parameters;
#define WEIR__REAL_NEEDED(symbol, parameters)                     CUresult(*symbol) parameters;
    WEIR__HOOK_LIST(WEIR__REAL_HOOKED)
    WEIR__NEEDED_LIST(WEIR__REAL_NEEDED)
#undef WEIR__REAL_HOOKED
#undef WEIR__REAL_NEEDED
};

typedef void weir__function(void);

struct weir__hook {
    const char *symbol, *name;
    int version;
    bool own_stream;
    weir__function *ours;
    size_t real; /* offset of the driver's in struct weir__real */
};
extern const struct weir__hook weir__hooks[];
extern const size_t weir__hook_count;

/* Gives: the driver's own entries; NULL while no driver is loaded. An entry that it lacks is NULL. */
const struct weir__real *weir__real(void);
/* The same; with a driver that a program calls by name there is one. */
const struct weir__real *weir__real_needed(void);

#define WEIR__DECLARE_HOOK(symbol, name, version, own, parameters) WEIR_API CUresult symbol parameters;
WEIR__HOOK_LIST(WEIR__DECLARE_HOOK)
#undef WEIR__DECLARE_HOOK

#endif
