/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the CUDA leaf: the router, the plan, and the rows that follow it. Plain, not yet tuned. */
#include "trainer/ops_cuda_device.h"

#define LAUNCHED() ((int)cudaGetLastError())

/* ---- router: one thread a token ---------------------------------------------------------------------------------- */

enum { MOST_CHOSEN = 64 }; /* what a thread keeps of best scores; the configuration's limit on top_k */

__device__ static bool better(float a, float b) { return a > b || (isnan(a) && !isnan(b)); }

/* The K best of scores + bias, best first, the lower id on a tie; NaN counts as best. */
__device__ static void choose(int32_t *ids, const float *scores, const float *bias, int64_t E, int64_t K) {
    float best[MOST_CHOSEN];
    int64_t chosen = 0;
    for (int64_t e = 0; e < E; e++) {
        float score = scores[e] + bias[e];
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

__device__ static float chosen_sum(const float *scores, const int32_t *ids, int64_t K) {
    float sum = 1e-20f;
    for (int64_t k = 0; k < K; k++) sum += scores[ids[k]];
    return sum;
}

__global__ static void router_forward(router_args r) {
    EACH(t, r.T) {
        float *scores = r.scores_out + t * r.E;
        int32_t *ids = r.ids_out + t * r.K;
        for (int64_t e = 0; e < r.E; e++) scores[e] = sigmoid(r.logits[t * r.E + e]);
        if (!r.replay) choose(ids, scores, r.bias, r.E, r.K);
        float sum = chosen_sum(scores, ids, r.K);
        for (int64_t k = 0; k < r.K; k++) r.gates[t * r.K + k] = r.scale * scores[ids[k]] / sum;
    }
}

int cuda_router_forward(void *arguments, weir_stream stream) {
    const router_args *r = (const router_args *)arguments;
    if (!r->replay && r->K > MOST_CHOSEN) return cudaErrorInvalidValue;
    router_forward<<<grid_for(r->T), THREADS, 0, stream>>>(*r);
    return LAUNCHED();
}

__global__ static void router_backward(router_args r) {
    EACH(t, r.T) {
        const float *scores = r.scores + t * r.E, *dgates = r.dgates + t * r.K;
        const int32_t *ids = r.ids + t * r.K;
        float *dlogits = r.dlogits + t * r.E, sum = chosen_sum(scores, ids, r.K), along = 0;
        for (int64_t k = 0; k < r.K; k++) along += dgates[k] * scores[ids[k]] / sum;
        for (int64_t e = 0; e < r.E; e++) dlogits[e] = 0;
        for (int64_t k = 0; k < r.K; k++) {
            float s = scores[ids[k]];
            dlogits[ids[k]] = r.scale / sum * (dgates[k] - along) * s * (1 - s);
        }
    }
}

int cuda_router_backward(void *arguments, weir_stream stream) {
    const router_args *r = (const router_args *)arguments;
    router_backward<<<grid_for(r->T), THREADS, 0, stream>>>(*r);
    return LAUNCHED();
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* One block, an expert a thread: each walks all assignments, once to count and once to place, so that the sort is
 * stable. O(N) a thread whatever E is; the threads read the same ids at the same time. */
__global__ static void route_plan(plan_args p) {
    int64_t N = p.T * p.K;
    EACH_COLUMN(e, p.E) {
        int32_t count = 0;
        for (int64_t n = 0; n < N; n++) count += p.ids[n] == e;
        p.counts[e] = count;
    }
    __syncthreads();
    EACH_COLUMN(e, p.E) {
        int32_t next = 0;
        for (int64_t before = 0; before < e; before++) next += p.counts[before];
        for (int64_t n = 0; n < N; n++) {
            if (p.ids[n] != e) continue;
            p.slot[n] = next;
            p.order[next++] = (int32_t)n;
        }
    }
}

int cuda_route_plan(void *arguments, weir_stream stream) {
    const plan_args *p = (const plan_args *)arguments;
    route_plan<<<1, 1024, 0, stream>>>(*p);
    return LAUNCHED();
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

__global__ static void rows_gather(rows_args r) {
    EACH_ROW(n, r.out_rows) {
        int64_t from = r.index[n] / r.divide * r.d;
        EACH_COLUMN(i, r.d) store(r.out, r.out_type, n * r.d + i, load(r.in, r.in_type, from + i));
    }
}

int cuda_rows_gather(void *arguments, weir_stream stream) {
    const rows_args *r = (const rows_args *)arguments;
    rows_gather<<<blocks_for(r->out_rows), THREADS, 0, stream>>>(*r);
    return LAUNCHED();
}

__global__ static void rows_combine(rows_args r) {
    float *out = (float *)r.out;
    EACH_ROW(t, r.out_rows)
    EACH_COLUMN(i, r.d) {
        const int32_t *slot = r.index + t * r.K;
        float first = load(r.in, r.in_type, slot[0] * r.d + i);
        float sum = r.add ? out[t * r.d + i] + first : first;
        for (int64_t k = 1; k < r.K; k++) sum += load(r.in, r.in_type, slot[k] * r.d + i);
        out[t * r.d + i] = sum;
    }
}

int cuda_rows_combine(void *arguments, weir_stream stream) {
    const rows_args *r = (const rows_args *)arguments;
    rows_combine<<<blocks_for(r->out_rows), THREADS, 0, stream>>>(*r);
    return LAUNCHED();
}
