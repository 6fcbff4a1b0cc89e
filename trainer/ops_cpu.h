/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU leaf of the operations: ops_cpu.c (layers, elementwise), ops_cpu_attention.c, ops_cpu_route.c,
 * ops_cpu_optim.c; ops_cpu_scratch.c; OpenBLAS for products.
 *
 * What holds. An operation runs on its stream's thread, several at once on different streams; it keeps scratch by
 * thread and nothing else. Weights in bf16 are widened to real before they are used, WIRE_REAL ones are used in place. */
#ifndef WEIR_TRAINER_OPS_CPU_H
#define WEIR_TRAINER_OPS_CPU_H

#include <cblas.h>
#include <stdlib.h>

#include "trainer/ops_math.h"
#include "trainer/ops_work.h"

#define CPU_PROTOTYPE(op) void cpu_##op(void *arguments);
OPS_LIST(CPU_PROTOTYPE)
#undef CPU_PROTOTYPE

/* This thread's scratch: at least `bytes` bytes, contents undefined, valid until the same slot is asked for again. It
 * only grows and goes with the thread. A host without memory for it ends the program: work on a stream can't fail. */
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

#endif
