/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's streams and the memory on them: six queues of one device, blocks from one pool, waits that are timed.
 *
 * Words. follow: make one stream wait for all that another has queued so far. span: two timed events around something
 * that the compute stream does or waits for, charged to a cause.
 *
 * What holds. A block is allocated on a stream, used on streams that follow it, and freed on a stream that follows all
 * its uses (the pool needs nothing else, so no block is ever noted). After a failure blocks stay alive; destroying the
 * pool takes them back, so no caller unwinds block by block.
 *
 * Threads: one. */
#ifndef WEIR_TRAINER_STREAMS_H
#define WEIR_TRAINER_STREAMS_H

#include <stdint.h>

#include "trainer/real.h"
#include "trainer/report.h"
#include "weir/device.h"
#include "weir/pool.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum weir_status tried = (call);                                                                               \
        if (tried != WEIR_OK) return tried;                                                                            \
    } while (0)

enum queue { COMPUTE, GATHER, REDUCE, EXCHANGE, TO_HOST, TO_DEVICE, QUEUES };

/* In the order of STEP_CAUSES, without the pool's own. */
enum cause { CAUSE_WEIGHTS, CAUSE_EXCHANGE, CAUSE_RELOAD, CAUSE_REDUCE, CAUSE_OPTIMIZER, CAUSES };

struct span {
    weir_event begin, end;
    enum cause cause;
};

struct streams {
    struct weir_device *device;
    struct weir_pool *pool;
    struct report *report; /* told after each allocation, or NULL */
    bool soil;             /* fill new blocks with NaNs, so that reading what nobody wrote shows; for tests */
    int64_t step;
    weir_stream stream[QUEUES];
    weir_event reached[QUEUES]; /* how far a stream was when another began to follow it */
    struct span *span;
    int spans, spans_made, spans_room;
};

enum weir_status streams_open(struct streams *s, struct weir_device *device, struct weir_pool *pool);
void streams_close(struct streams *s);

/* bytes == 0 is allowed. Fails: as weir_pool_alloc. */
enum weir_status block_alloc(struct streams *s, enum queue queue, size_t bytes, void **out);
enum weir_status block_free(struct streams *s, enum queue queue, void *block);

enum weir_status streams_follow(struct streams *s, enum queue follower, enum queue leader);
/* Compute waits for an event, or for all that another stream has queued; the time goes to `cause`. */
enum weir_status streams_await_event(struct streams *s, enum cause cause, weir_event event);
enum weir_status streams_await(struct streams *s, enum cause cause, enum queue leader);

enum weir_status span_begin(struct streams *s, enum cause cause);
enum weir_status span_end(struct streams *s); /* of the latest begun; spans don't nest */
/* Gives the milliseconds of each cause since the last call. Needs: compute synchronised. */
enum weir_status streams_spent(struct streams *s, double ms[CAUSES]);

static inline enum weir_status real_alloc(struct streams *s, enum queue queue, int64_t count, real **out) {
    void *block;
    enum weir_status status = block_alloc(s, queue, (size_t)count * sizeof(real), &block);
    *out = block;
    return status;
}
static inline enum weir_status int_alloc(struct streams *s, enum queue queue, int64_t count, int32_t **out) {
    void *block;
    enum weir_status status = block_alloc(s, queue, (size_t)count * sizeof(int32_t), &block);
    *out = block;
    return status;
}
static inline enum weir_status wire_alloc(struct streams *s, enum queue queue, int64_t count, enum wire wire,
                                          void **out) {
    return block_alloc(s, queue, (size_t)count * wire_bytes(wire), out);
}

#endif
