/* SPDX-License-Identifier: Apache-2.0 */
/* Events. A record makes the event stand for a point; a wait takes the point that the event stands for at the call, so
 * that a later record changes nothing for it. All functions need the lock. */
#ifndef WEIR_EMU_EVENT_H
#define WEIR_EMU_EVENT_H

#include "device/emu/queue.h"
#include "device/emu/slots.h"

struct CUevent_st {
    struct emu_slot slot;
    CUcontext context;
    unsigned flags;
    uint64_t started;  /* records begun; each has the next number. Grows over reuse of the slot too */
    uint64_t born;     /* `started` when the event was created: earlier records are another event's */
    uint64_t recorded; /* number of the record that `point` is of; 0: never recorded */
    struct emu_point point;
    struct emu_moment moment;    /* of the watch: what comes before it */
    bool captured;               /* the last record was in a capture, */
    struct emu_capture *capture; /* this one, while it goes on */
    size_t capture_node;         /* and its mark there */
    uint64_t passed;             /* number of the last record that has passed, and when */
    uint64_t passed_ns;
};

CUresult emu_event_create(CUcontext context, unsigned flags, CUevent *event);
CUresult emu_event_destroy(CUevent event);
bool emu_event_alive(CUevent event);
CUresult emu_event_record(CUevent event, struct emu_queue *queue);
/* The same for all that is queued in the event's context now, whatever the stream. */
CUresult emu_event_record_all(CUevent event);
/* The point that the event stands for now; position 0 when it was never recorded. */
struct emu_point emu_event_point(CUevent event);
/* Has the latest record passed? CUDA_ERROR_NOT_READY. The host has seen it then. */
CUresult emu_event_query(CUevent event);
CUresult emu_event_wait(CUevent event);
/* Time between two passed records; CUDA_ERROR_NOT_READY, or CUDA_ERROR_INVALID_HANDLE without timing or records. */
CUresult emu_event_elapsed(CUevent begin, CUevent end, float *ms);
/* When the latest record passed; fails alike. */
CUresult emu_event_time(CUevent event, uint64_t *ns);
/* A record has been reached. */
void emu_event_passed(CUevent event, uint64_t sequence);
/* The context is gone: destroys its events. */
void emu_events_forget(CUcontext context);
/* The capture is over: no event is in it any more. */
void emu_events_leave_capture(struct emu_capture *capture);

#endif
