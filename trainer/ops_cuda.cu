/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the CUDA leaf: layers, loss, elementwise work, gradients, the optimizer. Plain, not yet tuned. */
#include "trainer/ops_cuda_device.h"

#define LAUNCHED() ((int)cudaGetLastError())

/* ---- embedding --------------------------------------------------------------------------------------------------- */

__global__ static void embed_forward(embed_args e) {
    EACH_ROW(t, e.T)
    EACH_COLUMN(i, e.d) e.to[t * e.d + i] = load(e.from, e.wire, e.ids[t] * e.d + i);
}

int cuda_embed_forward(void *arguments, weir_stream stream) {
    const embed_args *e = (const embed_args *)arguments;
    embed_forward<<<blocks_for(e->T), THREADS, 0, stream>>>(*e);
    return LAUNCHED();
}

/* One thread a column walks the tokens in order: rows that meet are added without atomics. */
__global__ static void embed_backward(embed_args e) {
    const float *dout = (const float *)e.from;
    EACH(i, e.d)
    for (int64_t t = 0; t < e.T; t++) e.to[e.ids[t] * e.d + i] += dout[t * e.d + i];
}

int cuda_embed_backward(void *arguments, weir_stream stream) {
    const embed_args *e = (const embed_args *)arguments;
    embed_backward<<<grid_for(e->d), THREADS, 0, stream>>>(*e);
    return LAUNCHED();
}

/* ---- RMSNorm ----------------------------------------------------------------------------------------------------- */

__global__ static void rmsnorm_forward(rmsnorm_args n) {
    EACH_ROW(row, n.rows) {
        const float *x = n.x + row * n.d;
        float sum = 0;
        EACH_COLUMN(i, n.d) sum += x[i] * x[i];
        float r = (float)(1 / sqrt((double)fold_block(sum, sum_of()) / (double)n.d + OPS_NORM_EPSILON));
        EACH_COLUMN(i, n.d) n.y[row * n.d + i] = x[i] * r * load(n.w, n.wire, i);
        if (threadIdx.x == 0) n.r_out[row] = r;
    }
}

int cuda_rmsnorm_forward(void *arguments, weir_stream stream) {
    const rmsnorm_args *n = (const rmsnorm_args *)arguments;
    rmsnorm_forward<<<blocks_for(n->rows), THREADS, 0, stream>>>(*n);
    return LAUNCHED();
}

/* dx = r h - x r^3 / d sum(h x), h = dy w */
__global__ static void rmsnorm_backward_input(rmsnorm_args n) {
    EACH_ROW(row, n.rows) {
        const float *x = n.x + row * n.d, *dy = n.dy + row * n.d;
        float *dx = n.dx + row * n.d, r = n.r[row], sum = 0;
        EACH_COLUMN(i, n.d) sum += dy[i] * load(n.w, n.wire, i) * x[i];
        float along = fold_block(sum, sum_of()) * r * r * r / (float)n.d;
        EACH_COLUMN(i, n.d) {
            float gradient = r * dy[i] * load(n.w, n.wire, i) - along * x[i];
            dx[i] = n.add ? dx[i] + gradient : gradient;
        }
    }
}

__global__ static void rmsnorm_backward_weight(rmsnorm_args n) {
    EACH(i, n.d)
    for (int64_t row = 0; row < n.rows; row++) n.dw[i] += n.dy[row * n.d + i] * n.x[row * n.d + i] * n.r[row];
}

int cuda_rmsnorm_backward(void *arguments, weir_stream stream) {
    const rmsnorm_args *n = (const rmsnorm_args *)arguments;
    rmsnorm_backward_input<<<blocks_for(n->rows), THREADS, 0, stream>>>(*n);
    rmsnorm_backward_weight<<<grid_for(n->d), THREADS, 0, stream>>>(*n);
    return LAUNCHED();
}

/* ---- rotary embedding -------------------------------------------------------------------------------------------- */

