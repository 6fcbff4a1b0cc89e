/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/attention.h"
#include "trainer/dispatch.h"
#include "trainer/moe.h"

/* ---- open and close -------------------------------------------------------------------------------------------- */

static enum weir_status device_alloc(struct model *m) {
    const struct shape *z = &m->shape;
    struct streams *s = m->streams;
    void *sums;
    TRY(int_alloc(s, COMPUTE, z->T, &m->ids));
    TRY(int_alloc(s, COMPUTE, z->T, &m->targets));
    TRY(real_alloc(s, COMPUTE, z->L * z->E, &m->bias));
    TRY(block_alloc(s, COMPUTE, 2 * sizeof *m->sums, &sums));
    m->sums = sums;
    TRY(weir_set(s->device, m->bias, 0, (size_t)(z->L * z->E) * sizeof *m->bias, s->stream[COMPUTE]));
    return weir_set(s->device, m->sums, 0, 2 * sizeof *m->sums, s->stream[COMPUTE]);
}

/* Rows that one rank can get at most: every token of its group sends it as many as it has experts. */
static int64_t most_rows(const struct model *m) {
    int64_t a_token = m->shape.K < m->shape.local ? m->shape.K : m->shape.local;
    return m->comm->ep * m->shape.T * a_token;
}

static enum weir_status pinned_alloc(struct model *m, int64_t count, size_t each, void **out) {
    TRY(weir_host_alloc(m->streams->device, (size_t)count * each, out));
    memset(*out, 0, (size_t)count * each);
    return WEIR_OK;
}

static enum weir_status host_alloc(struct model *m) {
    const struct shape *z = &m->shape;
    void *bias, *counts, *grouped, *ids, *batch, *sums;
    TRY(pinned_alloc(m, z->L * z->E, sizeof *m->bias_host, &bias));
    m->bias_host = bias;
    TRY(pinned_alloc(m, 2 * z->E, sizeof *m->host_counts, &counts));
    m->host_counts = counts;
    TRY(pinned_alloc(m, 2 * most_rows(m), sizeof *m->host_grouped, &grouped));
    m->host_grouped = grouped;
    TRY(pinned_alloc(m, m->N, sizeof *m->host_ids, &ids));
    m->host_ids = ids;
    TRY(pinned_alloc(m, 2 * z->T, sizeof *m->host_batch, &batch));
    m->host_batch = batch;
    TRY(pinned_alloc(m, 2, sizeof *m->host_sums, &sums));
    m->host_sums = sums;
    m->load = calloc((size_t)(z->L * z->E), sizeof *m->load);
    m->split_bytes = calloc(2 * (size_t)m->comm->ep, sizeof *m->split_bytes);
    m->saved = calloc((size_t)z->L, sizeof *m->saved);
    if (!m->load || !m->split_bytes || !m->saved) return WEIR_OUT_OF_HOST_MEMORY;
    for (int64_t l = 0; l < z->L; l++) TRY(dispatch_open(m, &m->saved[l].dispatch));
    return WEIR_OK;
}

enum weir_status model_open(struct model *m, const struct config *config, struct streams *streams, struct comm *comm,
                            const struct ops *ops, struct weir_offload *offload, struct routes *routes) {
    memset(m, 0, sizeof *m);
    m->shape = shape_of(config, comm->ep);
    m->N = m->shape.T * m->shape.K;
    m->loss_chunk = config->loss_chunk;
    m->route_scale = (real)config->route_scale;
    m->token_offsets[1] = m->shape.T;
    m->all_tokens = (struct row_groups){1, m->token_offsets};
    m->streams = streams;
    m->comm = comm;
    m->ops = ops;
    m->offload = offload;
    m->routes = routes;
    TRY(fsdp_open(&m->fsdp, &m->shape, streams, comm, ops));
    TRY(fsdp_initialise(&m->fsdp, (uint64_t)config->seed));
    TRY(device_alloc(m));
    return host_alloc(m);
}

void model_close(struct model *m) {
    if (!m->streams) return;
    struct weir_device *device = m->streams->device;
    void *const pinned[] = {m->bias_host, m->host_counts, m->host_grouped, m->host_ids, m->host_batch, m->host_sums};
    const bool over = device_synchronize(device, "train.close") == WEIR_OK; /* nothing queued reads memory that goes */
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
        if (pinned[i] && over) host_writes(m->streams, pinned[i], 1); /* the first byte stands for all */
        if (pinned[i]) weir_host_free(device, pinned[i]);
    }
    for (int64_t l = 0; l < m->shape.L && m->saved; l++) dispatch_close(&m->saved[l].dispatch);
    free(m->saved);
    free(m->load);
    free(m->split_bytes);
    fsdp_close(&m->fsdp);
    memset(m, 0, sizeof *m);
}

