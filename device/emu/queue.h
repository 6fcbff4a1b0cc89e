/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of operations. An operation is data: what to do and the points it must come after; a clock makes it happen.
 *
 *     completed <= pushed;   pushed - completed + promised <= EMU_QUEUE_ROOM
 *     operations of a queue happen in the order of their positions, each after its points have passed
 *     positions only grow, also when a queue serves a later stream: a point that has passed stays passed */
#ifndef WEIR_EMU_QUEUE_H
#define WEIR_EMU_QUEUE_H

#include "device/emu/emu.h"

enum { EMU_QUEUE_ROOM = 1024 }; /* launches a stream holds before a further one blocks, as on a real device */

struct emu_point {
    struct emu_queue *queue;
    uint64_t position; /* 0: nothing to wait for */
};

enum emu_operation_kind { EMU_COPY, EMU_SET, EMU_FUNCTION, EMU_RECORD, EMU_WAIT };

struct emu_operation {
    enum emu_operation_kind kind;
    struct emu_point after[2];    /* at most two for most operations ... */
    struct emu_point *after_many; /* ... and an array, owned, for those of the legacy stream */
    size_t after_many_count;
    union {
        struct {
            void *to;
            const void *from;
            size_t bytes;
        } copy;
        struct {
            void *at;
            size_t bytes;
            unsigned char value;
        } set;
        struct {
            CUhostFn run; /* may be NULL: work that only takes time */
            void *argument;
        } function;
        struct {
            CUevent event;
            uint64_t sequence;
        } record;
    };
};

struct emu_queue {
    struct emu_queue *next; /* of the context */
    CUcontext context;
    bool blocking; /* ordered with the legacy stream; guarded by context.order */
    bool taken;    /* a stream's; guarded by context.order */
    pthread_mutex_t lock;
    pthread_cond_t pushed_more;
    pthread_cond_t completed_more;
    uint64_t pushed, completed;
    unsigned promised;                               /* room that callers have reserved and not used yet */
    bool has_worker;                                 /* of the real clock */
    struct emu_operation operations[EMU_QUEUE_ROOM]; /* position p lies at p % EMU_QUEUE_ROOM */
};

/* A queue for a new stream of the context: one that has drained, else a new one. NULL: no host memory. */
struct emu_queue *emu_queue_take(CUcontext context, bool blocking);
/* The stream is gone; what is queued still happens. */
void emu_queue_give(struct emu_queue *queue);

/* Queues an operation in the order that the queue's kind of stream has; blocks while the queue is full.
 * Gives: its point. Fails: CUDA_ERROR_OUT_OF_MEMORY; nothing is queued. */
CUresult emu_queue_push(struct emu_queue *queue, const struct emu_operation *operation, struct emu_point *point);

bool emu_point_passed(struct emu_point point);
/* The point of the last operation pushed so far. */
struct emu_point emu_queue_end(struct emu_queue *queue);
/* The host waits until all that is queued in the context now has happened. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult emu_context_wait(CUcontext context);

/* Does what the operation says; called by a clock with no lock held. */
void emu_operation_run(const struct emu_operation *operation);

#endif
