/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/moe.h"

#include "trainer/dispatch.h"

/* What the router made of a block's input, all on compute. */
struct routing {
    real *n, *n_r;        /* norm of the input (T, d), (T) */
    real *scores, *gates; /* (T, E), (T, K) */
};

static const struct pack *dense_of(struct model *m, int64_t layer) {
    return &m->fsdp.unit[1 + layer].pack[PACK_OF_DENSE];
}
static const struct pack *experts_of(struct model *m, int64_t layer) {
    return &m->fsdp.unit[1 + layer].pack[PACK_OF_EXPERTS];
}

/* ---- router ---------------------------------------------------------------------------------------------------- */

/* Scores and gates of all tokens; with `replay` for the ids that are there, else it chooses them. */
static enum weir_status route(struct model *m, int64_t layer, bool replay, const real *x, struct routing *r) {
    const int64_t T = m->shape.T, d = m->shape.d, E = m->shape.E, K = m->shape.K;
    const struct pack *p = dense_of(m, layer);
    struct streams *s = m->streams;
    weir_stream compute = s->stream[COMPUTE];
    real *logits;
    TRY(real_alloc(s, COMPUTE, T * d, &r->n));
    TRY(real_alloc(s, COMPUTE, T, &r->n_r));
    TRY(real_alloc(s, COMPUTE, T * E, &r->scores));
    TRY(real_alloc(s, COMPUTE, T * K, &r->gates));
    TRY(real_alloc(s, COMPUTE, T * E, &logits));
    OP(m, rmsnorm_forward, r->n, r->n_r, x, weight_of(&m->fsdp, p, MOE_NORM), T, d, compute);
    TRY(linear(m, logits, false, r->n, weight_of(&m->fsdp, p, ROUTER), T, d, E));
    OP(m, router_forward, r->scores, m->saved[layer].dispatch.ids, r->gates, logits, m->bias + layer * E, replay, T, E,
       K, m->route_scale, compute);
    return block_free(s, COMPUTE, logits);
}

/* dgates (N) sorted by expert; dn (T, d) += the router's part. */
static enum weir_status route_backward(struct model *m, int64_t layer, const struct routing *r, real *dn,
                                       void *dsorted) {
    const int64_t T = m->shape.T, d = m->shape.d, E = m->shape.E, K = m->shape.K;
    const struct pack *p = dense_of(m, layer);
    const struct dispatch *g = &m->saved[layer].dispatch;
    struct streams *s = m->streams;
    weir_stream compute = s->stream[COMPUTE];
    real *dgates, *dlogits;
    TRY(real_alloc(s, COMPUTE, T * K, &dgates));
    TRY(real_alloc(s, COMPUTE, T * E, &dlogits));
    OP(m, rows_gather, dgates, WIRE_REAL, dsorted, WIRE_REAL, g->slot, 1, m->N, m->N, 1, compute);
    TRY(block_free(s, COMPUTE, dsorted));
    OP(m, router_backward, dlogits, dgates, r->scores, g->ids, T, E, K, m->route_scale, compute);
    TRY(block_free(s, COMPUTE, dgates));
    TRY(linear_backward(m, dn, true, gradient_of(p, ROUTER), dlogits, r->n, weight_of(&m->fsdp, p, ROUTER), T, d, E));
    return block_free(s, COMPUTE, dlogits);
}

static enum weir_status routing_free(struct model *m, struct routing *r) {
    real *const blocks[] = {r->n, r->n_r, r->scores, r->gates};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) TRY(block_free(m->streams, COMPUTE, blocks[i]));
    return WEIR_OK;
}

/* ---- SwiGLU: shared expert and routed experts are the same three matrices -------------------------------------- */

struct swiglu {
    const void *w1, *w3, *w2; /* (groups, F, d), (groups, F, d), (groups, d, F) wire */
    real *dw1, *dw3, *dw2;    /* their gradients, or NULL in forward */
    struct row_groups groups;
    int64_t rows, F;
};

