/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and how they are sharded.
 *
 * Words. param: one or several equal matrices with a name (an expert's three, for all local experts, are three params).
 * pack: params back to back in one flat vector that a group of ranks shares in equal shards. shard: a rank's own run of
 * the vector. quantum: shards are multiples of it.
 *
 *     pack vector:  | wq ........ | wk .... | wv .... | ...... | 0 padding |
 *     shards:       |  rank 0  |  rank 1  |  rank 2  |  rank 3             |      size == ranks * shard
 *
 * What holds. A gather lands in place and a gradient leaves in place: block r of the vector is rank r's shard, so nothing
 * is copied in or out. Numbers that belong to no param are zero in weights and gradients, for ever. Initial weights
 * depend on the seed, the param and the global index alone, never on the number of ranks. */
#ifndef WEIR_TRAINER_PARAMS_H
#define WEIR_TRAINER_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/comm.h"
#include "trainer/config.h"
#include "trainer/real.h"

enum { VOCABULARY = 256 };

/* What the model is made of: the sizes that formulas use, by their letters. */
struct shape {
    int64_t T, S;    /* tokens a rank, tokens a sequence */
    int64_t d, L, V; /* width, layers, vocabulary */
    int64_t H, G, D; /* query heads, key-value heads, width of a head */
    int64_t E, K, F; /* routed experts, experts a token, width of an expert */
    int64_t local;   /* experts a rank holds: E / ep */
    int64_t shared;  /* width of the shared expert, 0: none */
};

struct shape shape_of(const struct config *config, int ep); /* ep: ranks that share the experts; 1: all are local */

struct param {
    const char *name;
    int64_t matrices, rows, cols; /* a vector is one matrix of one row */
    bool matrix;                  /* trained by Muon; else AdamW */
    double spread;                /* initial weights: normal of this deviation; 0: ones */
    uint64_t identity;            /* of the first number, in the stream of random numbers */
    int64_t offset;               /* of the first number, in the pack's vector */
};

enum { EMBED_TABLE, EMBED_PARAMS };
enum {
    ATTENTION_NORM,
    WQ,
    WK,
    WV,
    Q_GAIN,
    K_GAIN,
    WO,
    MOE_NORM,
    ROUTER,
    SHARED_W1,
    SHARED_W3,
    SHARED_W2,
    DENSE_PARAMS
};
enum { EXPERT_W1, EXPERT_W3, EXPERT_W2, EXPERT_PARAMS };
enum { HEAD_NORM, HEAD, HEAD_PARAMS };
enum { PACK_PARAMS = DENSE_PARAMS };

struct pack {
    enum comm_group group;
    int ranks, place; /* of the group */
    int params;
    struct param param[PACK_PARAMS];
    int64_t used; /* numbers up to the end of the last param */
    int64_t quantum;
    int64_t size; /* ranks * shard */
    int64_t shard;

    real *master;   /* (shard) */
    real *momentum; /* (shard): Muon's, or AdamW's first moment */
    real *variance; /* AdamW's second moment: the shard's numbers that AdamW trains, back to back */
    void *gathered; /* (size) wire, or NULL */
    real *gradient; /* (size), or NULL */
    real *reduced;  /* (shard), the sum over all tokens of the world, or NULL */
};

void pack_embed(struct pack *pack, const struct shape *shape, const struct comm *comm);
void pack_dense(struct pack *pack, const struct shape *shape, const struct comm *comm, int64_t layer);
void pack_experts(struct pack *pack, const struct shape *shape, const struct comm *comm, int64_t layer);
void pack_head(struct pack *pack, const struct shape *shape, const struct comm *comm);

/* Numbers [begin, end) of the pack's vector. */
struct range {
    int64_t begin, end;
};
struct range pack_shard(const struct pack *pack, int place);
struct range param_range(const struct param *param);
struct range matrix_range(const struct param *param, int64_t matrix);
struct range range_meet(struct range a, struct range b); /* empty: begin == end */
static inline int64_t range_size(struct range r) { return r.end - r.begin; }

/* Numbers of a pack that AdamW trains in one shard, when `muon` says who trains matrices. */
int64_t pack_adamw_count(const struct pack *pack, bool muon);
/* Parameters of the whole model, on whatever ranks. */
int64_t params_count(const struct shape *shape);

/* Writes this rank's shard of the initial weights: weights (shard), host memory. */
void pack_initialise(const struct pack *pack, uint64_t seed, real *weights);

#endif
