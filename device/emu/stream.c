/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/stream.h"

static struct emu_slots streams = EMU_SLOTS_INITIALIZER(struct CUstream_st);

CUresult emu_stream_create(CUcontext context, bool blocking, CUstream *stream) {
    struct emu_queue *queue = emu_queue_take(context, blocking);
    CUstream made = queue != NULL ? emu_slots_take(&streams) : NULL;
    if (made == NULL) {
        if (queue != NULL) emu_queue_give(queue);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->queue = queue;
    *stream = made;
    return CUDA_SUCCESS;
}

CUresult emu_stream_destroy(CUstream stream) {
    if (!emu_slots_alive(&streams, stream)) return CUDA_ERROR_INVALID_HANDLE;
    emu_queue_give(stream->queue);
    emu_slots_give(&streams, stream);
    return CUDA_SUCCESS;
}

CUresult emu_stream_queue(CUcontext current, CUstream stream, struct emu_queue **queue) {
    if (stream == NULL || stream == CU_STREAM_LEGACY) {
        *queue = current->legacy;
        return CUDA_SUCCESS;
    }
    if (!emu_slots_alive(&streams, stream)) return CUDA_ERROR_INVALID_HANDLE;
    *queue = stream->queue;
    return CUDA_SUCCESS;
}

void emu_streams_forget(CUcontext context) {
    for (CUstream stream = emu_slots_next(&streams, NULL); stream != NULL; stream = emu_slots_next(&streams, stream))
        if (stream->queue->context == context) emu_stream_destroy(stream);
}