/* Hidden values: a, b, h (rows, F) in new blocks. */
static enum weir_status swiglu_hidden(struct model *m, const struct swiglu *w, const real *x, const real *gate,
                                      real **a, real **b, real **h) {
    struct streams *s = m->streams;
    weir_stream compute = s->stream[COMPUTE];
    TRY(real_alloc(s, COMPUTE, w->rows * w->F, a));
    TRY(real_alloc(s, COMPUTE, w->rows * w->F, b));
    TRY(real_alloc(s, COMPUTE, w->rows * w->F, h));
    OP(m, linear_forward, *a, false, x, w->w1, w->groups, m->shape.d, w->F, compute);
    OP(m, linear_forward, *b, false, x, w->w3, w->groups, m->shape.d, w->F, compute);
    OP(m, swiglu_forward, *h, *a, *b, gate, w->rows, w->F, compute);
    return WEIR_OK;
}

/* y (rows, d) = or += swiglu(x) */
static enum weir_status swiglu_forward(struct model *m, const struct swiglu *w, real *y, bool add, const real *x,
                                       const real *gate) {
    struct streams *s = m->streams;
    real *a, *b, *h;
    TRY(swiglu_hidden(m, w, x, gate, &a, &b, &h));
    TRY(block_free(s, COMPUTE, a));
    TRY(block_free(s, COMPUTE, b));
    OP(m, linear_forward, y, add, h, w->w2, w->groups, w->F, m->shape.d, s->stream[COMPUTE]);
    return block_free(s, COMPUTE, h);
}

/* dx (rows, d), dgate (rows) or NULL, and the gradients of the weights, which are added to. */
static enum weir_status swiglu_backward(struct model *m, const struct swiglu *w, real *dx, real *dgate, const real *dy,
                                        const real *x, const real *gate) {
    const int64_t d = m->shape.d, F = w->F;
    struct streams *s = m->streams;
    weir_stream compute = s->stream[COMPUTE];
    real *a, *b, *h, *da, *db, *dh;
    TRY(swiglu_hidden(m, w, x, gate, &a, &b, &h));
    OP(m, linear_backward_weight, w->dw2, true, dy, h, w->groups, F, d, compute);
    TRY(block_free(s, COMPUTE, h));
    TRY(real_alloc(s, COMPUTE, w->rows * F, &dh));
    TRY(real_alloc(s, COMPUTE, w->rows * F, &da));
    TRY(real_alloc(s, COMPUTE, w->rows * F, &db));
    OP(m, linear_backward_input, dh, false, dy, w->w2, w->groups, F, d, compute);
    OP(m, swiglu_backward, da, db, dgate, dh, a, b, gate, w->rows, F, compute);
    TRY(block_free(s, COMPUTE, dh));
    TRY(block_free(s, COMPUTE, a));
    TRY(block_free(s, COMPUTE, b));
    OP(m, linear_backward_weight, w->dw1, true, da, x, w->groups, d, F, compute);
    OP(m, linear_backward_weight, w->dw3, true, db, x, w->groups, d, F, compute);
    OP(m, linear_backward_input, dx, false, da, w->w1, w->groups, d, F, compute);
    OP(m, linear_backward_input, dx, true, db, w->w3, w->groups, d, F, compute);
    TRY(block_free(s, COMPUTE, da));
    return block_free(s, COMPUTE, db);
}

/* `first` is the param of w1; w3 and w2 follow it in both packs. */
static struct swiglu swiglu_of(struct model *m, const struct pack *p, int first, struct row_groups groups, int64_t F) {
    const bool backward = p->gradient != NULL;
    return (struct swiglu){
        .w1 = weight_of(&m->fsdp, p, first),
        .w3 = weight_of(&m->fsdp, p, first + 1),
        .w2 = weight_of(&m->fsdp, p, first + 2),
        .dw1 = backward ? gradient_of(p, first) : NULL,
        .dw3 = backward ? gradient_of(p, first + 1) : NULL,
        .dw2 = backward ? gradient_of(p, first + 2) : NULL,
        .groups = groups,
        .rows = groups.offsets[groups.count],
        .F = F,
    };
}

