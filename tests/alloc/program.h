/* SPDX-License-Identifier: Apache-2.0 */
/* A random program over one pool, under the virtual clock, against the model (model.h). It is a list of operations, drawn
 * as it goes or given; an operation that does not apply where it comes is skipped, so that any part of a program is one.
 *
 * A run is a process: the machine's settings are a process's. Turns: with `real_threads` its threads are those of the
 * virtual clock, which gives the turn where a thread calls the driver, also amid a call of the pool; else one thread makes
 * all calls, a whole one each. Either way the run is a function of its plan. */
#ifndef WEIR_TESTS_ALLOC_PROGRAM_H
#define WEIR_TESTS_ALLOC_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

enum { PROGRAM_MOST_STREAMS = 8, PROGRAM_MOST_THREADS = 8 };

#define PROGRAM_OPERATIONS(X)                                                                                          \
    X(ALLOCATE, "allocate")                                                                                            \
    X(READ, "read")                                                                                                    \
    X(WRITE, "write")                                                                                                  \
    X(RESIZE, "resize")                                                                                                \
    X(FREE, "free")                                                                                                    \
    X(FREE_ELSEWHERE, "free on another stream")                                                                        \
    X(FREE_AFTER, "free after an event")                                                                               \
    X(FREE_LATE, "free in a host function")                                                                            \
    X(REGISTER, "register, or unregister what was registered first")                                                   \
    X(ORDER, "make a stream wait for another")                                                                         \
    X(SYNCHRONIZE_STREAM, "synchronise a stream")                                                                      \
    X(SYNCHRONIZE_DEVICE, "synchronise the device")                                                                    \
    X(REPLACE, "destroy a stream and make one anew")                                                                   \
    X(HOLD, "hold a stream back")                                                                                      \
    X(TRIM, "trim")                                                                                                    \
    X(OTHERS, "other processes take or give memory")                                                                   \
    X(LIMIT, "set the limit, or the peaks anew")                                                                       \
    X(BAD, "bad call")                                                                                                 \
    X(LOOK, "walk, statistics, report")

enum program_operation {
#define PROGRAM_OPERATION(name, text) PROGRAM_##name,
    PROGRAM_OPERATIONS(PROGRAM_OPERATION)
#undef PROGRAM_OPERATION
};

struct operation {
    uint8_t kind, thread, stream, way; /* way: whatever else is to be chosen */
    uint16_t slot;                     /* of the table of blocks */
    uint32_t work;                     /* how long the work takes */
    size_t bytes;
};

struct plan {
    uint64_t seed; /* of what is drawn, and of the machine */
    unsigned streams, threads;
    bool real_threads, deterministic, movable;
    enum weir_policy policy;
    size_t limit_bytes, capacity_bytes;
    const char *watch; /* "abort", or "off": then the model alone looks */
    size_t operations;
    size_t period; /* so many operations come again and again, an iteration each; 0: all are drawn */
};

/* What a run leaves, in memory that outlives its process. */
struct journal {
    char fault[512]; /* empty: none */
    uint64_t hash;   /* of all addresses and of the statistics at the end */
    uint64_t device_waits, host_waits, pages_moved, refusals;
    size_t count;
    struct operation operations[];
};
enum { PROGRAM_FAULT_EXIT = 3 };

/* Runs in this process, which must not have opened a device. `given` NULL: plan->operations are drawn, and written down. */
void program_run(const struct plan *plan, const struct operation *given, size_t given_count, struct journal *journal);

/* Prints an operation, a line. */
void program_print(const struct operation *operation);

#endif
