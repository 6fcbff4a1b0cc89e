/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of the format `weir-trace 1`, read whole and checked: every line that does something becomes one operation.
 *
 * Reading bounds memory by the size of the file: ids, streams and events get dense numbers through tables, whatever
 * values a file uses. A trace that was accepted can be replayed without further checks of its numbers. */
#ifndef WEIR_REPLAY_TRACE_H
#define WEIR_REPLAY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum op_kind {
    OP_ALLOC,       /* block, bytes, stream */
    OP_FREE,        /* block, stream */
    OP_FREE_ANY,    /* block: names no stream */
    OP_FREE_AFTER,  /* block, event */
    OP_NOTE,        /* block, stream */
    OP_RECORD,      /* event, stream */
    OP_WAIT,        /* event, stream */
    OP_HOST_WAIT,   /* event */
    OP_SYNC_STREAM, /* stream */
    OP_SYNC_DEVICE,
    OP_DESTROY_STREAM, /* stream */
    OP_DESTROY_EVENT,  /* event */
    OP_ITERATION,
};

struct op {
    enum op_kind kind;
    uint32_t line;
    uint32_t block, stream, event;
    size_t bytes;
};

struct trace {
    struct op *ops;
    size_t op_count;
    uint32_t block_count, stream_count, event_count;
    char (*stream_names)[32]; /* by dense number; "" when the trace gives none */
    size_t peak_requested_bytes;
    size_t peak_live_bytes; /* each block rounded up to 512 */
};

#define MOST_STREAMS 1024 /* of one trace at a time */

/* Reads a trace. Gives: false with a sentence that names file, line and reason in `why`; nothing is kept. */
bool trace_read(const char *path, struct trace *trace, char *why, size_t room);
void trace_free(struct trace *trace);

#endif
