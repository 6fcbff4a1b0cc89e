/* SPDX-License-Identifier: Apache-2.0 */
/* weir-bench-pool: a table of loops, each timed for several subjects in turn. */
#ifndef WEIR_BENCH_POOL_H
#define WEIR_BENCH_POOL_H

#include <stdio.h>
#include <sys/types.h>

#include "bench/loops.h"

enum { ROUNDS = 41, MOST_ROWS = 32 };

/* X(id, name). From JEMALLOC on they run in processes of their own. */
#define SUBJECTS(X)                                                                                                    \
    X(MUTEX, "mutex")                                                                                                  \
    X(WEIR, "weir")                                                                                                    \
    X(PER_STREAM, "per_stream")                                                                                        \
    X(JEMALLOC, "jemalloc")                                                                                            \
    X(MIMALLOC, "mimalloc")                                                                                            \
    X(TORCH, "torch")                                                                                                  \
    X(TORCH_EXPANDABLE, "torch_expandable")                                                                            \
    X(TORCH_SPLIT, "torch_split")                                                                                      \
    X(RMM_POOL, "rmm_pool")                                                                                            \
    X(RMM_ARENA, "rmm_arena")
#define SUBJECT_MEMBER(id, name) id,
enum subject { SUBJECTS(SUBJECT_MEMBER) SUBJECT_COUNT };
enum { FIRST_PEER = JEMALLOC, PEERS = SUBJECT_COUNT - FIRST_PEER };
extern const char *const subject_names[SUBJECT_COUNT];

/* A loop, and nanoseconds a step of each subject; NaN: none. */
struct row {
    struct loop loop;
    char name[32];
    double median[SUBJECT_COUNT], fastest[SUBJECT_COUNT];
    double recording_ns; /* what recording adds to a call */
};

/* ---- peers (pool_peers.c) ---------------------------------------------------------------------------------------- */

struct peer {
    pid_t process; /* 0: it is not there */
    FILE *to, *from;
    char why[256];    /* it is not there */
    char version[32]; /* "": it tells none */
};

/* Libraries with the functions of peers/peer.h; NULL: it is not measured. */
void peers_open(struct peer peers[PEERS], const char *torch_library, const char *rmm_library);
/* malloc knows of no streams, and RMM has no call for a use. */
bool peers_take_uses(enum subject peer);
void peers_close(struct peer peers[PEERS]);
double peer_ns(struct peer *peer, const struct loop *loop);

/* ---- what is told (pool_report.c) -------------------------------------------------------------------------------- */

void report_print(const struct row *rows, size_t count, const struct peer peers[PEERS]);
/* False, said on standard error: it can't be written. */
bool report_write(const char *path, const struct row *rows, size_t count, const struct peer peers[PEERS]);

#endif
