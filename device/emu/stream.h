/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: handles over queues. All functions need the lock. */
#ifndef WEIR_EMU_STREAM_H
#define WEIR_EMU_STREAM_H

#include "device/emu/queue.h"
#include "device/emu/slots.h"

struct CUstream_st {
    struct emu_slot slot;
    struct emu_queue *queue;
    unsigned flags;
    int priority;
    uint64_t id;     /* never used again, as a handle is */
    uint64_t thread; /* whose default stream it is; 0: an ordinary one */
};

CUresult emu_stream_create(CUcontext context, unsigned flags, int priority, CUstream *stream);
/* What is queued still happens; the handle may be given to the next stream at once. */
CUresult emu_stream_destroy(CUstream stream);
/* The queue of a stream; 0 and CU_STREAM_LEGACY: the current context's legacy stream; CU_STREAM_PER_THREAD: the calling
 * thread's own there, made when it is first named. CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_OUT_OF_MEMORY. */
CUresult emu_stream_queue(CUcontext current, CUstream stream, struct emu_queue **queue);
/* The handle behind a name: NULL for the legacy stream. */
CUresult emu_stream_find(CUcontext current, CUstream name, CUstream *stream);
/* The context is gone: destroys its streams. */
void emu_streams_forget(CUcontext context);

#endif
