/* SPDX-License-Identifier: Apache-2.0 */
/* What answers the requests of one run, as a table: target_pool.c, target_plugin.c, target_free.c, target_fluid.c. */
#ifndef WEIR_REPLAY_TARGET_H
#define WEIR_REPLAY_TARGET_H

#include "device/device.h"
#include "run.h"

/* A run that goes on. Arrays are by the trace's numbers. */
struct run {
    const struct setup *setup;
    const struct trace *trace;
    struct weir_device *device;
    void **blocks; /* as the target gave them; NULL: not live, or of no bytes */
    weir_stream *streams;
    bool *stream_open;
    weir_event *events;    /* NULL: not recorded since it was made or destroyed */
    uint32_t *recorded_on; /* by event: the stream of its latest record, */
    uint64_t *recorded_at; /* and the number of that record */
    bool *event_kept;      /* set by a target that goes on using the event as it is recorded now: its next record takes
                                * another one, and the target destroys this one; cleared then, or by the target */
    uint64_t records;      /* numbered so far; targets may number their own between them */
    void *target;          /* the target's own */
    uint64_t live_bytes;   /* of what was requested */
    struct timeline *timeline; /* NULL: none is drawn */
};

struct target {
    const char *name;
    /* The device is open. False with a sentence. */
    bool (*open)(struct run *run, char *why, size_t room);
    void (*close)(struct run *run);
    /* Each gives WEIR_OK; WEIR_OUT_OF_MEMORY (alloc only), which ends the run; anything else fails it, weir_last_error()
     * says why. `op` is the operation, `stream` its stream. run->blocks[op->block] is set by alloc, cleared by the caller. */
    enum weir_status (*alloc)(struct run *run, const struct op *op, weir_stream stream);
    enum weir_status (*free)(struct run *run, const struct op *op, weir_stream stream);
    enum weir_status (*free_any)(struct run *run, const struct op *op, weir_stream stream);
    enum weir_status (*free_after)(struct run *run, const struct op *op, weir_stream stream, weir_event event);
    enum weir_status (*use)(struct run *run, const struct op *op, weir_stream stream);
    enum weir_status (*iteration)(struct run *run);          /* may be NULL */
    void (*stream_opened)(struct run *run, uint32_t stream); /* may be NULL: for its name; costs the run nothing */
    /* Sets what it knows: peaks, calls, moves, waits so far; the rest is NOT_KNOWN before. The report too, where the run
     * ended with out of memory. */
    void (*figures)(struct run *run, struct outcome *so_far);
    /* For the timeline: bytes per stream that are idle there and held, NOT_KNOWN where it is not known; and the most that
     * was stranded since the last time: 0 where no request was short of memory. May be NULL. */
    void (*idle_by_stream)(struct run *run, uint64_t *bytes, uint64_t *stranded);
};

extern const struct target target_pool, target_plugin, target_free, target_fluid;

/* ---- for targets (run.c) ---------------------------------------------------------------------------------------- */

/* From here on the thread's calls of the driver cost nothing, or what the profile says: for what is not part of what is
 * measured. */
void run_charging(struct run *run, bool on);

#endif
