/* SPDX-License-Identifier: Apache-2.0 */
/* A training step of a GPT on one stream: pre-training of fixed length, or fine-tuning of varying length, of all
 * weights or of adapters (LoRA), with or without checkpointing, with evaluations between. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen_cost.h"
#include "gen_families.h"

enum { MOST_WEIGHTS = 7, MOST_KEPT = 32, FOREACH = 64 };

struct parameter {
    struct buf weight;
    struct buf gradient; /* NO_BUF until the step's first */
};

/* Its weights: queries, keys and values; projection; MLP in (and gate) and out; two norms. */
struct layer {
    struct parameter weights[MOST_WEIGHTS];
    struct parameter adapters[MOST_WEIGHTS * 2]; /* two a matrix */
};

struct kept {
    struct buf bufs[MOST_KEPT];
    size_t count;
};

struct gpt {
    struct gen_writer *out;
    struct gen_random *random;
    const struct gen_settings *set;
    struct layer *layers;
    struct parameter embedding, head;
    size_t weight_count; /* of a layer */
    size_t down;         /* which of them is the MLP's last */
    int64_t KV;          /* width of all key heads */
    bool lora;

    struct parameter **trained; /* in order */
    size_t trained_count;
    struct buf *gradients; /* in the order they came */
    size_t gradient_count;
    bool has_state;

    int64_t T, S; /* tokens of the batch, of a sequence */
};

static struct buf compute(struct gpt *gpt, int64_t bytes) { return gen_alloc(gpt->out, bytes, COMPUTE); }

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void weight_sizes(const struct gpt *gpt, int64_t sizes[MOST_WEIGHTS]) {
    const struct gen_settings *set = gpt->set;
    size_t count = 0;
    sizes[count++] = set->d * (set->d + 2 * gpt->KV);
    sizes[count++] = set->d * set->d;
    for (int i = 0; i < (set->gated ? 3 : 2); i++) sizes[count++] = set->d * set->f;
    sizes[count++] = set->d;
    sizes[count++] = set->d;
}

static void create_weights(struct gpt *gpt) {
    const struct gen_settings *set = gpt->set;
    int64_t sizes[MOST_WEIGHTS];
    weight_sizes(gpt, sizes);
    for (int64_t l = 0; l < set->layers; l++)
        for (size_t i = 0; i < gpt->weight_count; i++)
            gpt->layers[l].weights[i].weight = compute(gpt, sizes[i] * set->pbytes);
    gpt->embedding.weight = compute(gpt, set->vocab * set->d * set->pbytes);
    gpt->head.weight = compute(gpt, set->vocab * set->d * set->pbytes);
    for (int64_t l = 0; gpt->lora && l < set->layers; l++) {
        for (size_t i = 0; i < gpt->weight_count - 2; i++) {
            const int64_t outputs = sizes[i] / set->d > 1 ? sizes[i] / set->d : 1;
            gpt->layers[l].adapters[2 * i].weight = compute(gpt, set->rank * set->d * 4);
            gpt->layers[l].adapters[2 * i + 1].weight = compute(gpt, outputs * set->rank * 4);
        }
    }
    WORK(gpt->out, COMPUTE, 1000, gpt->embedding.weight, gpt->head.weight);
}

static void list_trained(struct gpt *gpt) {
    const size_t adapters = 2 * (gpt->weight_count - 2), of_layer = gpt->lora ? adapters : gpt->weight_count;
    for (int64_t l = 0; l < gpt->set->layers; l++) {
        struct parameter *from = gpt->lora ? gpt->layers[l].adapters : gpt->layers[l].weights;
        for (size_t i = 0; i < of_layer; i++) gpt->trained[gpt->trained_count++] = &from[i];
    }
    if (gpt->lora) return;
    gpt->trained[gpt->trained_count++] = &gpt->embedding;
    gpt->trained[gpt->trained_count++] = &gpt->head;
}

