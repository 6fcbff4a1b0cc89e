/* SPDX-License-Identifier: Apache-2.0 */
/* Exported names that only pass on to an entry: those in which stream 0 is the calling thread's own stream (_ptsz), or
 * which work on that stream (_ptds), and earlier editions with the same parameters. They are not counted for
 * themselves: costs and faults are those of the entry. */
#ifndef WEIR_EMU_VARIANTS_H
#define WEIR_EMU_VARIANTS_H

#include <stdbool.h>

#include "device/emu/entries.h"

/* Set while a _ptds variant runs its entry: the default stream is then the thread's own. */
extern _Thread_local bool emu_default_is_own;

static inline CUstream emu_own_stream(CUstream stream) { return stream != NULL ? stream : CU_STREAM_PER_THREAD; }

/* X(symbol, entry, parameters, arguments of the entry): where a stream is named, */
#define EMU_OWN_STREAM_LIST(X)                                                                                         \
    X(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),           \
      (event, emu_own_stream(stream), flags))                                                                          \
    X(cuEventRecord_ptsz, cuEventRecord, (CUevent event, CUstream stream), (event, emu_own_stream(stream)))            \
    X(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel,                                                       \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters),                                   \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, emu_own_stream(stream), parameters)) \
    X(cuLaunchHostFunc_ptsz, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument),                   \
      (emu_own_stream(stream), function, argument))                                                                    \
    X(cuLaunchKernel_ptsz, cuLaunchKernel,                                                                             \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra),                     \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, emu_own_stream(stream), parameters,  \
       extra))                                                                                                         \
    X(cuMemAllocAsync_ptsz, cuMemAllocAsync, (CUdeviceptr * address, size_t bytes, CUstream stream),                   \
      (address, bytes, emu_own_stream(stream)))                                                                        \
    X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync,                                                           \
      (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream),                                       \
      (address, bytes, pool, emu_own_stream(stream)))                                                                  \
    X(cuMemFreeAsync_ptsz, cuMemFreeAsync, (CUdeviceptr address, CUstream stream), (address, emu_own_stream(stream)))  \
    X(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync_v2,                                                               \
      (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream),                    \
      (address, bytes, location, flags, emu_own_stream(stream)))                                                       \
    X(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream),                       \
      (copy, emu_own_stream(stream)))                                                                                  \
    X(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream),                       \
      (copy, emu_own_stream(stream)))                                                                                  \
    X(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream),                \
      (copy, emu_own_stream(stream)))                                                                                  \
    X(cuMemcpyAsync_ptsz, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),            \
      (to, from, bytes, emu_own_stream(stream)))                                                                       \
    X(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2,                                                                 \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, emu_own_stream(stream)))    \
    X(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),    \
      (to, from, bytes, emu_own_stream(stream)))                                                                       \
    X(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2,                                                                 \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), (to, from, bytes, emu_own_stream(stream)))    \
    X(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync,                                                                       \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream), \
      (to, to_context, from, from_context, bytes, emu_own_stream(stream)))                                             \
    X(cuMemsetD16Async_ptsz, cuMemsetD16Async, (CUdeviceptr at, unsigned short value, size_t count, CUstream stream),  \
      (at, value, count, emu_own_stream(stream)))                                                                      \
    X(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async,                                                                     \
      (CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),              \
      (at, pitch, value, width, height, emu_own_stream(stream)))                                                       \
    X(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async,                                                                     \
      (CUdeviceptr at, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream),                    \
      (at, pitch, value, width, height, emu_own_stream(stream)))                                                       \
    X(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async,                                                                       \
      (CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),               \
      (at, pitch, value, width, height, emu_own_stream(stream)))                                                       \
    X(cuMemsetD32Async_ptsz, cuMemsetD32Async, (CUdeviceptr at, unsigned value, size_t count, CUstream stream),        \
      (at, value, count, emu_own_stream(stream)))                                                                      \
    X(cuMemsetD8Async_ptsz, cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t count, CUstream stream),     \
      (at, value, count, emu_own_stream(stream)))                                                                      \
    X(cuStreamAddCallback_ptsz, cuStreamAddCallback,                                                                   \
      (CUstream stream, CUstreamCallback function, void *argument, unsigned flags),                                    \
      (emu_own_stream(stream), function, argument, flags))                                                             \
    X(cuStreamCopyAttributes_ptsz, cuStreamCopyAttributes, (CUstream to, CUstream from),                               \
      (emu_own_stream(to), emu_own_stream(from)))                                                                      \
    X(cuStreamGetAttribute_ptsz, cuStreamGetAttribute,                                                                 \
      (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue * value),                                          \
      (emu_own_stream(stream), attribute, value))                                                                      \
    X(cuStreamGetCtx_v2_ptsz, cuStreamGetCtx_v2, (CUstream stream, CUcontext * context, CUgreenCtx * green),           \
      (emu_own_stream(stream), context, green))                                                                        \
    X(cuStreamGetCtx_ptsz, cuStreamGetCtx, (CUstream stream, CUcontext * context), (emu_own_stream(stream), context))  \
    X(cuStreamGetDevice_ptsz, cuStreamGetDevice, (CUstream stream, CUdevice * device),                                 \
      (emu_own_stream(stream), device))                                                                                \
    X(cuStreamGetFlags_ptsz, cuStreamGetFlags, (CUstream stream, unsigned *flags), (emu_own_stream(stream), flags))    \
    X(cuStreamGetId_ptsz, cuStreamGetId, (CUstream stream, unsigned long long *id), (emu_own_stream(stream), id))      \
    X(cuStreamGetPriority_ptsz, cuStreamGetPriority, (CUstream stream, int *priority),                                 \
      (emu_own_stream(stream), priority))                                                                              \
    X(cuStreamQuery_ptsz, cuStreamQuery, (CUstream stream), (emu_own_stream(stream)))                                  \
    X(cuStreamSetAttribute_ptsz, cuStreamSetAttribute,                                                                 \
      (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),                                     \
      (emu_own_stream(stream), attribute, value))                                                                      \
    X(cuStreamSynchronize_ptsz, cuStreamSynchronize, (CUstream stream), (emu_own_stream(stream)))                      \
    X(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),                     \
      (emu_own_stream(stream), event, flags))

