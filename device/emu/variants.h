/* SPDX-License-Identifier: Apache-2.0 */
/* Exported names that only pass on to an entry: those in which stream 0 is the calling thread's own stream (_ptsz), or
 * which work on that stream (_ptds), and earlier editions with the same parameters. They are not counted for
 * themselves: costs and faults are those of the entry. */
#ifndef WEIR_EMU_VARIANTS_H
#define WEIR_EMU_VARIANTS_H

#include "device/emu/entries.h"

static inline CUstream emu_own_stream(CUstream stream) { return stream != NULL ? stream : CU_STREAM_PER_THREAD; }

/* X(symbol, entry, parameters, arguments of the entry) */
#define EMU_OWN_STREAM_LIST(X)                                                                                         \
    X(cuMemcpyAsync_ptsz, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),            \
      (to, from, bytes, emu_own_stream(stream)))                                                                       \
    X(cuMemsetD8Async_ptsz, cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t count, CUstream stream),     \
      (at, value, count, emu_own_stream(stream)))                                                                      \
    X(cuStreamSynchronize_ptsz, cuStreamSynchronize, (CUstream stream), (emu_own_stream(stream)))                      \
    X(cuStreamQuery_ptsz, cuStreamQuery, (CUstream stream), (emu_own_stream(stream)))                                  \
    X(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),                     \
      (emu_own_stream(stream), event, flags))                                                                          \
    X(cuEventRecord_ptsz, cuEventRecord, (CUevent event, CUstream stream), (event, emu_own_stream(stream)))            \
    X(cuLaunchHostFunc_ptsz, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument),                   \
      (emu_own_stream(stream), function, argument))

#define EMU_EARLIER_LIST(X)                                                                                            \
    X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream))                                                \
    X(cuEventDestroy, cuEventDestroy_v2, (CUevent event), (event))                                                     \
    X(cuMemHostRegister, cuMemHostRegister_v2, (void *address, size_t bytes, unsigned flags), (address, bytes, flags)) \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device))                            \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context), (context))                                           \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context), (context))

#define EMU_VARIANT_LIST(X) EMU_OWN_STREAM_LIST(X) EMU_EARLIER_LIST(X)

#endif
