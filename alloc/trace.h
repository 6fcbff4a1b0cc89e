/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder: a pool's calls, and the events, waits and synchronisations that the device's observer sees, as lines of
 * `weir-trace 1`. Streams and events get numbers in order of first sight; a destroyed one's handle starts anew.
 *
 * Every function allows a NULL trace, which is the usual case and costs one comparison. Writing is buffered and flushed
 * at close; a write that fails is logged once and ends the recording. Threads: any. */
#ifndef WEIR_ALLOC_TRACE_H
#define WEIR_ALLOC_TRACE_H

#include <stdint.h>

#include "weir/device.h"

struct weir__trace;

/* Fails: WEIR_SYSTEM with the path and the reason. */
enum weir_status weir__trace_open(const char *path, struct weir__trace **out);
void weir__trace_close(struct weir__trace *trace);

void weir__trace_alloc(struct weir__trace *trace, uint64_t block, size_t bytes, weir_stream stream);
void weir__trace_refused(struct weir__trace *trace, size_t bytes, weir_stream stream);
/* `own`: the stream is the one that the block was allocated on. */
void weir__trace_free(struct weir__trace *trace, uint64_t block, weir_stream stream, bool own);
void weir__trace_free_after(struct weir__trace *trace, uint64_t block, weir_event event);
void weir__trace_note(struct weir__trace *trace, uint64_t block, weir_stream stream);
void weir__trace_iteration(struct weir__trace *trace);
void weir__trace_name(struct weir__trace *trace, weir_stream stream, const char *name);

void weir__trace_event_recorded(struct weir__trace *trace, weir_event event, weir_stream stream);
void weir__trace_event_destroyed(struct weir__trace *trace, weir_event event);
void weir__trace_event_synchronized(struct weir__trace *trace, weir_event event);
void weir__trace_stream_waited(struct weir__trace *trace, weir_stream stream, weir_event event);
void weir__trace_stream_destroyed(struct weir__trace *trace, weir_stream stream);
void weir__trace_stream_synchronized(struct weir__trace *trace, weir_stream stream);
void weir__trace_device_synchronized(struct weir__trace *trace);

#endif
