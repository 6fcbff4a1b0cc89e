/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: what is pushed to a stream becomes nodes of a graph instead.
 *
 * Words. origin: the stream where the capture began, and where it must end. member: a stream of the capture, the origin
 * or one that joined by a wait. front: the nodes that the next node of a member comes after. mark: the front that an
 * event was recorded at. invalid: a rule was broken; nothing is captured any more until the origin ends the capture.
 *
 *     queue->capture == c   iff   the queue is a member of c
 *     event->capture == c   iff   the event's last record was in c, which goes on
 *     event->captured       iff   the event's last record was in some capture, which may be over
 *
 * All functions need the lock. */
#ifndef WEIR_EMU_CAPTURE_H
#define WEIR_EMU_CAPTURE_H

#include "device/emu/graph.h"
#include "device/emu/queue.h"

/* ---- begin and end ---------------------------------------------------------------------------------------------- */

/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED for the legacy stream; CUDA_ERROR_ILLEGAL_STATE when it captures already. */
CUresult emu_capture_begin(struct emu_queue *queue, CUstreamCaptureMode mode);
/* Gives the graph, or NULL with the reason. At the origin the capture is over in any case. Elsewhere
 * (CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) and in another thread (CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, unless relaxed)
 * it goes on, invalid. */
CUresult emu_capture_end(struct emu_queue *queue, CUgraph *graph);
/* The stream is gone. What a member did still has to be joined; without its origin a capture is over. */
void emu_capture_forget(struct emu_queue *queue);

struct emu_capture_state {
    CUstreamCaptureStatus status;
    uint64_t id; /* never used again; the others too only while active */
    CUgraph graph;
    const struct emu_nodes *front;
};

/* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream while a blocking one of its context captures; that does no
 * harm. */
CUresult emu_capture_state(struct emu_queue *queue, struct emu_capture_state *state);
/* Adds nodes of the capture's graph to the queue's front, or replaces it. CUDA_ERROR_ILLEGAL_STATE: it captures
 * nothing. */
CUresult emu_capture_update(struct emu_queue *queue, const CUgraphNode *nodes, size_t count, bool replace);
/* Swaps the calling thread's mode. */
void emu_capture_exchange_mode(CUstreamCaptureMode *mode);

/* False: nothing captures, as far as this thread can know. Needs no lock. */
bool emu_capture_any(void);

/* ---- what is captured ------------------------------------------------------------------------------------------- */

/* Adds an operation of a capturing queue to its graph; name and accesses are copied.
 * Fails: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED for
 * what can't be captured, which makes the capture invalid. */
CUresult emu_capture_add(struct emu_queue *queue, const struct emu_operation *operation);
/* A wait where the queue captures or the event's last record was in capture: brings the queue into the event's capture,
 * or adds to its front there.
 * Fails: CUDA_ERROR_STREAM_CAPTURE_ISOLATION for what was not recorded in the queue's capture; _MERGE for what was
 * recorded in another one; CUDA_ERROR_INVALID_VALUE outside of a capture, when the event's is invalid or over. All but
 * the last make the captures that are concerned invalid. */
CUresult emu_capture_wait(struct emu_queue *queue, CUevent event);
/* A record on a capturing queue: the event stands for the front. Nothing is recorded when the graph runs. */
CUresult emu_capture_record(struct emu_queue *queue, CUevent event);
/* Waits and records that are nodes of their own and are made when the graph runs ("external" ones). */
CUresult emu_capture_event_node(struct emu_queue *queue, CUevent event, CUgraphNodeType type);
/* Stream-ordered memory of a capturing queue: the address is good in the graph, and outside after a launch. A free is
 * of such memory only (CUDA_ERROR_INVALID_VALUE). What is refused does no harm to the capture. */
CUresult emu_capture_alloc(struct emu_queue *queue, CUdevice device, size_t bytes, uintptr_t *start);
CUresult emu_capture_free(struct emu_queue *queue, uintptr_t start);
/* A free outside of capture. False: the memory is not a graph's. CUDA_ERROR_INVALID_VALUE: no launch has allocated
 * it. */
bool emu_capture_free_outside(uintptr_t start, CUresult *code);
/* An executable graph launched in a capturing queue. CUDA_ERROR_NOT_SUPPORTED, without harm, when it has memory of its
 * own. */
CUresult emu_capture_launch(struct emu_queue *queue, CUgraphExec exec);

/* ---- what is refused -------------------------------------------------------------------------------------------- */

/* Something that can't be captured was asked of a capturing queue: the capture is invalid from then on. */
CUresult emu_capture_refuse(struct emu_queue *queue);
/* The host asks for the state of a queue or of an event: refused in capture, and the capture is invalid from then on;
 * for the legacy stream, while a blocking stream of its context captures (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT). An
 * event that is in no capture is also checked as unsafe. */
CUresult emu_capture_check_host(struct emu_queue *queue);
CUresult emu_capture_check_event(CUevent event);
/* The same for all of a context: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while any of its streams captures. */
CUresult emu_capture_check_context(CUcontext context);
/* Work for the legacy stream: as check_host says of it. */
CUresult emu_capture_check_legacy(CUcontext context);
/* A call that is unsafe while a thread captures in a mode that forbids it (cuMemAlloc, cuMemFree, cuMemHostAlloc ...):
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid; else CUDA_SUCCESS. */
CUresult emu_capture_check_unsafe(void);

#endif
