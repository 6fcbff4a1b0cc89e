/* SPDX-License-Identifier: Apache-2.0 */
/* A training step of a mixture-of-experts transformer on one rank: FSDP (gen_fsdp.h), experts spread over ranks,
 * activation checkpointing, offload, Muon. gen_moe.c: the step; gen_moe_forward.c, gen_moe_backward.c: one layer;
 * gen_moe_optim.c: the optimiser. All activations have 2 bytes an element unless said otherwise. */
#ifndef WEIR_TRACE_GEN_MOE_H
#define WEIR_TRACE_GEN_MOE_H

#include "gen_fsdp.h"
#include "gen_random.h"

/* What a layer's forward leaves for its backward; NO_BUF where the layer has none of it. */
struct saved {
    struct buf norm1, scale1, q, k, v, attended, log_sum; /* attention */
    struct buf residual, norm2, scale2;
    struct buf gate, up, act;                          /* the MLP or the experts */
    struct buf probs, top_weights, top_experts, order; /* the router: order is of the tokens, by expert */
    struct buf permuted, combined;                     /* received tokens by expert; tokens as they came back */
    struct buf shared_gate, shared_up, shared_act;     /* the shared expert */
};

enum { HANDLES = 4 };

struct layer {
    struct unit dense;    /* attention, router, shared expert; or attention and MLP */
    struct unit *experts; /* NULL: the layer has an MLP */
    struct unit expert_unit;
    double hot;                  /* how much of the load this layer's experts here get, for the whole run */
    struct buf handles[HANDLES]; /* of the dispatch, kept until backward (ep_meta) */
    /* of the microbatch: */
    int64_t received;    /* tokens that this rank's experts get */
    struct buf input;    /* NO_BUF: on the host */
    struct saved kept;   /* without checkpointing */
    struct held fetched; /* the input on its way back */
};

struct moe {
    struct gen_writer *out;
    struct gen_random *random;
    const struct gen_settings *set;
    struct fsdp fsdp;
    struct unit embedding, head;
    struct layer *layers; /* set->layers of them */
    struct unit **units;  /* all, in the order of forward */
    size_t unit_count;
    int64_t local_experts;
};

/* Work on compute that reads the unit's whole parameters too. */
#define WORK_OF(out, unit, us, ...)                                                                                    \
    (WORK(out, COMPUTE, us, __VA_ARGS__), gen_uses(out, COMPUTE, (unit)->full, (unit)->full_count))

/* Sends `from` to the other ranks and gives what comes from them, `bytes`; frees `from`. */
struct buf moe_exchange(struct moe *moe, struct buf from, int64_t bytes);
/* Gives the layer's output. `saved` is written; where !keep all in it has been freed. */
struct buf moe_layer_forward(struct moe *moe, struct layer *layer, struct buf x, int64_t tokens, bool keep,
                             struct saved *saved);
/* Gives the gradient of the layer's input; frees `gradient` and all of `saved`, reduces the layer's gradients. */
struct buf moe_layer_backward(struct moe *moe, struct layer *layer, struct buf x, int64_t tokens, struct saved *saved,
                              struct buf gradient);
void moe_optimise(struct moe *moe);

#endif
