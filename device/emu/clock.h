/* SPDX-License-Identifier: Apache-2.0 */
/* What makes operations happen, and lets the host wait for them: a table, chosen at cuInit.
 *
 * clock_real.c: a worker thread a queue; work takes the time that it takes.
 * clock_virtual.c: discrete events on the calling threads, which run one at a time; work takes what the profile says.
 *
 * All functions need the lock; those that wait give it up meanwhile and hold it again when they return. */
#ifndef WEIR_EMU_CLOCK_H
#define WEIR_EMU_CLOCK_H

#include "device/emu/gate.h"
#include "device/emu/queue.h"

struct emu_clock {
    /* The time at which operations happen; and the calling thread's own, which under the virtual clock may be ahead. */
    uint64_t (*now_ns)(void);
    uint64_t (*host_now_ns)(void);
    /* True when the calling thread may call entries. */
    bool (*admits)(void);
    /* Makes ready for the queue's operations. False: it can't make them happen (no thread). */
    bool (*prepare)(struct emu_queue *queue);
    /* An operation has been pushed. */
    void (*pushed)(struct emu_queue *queue);
    /* The host waits until the point has passed, the queue has room, the gate is open. CUDA_ERROR_LAUNCH_TIMEOUT when
     * that can be seen never to happen. */
    CUresult (*wait)(struct emu_point point);
    CUresult (*wait_room)(struct emu_queue *queue);
    CUresult (*wait_gate)(struct weir_emu_gate *gate);
    /* The gate is to open delay_ns from now: calls emu_gate_opened then. And wakes who waits at an open gate. */
    void (*open_gate)(struct weir_emu_gate *gate, uint64_t delay_ns);
    void (*gate_opened)(struct weir_emu_gate *gate);
    /* A call has cost the host so much. `may_switch`: another thread may go on before this one. */
    void (*charge)(double ns, bool may_switch);
    void (*pause)(uint64_t ns);
    /* When the next operation begins or ends, if no thread does anything; UINT64_MAX: never. NULL: it can't be known. */
    uint64_t (*next_ns)(void);
    /* The calling thread asked, and the answer was: not ready. Others may go on. */
    void (*looked)(void);
    /* The thread takes part once `together` threads have come to begin. False: no host memory. */
    bool (*thread_begin)(const char *name, unsigned together);
    void (*thread_end)(void);
};

extern const struct emu_clock emu_clock_real, emu_clock_virtual;
/* The one in force; the real one before cuInit. */
extern const struct emu_clock *emu_clock;

#endif