/* where none is named, */
#define EMU_OWN_DEFAULT_LIST(X)                                                                                        \
    X(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy))                        \
    X(cuMemcpy2D_v2_ptds, cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), (copy))                                          \
    X(cuMemcpy3DPeer_ptds, cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy), (copy))                                   \
    X(cuMemcpy3D_v2_ptds, cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), (copy))                                          \
    X(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))      \
    X(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))            \
    X(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))      \
    X(cuMemcpyPeer_ptds, cuMemcpyPeer,                                                                                 \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),                  \
      (to, to_context, from, from_context, bytes))                                                                     \
    X(cuMemcpy_ptds, cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))                    \
    X(cuMemsetD16_v2_ptds, cuMemsetD16_v2, (CUdeviceptr at, unsigned short value, size_t count), (at, value, count))   \
    X(cuMemsetD2D16_v2_ptds, cuMemsetD2D16_v2,                                                                         \
      (CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height),                               \
      (at, pitch, value, width, height))                                                                               \
    X(cuMemsetD2D32_v2_ptds, cuMemsetD2D32_v2,                                                                         \
      (CUdeviceptr at, size_t pitch, unsigned value, size_t width, size_t height), (at, pitch, value, width, height))  \
    X(cuMemsetD2D8_v2_ptds, cuMemsetD2D8_v2,                                                                           \
      (CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height),                                \
      (at, pitch, value, width, height))                                                                               \
    X(cuMemsetD32_v2_ptds, cuMemsetD32_v2, (CUdeviceptr at, unsigned value, size_t count), (at, value, count))         \
    X(cuMemsetD8_v2_ptds, cuMemsetD8_v2, (CUdeviceptr at, unsigned char value, size_t count), (at, value, count))