/* ---- shared ---------------------------------------------------------------------------------------------------- */

enum weir_status model_followed_failure(struct model *m) {
    char sentence[8];
    return m->comm->table->failure(m->comm, sentence, sizeof sentence) ? WEIR_SYSTEM : WEIR_OK;
}

enum weir_status linear(struct model *m, real *y, bool add, const real *x, const void *w, int64_t rows, int64_t in,
                        int64_t out) {
    const int64_t offsets[] = {0, rows};
    OP(m, linear_forward, y, add, x, w, (struct row_groups){1, offsets}, in, out, m->streams->stream[COMPUTE]);
    return WEIR_OK;
}

enum weir_status linear_backward(struct model *m, real *dx, bool add, real *dw, const real *dy, const real *x,
                                 const void *w, int64_t rows, int64_t in, int64_t out) {
    const int64_t offsets[] = {0, rows};
    const struct row_groups all = {1, offsets};
    weir_stream compute = m->streams->stream[COMPUTE];
    OP(m, linear_backward_weight, dw, true, dy, x, all, in, out, compute);
    OP(m, linear_backward_input, dx, add, dy, w, all, in, out, compute);
    return WEIR_OK;
}

static struct unit *unit_of_layer(struct model *m, int64_t layer) { return &m->fsdp.unit[1 + layer]; }
static struct unit *unit_of_head(struct model *m) { return &m->fsdp.unit[m->fsdp.units - 1]; }

/* ---- saved inputs ---------------------------------------------------------------------------------------------- */

static size_t input_bytes(const struct model *m) { return (size_t)(m->shape.T * m->shape.d) * sizeof(real); }

/* The last layer's input is needed again at once, so it is not sent away. */
static enum weir_status input_save(struct model *m, int64_t layer, real *input) {
    struct layer_saved *saved = &m->saved[layer];
    saved->input = input;
    saved->away = m->offload && layer < m->shape.L - 1;
    if (!saved->away) return WEIR_OK;
    saved->input = NULL;
    return weir_offload_out(m->offload, input, input_bytes(m), m->streams->stream[COMPUTE], &saved->item);
}

/* No memory for a reload ahead of time is no failure: the fetch tries again when memory has become free. */
static enum weir_status input_prefetch(struct model *m, int64_t layer) {
    if (layer < 0 || !m->saved[layer].away) return WEIR_OK;
    enum weir_status status = weir_offload_prefetch(m->offload, m->saved[layer].item, m->streams->stream[COMPUTE]);
    return status == WEIR_OUT_OF_MEMORY ? WEIR_OK : status;
}

