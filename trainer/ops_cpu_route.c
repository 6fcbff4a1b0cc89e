/* SPDX-License-Identifier: Apache-2.0 */
/* Routing tokens to experts: the choice, its gradient, the plan, and the rows that follow it. */
#include "trainer/ops_cpu.h"

struct router {
    real *out, *gates; /* out: scores forward, dlogits backward; gates written forward */
    int32_t *ids;
    const real *logits, *bias, *dgates, *scores;
    int64_t T, E, K;
    real scale;
    bool replay;
};

/* A NaN counts as the best score: it is chosen and its gate, and with it the loss, becomes NaN, instead of an expert
 * being dropped in silence. */
static bool better(real a, real b) { return a > b || (isnan(a) && !isnan(b)); }

/* The K best of scores + bias, best first; since a later expert must be strictly better to pass, ties go to the lower
 * id. O(E K), mostly O(E). */
static void choose(int32_t *ids, real *best, const real *scores, const real *bias, int64_t E, int64_t K) {
    int64_t chosen = 0;
    for (int64_t e = 0; e < E; e++) {
        real score = scores[e] + bias[e];
        if (chosen == K && !better(score, best[K - 1])) continue;
        int64_t place = chosen < K ? chosen++ : K - 1;
        for (; place > 0 && better(score, best[place - 1]); place--) {
            best[place] = best[place - 1];
            ids[place] = ids[place - 1];
        }
        best[place] = score;
        ids[place] = (int32_t)e;
    }
}

static real chosen_sum(const real *scores, const int32_t *ids, int64_t K) {
    real sum = (real)1e-20;
    for (int64_t k = 0; k < K; k++) sum += scores[ids[k]];
    return sum;
}

static void run_router_forward(void *argument) {
    const struct router *r = argument;
    real *best = cpu_reals(SLOT_ROW, r->K);
    for (int64_t i = 0; i < r->T * r->E; i++) r->out[i] = sigmoid(r->logits[i]);
    for (int64_t t = 0; t < r->T; t++) {
        const real *scores = r->out + t * r->E;
        int32_t *ids = r->ids + t * r->K;
        if (!r->replay) choose(ids, best, scores, r->bias, r->E, r->K);
        real sum = chosen_sum(scores, ids, r->K);
        for (int64_t k = 0; k < r->K; k++) r->gates[t * r->K + k] = r->scale * scores[ids[k]] / sum;
    }
}

enum weir_status cpu_router_forward(const struct ops *ops, real *scores, int32_t *ids, real *gates, const real *logits,
                                    const real *bias, bool replay, int64_t T, int64_t E, int64_t K, real scale,
                                    weir_stream stream) {
    assert(K > 0 && K <= E);
    struct router r = {.out = scores,
                       .gates = gates,
                       .ids = ids,
                       .logits = logits,
                       .bias = bias,
                       .T = T,
                       .E = E,
                       .K = K,
                       .scale = scale,
                       .replay = replay};
    return SUBMIT(ops, stream, "router_forward", run_router_forward, &r, 20 * T * E, WRITES(scores, T * E),
                  WRITES(ids, replay ? 0 : T * K), READS_IF(replay, ids, T * K), WRITES(gates, T * K),
                  READS(logits, T * E), READS(bias, replay ? 0 : E));
}

/* ds = scale / S (G - sum_i G_i s_i / S) for the chosen, S their sum; dlogit = ds s (1 - s) */
static void run_router_backward(void *argument) {
    const struct router *r = argument;
    for (int64_t t = 0; t < r->T; t++) {
        const real *scores = r->scores + t * r->E, *dgates = r->dgates + t * r->K;
        const int32_t *ids = r->ids + t * r->K;
        real *dlogits = r->out + t * r->E, sum = chosen_sum(scores, ids, r->K), along = 0;
        for (int64_t k = 0; k < r->K; k++) along += dgates[k] * scores[ids[k]] / sum;
        memset(dlogits, 0, (size_t)r->E * sizeof *dlogits);
        for (int64_t k = 0; k < r->K; k++) {
            real s = scores[ids[k]];
            dlogits[ids[k]] = r->scale / sum * (dgates[k] - along) * s * (1 - s);
        }
    }
}

