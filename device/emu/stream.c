/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/stream.h"

#include "device/emu/capture.h"

static struct emu_slots streams = EMU_SLOTS_INITIALIZER(struct CUstream_st);
static uint64_t last_id, last_thread;

/* ---- handles ---------------------------------------------------------------------------------------------------- */

CUresult emu_stream_create(CUcontext context, unsigned flags, int priority, CUstream *stream) {
    struct emu_queue *queue = emu_queue_take(context, flags == CU_STREAM_DEFAULT);
    CUstream made = queue != NULL ? emu_slots_take(&streams) : NULL;
    if (made == NULL) {
        if (queue != NULL) emu_queue_give(queue);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->queue = queue;
    made->flags = flags;
    made->priority = priority;
    made->id = ++last_id;
    made->thread = 0;
    *stream = made;
    return CUDA_SUCCESS;
}

static bool alive(CUstream stream) { return emu_slots_alive(&streams, stream); }

static void destroy(CUstream stream) {
    emu_capture_forget(stream->queue);
    emu_queue_give(stream->queue);
    emu_slots_give(&streams, stream);
}

CUresult emu_stream_destroy(CUstream stream) {
    if (!alive(stream) || stream->thread != 0) return CUDA_ERROR_INVALID_HANDLE;
    destroy(stream);
    return CUDA_SUCCESS;
}

void emu_streams_forget(CUcontext context) {
    for (CUstream stream = emu_slots_next(&streams, NULL); stream != NULL; stream = emu_slots_next(&streams, stream))
        if (stream->queue->context == context) destroy(stream);
}

/* ---- the per-thread default stream ------------------------------------------------------------------------------ */

static pthread_key_t thread_ends;
static pthread_once_t thread_ends_made = PTHREAD_ONCE_INIT;
static _Thread_local uint64_t this_thread;

/* A thread's default streams go with it. */
static void end_thread(void *number) {
    emu_lock();
    for (CUstream stream = emu_slots_next(&streams, NULL); stream != NULL; stream = emu_slots_next(&streams, stream))
        if (stream->thread == (uint64_t)(uintptr_t)number) destroy(stream);
    emu_unlock();
}

static void make_thread_ends(void) { pthread_key_create(&thread_ends, end_thread); }

static CUresult own_stream(CUcontext context, CUstream *stream) {
    static _Thread_local CUstream last;
    if (last != NULL && alive(last) && last->thread == this_thread && last->queue->context == context) {
        *stream = last;
        return CUDA_SUCCESS;
    }
    for (CUstream each = emu_slots_next(&streams, NULL); each != NULL; each = emu_slots_next(&streams, each)) {
        if (each->thread == 0 || each->thread != this_thread || each->queue->context != context) continue;
        *stream = last = each;
        return CUDA_SUCCESS;
    }
    if (this_thread == 0) {
        this_thread = ++last_thread;
        pthread_once(&thread_ends_made, make_thread_ends);
        pthread_setspecific(thread_ends, (void *)(uintptr_t)this_thread);
    }
    const CUresult code = emu_stream_create(context, CU_STREAM_DEFAULT, 0, stream);
    if (code != CUDA_SUCCESS) return code;
    (*stream)->thread = this_thread;
    last = *stream;
    return CUDA_SUCCESS;
}

/* ---- finding ---------------------------------------------------------------------------------------------------- */

CUresult emu_stream_find(CUcontext current, CUstream name, CUstream *stream) {
    *stream = NULL;
    if (name == NULL || name == CU_STREAM_LEGACY) return CUDA_SUCCESS;
    if (name == CU_STREAM_PER_THREAD) return own_stream(current, stream);
    if (!alive(name)) return CUDA_ERROR_INVALID_HANDLE;
    *stream = name;
    return CUDA_SUCCESS;
}

CUresult emu_stream_queue(CUcontext current, CUstream stream, struct emu_queue **queue) {
    CUstream found;
    const CUresult code = emu_stream_find(current, stream, &found);
    if (code == CUDA_SUCCESS) *queue = found != NULL ? found->queue : current->legacy;
    return code;
}
