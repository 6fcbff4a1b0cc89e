/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients and the optimizer: sums over ranks' blocks, the norm, clipping, AdamW, Muon. */
#include "trainer/ops_cpu.h"

/* ---- gradients --------------------------------------------------------------------------------------------------- */

enum { CHUNK = 1024 }; /* numbers summed at a time: stays in the first cache */

struct sum_blocks {
    real *out;
    const void *in;
    int64_t W, n;
    enum wire wire;
    bool add;
};

static void run_sum_blocks(void *argument) {
    const struct sum_blocks *s = argument;
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

enum weir_status cpu_sum_blocks(const struct ops *ops, real *out, bool add, const void *in, int64_t W, int64_t n,
                                weir_stream stream) {
    assert(W > 0);
    struct sum_blocks s = {out, in, W, n, ops->wire, add};
    return SUBMIT(ops, stream, "sum_blocks", run_sum_blocks, &s, W * n, WRITES(out, n), READS_IF(add, out, n),
                  READS_WIRE(in, ops->wire, W * n));
}

struct norm {
    double *sum;
    const real *x;
    int64_t n;
};

static void run_sum_squares(void *argument) {
    const struct norm *norm = argument;
    *norm->sum += sum_of_squares(norm->x, norm->n);
}

enum weir_status cpu_sum_squares(const struct ops *ops, double *sum, const real *x, int64_t n, weir_stream stream) {
    struct norm norm = {sum, x, n};
    return SUBMIT(ops, stream, "sum_squares", run_sum_squares, &norm, 2 * n, UPDATES(sum, 1), READS(x, n));
}

struct clip {
    real *x;
    const double *sum;
    double limit;
    int64_t n;
};

/* A NaN norm fails the comparison and multiplies on: what is broken stays visible. */
static void run_clip(void *argument) {
    const struct clip *c = argument;
    double factor = c->limit / (sqrt(*c->sum) + 1e-6);
    if (!(factor >= 1)) scale_row(c->x, (real)factor, c->n);
}

enum weir_status cpu_clip(const struct ops *ops, real *x, const double *sum, double limit, int64_t n,
                          weir_stream stream) {
    struct clip c = {x, sum, limit, n};
    return SUBMIT(ops, stream, "clip", run_clip, &c, n, UPDATES(x, n), READS(sum, 1));
}

/* ---- AdamW ------------------------------------------------------------------------------------------------------- */

struct adamw {
    real *p, *m, *v;
    const real *g;
    int64_t n;
    real keep, beta1, beta2, step, root,
        eps; /* keep = 1 - lr decay; step = lr / (1 - beta1^t); root = 1 / sqrt(1 - beta2^t) */
};

static void run_adamw(void *argument) {
    const struct adamw *a = argument;
    real *restrict p = a->p, *restrict m = a->m, *restrict v = a->v;
    const real *restrict g = a->g;
    const real keep = a->keep, beta1 = a->beta1, beta2 = a->beta2, step = a->step, root = a->root, eps = a->eps;
    for (int64_t i = 0; i < a->n; i++) {
        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
        p[i] = p[i] * keep - step * m[i] / (sqrt_real(v[i]) * root + eps);
    }
}

enum weir_status cpu_adamw(const struct ops *ops, real *p, real *m, real *v, const real *g, int64_t n, double lr,
                           double beta1, double beta2, double eps, double decay, int64_t t, weir_stream stream) {
    assert(t >= 1);
    struct adamw a = {p,
                      m,
                      v,
                      g,
                      n,
                      .keep = (real)(1 - lr * decay),
                      .beta1 = (real)beta1,
                      .beta2 = (real)beta2,
                      .step = (real)(lr / (1 - pow(beta1, (double)t))),
                      .root = (real)(1 / sqrt(1 - pow(beta2, (double)t))),
                      .eps = (real)eps};
    return SUBMIT(ops, stream, "adamw", run_adamw, &a, 14 * n, UPDATES(p, n), UPDATES(m, n), UPDATES(v, n),
                  READS(g, n));
}

/* ---- Muon -------------------------------------------------------------------------------------------------------- */

struct muon {
    real *a, *b;        /* momentum: u, m; apply: p */
    const real *c;      /* momentum: g; apply: u */
    real first, second; /* momentum: mu; apply: what is kept of p, what is taken of u */
    int64_t n;
};

static void run_muon_momentum(void *argument) {
    const struct muon *s = argument;
    real *restrict u = s->a, *restrict m = s->b;
    const real *restrict g = s->c;
    const real mu = s->first;
    for (int64_t i = 0; i < s->n; i++) {
        m[i] = mu * m[i] + g[i];
        u[i] = g[i] + mu * m[i];
    }
}

enum weir_status cpu_muon_momentum(const struct ops *ops, real *u, real *m, const real *g, double mu, int64_t n,
                                   weir_stream stream) {
    struct muon s = {u, m, g, (real)mu, 0, n};
    return SUBMIT(ops, stream, "muon_momentum", run_muon_momentum, &s, 4 * n, WRITES(u, n), UPDATES(m, n), READS(g, n));
}

static void run_muon_apply(void *argument) {
    const struct muon *s = argument;
    real *restrict p = s->a;
    const real *restrict u = s->c;
    const real keep = s->first, take = s->second;
    for (int64_t i = 0; i < s->n; i++) p[i] = p[i] * keep - take * u[i];
}

enum weir_status cpu_muon_apply(const struct ops *ops, real *p, const real *u, double lr, double decay, double scale,
                                int64_t n, weir_stream stream) {
    struct muon s = {p, NULL, u, (real)(1 - lr * decay), (real)(lr * scale), n};
    return SUBMIT(ops, stream, "muon_apply", run_muon_apply, &s, 3 * n, UPDATES(p, n), READS(u, n));
}

/* ---- Newton-Schulz ----------------------------------------------------------------------------------------------- */

struct newton_schulz {
    real *u, *scratch;
    int64_t count, rows, cols;
};

int64_t cpu_newton_schulz_scratch(int64_t rows, int64_t cols) {
    int64_t side = rows < cols ? rows : cols;
    return 2 * side * side + rows * cols;
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
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < i; j++) c[j * side + i] = c[i * side + j];
}

