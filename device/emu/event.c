/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/event.h"

#include "device/emu/clock.h"

static struct emu_slots events = EMU_SLOTS_INITIALIZER(struct CUevent_st);

CUresult emu_event_create(CUcontext context, unsigned flags, CUevent *event) {
    CUevent made = emu_slots_take(&events);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!made->ready) pthread_mutex_init(&made->lock, NULL);
    made->ready = true;
    pthread_mutex_lock(&made->lock);
    made->context = context;
    made->flags = flags;
    made->recorded = 0;
    made->point = (struct emu_point){0};
    pthread_mutex_unlock(&made->lock);
    *event = made;
    return CUDA_SUCCESS;
}

bool emu_event_alive(CUevent event) { return emu_slots_alive(&events, event); }

CUresult emu_event_destroy(CUevent event) {
    if (!emu_event_alive(event)) return CUDA_ERROR_INVALID_HANDLE;
    emu_slots_give(&events, event);
    return CUDA_SUCCESS;
}

void emu_events_forget(CUcontext context) {
    for (CUevent event = emu_slots_next(&events, NULL); event != NULL; event = emu_slots_next(&events, event))
        if (event->context == context) emu_slots_give(&events, event);
}

/* Two threads may record one event at once: the record with the higher number wins, whoever publishes last. */
CUresult emu_event_record(CUevent event, struct emu_queue *queue) {
    if (event->context != queue->context) return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&event->lock);
    const uint64_t sequence = ++event->started;
    pthread_mutex_unlock(&event->lock);

    const struct emu_operation record = {.kind = EMU_RECORD, .record = {event, sequence}};
    struct emu_point point;
    const CUresult code = emu_queue_push(queue, &record, &point);
    if (code != CUDA_SUCCESS) return code;

    pthread_mutex_lock(&event->lock);
    if (sequence > event->recorded) {
        event->recorded = sequence;
        event->point = point;
    }
    pthread_mutex_unlock(&event->lock);
    return CUDA_SUCCESS;
}

struct emu_point emu_event_point(CUevent event) {
    pthread_mutex_lock(&event->lock);
    const struct emu_point point = event->point;
    pthread_mutex_unlock(&event->lock);
    return point;
}

void emu_event_passed(CUevent event, uint64_t sequence) {
    pthread_mutex_lock(&event->lock);
    if (sequence > event->passed && !(event->flags & CU_EVENT_DISABLE_TIMING)) {
        event->passed = sequence;
        event->passed_ns = emu_clock_now_ns();
    }
    pthread_mutex_unlock(&event->lock);
}

/* Reads the time of the latest record. */
static CUresult read_time(CUevent event, uint64_t *ns) {
    pthread_mutex_lock(&event->lock);
    const bool timed = event->recorded != 0 && !(event->flags & CU_EVENT_DISABLE_TIMING);
    const bool passed = event->passed >= event->recorded;
    *ns = event->passed_ns;
    pthread_mutex_unlock(&event->lock);
    if (!timed) return CUDA_ERROR_INVALID_HANDLE;
    return passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult emu_event_elapsed(CUevent begin, CUevent end, float *ms) {
    uint64_t begin_ns, end_ns;
    const CUresult first = read_time(begin, &begin_ns), second = read_time(end, &end_ns);
    if (first != CUDA_SUCCESS && first != CUDA_ERROR_NOT_READY) return first;
    if (second != CUDA_SUCCESS) return second;
    if (first != CUDA_SUCCESS) return first;
    *ms = (float)((double)end_ns - (double)begin_ns) / 1e6f;
    return CUDA_SUCCESS;
}