/* One thread a pair; angles in double, as on the CPU. */
__global__ static void rope(rope_args r) {
    int64_t pairs = r.D / 2;
    EACH(n, r.T * r.heads * pairs) {
        int64_t i = n % pairs, head = n / pairs;
        double sine, cosine;
        sincos((double)(head / r.heads % r.S) * pow(OPS_ROPE_BASE, -2.0 * (double)i / (double)r.D), &sine, &cosine);
        float *low = r.x + head * r.D + i, *high = low + pairs, a = *low, b = *high;
        float c = (float)cosine, s = (float)sine * (float)r.direction;
        *low = a * c - b * s;
        *high = b * c + a * s;
    }
}

int cuda_rope(void *arguments, weir_stream stream) {
    const rope_args *r = (const rope_args *)arguments;
    rope<<<grid_for(r->T * r->heads * r->D / 2), THREADS, 0, stream>>>(*r);
    return LAUNCHED();
}

/* ---- SwiGLU ------------------------------------------------------------------------------------------------------ */

__global__ static void swiglu_forward(swiglu_args s) {
    EACH(i, s.rows * s.F) s.h[i] = s.a[i] * sigmoid(s.a[i]) * s.b[i] * (s.gate ? s.gate[i / s.F] : 1.0f);
}

int cuda_swiglu_forward(void *arguments, weir_stream stream) {
    const swiglu_args *s = (const swiglu_args *)arguments;
    swiglu_forward<<<grid_for(s->rows * s->F), THREADS, 0, stream>>>(*s);
    return LAUNCHED();
}

__global__ static void swiglu_backward(swiglu_args s) {
    EACH_ROW(row, s.rows) {
        float gate = s.gate ? s.gate[row] : 1.0f, sum = 0;
        EACH_COLUMN(column, s.F) {
            int64_t i = row * s.F + column;
            float a = s.a[i], b = s.b[i], dh = s.dh[i], sigma = sigmoid(a);
            s.da[i] = dh * b * gate * sigma * (1 + a * (1 - sigma));
            s.db[i] = dh * a * sigma * gate;
            sum += dh * a * sigma * b;
        }
        if (!s.gate) continue;
        float whole = fold_block(sum, sum_of());
        if (threadIdx.x == 0) s.dgate[row] = whole;
    }
}

