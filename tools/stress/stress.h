/* SPDX-License-Identifier: Apache-2.0 */
/* weir-stress: asks an allocator of device memory for blocks from many threads on many streams, uses what it gives, and looks
 * whether it kept its promises.
 *
 * main.c the run    options.c what is asked    laws.c sizes    patterns.c what a thread does next    worker.c a thread
 * target.c the allocator    live.c blocks by address    contents.c what is in them    faults.c what was found
 * histogram.c times    report.c the answer */
#ifndef WEIR_STRESS_STRESS_H
#define WEIR_STRESS_STRESS_H

#include "contents.h"
#include "faults.h"
#include "histogram.h"
#include "live.h"
#include "options.h"
#include "target.h"

enum { EXCHANGE_PLACES = 64 };

/* What one thread did. */
struct counts {
    uint64_t allocs, frees, uses, looks, holds, gifts, refused;
    uint64_t least_refused_bytes; /* least that was live, with the request, at a refusal */
    struct histogram alloc_ns, free_ns;
};

/* A run. */
struct stress {
    const struct options *options;
    struct weir_device *device;
    struct target target;
    struct live *live;
    struct contents contents;
    struct faults faults;
    weir_stream streams[OPTIONS_MOST_STREAMS];
    double held_flops;         /* work that holds a stream back for a nanosecond; 0: a host function sleeps */
    size_t level_bytes;        /* a thread's share of what is to be live */
    uint64_t begin_ns, end_ns; /* of the device's clock; end 0: not by time */
    struct block *_Atomic exchange[EXCHANGE_PLACES]; /* blocks on their way from thread to thread */
    atomic_uint_fast64_t operations;
    atomic_bool over; /* no thread goes on */
    atomic_uint ended;
    bool takes_turns; /* the virtual clock */
    bool watched;
    uint64_t watch_reports; /* that are among the faults: the first thread's to count */
};

struct worker {
    struct stress *stress;
    unsigned number;
    pthread_t thread;
    struct checker checker;
    weir_event event;
    struct block **blocks;
    uint32_t block_count, most_blocks;
    size_t live_bytes;
    struct counts counts;
    uint64_t digest; /* of what it asked for and got */
    bool refused;
};

/* False: no memory, weir_last_error() says why. Closed in any case. */
bool worker_open(struct worker *worker, struct stress *stress, unsigned number);
void worker_close(struct worker *worker);
/* Adds what the watch has found since to the faults. One thread at a time. */
void stress_ask_watch(struct stress *stress);
/* The thread: works until the run is over, then frees what it has. */
void *worker_run(void *worker);

#endif
