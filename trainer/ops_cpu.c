/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU leaf: layers and elementwise work. */
#include "trainer/ops_cpu.h"

/* ---- embedding --------------------------------------------------------------------------------------------------- */

static int64_t embed_row(const struct embed_args *e, int64_t t) {
    assert(e->ids[t] >= 0 && e->ids[t] < e->V);
    return e->ids[t] * e->d;
}

void cpu_embed_forward(void *arguments) {
    const struct embed_args *e = arguments;
    const char *table = e->from;
    for (int64_t t = 0; t < e->T; t++)
        widen(e->to + t * e->d, table + (size_t)embed_row(e, t) * wire_bytes(e->wire), e->wire, e->d);
}

void cpu_embed_backward(void *arguments) {
    const struct embed_args *e = arguments;
    const real *dout = e->from;
    for (int64_t t = 0; t < e->T; t++) {
        real *row = e->to + embed_row(e, t);
        for (int64_t i = 0; i < e->d; i++) row[i] += dout[t * e->d + i];
    }
}

/* ---- RMSNorm ----------------------------------------------------------------------------------------------------- */

void cpu_rmsnorm_forward(void *arguments) {
    const struct rmsnorm_args *n = arguments;
    const real *w = cpu_weights(n->w, n->wire, n->d);
    for (int64_t row = 0; row < n->rows; row++) {
        const real *x = n->x + row * n->d;
        real *y = n->y + row * n->d;
        real r = (real)(1 / sqrt((double)dot(x, x, n->d) / (double)n->d + OPS_NORM_EPSILON));
        for (int64_t i = 0; i < n->d; i++) y[i] = x[i] * r * w[i];
        n->r_out[row] = r;
    }
}

/* dx = r h - x r^3 / d sum(h x), h = dy w */
static void rmsnorm_row(real *restrict dx, bool add, real *restrict dw, const real *restrict dy, const real *restrict x,
                        const real *restrict w, real *restrict h, real r, int64_t d) {
    for (int64_t i = 0; i < d; i++) {
        h[i] = dy[i] * w[i];
        dw[i] += dy[i] * x[i] * r;
    }
    real along = dot(h, x, d) * r * r * r / (real)d;
    if (add)
        for (int64_t i = 0; i < d; i++) dx[i] += r * h[i] - along * x[i];
    else
        for (int64_t i = 0; i < d; i++) dx[i] = r * h[i] - along * x[i];
}

void cpu_rmsnorm_backward(void *arguments) {
    const struct rmsnorm_args *n = arguments;
    const real *w = cpu_weights(n->w, n->wire, n->d);
    real *h = cpu_reals(SLOT_ROW, n->d);
    for (int64_t row = 0; row < n->rows; row++) {
        int64_t at = row * n->d;
        rmsnorm_row(n->dx + at, n->add, n->dw, n->dy + at, n->x + at, w, h, n->r[row], n->d);
    }
}

/* ---- linear, by groups of rows: one product a group ------------------------------------------------------------- */

static const real *group_weight(const struct linear_args *l, int group) {
    const char *w = l->right;
    return cpu_weights(w + (size_t)(group * l->in * l->out) * wire_bytes(l->wire), l->wire, l->in * l->out);
}

/* y = x W^T */
void cpu_linear_forward(void *arguments) {
    const struct linear_args *l = arguments;
    for (int g = 0; g < l->count; g++) {
        int64_t first = l->offsets[g], rows = l->offsets[g + 1] - first;
        if (!rows) continue;
        gemm(CblasNoTrans, CblasTrans, rows, l->out, l->in, 1, l->left + first * l->in, l->in, group_weight(l, g),
             l->in, l->add, l->result + first * l->out, l->out);
    }
}

/* dx = dy W */
void cpu_linear_backward_input(void *arguments) {
    const struct linear_args *l = arguments;
    for (int g = 0; g < l->count; g++) {
        int64_t first = l->offsets[g], rows = l->offsets[g + 1] - first;
        if (!rows) continue;
        gemm(CblasNoTrans, CblasNoTrans, rows, l->in, l->out, 1, l->left + first * l->out, l->out, group_weight(l, g),
             l->in, l->add, l->result + first * l->in, l->in);
    }
}

