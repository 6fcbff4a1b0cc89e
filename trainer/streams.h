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

#include "alloc/wait.h"
#include "device/watched.h"
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

/* Every wait goes through here under the name of its site, so that a test can take one out and see that the watch
 * notices (WEIR_MUTATE, as in alloc/wait.h). Sites:
 *
 *   train.plan           the exchange stream reads the expert ids that the router chose
 *   train.rows           it reads the rows that compute made
 *   train.forward.came   compute reads what the exchange has brought: tokens to the experts,
 *   train.forward.back   what the experts made of them,
 *   train.backward.came  tokens and gradients to the experts,
 *   train.backward.back  and the experts' gradients
 *   train.weights        compute reads gathered weights
 *   train.cast           the reduce stream sends gradients that compute has converted
 *   train.reduced        the optimizer reads summed gradients
 *   train.counts         the host reads the rows a rank gets
 *   train.sums           the host reads the loss
 *   train.load           the host fills the memory again that the weights at the start were copied from
 *   train.close          host memory goes that copies read; the driver waits before it frees pinned memory, but that is
 *                        no promise
 *   comm.close           local ranks: a rank's memory may go, no collective touches it any more
 *
 * Three order no memory, and a run is right without them:
 *
 *   train.released       gathers wait for the unit before: else weights of many units would be held at once. What is
 *                        gathered is the master copy, which train.updated orders; where it goes the pool orders
 *   train.summed         compute waits for the reduce before, likewise: else many units' gradients would be held at
 *                        once. They are in blocks of their own, which the pool orders
 *   train.step           the host reads the times of a step; without it the driver may say that they are not there yet
 *
 * Two order what train.step does too: with all three taken out the watch notices.
 *
 *   train.times          there is a time, so the host knows that the optimizer is through
 *   train.updated        the next gather reads weights that the optimizer has changed; for the day when the host does
 *                        not wait for each step
 *
 * The host fills the next batch without a wait of its own: it has waited for the counts of every layer (train.counts),
 * which come after the copy of the batch before. */
enum weir_status streams_wait(struct streams *s, const char *site, enum queue follower, weir_event event);
enum weir_status streams_follow(struct streams *s, const char *site, enum queue follower, enum queue leader);
/* Compute waits for an event, or for all that another stream has queued; the time goes to `cause`. */
enum weir_status streams_await_event(struct streams *s, const char *site, enum cause cause, weir_event event);
enum weir_status streams_await(struct streams *s, const char *site, enum cause cause, enum queue leader);
/* The host waits for all that a stream has queued; that all streams of a device have. */
enum weir_status streams_synchronize(struct streams *s, const char *site, enum queue queue);
static inline enum weir_status device_synchronize(struct weir_device *device, const char *site) {
    return weir__mutated(site) ? WEIR_OK : weir_device_synchronize(device);
}

/* The host is about to write, has just come to read, host memory that copies touch: for the watch. */
static inline void host_writes(struct streams *s, const void *address, size_t bytes) {
    weir__device_host_access(s->device, address, bytes, true);
}
static inline void host_reads(struct streams *s, const void *address, size_t bytes) {
    weir__device_host_access(s->device, address, bytes, false);
}

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