static enum weir_status input_fetch(struct model *m, int64_t layer, real **input) {
    struct layer_saved *saved = &m->saved[layer];
    struct streams *s = m->streams;
    *input = saved->input;
    if (saved->away) {
        void *block;
        TRY(span_begin(s, CAUSE_RELOAD));
        TRY(weir_offload_fetch(m->offload, saved->item, s->stream[COMPUTE], &block));
        TRY(span_end(s));
        *input = block;
    }
    saved->input = NULL;
    saved->away = false;
    return WEIR_OK;
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

static enum weir_status batch_load(struct model *m, const int32_t *ids, const int32_t *targets) {
    struct streams *s = m->streams;
    const size_t T = (size_t)m->shape.T, bytes = T * sizeof *ids;
    host_writes(s, m->host_batch, 2 * bytes);
    memcpy(m->host_batch, ids, bytes);
    memcpy(m->host_batch + T, targets, bytes);
    TRY(weir_copy(s->device, m->ids, m->host_batch, bytes, s->stream[COMPUTE]));
    return weir_copy(s->device, m->targets, m->host_batch + T, bytes, s->stream[COMPUTE]);
}

/* Gives: x (T, d), on compute. */
static enum weir_status embed(struct model *m, real **x) {
    struct fsdp *f = &m->fsdp;
    struct unit *unit = &f->unit[0];
    TRY(unit_gather(f, unit));
    TRY(unit_gather(f, &f->unit[1]));
    TRY(real_alloc(m->streams, COMPUTE, m->shape.T * m->shape.d, x));
    TRY(unit_await(f, unit));
    OP(m, embed_forward, *x, weight_of(f, &unit->pack[0], EMBED_TABLE), m->ids, m->shape.T, m->shape.V, m->shape.d,
       m->streams->stream[COMPUTE]);
    return unit_release(f, unit);
}

/* x (T, d), the layer's input, is taken over; gives its output in a new block. */
static enum weir_status layer_forward(struct model *m, enum model_mode mode, int64_t layer, real **x) {
    struct fsdp *f = &m->fsdp;
    struct unit *unit = unit_of_layer(m, layer);
    struct attention a;
    real *y;
    TRY(unit_gather(f, unit + 1)); /* the next layer, or the head */
    TRY(real_alloc(m->streams, COMPUTE, m->shape.T * m->shape.d, &y));
    TRY(unit_await(f, unit));
    TRY(attention_forward(m, &unit->pack[PACK_OF_DENSE], &a, y, *x));
    TRY(attention_free(m, &a));
    if (mode == MODEL_GRADIENTS)
        TRY(input_save(m, layer, *x));
    else
        TRY(block_free(m->streams, COMPUTE, *x));
    TRY(moe_forward(m, mode, layer, y));
    *x = y;
    return unit_release(f, unit);
}

/* ---- head: forward and backward of one chunk of tokens after another ------------------------------------------- */

/* Tokens [first, first + count): the loss; and with gradients dn (T, d), the gradient of the normed output. */
static enum weir_status head_chunk(struct model *m, enum model_mode mode, real *dn, const real *n, int64_t first,
                                   int64_t count, double scale) {
    const struct pack *p = &unit_of_head(m)->pack[0];
    const int64_t d = m->shape.d, V = m->shape.V;
    const void *w = weight_of(&m->fsdp, p, HEAD);
    struct streams *s = m->streams;
    real *logits;
    TRY(real_alloc(s, COMPUTE, count * V, &logits));
    TRY(linear(m, logits, false, n + first * d, w, count, d, V));
    OP(m, cross_entropy, m->sums, logits, m->targets + first, scale, mode == MODEL_GRADIENTS, count, V,
       s->stream[COMPUTE]);
    if (mode == MODEL_GRADIENTS)
        TRY(linear_backward(m, dn + first * d, false, gradient_of(p, HEAD), logits, n + first * d, w, count, d, V));
    return block_free(s, COMPUTE, logits);
}

/* x (T, d) is the last layer's output; with gradients its own takes its place, in a new block. */
static enum weir_status head(struct model *m, enum model_mode mode, real **x, double tokens) {
    struct fsdp *f = &m->fsdp;
    struct unit *unit = unit_of_head(m);
    const struct pack *p = &unit->pack[0];
    const int64_t T = m->shape.T, d = m->shape.d;
    struct streams *s = m->streams;
    real *n, *r, *dn = NULL;
    if (mode == MODEL_GRADIENTS) {
        TRY(unit_gather(f, unit - 1)); /* for the last layer's backward */
        TRY(unit_gradient_begin(f, unit));
        TRY(real_alloc(s, COMPUTE, T * d, &dn));
    }
    TRY(real_alloc(s, COMPUTE, T * d, &n));
    TRY(real_alloc(s, COMPUTE, T, &r));
    TRY(unit_await(f, unit));
    OP(m, rmsnorm_forward, n, r, *x, weight_of(f, p, HEAD_NORM), T, d, s->stream[COMPUTE]);
    for (int64_t first = 0; first < T; first += m->loss_chunk) {
        int64_t count = T - first < m->loss_chunk ? T - first : m->loss_chunk;
        TRY(head_chunk(m, mode, dn, n, first, count, tokens > 0 ? 1 / tokens : 0));
    }
    TRY(block_free(s, COMPUTE, n));
    if (mode == MODEL_GRADIENTS) {
        real *dx;
        TRY(real_alloc(s, COMPUTE, T * d, &dx));
        OP(m, rmsnorm_backward, dx, false, gradient_of(p, HEAD_NORM), dn, *x, r, weight_of(f, p, HEAD_NORM), T, d,
           s->stream[COMPUTE]);
        TRY(block_free(s, COMPUTE, *x));
        *x = dx;
        TRY(block_free(s, COMPUTE, dn));
    }
    TRY(block_free(s, COMPUTE, r));
    TRY(unit_release(f, unit));
    return mode == MODEL_GRADIENTS ? unit_reduce(f, unit) : WEIR_OK;
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* dx (T, d), the gradient of the layer's output, becomes that of its input. */
static enum weir_status layer_backward(struct model *m, int64_t layer, real *dx) {
    struct fsdp *f = &m->fsdp;
    struct unit *unit = unit_of_layer(m, layer);
    struct streams *s = m->streams;
    struct attention a;
    real *x, *y; /* the layer's input; attention's output, computed again */
    if (layer > 0) TRY(unit_gather(f, unit - 1));
    TRY(input_fetch(m, layer, &x));
    TRY(input_prefetch(m, layer - 1));
    TRY(unit_gradient_begin(f, unit));
    TRY(real_alloc(s, COMPUTE, m->shape.T * m->shape.d, &y));
    TRY(unit_await(f, unit));
    TRY(attention_forward(m, &unit->pack[PACK_OF_DENSE], &a, y, x));
    TRY(moe_backward(m, layer, dx, y));
    TRY(block_free(s, COMPUTE, y));
    TRY(attention_backward(m, &unit->pack[PACK_OF_DENSE], &a, dx, x));
    TRY(block_free(s, COMPUTE, x));
    TRY(unit_release(f, unit));
    return unit_reduce(f, unit);
}

static enum weir_status embed_backward(struct model *m, const real *dx) {
    struct fsdp *f = &m->fsdp;
    struct unit *unit = &f->unit[0];
    TRY(unit_gradient_begin(f, unit));
    OP(m, embed_backward, gradient_of(&unit->pack[0], EMBED_TABLE), dx, m->ids, m->shape.T, m->shape.V, m->shape.d,
       m->streams->stream[COMPUTE]);
    return unit_reduce(f, unit);
}

enum weir_status model_run(struct model *m, enum model_mode mode, const int32_t *ids, const int32_t *targets,
                           double tokens) {
    const int64_t L = m->shape.L;
    real *x;
    if (mode == MODEL_GRADIENTS) memset(m->load, 0, (size_t)(L * m->shape.E) * sizeof *m->load);
    TRY(batch_load(m, ids, targets));
    TRY(embed(m, &x));
    for (int64_t l = 0; l < L; l++) TRY(layer_forward(m, mode, l, &x));
    TRY(head(m, mode, &x, tokens));
    if (mode == MODEL_GRADIENTS) {
        TRY(input_prefetch(m, L - 1));
        for (int64_t l = L - 1; l >= 0; l--) TRY(layer_backward(m, l, x));
        TRY(embed_backward(m, x));
    }
    return block_free(m->streams, COMPUTE, x);
}

/* ---- sums and balance ------------------------------------------------------------------------------------------ */

enum weir_status model_sums_clear(struct model *m) {
    return weir_set(m->streams->device, m->sums, 0, 2 * sizeof *m->sums, m->streams->stream[COMPUTE]);
}

enum weir_status model_sums(struct model *m) {
    struct streams *s = m->streams;
    weir_stream compute = s->stream[COMPUTE];
    const size_t bytes = 2 * sizeof *m->sums;
    TRY(m->comm->table->all_reduce_double(m->comm, COMM_WORLD, LANE_COMPUTE, m->sums, 2, compute));
    TRY(weir_copy(s->device, m->host_sums, m->sums, bytes, compute));
    TRY(streams_synchronize(s, "train.sums", COMPUTE));
    host_reads(s, m->host_sums, bytes);
    return model_followed_failure(m);
}

enum weir_status model_balance(struct model *m, const double *load, double rate) {
    const int64_t L = m->shape.L, E = m->shape.E;
    struct streams *s = m->streams;
    host_writes(s, m->bias_host, (size_t)(L * E) * sizeof *m->bias);
    for (int64_t l = 0; l < L; l++) {
        const double *n = load + l * E;
        double mean = 0, lean = 0; /* of the assignments, of their signs */
        for (int64_t e = 0; e < E; e++) mean += n[e] / (double)E;
        for (int64_t e = 0; e < E; e++) lean += (double)((mean > n[e]) - (mean < n[e])) / (double)E;
        for (int64_t e = 0; e < E; e++)
            m->bias_host[l * E + e] += (real)(rate * ((double)((mean > n[e]) - (mean < n[e])) - lean));
    }
    return weir_copy(s->device, m->bias, m->bias_host, (size_t)(L * E) * sizeof *m->bias, s->stream[COMPUTE]);
}
