/* SPDX-License-Identifier: Apache-2.0 */
/* Replaying a trace through a real pool on the emulated device, without a clock. */
#ifndef WEIR_REPLAY_REPLAY_H
#define WEIR_REPLAY_REPLAY_H

#include "tools/trace/trace.h"
#include "weir/weir.h"

struct outcome {
    bool completed; /* false: out of memory at `failed_line` */
    uint32_t failed_line;
    size_t peak_held_bytes;
};

/* One run on a pool of `capacity` bytes. Gives: false with a sentence when anything but memory failed. */
bool replay(struct weir_device *device, const struct trace *trace, enum weir_policy policy, size_t capacity,
            struct outcome *outcome, char *why, size_t room);

/* The smallest capacity, in pages, at which the trace completes: bisected down from the first multiple of the peak that
 * does, to 0.2 % or one page. Completing need not be monotone; this finds one edge. Gives: *bytes, and the run
 * that completed on it; 0 when not even `most_bytes` do. */
bool replay_scan(struct weir_device *device, const struct trace *trace, enum weir_policy policy, size_t most_bytes,
                 size_t *bytes, struct outcome *found, char *why, size_t room);

#endif
