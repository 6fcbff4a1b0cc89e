/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU operations inside: ops_cpu.c (table, submission, scratch, elementwise work), ops_cpu_linear.c,
 * ops_cpu_attention.c, ops_cpu_route.c, ops_cpu_optim.c.
 *
 * Words. work: a struct of arguments, copied when it is submitted. runner: the static function that a stream calls with
 * it, later and on a thread of the stream's; several run at once on different streams.
 *
 * What holds. A runner touches what its accesses name and its own thread's scratch, nothing else. It computes on one
 * thread in a fixed order: the same bits whatever runs beside it. Wire weights are widened to real before they are used;
 * WIRE_REAL weights are used in place. Sizes are checked by assertions: they are the trainer's own. */
#ifndef WEIR_TRAINER_OPS_CPU_H
#define WEIR_TRAINER_OPS_CPU_H

#include <assert.h>
#include <cblas.h>
#include <stdlib.h>

#include "trainer/ops.h"
#include "trainer/ops_math.h"

/* Lines of an access list; `n` numbers at `at`. A NULL address or no bytes: left out when submitted. */
#define READS(at, n)                                                                                                   \
    { (at), (size_t)(n) * sizeof *(at), false }
#define WRITES(at, n)                                                                                                  \
    { (at), (size_t)(n) * sizeof *(at), true }
#define UPDATES(at, n) READS(at, n), WRITES(at, n)
#define READS_WIRE(at, type, n)                                                                                        \
    { (at), (size_t)(n)*wire_bytes(type), false }
#define WRITES_WIRE(at, type, n)                                                                                       \
    { (at), (size_t)(n)*wire_bytes(type), true }
/* read too when `add` */
#define READS_IF(add, at, n)                                                                                           \
    { (at), (add) ? (size_t)(n) * sizeof *(at) : 0, false }

struct cpu_work {
    const char *name;
    void (*run)(void *);
    const void *argument; /* copied */
    size_t argument_bytes;
    double flops;
};

/* Queues a runner; bytes moved are the sum of the accesses. */
enum weir_status cpu_submit(const struct ops *ops, const struct cpu_work *work, const struct weir_access *accesses,
                            size_t access_count, weir_stream stream);

/* SUBMIT(ops, stream, "name", runner, &arguments, flops, access, access, ...) */
#define SUBMIT(ops, stream, label, runner, arguments, cost, ...)                                                       \
    cpu_submit((ops), &(struct cpu_work){(label), (runner), (arguments), sizeof *(arguments), (double)(cost)},         \
               (const struct weir_access[]){__VA_ARGS__},                                                              \
               sizeof((const struct weir_access[]){__VA_ARGS__}) / sizeof(struct weir_access), (stream))

/* This thread's scratch: at least `bytes` bytes, contents undefined, valid until the same slot is asked for again. It
 * only grows and goes with the thread. A host without memory for it ends the program: a runner can't fail. */
enum cpu_slot { SLOT_WEIGHT, SLOT_SCORES, SLOT_GRADIENT, SLOT_ROW, SLOT_STARTS, SLOT_ROPE, CPU_SLOTS };
void *cpu_scratch(enum cpu_slot slot, size_t bytes);
static inline real *cpu_reals(enum cpu_slot slot, int64_t count) {
    return cpu_scratch(slot, (size_t)count * sizeof(real));
}
/* The thread's table of cosines, then sines, each (S, D / 2), for positions 0 .. S - 1. */
const real *cpu_rope_table(int64_t S, int64_t D);

/* Weights as real: in place, or widened into SLOT_WEIGHT. */
static inline const real *cpu_weights(const void *w, enum wire type, int64_t n) {
    if (type == WIRE_REAL) return w;
    real *wide = cpu_reals(SLOT_WEIGHT, n);
    widen(wide, w, type, n);
    return wide;
}

