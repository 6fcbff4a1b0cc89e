/* SPDX-License-Identifier: Apache-2.0 */
/* What is recorded of a run, and shown by its page and its text.
 *
 * sample  the memory after a request, and what the request did.
 * column  the samples of an interval of the run, all intervals being of one width: the memory at their fullest
 *         moment, and sums of what they did. When there are too many, neighbours become one and the width doubles.
 * kept    requests one by one, the latest that have room, as bytes that the page carries as they are (below).
 * row     a stream's work over time (the last row: where the host waited), as bars. When there are too many of all
 *         rows, bars whose gap is below a resolution become one that says how much of it was busy, and the resolution
 *         doubles.
 * slot    the place of a stream in a sample's idle bytes; those without one come to the last slot.
 *
 * Times are nanoseconds since the run's beginning. */
#ifndef WEIR_REPLAY_TIMELINE_INSIDE_H
#define WEIR_REPLAY_TIMELINE_INSIDE_H

#include <stdio.h>

#include "timeline.h"

enum {
    TIMELINE_COLUMNS = 32768,
    TIMELINE_BARS = 262144, /* of all rows */
    TIMELINE_PARTS = 8,     /* of the requests kept; the oldest is dropped for a new one */
    TIMELINE_PART_BYTES = 5 * 1048576 / TIMELINE_PARTS,
    TIMELINE_ITERATIONS = 2048,
    TIMELINE_SLOTS = 32,
    TIMELINE_UNIT = 512, /* bytes; what amounts of memory are counted in for the page */
    TIMELINE_COLOURS = 8 /* as page.css has them; the last is that of streams without one */
};

/* Of a request, or summed; stranded: the most. */
struct counts {
    uint64_t memory_calls, page_moves, moved_bytes, device_waits, host_waits, host_wait_ns, stranded;
};

struct sample {
    uint64_t ns, live, held, idle[TIMELINE_SLOTS];
    struct counts counts;
};

struct bar {
    uint64_t start, end, busy;
};

struct row {
    struct bar *bars;
    uint32_t count, room;
    uint64_t busy_ns;
};

/* Requests in a row. Each is a head byte, then numbers of 7 bits a byte, the lowest first, the 8th bit: more follow:
 *
 *   time since the one before (ns); bytes, (n << 1) or of whole units (n << 1 | 1);
 *   HEAD_LINE    lines since the one before, else 1
 *   HEAD_STREAM  the trace's number of the stream, else that of the one before
 *   HEAD_HELD    held units, less those of the one before, signed
 *   HEAD_IDLE    how many slots, for each: its number, idle units less those expected, signed. Expected: as of the one
 *                before; on the slot of the request's stream an alloc takes its units, as far as there are, a free adds them
 *   HEAD_COUNTS  a mask; for each bit, the lowest first: memory calls; pages moved, moved units; device waits;
 *                host waits, ns of them; stranded units
 *
 * Signed n: 2n, or -2n - 1 below 0. Before the first one all is 0, but for live bytes, which follow from the requests. */
struct kept {
    uint8_t *bytes; /* (TIMELINE_PART_BYTES) */
    uint32_t length, count;
    uint64_t live, begin_ns; /* live: bytes before the first one; begin_ns: of the first one */
};

enum { KEPT_ALLOC, KEPT_FREE, KEPT_USE, KEPT_IN_VAIN /* asked for, and refused now or when it was recorded */ };
enum { HEAD_KIND = 3, HEAD_LINE = 4, HEAD_STREAM = 8, HEAD_HELD = 16, HEAD_IDLE = 32, HEAD_COUNTS = 64 };

struct requests {
    struct kept parts[TIMELINE_PARTS]; /* oldest first */
    unsigned part_count;
    struct {
        uint64_t ns, line, stream, held, idle[TIMELINE_SLOTS]; /* held, idle: in units */
    } before;
    uint64_t live; /* bytes; after the latest request */
    uint64_t dropped;
};

