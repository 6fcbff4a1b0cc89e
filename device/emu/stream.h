/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EMU_STREAM_H
#define WEIR_EMU_STREAM_H

#include "device/emu/queue.h"
#include "device/emu/slots.h"

struct CUstream_st {
    struct emu_slot slot;
    struct emu_queue *queue;
};

CUresult emu_stream_create(CUcontext context, bool blocking, CUstream *stream);
/* What is queued still happens; the handle may be given to the next stream at once. */
CUresult emu_stream_destroy(CUstream stream);
/* The queue of a stream; 0 and CU_STREAM_LEGACY: the current context's legacy stream. CUDA_ERROR_INVALID_HANDLE. */
CUresult emu_stream_queue(CUcontext current, CUstream stream, struct emu_queue **queue);
/* The context is gone: destroys its streams. */
void emu_streams_forget(CUcontext context);

#endif
