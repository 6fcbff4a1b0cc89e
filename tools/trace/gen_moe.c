/* SPDX-License-Identifier: Apache-2.0 */
#include "gen_moe.h"

#include <math.h>
#include <stdlib.h>

#include "gen_cost.h"
#include "gen_families.h"

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void add_attention(const struct gen_settings *set, struct unit *unit) {
    const int64_t H = set->heads * set->hd, KV = set->kv * set->hd;
    unit_add(unit, set->d * (H + 2 * KV));
    unit_add(unit, H * set->d);
    unit_add(unit, set->d);
    unit_add(unit, set->d);
    unit_add_matrix(unit, 0, set->d, H + 2 * KV);
    unit_add_matrix(unit, 0, set->d, H);
}

static void add_gated(const struct gen_settings *set, struct unit *unit, int64_t width) {
    for (int i = 0; i < 3; i++) {
        unit_add(unit, set->d * width);
        unit_add_matrix(unit, 0, set->d, width);
    }
}

static void append(struct moe *moe, struct unit *unit, int64_t shards) {
    unit_cut(unit, shards);
    unit->position = moe->unit_count;
    moe->units[moe->unit_count++] = unit;
}

static void build_layer(struct moe *moe, int64_t at) {
    const struct gen_settings *set = moe->set;
    struct layer *layer = &moe->layers[at];
    add_attention(set, &layer->dense);
    if (at < set->dense_layers) {
        add_gated(set, &layer->dense, set->dense_f);
        append(moe, &layer->dense, set->world);
        return;
    }
    unit_add(&layer->dense, set->d * set->experts);
    if (set->shared != 0) add_gated(set, &layer->dense, set->shared);
    append(moe, &layer->dense, set->world);
    layer->experts = &layer->expert_unit;
    for (int i = 0; i < 3; i++) {
        unit_add(layer->experts, moe->local_experts * set->d * set->f);
        unit_add_matrix(layer->experts, moe->local_experts, set->d, set->f);
    }
    append(moe, layer->experts, set->world / set->ep > 1 ? set->world / set->ep : 1);
}

