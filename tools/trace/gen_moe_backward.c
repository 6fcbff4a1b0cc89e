/* SPDX-License-Identifier: Apache-2.0 */
#include "gen_cost.h"
#include "gen_moe.h"

/* One backward of a layer. dX is the gradient of X. */
struct pass {
    struct moe *moe;
    struct gen_writer *out;
    const struct gen_settings *set;
    struct layer *layer;
    struct unit *weights;
    int64_t T, D, R; /* tokens, model width, tokens received by the experts */
    int64_t H, KV;   /* widths of all query heads, of all key heads */
    struct saved *saved;
    struct buf gradients[UNIT_PARAMETERS]; /* of the weights, as they come */
    size_t gradient_count;
};

static struct buf compute(struct pass *pass, int64_t bytes) { return gen_alloc(pass->out, bytes, COMPUTE); }

static void keep_gradient(struct pass *pass, struct buf gradient) {
    pass->gradients[pass->gradient_count++] = gradient;
}

/* ---- MLP and shared expert --------------------------------------------------------------------------------------- */

/* Back through `width` of act = f(gate) * up to *dgate and *dup; frees the three. */
static void gated(struct pass *p, int64_t width, struct buf dout, struct buf act, struct buf gate, struct buf up,
                  struct buf *dgate, struct buf *dup) {
    const int64_t T = p->T, D = p->D;
    struct buf dact = compute(p, T * width * 2);
    WORK_OF(p->out, p->weights, gemm_us(T, width, D), dout, dact);
    struct buf ddown = compute(p, D * width * 2);
    WORK(p->out, COMPUTE, gemm_us(D, width, T), dout, act, ddown);
    FREE(p->out, act);
    *dgate = compute(p, T * width * 2);
    *dup = compute(p, T * width * 2);
    WORK(p->out, COMPUTE, memory_us(T * width * 10), dact, gate, up, *dgate, *dup);
    FREE(p->out, dact, gate, up);
    keep_gradient(p, ddown);
}

/* Gives the gradient of norm2. */
static struct buf mlp(struct pass *p, struct buf dout) {
    const int64_t T = p->T, D = p->D, F = p->set->dense_f;
    struct saved *s = p->saved;
    struct buf dgate, dup;
    gated(p, F, dout, s->act, s->gate, s->up, &dgate, &dup);
    struct buf dnorm2 = compute(p, T * D * 2), gate_weights = compute(p, D * F * 2);
    WORK_OF(p->out, p->weights, gemm_us(T, D, F) * 2, dgate, dup, dnorm2);
    struct buf up_weights = compute(p, D * F * 2);
    WORK(p->out, COMPUTE, gemm_us(D, F, T) * 2, dgate, dup, s->norm2, gate_weights, up_weights);
    FREE(p->out, dgate, dup);
    keep_gradient(p, gate_weights);
    keep_gradient(p, up_weights);
    return dnorm2;
}

static struct buf shared_expert(struct pass *p, struct buf dout) {
    const int64_t T = p->T, D = p->D, F = p->set->shared;
    struct saved *s = p->saved;
    struct buf dgate, dup;
    if (F == 0) return NO_BUF;
    gated(p, F, dout, s->shared_act, s->shared_gate, s->shared_up, &dgate, &dup);
    struct buf dnorm2 = compute(p, T * D * 2);
    WORK_OF(p->out, p->weights, gemm_us(T, D, F) * 2, dgate, dup, dnorm2);
    struct buf gate_weights = compute(p, D * F * 2), up_weights = compute(p, D * F * 2);
    WORK(p->out, COMPUTE, gemm_us(D, F, T) * 2, dgate, dup, s->norm2, gate_weights, up_weights);
    FREE(p->out, dgate, dup);
    keep_gradient(p, gate_weights);
    keep_gradient(p, up_weights);
    return dnorm2;
}

/* ---- experts ----------------------------------------------------------------------------------------------------- */

/* The gradient of what came back from the experts goes out to them; *dweights is that of the router's weights. */
static struct buf send_back(struct pass *p, struct buf dout, struct buf *dweights) {
    const int64_t T = p->T, D = p->D, K = p->set->topk;
    struct saved *s = p->saved;
    struct buf dcombined = compute(p, T * K * D * 2);
    *dweights = compute(p, T * K * 4);
    WORK(p->out, COMPUTE, memory_us(T * K * D * 6), dout, s->combined, s->top_weights, s->order, dcombined, *dweights);
    FREE(p->out, s->combined, s->top_weights);
    struct buf received = moe_exchange(p->moe, dcombined, p->R * D * 2);
    struct buf *handles = p->layer->handles;
    if (handles[0].id != 0) {
        gen_work(p->out, COMPUTE, 3);
        gen_uses(p->out, COMPUTE, handles, HANDLES);
        gen_free(p->out, handles, HANDLES);
        for (int i = 0; i < HANDLES; i++) handles[i] = NO_BUF;
    }
    return received;
}

