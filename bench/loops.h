/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that weir-bench-pool times, the same code for weir and for each peer: what they call is named at compile time,
 * so that nobody pays for a call through a pointer that another one does not pay for. */
#ifndef WEIR_BENCH_LOOPS_H
#define WEIR_BENCH_LOOPS_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum loop_kind {
    LOOP_PAIRS, /* an alloc and its free */
    LOOP_USES,  /* the same with a use on another stream told between them */
    LOOP_MIX,   /* of MIX_BLOCKS live blocks a random one is replaced by one of a random size, 512 to `bytes` */
};

struct loop {
    enum loop_kind kind;
    size_t bytes;
    int threads; /* 1 or 2, each with a stream of its own */
    int steps;   /* timed; before them half as many are not */
};

enum { LOOP_MOST_THREADS = 2, MIX_BLOCKS = 256, MIX_SIZES = 64 };

/* Each answers whether it could, and is told which thread calls. */
typedef bool loop_take(void *self, int thread, size_t bytes, void **block);
typedef bool loop_use(void *self, int thread, void *block);
typedef bool loop_give(void *self, int thread, void *block, size_t bytes);

#define LOOP_INLINE static inline __attribute__((always_inline))

static inline double loop_now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* 64 sizes, log-uniform from 512 bytes to `most`. */
static inline void loop_sizes(size_t most, size_t sizes[MIX_SIZES]) {
    for (int i = 0; i < MIX_SIZES; i++)
        sizes[i] = (size_t)(512 * pow((double)most / 512, i / (double)(MIX_SIZES - 1)) + 0.5);
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

struct mix {
    void *blocks[MIX_BLOCKS];
    size_t bytes[MIX_BLOCKS]; /* of each block */
    size_t sizes[MIX_SIZES];
    uint64_t random;
};

static inline uint64_t mix_random(struct mix *mix) {
    mix->random ^= mix->random << 13;
    mix->random ^= mix->random >> 7;
    mix->random ^= mix->random << 17;
    return mix->random >> 16;
}

LOOP_INLINE bool mix_take(struct mix *mix, size_t index, size_t bytes, int thread, void *self, loop_take *take) {
    mix->bytes[index] = bytes;
    return take(self, thread, bytes, &mix->blocks[index]);
}

LOOP_INLINE bool mix_fill(struct mix *mix, const struct loop *loop, int thread, void *self, loop_take *take) {
    *mix = (struct mix){.random = UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)thread};
    loop_sizes(loop->bytes, mix->sizes);
    for (size_t i = 0; i < MIX_BLOCKS; i++)
        if (!mix_take(mix, i, mix->sizes[mix_random(mix) % MIX_SIZES], thread, self, take)) return false;
    return true;
}

LOOP_INLINE bool mix_empty(struct mix *mix, int thread, void *self, loop_give *give) {
    bool good = true;
    for (int i = 0; i < MIX_BLOCKS; i++)
        if (mix->blocks[i] != NULL) good = give(self, thread, mix->blocks[i], mix->bytes[i]) && good;
    return good;
}

LOOP_INLINE bool mix_step(struct mix *mix, int thread, void *self, loop_take *take, loop_give *give) {
    const uint64_t random = mix_random(mix);
    const size_t index = random % MIX_BLOCKS;
    if (!give(self, thread, mix->blocks[index], mix->bytes[index])) return false;
    mix->blocks[index] = NULL;
    return mix_take(mix, index, mix->sizes[random / MIX_BLOCKS % MIX_SIZES], thread, self, take);
}

LOOP_INLINE bool loop_steps(const struct loop *loop, int steps, struct mix *mix, int thread, void *self,
                            loop_take *take, loop_use *use, loop_give *give) {
    for (int i = 0; i < steps; i++) {
        void *block = NULL;
        if (loop->kind == LOOP_MIX) {
            if (!mix_step(mix, thread, self, take, give)) return false;
            continue;
        }
        if (!take(self, thread, loop->bytes, &block)) return false;
        if (loop->kind == LOOP_USES && !use(self, thread, block)) return false;
        if (!give(self, thread, block, loop->bytes)) return false;
    }
    return true;
}

/* All threads leave it together. They spin, since waking one up takes longer than many a loop. */
static inline void loop_meet(atomic_int *missing) {
    atomic_fetch_sub(missing, 1);
    while (atomic_load(missing) > 0) continue;
}

/* Gives the time of one step; NaN where something could not be done. */
LOOP_INLINE double loop_thread_ns(const struct loop *loop, atomic_int *missing, clockid_t clock, int thread, void *self,
                                  loop_take *take, loop_use *use, loop_give *give) {
    struct mix mix = {.blocks = {NULL}};
    bool good = loop->kind != LOOP_MIX || mix_fill(&mix, loop, thread, self, take);
    good = good && loop_steps(loop, loop->steps / 2, &mix, thread, self, take, use, give);
    loop_meet(missing);
    const double begin = loop_now_ns(clock);
    good = good && loop_steps(loop, loop->steps, &mix, thread, self, take, use, give);
    const double took = loop_now_ns(clock) - begin;
    if (loop->kind == LOOP_MIX) good = mix_empty(&mix, thread, self, give) && good;
    return good ? took / loop->steps : (double)NAN;
}

/* ---- several ----------------------------------------------------------------------------------------------------- */

/* What a subject defines by LOOP_DEFINE: one thread of a loop. */
typedef double loop_thread(const struct loop *loop, atomic_int *missing, clockid_t clock, int thread, void *self);

#define LOOP_DEFINE(name, take, use, give)                                                                             \
    static double name(const struct loop *loop, atomic_int *missing, clockid_t clock, int thread, void *self) {        \
        return loop_thread_ns(loop, missing, clock, thread, self, take, use, give);                                    \
    }

struct loop_second {
    const struct loop *loop;
    loop_thread *run;
    atomic_int *missing;
    void *self;
    double ns;
};

static inline void *loop_run_second(void *argument) {
    struct loop_second *second = argument;
    second->ns = second->run(second->loop, second->missing, CLOCK_MONOTONIC, 1, second->self);
    return NULL;
}

/* The time of one step a thread, the mean of the threads; NaN where something could not be done. */
static inline double loop_ns(const struct loop *loop, loop_thread *run, clockid_t clock, void *self) {
    atomic_int missing = loop->threads;
    struct loop_second second = {loop, run, &missing, self, 0};
    pthread_t thread;
    if (loop->threads > 1 && pthread_create(&thread, NULL, loop_run_second, &second) != 0) return (double)NAN;
    const double ns = run(loop, &missing, clock, 0, self);
    if (loop->threads == 1) return ns;
    pthread_join(thread, NULL);
    return (ns + second.ns) / 2;
}

#endif
