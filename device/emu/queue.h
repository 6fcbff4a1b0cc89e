/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of operations. An operation is data: what to do, what it takes, and the points it must come after; a clock
 * makes it happen.
 *
 *     completed <= pushed <= completed + EMU_QUEUE_ROOM
 *     operations of a queue happen in the order of their positions, each after its points have passed
 *     positions only grow, also when a queue serves a later stream: a point that has passed stays passed
 *
 * All functions need the lock, unless they say otherwise. */
#ifndef WEIR_EMU_QUEUE_H
#define WEIR_EMU_QUEUE_H

#include "device/emu/emu.h"
#include "device/emu/watch.h"

enum { EMU_QUEUE_ROOM = 1024 }; /* launches a stream holds before a further one blocks, as on a real device */

struct emu_point {
    struct emu_queue *queue;
    uint64_t position; /* 0: nothing to wait for */
};

enum emu_operation_kind {
    EMU_COPY,     /* by a copy engine, or within device memory */
    EMU_SET,      /* fills with a pattern */
    EMU_KERNEL,   /* described work, or a kernel: on the compute engine */
    EMU_FUNCTION, /* cuLaunchHostFunc */
    EMU_RECORD,   /* an event's */
    EMU_WAIT,     /* its points are all there is to it */
    EMU_GATE,     /* until the gate is open */
    EMU_FREE,     /* a stream-ordered free */
};

enum emu_engine { EMU_ENGINE_NONE, EMU_ENGINE_COMPUTE, EMU_ENGINE_TO_DEVICE, EMU_ENGINE_TO_HOST, EMU_ENGINES };

struct emu_operation {
    enum emu_operation_kind kind;
    enum emu_engine engine;       /* what it occupies, on the queue's device */
    const char *name;             /* for reports; static storage, or NULL */
    double alone_ns;              /* what it takes when nothing else runs */
    struct emu_point after[2];    /* at most two for most operations ... */
    struct emu_point *after_many; /* ... and an array, owned, for those of the legacy stream */
    size_t after_many_count;
    const struct weir_emu_access *accesses; /* beside those that the kind tells; valid while it is pushed only */
    size_t access_count;
    bool described;                  /* the accesses are all that there are */
    const struct emu_moment *moment; /* of a wait, for the watch: what it comes after; valid while it is pushed only */
    union {
        struct { /* rows of `bytes` bytes, `to_pitch` and `from_pitch` apart; 1 row for a plain copy */
            void *to;
            const void *from;
            size_t bytes, rows, to_pitch, from_pitch;
            bool to_device, from_device;
            bool
                staged; /* the source, pageable memory, has been read when the call returns; the copy may still be on its way */
        } copy;
        struct {
            void *at;
            size_t count;       /* of units in a row */
            size_t rows, pitch; /* 1 row for a plain set */
            uint32_t value;
            unsigned unit; /* bytes of a unit: 1, 2 or 4 */
        } set;
        struct {
            CUhostFn run; /* may be NULL: work that only takes time */
            void *argument;
            CUresult *told; /* of a stream callback: it runs whatever has become of its context, and is told so */
        } function;         /* EMU_KERNEL and EMU_FUNCTION */
        struct {
            CUevent event;
            uint64_t sequence;
        } record;
        struct weir_emu_gate *gate;
        uintptr_t free;
    };
};

struct emu_capture;
struct emu_line;

struct emu_queue {
    struct emu_queue *next; /* of the context */
    CUcontext context;
    unsigned index;    /* process-wide: the stream's number in reports, the place in the watch's clocks */
    bool blocking;     /* ordered with the legacy stream */
    bool taken;        /* a stream's */
    uint64_t delay_ns; /* before each operation */
    uint64_t pushed, completed;
    struct emu_capture *capture; /* what is pushed goes there */
    struct emu_known *known;     /* of the watch: what comes before the next operation */
    uint64_t host_seen;          /* of the watch: the host's version that `known` has */
    /* of the real clock */
    bool has_worker;
    bool running; /* the head, without the lock */
    pthread_cond_t pushed_more, completed_more;
    struct emu_line *line; /* of the virtual clock */

    struct emu_operation operations[EMU_QUEUE_ROOM]; /* position p lies at p % EMU_QUEUE_ROOM */
};

/* A queue for a new stream of the context: one that has drained, else a new one. NULL: no host memory. */
struct emu_queue *emu_queue_take(CUcontext context, bool blocking);
/* The stream is gone; what is queued still happens. */
void emu_queue_give(struct emu_queue *queue);

/* Queues an operation in the order that the queue's kind of stream has; blocks while the queue is full. In capture, it
 * is added to the graph instead and the point is empty.
 * Gives: its point. Fails: CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_LAUNCH_TIMEOUT; nothing is queued. */
CUresult emu_queue_push(struct emu_queue *queue, const struct emu_operation *operation, struct emu_point *point);

bool emu_point_passed(struct emu_point point);
/* The point of the last operation pushed so far. */
struct emu_point emu_queue_end(struct emu_queue *queue);
/* The host waits until the point has passed, and has seen the moment then: what comes before it as it was read with the
 * point, since others may push more meanwhile. Takes the moment's reference. */
CUresult emu_point_wait(struct emu_point point, struct emu_moment moment);
/* The host waits until all that is queued in the queue, the context, on the device now has happened. */
CUresult emu_queue_wait(struct emu_queue *queue);
CUresult emu_context_wait(CUcontext context);
CUresult emu_device_wait(CUdevice device);
/* As emu_context_wait, and an error that the work met is none of the wait. */
CUresult emu_context_drain(CUcontext context);
/* Waits until no copy or set is running that touches the run of addresses: before memory is taken away, since what runs has
 * no lock. True: it had to, and let go of the lock meanwhile. */
bool emu_running_wait(uintptr_t start, size_t bytes);

/* For the clocks. The operation at the head of the queue, not completed yet. */
struct emu_operation *emu_queue_head(struct emu_queue *queue);
/* Before a copy or a set begins: lets those go first who are about to take memory away. */
void emu_takers_wait(const struct emu_operation *operation);
/* True when the memory of a copy or a set that was checked earlier is still there; all else is. */
bool emu_operation_valid(const struct emu_operation *operation);
/* Does what the operation says; without the lock. False of runs: there is nothing to do, or it can't be done, which the
 * context is told then. */
bool emu_operation_runs(struct emu_queue *queue, const struct emu_operation *operation);
void emu_operation_run(const struct emu_operation *operation);
/* Keeps the books of an operation that has happened: it is completed. */
void emu_operation_settle(struct emu_queue *queue, struct emu_operation *operation);

#endif
