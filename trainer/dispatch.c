/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/dispatch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum weir_status dispatch_open(struct model *m, struct dispatch *g) {
    const size_t ep = (size_t)m->comm->ep;
    g->sent = calloc(ep, sizeof *g->sent);
    g->received = calloc(ep, sizeof *g->received);
    g->offsets = calloc((size_t)m->shape.local + 1, sizeof *g->offsets);
    return g->sent && g->received && g->offsets ? WEIR_OK : WEIR_OUT_OF_HOST_MEMORY;
}

void dispatch_close(struct dispatch *g) {
    free(g->sent);
    free(g->received);
    free(g->offsets);
    memset(g, 0, sizeof *g);
}

enum weir_status dispatch_plan(struct model *m, struct dispatch *g) {
    const int64_t T = m->shape.T, E = m->shape.E, K = m->shape.K;
    struct streams *s = m->streams;
    weir_stream exchange = s->stream[EXCHANGE];
    int32_t *counts; /* (2, E): made here; got: (source, local) */
    TRY(streams_follow(s, "train.plan", EXCHANGE, COMPUTE));
    TRY(int_alloc(s, EXCHANGE, m->N, &g->order));
    TRY(int_alloc(s, EXCHANGE, m->N, &g->slot));
    TRY(int_alloc(s, EXCHANGE, 2 * E, &counts));
    OP(m, route_plan, g->order, g->slot, counts, g->ids, T, E, K, exchange);
    TRY(m->comm->table->all_to_all(m->comm, COMM_EP, LANE_EXCHANGE, counts, counts + E,
                                   (size_t)m->shape.local * sizeof *counts, exchange));
    TRY(weir_copy(s->device, m->host_counts, counts, 2 * (size_t)E * sizeof *counts, exchange));
    return block_free(s, EXCHANGE, counts);
}

/* Counts of both sides: the exchange has brought them; or, where routes are made up, every rank knows all of them. */
static void know_counts(struct model *m, const struct dispatch *g) {
    const int64_t local = m->shape.local;
    int32_t *made = m->host_counts, *got = m->host_counts + m->shape.E; /* (ep, local) each */
    if (g->drawing < 0) return;
    for (int place = 0; place < m->comm->ep; place++) {
        ops_routes_counts(m->ops->routes, comm_rank_at(m->comm, COMM_EP, place), g->drawing, made);
        memcpy(got + place * local, made + comm_place(m->comm, COMM_EP) * local, (size_t)local * sizeof *got);
    }
    ops_routes_counts(m->ops->routes, m->comm->rank, g->drawing, made);
}

/* Rows by peer and by local expert, from the counts of both sides. */
static void count_rows(struct model *m, struct dispatch *g) {
    const int64_t local = m->shape.local;
    const int32_t *made = m->host_counts, *got = m->host_counts + m->shape.E; /* (ep, local) each */
    g->rows = 0;
    memset(g->offsets, 0, (size_t)(local + 1) * sizeof *g->offsets);
    for (int peer = 0; peer < m->comm->ep; peer++) {
        g->sent[peer] = g->received[peer] = 0;
        for (int64_t e = 0; e < local; e++) {
            g->sent[peer] += made[peer * local + e];
            g->received[peer] += got[peer * local + e];
            g->offsets[e + 1] += got[peer * local + e];
        }
        g->rows += g->received[peer];
    }
    for (int64_t e = 0; e < local; e++) g->offsets[e + 1] += g->offsets[e];
    assert(g->offsets[local] == g->rows);
}

/* Rows come by (source, expert) and are worked on by (expert, source): both orders hold the same blocks. */
static void order_rows(const struct model *m, const struct dispatch *g, int32_t *grouped, int32_t *placed) {
    const int64_t local = m->shape.local;
    const int32_t *got = m->host_counts + m->shape.E; /* (ep, local) */
    int64_t came = 0;
    for (int64_t source = 0; source < m->comm->ep; source++)
        for (int64_t e = 0; e < local; e++) {
            int64_t row = g->offsets[e];
            for (int64_t before = 0; before < source; before++) row += got[before * local + e];
            for (int32_t i = 0; i < got[source * local + e]; i++, row++, came++) {
                grouped[row] = (int32_t)came;
                placed[came] = (int32_t)row;
            }
        }
    assert(came == g->rows);
}

