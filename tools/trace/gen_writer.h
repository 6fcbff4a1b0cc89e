/* SPDX-License-Identifier: Apache-2.0 */
/* What a modelled training step asks of a device: allocations, frees, work, events, as weir-trace 1, and a check of
 * their order while they are written.
 *
 * Words. buf: one allocation, known by its id; id 0 is no buffer, which every call takes and ignores. clock: of each
 * stream, how many pieces of its work are known to be done. Each stream has one, the host too, and a record of an
 * event takes a copy along.
 *
 * What must hold, and is checked:
 *   a use of a buf on stream t:  clock[t][stream of the buf] >= work that was queued there when it was allocated
 *   a free without a note:       before its stream queues more work, clock[its stream][t] >= the buf's last use on t,
 *                                for every t; so its memory may be used again there at once
 * Breaking it, or using or freeing a buf that is free, is a bug of the generator: it prints a sentence and aborts.
 *
 * Threads: one at a time. */
#ifndef WEIR_TRACE_GEN_WRITER_H
#define WEIR_TRACE_GEN_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "write.h"

enum gen_stream { COMPUTE, GATHER_COPY, GATHER, SCATTER, EXPERTS, TO_HOST, FROM_HOST, GEN_STREAMS };
extern const char *const gen_stream_names[GEN_STREAMS];

#define GEN_MOST_OPERATIONS INT64_C(20000000) /* of one trace: about 300 MB of text */

struct buf {
    uint64_t id;
    int64_t bytes;
    uint32_t slot; /* where the writer keeps what it knows of it */
};
#define NO_BUF ((struct buf){0, 0, 0})

struct gen_clock {
    uint64_t done[GEN_STREAMS];
};

struct gen_event {
    uint64_t id; /* 0: none */
    struct gen_clock clock;
};

struct gen_slot {
    uint64_t id; /* 0: free */
    int64_t bytes;
    uint64_t born;              /* work queued on its stream when it was allocated */
    uint64_t used[GEN_STREAMS]; /* its last use on each; 0: none */
    enum gen_stream stream;
    uint32_t noted; /* one bit a stream: told by a `u` */
    uint32_t next_free;
};

struct gen_writer {
    struct trace_writer *trace; /* NULL: nothing is written, all is checked */
    struct gen_clock clock[GEN_STREAMS], host;
    struct gen_clock owed[GEN_STREAMS]; /* by stream: uses elsewhere of what was freed since its last work */
    struct gen_slot *slots;
    uint32_t slot_count, slot_room, first_free; /* first_free: index + 1; 0: none */
    uint64_t last_buf, last_event;
    int64_t operations, live_bytes, peak_live_bytes, total_bytes; /* total: INT64_MAX when it is more */
    char stopped[160];                      /* why nothing more is written (a limit); "" while it goes on */
    void (*violated)(const char *sentence); /* NULL: print and abort */
};

/* Zeroed memory of this process; ends it with a sentence when there is none. */
void *gen_room(size_t count, size_t bytes);

void gen_writer_open(struct gen_writer *out, struct trace_writer *trace);
void gen_writer_close(struct gen_writer *out); /* frees its own memory; the trace is the caller's */

/* Past a limit on operations or live bytes nothing more is written; those who loop look here. */
bool gen_stopped(const struct gen_writer *out);

struct buf gen_alloc(struct gen_writer *out, int64_t bytes, enum gen_stream stream); /* at least 1 byte */
void gen_free(struct gen_writer *out, const struct buf *bufs, size_t count);
void gen_free_everything(struct gen_writer *out); /* in the order of allocation */
void gen_note(struct gen_writer *out, struct buf buf, enum gen_stream stream);
void gen_work(struct gen_writer *out, enum gen_stream stream, double us); /* at least 1 us */
/* What the latest work of `stream` reads and writes. */
void gen_uses(struct gen_writer *out, enum gen_stream stream, const struct buf *bufs, size_t count);
struct gen_event gen_record(struct gen_writer *out, enum gen_stream stream);
void gen_wait(struct gen_writer *out, const struct gen_event *event, enum gen_stream stream);
/* `later` waits for all that is queued on `earlier`. */
void gen_after(struct gen_writer *out, enum gen_stream later, enum gen_stream earlier);
void gen_sync(struct gen_writer *out, enum gen_stream stream);
void gen_sync_device(struct gen_writer *out);
void gen_iteration(struct gen_writer *out);

#define BUFS(...)      (const struct buf[]){__VA_ARGS__}, sizeof((const struct buf[]){__VA_ARGS__}) / sizeof(struct buf)
#define FREE(out, ...) gen_free(out, BUFS(__VA_ARGS__))
/* One piece of work and what it uses. */
#define WORK(out, stream, us, ...) (gen_work(out, stream, us), gen_uses(out, stream, BUFS(__VA_ARGS__)))

#endif
