/* SPDX-License-Identifier: Apache-2.0 */
/* What weir's pool has that other allocators have not, called beside the patterns: one table of names, of how often each comes,
 * and of functions. Each draws from a chance of its own, so that what one does hangs on no other's being there. */
#ifndef WEIR_STRESS_EXTRAS_H
#define WEIR_STRESS_EXTRAS_H

#include <stdatomic.h>

#include "live.h"
#include "patterns.h"
#include "weir/weir.h"

/* X(name, text, once in so many steps, function) */
#define EXTRA_LIST(X)                                                                                                  \
    X(ALIGNED, "aligned", 32, extra_aligned)                                                                           \
    X(RESIZE, "resize", 16, extra_resize)                                                                              \
    X(EXPORTABLE, "exportable", 64, extra_exportable)                                                                  \
    X(REGISTERED, "registered", 64, extra_registered)                                                                  \
    X(HOST_FREES, "host-frees", 64, extra_host_free)                                                                   \
    X(DEFAULT_STREAMS, "default-streams", 64, extra_default_stream)                                                    \
    X(SHORT_STREAMS, "short-streams", 256, extra_short_stream)                                                         \
    X(SUB_POOLS, "sub-pools", 32, extra_sub_pool)                                                                      \
    X(ITERATIONS, "iterations", 128, extra_iteration)                                                                  \
    X(GRAPHS, "graphs", 64, extra_graph)                                                                               \
    X(LIMITS, "limits", 64, extra_limit)                                                                               \
    X(RECLAIM, "reclaim", 64, extra_reclaim)                                                                           \
    X(SNAPSHOTS, "snapshots", 512, extra_snapshot)                                                                     \
    X(QUESTIONS, "questions", 64, extra_question)

enum extra {
#define EXTRA_ENUM(name, text, once_in, function) EXTRA_##name,
    EXTRA_LIST(EXTRA_ENUM)
#undef EXTRA_ENUM
        EXTRAS
};
extern const char *const extra_names[EXTRAS];
#define EXTRAS_ALL ((UINT32_C(1) << EXTRAS) - 1)

enum { REGISTERED = 4, SCRIPT = 16, GRAPH_BLOCKS = 3 };

/* Addresses that keep their pages. */
struct registered {
    const void *address;
    size_t bytes;
    struct block *stands; /* for the pages, which nobody else can have, also once their block is freed */
};

/* Passes that ask for the same again and again, of a sub-pool. */
struct script {
    struct weir_pool *pool;
    unsigned passes;
    size_t bytes[SCRIPT];
    uint32_t streams[SCRIPT];
    bool outlives[SCRIPT]; /* its pass: freed where the next one asks for it again */
    struct block *blocks[SCRIPT];
};

/* A graph that fills blocks of its own and copies them to others, of the pool. */
struct graph {
    struct weir_pool *pool;
    void *exec;
    uint32_t home; /* stream of the results and of the launches' order */
    struct block *results[GRAPH_BLOCKS];
    struct block *blocks[GRAPH_BLOCKS]; /* what the capture was given */
    bool placed[GRAPH_BLOCKS];          /* in place, so that nobody else is given it */
    bool kept[GRAPH_BLOCKS];            /* not freed in the capture */
};

/* Of one thread. */
struct extras {
    struct draw draws[EXTRAS];
    struct registered registered[REGISTERED];
    struct weir_pool *sub_pool;
    bool sub_pool_limited;
    struct script script;
    struct graph graph;
    struct block *_Atomic hoard; /* a block that is freed when memory is short */
    bool reclaims;               /* its callback is there */
    bool lowered;                /* the limit, by this thread */
};

struct worker;

void extras_begin(struct worker *worker, const struct draw *draw);
/* What comes beside a step, of what was selected. False: there is no going on. */
bool extras_make(struct worker *worker);
/* Gives all back but the thread's blocks, unless there was no going on. */
void extras_end(struct worker *worker);

/* Gives: false, and a sentence in `why`, when the driver has no graphs. */
bool extras_find_graphs(const char *driver, char *why, size_t room);

/* Each: one extra. False: there is no going on. */
#define EXTRA_DECLARE(name, text, once_in, function) bool function(struct worker *worker, struct draw *draw);
EXTRA_LIST(EXTRA_DECLARE)
#undef EXTRA_DECLARE

/* ---- between the files ------------------------------------------------------------------------------------------- */

/* A size by the law, at most a part of the thread's share. */
size_t extra_size(const struct worker *worker, struct draw *draw, size_t part);
uint32_t extra_stream(const struct worker *worker, struct draw *draw);
/* One of the thread's blocks, by its place; false when it has none. */
bool extra_block(const struct worker *worker, struct draw *draw, uint32_t *at);
/* A pool is destroyed while nothing captures. May: whether it may now; wait: until it may. */
bool extra_destroy_may(struct worker *worker);
void extra_destroy_wait(struct worker *worker);
void extra_destroy_end(struct worker *worker, struct weir_pool *pool);
bool extra_capture_may(struct worker *worker);
void extra_capture_end(struct worker *worker);

bool sub_pool_close(struct worker *worker);
bool script_close(struct worker *worker);
bool graph_close(struct worker *worker);
bool registered_close(struct worker *worker, struct registered *registered);
bool limit_close(struct worker *worker);
bool reclaim_close(struct worker *worker);

#endif
