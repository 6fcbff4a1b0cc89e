/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that the model and the optimizer are made of: one table, chosen at start (ops_cpu*.c on OpenBLAS,
 * ops_cuda* on cuBLAS, ops_cost.c that computes nothing and takes the time that the profile says). Every operation is
 * queued on a stream of the device as one piece of work with its description (accesses, flops, bytes) and returns at
 * once; the pointers are device pointers unless a comment says host.
 *
 * Layout: row-major; W is (out, in) and y = x W^T. T tokens, d model width, F expert width, E experts, K top-k, V vocab,
 * H query heads, G key-value heads, D width of a head, S sequence length, N rows routed (T*K before the exchange).
 * `add`: the result is added to what is there, else it replaces it. Weights come in the `wire` type that they were
 * gathered in. Sums run in a fixed order, so that a run is repeated bit for bit.
 * Sources of the formulas: docs/trainer.md, where the backward passes are written out. */
#ifndef WEIR_TRAINER_OPS_H
#define WEIR_TRAINER_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/real.h"
#include "weir/device.h"

#define OPS_NORM_EPSILON 1e-6    /* RMSNorm's eps */
#define OPS_ROPE_BASE    10000.0 /* rotary embedding: pair i turns by position * base^(-2 i / D) */

struct ops {
    const char *name;
    const char *lacks; /* in one sentence, what it can't do yet (that answers WEIR_NOT_SUPPORTED), or NULL */
    struct weir_device *device;
    enum wire wire; /* of weights and of rows on their way */
    const struct ops_table *table;
    const struct ops_leaf *leaf; /* who does the work (ops_work.h) */
    void *state;                 /* the leaf's own */
    struct ops_routes *routes;   /* NULL, or: nothing is computed, and these are the routes that are made up */
};

/* Opens the table for a device. *out lives as long as the process; nothing is to be closed. */
enum weir_status ops_open_cpu(struct weir_device *device, enum wire wire, struct ops *out);
enum weir_status ops_open_cuda(struct weir_device *device, enum wire wire,
                               struct ops *out); /* no_cuda.c without nvcc */

/* Routes out of a seeded generator. What sizes depend on must be real and the same for all ranks: every rank can tell
 * every rank's, so that no count has to travel through device memory, which may be addresses only. */
struct ops_routes {
    uint64_t seed;
    int rank;
    int64_t T, E, K, L; /* tokens a rank, experts, experts a token, layers */
    double skew;        /* the i-th most popular expert of a layer has the weight i^-skew; 0: all alike, in turn */
    uint64_t drawn;     /* the leaf's own: routings that the device has drawn */
};
/* ids (T, K) of routing `number` of a rank; routings are counted from 0, L of them in a forward pass. */
void ops_routes_ids(const struct ops_routes *routes, int rank, int64_t number, int32_t *ids);
/* counts (E): how many of them name each expert. */
void ops_routes_counts(const struct ops_routes *routes, int rank, int64_t number, int32_t *counts);

/* Leaves what the schedule depends on: router_forward writes the ids of this rank's next routing (unless `replay`) and
 * route_plan its lists, where the device has memory; nothing else reads or writes. *out as above; `routes` must live as
 * long. Fails: WEIR_NOT_SUPPORTED on a device that is not emulated. */
enum weir_status ops_open_cost(struct weir_device *device, enum wire wire, struct ops_routes *routes, struct ops *out);

/* Rows in groups: group g has rows offsets[g] .. offsets[g + 1] - 1 and uses weight g. Host memory, read in the call. */
struct row_groups {
    int count;
    const int64_t *offsets; /* (count + 1), ascending from 0 */
};

struct ops_table {
    /* embedding: out (T, d) = table[ids[t]]; table (V, d) wire */
    enum weir_status (*embed_forward)(const struct ops *, real *out, const void *table, const int32_t *ids, int64_t T,
                                      int64_t V, int64_t d, weir_stream);
    /* dtable (V, d) += rows of dout (T, d), in token order */
    enum weir_status (*embed_backward)(const struct ops *, real *dtable, const real *dout, const int32_t *ids,
                                       int64_t T, int64_t V, int64_t d, weir_stream);

    /* y (rows, d) = x r w, r (rows) = (mean(x^2) + eps)^-1/2; w (d) wire */
    enum weir_status (*rmsnorm_forward)(const struct ops *, real *y, real *r, const real *x, const void *w,
                                        int64_t rows, int64_t d, weir_stream);
    /* dx = or += ...; dw (d) real += ... */
    enum weir_status (*rmsnorm_backward)(const struct ops *, real *dx, bool add, real *dw, const real *dy,
                                         const real *x, const real *r, const void *w, int64_t rows, int64_t d,
                                         weir_stream);

    /* y (rows, out) = x (rows, in) W^T by groups; W (groups, out, in) wire; groups.count == 1: an ordinary linear */
    enum weir_status (*linear_forward)(const struct ops *, real *y, bool add, const real *x, const void *w,
                                       struct row_groups groups, int64_t in, int64_t out, weir_stream);
    /* dx (rows, in) = dy (rows, out) W */
    enum weir_status (*linear_backward_input)(const struct ops *, real *dx, bool add, const real *dy, const void *w,
                                              struct row_groups groups, int64_t in, int64_t out, weir_stream);
    /* dW (groups, out, in) real = or += dy^T x; with add == false a group without rows gets zeros */
    enum weir_status (*linear_backward_weight)(const struct ops *, real *dw, bool add, const real *dy, const real *x,
                                               struct row_groups groups, int64_t in, int64_t out, weir_stream);