static void build(struct gpt *gpt) {
    const struct gen_settings *set = gpt->set;
    const size_t layers = (size_t)set->layers, most = layers * MOST_WEIGHTS * 2 + 2;
    gpt->KV = set->kv * (set->d / set->heads);
    gpt->weight_count = set->gated ? 7 : 6;
    gpt->down = gpt->weight_count - 3;
    gpt->lora = set->train == TRAIN_LORA;
    gpt->layers = gen_room(layers, sizeof *gpt->layers);
    gpt->trained = gen_room(most, sizeof *gpt->trained);
    gpt->gradients = gen_room(most, sizeof *gpt->gradients);
    create_weights(gpt);
    list_trained(gpt);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* One forward of a layer. */
struct pass {
    struct gpt *gpt;
    struct layer *layer;
    int64_t T, D, F;
    bool keep; /* for backward */
    struct kept *kept;
};

static void hold(struct pass *pass, const struct buf *bufs, size_t count) {
    if (!pass->keep) gen_free(pass->gpt->out, bufs, count);
    for (size_t i = 0; pass->keep && i < count; i++) pass->kept->bufs[pass->kept->count++] = bufs[i];
}
#define HOLD(pass, ...) hold(pass, BUFS(__VA_ARGS__))

/* out += from A' B', with A and B the adapters of weight `at`. */
static struct buf adapt(struct pass *p, struct buf from, struct buf to, int64_t outputs, int64_t inputs, size_t at) {
    struct gpt *gpt = p->gpt;
    const int64_t rank = gpt->set->rank;
    struct buf low = compute(gpt, p->T * rank * 2);
    WORK(gpt->out, COMPUTE, gemm_us(p->T, rank, inputs), from, low, p->layer->adapters[2 * at].weight);
    struct buf added = compute(gpt, p->T * outputs * 2);
    WORK(gpt->out, COMPUTE, gemm_us(p->T, outputs, rank), low, added, p->layer->adapters[2 * at + 1].weight);
    WORK(gpt->out, COMPUTE, memory_us(p->T * outputs * 6), to, added);
    FREE(gpt->out, added);
    return low;
}

/* Weight `at` applied; parameters of 4 bytes are cast to 2 first, and the copy lives as long as an activation. */
static struct buf linear(struct pass *p, struct buf from, int64_t outputs, int64_t inputs, size_t at) {
    struct gpt *gpt = p->gpt;
    const struct buf weight = p->layer->weights[at].weight;
    struct buf cast = NO_BUF;
    if (gpt->set->pbytes == 4) {
        cast = compute(gpt, weight.bytes / 2);
        WORK(gpt->out, COMPUTE, memory_us(weight.bytes * 3 / 2), weight, cast);
    }
    struct buf to = compute(gpt, p->T * outputs * 2);
    WORK(gpt->out, COMPUTE, gemm_us(p->T, outputs, inputs), from, to, cast);
    if (gpt->lora) HOLD(p, adapt(p, from, to, outputs, inputs, at));
    if (cast.id != 0) HOLD(p, cast);
    return to;
}

/* Gives the residual after attention. */
static struct buf attention(struct pass *p, struct buf x) {
    struct gpt *gpt = p->gpt;
    const int64_t T = p->T, D = p->D, KV = gpt->KV;
    struct buf norm = compute(gpt, T * D * 2), scale = compute(gpt, T * 4);
    WORK(gpt->out, COMPUTE, memory_us(T * D * 4), x, norm, scale);
    struct buf qkv = linear(p, norm, D + 2 * KV, D, 0);
    HOLD(p, norm, scale);
    struct buf q = compute(gpt, T * D * 2), k = compute(gpt, T * KV * 2), v = compute(gpt, T * KV * 2);
    WORK(gpt->out, COMPUTE, memory_us(T * D * 8), qkv, q, k, v);
    FREE(gpt->out, qkv);
    struct buf attended = compute(gpt, T * D * 2), log_sum = compute(gpt, gpt->set->heads * T * 4);
    WORK(gpt->out, COMPUTE, attention_us(4.0, T, gpt->S, D, 5), q, k, v, attended, log_sum);
    HOLD(p, q, k, v, log_sum);
    struct buf projected = linear(p, attended, D, D, 1);
    HOLD(p, attended);
    struct buf residual = compute(gpt, T * D * 2);
    WORK(gpt->out, COMPUTE, memory_us(T * D * 6), x, projected, residual);
    FREE(gpt->out, projected);
    return residual;
}

static struct buf mlp(struct pass *p, struct buf residual) {
    struct gpt *gpt = p->gpt;
    const int64_t T = p->T, D = p->D, F = p->F;
    struct buf norm = compute(gpt, T * D * 2), scale = compute(gpt, T * 4);
    WORK(gpt->out, COMPUTE, memory_us(T * D * 4), residual, norm, scale);
    struct buf hidden = linear(p, norm, F, D, 2), up = NO_BUF;
    if (gpt->set->gated) up = linear(p, norm, F, D, 3);
    HOLD(p, norm, scale);
    struct buf act = compute(gpt, T * F * 2);
    WORK(gpt->out, COMPUTE, memory_us(T * F * 4), hidden, act);
    HOLD(p, hidden);
    if (gpt->set->gated) {
        struct buf product = compute(gpt, T * F * 2);
        WORK(gpt->out, COMPUTE, memory_us(T * F * 6), act, up, product);
        HOLD(p, act, up);
        act = product;
    }
    struct buf result = linear(p, act, D, F, gpt->down);
    HOLD(p, act);
    return result;
}

/* Gives the layer's output; *kept: what backward needs, nothing where !keep. */
static struct buf forward_layer(struct gpt *gpt, struct layer *layer, struct buf x, bool keep, struct kept *kept) {
    struct pass pass = {gpt, layer, gpt->T, gpt->set->d, gpt->set->f, keep, kept};
    kept->count = 0;
    struct buf residual = attention(&pass, x), update = mlp(&pass, residual);
    struct buf result = compute(gpt, pass.T * pass.D * 2);
    WORK(gpt->out, COMPUTE, memory_us(pass.T * pass.D * 6), residual, update, result);
    FREE(gpt->out, update);
    HOLD(&pass, residual);
    return result;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* A weight's gradient, made from `from`; added where the step has one already. */
static void add_gradient(struct gpt *gpt, struct parameter *parameter, struct buf from) {
    const int64_t bytes = parameter->weight.bytes;
    struct buf gradient = compute(gpt, bytes);
    WORK(gpt->out, COMPUTE, memory_us(bytes * 2) + 20, from, gradient);
    if (parameter->gradient.id == 0) {
        parameter->gradient = gradient;
        gpt->gradients[gpt->gradient_count++] = gradient;
        return;
    }
    WORK(gpt->out, COMPUTE, memory_us(bytes * 3), parameter->gradient, gradient);
    FREE(gpt->out, gradient);
}

static void adapter_gradients(struct gpt *gpt, struct layer *layer, size_t at, struct buf dout) {
    if (at >= gpt->weight_count - 2) return;
    struct buf low = compute(gpt, gpt->T * gpt->set->rank * 2);
    WORK(gpt->out, COMPUTE, gemm_us(gpt->T, gpt->set->rank, gpt->set->d), dout, low);
    add_gradient(gpt, &layer->adapters[2 * at], low);
    add_gradient(gpt, &layer->adapters[2 * at + 1], low);
    FREE(gpt->out, low);
}

/* Parameters of 4 bytes get their gradient by way of one of 2. */
static void weight_gradient(struct gpt *gpt, struct parameter *parameter, struct buf from) {
    if (gpt->set->pbytes != 4) {
        add_gradient(gpt, parameter, from);
        return;
    }
    const int64_t elements = parameter->weight.bytes / 4, columns = elements / gpt->set->d;
    struct buf half = compute(gpt, parameter->weight.bytes * 2 / 4);
    WORK(gpt->out, COMPUTE, gemm_us(gpt->T, gpt->set->d, columns > 1 ? columns : 1), from, half);
    add_gradient(gpt, parameter, half);
    FREE(gpt->out, half);
}

static int latest_first(const void *one, const void *other) {
    uint64_t a = ((const struct buf *)one)->id, b = ((const struct buf *)other)->id;
    return (a < b) - (a > b);
}

/* Frees `dout` and what was kept, a sixth of it at each weight, latest first; gives the input's gradient. */
static struct buf backward_layer(struct gpt *gpt, struct layer *layer, struct kept *kept, struct buf dout) {
    const int64_t T = gpt->T, D = gpt->set->d, F = gpt->set->f;
    const size_t count = gpt->weight_count, part = kept->count > 6 ? (kept->count + 5) / 6 : 1;
    const size_t order[2][MOST_WEIGHTS] = {{3, 2, 1, 0, 4, 5},
                                           {4, 2, 3, 1, 0, 5, 6}}; /* from the MLP's last weight back */
    size_t freed = 0;
    qsort(kept->bufs, kept->count, sizeof *kept->bufs, latest_first);
    struct buf current = compute(gpt, T * F * 2);
    WORK(gpt->out, COMPUTE, gemm_us(T, F, D), dout, current);
    for (size_t i = 0; i < count; i++) {
        const size_t at = order[gpt->set->gated][i];
        if (gpt->lora)
            adapter_gradients(gpt, layer, at, dout);
        else
            weight_gradient(gpt, &layer->weights[at], current);
        struct buf next = compute(gpt, T * (i == 1 ? F : D) * 2);
        WORK(gpt->out, COMPUTE, gemm_us(T, D, D), current, next);
        FREE(gpt->out, current);
        current = next;
        const size_t drop = kept->count - freed < part ? kept->count - freed : part;
        gen_free(gpt->out, &kept->bufs[freed], drop);
        freed += drop;
    }
    gen_free(gpt->out, &kept->bufs[freed], kept->count - freed);
    struct buf dx = compute(gpt, T * D * 2);
    WORK(gpt->out, COMPUTE, memory_us(T * D * 8), current, dout, dx);
    FREE(gpt->out, current, dout);
    return dx;
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* The gradient of the logits, in 16 bits, by way of 32; frees the logits. */
static struct buf cross_entropy(struct gpt *gpt, struct buf logits) {
    struct gen_writer *out = gpt->out;
    const int64_t numbers = gpt->T * gpt->set->vocab;
    if (!gpt->set->ce_fp32) {
        WORK(out, COMPUTE, memory_us(numbers * 4), logits);
        return logits;
    }
    struct buf wide = compute(gpt, numbers * 4);
    WORK(out, COMPUTE, memory_us(numbers * 6), logits, wide);
    FREE(out, logits);
    struct buf log_softmax = compute(gpt, numbers * 4);
    WORK(out, COMPUTE, memory_us(numbers * 8), wide, log_softmax);
    FREE(out, wide);
    struct buf dwide = compute(gpt, numbers * 4);
    WORK(out, COMPUTE, memory_us(numbers * 8), log_softmax, dwide);
    FREE(out, log_softmax);
    struct buf dlogits = compute(gpt, numbers * 2);
    WORK(out, COMPUTE, memory_us(numbers * 6), dwide, dlogits);
    FREE(out, dwide);
    return dlogits;
}

/* Frees x, gives its gradient. */
static struct buf loss(struct gpt *gpt, struct buf x) {
    const int64_t T = gpt->T, D = gpt->set->d, V = gpt->set->vocab;
    struct buf norm = compute(gpt, T * D * 2);
    WORK(gpt->out, COMPUTE, memory_us(T * D * 4), x, norm);
    struct buf logits = compute(gpt, T * V * 2);
    WORK(gpt->out, COMPUTE, gemm_us(T, V, D), norm, logits);
    struct buf dlogits = cross_entropy(gpt, logits);
    struct buf dx = compute(gpt, T * D * 2);
    WORK(gpt->out, COMPUTE, gemm_us(T, D, V), dlogits, dx);
    if (!gpt->lora) add_gradient(gpt, &gpt->head, dlogits);
    FREE(gpt->out, dlogits, norm, x);
    return dx;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

/* Forward and backward of one batch; `inputs` and `kept` have room for each layer's. */
static void batch(struct gpt *gpt, struct buf *inputs, struct kept *kept) {
    const int64_t T = gpt->T, D = gpt->set->d, L = gpt->set->layers;
    const bool again = gpt->set->ac;
    struct buf ids = compute(gpt, T * 8), x = compute(gpt, T * D * 2);
    WORK(gpt->out, COMPUTE, memory_us(T * D * 4), ids, gpt->embedding.weight, x);
    for (int64_t l = 0; l < L; l++) {
        inputs[l] = x;
        x = forward_layer(gpt, &gpt->layers[l], x, !again, &kept[l]);
    }
    struct buf dx = loss(gpt, x);
    for (int64_t l = L - 1; l >= 0; l--) {
        if (again) {
            struct buf output = forward_layer(gpt, &gpt->layers[l], inputs[l], true, &kept[l]);
            FREE(gpt->out, output);
        }
        dx = backward_layer(gpt, &gpt->layers[l], &kept[l], dx);
        FREE(gpt->out, inputs[l]);
    }
    if (!gpt->lora) add_gradient(gpt, &gpt->embedding, dx);
    FREE(gpt->out, dx, ids);
}

/* Sets the batch's tokens: where lengths vary all sequences are padded to the longest. */
static void draw_lengths(struct gpt *gpt) {
    const struct gen_settings *set = gpt->set;
    gpt->S = set->seq;
    if (set->varlen.vary) {
        int64_t longest = 32;
        for (int64_t i = 0; i < set->batch; i++) {
            double drawn = exp(gen_gauss(gpt->random, set->varlen.mean, set->varlen.deviation));
            int64_t length = drawn < (double)set->maxlen ? (int64_t)drawn : set->maxlen;
            if (length > longest) longest = length;
        }
        if (set->bucket != 0) longest = divide_up(longest, set->bucket) * set->bucket;
        gpt->S = divide_up(longest, 8) * 8;
    }
    gpt->T = gpt->S * set->batch;
}

/* Adam's two states, at the first step. */
static void create_state(struct gpt *gpt) {
    if (gpt->has_state) return;
    gpt->has_state = true;
    struct buf *states = gen_room(gpt->trained_count * 2, sizeof *states);
    for (size_t i = 0; i < gpt->trained_count * 2; i++) {
        const int64_t elements = gpt->trained[i / 2]->weight.bytes / (gpt->lora ? 4 : gpt->set->pbytes);
        states[i] = compute(gpt, elements * gpt->set->adam);
    }
    gen_work(gpt->out, COMPUTE, 1000);
    gen_uses(gpt->out, COMPUTE, states, gpt->trained_count * 2);
    free(states);
}

static void norms(struct gpt *gpt) {
    struct buf *squares = gen_room(gpt->trained_count, sizeof *squares);
    for (size_t i = 0; i < gpt->trained_count; i++) squares[i] = compute(gpt, 4);
    gen_work(gpt->out, COMPUTE, 200);
    gen_uses(gpt->out, COMPUTE, squares, gpt->trained_count);
    gen_free(gpt->out, squares, gpt->trained_count);
    free(squares);
}

static int64_t bytes_trained(const struct gpt *gpt, size_t from, size_t to) {
    int64_t bytes = 0;
    for (size_t i = from; i < to; i++) bytes += gpt->trained[i]->weight.bytes;
    return bytes;
}

static void optimise(struct gpt *gpt) {
    const size_t group = gpt->set->foreach ? FOREACH : gpt->trained_count;
    create_state(gpt);
    norms(gpt);
    for (size_t from = 0; from < gpt->trained_count; from += group) {
        const size_t to = from + group < gpt->trained_count ? from + group : gpt->trained_count;
        struct buf temporaries[FOREACH];
        for (size_t i = from; gpt->set->foreach && i < to; i++)
            temporaries[i - from] = compute(gpt, gpt->trained[i]->weight.bytes);
        gen_work(gpt->out, COMPUTE, memory_us(bytes_trained(gpt, from, to) * 6));
        for (size_t i = from; i < to; i++) gen_uses(gpt->out, COMPUTE, &gpt->trained[i]->weight, 1);
        if (!gpt->set->foreach) continue;
        gen_uses(gpt->out, COMPUTE, temporaries, to - from);
        gen_free(gpt->out, temporaries, to - from);
    }
    gen_free(gpt->out, gpt->gradients, gpt->gradient_count);
    gpt->gradient_count = 0;
    for (size_t i = 0; i < gpt->trained_count; i++) gpt->trained[i]->gradient = NO_BUF;
}

/* One evaluation: forward alone, two sequences of a length of its own. */
static void evaluate(struct gpt *gpt) {
    const struct gen_settings *set = gpt->set;
    struct gen_writer *out = gpt->out;
    const double most = (double)(set->maxlen / 8);
    const int64_t T = 8 * (int64_t)(32 + (most - 32) * gen_uniform(gpt->random)) * 2, D = set->d, F = set->f;
    struct buf x = compute(gpt, T * D * 2);
    for (int64_t l = 0; l < set->layers; l++) {
        struct buf wide = compute(gpt, T * D * 6), hidden = compute(gpt, T * F * 2);
        WORK(out, COMPUTE, gemm_us(T, F, D), wide, hidden);
        FREE(out, wide);
        struct buf next = compute(gpt, T * D * 2);
        WORK(out, COMPUTE, gemm_us(T, D, F), hidden, next, x);
        FREE(out, hidden, x);
        x = next;
    }
    struct buf logits = compute(gpt, T * set->vocab * 2);
    WORK(out, COMPUTE, gemm_us(T, set->vocab, D), x, logits);
    FREE(out, x, logits);
    gen_sync(out, COMPUTE);
}

void gen_dense(struct gen_writer *out, struct gen_random *random, const struct gen_settings *set) {
    struct gpt gpt = {.out = out, .random = random, .set = set};
    build(&gpt);
    struct buf *inputs = gen_room((size_t)set->layers, sizeof *inputs);
    struct kept *kept = gen_room((size_t)set->layers, sizeof *kept);
    for (int64_t i = 0; i < set->iters && !gen_stopped(out); i++) {
        gen_iteration(out);
        for (int64_t a = 0; a < set->accum && !gen_stopped(out); a++) {
            draw_lengths(&gpt);
            batch(&gpt, inputs, kept);
        }
        optimise(&gpt);
        gen_sync(out, COMPUTE);
        for (int64_t e = 0; i % 4 == 3 && e < set->evals; e++) evaluate(&gpt);
    }
    free(kept);
    free(inputs);
    free(gpt.gradients);
    free(gpt.trained);
    free(gpt.layers);
}
