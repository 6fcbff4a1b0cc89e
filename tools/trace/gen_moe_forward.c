/* SPDX-License-Identifier: Apache-2.0 */
#include "gen_cost.h"
#include "gen_moe.h"

/* One forward of a layer. */
struct pass {
    struct moe *moe;
    struct gen_writer *out;
    const struct gen_settings *set;
    struct layer *layer;
    struct unit *weights;
    int64_t T, D, R; /* tokens, model width, tokens received by the experts */
    int64_t H, KV;   /* widths of all query heads, of all key heads */
    bool keep;
    struct saved *saved;
};

/* Frees what backward does not need, or would compute again. */
#define FREE_UNLESS_KEPT(pass, ...)                                                                                    \
    do {                                                                                                               \
        if (!(pass)->keep) FREE((pass)->out, __VA_ARGS__);                                                             \
    } while (0)

static struct buf compute(struct pass *pass, int64_t bytes) { return gen_alloc(pass->out, bytes, COMPUTE); }

static void recorded(struct pass *pass, struct buf buf, enum gen_stream stream) {
    if (pass->set->record) gen_note(pass->out, buf, stream);
}

struct buf moe_exchange(struct moe *moe, struct buf from, int64_t bytes) {
    struct gen_writer *out = moe->out;
    const bool from_comm = moe->set->a2a_alloc == EXCHANGE_FROM_COMM;
    struct buf to = NO_BUF;
    if (!from_comm) to = gen_alloc(out, bytes, COMPUTE);
    gen_after(out, EXPERTS, COMPUTE);
    if (from_comm) to = gen_alloc(out, bytes, EXPERTS);
    WORK(out, EXPERTS, exchange_us(from.bytes > bytes ? from.bytes : bytes), from, to);
    if (moe->set->record) {
        gen_note(out, from, EXPERTS);
        gen_note(out, to, from_comm ? COMPUTE : EXPERTS);
    }
    gen_after(out, COMPUTE, EXPERTS);
    FREE(out, from);
    return to;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static void queries_keys_values(struct pass *p, struct buf x) {
    const int64_t T = p->T, D = p->D, H = p->H, KV = p->KV;
    struct saved *s = p->saved;
    s->norm1 = compute(p, T * D * 2);
    s->scale1 = compute(p, T * 4);
    WORK_OF(p->out, p->weights, memory_us(T * D * 4), x, s->norm1, s->scale1);
    struct buf qkv = compute(p, T * (H + 2 * KV) * 2);
    WORK_OF(p->out, p->weights, gemm_us(T, H + 2 * KV, D), s->norm1, qkv);
    FREE_UNLESS_KEPT(p, s->norm1, s->scale1);
    s->q = compute(p, T * H * 2);
    s->k = compute(p, T * KV * 2);
    s->v = compute(p, T * KV * 2);
    WORK(p->out, COMPUTE, memory_us(T * (H + KV) * 4), qkv, s->q, s->k);
    WORK(p->out, COMPUTE, memory_us(T * KV * 4), qkv, s->v);
    FREE(p->out, qkv);
}

static void attention(struct pass *p, struct buf x) {
    const int64_t T = p->T, D = p->D, H = p->H;
    struct saved *s = p->saved;
    queries_keys_values(p, x);
    s->attended = compute(p, T * H * 2);
    s->log_sum = compute(p, p->set->heads * T * 4);
    WORK(p->out, COMPUTE, attention_us(4.0, T, p->set->seq, H, 5), s->q, s->k, s->v, s->attended, s->log_sum);
    FREE_UNLESS_KEPT(p, s->q, s->k, s->v, s->log_sum);
    struct buf projected = compute(p, T * D * 2);
    WORK_OF(p->out, p->weights, gemm_us(T, D, H), s->attended, projected);
    FREE_UNLESS_KEPT(p, s->attended);
    s->residual = compute(p, T * D * 2);
    WORK(p->out, COMPUTE, memory_us(T * D * 6), x, projected, s->residual);
    FREE(p->out, projected);
    s->norm2 = compute(p, T * D * 2);
    s->scale2 = compute(p, T * 4);
    WORK_OF(p->out, p->weights, memory_us(T * D * 4), s->residual, s->norm2, s->scale2);
}

/* ---- MLP and experts --------------------------------------------------------------------------------------------- */

/* act = f(gate) * up over `rows` tokens, `width` wide; `spent` is freed when both projections have read it. */
static void gated(struct pass *p, const struct unit *weights, int64_t rows, int64_t width, struct buf input,
                  struct buf spent, struct buf *gate, struct buf *up, struct buf *act) {
    *gate = compute(p, rows * width * 2);
    *up = compute(p, rows * width * 2);
    WORK_OF(p->out, weights, gemm_us(rows, width, p->D), input, *gate);
    WORK_OF(p->out, weights, gemm_us(rows, width, p->D), input, *up);
    FREE(p->out, spent);
    *act = compute(p, rows * width * 2);
    WORK(p->out, COMPUTE, memory_us(rows * width * 6), *gate, *up, *act);
}

static struct buf mlp(struct pass *p) {
    struct saved *s = p->saved;
    gated(p, p->weights, p->T, p->set->dense_f, s->norm2, NO_BUF, &s->gate, &s->up, &s->act);
    FREE_UNLESS_KEPT(p, s->gate, s->up, s->norm2, s->scale2);
    struct buf result = compute(p, p->T * p->D * 2);
    WORK_OF(p->out, p->weights, gemm_us(p->T, p->D, p->set->dense_f), s->act, result);
    FREE_UNLESS_KEPT(p, s->act);
    return result;
}

static void choose_experts(struct pass *p) {
    const int64_t T = p->T, E = p->set->experts, K = p->set->topk;
    struct saved *s = p->saved;
    struct buf logits = compute(p, T * E * 4);
    s->probs = compute(p, T * E * 4);
    WORK_OF(p->out, p->weights, gemm_us(T, E, p->D), s->norm2, logits);
    WORK(p->out, COMPUTE, memory_us(T * E * 8), logits, s->probs);
    s->top_weights = compute(p, T * K * 4);
    s->top_experts = compute(p, T * K * 8);
    WORK(p->out, COMPUTE, memory_us(T * E * 4), s->probs, s->top_weights, s->top_experts);
    FREE(p->out, logits);
}

/* The ranks tell each other how many tokens come; the host reads it, to size the buffers. Gives the tokens by
 * expert. */
static struct buf permute(struct pass *p) {
    const int64_t T = p->T, K = p->set->topk;
    struct saved *s = p->saved;
    struct buf counts = compute(p, p->set->experts * 8), counts_received = compute(p, p->set->experts * 8);
    WORK(p->out, COMPUTE, 6, s->top_experts, counts);
    gen_after(p->out, EXPERTS, COMPUTE);
    WORK(p->out, EXPERTS, 25, counts, counts_received);
    recorded(p, counts, EXPERTS);
    recorded(p, counts_received, EXPERTS);
    gen_after(p->out, COMPUTE, EXPERTS);
    struct buf sorted = compute(p, T * K * 8);
    s->order = compute(p, T * K * 8);
    WORK(p->out, COMPUTE, memory_us(T * K * 64), s->top_experts, sorted, s->order);
    struct buf permuted = compute(p, T * K * p->D * 2);
    WORK(p->out, COMPUTE, memory_us(T * K * p->D * 4), s->norm2, s->order, permuted);
    if (p->set->sync_counts) gen_sync(p->out, COMPUTE);
    FREE(p->out, counts, counts_received, sorted);
    return permuted;
}

/* What the dispatch keeps on the communication stream until the layer's backward; recomputing uses it again. */
static void keep_handles(struct pass *p) {
    struct buf *handles = p->layer->handles;
    if (!p->set->ep_meta || handles[0].id != 0) return;
    const int64_t bytes[HANDLES] = {p->R * 8, p->R * 4, p->R * 4, 8192};
    gen_after(p->out, EXPERTS, COMPUTE);
    for (int i = 0; i < HANDLES; i++) handles[i] = gen_alloc(p->out, bytes[i], EXPERTS);
    gen_work(p->out, EXPERTS, 5);
    gen_uses(p->out, EXPERTS, handles, HANDLES);
    gen_after(p->out, COMPUTE, EXPERTS);
    for (int i = 0; i < HANDLES; i++) gen_note(p->out, handles[i], COMPUTE);
}

/* Gives the experts' output, unpermuted, as it is sent back. */
static struct buf experts(struct pass *p, struct buf received) {
    const int64_t R = p->R, D = p->D, F = p->set->f;
    struct saved *s = p->saved;
    s->permuted = compute(p, R * D * 2);
    WORK(p->out, COMPUTE, memory_us(R * D * 4), received, s->permuted);
    FREE(p->out, received);
    gated(p, p->layer->experts, R, F, s->permuted, p->keep ? NO_BUF : s->permuted, &s->gate, &s->up, &s->act);
    FREE_UNLESS_KEPT(p, s->gate, s->up);
    struct buf down = compute(p, R * D * 2);
    WORK_OF(p->out, p->layer->experts, gemm_us(R, D, F), s->act, down);
    FREE_UNLESS_KEPT(p, s->act);
    struct buf unpermuted = compute(p, R * D * 2);
    WORK(p->out, COMPUTE, memory_us(R * D * 4), down, unpermuted);
    FREE(p->out, down);
    return unpermuted;
}

static struct buf shared_expert(struct pass *p) {
    struct saved *s = p->saved;
    if (p->set->shared == 0) return NO_BUF;
    gated(p, p->weights, p->T, p->set->shared, s->norm2, NO_BUF, &s->shared_gate, &s->shared_up, &s->shared_act);
    FREE_UNLESS_KEPT(p, s->shared_gate, s->shared_up);
    struct buf result = compute(p, p->T * p->D * 2);
    WORK_OF(p->out, p->weights, gemm_us(p->T, p->D, p->set->shared), s->shared_act, result);
    FREE_UNLESS_KEPT(p, s->shared_act);
    return result;
}

static struct buf mixture(struct pass *p, struct buf *of_shared) {
    const int64_t T = p->T, D = p->D, K = p->set->topk;
    struct saved *s = p->saved;
    choose_experts(p);
    struct buf received = moe_exchange(p->moe, permute(p), p->R * D * 2);
    keep_handles(p);
    s->combined = moe_exchange(p->moe, experts(p, received), T * K * D * 2);
    *of_shared = shared_expert(p);
    FREE_UNLESS_KEPT(p, s->norm2, s->scale2);
    struct buf result = compute(p, T * D * 2);
    WORK(p->out, COMPUTE, memory_us(T * K * D * 2), s->combined, s->order, s->top_weights, result);
    FREE_UNLESS_KEPT(p, s->combined, s->probs, s->top_weights, s->top_experts, s->order);
    return result;
}

/* ---- the layer --------------------------------------------------------------------------------------------------- */

static void small_buffers(struct pass *p, struct buf *small, int64_t from, int64_t to, const int64_t *of, int count) {
    for (int64_t i = from; i < to; i++) small[i] = compute(p, gen_choice(p->moe->random, of, count));
}

struct buf moe_layer_forward(struct moe *moe, struct layer *layer, struct buf x, int64_t tokens, bool keep,
                             struct saved *saved) {
    const struct gen_settings *set = moe->set;
    struct pass pass = {moe,
                        moe->out,
                        set,
                        layer,
                        &layer->dense,
                        tokens,
                        set->d,
                        layer->received,
                        set->heads * set->hd,
                        set->kv * set->hd,
                        keep,
                        saved};
    const int64_t early[] = {512, 4, 8, 64, 1024, 4096}, late[] = {512, 4, 8, 2048, set->experts * 4};
    struct buf small[64], of_shared = NO_BUF;
    *saved = (struct saved){0};
    small_buffers(&pass, small, 0, set->small / 2, early, 6);
    attention(&pass, x);
    struct buf update = layer->experts == NULL ? mlp(&pass) : mixture(&pass, &of_shared);
    small_buffers(&pass, small, set->small / 2, set->small, late, 5);
    struct buf result = compute(&pass, tokens * set->d * 2);
    WORK(moe->out, COMPUTE, memory_us(tokens * set->d * 8), saved->residual, update, result, of_shared);
    FREE(moe->out, update, of_shared);
    FREE_UNLESS_KEPT(&pass, saved->residual);
    gen_free(moe->out, small, (size_t)set->small);
    return result;
}
