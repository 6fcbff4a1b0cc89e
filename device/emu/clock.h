/* SPDX-License-Identifier: Apache-2.0 */
/* What makes operations happen, and lets the host wait for them. clock_real.c: a worker thread a queue. */
#ifndef WEIR_EMU_CLOCK_H
#define WEIR_EMU_CLOCK_H

#include "device/emu/queue.h"

uint64_t emu_clock_now_ns(void);

/* An operation has been pushed. Needs the queue's lock. False: it can't be made to happen (no thread). */
bool emu_clock_prepare(struct emu_queue *queue);
void emu_clock_pushed(struct emu_queue *queue);

/* The host waits until the point has passed. */
void emu_clock_wait(struct emu_point point);
/* The host waits until the queue has room. Needs the queue's lock, and holds it again afterwards. */
void emu_clock_wait_room(struct emu_queue *queue);

#endif