/* Down projection and activation, from what came in to *dgate and *dup. */
static struct buf experts_down(struct pass *p, struct buf received, struct buf *dgate, struct buf *dup) {
    const int64_t R = p->R, D = p->D, F = p->set->f;
    struct saved *s = p->saved;
    struct buf ddown = compute(p, R * D * 2);
    WORK(p->out, COMPUTE, memory_us(R * D * 4), received, ddown);
    FREE(p->out, received);
    struct buf dact = compute(p, R * F * 2);
    WORK_OF(p->out, p->layer->experts, gemm_us(R, F, D), ddown, dact);
    struct buf weights = compute(p, p->moe->local_experts * D * F * 2);
    WORK(p->out, COMPUTE, gemm_us(R, F, D), ddown, s->act, weights);
    FREE(p->out, s->act, ddown);
    *dgate = compute(p, R * F * 2);
    *dup = compute(p, R * F * 2);
    WORK(p->out, COMPUTE, memory_us(R * F * 10), dact, s->gate, s->up, *dgate, *dup);
    FREE(p->out, dact, s->gate, s->up);
    return weights;
}

/* One of the two projections in: gives the gradient of its input, *weights that of its weights. */
static struct buf experts_in(struct pass *p, struct buf gradient, struct buf *weights) {
    const int64_t R = p->R, D = p->D, F = p->set->f;
    struct buf dinput = compute(p, R * D * 2);
    WORK_OF(p->out, p->layer->experts, gemm_us(R, F, D), gradient, dinput);
    *weights = compute(p, p->moe->local_experts * D * F * 2);
    WORK(p->out, COMPUTE, gemm_us(R, F, D), gradient, p->saved->permuted, *weights);
    return dinput;
}

/* Gives the gradient of what the experts received; reduces theirs. */
static struct buf experts(struct pass *p, struct buf received) {
    const int64_t R = p->R, D = p->D;
    struct buf dgate, dup, weights[3];
    weights[0] = experts_down(p, received, &dgate, &dup);
    struct buf by_gate = experts_in(p, dgate, &weights[1]);
    FREE(p->out, dgate);
    struct buf by_up = experts_in(p, dup, &weights[2]);
    FREE(p->out, dup, p->saved->permuted);
    struct buf dpermuted = compute(p, R * D * 2);
    WORK(p->out, COMPUTE, memory_us(R * D * 6), by_gate, by_up, dpermuted);
    FREE(p->out, by_gate, by_up);
    struct buf dreceived = compute(p, R * D * 2);
    WORK(p->out, COMPUTE, memory_us(R * D * 4), dpermuted, dreceived);
    FREE(p->out, dpermuted);
    fsdp_release(&p->moe->fsdp, p->layer->experts);
    fsdp_reduce(&p->moe->fsdp, p->layer->experts, weights, 3);
    return dreceived;
}

/* The router's own gradients. Gives that of norm2. */
static struct buf router(struct pass *p, struct buf dweights) {
    const int64_t T = p->T, D = p->D, E = p->set->experts;
    struct saved *s = p->saved;
    struct buf dlogits = compute(p, T * E * 4);
    WORK(p->out, COMPUTE, memory_us(T * E * 12), dweights, s->probs, s->top_experts, dlogits);
    FREE(p->out, dweights, s->probs, s->top_experts);
    struct buf weights = compute(p, D * E * 2), dnorm2 = compute(p, T * D * 2);
    WORK_OF(p->out, p->weights, gemm_us(T, E, D) * 2, dlogits, weights, dnorm2, s->norm2);
    FREE(p->out, dlogits);
    keep_gradient(p, weights);
    return dnorm2;
}

