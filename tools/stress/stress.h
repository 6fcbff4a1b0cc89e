/* SPDX-License-Identifier: Apache-2.0 */
/* weir-stress: asks an allocator of device memory for blocks from many threads on many streams, uses what it gives, and looks
 * whether it kept its promises.
 *
 * main.c the run    options.c what is asked    laws.c sizes    patterns.c what a thread does next    worker.c a thread
 * calls.c its requests, frees and uses    extras.c what weir's pool alone has: extras_blocks.c, extras_pools.c, extras_graphs.c
 * target.c the allocator    live.c blocks by address    contents.c what is in them    faults.c what was found
 * histogram.c times    report.c the answer    ending.c ends that nobody awaits */
#ifndef WEIR_STRESS_STRESS_H
#define WEIR_STRESS_STRESS_H

#include "contents.h"
#include "extras.h"
#include "faults.h"
#include "histogram.h"
#include "live.h"
#include "options.h"
#include "target.h"

enum { EXCHANGE_PLACES = 64 };

/* What one thread did. */
struct counts {
    uint64_t allocs, frees, uses, looks, holds, gifts, refused;
    uint64_t extras[EXTRAS];
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
    atomic_size_t exchanged_bytes;                   /* theirs, of all threads' shares */
    atomic_uint_fast64_t limits; /* times that the pool's limit was lowered or put back: odd while it is lower */
    atomic_int captures; /* streams that capture; below 0: pools that are being destroyed, which may not be then */
    atomic_uint_fast64_t operations;
    atomic_bool over;    /* no thread goes on */
    atomic_uint cleaned; /* threads that have freed all */
    atomic_uint ended;
    bool takes_turns; /* the virtual clock */
    bool watched;
    uint64_t watch_reports; /* that are among the faults: the first thread's to count */
};

/* Where a thread is in the allocator. */
enum call { CALL_NONE, CALL_ALLOC, CALL_FREE, CALL_USE };

struct worker {
    struct stress *stress;
    atomic_int call;
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
    weir_stream own_stream; /* STREAM_OWN */
    struct extras extras;
};

/* ---- calls.c ---------------------------------------------------------------------------------------------------- */

/* Streams that no other thread names, or that stand for no handle of the run: numbers from options->streams on. */
enum { STREAM_LEGACY, STREAM_OF_THREAD, STREAM_OWN };

struct request {
    size_t bytes;
    uint32_t stream;
    enum target_way way;
    size_t alignment; /* TARGET_ALIGNED */
    struct weir_pool *pool;
    bool limited; /* by a limit of that pool's own: a refusal is no fault */
    bool stays;   /* struct block */
};

/* Functions that give bool: false when there is no going on, which is among the faults. */
uint64_t worker_now(const struct worker *worker);
weir_stream worker_stream(const struct worker *worker, uint32_t stream);
bool worker_good(struct worker *worker, enum weir_status status, const char *what);
void worker_digest(struct worker *worker, uint64_t kind, uint64_t a, uint64_t b);
/* Later work of `stream` comes after what is queued on `before`. */
bool worker_order(struct worker *worker, uint32_t before, uint32_t stream);
/* Gives: *out, filled, not among the thread's blocks yet; NULL when it was refused, or is not sound. */
bool worker_ask(struct worker *worker, const struct request *request, struct block **out);
/* Whether it is memory that nobody else has. What is not is touched by nobody, nor freed. */
bool worker_put(struct worker *worker, struct block *block, size_t alignment);
void worker_add(struct worker *worker, struct block *block);
void worker_remove(struct worker *worker, uint32_t at);
/* Of a block that is none of the thread's any more: its last look and its free. */
bool worker_free(struct worker *worker, struct block *block, enum target_way way);
bool worker_look(struct worker *worker, const struct block *block, uint32_t stream);
bool worker_use(struct worker *worker, struct block *block, uint32_t stream);
bool worker_hold(struct worker *worker, uint32_t stream, uint64_t ns);

/* ---- worker.c --------------------------------------------------------------------------------------------------- */

/* False: no memory, weir_last_error() says why. Closed in any case. */
bool worker_open(struct worker *worker, struct stress *stress, unsigned number);
void worker_close(struct worker *worker);
/* Adds what the watch has found since to the faults. One thread at a time. */
void stress_ask_watch(struct stress *stress);
/* The thread: works until the run is over, then frees what it has. */
void *worker_run(void *worker);

#endif
