/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture and graphs. All functions need the lock. */
#ifndef WEIR_EMU_CAPTURE_H
#define WEIR_EMU_CAPTURE_H

#include "device/emu/queue.h"

/* Adds an operation of a capturing queue to its graph; the accesses are copied.
 * Fails: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_OUT_OF_MEMORY. */
CUresult emu_capture_add(struct emu_queue *queue, const struct emu_operation *operation);

/* A wait where the queue or the event's last record is in capture: brings the queue into the event's capture, or joins
 * it there. Fails: CUDA_ERROR_STREAM_CAPTURE_ISOLATION, _MERGE, ... */
CUresult emu_capture_wait(struct emu_queue *queue, CUevent event);
/* A record on a capturing queue. */
CUresult emu_capture_record(struct emu_queue *queue, CUevent event);
/* The host asks for the state of a queue or of an event: refused in capture, and the capture is invalid from then on;
 * for the legacy stream, while a blocking stream of its context captures (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT). */
CUresult emu_capture_check_host(struct emu_queue *queue);
CUresult emu_capture_check_event(CUevent event);
/* Something that can't be captured was asked of a capturing queue: invalidates the capture. */
CUresult emu_capture_refuse(struct emu_queue *queue);
/* A call that is unsafe while a thread captures in a mode that forbids it (cuMemAlloc, cuMemFree, a context's
 * synchronisation ...): CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid; else CUDA_SUCCESS. */
CUresult emu_capture_check_unsafe(void);

#endif