enum weir_status dispatch_finish(struct model *m, struct dispatch *g, double *load) {
    struct streams *s = m->streams;
    weir_stream exchange = s->stream[EXCHANGE];
    TRY(streams_synchronize(s, "train.counts", EXCHANGE));
    TRY(model_followed_failure(m)); /* counts of a failed exchange mean nothing */
    host_writes(s, m->host_counts, 2 * (size_t)m->shape.E * sizeof *m->host_counts);
    know_counts(m, g);
    count_rows(m, g);
    for (int64_t e = 0; e < m->shape.E && load; e++) load[e] += m->host_counts[e];

    /* the copies have passed before the next layer's counts are here, so the host lists can be used again then */
    const size_t bytes = (size_t)g->rows * sizeof(int32_t);
    int32_t *grouped = m->host_grouped, *placed = m->host_grouped + g->rows;
    host_writes(s, grouped, 2 * bytes);
    order_rows(m, g, grouped, placed);
    TRY(int_alloc(s, EXCHANGE, g->rows, &g->grouped));
    TRY(int_alloc(s, EXCHANGE, g->rows, &g->placed));
    if (bytes == 0) return WEIR_OK;
    TRY(weir_copy(s->device, g->grouped, grouped, bytes, exchange));
    return weir_copy(s->device, g->placed, placed, bytes, exchange);
}

enum weir_status dispatch_free(struct model *m, struct dispatch *g) {
    int32_t **const lists[] = {&g->ids, &g->order, &g->slot, &g->grouped, &g->placed};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        TRY(block_free(m->streams, COMPUTE, *lists[i]));
        *lists[i] = NULL;
    }
    return WEIR_OK;
}

static enum weir_status send_rows(struct model *m, const struct dispatch *g, enum direction direction, size_t row_bytes,
                                  const void *send, void *recv) {
    const size_t ep = (size_t)m->comm->ep;
    const int64_t *away = direction == TO_EXPERTS ? g->sent : g->received;
    const int64_t *here = direction == TO_EXPERTS ? g->received : g->sent;
    for (size_t peer = 0; peer < ep; peer++) {
        m->split_bytes[peer] = (size_t)away[peer] * row_bytes;
        m->split_bytes[ep + peer] = (size_t)here[peer] * row_bytes;
    }
    return m->comm->table->all_to_all_v(m->comm, COMM_EP, LANE_EXCHANGE, send, m->split_bytes, recv,
                                        m->split_bytes + ep, m->streams->stream[EXCHANGE]);
}

enum weir_status dispatch_rows(struct model *m, const struct dispatch *g, enum direction direction, struct rows rows,
                               void **out) {
    struct streams *s = m->streams;
    const bool there = direction == TO_EXPERTS;
    const int64_t sending = there ? m->N : g->rows, getting = there ? g->rows : m->N;
    void *send; /* (sending, width) */
    TRY(streams_follow(s, "train.rows", EXCHANGE, COMPUTE));
    TRY(wire_alloc(s, EXCHANGE, sending * rows.width, rows.type, &send));
    OP(m, rows_gather, send, rows.type, rows.from, WIRE_REAL, there ? g->order : g->placed, rows.divide, sending,
       rows.count, rows.width, s->stream[EXCHANGE]);
    TRY(wire_alloc(s, EXCHANGE, getting * rows.width, rows.type, out));
    TRY(send_rows(m, g, direction, (size_t)rows.width * wire_bytes(rows.type), send, *out));
    return block_free(s, EXCHANGE, send);
}

enum weir_status dispatch_group(struct model *m, const struct dispatch *g, void *came, enum wire type, int64_t width,
                                real **out) {
    struct streams *s = m->streams;
    TRY(real_alloc(s, COMPUTE, g->rows * width, out));
    OP(m, rows_gather, *out, WIRE_REAL, came, type, g->grouped, 1, g->rows, g->rows, width, s->stream[COMPUTE]);
    return block_free(s, COMPUTE, came);
}
