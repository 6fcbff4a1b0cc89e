/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embedding and causal attention with grouped key-value heads.
 *
 * A head's queries are taken in blocks of QUERIES rows; a block sees the keys before its end only, so that about half of
 * the S x S products are never made, and scratch is QUERIES x S. */
#include "trainer/ops_cpu.h"

enum { QUERIES = 64 };

/* ---- rotary embedding -------------------------------------------------------------------------------------------- */

static void turn(real *restrict low, real *restrict high, const real *restrict cosines, const real *restrict sines,
                 real direction, int64_t pairs) {
    for (int64_t i = 0; i < pairs; i++) {
        real a = low[i], b = high[i], c = cosines[i], s = sines[i] * direction;
        low[i] = a * c - b * s;
        high[i] = b * c + a * s;
    }
}

void cpu_rope(void *arguments) {
    const struct rope_args *r = arguments;
    int64_t pairs = r->D / 2;
    const real *cosines = cpu_rope_table(r->S, r->D), *sines = cosines + r->S * pairs;
    for (int64_t t = 0; t < r->T; t++)
        for (int64_t head = 0; head < r->heads; head++) {
            real *low = r->x + (t * r->heads + head) * r->D;
            int64_t at = t % r->S * pairs;
            turn(low, low + pairs, cosines + at, sines + at, (real)r->direction, pairs);
        }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* One block of one head: `first` is the block's first token, counted in its sequence `from` (a token); rows queries;
 * they see keys 0 .. first - from + rows - 1 of the sequence. */
struct block {
    int64_t from, first, rows, keys, head, group;
};

static struct block block_at(const struct attention_args *a, int64_t sequence, int64_t head, int64_t start) {
    int64_t rows = a->S - start < QUERIES ? a->S - start : QUERIES;
    return (struct block){.from = sequence * a->S,
                          .first = sequence * a->S + start,
                          .rows = rows,
                          .keys = start + rows,
                          .head = head,
                          .group = head / (a->H / a->G)};
}

static int64_t query_at(const struct attention_args *a, const struct block *b) {
    return (b->first * a->H + b->head) * a->D;
}
static int64_t key_at(const struct attention_args *a, const struct block *b) {
    return (b->from * a->G + b->group) * a->D;
}
/* keys that query `row` of the block sees */
static int64_t seen(const struct block *b, int64_t row) { return b->keys - b->rows + row + 1; }

/* scores (rows, keys) = left K^T * factor, left rows of a (T, H, D) tensor */
static void against_keys(const struct attention_args *a, const struct block *b, real *scores, const real *left,
                         const real *keys, real factor) {
    gemm(CblasNoTrans, CblasTrans, b->rows, b->keys, a->D, factor, left + query_at(a, b), a->H * a->D,
         keys + key_at(a, b), a->G * a->D, 0, scores, b->keys);
}

static void forward_block(const struct attention_args *a, const struct block *b, real *scores) {
    against_keys(a, b, scores, a->q, a->k, 1 / sqrt_real((real)a->D));
    for (int64_t row = 0; row < b->rows; row++) {
        real *p = scores + row * b->keys;
        int64_t n = seen(b, row);
        real most = largest(p, n), sum = exp_shifted(p, most, n);
        scale_row(p, 1 / sum, n);
        for (int64_t j = n; j < b->keys; j++) p[j] = 0;
        a->lse_out[(b->first + row) * a->H + b->head] = most + (real)log((double)sum);
    }
    gemm(CblasNoTrans, CblasNoTrans, b->rows, a->D, b->keys, 1, scores, b->keys, a->v + key_at(a, b), a->G * a->D, 0,
         a->o_out + query_at(a, b), a->H * a->D);
}

void cpu_attention_forward(void *arguments) {
    const struct attention_args *a = arguments;
    real *scores = cpu_reals(SLOT_SCORES, QUERIES * a->S);
    for (int64_t sequence = 0; sequence < a->T / a->S; sequence++)
        for (int64_t head = 0; head < a->H; head++)
            for (int64_t start = 0; start < a->S; start += QUERIES) {
                struct block b = block_at(a, sequence, head, start);
                forward_block(a, &b, scores);
            }
}

/* p becomes the probabilities and dp, which holds dO V^T, the gradient of the scores: P (dP - sum dO O) / sqrt D */
static void scores_backward(const struct attention_args *a, const struct block *b, real *restrict p,
                            real *restrict dp) {
    real factor = 1 / sqrt_real((real)a->D);
    for (int64_t row = 0; row < b->rows; row++, p += b->keys, dp += b->keys) {
        int64_t n = seen(b, row), at = query_at(a, b) + row * a->H * a->D;
        real lse = a->lse[(b->first + row) * a->H + b->head], along = dot(a->dout + at, a->o + at, a->D);
        for (int64_t j = 0; j < n; j++) {
            p[j] = exp_real(p[j] - lse);
            dp[j] = p[j] * (dp[j] - along) * factor;
        }
        for (int64_t j = n; j < b->keys; j++) p[j] = dp[j] = 0;
    }
}

/* dk and dv gather over the heads of the group and the blocks, in that order */
static void backward_block(const struct attention_args *a, const struct block *b, real *p, real *dp) {
    int64_t at_q = query_at(a, b), at_k = key_at(a, b), step_q = a->H * a->D, step_k = a->G * a->D;
    against_keys(a, b, p, a->q, a->k, 1 / sqrt_real((real)a->D));
    against_keys(a, b, dp, a->dout, a->v, 1);
    scores_backward(a, b, p, dp);
    gemm(CblasNoTrans, CblasNoTrans, b->rows, a->D, b->keys, 1, dp, b->keys, a->k + at_k, step_k, 0, a->dq + at_q,
         step_q);
    gemm(CblasTrans, CblasNoTrans, b->keys, a->D, b->rows, 1, dp, b->keys, a->q + at_q, step_q, 1, a->dk + at_k,
         step_k);
    gemm(CblasTrans, CblasNoTrans, b->keys, a->D, b->rows, 1, p, b->keys, a->dout + at_q, step_q, 1, a->dv + at_k,
         step_k);
}

void cpu_attention_backward(void *arguments) {
    const struct attention_args *a = arguments;
    real *p = cpu_reals(SLOT_SCORES, QUERIES * a->S), *dp = cpu_reals(SLOT_GRADIENT, QUERIES * a->S);
    size_t key_bytes = (size_t)(a->T * a->G * a->D) * sizeof(real);
    if (!key_bytes) return;
    memset(a->dk, 0, key_bytes);
    memset(a->dv, 0, key_bytes);
    for (int64_t sequence = 0; sequence < a->T / a->S; sequence++)
        for (int64_t head = 0; head < a->H; head++)
            for (int64_t start = 0; start < a->S; start += QUERIES) {
                struct block b = block_at(a, sequence, head, start);
                backward_block(a, &b, p, dp);
            }
}