/* The most of the whole run, and when. */
struct peak {
    uint64_t bytes, ns;
    uint32_t stream; /* of the request */
};

struct timeline {
    uint64_t begin_ns, last_ns; /* of the clock; since then: when the last operation ended */
    struct sample *columns;     /* (TIMELINE_COLUMNS) */
    uint32_t column_count;
    uint64_t column_ns; /* width */
    struct requests requests;
    struct peak live, held, idle, stranded, idle_of[TIMELINE_SLOTS];
    struct row *rows; /* by the trace's streams, and one for the host */
    uint32_t row_count, bar_count;
    uint64_t gap_ns; /* resolution of bars; 0: none */
    uint64_t iterations[TIMELINE_ITERATIONS];
    uint32_t iteration_count, iterations_in_one, iterations_left_out; /* since the last one kept */
    uint8_t *slots;                                                   /* by stream; 0: none yet, else slot + 1 */
    uint32_t slot_count;
    uint64_t *idle_bytes;       /* by stream, as asked for last */
    bool holds;                 /* the driver's held bytes are the target's */
    bool tells_idle;            /* the target says what is idle */
    bool has_idle;              /* there was any */
    bool broken;                /* no host memory: nothing will be shown */
    struct outcome before, now; /* the target's figures */
    const struct op *last;      /* the last operation noted */
    struct work *spare;
};

/* Where the stream's idle bytes are in a sample; TIMELINE_SLOTS: nowhere yet. */
static inline uint32_t timeline_slot(const struct timeline *timeline, uint32_t stream) {
    return timeline->slots[stream] == 0 ? TIMELINE_SLOTS : (uint32_t)timeline->slots[stream] - 1;
}

/* ---- recording -------------------------------------------------------------------------------------------------- */

/* (timeline_bars.c) */
void timeline_add_bar(struct timeline *timeline, uint32_t row, uint64_t start, uint64_t end);

/* (timeline_columns.c) A sample, of a request of this stream. */
void timeline_add_sample(struct timeline *timeline, uint32_t stream, const struct sample *sample);

/* (timeline_requests.c) The request that the sample is of. */
void timeline_add_request(struct timeline *timeline, const struct op *op, const struct sample *sample);

/* ---- showing ---------------------------------------------------------------------------------------------------- */

/* (timeline_legend.c) Which streams have colours and rows. */
struct legend {
    uint8_t *colour; /* by row */
    uint32_t *shown; /* the rows, by number */
    uint32_t shown_count, left_out;
    uint32_t coloured[TIMELINE_COLOURS - 1], coloured_count; /* streams with a colour and idle bytes, in its order */
};

/* At most `most` rows: those with most work. False: no host memory. To be freed in any case. */
bool legend_make(const struct run *run, uint32_t most, struct legend *legend);
void legend_free(struct legend *legend);
/* Of a stream, or of the host's row. Gives `text`. */
const char *timeline_row_name(const struct run *run, uint32_t row, char *text, size_t room);
void timeline_allocator_name(const struct setup *setup, char *text, size_t room);
/* Without its folders. */
const char *timeline_trace_name(const struct setup *setup);
/* When all work had ended. */
uint64_t timeline_end_ns(const struct run *run, const struct outcome *outcome);
static inline bool timeline_has_capacity(const struct run *run) { return run->setup->target != TARGET_FREE; }

/* (timeline_page.c) False: no host memory. */
bool timeline_page(const struct run *run, const struct outcome *outcome, FILE *out);
/* (timeline_data.c) The page's data, in its element. */
void timeline_data(const struct run *run, const struct legend *legend, const struct outcome *outcome, FILE *out);
/* (timeline_text.c) As run->setup->timeline_look says. False: no host memory. */
bool timeline_text(const struct run *run, const struct outcome *outcome, FILE *out);

#endif
