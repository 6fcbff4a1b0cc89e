/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of the format `weir-trace 1` (docs/trace.md), read whole and checked: every line that does something becomes
 * one operation.
 *
 * Words. id: a number as the file has it; any 64 bits. number: a dense one from 0, given at first sight; a stream or an
 * event that is destroyed gives its id up, and the id then names another one, with another number.
 *
 * Reading bounds memory by the size of the text. A trace that was accepted can be replayed without further checks of
 * its numbers. Threads: a trace that has been read may be read by many. */
#ifndef WEIR_TRACE_TRACE_H
#define WEIR_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum op_kind {
    OP_ALLOC,          /* m: block, stream, bytes */
    OP_REFUSED,        /* # refused: the same; the recorded pool was out of memory */
    OP_LIVE,           /* p: the same; allocated before the trace began */
    OP_FREE,           /* f: block, stream (the one it was allocated on, where the line names none) */
    OP_FREE_ANY,       /* f *: block, stream (the one it was allocated on); names no stream. Also an f without a stream
                          when the one it was allocated on has been destroyed */
    OP_FREE_AFTER,     /* f @: block, stream (as above), event */
    OP_NOTE,           /* u: block, stream */
    OP_WORK,           /* k: stream, ns */
    OP_RECORD,         /* e: event, stream */
    OP_WAIT,           /* w: event, stream */
    OP_SYNC_STREAM,    /* s: stream */
    OP_SYNC_DEVICE,    /* d */
    OP_HOST_WAIT,      /* h: event */
    OP_DESTROY_STREAM, /* x: stream */
    OP_DESTROY_EVENT,  /* y: event */
    OP_ITERATION,      /* i */
};

struct op {
    uint8_t kind;                  /* enum op_kind */
    uint8_t align;                 /* OP_ALLOC, OP_LIVE: log2 of the alignment asked for (a); 0: none */
    uint32_t line;                 /* from 1 */
    uint32_t block, stream, event; /* numbers */
    union {
        uint64_t bytes; /* OP_ALLOC, OP_REFUSED, OP_LIVE: requested; OP_FREE*: of the block */
        uint64_t ns;    /* OP_WORK */
    };
};

/* What `# recorded KEY=VALUE ...` says of the pool that wrote the trace; zero or "" where it says nothing. */
struct trace_origin {
    char policy[16], profile[32];
    uint64_t limit_bytes, granularity_bytes;
    bool deterministic;
};

struct trace {
    struct op *ops;
    size_t op_count;
    uint32_t block_count, stream_count, event_count;
    uint32_t iteration_count;
    char (*stream_names)[32];  /* by number; "" when the trace gives none */
    uint64_t *stream_ids;      /* by number: as the file has it */
    size_t peak_live_bytes;    /* of what was requested */
    size_t peak_rounded_bytes; /* each block rounded up to 512 */
    bool has_work;             /* there is a `k` */
    struct trace_origin origin;
    uint64_t *offsets;   /* by block: where the recording pool put it (`# at ID OFFSET`), UINT64_MAX: not said */
    size_t offset_count; /* blocks of which it is said; offsets is NULL when 0 */
    size_t refused_count, last_refused; /* requests that the recorded pool refused; the operation of the last one */
    size_t torn_lines; /* left out: reserved, but not written whole when the recording program was killed */
};

#define TRACE_MOST_STREAMS    4096                       /* of one trace */
#define TRACE_MOST_BYTES      (UINT64_C(1) << 50)        /* live at once */
#define TRACE_MOST_NS         UINT64_C(1000000000000000) /* one piece of work */
#define TRACE_MOST_ALIGN      (UINT64_C(1) << 30)
#define TRACE_MOST_OPS        (UINT32_C(1) << 29)
#define TRACE_MOST_TEXT_BYTES (UINT64_C(1) << 34) /* decompressed */

/* Reads a trace from a file, plain, gzip or zstd by its content; "-" is standard input.
 *
 * Gives: true; *trace is to be freed with trace_free. False with one sentence in `why` that names file, line, byte
 * offset in the text and reason; nothing is kept. */
bool trace_read(const char *path, struct trace *trace, char *why, size_t room);
void trace_free(struct trace *trace);

#endif