enum weir_status cpu_router_backward(const struct ops *ops, real *dlogits, const real *dgates, const real *scores,
                                     const int32_t *ids, int64_t T, int64_t E, int64_t K, real scale,
                                     weir_stream stream) {
    union {
        const int32_t *given;
        int32_t *kept; /* only read */
    } chosen = {ids};
    struct router r = {
        .out = dlogits, .dgates = dgates, .scores = scores, .ids = chosen.kept, .T = T, .E = E, .K = K, .scale = scale};
    return SUBMIT(ops, stream, "router_backward", run_router_backward, &r, 10 * T * K + T * E, WRITES(dlogits, T * E),
                  READS(dgates, T * K), READS(scores, T * E), READS(ids, T * K));
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

struct plan {
    int32_t *order, *slot, *counts;
    const int32_t *ids;
    int64_t T, E, K;
};

static void run_route_plan(void *argument) {
    const struct plan *p = argument;
    int64_t N = p->T * p->K;
    int32_t *next = cpu_scratch(SLOT_STARTS, (size_t)p->E * sizeof *next), start = 0;
    memset(p->counts, 0, (size_t)p->E * sizeof *p->counts);
    for (int64_t n = 0; n < N; n++) {
        assert(p->ids[n] >= 0 && p->ids[n] < p->E);
        p->counts[p->ids[n]]++;
    }
    for (int64_t e = 0; e < p->E; e++) {
        next[e] = start;
        start += p->counts[e];
    }
    for (int64_t n = 0; n < N; n++) {
        int32_t place = next[p->ids[n]]++;
        p->slot[n] = place;
        p->order[place] = (int32_t)n;
    }
}

enum weir_status cpu_route_plan(const struct ops *ops, int32_t *order, int32_t *slot, int32_t *counts,
                                const int32_t *ids, int64_t T, int64_t E, int64_t K, weir_stream stream) {
    assert(E > 0 && T * K <= INT32_MAX);
    struct plan p = {order, slot, counts, ids, T, E, K};
    return SUBMIT(ops, stream, "route_plan", run_route_plan, &p, 0, WRITES(order, T * K), WRITES(slot, T * K),
                  WRITES(counts, E), READS(ids, T * K));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

struct rows {
    void *out;
    const void *in;
    const int32_t *index; /* index (N), or slot (T, K) */
    int64_t divide, N, K, in_rows, d;
    enum wire out_type, in_type;
    bool add;
};

static const char *row_in(const struct rows *r, int64_t row) {
    assert(row >= 0 && row < r->in_rows);
    return (const char *)r->in + (size_t)(row * r->d) * wire_bytes(r->in_type);
}

static void run_rows_gather(void *argument) {
    const struct rows *r = argument;
    size_t out_bytes = (size_t)r->d * wire_bytes(r->out_type);
    real *wide = cpu_reals(SLOT_ROW, r->d);
    char *out = r->out;
    for (int64_t n = 0; n < r->N; n++, out += out_bytes) {
        const char *in = row_in(r, r->index[n] / r->divide);
        if (r->in_type == r->out_type) {
            memcpy(out, in, out_bytes);
        } else {
            widen(wide, in, r->in_type, r->d);
            narrow(out, r->out_type, wide, r->d);
        }
    }
}

enum weir_status cpu_rows_gather(const struct ops *ops, void *out, enum wire out_type, const void *in,
                                 enum wire in_type, const int32_t *index, int64_t divide, int64_t N, int64_t in_rows,
                                 int64_t d, weir_stream stream) {
    assert(divide > 0);
    struct rows r = {.out = out,
                     .in = in,
                     .index = index,
                     .divide = divide,
                     .N = N,
                     .in_rows = in_rows,
                     .d = d,
                     .out_type = out_type,
                     .in_type = in_type};
    return SUBMIT(ops, stream, "rows_gather", run_rows_gather, &r, 0, WRITES_WIRE(out, out_type, N * d),
                  READS_WIRE(in, in_type, N ? in_rows * d : 0), READS(index, N));
}

/* The row of `add` is the first term: out + in[slot 0] + in[slot 1] ... */
static void run_rows_combine(void *argument) {
    const struct rows *r = argument;
    real *wide = cpu_reals(SLOT_ROW, r->d);
    for (int64_t t = 0; t < r->N; t++) {
        real *restrict out = (real *)r->out + t * r->d;
        for (int64_t k = 0; k < r->K; k++) {
            const char *in = row_in(r, r->index[t * r->K + k]);
            if (!k && !r->add) {
                widen(out, in, r->in_type, r->d);
                continue;
            }
            widen(wide, in, r->in_type, r->d);
            for (int64_t i = 0; i < r->d; i++) out[i] += wide[i];
        }
    }
}

enum weir_status cpu_rows_combine(const struct ops *ops, real *out, bool add, const void *in, enum wire in_type,
                                  const int32_t *slot, int64_t T, int64_t K, int64_t N, int64_t d, weir_stream stream) {
    assert(K > 0);
    struct rows r = {
        .out = out, .in = in, .index = slot, .N = T, .K = K, .in_rows = N, .d = d, .in_type = in_type, .add = add};
    return SUBMIT(ops, stream, "rows_combine", run_rows_combine, &r, T * K * d, WRITES(out, T * d),
                  READS_IF(add, out, T * d), READS_WIRE(in, in_type, T ? N * d : 0), READS(slot, T * K));
}
