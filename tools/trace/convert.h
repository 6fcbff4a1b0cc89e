/* SPDX-License-Identifier: Apache-2.0 */
/* What other programs logged of a device's memory, as the steps of a trace. A log is a pickle (a PyTorch memory
 * snapshot), JSON (a PyTorch profiler's trace), or tables, told by their columns:
 *
 *     memory events    op, id, size, stream, time_us
 *     a profiler's     op, id, size, thread, time_us; beside it launch_us, thread, stream, gpu_dur_us [, kind,
 *                      gpu_start_us] and call, thread, time_us
 *     RMM's            Time, Action, Pointer, Size, Stream
 *     lifetimes        id, lower, upper, size
 *
 * Logs are read whole into rows (convert_events.c, convert_profile.c, convert_lifetimes.c), those that name blocks by their
 * addresses by way of events (convert_rmm.c, convert_snapshot.c, convert_kineto.c; convert_addresses.c). Rows are then turned
 * into steps; convert_steps.c holds what they share, convert_repeat.c finds what repeats.
 *
 * Words. block: a number from 0, in the order of first appearance; stream, thread: a number from 0; a
 * stream has an id, which the trace gets. row: what one line of a table says. event: what a log says of an address.
 *
 * Memory is bounded by CONVERT_MOST_ROWS. */
#ifndef WEIR_TRACE_CONVERT_H
#define WEIR_TRACE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "csv.h"
#include "ids.h"
#include "trace.h"
#include "write.h"

#define CONVERT_MOST_ROWS (UINT64_C(1) << 23) /* of one table */
enum { CONVERT_MOST_THREADS = 4096, CONVERT_MOST_INPUTS = 3, CONVERT_MOST_DEVICES = 1024, CONVERT_ANY_DEVICE = -1 };

enum step_kind {
    STEP_LIVE,        /* block, stream */
    STEP_ALLOC,       /* block, stream */
    STEP_FREE,        /* block, stream: on it */
    STEP_WORK,        /* stream, value: ns */
    STEP_WAIT,        /* stream waits for all that `other` holds now */
    STEP_SYNC_STREAM, /* stream */
    STEP_SYNC_DEVICE,
    STEP_ITERATION,
    STEP_RESERVE, /* value: bytes by which the logged allocator's reserve grew (`grew`) or shrank */
};

struct step {
    uint8_t kind; /* enum step_kind */
    uint32_t stream;
    union {
        uint32_t block;
        uint32_t other; /* STEP_WAIT */
        uint32_t grew;  /* STEP_RESERVE */
    };
    uint64_t value;
    uint64_t ns; /* when, by the log's clock */
};

struct steps {
    struct step *all;
    size_t count, room;
};

enum block_state { BLOCK_LIVE, BLOCK_ASKED_FREE, BLOCK_FREE };

struct convert_block {
    uint64_t bytes;
    uint64_t line; /* of what was said of it last */
    uint32_t stream;
    uint8_t state; /* enum block_state */
};

struct launch {
    uint64_t ns, start_ns, work_ns; /* by the host's clock; by the device's: when it began, how long it took */
    uint32_t thread, stream;
    char kind;
};

enum host_call { CALL_WAIT_EVENT, CALL_SYNC_STREAM, CALL_SYNC_DEVICE, CALL_OTHER };

struct call {
    uint64_t ns;
    uint32_t thread;
    uint32_t next; /* the thread's next launch; UINT32_MAX: none */
    uint8_t kind;  /* enum host_call */
};

struct lifetime {
    uint64_t lower, upper;
    uint64_t offset; /* of its row */
};

enum convert_form {
    FORM_NONE,
    FORM_EVENTS,
    FORM_MEMORY,
    FORM_LAUNCHES,
    FORM_CALLS,
    FORM_LIFETIMES,
    FORM_RMM,
    FORM_SNAPSHOT,
    FORM_KINETO,
    FORM_COUNT
};

enum event_kind {
    EVENT_ALLOC,
    EVENT_FREE, /* asked for */
    EVENT_FREE_COMPLETED,
    EVENT_LIVE_AT_END, /* after all others, of a log that says what is there at the end */
    EVENT_IDLE_AT_END, /* the same: what is not live there */
    EVENT_GREW,        /* the logged allocator's reserve */
    EVENT_SHRANK,
};

struct event {
    uint64_t address, bytes, ns;
    uint64_t number, offset; /* which one it is in the log, from 1, and where in the text it begins: for sentences */
    uint32_t place;          /* stream, or thread */
    uint8_t kind;            /* enum event_kind */
    bool rounded;            /* of one that is live at the end: its bytes are not those asked for */
};

struct events {
    struct event *all;
    size_t count, room;
    const char *unit; /* what the log calls one: "line" */
    /* before the first, as the log says; blocks that events show are among it. 0: not said */
    uint64_t live_before_bytes;
    bool misses_threads; /* those that were not recorded may have allocated and freed too */
    bool sizes_are_told; /* the bytes of a free are what its caller said, not what the recorder knew */
};

struct convert_settings {
    uint64_t live_before_bytes; /* of which the log has no lines; 0: as the log says */
    int device;                 /* of a log of several; CONVERT_ANY_DEVICE: the one that it says most of */
    bool iterations;            /* mark them */
};

struct conversion {
    const char *name[FORM_COUNT]; /* of the table of each form; NULL: not given */
    struct ids block_ids, stream_numbers, thread_numbers;
    struct convert_block *blocks;
    size_t block_room, block_count;
    uint32_t stream_count, thread_count;
    uint64_t stream_ids[TRACE_MOST_STREAMS];
    char stream_names[TRACE_MOST_STREAMS][8];

