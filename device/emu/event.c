/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/event.h"

#include <stdlib.h>

#include "device/emu/capture.h"
#include "device/emu/clock.h"

static struct emu_slots events = EMU_SLOTS_INITIALIZER(struct CUevent_st);

CUresult emu_event_create(CUcontext context, unsigned flags, CUevent *event) {
    CUevent made = emu_slots_take(&events);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    made->context = context;
    made->flags = flags;
    made->born = made->started;
    made->recorded = 0;
    made->point = (struct emu_point){0};
    made->captured = false;
    made->capture = NULL;
    *event = made;
    return CUDA_SUCCESS;
}

bool emu_event_alive(CUevent event) { return emu_slots_alive(&events, event); }

CUresult emu_event_destroy(CUevent event) {
    if (!emu_event_alive(event)) return CUDA_ERROR_INVALID_HANDLE;
    emu_watch_drop(&event->moment);
    emu_slots_give(&events, event);
    return CUDA_SUCCESS;
}

void emu_events_forget(CUcontext context) {
    for (CUevent event = emu_slots_next(&events, NULL); event != NULL; event = emu_slots_next(&events, event))
        if (event->context == context) emu_event_destroy(event);
}

void emu_events_leave_capture(struct emu_capture *capture) {
    for (CUevent event = emu_slots_next(&events, NULL); event != NULL; event = emu_slots_next(&events, event))
        if (event->capture == capture) event->capture = NULL;
}

/* The push may wait for room, and another thread may record or destroy the event meanwhile: the record with the higher
 * number wins, whoever publishes last. */
static CUresult record(CUevent event, struct emu_queue *queue, struct emu_point *after, size_t after_count) {
    const uint64_t sequence = ++event->started;
    const struct emu_operation record = {.kind = EMU_RECORD,
                                         .described = true,
                                         .after_many = after,
                                         .after_many_count = after_count,
                                         .record = {event, sequence}};
    struct emu_point point;
    const CUresult code = emu_queue_push(queue, &record, &point);
    if (code != CUDA_SUCCESS || sequence <= event->born || sequence <= event->recorded) return code;
    event->recorded = sequence;
    event->point = point;
    event->captured = false;
    event->capture = NULL;
    emu_watch_drop(&event->moment);
    event->moment = emu_watch_now(queue);
    return CUDA_SUCCESS;
}

CUresult emu_event_record(CUevent event, struct emu_queue *queue) {
    return event->context == queue->context ? record(event, queue, NULL, 0) : CUDA_ERROR_INVALID_HANDLE;
}

/* A queue of its own, which no stream has, comes after the ends of all others. */
CUresult emu_event_record_all(CUevent event) {
    const CUcontext context = event->context;
    size_t queues = 0, count = 0;
    struct emu_queue *own = emu_queue_take(context, false);
    if (own == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct emu_queue *queue = context->queues; queue != NULL; queue = queue->next) queues++;
    struct emu_point *ends = calloc(queues, sizeof *ends);
    for (struct emu_queue *queue = context->queues; queue != NULL && ends != NULL; queue = queue->next) {
        emu_watch_join_queue(own, queue);
        if (queue->completed != queue->pushed) ends[count++] = emu_queue_end(queue);
    }
    const CUresult code = ends != NULL ? record(event, own, ends, count) : CUDA_ERROR_OUT_OF_MEMORY;
    if (code != CUDA_SUCCESS) free(ends);
    emu_queue_give(own);
    return code;
}

struct emu_point emu_event_point(CUevent event) {
    return event->point;
}

CUresult emu_event_query(CUevent event) {
    const CUresult legal = emu_capture_check_event(event);
    if (legal != CUDA_SUCCESS) return legal;
    if (!emu_point_passed(event->point)) {
        emu_clock->looked();
        return CUDA_ERROR_NOT_READY;
    }
    emu_watch_host_saw(event->moment);
    return CUDA_SUCCESS;
}

CUresult emu_event_wait(CUevent event) {
    const CUresult legal = emu_capture_check_event(event);
    if (legal != CUDA_SUCCESS) return legal;
    return emu_point_wait(event->point, emu_watch_copy(event->moment));
}

void emu_event_passed(CUevent event, uint64_t sequence) {
    if (sequence <= event->passed || (event->flags & CU_EVENT_DISABLE_TIMING)) return;
    event->passed = sequence;
    event->passed_ns = emu_clock->now_ns();
}

/* Reads the time of the latest record. */
static CUresult read_time(CUevent event, uint64_t *ns) {
    *ns = event->passed_ns;
    if (event->recorded == 0 || (event->flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_HANDLE;
    return event->passed >= event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult emu_event_time(CUevent event, uint64_t *ns) {
    if (event->captured) return emu_capture_check_event(event);
    return read_time(event, ns);
}

CUresult emu_event_elapsed(CUevent begin, CUevent end, float *ms) {
    uint64_t begin_ns, end_ns;
    if (begin->captured || end->captured) return emu_capture_check_event(begin->captured ? begin : end);
    const CUresult first = read_time(begin, &begin_ns), second = read_time(end, &end_ns);
    if (first != CUDA_SUCCESS && first != CUDA_ERROR_NOT_READY) return first;
    if (second != CUDA_SUCCESS) return second;
    if (first != CUDA_SUCCESS) return first;
    emu_watch_host_saw(begin->moment); /* there is a time, so both have passed */
    emu_watch_host_saw(end->moment);
    *ms = (float)((double)end_ns - (double)begin_ns) / 1e6f;
    return CUDA_SUCCESS;
}
