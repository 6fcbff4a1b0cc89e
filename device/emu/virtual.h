/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the virtual clock share: lines, timers, engines, chance. All functions need the lock.
 *
 * clock_virtual.c   threads and lines: who goes on, and when
 * virtual_timers.c  chance; what happens at a time that is known
 * virtual_engines.c what happens when the operations that share an engine are done */
#ifndef WEIR_EMU_VIRTUAL_H
#define WEIR_EMU_VIRTUAL_H

#include "device/emu/gate.h"
#include "device/emu/queue.h"

#define EMU_NEVER UINT64_MAX
/* Time comes to a stand there, after 146 years: sums of times can't wrap around. */
#define EMU_LATEST ((uint64_t)1 << 62)

enum emu_line_state { LINE_IDLE, LINE_WAITING, LINE_TIMED, LINE_RUNNING };

struct thread;

/* Something that goes on when a point passes or a gate opens: a line or a thread. */
struct emu_waiter {
    struct emu_waiter *next;
    uint64_t position; /* of the queue in whose list it is */
    struct emu_line *line;
    struct thread *thread;
};

/* A queue as the simulation sees it. */
struct emu_line {
    struct emu_queue *queue;
    enum emu_line_state state;
    size_t points_passed;       /* of the head */
    bool delayed;               /* the head's delay is over */
    bool done;                  /* a timer marks the head's end, not its start */
    double left_ns;             /* of the head, on its engine: as if alone */
    struct emu_waiter self;     /* this line, waiting */
    struct emu_waiter *waiters; /* for positions of this queue */
    struct emu_line *next_kicked;
    bool kicked;
    uint64_t ready_ns[EMU_QUEUE_ROOM]; /* before this an operation can't start: its launch takes that long */
};

/* So much later. */
static inline uint64_t emu_later(uint64_t ns, uint64_t more) {
    return ns < EMU_LATEST && more < EMU_LATEST - ns ? ns + more : EMU_LATEST;
}

/* A duration in whole nanoseconds, of one that may be too long for any. */
static inline uint64_t emu_whole_ns(double ns) {
    if (!(ns > 0)) return 0;
    return ns < (double)EMU_LATEST ? (uint64_t)ns : EMU_LATEST;
}

/* ---- virtual_timers.c ------------------------------------------------------------------------------------------- */

struct emu_timer {
    uint64_t ns, tie;
    struct emu_line *line; /* one of the two */
    struct weir_emu_gate *gate;
};

void emu_chance_seed(uint64_t seed);
uint64_t emu_chance_draw(void);
/* A duration as the seed has it: up to the jitter longer or shorter. */
double emu_chance_jitter(double ns);

/* Makes room beforehand, so that setting one can't fail. False: no host memory. */
bool emu_timers_reserve(size_t more);
void emu_timers_set(uint64_t ns, struct emu_line *line, struct weir_emu_gate *gate);
/* The earliest; EMU_NEVER: none is set. */
uint64_t emu_timers_next_ns(void);
struct emu_timer emu_timers_take(void);

/* ---- virtual_engines.c ------------------------------------------------------------------------------------------ */

/* Puts a line's head, with left_ns set, on an engine of a device. False: no host memory. */
bool emu_engines_add(CUdevice device, enum emu_engine kind, struct emu_line *line, uint64_t now);
/* When the next operation on any engine is done, if nothing else changes. */
uint64_t emu_engines_next_ns(void);
/* Takes that one off. Needs: its time is now. */
struct emu_line *emu_engines_take(uint64_t now);

#endif
