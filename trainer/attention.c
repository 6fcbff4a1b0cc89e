/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/attention.h"

static enum weir_status attention_alloc(struct model *m, struct attention *a) {
    const struct shape *z = &m->shape;
    struct streams *s = m->streams;
    TRY(real_alloc(s, COMPUTE, z->T * z->d, &a->n));
    TRY(real_alloc(s, COMPUTE, z->T, &a->n_r));
    TRY(real_alloc(s, COMPUTE, z->T * z->H * z->D, &a->q));
    TRY(real_alloc(s, COMPUTE, z->T * z->H, &a->q_r));
    TRY(real_alloc(s, COMPUTE, z->T * z->H * z->D, &a->q_n));
    TRY(real_alloc(s, COMPUTE, z->T * z->G * z->D, &a->k));
    TRY(real_alloc(s, COMPUTE, z->T * z->G, &a->k_r));
    TRY(real_alloc(s, COMPUTE, z->T * z->G * z->D, &a->k_n));
    TRY(real_alloc(s, COMPUTE, z->T * z->G * z->D, &a->v));
    TRY(real_alloc(s, COMPUTE, z->T * z->H * z->D, &a->o));
    return real_alloc(s, COMPUTE, z->T * z->H, &a->lse);
}

enum weir_status attention_free(struct model *m, struct attention *a) {
    real *const blocks[] = {a->n, a->n_r, a->q, a->q_r, a->q_n, a->k, a->k_r, a->k_n, a->v, a->o, a->lse};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) TRY(block_free(m->streams, COMPUTE, blocks[i]));
    return WEIR_OK;
}

enum weir_status attention_forward(struct model *m, const struct pack *p, struct attention *a, real *y, const real *x) {
    const struct fsdp *f = &m->fsdp;
    const int64_t T = m->shape.T, S = m->shape.S, d = m->shape.d, H = m->shape.H, G = m->shape.G, D = m->shape.D;
    weir_stream compute = m->streams->stream[COMPUTE];
    TRY(attention_alloc(m, a));
    OP(m, rmsnorm_forward, a->n, a->n_r, x, weight_of(f, p, ATTENTION_NORM), T, d, compute);
    TRY(linear(m, a->q, false, a->n, weight_of(f, p, WQ), T, d, H * D));
    TRY(linear(m, a->k, false, a->n, weight_of(f, p, WK), T, d, G * D));
    TRY(linear(m, a->v, false, a->n, weight_of(f, p, WV), T, d, G * D));
    OP(m, rmsnorm_forward, a->q_n, a->q_r, a->q, weight_of(f, p, Q_GAIN), T * H, D, compute);
    OP(m, rmsnorm_forward, a->k_n, a->k_r, a->k, weight_of(f, p, K_GAIN), T * G, D, compute);
    OP(m, rope, a->q_n, T, S, H, D, +1, compute);
    OP(m, rope, a->k_n, T, S, G, D, +1, compute);
    OP(m, attention_forward, a->o, a->lse, a->q_n, a->k_n, a->v, T, S, H, G, D, compute);
    TRY(linear(m, y, false, a->o, weight_of(f, p, WO), T, H * D, d));
    OP(m, add, y, y, x, T * d, compute);
    return WEIR_OK;
}

/* dq, dk of the rotated heads become those of the projections, in new blocks. */
static enum weir_status heads_backward(struct model *m, const struct pack *p, int gain, real **dhead, const real *head,
                                       const real *r, int64_t heads) {
    const int64_t T = m->shape.T, S = m->shape.S, D = m->shape.D;
    weir_stream compute = m->streams->stream[COMPUTE];
    real *dx;
    TRY(real_alloc(m->streams, COMPUTE, T * heads * D, &dx));
    OP(m, rope, *dhead, T, S, heads, D, -1, compute);
    OP(m, rmsnorm_backward, dx, false, gradient_of(p, gain), *dhead, head, r, weight_of(&m->fsdp, p, gain), T * heads,
       D, compute);
    TRY(block_free(m->streams, COMPUTE, *dhead));
    *dhead = dx;
    return WEIR_OK;
}

enum weir_status attention_backward(struct model *m, const struct pack *p, struct attention *a, real *dx,
                                    const real *x) {
    const struct fsdp *f = &m->fsdp;
    const int64_t T = m->shape.T, S = m->shape.S, d = m->shape.d, H = m->shape.H, G = m->shape.G, D = m->shape.D;
    struct streams *s = m->streams;
    weir_stream compute = s->stream[COMPUTE];
    real *dout, *dq, *dk, *dv, *dn;
    TRY(real_alloc(s, COMPUTE, T * H * D, &dout));
    TRY(linear_backward(m, dout, false, gradient_of(p, WO), dx, a->o, weight_of(f, p, WO), T, H * D, d));
    TRY(real_alloc(s, COMPUTE, T * H * D, &dq));
    TRY(real_alloc(s, COMPUTE, T * G * D, &dk));
    TRY(real_alloc(s, COMPUTE, T * G * D, &dv));
    OP(m, attention_backward, dq, dk, dv, dout, a->o, a->lse, a->q_n, a->k_n, a->v, T, S, H, G, D, compute);
    TRY(block_free(s, COMPUTE, dout));
    TRY(heads_backward(m, p, Q_GAIN, &dq, a->q, a->q_r, H));
    TRY(heads_backward(m, p, K_GAIN, &dk, a->k, a->k_r, G));
    TRY(real_alloc(s, COMPUTE, T * d, &dn));
    TRY(linear_backward(m, dn, false, gradient_of(p, WQ), dq, a->n, weight_of(f, p, WQ), T, d, H * D));
    TRY(linear_backward(m, dn, true, gradient_of(p, WK), dk, a->n, weight_of(f, p, WK), T, d, G * D));
    TRY(linear_backward(m, dn, true, gradient_of(p, WV), dv, a->n, weight_of(f, p, WV), T, d, G * D));
    TRY(block_free(s, COMPUTE, dq));
    TRY(block_free(s, COMPUTE, dk));
    TRY(block_free(s, COMPUTE, dv));
    OP(m, rmsnorm_backward, dx, true, gradient_of(p, ATTENTION_NORM), dn, x, a->n_r, weight_of(f, p, ATTENTION_NORM), T,
       d, compute);
    TRY(block_free(s, COMPUTE, dn));
    return attention_free(m, a);
}
