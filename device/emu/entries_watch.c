/* SPDX-License-Identifier: Apache-2.0 */
/* Entries by which pools and programs tell the watch what it can't see. They are no calls of the driver: they cost
 * nothing, let no other thread go on, and may be called in host functions and with a lock held. */
#include <stdlib.h>

#include "device/emu/event.h"
#include "device/emu/machine.h"
#include "device/emu/memory.h"
#include "device/emu/queue.h"
#include "device/emu/stream.h"
#include "device/emu/watch_inside.h"
#include "device/emu/watch_report.h"

/* CUDA_SUCCESS with *watching false when there is nothing to do. */
static CUresult begin(bool *watching) {
    *watching = false;
    const CUresult ready = emu_in_host_function ? CUDA_SUCCESS : emu_ready();
    if (ready == CUDA_SUCCESS) *watching = emu_watch_on();
    return ready;
}

static void find_device(void *self, const struct emu_piece *piece) {
    CUdevice *device = self;
    if (*device < 0) *device = piece->device;
}

/* The queue of a stream; a default stream is that of the device where the bytes lie. */
static struct emu_queue *queue_of(CUstream stream, const void *address, size_t bytes) {
    CUdevice device = -1;
    CUcontext context = NULL;
    struct emu_queue *queue = NULL;
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        emu_memory_pieces((uintptr_t)address, bytes, find_device, &device);
    if (device >= 0) context = emu_contexts(device);
    while (context != NULL && !context->primary) context = context->next;
    if (context == NULL) context = emu_current();
    if (context == NULL && (stream == NULL || (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)) return NULL;
    return emu_stream_queue(context, stream, &queue) == CUDA_SUCCESS ? queue : NULL;
}

static void visit(const void *address, size_t bytes, struct emu_visit how) {
    emu_report_begin();
    emu_watch_access((uintptr_t)address, bytes, how);
    emu_report_end();
}

/* ---- pools ------------------------------------------------------------------------------------------------------ */

static CUresult hand_out(const void *address, size_t bytes, CUstream stream) {
    struct emu_visit how = {.act = EMU_ACT_HAND_OUT,
                            .access = {0, EMU_BY_HOST, emu_label("hand-out", EMU_ACT_HAND_OUT)},
                            .known = emu_watch_host()};
    if (stream != WEIR_EMU_ANY_STREAM) {
        struct emu_queue *queue = queue_of(stream, address, bytes);
        if (queue == NULL) return CUDA_ERROR_INVALID_HANDLE;
        emu_watch_refresh(queue);
        how.access.queue = queue->index;
        how.access.position = queue->pushed;
        how.known = queue->known;
    }
    visit(address, bytes, how);
    return CUDA_SUCCESS;
}

CUresult weirEmuHandOut(const void *address, size_t bytes, CUstream stream) {
    bool watching;
    CUresult code = begin(&watching);
    if (!watching) return code;
    emu_lock();
    code = hand_out(address, bytes, stream);
    emu_unlock();
    return code;
}

/* Where the bytes become unused, and all that comes before. */
struct ends {
    struct emu_access *at;
    size_t count;
    struct emu_known *known;
    bool lenient;
};

static void add_end(struct ends *ends, const struct emu_queue *queue, uint64_t position, struct emu_known *known) {
    if (!emu_known_join(&ends->known, known) || !emu_known_raise(&ends->known, queue->index, position))
        emu_watch_give_up();
    ends->at[ends->count++] = (struct emu_access){position, queue->index, emu_label("free", EMU_ACT_TAKE)};
}

static void collect_ends(struct ends *ends, const void *address, size_t bytes, const CUstream *streams, size_t count,
                         CUevent event) {
    ends->known = emu_known_keep(emu_watch_host());
    for (size_t i = 0; i < count; i++) {
        struct emu_queue *queue = streams[i] != WEIR_EMU_ANY_STREAM ? queue_of(streams[i], address, bytes) : NULL;
        if (queue != NULL)
            add_end(ends, queue, queue->pushed, queue->known);
        else
            ends->lenient = true;
    }
    if (event != NULL && event->moment.queue != NULL)
        add_end(ends, event->moment.queue, event->moment.position, event->moment.known);
}

static CUresult take_back(const void *address, size_t bytes, const CUstream *streams, size_t count, CUevent event) {
    if (event != NULL && !emu_event_alive(event)) return CUDA_ERROR_INVALID_HANDLE;
    struct ends ends = {.at = calloc(count + 1, sizeof *ends.at)};
    if (ends.at == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    collect_ends(&ends, address, bytes, streams, count, event);
    const struct emu_access by_host = {0, EMU_BY_HOST, emu_label("free", EMU_ACT_TAKE)};
    visit(address, bytes,
          (struct emu_visit){.act = EMU_ACT_TAKE,
                             .access = ends.count > 0 ? ends.at[0] : by_host,
                             .known = ends.known,
                             .ends = ends.at,
                             .end_count = ends.count,
                             .lenient = ends.lenient});
    emu_known_drop(ends.known);
    free(ends.at);
    return CUDA_SUCCESS;
}

CUresult weirEmuTakeBack(const void *address, size_t bytes, const CUstream *streams, size_t count, CUevent event) {
    bool watching;
    CUresult code = begin(&watching);
    if (!watching) return code;
    if (count > 0 && streams == NULL) return CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    code = take_back(address, bytes, streams, count, event);
    emu_unlock();
    return code;
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

CUresult weirEmuHostAccess(const void *address, size_t bytes, int write) {
    bool watching;
    const CUresult code = begin(&watching);
    if (!watching) return code;
    const enum emu_act act = write ? EMU_ACT_HOST_WRITE : EMU_ACT_HOST_READ;
    emu_lock();
    visit(address, bytes,
          (struct emu_visit){
              .act = act, .access = {0, EMU_BY_HOST, emu_label("the host", act)}, .known = emu_watch_host()});
    emu_unlock();
    return CUDA_SUCCESS;
}