static struct swiglu shared_expert(struct model *m, int64_t layer) {
    return swiglu_of(m, dense_of(m, layer), SHARED_W1, m->all_tokens, m->shape.shared);
}
static struct swiglu routed_experts(struct model *m, int64_t layer) {
    struct row_groups groups = {(int)m->shape.local, m->saved[layer].dispatch.offsets};
    return swiglu_of(m, experts_of(m, layer), EXPERT_W1, groups, m->shape.F);
}

/* ---- the block ------------------------------------------------------------------------------------------------- */

/* Ids of the layer: chosen by the router, or read from a file of routes. */
static enum weir_status choose(struct model *m, enum model_mode mode, int64_t layer, const real *x, struct routing *r) {
    struct streams *s = m->streams;
    int32_t **ids = &m->saved[layer].dispatch.ids;
    const size_t bytes = (size_t)m->N * sizeof **ids;
    const bool replay = mode == MODEL_GRADIENTS && routes_replaying(m->routes);
    TRY(int_alloc(s, COMPUTE, m->N, ids));
    if (replay) {
        host_writes(s, m->host_ids, bytes);
        TRY(routes_read(m->routes, layer, m->host_ids));
        TRY(weir_copy(s->device, *ids, m->host_ids, bytes, s->stream[COMPUTE]));
    }
    TRY(route(m, layer, replay, x, r));
    m->saved[layer].dispatch.drawing = m->ops->routes && !replay ? m->drawings++ : -1;
    TRY(dispatch_plan(m, &m->saved[layer].dispatch));
    if (mode == MODEL_GRADIENTS && routes_saving(m->routes))
        TRY(weir_copy(s->device, m->host_ids, *ids, bytes, s->stream[EXCHANGE]));
    return WEIR_OK;
}

/* Sends tokens and gates to the experts. Compute must await the exchange before it uses them. */
static enum weir_status send_tokens(struct model *m, int64_t layer, const struct routing *r, void **tokens,
                                    void **gates) {
    const struct dispatch *g = &m->saved[layer].dispatch;
    struct rows token_rows = {r->n, m->shape.T, m->shape.d, m->shape.K, m->ops->wire};
    struct rows gate_rows = {r->gates, m->N, 1, 1, WIRE_REAL};
    TRY(dispatch_rows(m, g, TO_EXPERTS, token_rows, tokens));
    return dispatch_rows(m, g, TO_EXPERTS, gate_rows, gates);
}

enum weir_status moe_forward(struct model *m, enum model_mode mode, int64_t layer, real *x) {
    const int64_t T = m->shape.T, d = m->shape.d, K = m->shape.K;
    struct dispatch *g = &m->saved[layer].dispatch;
    struct streams *s = m->streams;
    const enum wire wire = m->ops->wire;
    struct routing r;
    void *came, *gates_came, *back;
    real *rows, *gates, *y;
    TRY(choose(m, mode, layer, x, &r));
    if (m->shape.shared) {
        struct swiglu shared = shared_expert(m, layer);
        TRY(swiglu_forward(m, &shared, x, true, r.n, NULL)); /* runs while the host waits for the counts */
    }
    TRY(dispatch_finish(m, g, mode == MODEL_GRADIENTS ? m->load + layer * m->shape.E : NULL));
    if (mode == MODEL_GRADIENTS && routes_saving(m->routes)) {
        host_reads(s, m->host_ids, (size_t)m->N * sizeof *m->host_ids);
        TRY(routes_write(m->routes, layer, m->host_ids));
    }
    TRY(send_tokens(m, layer, &r, &came, &gates_came));
    TRY(streams_await(s, "train.forward.came", CAUSE_EXCHANGE, EXCHANGE));
    TRY(routing_free(m, &r));

    TRY(dispatch_group(m, g, came, wire, d, &rows));
    TRY(dispatch_group(m, g, gates_came, WIRE_REAL, 1, &gates));
    TRY(real_alloc(s, COMPUTE, g->rows * d, &y));
    struct swiglu experts = routed_experts(m, layer);
    TRY(swiglu_forward(m, &experts, y, false, rows, gates));
    TRY(block_free(s, COMPUTE, rows));
    TRY(block_free(s, COMPUTE, gates));