    struct steps rows; /* of a table of memory events; a step's stream is a thread in a profiler's table */
    struct launch *launches;
    size_t launch_count, launch_room;
    bool has_start;
    struct call *calls;
    size_t call_count, call_room;
    struct lifetime *lifetimes; /* by block */
    size_t lifetime_count, lifetime_room;

    struct steps steps; /* the answer */

    /* what there is to tell of it */
    uint32_t device, device_count; /* of a log that tells devices apart; count 0: it does not */
    bool tells_overflow;           /* the recording says whether it */
    bool overflowed;               /* had no room for its oldest entries */
    bool knows_reserve;            /* reserve_before is known */
    uint64_t reserve_before;       /* what the logged allocator held when the recording began */
    size_t refused_count;          /* requests that the logged allocator could not serve */
    size_t ends_left_out;          /* blocks of which the end says another thing than the events before it */
    size_t overlap_count;          /* allocations where others had not been freed, as far as the log says */
    size_t odd_free_count;         /* frees of other bytes than were allocated, as their callers said */
    size_t unjoined_count;         /* pieces of the device's work whose launch is not in the log */
    uint64_t row_count;
    uint64_t live_before_bytes, peak_live_bytes, end_live_bytes;
    int64_t reserve_growth, peak_reserve_growth; /* of the logged allocator's reserve since the recording began */
    bool has_reserve;
    uint64_t end_ns, span_ns, work_ns;
    size_t wait_count, waits_left_out, calls_left_out;
    size_t iteration_count, iteration_blocks;

    uint64_t told_bytes;   /* live before, by a comment: it counts above the header of memory events */
    uint64_t hidden_bytes; /* live before, of which the table has no rows */
    uint64_t live_bytes;   /* while rows are read, or steps made; each block rounded as a trace's reader does */
    char *why;
    size_t room;
};

struct convert_input {
    const char *name;
    struct input *input;
};

/* Reads tables that belong together and makes their steps. `*conversion` is to be freed with convert_free, whatever it
 * gives.
 *
 * Gives: false with one sentence in `why` that names file, line, byte offset in the text, column and reason. */
bool convert_tables(struct conversion *conversion, const struct convert_input *inputs, size_t count,
                    const struct convert_settings *settings, char *why, size_t room);
/* The most that the logged allocator held; only where it is known. */
uint64_t convert_peak_reserve(const struct conversion *conversion);
void convert_put(const struct conversion *conversion, struct trace_writer *writer);
void convert_free(struct conversion *conversion);

/* ---- inside ----------------------------------------------------------------------------------------------------- */

/* Each gives false with the sentence told. */
bool convert_read_events(struct conversion *conversion, struct csv *csv, bool by_thread);
bool convert_read_launches(struct conversion *conversion, struct csv *csv);
bool convert_read_calls(struct conversion *conversion, struct csv *csv);
bool convert_read_lifetimes(struct conversion *conversion, struct csv *csv);
bool convert_read_rmm(struct conversion *conversion, struct csv *csv);
bool convert_read_snapshot(struct conversion *conversion, const struct convert_input *input, int device);
bool convert_read_kineto(struct conversion *conversion, const struct convert_input *input, int device);
bool convert_timed_steps(struct conversion *conversion);
bool convert_profile_steps(struct conversion *conversion);
bool convert_lifetime_steps(struct conversion *conversion);
bool convert_mark_iterations(struct conversion *conversion);
void convert_read_comment(void *conversion, const char *text);

bool convert_fail(struct conversion *conversion, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t convert_rounded(uint64_t bytes);
/* Makes room for one more. */
bool convert_grow(struct conversion *conversion, void **array, size_t *room, size_t count, size_t size);
bool convert_push(struct conversion *conversion, struct steps *steps, struct step step);
/* The block that stands for what was live before and has no rows. */
bool convert_push_hidden(struct conversion *conversion, uint32_t stream);
/* Work, in pieces that a trace takes. */
bool convert_push_work(struct conversion *conversion, uint32_t stream, uint64_t ns);
/* A row more of the table? */
bool convert_count_row(struct conversion *conversion, struct csv *csv, uint64_t count);

enum host_call convert_call_of(const char *name);
bool convert_add_event(struct conversion *conversion, struct events *events, struct event event);
/* From events, in their order, to rows: which block an address is, and what was live before the first of them. `name` is the
 * log's. A sentence names the event. */
bool convert_place_events(struct conversion *conversion, const char *name, const struct events *events);
/* Which device to take, of those that a log says `counts[device]` things of. */
bool convert_choose_device(struct conversion *conversion, const char *name, const uint64_t *counts, size_t count,
                           int wanted);

/* The number of a stream or a thread, a new one at first sight. The last two fail only beyond their limit. */
bool convert_stream(struct conversion *conversion, struct csv *csv, int column, uint32_t *stream);
bool convert_stream_id(struct conversion *conversion, uint64_t id, uint32_t *stream);
bool convert_thread_id(struct conversion *conversion, uint64_t id, uint32_t *thread);
bool convert_thread(struct conversion *conversion, struct csv *csv, int column, uint32_t *thread);
bool convert_add_block(struct conversion *conversion);
/* The block of a table's id; *added: it is new. */
bool convert_block_of(struct conversion *conversion, struct csv *csv, int column, uint32_t *block, bool *added);

#endif
