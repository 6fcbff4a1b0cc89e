/* SPDX-License-Identifier: Apache-2.0 */
/* One replay of a trace on an emulated device of its own.
 *
 * Words. target: what answers the trace's requests: weir's pool under a policy, a plug-in library, the free allocator (no
 * request costs anything or fails: the time that the trace would take by itself), or the fluid model (no fragmentation;
 * memory moves freely between streams; a full device makes the host wait for the earliest pending use, and for nothing
 * else). steady: the part of the run from the iteration `steady_from` on; the whole run where the trace has fewer.
 *
 * The host of a run is virtual: it pays what the profile says for each call of the driver (kernels: cuLaunchKernel), and
 * `pool_call` for each request, free and use told to a target. Work takes what its `k` says.
 * Without a clock (CLOCK_NONE) no call costs anything and no work takes time: what was queued is done. */
#ifndef WEIR_REPLAY_RUN_H
#define WEIR_REPLAY_RUN_H

#include <stdio.h>

#include "tools/trace/trace.h"

enum target_kind { TARGET_POOL, TARGET_PLUGIN, TARGET_FREE, TARGET_FLUID };
enum replay_clock { CLOCK_VIRTUAL, CLOCK_NONE };

/* What a terminal can show. */
struct timeline_look {
    unsigned width; /* characters of a line */
    bool utf8;      /* else ASCII */
    bool colour;
};

struct setup {
    const struct trace *trace;
    enum target_kind target;
    const char *policy;  /* TARGET_POOL: latency, footprint, per-stream */
    bool deterministic;  /* TARGET_POOL: addresses depend on the order of calls alone */
    const char *library; /* TARGET_PLUGIN: a shared library with PyTorch's plug-in ABI, */
    const char *alloc_symbol, *free_symbol;
    const char *use_symbol; /* and its record-stream function; NULL: it has none */
    size_t capacity_bytes;  /* of the device; ignored by TARGET_FREE */
    const char *profile;    /* a profile's name or path */
    const char *law;        /* measured, page, handle, range */
    enum replay_clock clock;
    bool blind;                /* the target hears of no event, wait or destroyed stream: what a plug-in face sees */
    unsigned steady_from;      /* 1: the first `i` */
    const char *timeline_path; /* a page that shows the run; NULL: none */
    FILE *timeline_text;       /* where text that shows the run goes; NULL: nowhere */
    struct timeline_look timeline_look; /* of that text */
    const char *trace_name;             /* for people; NULL: not said */
};

enum ending { ENDED_COMPLETED, ENDED_OUT_OF_MEMORY, ENDED_FAILED };

#define NOT_KNOWN UINT64_MAX /* a figure that the target does not give */

struct outcome {
    enum ending ending;
    uint32_t failed_line; /* where it ended otherwise than completed */
    char why[512];        /* ENDED_FAILED: one sentence */
    char report[4096];    /* ENDED_OUT_OF_MEMORY: what filled the device, for people; "" if the target says nothing */
    uint64_t peak_held_bytes, peak_stranded_bytes;
    uint64_t run_ns, steady_ns; /* of the virtual clock, up to the end of all work; 0 without one */
    uint64_t memory_calls, memory_calls_steady, order_calls, order_calls_steady; /* made by the target */
    uint64_t page_moves, moved_bytes, device_waits, host_waits, host_wait_ns;    /* in the whole run */
    uint64_t host_waits_steady;
    uint64_t addresses_compared, addresses_equal; /* with those of the recorded run; 0: nothing to compare */
    uint64_t
        uses_not_told;    /* a plug-in without a record-stream function: uses that the replay had to wait for itself */
    double cpu_ns_per_op; /* of this machine: replaying, the target and the emulated driver together */
};

/* Makes one run in the calling process, which must not have opened a device before. Never fails: what went wrong is
 * ENDED_FAILED. */
void run_here(const struct setup *setup, struct outcome *outcome);

/* Makes runs in processes of their own, at most `jobs` at a time, so that each has a fresh device and a target's crash is
 * one run's ending. Runs that are still going on when the calling process dies are ended. Gives: false with a sentence when no
 * process could be made. */
bool run_many(const struct setup *setups, size_t count, unsigned jobs, struct outcome *outcomes, char *why,
              size_t room);

#endif