/* and where another edition does the same. */
#define EMU_EDITION_LIST(X)                                                                                            \
    X(cuCtxCreate, cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device))   \
    X(cuCtxDestroy, cuCtxDestroy_v2, (CUcontext context), (context))                                                   \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context), (context))                                           \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context), (context))                                           \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device), (uuid, device))                           \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device))                            \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (CUdevice device), (device))                                \
    X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags), (device, flags))   \
    X(cuEventDestroy, cuEventDestroy_v2, (CUevent event), (event))                                                     \
    X(cuEventElapsedTime_v2, cuEventElapsedTime, (float *ms, CUevent begin, CUevent end), (ms, begin, end))            \
    X(cuMemHostRegister, cuMemHostRegister_v2, (void *address, size_t bytes, unsigned flags), (address, bytes, flags)) \
    X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream))

/* Written by hand: its stream is named inside a structure. */
#define EMU_OWN_INSIDE_LIST(X)                                                                                         \
    X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx,                                                                         \
      (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra), ())

/* capture and graphs, of both kinds, */
#define EMU_CAPTURE_VARIANT_LIST(X)                                                                                    \
    X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),              \
      (emu_own_stream(stream), mode))                                                                                  \
    X(cuStreamEndCapture_ptsz, cuStreamEndCapture, (CUstream stream, CUgraph * graph),                                 \
      (emu_own_stream(stream), graph))                                                                                 \
    X(cuStreamIsCapturing_ptsz, cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status),                \
      (emu_own_stream(stream), status))                                                                                \
    X(cuStreamGetCaptureInfo_ptsz, cuStreamGetCaptureInfo,                                                             \
      (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id), (emu_own_stream(stream), status, id))          \
    X(cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v2,                                                       \
      (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id, CUgraph * graph, const CUgraphNode **nodes,     \
       size_t *count),                                                                                                 \
      (emu_own_stream(stream), status, id, graph, nodes, count))                                                       \
    X(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo_v3,                                                       \
      (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id, CUgraph * graph, const CUgraphNode **nodes,     \
       const CUgraphEdgeData **edges, size_t *count),                                                                  \
      (emu_own_stream(stream), status, id, graph, nodes, edges, count))                                                \
    X(cuStreamUpdateCaptureDependencies_ptsz, cuStreamUpdateCaptureDependencies,                                       \
      (CUstream stream, CUgraphNode * nodes, size_t count, unsigned flags),                                            \
      (emu_own_stream(stream), nodes, count, flags))                                                                   \
    X(cuStreamUpdateCaptureDependencies_v2_ptsz, cuStreamUpdateCaptureDependencies_v2,                                 \
      (CUstream stream, CUgraphNode * nodes, const CUgraphEdgeData *edges, size_t count, unsigned flags),              \
      (emu_own_stream(stream), nodes, edges, count, flags))                                                            \
    X(cuGraphUpload_ptsz, cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, emu_own_stream(stream)))          \
    X(cuGraphLaunch_ptsz, cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, emu_own_stream(stream)))          \
    X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture_v2, (CUstream stream),                                           \
      (emu_own_stream(stream), CU_STREAM_CAPTURE_MODE_GLOBAL))                                                         \
    X(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams,                                                 \
      (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * params), (exec, graph, params))              \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream), (stream, CU_STREAM_CAPTURE_MODE_GLOBAL))       \
    X(cuGraphInstantiate, cuGraphInstantiate_v2,                                                                       \
      (CUgraphExec * exec, CUgraph graph, CUgraphNode * at_fault, char *text, size_t room),                            \
      (exec, graph, at_fault, text, room))

#define EMU_VARIANT_LIST(X)                                                                                            \
    EMU_OWN_STREAM_LIST(X)                                                                                             \
    EMU_CAPTURE_VARIANT_LIST(X) EMU_OWN_DEFAULT_LIST(X) EMU_OWN_INSIDE_LIST(X) EMU_EDITION_LIST(X)

#endif