/* dW = dy^T x; a group without rows has no product, its zeros are written here */
void cpu_linear_backward_weight(void *arguments) {
    const struct linear_args *l = arguments;
    const real *x = l->right;
    for (int g = 0; g < l->count; g++) {
        int64_t first = l->offsets[g], rows = l->offsets[g + 1] - first, size = l->out * l->in;
        real *dw = l->result + g * size;
        if (rows)
            gemm(CblasTrans, CblasNoTrans, l->out, l->in, rows, 1, l->left + first * l->out, l->out, x + first * l->in,
                 l->in, l->add, dw, l->in);
        else if (!l->add)
            memset(dw, 0, (size_t)size * sizeof *dw);
    }
}

/* ---- SwiGLU ------------------------------------------------------------------------------------------------------ */

void cpu_swiglu_forward(void *arguments) {
    const struct swiglu_args *s = arguments;
    for (int64_t row = 0; row < s->rows; row++) {
        const real *a = s->a + row * s->F, *b = s->b + row * s->F;
        real *restrict h = s->h + row * s->F;
        real gate = s->gate ? s->gate[row] : 1;
        for (int64_t i = 0; i < s->F; i++) h[i] = a[i] * sigmoid(a[i]) * b[i] * gate;
    }
}

/* da = dh b gate sigma (1 + a (1 - sigma)); db first without the gate: dgate = sum db b */
static void swiglu_row(real *restrict da, real *restrict db, const real *restrict dh, const real *restrict a,
                       const real *restrict b, real gate, int64_t F) {
    for (int64_t i = 0; i < F; i++) {
        real s = sigmoid(a[i]);
        da[i] = dh[i] * b[i] * gate * s * (1 + a[i] * (1 - s));
        db[i] = dh[i] * a[i] * s;
    }
}

void cpu_swiglu_backward(void *arguments) {
    const struct swiglu_args *s = arguments;
    for (int64_t row = 0; row < s->rows; row++) {
        int64_t at = row * s->F;
        real gate = s->gate ? s->gate[row] : 1;
        swiglu_row(s->da + at, s->db + at, s->dh + at, s->a + at, s->b + at, gate, s->F);
        if (!s->gate) continue;
        s->dgate[row] = dot(s->db + at, s->b + at, s->F);
        scale_row(s->db + at, gate, s->F);
    }
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */

/* Gives lse - z_target; z is left as it was without `gradient`. */
static double cross_entropy_row(real *z, int64_t V, int32_t target, real scale, bool gradient) {
    assert(target < V);
    double aim = (double)z[target];
    real most = largest(z, V);
    if (!gradient) z = memcpy(cpu_reals(SLOT_ROW, V), z, (size_t)V * sizeof *z);
    real sum = exp_shifted(z, most, V);
    if (gradient) {
        scale_row(z, scale / sum, V);
        z[target] -= scale;
    }
    return (double)most + log((double)sum) - aim;
}

void cpu_cross_entropy(void *arguments) {
    const struct cross_entropy_args *c = arguments;
    for (int64_t t = 0; t < c->T; t++) {
        real *z = c->logits + t * c->V;
        if (c->targets[t] >= 0)
            *c->loss += c->scale * cross_entropy_row(z, c->V, c->targets[t], (real)c->scale, c->gradient);
        else if (c->gradient)
            memset(z, 0, (size_t)c->V * sizeof *z);
    }
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

/* In place apart: the compiler vectorises only where it sees that nothing overlaps. */
void cpu_add(void *arguments) {
    const struct add_args *s = arguments;
    real *out = s->out;
    const real *a = s->a, *b = s->b;
    if (out == a)
        for (int64_t i = 0; i < s->n; i++) out[i] += b[i];
    else
        for (int64_t i = 0; i < s->n; i++) out[i] = a[i] + b[i];
}

void cpu_convert(void *arguments) {
    const struct convert_args *c = arguments;
    if (c->out_type == WIRE_REAL)
        widen(c->out, c->in, c->in_type, c->n);
    else if (c->in_type == WIRE_REAL)
        narrow(c->out, c->out_type, c->in, c->n);
    else if (c->n > 0)
        memcpy(c->out, c->in, (size_t)c->n * wire_bytes(WIRE_BF16));
}

/* ---- the leaf ---------------------------------------------------------------------------------------------------- */

static const struct ops_leaf leaf = {.run = {
#define CPU_RUN(op) [OP_##op] = cpu_##op,
                                         OPS_LIST(CPU_RUN)
#undef CPU_RUN
                                     }};

/* Two BLAS threads a rank are slower than one at the trainer's sizes, and a stream's thread is busy anyway. */
enum weir_status ops_open_cpu(struct weir_device *device, enum wire wire, struct ops *out) {
    openblas_set_num_threads(1);
    ops_open(device, wire, "cpu", NULL, &leaf, NULL, out);
    return WEIR_OK;
}