    /* rotary embedding in place, half-split; x (T, heads, D), position t mod S; direction +1 forward, -1 backward */
    enum weir_status (*rope)(const struct ops *, real *x, int64_t T, int64_t S, int64_t heads, int64_t D, int direction,
                             weir_stream);

    /* causal attention over T / S sequences; q (T, H, D), k and v (T, G, D), o (T, H, D), lse (T, H) */
    enum weir_status (*attention_forward)(const struct ops *, real *o, real *lse, const real *q, const real *k,
                                          const real *v, int64_t T, int64_t S, int64_t H, int64_t G, int64_t D,
                                          weir_stream);
    enum weir_status (*attention_backward)(const struct ops *, real *dq, real *dk, real *dv, const real *dout,
                                           const real *o, const real *lse, const real *q, const real *k, const real *v,
                                           int64_t T, int64_t S, int64_t H, int64_t G, int64_t D, weir_stream);

    /* h (rows, F) = silu(a) b gate; gate (rows) or NULL */
    enum weir_status (*swiglu_forward)(const struct ops *, real *h, const real *a, const real *b, const real *gate,
                                       int64_t rows, int64_t F, weir_stream);
    /* dgate (rows) is NULL when gate is; dgate = sum_f dh silu(a) b */
    enum weir_status (*swiglu_backward)(const struct ops *, real *da, real *db, real *dgate, const real *dh,
                                        const real *a, const real *b, const real *gate, int64_t rows, int64_t F,
                                        weir_stream);

    /* router: scores (T, E) = sigmoid(logits); unless `replay`, ids (T, K) = the K best of scores + bias (E), best first,
     * lower id on a tie; gates (T, K) = scale s / (sum of the K scores + 1e-20); bias is real, on the device */
    enum weir_status (*router_forward)(const struct ops *, real *scores, int32_t *ids, real *gates, const real *logits,
                                       const real *bias, bool replay, int64_t T, int64_t E, int64_t K, real scale,
                                       weir_stream);
    /* dlogits (T, E), from dgates (T, K); nothing flows into the choice */
    enum weir_status (*router_backward)(const struct ops *, real *dlogits, const real *dgates, const real *scores,
                                        const int32_t *ids, int64_t T, int64_t E, int64_t K, real scale, weir_stream);
    /* stable counting sort of the T*K assignments by expert: order (N): n-th row is assignment order[n] = t*K + k;
     * slot (T, K): where that assignment went; counts (E) */
    enum weir_status (*route_plan)(const struct ops *, int32_t *order, int32_t *slot, int32_t *counts,
                                   const int32_t *ids, int64_t T, int64_t E, int64_t K, weir_stream);

    /* rows: out (N, d) = in[index[n] / divide]; each side in wire type or real */
    enum weir_status (*rows_gather)(const struct ops *, void *out, enum wire out_type, const void *in,
                                    enum wire in_type, const int32_t *index, int64_t divide, int64_t N, int64_t in_rows,
                                    int64_t d, weir_stream);
    /* out (T, d) = or += sum over k, in order, of in[slot[t, k]]; in (N, d) of in_type */
    enum weir_status (*rows_combine)(const struct ops *, real *out, bool add, const void *in, enum wire in_type,
                                     const int32_t *slot, int64_t T, int64_t K, int64_t N, int64_t d, weir_stream);

    /* cross-entropy over a chunk: loss[0] += scale * sum(lse - z_y), fp64; logits (T, V) become their own gradient,
     * scale (softmax - onehot), when `gradient`; a target < 0 is ignored */
    enum weir_status (*cross_entropy)(const struct ops *, double *loss, real *logits, const int32_t *targets,
                                      double scale, bool gradient, int64_t T, int64_t V, weir_stream);

    /* elementwise over n numbers */
    enum weir_status (*add)(const struct ops *, real *out, const real *a, const real *b, int64_t n, weir_stream);
    enum weir_status (*convert)(const struct ops *, void *out, enum wire out_type, const void *in, enum wire in_type,
                                int64_t n, weir_stream);
    /* out (n) = or += sum over w = 0 .. W-1, in that order and in real, of in (W, n) wire */
    enum weir_status (*sum_blocks)(const struct ops *, real *out, bool add, const void *in, int64_t W, int64_t n,
                                   weir_stream);
    /* sum[0] += sum of x^2, fp64 */
    enum weir_status (*sum_squares)(const struct ops *, double *sum, const real *x, int64_t n, weir_stream);
    /* x *= min(1, limit / (sqrt(sum[0]) + 1e-6)); sum on the device */
    enum weir_status (*clip)(const struct ops *, real *x, const double *sum, double limit, int64_t n, weir_stream);

    /* optimizer; p the fp32 master weights. t counts steps from 1 */
    enum weir_status (*adamw)(const struct ops *, real *p, real *m, real *v, const real *g, int64_t n, double lr,
                              double beta1, double beta2, double eps, double decay, int64_t t, weir_stream);
    /* m = mu m + g; u = g + mu m (Nesterov) */
    enum weir_status (*muon_momentum)(const struct ops *, real *u, real *m, const real *g, double mu, int64_t n,
                                      weir_stream);
    /* u (count, rows, cols) becomes its five-step Newton-Schulz image, each matrix alone; scratch: real numbers, as many
     * as newton_schulz_scratch says */
    enum weir_status (*newton_schulz)(const struct ops *, real *u, real *scratch, int64_t count, int64_t rows,
                                      int64_t cols, weir_stream);
    int64_t (*newton_schulz_scratch)(int64_t rows, int64_t cols);
    /* p = p (1 - lr decay) - lr scale u */
    enum weir_status (*muon_apply)(const struct ops *, real *p, const real *u, double lr, double decay, double scale,
                                   int64_t n, weir_stream);
};

#endif
