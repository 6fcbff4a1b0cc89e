/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients and the optimizer: sums over ranks' blocks, the norm, clipping, AdamW, Muon. */
#include "trainer/ops_cpu.h"

/* ---- gradients --------------------------------------------------------------------------------------------------- */

enum { CHUNK = 1024 }; /* numbers summed at a time: stays in the first cache */

void cpu_sum_blocks(void *arguments) {
    const struct sum_blocks_args *s = arguments;
    real sum[CHUNK], block[CHUNK];
    for (int64_t at = 0; at < s->n; at += CHUNK) {
        int64_t count = s->n - at < CHUNK ? s->n - at : CHUNK;
        for (int64_t w = 0; w < s->W; w++) {
            const char *in = (const char *)s->in + (size_t)(w * s->n + at) * wire_bytes(s->wire);
            widen(w ? block : sum, in, s->wire, count);
            for (int64_t i = 0; w && i < count; i++) sum[i] += block[i];
        }
        for (int64_t i = 0; i < count; i++) s->out[at + i] = s->add ? s->out[at + i] + sum[i] : sum[i];
    }
}

void cpu_sum_squares(void *arguments) {
    const struct sum_squares_args *norm = arguments;
    *norm->sum += sum_of_squares(norm->x, norm->n);
}

/* A NaN norm fails the comparison and multiplies on: what is broken stays visible. */
void cpu_clip(void *arguments) {
    const struct clip_args *c = arguments;
    double factor = c->limit / (sqrt(*c->sum) + 1e-6);
    if (!(factor >= 1)) scale_row(c->x, (real)factor, c->n);
}

/* ---- AdamW ------------------------------------------------------------------------------------------------------- */

void cpu_adamw(void *arguments) {
    const struct adamw_args *a = arguments;
    real *restrict p = a->p, *restrict m = a->m, *restrict v = a->v;
    const real *restrict g = a->g;
    const struct adamw_args c = *a; /* so that the compiler knows that stores leave the constants alone */
    for (int64_t i = 0; i < c.n; i++) {
        m[i] = c.beta1 * m[i] + c.fresh1 * g[i];
        v[i] = c.beta2 * v[i] + c.fresh2 * g[i] * g[i];
        p[i] = p[i] * c.keep - c.step * m[i] / (sqrt_real(v[i]) * c.root + c.eps);
    }
}

/* ---- Muon -------------------------------------------------------------------------------------------------------- */

void cpu_muon_momentum(void *arguments) {
    const struct momentum_args *s = arguments;
    real *restrict u = s->u, *restrict m = s->m;
    const real *restrict g = s->g;
    const real mu = s->mu;
    for (int64_t i = 0; i < s->n; i++) {
        m[i] = mu * m[i] + g[i];
        u[i] = g[i] + mu * m[i];
    }
}

void cpu_muon_apply(void *arguments) {
    const struct muon_apply_args *s = arguments;
    real *restrict p = s->p;
    const real *restrict u = s->u;
    const real keep = s->keep, take = s->take;
    for (int64_t i = 0; i < s->n; i++) p[i] = p[i] * keep - take * u[i];
}

/* ---- Newton-Schulz ----------------------------------------------------------------------------------------------- */

/* The upper triangle from the lower one; by tiles, since a column of a power of two thrashes the first cache. */
static void mirror(real *c, int64_t side) {
    enum { TILE = 16 };
    for (int64_t top = 0; top < side; top += TILE)
        for (int64_t left = 0; left <= top; left += TILE)
            for (int64_t i = top; i < side && i < top + TILE; i++)
                for (int64_t j = left; j < i && j < left + TILE; j++) c[j * side + i] = c[i * side + j];
}

/* C (side, side) = alpha A A^T + beta C, or A^T A when `tall`; half the work of a gemm, since C is symmetric. */
static void symmetric_product(real *c, const real *a, bool tall, int64_t side, int64_t length, real alpha, real beta) {
    enum CBLAS_TRANSPOSE trans = tall ? CblasTrans : CblasNoTrans;
    int n = (int)side, k = (int)length, lda = tall ? n : k;
    if (sizeof(real) == sizeof(float))
        cblas_ssyrk(CblasRowMajor, CblasLower, trans, n, k, (float)alpha, (const float *)(const void *)a, lda,
                    (float)beta, (float *)(void *)c, n);
    else
        cblas_dsyrk(CblasRowMajor, CblasLower, trans, n, k, (double)alpha, (const double *)(const void *)a, lda,
                    (double)beta, (double *)(void *)c, n);
    mirror(c, side);
}

/* X = a X + (b A + c A^2) X with A = X X^T, on the shorter side: for a tall matrix A = X^T X and the polynomial
 * multiplies from the right, which is the same as transposing. A^2 = A A^T. */
static void newton_schulz_step(real *restrict u, real *restrict scratch, int64_t rows, int64_t cols) {
    const real a = (real)3.4445, b = (real)-4.7750, c = (real)2.0315;
    bool tall = rows > cols;
    int64_t side = shorter(rows, cols), length = tall ? rows : cols;
    real *gram = scratch, *polynomial = gram + side * side, *x = polynomial + side * side;
    memcpy(x, u, (size_t)(rows * cols) * sizeof *x);
    symmetric_product(gram, x, tall, side, length, 1, 0);
    memcpy(polynomial, gram, (size_t)(side * side) * sizeof *gram);
    symmetric_product(polynomial, gram, false, side, side, c, b);
    if (tall)
        gemm(CblasNoTrans, CblasNoTrans, rows, cols, side, 1, x, cols, polynomial, side, a, u, cols);
    else
        gemm(CblasNoTrans, CblasNoTrans, rows, cols, side, 1, polynomial, side, x, cols, a, u, cols);
}

void cpu_newton_schulz(void *arguments) {
    const struct newton_schulz_args *s = arguments;
    int64_t size = s->rows * s->cols;
    for (int64_t i = 0; i < s->count; i++) {
        real *u = s->u + i * size;
        scale_row(u, (real)(1 / (sqrt(sum_of_squares(u, size)) + 1e-7)), size);
        for (int step = 0; step < 5; step++) newton_schulz_step(u, s->scratch, s->rows, s->cols);
    }
}