static void build(struct moe *moe) {
    const struct gen_settings *set = moe->set;
    moe->local_experts = set->experts / set->ep > 1 ? set->experts / set->ep : 1;
    moe->layers = gen_room((size_t)set->layers, sizeof *moe->layers);
    moe->units = gen_room((size_t)set->layers * 2 + 2, sizeof *moe->units);
    unit_add(&moe->embedding, set->vocab * set->d);
    append(moe, &moe->embedding, set->world);
    for (int64_t l = 0; l < set->layers; l++) build_layer(moe, l);
    unit_add(&moe->head, set->vocab * set->d);
    unit_add(&moe->head, set->d);
    append(moe, &moe->head, set->world);
    for (int64_t l = 0; l < set->layers; l++) moe->layers[l].hot = exp(gen_gauss(moe->random, 0, set->hot));
    for (size_t i = 0; i < moe->unit_count; i++) fsdp_create(&moe->fsdp, moe->units[i]);
    for (enum gen_stream s = GATHER_COPY; s < GEN_STREAMS; s++) gen_after(moe->out, s, COMPUTE);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Tokens that the experts of this rank get: each expert's share is log-normal, times the root of the layer's own. */
static int64_t route(struct moe *moe, const struct layer *layer, int64_t tokens) {
    const struct gen_settings *set = moe->set;
    const int64_t sent = tokens * set->topk;
    const double most = (double)sent * (set->ep < 4 ? (double)set->ep : 4.0), hot = sqrt(layer->hot);
    int64_t total = 0;
    for (int64_t e = 0; e < moe->local_experts; e++) {
        double share = (double)sent / (double)moe->local_experts * exp(gen_gauss(moe->random, 0, set->imbalance)) * hot;
        total += divide_up((int64_t)fmin(share, most), set->align) * set->align;
    }
    if ((double)total > most) total = (int64_t)most;
    return total > set->align ? total : set->align;
}

static void gather_ahead(struct moe *moe, const struct unit *unit) {
    for (size_t i = 1; i <= (size_t)moe->set->prefetch && unit->position + i < moe->unit_count; i++)
        fsdp_gather(&moe->fsdp, moe->units[unit->position + i]);
}

/* One microbatch on its way: the layers' inputs that are being copied to the host, oldest first. */
struct batch {
    int64_t tokens;
    struct buf ids, labels;
    struct held leaving[3];
    int leaving_count;
};

static void leave(struct moe *moe, struct batch *batch, int most) {
    while (batch->leaving_count > most) {
        gen_wait(moe->out, &batch->leaving[0].done, COMPUTE);
        FREE(moe->out, batch->leaving[0].buf);
        for (int i = 1; i < batch->leaving_count; i++) batch->leaving[i - 1] = batch->leaving[i];
        batch->leaving_count--;
    }
}

/* Copies a layer's input to the host; at most two are under way. */
static void offload(struct moe *moe, struct batch *batch, struct buf x) {
    gen_after(moe->out, TO_HOST, COMPUTE);
    WORK(moe->out, TO_HOST, host_us(x.bytes), x);
    batch->leaving[batch->leaving_count++] = (struct held){x, gen_record(moe->out, TO_HOST)};
    leave(moe, batch, 2);
}

static struct buf embed(struct moe *moe, struct batch *batch) {
    const int64_t T = batch->tokens, D = moe->set->d;
    batch->ids = gen_alloc(moe->out, T * 8, COMPUTE);
    batch->labels = gen_alloc(moe->out, T * 8, COMPUTE);
    WORK(moe->out, COMPUTE, 5, batch->ids, batch->labels);
    fsdp_use(&moe->fsdp, &moe->embedding, true);
    gather_ahead(moe, &moe->embedding);
    struct buf x = gen_alloc(moe->out, T * D * 2, COMPUTE);
    WORK_OF(moe->out, &moe->embedding, memory_us(T * D * 4), batch->ids, x);
    fsdp_release(&moe->fsdp, &moe->embedding);
    return x;
}

static struct buf forward_layer(struct moe *moe, struct batch *batch, int64_t at, struct buf x) {
    const struct gen_settings *set = moe->set;
    struct layer *layer = &moe->layers[at];
    fsdp_use(&moe->fsdp, &layer->dense, true);
    gather_ahead(moe, &layer->dense);
    fsdp_use(&moe->fsdp, layer->experts, true);
    if (layer->experts != NULL) gather_ahead(moe, layer->experts);
    layer->received = layer->experts != NULL ? route(moe, layer, batch->tokens) : 0;
    struct buf result = moe_layer_forward(moe, layer, x, batch->tokens, !set->ac, &layer->kept);
    if (at < set->layers - 1 || !set->ac) { /* the last layer is computed again at once */
        fsdp_release(&moe->fsdp, layer->experts);
        fsdp_release(&moe->fsdp, &layer->dense);
    }
    layer->input = x;
    if (set->offload && at < set->layers - set->offload_keep) {
        layer->input = NO_BUF;
        offload(moe, batch, x);
    }
    return result;
}

static struct buf forward(struct moe *moe, struct batch *batch) {
    struct buf x = embed(moe, batch);
    for (int64_t l = 0; l < moe->set->layers; l++) x = forward_layer(moe, batch, l, x);
    leave(moe, batch, 0);
    struct layer *last = &moe->layers[moe->set->layers - 1];
    fsdp_release(&moe->fsdp, last->experts);
    fsdp_release(&moe->fsdp, &last->dense);
    return x;
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* Loss of `n` tokens: logits, in 32 bits, log-softmax, its gradient, in 16 bits. Gives the gradient of the logits. */
static struct buf cross_entropy(struct moe *moe, int64_t n, struct buf x, struct buf labels, struct buf *loss) {
    struct gen_writer *out = moe->out;
    const int64_t D = moe->set->d, V = moe->set->vocab;
    struct buf logits = gen_alloc(out, n * V * 2, COMPUTE);
    WORK_OF(out, &moe->head, gemm_us(n, V, D), x, logits);
    struct buf wide = gen_alloc(out, n * V * 4, COMPUTE);
    WORK(out, COMPUTE, memory_us(n * V * 6), logits, wide);
    FREE(out, logits);
    struct buf log_softmax = gen_alloc(out, n * V * 4, COMPUTE);
    *loss = gen_alloc(out, n * 4, COMPUTE);
    WORK(out, COMPUTE, memory_us(n * V * 8), wide, log_softmax, *loss, labels);
    FREE(out, wide);
    struct buf dwide = gen_alloc(out, n * V * 4, COMPUTE);
    WORK(out, COMPUTE, memory_us(n * V * 8), log_softmax, dwide);
    FREE(out, log_softmax);
    struct buf dlogits = gen_alloc(out, n * V * 2, COMPUTE);
    WORK(out, COMPUTE, memory_us(n * V * 6), dwide, dlogits);
    FREE(out, dwide);
    return dlogits;
}

/* One piece of the loss: adds to *dx (made here where it is none) and to *weights. */
static void loss_piece(struct moe *moe, int64_t n, struct buf x, struct buf labels, struct buf *dx,
                       struct buf *weights) {
    struct gen_writer *out = moe->out;
    const int64_t D = moe->set->d, V = moe->set->vocab;
    struct buf loss, dlogits = cross_entropy(moe, n, x, labels, &loss);
    if (dx->id == 0) *dx = gen_alloc(out, n * D * 2, COMPUTE);
    WORK_OF(out, &moe->head, gemm_us(n, D, V), dlogits, *dx);
    struct buf added = gen_alloc(out, V * D * 2, COMPUTE);
    WORK(out, COMPUTE, gemm_us(V, D, n), dlogits, x, added);
    FREE(out, dlogits, loss);
    if (weights->id == 0) {
        *weights = added;
    } else {
        WORK(out, COMPUTE, memory_us(V * D * 6), *weights, added);
        FREE(out, added);
    }
}

/* Head and loss, in pieces. Frees x, gives its gradient. */
static struct buf loss(struct moe *moe, const struct batch *batch, struct buf x) {
    struct gen_writer *out = moe->out;
    const int64_t T = batch->tokens, D = moe->set->d, piece = divide_up(T, moe->set->ce_chunks);
    fsdp_use(&moe->fsdp, &moe->head, true);
    fsdp_end_forward(&moe->fsdp);
    struct buf norm = gen_alloc(out, T * D * 2, COMPUTE), scale = gen_alloc(out, T * 4, COMPUTE);
    WORK(out, COMPUTE, memory_us(T * D * 4), x, norm, scale);
    struct buf dnorm = moe->set->ce_chunks > 1 ? gen_alloc(out, T * D * 2, COMPUTE) : NO_BUF;
    struct buf gradients[2] = {NO_BUF, NO_BUF};
    for (int64_t from = 0; from < T; from += piece)
        loss_piece(moe, T - from < piece ? T - from : piece, norm, batch->labels, &dnorm, &gradients[0]);
    struct buf dx = gen_alloc(out, T * D * 2, COMPUTE);
    gradients[1] = gen_alloc(out, D * 2, COMPUTE);
    WORK(out, COMPUTE, memory_us(T * D * 8), dnorm, x, scale, dx, gradients[1]);
    FREE(out, dnorm, norm, scale, x);
    fsdp_release(&moe->fsdp, &moe->head);
    fsdp_reduce(&moe->fsdp, &moe->head, gradients, 2);
    return dx;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Starts bringing a layer's input back from the host, unless it is here or under way. */
static void fetch(struct moe *moe, const struct batch *batch, int64_t at) {
    if (at < 0 || moe->layers[at].input.id != 0 || moe->layers[at].fetched.buf.id != 0) return;
    struct buf x = gen_alloc(moe->out, batch->tokens * moe->set->d * 2, FROM_HOST);
    WORK(moe->out, FROM_HOST, host_us(x.bytes), x);
    moe->layers[at].fetched = (struct held){x, gen_record(moe->out, FROM_HOST)};
}

/* A layer's input, on compute; *fetched: it came from the host. */
static struct buf input_of(struct moe *moe, const struct batch *batch, int64_t at, bool *fetched) {
    struct layer *layer = &moe->layers[at];
    *fetched = layer->input.id == 0;
    if (!*fetched) return layer->input;
    fetch(moe, batch, at);
    struct held back = layer->fetched;
    layer->fetched = (struct held){0};
    gen_wait(moe->out, &back.done, COMPUTE);
    layer->input = back.buf; /* so that it is not fetched again */
    for (int64_t i = 1; i <= moe->set->h2d_ahead; i++) fetch(moe, batch, at - i);
    return back.buf;
}

static void gather_for_backward(struct moe *moe, int64_t at) {
    fsdp_use(&moe->fsdp, moe->layers[at].experts, false);
    fsdp_use(&moe->fsdp, &moe->layers[at].dense, false);
    if (at == 0) fsdp_gather(&moe->fsdp, &moe->embedding);
    for (int64_t i = 1; i <= moe->set->prefetch && i <= at; i++) {
        fsdp_gather(&moe->fsdp, moe->layers[at - i].experts);
        fsdp_gather(&moe->fsdp, &moe->layers[at - i].dense);
    }
}

static struct buf backward_layer(struct moe *moe, struct batch *batch, int64_t at, struct buf gradient) {
    struct layer *layer = &moe->layers[at];
    bool fetched;
    gather_for_backward(moe, at);
    struct buf x = input_of(moe, batch, at, &fetched);
    if (moe->set->ac) {
        struct buf again = moe_layer_forward(moe, layer, x, batch->tokens, true, &layer->kept);
        FREE(moe->out, again);
    }
    struct buf dx = moe_layer_backward(moe, layer, x, batch->tokens, &layer->kept, gradient);
    if (fetched) gen_after(moe->out, FROM_HOST, COMPUTE);
    FREE(moe->out, x);
    layer->input = NO_BUF;
    return dx;
}

static void backward(struct moe *moe, struct batch *batch, struct buf gradient) {
    const struct gen_settings *set = moe->set;
    if (set->offload) {
        gen_after(moe->out, FROM_HOST, TO_HOST);
        for (int64_t i = 0; i < set->h2d_ahead; i++) fetch(moe, batch, set->layers - set->offload_keep - 1 - i);
    }
    for (int64_t l = set->layers - 1; l >= 0; l--) gradient = backward_layer(moe, batch, l, gradient);
    fsdp_use(&moe->fsdp, &moe->embedding, false);
    struct buf weights = gen_alloc(moe->out, set->vocab * set->d * 2, COMPUTE);
    WORK(moe->out, COMPUTE, memory_us(batch->tokens * set->d * 4 + set->vocab * set->d * 2), gradient, batch->ids,
         weights);
    FREE(moe->out, gradient, batch->ids, batch->labels);
    fsdp_release(&moe->fsdp, &moe->embedding);
    fsdp_reduce(&moe->fsdp, &moe->embedding, &weights, 1);
    fsdp_end_backward(&moe->fsdp);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static int64_t tokens_of_batch(struct moe *moe) {
    const struct gen_settings *set = moe->set;
    const int64_t most = set->seq * set->batch;
    if (!set->varlen.vary) return most;
    const double part = set->minfrac + (1 - set->minfrac) * gen_beta(moe->random, 2.0, 1.2);
    const int64_t tokens = divide_up((int64_t)((double)most * part), 64) * 64;
    return tokens > 64 ? tokens : 64;
}

static void step(struct moe *moe, int64_t at) {
    gen_iteration(moe->out);
    for (int64_t i = 0; i < moe->set->accum && !gen_stopped(moe->out); i++) {
        struct batch batch = {.tokens = tokens_of_batch(moe)};
        struct buf x = forward(moe, &batch);
        backward(moe, &batch, loss(moe, &batch, x));
    }
    moe_optimise(moe);
    if (moe->set->sync_iter && at % moe->set->log_every == 0) gen_sync(moe->out, COMPUTE);
}

void gen_moe(struct gen_writer *out, struct gen_random *random, const struct gen_settings *set) {
    struct moe moe = {.out = out, .random = random, .set = set, .fsdp = {.out = out, .set = set}};
    build(&moe);
    for (int64_t i = 0; i < set->iters && !gen_stopped(out); i++) step(&moe, i);
    free(moe.layers);
    free(moe.units);
}
