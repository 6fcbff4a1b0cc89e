/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder: a pool's calls, and what the device's observer sees, as lines of `weir-trace 1` (docs/trace.md). Streams and
 * events get numbers in order of first sight; a destroyed one's handle starts anew. Lines stand in one order, in which an
 * operation's line precedes those of all that depend on it (trace_file.h: how, and what a killed process leaves).
 *
 * Work (`k`) is recorded on the emulated device under its virtual clock only: there what a piece of work takes is known
 * when it is queued. On a real clock, emulated or a GPU's, it would take an event around each piece: no `k` is written, and
 * a replay with a clock needs one from elsewhere.
 *
 * Every function allows a NULL trace, which is the usual case and costs one comparison. A line costs its caller less than
 * 100 ns (bench/pool.c). When the file can't grow, the recording ends with one logged sentence. Threads: any. */
#ifndef WEIR_ALLOC_TRACE_H
#define WEIR_ALLOC_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/device.h"

struct weir__trace;

/* What the head of a trace says of the pool that wrote it. */
struct weir__trace_origin {
    int ordinal; /* of the device: for names with %d */
    const char *policy, *profile;
    size_t limit_bytes, granularity_bytes;
    bool emulated, deterministic;
};

/* In `path` %p stands for the process id, %d for the device's number, %% for %.
 * Fails: WEIR_SYSTEM with the path and the reason, WEIR_INVALID for another letter, WEIR_OUT_OF_HOST_MEMORY. */
enum weir_status weir__trace_open(const char *path, const struct weir__trace_origin *origin, struct weir__trace **out);
/* Needs: no other call is being made. */
void weir__trace_close(struct weir__trace *trace);

void weir__trace_alloc(struct weir__trace *trace, uint64_t block, size_t bytes, weir_stream stream);
/* The block was asked for with an alignment. */
void weir__trace_aligned(struct weir__trace *trace, uint64_t block, size_t alignment);
/* Where the block lies, from the arena's start: for a replay that compares addresses. */
void weir__trace_at(struct weir__trace *trace, uint64_t block, size_t offset);
void weir__trace_refused(struct weir__trace *trace, size_t bytes, weir_stream stream);
/* `own`: the stream is the one that the block was allocated on. */
void weir__trace_free(struct weir__trace *trace, uint64_t block, weir_stream stream, bool own);
void weir__trace_free_after(struct weir__trace *trace, uint64_t block, weir_event event);
void weir__trace_note(struct weir__trace *trace, uint64_t block, weir_stream stream);
void weir__trace_iteration(struct weir__trace *trace);
void weir__trace_name(struct weir__trace *trace, weir_stream stream, const char *name);

void weir__trace_work(struct weir__trace *trace, weir_stream stream, double ns);
void weir__trace_event_recorded(struct weir__trace *trace, weir_event event, weir_stream stream);
void weir__trace_event_destroyed(struct weir__trace *trace, weir_event event);
void weir__trace_event_synchronized(struct weir__trace *trace, weir_event event);
void weir__trace_stream_waited(struct weir__trace *trace, weir_stream stream, weir_event event);
void weir__trace_stream_destroyed(struct weir__trace *trace, weir_stream stream);
void weir__trace_stream_synchronized(struct weir__trace *trace, weir_stream stream);
void weir__trace_device_synchronized(struct weir__trace *trace);

#endif