    TRY(dispatch_rows(m, g, FROM_EXPERTS, (struct rows){y, g->rows, d, 1, wire}, &back));
    TRY(block_free(s, EXCHANGE, y));
    TRY(streams_await(s, "train.forward.back", CAUSE_EXCHANGE, EXCHANGE));
    OP(m, rows_combine, x, true, back, wire, g->slot, T, K, m->N, d, s->stream[COMPUTE]);
    TRY(block_free(s, COMPUTE, back));
    return mode == MODEL_EVALUATE ? dispatch_free(m, g) : WEIR_OK;
}

/* From the rows that came (tokens, gates, gradients of outputs) to what goes back: gradients of tokens and gates. */
static enum weir_status experts_backward(struct model *m, int64_t layer, void *tokens_came, void *gates_came,
                                         void *dout_came, void **dtokens, void **dgates) {
    const int64_t d = m->shape.d;
    const struct dispatch *g = &m->saved[layer].dispatch;
    struct streams *s = m->streams;
    real *rows, *gates, *dy, *dx, *dgate;
    TRY(dispatch_group(m, g, tokens_came, m->ops->wire, d, &rows));
    TRY(dispatch_group(m, g, gates_came, WIRE_REAL, 1, &gates));
    TRY(dispatch_group(m, g, dout_came, m->ops->wire, d, &dy));
    TRY(real_alloc(s, COMPUTE, g->rows * d, &dx));
    TRY(real_alloc(s, COMPUTE, g->rows, &dgate));
    struct swiglu experts = routed_experts(m, layer);
    TRY(swiglu_backward(m, &experts, dx, dgate, dy, rows, gates));
    TRY(block_free(s, COMPUTE, rows));
    TRY(block_free(s, COMPUTE, gates));
    TRY(block_free(s, COMPUTE, dy));
    TRY(dispatch_rows(m, g, FROM_EXPERTS, (struct rows){dx, g->rows, d, 1, m->ops->wire}, dtokens));
    TRY(dispatch_rows(m, g, FROM_EXPERTS, (struct rows){dgate, g->rows, 1, 1, WIRE_REAL}, dgates));
    TRY(block_free(s, EXCHANGE, dx));
    return block_free(s, EXCHANGE, dgate);
}

enum weir_status moe_backward(struct model *m, int64_t layer, real *dx, const real *x) {
    const int64_t T = m->shape.T, d = m->shape.d, K = m->shape.K;
    const struct pack *p = dense_of(m, layer);
    struct dispatch *g = &m->saved[layer].dispatch;
    struct streams *s = m->streams;
    struct routing r;
    void *came, *gates_came, *dout_came, *back, *dgates;
    real *dn;
    TRY(route(m, layer, true, x, &r));
    TRY(send_tokens(m, layer, &r, &came, &gates_came));
    TRY(dispatch_rows(m, g, TO_EXPERTS, (struct rows){dx, T, d, K, m->ops->wire}, &dout_came));
    TRY(real_alloc(s, COMPUTE, T * d, &dn));
    if (m->shape.shared) {
        struct swiglu shared = shared_expert(m, layer);
        TRY(swiglu_backward(m, &shared, dn, NULL, dx, r.n, NULL)); /* runs beside the exchange */
    }
    TRY(streams_await(s, "train.backward.came", CAUSE_EXCHANGE, EXCHANGE));
    TRY(experts_backward(m, layer, came, gates_came, dout_came, &back, &dgates));
    TRY(streams_await(s, "train.backward.back", CAUSE_EXCHANGE, EXCHANGE));
    OP(m, rows_combine, dn, m->shape.shared > 0, back, m->ops->wire, g->slot, T, K, m->N, d, s->stream[COMPUTE]);
    TRY(block_free(s, COMPUTE, back));
    TRY(route_backward(m, layer, &r, dn, dgates));
    OP(m, rmsnorm_backward, dx, true, gradient_of(p, MOE_NORM), dn, x, r.n_r, weight_of(&m->fsdp, p, MOE_NORM), T, d,
       s->stream[COMPUTE]);
    TRY(block_free(s, COMPUTE, dn));
    TRY(routing_free(m, &r));
    return dispatch_free(m, g);
}