static struct buf mixture(struct pass *p, struct buf dout) {
    const int64_t T = p->T, D = p->D, K = p->set->topk;
    struct saved *s = p->saved;
    struct buf by_shared = shared_expert(p, dout), dweights;
    struct buf dreceived = experts(p, send_back(p, dout, &dweights));
    struct buf dsent = moe_exchange(p->moe, dreceived, T * K * D * 2);
    struct buf by_experts = compute(p, T * D * 2);
    WORK(p->out, COMPUTE, memory_us(T * K * D * 2), dsent, s->order, by_experts);
    FREE(p->out, dsent, s->order);
    struct buf by_router = router(p, dweights);
    struct buf dnorm2 = compute(p, T * D * 2);
    WORK(p->out, COMPUTE, memory_us(T * D * 8), by_experts, by_router, dnorm2, by_shared);
    FREE(p->out, by_experts, by_router, by_shared);
    return dnorm2;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Frees dresidual's producers; gives the gradient of the projected heads' sum. */
static struct buf second_norm(struct pass *p, struct buf dnorm2, struct buf dout) {
    const int64_t T = p->T, D = p->D;
    struct saved *s = p->saved;
    struct buf dresidual = compute(p, T * D * 2), weights = compute(p, D * 2);
    WORK(p->out, COMPUTE, memory_us(T * D * 10), dnorm2, s->residual, s->scale2, dout, dresidual, weights);
    FREE(p->out, dnorm2, s->norm2, s->residual, s->scale2, dout);
    keep_gradient(p, weights);
    return dresidual;
}

/* Gives the gradient of queries, keys and values together. */
static struct buf attention(struct pass *p, struct buf dresidual) {
    const int64_t T = p->T, D = p->D, H = p->H, KV = p->KV;
    struct saved *s = p->saved;
    struct buf dattended = compute(p, T * H * 2);
    WORK_OF(p->out, p->weights, gemm_us(T, H, D), dresidual, dattended);
    struct buf weights = compute(p, H * D * 2);
    WORK(p->out, COMPUTE, gemm_us(H, D, T), dresidual, s->attended, weights);
    keep_gradient(p, weights);
    struct buf dq = compute(p, T * H * 2), dk = compute(p, T * KV * 2), dv = compute(p, T * KV * 2);
    struct buf sums = compute(p, T * H * 4), row_sums = compute(p, p->set->heads * T * 4);
    WORK(p->out, COMPUTE, attention_us(10.0, T, p->set->seq, H, 10), dattended, s->q, s->k, s->v, s->attended,
         s->log_sum, dq, dk, dv, sums, row_sums);
    FREE(p->out, sums, row_sums, dattended, s->q, s->k, s->v, s->attended, s->log_sum);
    struct buf dqkv = compute(p, T * (H + 2 * KV) * 2);
    WORK(p->out, COMPUTE, memory_us(T * (H + 2 * KV) * 4), dq, dk, dv, dqkv);
    FREE(p->out, dq, dk, dv);
    return dqkv;
}

/* Gives the gradient of the layer's input. */
static struct buf first_norm(struct pass *p, struct buf dqkv, struct buf x, struct buf dresidual) {
    const int64_t T = p->T, D = p->D, QKV = p->H + 2 * p->KV;
    struct saved *s = p->saved;
    struct buf dnorm1 = compute(p, T * D * 2);
    WORK_OF(p->out, p->weights, gemm_us(T, D, QKV), dqkv, dnorm1);
    struct buf weights = compute(p, D * QKV * 2);
    WORK(p->out, COMPUTE, gemm_us(D, QKV, T), dqkv, s->norm1, weights);
    FREE(p->out, dqkv, s->norm1);
    struct buf dx = compute(p, T * D * 2), norm_weights = compute(p, D * 2);
    WORK(p->out, COMPUTE, memory_us(T * D * 10), dnorm1, x, s->scale1, dresidual, dx, norm_weights);
    FREE(p->out, dnorm1, s->scale1, dresidual);
    keep_gradient(p, weights);
    keep_gradient(p, norm_weights);
    return dx;
}

struct buf moe_layer_backward(struct moe *moe, struct layer *layer, struct buf x, int64_t tokens, struct saved *saved,
                              struct buf gradient) {
    const struct gen_settings *set = moe->set;
    struct pass pass = {.moe = moe,
                        .out = moe->out,
                        .set = set,
                        .layer = layer,
                        .weights = &layer->dense,
                        .T = tokens,
                        .D = set->d,
                        .R = layer->received,
                        .H = set->heads * set->hd,
                        .KV = set->kv * set->hd,
                        .saved = saved};
    struct buf dnorm2 = layer->experts == NULL ? mlp(&pass, gradient) : mixture(&pass, gradient);
    struct buf dresidual = second_norm(&pass, dnorm2, gradient);
    struct buf dqkv = attention(&pass, dresidual);
    struct buf dx = first_norm(&pass, dqkv, x, dresidual);
    fsdp_release(&moe->fsdp, &layer->dense);
    fsdp_reduce(&moe->fsdp, &layer->dense, pass.gradients, pass.gradient_count);
    return dx;
}
