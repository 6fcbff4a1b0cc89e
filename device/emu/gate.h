/* SPDX-License-Identifier: Apache-2.0 */
/* Gates: what holds streams and host threads until someone opens it. All functions need the lock. */
#ifndef WEIR_EMU_GATE_H
#define WEIR_EMU_GATE_H

#include "device/emu/emu.h"
#include "device/emu/queue.h"

struct emu_waiter;

struct weir_emu_gate {
    struct weir_emu_gate *next; /* of all gates */
    bool open;                  /* nothing is held any more */
    bool opening;               /* emu_gate_open has been called */
    bool destroyed;
    bool opens_when_host_waits;
    unsigned users;             /* operations and host threads at it, and a timer */
    struct emu_waiter *waiters; /* of the virtual clock; clock_virtual.c */
    pthread_cond_t opened;      /* of the real one */
};

void emu_gate_use(struct weir_emu_gate *gate);
/* One user less; a destroyed gate without users is freed. */
void emu_gate_leave(struct weir_emu_gate *gate);
/* Called by a clock when the delay is over: marks it open and wakes who waits. */
void emu_gate_opened(struct weir_emu_gate *gate);
/* A host thread is about to wait: opens the gates that wait for that. */
void emu_gates_host_waits(void);

#endif
