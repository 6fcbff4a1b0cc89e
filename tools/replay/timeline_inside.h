/* SPDX-License-Identifier: Apache-2.0 */
/* What timeline.c records and timeline_page.c shows.
 *
 * column  the requests of an interval of the run, all intervals being of one width: the memory at their fullest
 *         moment, and sums of what they did. When there are too many, neighbours become one and the width doubles.
 * row     a stream's work over time (the last row: where the host waited), as bars. When there are too many of all
 *         rows, bars whose gap is below a resolution become one that says how much of it was busy, and the resolution
 *         doubles.
 * slot    the place of a stream in a column's idle bytes; those without one come to the last slot.
 *
 * Times are nanoseconds since the run's beginning. */
#ifndef WEIR_REPLAY_TIMELINE_INSIDE_H
#define WEIR_REPLAY_TIMELINE_INSIDE_H

#include <stdio.h>

#include "timeline.h"

enum {
    TIMELINE_COLUMNS = 4096,
    TIMELINE_BARS = 65536, /* of all rows */
    TIMELINE_ITERATIONS = 2048,
    TIMELINE_SLOTS = 32
};

struct column {
    uint64_t ns; /* of the fullest moment */
    uint64_t live, held, idle[TIMELINE_SLOTS];
    uint64_t idle_live; /* live bytes when idle was asked for */
    uint64_t memory_calls, page_moves, moved_bytes, device_waits, host_waits, host_wait_ns;
};

struct bar {
    uint64_t start, end, busy;
};

struct row {
    struct bar *bars;
    uint32_t count, room;
    uint64_t busy_ns;
};

struct timeline {
    uint64_t begin_ns, last_ns; /* of the clock; since then: when the last operation ended */
    struct column *columns;     /* (TIMELINE_COLUMNS) */
    uint32_t column_count;
    uint64_t column_ns; /* width */
    struct row *rows;   /* by the trace's streams, and one for the host */
    uint32_t row_count, bar_count;
    uint64_t gap_ns; /* resolution of bars; 0: none */
    uint64_t iterations[TIMELINE_ITERATIONS];
    uint32_t iteration_count, iterations_in_one, iterations_left_out; /* since the last one kept */
    uint8_t *slots;                                                   /* by stream; 0: none yet, else slot + 1 */
    uint32_t slot_count;
    uint64_t *idle; /* by stream, as asked for last */
    bool holds;     /* the driver's held bytes are the target's */
    bool has_idle;
    bool broken;                /* no host memory: there will be no page */
    struct outcome before, now; /* the target's figures */
    const struct op *last;      /* the last operation noted */
    struct work *spare;
};

/* Where the stream's idle bytes are in a column. */
static inline uint32_t timeline_slot(const struct timeline *timeline, uint32_t stream) {
    return timeline->slots[stream] == 0 ? TIMELINE_SLOTS : (uint32_t)timeline->slots[stream] - 1;
}

void timeline_page(struct run *run, const struct outcome *outcome, FILE *out);

#endif
