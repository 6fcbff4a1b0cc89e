/* SPDX-License-Identifier: Apache-2.0 */
/* Operations inside: what is to be done is described once (ops.c), who does it is a leaf (ops_cpu*.c; ops_cuda*).
 *
 * Words. arguments: a struct for each operation, plain data, copied when it is submitted. leaf: one function for each
 * operation that it has, either a `run` (a host function that the stream calls when it gets there) or a `launch` (called
 * at once, queues kernels). What a leaf lacks answers WEIR_NOT_SUPPORTED.
 *
 * What holds. A leaf touches what the description's accesses name, and scratch of its own. Its sums have a fixed order:
 * the same bits in every run. Sizes are checked by assertions in ops.c: they are the trainer's own. */
#ifndef WEIR_TRAINER_OPS_WORK_H
#define WEIR_TRAINER_OPS_WORK_H

#include <assert.h>

#include "trainer/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* One list makes the enum, the leaves' prototypes and the names in reports. */
#define OPS_LIST(X)                                                                                                    \
    X(embed_forward)                                                                                                   \
    X(embed_backward)                                                                                                  \
    X(rmsnorm_forward)                                                                                                 \
    X(rmsnorm_backward)                                                                                                \
    X(linear_forward)                                                                                                  \
    X(linear_backward_input)                                                                                           \
    X(linear_backward_weight)                                                                                          \
    X(rope)                                                                                                            \
    X(attention_forward)                                                                                               \
    X(attention_backward)                                                                                              \
    X(swiglu_forward)                                                                                                  \
    X(swiglu_backward)                                                                                                 \
    X(router_forward)                                                                                                  \
    X(router_backward)                                                                                                 \
    X(route_plan)                                                                                                      \
    X(rows_gather)                                                                                                     \
    X(rows_combine)                                                                                                    \
    X(cross_entropy)                                                                                                   \
    X(add)                                                                                                             \
    X(convert)                                                                                                         \
    X(sum_blocks)                                                                                                      \
    X(sum_squares)                                                                                                     \
    X(clip)                                                                                                            \
    X(adamw)                                                                                                           \
    X(muon_momentum)                                                                                                   \
    X(newton_schulz)                                                                                                   \
    X(muon_apply)

enum op {
#define OPS_ENUM(op) OP_##op,
    OPS_LIST(OPS_ENUM)
#undef OPS_ENUM
        OPS_COUNT
};

struct ops_leaf {
    void (*run[OPS_COUNT])(void *arguments);
    int (*launch[OPS_COUNT])(void *arguments, weir_stream stream); /* 0 or a CUresult */
};

/* The table of ops.h over a leaf. `state` is the leaf's own and goes to the operations that multiply matrices, and to the
 * router. */
void ops_open(struct weir_device *device, enum wire wire, const char *name, const char *lacks,
              const struct ops_leaf *leaf, void *state, struct ops *out);

/* The side of Newton-Schulz's products; its scratch holds two of them and a copy of the matrix. */
static inline int64_t shorter(int64_t rows, int64_t cols) { return rows < cols ? rows : cols; }

/* ---- arguments; names as in ops.h -------------------------------------------------------------------------------- */

struct embed_args {
    real *to;         /* out (T, d), or dtable (V, d) */
    const void *from; /* table (V, d) wire, or dout (T, d) real */
    const int32_t *ids;
    int64_t T, V, d;
    enum wire wire;
};

struct rmsnorm_args {
    real *y, *r_out;        /* forward */
    real *dx, *dw;          /* backward */
    const real *dy, *x, *r; /* backward, both, backward */
    const void *w;
    int64_t rows, d;
    enum wire wire;
    bool add;
};

struct linear_args {
    real *result;      /* y, dx, dW */
    const real *left;  /* x, dy, dy */
    const void *right; /* W wire, W wire, x real */
    void *state;
    int64_t in, out;
    enum wire wire;
    bool add;
    int count;
    int64_t offsets[]; /* (count + 1) */
};

struct rope_args {
    real *x;
    int64_t T, S, heads, D;
    int direction;
};

struct attention_args {
    real *o_out, *lse_out;      /* forward */
    real *dq, *dk, *dv;         /* backward */
    const real *dout, *o, *lse; /* backward */
    const real *q, *k, *v;
    int64_t T, S, H, G, D;
};

struct swiglu_args {
    real *h;                  /* forward */
    real *da, *db, *dgate;    /* backward */
    const real *dh;           /* backward */
    const real *a, *b, *gate; /* gate may be NULL */
    int64_t rows, F;
};

struct router_args {
    real *scores_out, *gates;    /* forward */
    int32_t *ids_out;            /* forward */
    const real *logits, *bias;   /* forward */
    real *dlogits;               /* backward */
    const real *dgates, *scores; /* backward */
    const int32_t *ids;          /* backward */
    void *state;                 /* forward */
    int64_t T, E, K;
    real scale;
    bool replay;
};

struct plan_args {
    int32_t *order, *slot, *counts;
    const int32_t *ids;
    int64_t T, E, K;
};

struct rows_args {
    void *out;
    const void *in;
    const int32_t *index; /* index (out_rows), or slot (out_rows, K) */
    int64_t out_rows, in_rows, d;
    int64_t divide; /* gather */
    int64_t K;      /* combine */
    enum wire out_type, in_type;
    bool add; /* combine */
};

struct cross_entropy_args {
    double *loss;
    real *logits;
    const int32_t *targets;
    double scale;
    int64_t T, V;
    bool gradient;
};

struct add_args {
    real *out;
    const real *a, *b;
    int64_t n;
};

struct convert_args {
    void *out;
    const void *in;
    enum wire out_type, in_type;
    int64_t n;
};

struct sum_blocks_args {
    real *out;
    const void *in;
    int64_t W, n;
    enum wire wire;
    bool add;
};

struct sum_squares_args {
    double *sum;
    const real *x;
    int64_t n;
};

struct clip_args {
    real *x;
    const double *sum;
    double limit;
    int64_t n;
};

struct adamw_args {
    real *p, *m, *v;
    const real *g;
    int64_t n;
    real beta1, fresh1, beta2, fresh2; /* fresh = 1 - beta, taken in double */
    real eps;
    real keep; /* 1 - lr decay */
    real step; /* lr / (1 - beta1^t) */
    real root; /* 1 / sqrt(1 - beta2^t) */
};

struct momentum_args {
    real *u, *m;
    const real *g;
    real mu;
    int64_t n;
};

struct newton_schulz_args {
    real *u, *scratch;
    void *state;
    int64_t count, rows, cols;
};

struct muon_apply_args {
    real *p;
    const real *u;
    real keep; /* 1 - lr decay */
    real take; /* lr scale */
    int64_t n;
};

#if defined(__cplusplus)
}
#endif
#endif
