/* SPDX-License-Identifier: Apache-2.0 */
/* Routing tokens to experts: the choice, its gradient, the plan, and the rows that follow it. */
#include "trainer/ops_cpu.h"

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

void cpu_router_forward(void *arguments) {
    const struct router_args *r = arguments;
    real *best = cpu_reals(SLOT_ROW, r->K);
    for (int64_t i = 0; i < r->T * r->E; i++) r->scores_out[i] = sigmoid(r->logits[i]);
    for (int64_t t = 0; t < r->T; t++) {
        const real *scores = r->scores_out + t * r->E;
        int32_t *ids = r->ids_out + t * r->K;
        if (!r->replay) choose(ids, best, scores, r->bias, r->E, r->K);
        real sum = chosen_sum(scores, ids, r->K);
        for (int64_t k = 0; k < r->K; k++) r->gates[t * r->K + k] = r->scale * scores[ids[k]] / sum;
    }
}

/* ds = scale / S (G - sum_i G_i s_i / S) for the chosen, S their sum; dlogit = ds s (1 - s) */
void cpu_router_backward(void *arguments) {
    const struct router_args *r = arguments;
    for (int64_t t = 0; t < r->T; t++) {
        const real *scores = r->scores + t * r->E, *dgates = r->dgates + t * r->K;
        const int32_t *ids = r->ids + t * r->K;
        real *dlogits = r->dlogits + t * r->E, sum = chosen_sum(scores, ids, r->K), along = 0;
        for (int64_t k = 0; k < r->K; k++) along += dgates[k] * scores[ids[k]] / sum;
        memset(dlogits, 0, (size_t)r->E * sizeof *dlogits);
        for (int64_t k = 0; k < r->K; k++) {
            real s = scores[ids[k]];
            dlogits[ids[k]] = r->scale / sum * (dgates[k] - along) * s * (1 - s);
        }
    }
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

void cpu_route_plan(void *arguments) {
    const struct plan_args *p = arguments;
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

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static const char *row_in(const struct rows_args *r, int64_t row) {
    assert(row >= 0 && row < r->in_rows);
    return (const char *)r->in + (size_t)(row * r->d) * wire_bytes(r->in_type);
}

void cpu_rows_gather(void *arguments) {
    const struct rows_args *r = arguments;
    size_t out_bytes = (size_t)r->d * wire_bytes(r->out_type);
    real *wide = cpu_reals(SLOT_ROW, r->d);
    char *out = r->out;
    for (int64_t n = 0; n < r->out_rows; n++, out += out_bytes) {
        const char *in = row_in(r, r->index[n] / r->divide);
        if (r->in_type == r->out_type) {
            memcpy(out, in, out_bytes);
        } else {
            widen(wide, in, r->in_type, r->d);
            narrow(out, r->out_type, wide, r->d);
        }
    }
}

/* The row of `add` is the first term: out + in[slot 0] + in[slot 1] ... */
void cpu_rows_combine(void *arguments) {
    const struct rows_args *r = arguments;
    real *wide = cpu_reals(SLOT_ROW, r->d);
    for (int64_t t = 0; t < r->out_rows; t++) {
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