/* C (m, n) = alpha op(A) op(B) + beta C, row-major */
static inline void gemm(enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, int64_t m, int64_t n, int64_t k, real alpha,
                        const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc) {
    assert(m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX && lda <= INT32_MAX && ldb <= INT32_MAX);
    if (m == 0 || n == 0) return;
    if (sizeof(real) == sizeof(float))
        cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, (float)alpha, (const float *)(const void *)a,
                    (int)lda, (const float *)(const void *)b, (int)ldb, (float)beta, (float *)(void *)c, (int)ldc);
    else
        cblas_dgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, (double)alpha, (const double *)(const void *)a,
                    (int)lda, (const double *)(const void *)b, (int)ldb, (double)beta, (double *)(void *)c, (int)ldc);
}

/* The table's entries; each is described in ops.h. */
enum weir_status cpu_linear_forward(const struct ops *, real *y, bool add, const real *x, const void *w,
                                    struct row_groups, int64_t in, int64_t out, weir_stream);
enum weir_status cpu_linear_backward_input(const struct ops *, real *dx, bool add, const real *dy, const void *w,
                                           struct row_groups, int64_t in, int64_t out, weir_stream);
enum weir_status cpu_linear_backward_weight(const struct ops *, real *dw, bool add, const real *dy, const real *x,
                                            struct row_groups, int64_t in, int64_t out, weir_stream);
enum weir_status cpu_rope(const struct ops *, real *x, int64_t T, int64_t S, int64_t heads, int64_t D, int direction,
                          weir_stream);
enum weir_status cpu_attention_forward(const struct ops *, real *o, real *lse, const real *q, const real *k,
                                       const real *v, int64_t T, int64_t S, int64_t H, int64_t G, int64_t D,
                                       weir_stream);
enum weir_status cpu_attention_backward(const struct ops *, real *dq, real *dk, real *dv, const real *dout,
                                        const real *o, const real *lse, const real *q, const real *k, const real *v,
                                        int64_t T, int64_t S, int64_t H, int64_t G, int64_t D, weir_stream);
enum weir_status cpu_router_forward(const struct ops *, real *scores, int32_t *ids, real *gates, const real *logits,
                                    const real *bias, bool replay, int64_t T, int64_t E, int64_t K, real scale,
                                    weir_stream);
enum weir_status cpu_router_backward(const struct ops *, real *dlogits, const real *dgates, const real *scores,
                                     const int32_t *ids, int64_t T, int64_t E, int64_t K, real scale, weir_stream);
enum weir_status cpu_route_plan(const struct ops *, int32_t *order, int32_t *slot, int32_t *counts, const int32_t *ids,
                                int64_t T, int64_t E, int64_t K, weir_stream);
enum weir_status cpu_rows_gather(const struct ops *, void *out, enum wire out_type, const void *in, enum wire in_type,
                                 const int32_t *index, int64_t divide, int64_t N, int64_t in_rows, int64_t d,
                                 weir_stream);
enum weir_status cpu_rows_combine(const struct ops *, real *out, bool add, const void *in, enum wire in_type,
                                  const int32_t *slot, int64_t T, int64_t K, int64_t N, int64_t d, weir_stream);
enum weir_status cpu_sum_blocks(const struct ops *, real *out, bool add, const void *in, int64_t W, int64_t n,
                                weir_stream);
enum weir_status cpu_sum_squares(const struct ops *, double *sum, const real *x, int64_t n, weir_stream);
enum weir_status cpu_clip(const struct ops *, real *x, const double *sum, double limit, int64_t n, weir_stream);
enum weir_status cpu_adamw(const struct ops *, real *p, real *m, real *v, const real *g, int64_t n, double lr,
                           double beta1, double beta2, double eps, double decay, int64_t t, weir_stream);
enum weir_status cpu_muon_momentum(const struct ops *, real *u, real *m, const real *g, double mu, int64_t n,
                                   weir_stream);
enum weir_status cpu_newton_schulz(const struct ops *, real *u, real *scratch, int64_t count, int64_t rows,
                                   int64_t cols, weir_stream);
int64_t cpu_newton_schulz_scratch(int64_t rows, int64_t cols);
enum weir_status cpu_muon_apply(const struct ops *, real *p, const real *u, double lr, double decay, double scale,
                                int64_t n, weir_stream);

#endif