int cuda_swiglu_backward(void *arguments, weir_stream stream) {
    const swiglu_args *s = (const swiglu_args *)arguments;
    swiglu_backward<<<blocks_for(s->rows), THREADS, 0, stream>>>(*s);
    return LAUNCHED();
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */

/* One block walks the rows, so that the loss is summed in their order; slow for a large vocabulary. */
__global__ static void cross_entropy(cross_entropy_args c) {
    for (int64_t t = 0; t < c.T; t++) {
        float *z = c.logits + t * c.V, most = -INFINITY, sum = 0, aim = 0;
        int32_t target = c.targets[t];
        if (target >= 0) {
            aim = z[target];
            EACH_COLUMN(i, c.V) most = most_of()(most, z[i]);
            most = fold_block(most, most_of());
            EACH_COLUMN(i, c.V) sum += expf(z[i] - most);
            sum = fold_block(sum, sum_of());
            if (threadIdx.x == 0) *c.loss += c.scale * ((double)most + log((double)sum) - (double)aim);
        }
        if (!c.gradient) continue;
        float scale = (float)c.scale; /* every thread has read `aim` before the last fold */
        EACH_COLUMN(i, c.V) z[i] = target < 0 ? 0 : expf(z[i] - most) * (scale / sum) - (i == target ? scale : 0);
    }
}

int cuda_cross_entropy(void *arguments, weir_stream stream) {
    const cross_entropy_args *c = (const cross_entropy_args *)arguments;
    cross_entropy<<<1, 1024, 0, stream>>>(*c);
    return LAUNCHED();
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

__global__ static void add(add_args s) { EACH(i, s.n) s.out[i] = s.a[i] + s.b[i]; }

int cuda_add(void *arguments, weir_stream stream) {
    const add_args *s = (const add_args *)arguments;
    add<<<grid_for(s->n), THREADS, 0, stream>>>(*s);
    return LAUNCHED();
}

__global__ static void convert(convert_args c) { EACH(i, c.n) store(c.out, c.out_type, i, load(c.in, c.in_type, i)); }

int cuda_convert(void *arguments, weir_stream stream) {
    const convert_args *c = (const convert_args *)arguments;
    convert<<<grid_for(c->n), THREADS, 0, stream>>>(*c);
    return LAUNCHED();
}

int cuda_widen(float *out, const void *in, enum wire type, int64_t n, weir_stream stream) {
    convert_args c = {out, in, WIRE_REAL, type, n};
    return cuda_convert(&c, stream);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

__global__ static void sum_blocks(sum_blocks_args s) {
    EACH(i, s.n) {
        float sum = load(s.in, s.wire, i);
        for (int64_t w = 1; w < s.W; w++) sum += load(s.in, s.wire, w * s.n + i);
        s.out[i] = s.add ? s.out[i] + sum : sum;
    }
}

int cuda_sum_blocks(void *arguments, weir_stream stream) {
    const sum_blocks_args *s = (const sum_blocks_args *)arguments;
    sum_blocks<<<grid_for(s->n), THREADS, 0, stream>>>(*s);
    return LAUNCHED();
}

/* of the numbers that this block walks */
__device__ static double sum_of_squares(const float *x, int64_t n) {
    double sum = 0;
    EACH_COLUMN(i, n) sum += (double)x[i] * (double)x[i];
    return fold_block(sum, sum_of());
}

__global__ static void sum_squares(sum_squares_args s) {
    double sum = sum_of_squares(s.x, s.n);
    if (threadIdx.x == 0) *s.sum += sum;
}

/* One block: its order does not depend on the device. */
int cuda_sum_squares(void *arguments, weir_stream stream) {
    const sum_squares_args *s = (const sum_squares_args *)arguments;
    sum_squares<<<1, 1024, 0, stream>>>(*s);
    return LAUNCHED();
}

__global__ static void clip(clip_args c) {
    double factor = c.limit / (sqrt(*c.sum) + 1e-6);
    if (factor >= 1) return; /* a NaN goes on and shows */
    EACH(i, c.n) c.x[i] *= (float)factor;
}

int cuda_clip(void *arguments, weir_stream stream) {
    const clip_args *c = (const clip_args *)arguments;
    clip<<<grid_for(c->n), THREADS, 0, stream>>>(*c);
    return LAUNCHED();
}

/* ---- optimizer --------------------------------------------------------------------------------------------------- */

__global__ static void adamw(adamw_args a) {
    EACH(i, a.n) {
        float g = a.g[i], m = a.beta1 * a.m[i] + a.fresh1 * g, v = a.beta2 * a.v[i] + a.fresh2 * g * g;
        a.m[i] = m;
        a.v[i] = v;
        a.p[i] = a.p[i] * a.keep - a.step * m / (sqrtf(v) * a.root + a.eps);
    }
}

int cuda_adamw(void *arguments, weir_stream stream) {
    const adamw_args *a = (const adamw_args *)arguments;
    adamw<<<grid_for(a->n), THREADS, 0, stream>>>(*a);
    return LAUNCHED();
}

__global__ static void muon_momentum(momentum_args s) {
    EACH(i, s.n) {
        float m = s.mu * s.m[i] + s.g[i];
        s.m[i] = m;
        s.u[i] = s.g[i] + s.mu * m;
    }
}

int cuda_muon_momentum(void *arguments, weir_stream stream) {
    const momentum_args *s = (const momentum_args *)arguments;
    muon_momentum<<<grid_for(s->n), THREADS, 0, stream>>>(*s);
    return LAUNCHED();
}

__global__ static void muon_apply(muon_apply_args s) { EACH(i, s.n) s.p[i] = s.p[i] * s.keep - s.take * s.u[i]; }

int cuda_muon_apply(void *arguments, weir_stream stream) {
    const muon_apply_args *s = (const muon_apply_args *)arguments;
    muon_apply<<<grid_for(s->n), THREADS, 0, stream>>>(*s);
    return LAUNCHED();
}

/* One block a matrix. */
__global__ static void normalize(float *u, int64_t count, int64_t size) {
    EACH_ROW(matrix, count) {
        float *x = u + matrix * size, factor = (float)(1 / (sqrt(sum_of_squares(x, size)) + 1e-7));
        EACH_COLUMN(i, size) x[i] *= factor;
    }
}

int cuda_normalize(float *u, int64_t count, int64_t size, weir_stream stream) {
    normalize<<<blocks_for(count), 1024, 0, stream>>>(u, count, size);
    return LAUNCHED();
}