/* X = a X + (b A + c A^2) X with A = X X^T, on the shorter side: for a tall matrix A = X^T X and the polynomial
 * multiplies from the right, which is the same as transposing. A^2 = A A^T. */
static void newton_schulz_step(real *restrict u, real *restrict scratch, int64_t rows, int64_t cols) {
    const real a = (real)3.4445, b = (real)-4.7750, c = (real)2.0315;
    bool tall = rows > cols;
    int64_t side = tall ? cols : rows, length = tall ? rows : cols;
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

static void run_newton_schulz(void *argument) {
    const struct newton_schulz *s = argument;
    int64_t size = s->rows * s->cols;
    for (int64_t i = 0; i < s->count; i++) {
        real *u = s->u + i * size;
        scale_row(u, (real)(1 / (sqrt(sum_of_squares(u, size)) + 1e-7)), size);
        for (int step = 0; step < 5; step++) newton_schulz_step(u, s->scratch, s->rows, s->cols);
    }
}

enum weir_status cpu_newton_schulz(const struct ops *ops, real *u, real *scratch, int64_t count, int64_t rows,
                                   int64_t cols, weir_stream stream) {
    assert(rows > 0 && cols > 0);
    struct newton_schulz s = {u, scratch, count, rows, cols};
    double side = (double)(rows < cols ? rows : cols), length = (double)(rows < cols ? cols : rows);
    double flops = (double)count * 10 * side * side * (2 * length + side);
    int64_t scratch_numbers = cpu_newton_schulz_scratch(rows, cols);
    return SUBMIT(ops, stream, "newton_schulz", run_newton_schulz, &s, flops, UPDATES(u, count * rows * cols),
                  WRITES(scratch, scratch_numbers));
}
