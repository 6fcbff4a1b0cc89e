/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU operations: the table, submission, and the elementwise work. */
#include "trainer/ops_cpu.h"

enum { MOST_ACCESSES = 16 };

enum weir_status cpu_submit(const struct ops *ops, const struct cpu_work *work, const struct weir_access *accesses,
                            size_t access_count, weir_stream stream) {
    struct weir_access kept[MOST_ACCESSES];
    size_t count = 0;
    double bytes = 0;
    assert(access_count <= MOST_ACCESSES);
    for (size_t i = 0; i < access_count; i++) {
        if (!accesses[i].address || !accesses[i].bytes) continue;
        kept[count++] = accesses[i];
        bytes += (double)accesses[i].bytes;
    }
    union {
        const void *given;
        void *passed; /* copied by the device, not written */
    } argument = {work->argument};
    return weir_device_submit(ops->device,
                              &(struct weir_work){.name = work->name,
                                                  .run = work->run,
                                                  .argument = argument.passed,
                                                  .argument_bytes = work->argument_bytes,
                                                  .accesses = kept,
                                                  .access_count = count,
                                                  .flops = work->flops,
                                                  .bytes = bytes},
                              stream);
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

struct embed {
    real *to;         /* forward: out (T, d); backward: dtable (V, d) */
    const void *from; /* forward: table (V, d) wire; backward: dout (T, d) real */
    const int32_t *ids;
    int64_t T, V, d;
    enum wire wire;
};

static int64_t embed_row(const struct embed *e, int64_t t) {
    assert(e->ids[t] >= 0 && e->ids[t] < e->V);
    return e->ids[t] * e->d;
}

static void run_embed_forward(void *argument) {
    const struct embed *e = argument;
    const char *table = e->from;
    for (int64_t t = 0; t < e->T; t++)
        widen(e->to + t * e->d, table + (size_t)embed_row(e, t) * wire_bytes(e->wire), e->wire, e->d);
}

static enum weir_status embed_forward(const struct ops *ops, real *out, const void *table, const int32_t *ids,
                                      int64_t T, int64_t V, int64_t d, weir_stream stream) {
    struct embed e = {out, table, ids, T, V, d, ops->wire};
    return SUBMIT(ops, stream, "embed_forward", run_embed_forward, &e, 0, WRITES(out, T * d), READS(ids, T),
                  READS_WIRE(table, ops->wire, V * d));
}

static void run_embed_backward(void *argument) {
    const struct embed *e = argument;
    const real *dout = e->from;
    for (int64_t t = 0; t < e->T; t++) {
        real *row = e->to + embed_row(e, t);
        for (int64_t i = 0; i < e->d; i++) row[i] += dout[t * e->d + i];
    }
}

static enum weir_status embed_backward(const struct ops *ops, real *dtable, const real *dout, const int32_t *ids,
                                       int64_t T, int64_t V, int64_t d, weir_stream stream) {
    struct embed e = {dtable, dout, ids, T, V, d, WIRE_REAL};
    return SUBMIT(ops, stream, "embed_backward", run_embed_backward, &e, T * d, UPDATES(dtable, V * d),
                  READS(dout, T * d), READS(ids, T));
}

/* ---- RMSNorm ----------------------------------------------------------------------------------------------------- */

struct rmsnorm {
    real *to, *dw, *r; /* to: y, or dx; r written forward, read backward */
    const real *dy, *x;
    const void *w;
    int64_t rows, d;
    enum wire wire;
    bool add;
};

static void run_rmsnorm_forward(void *argument) {
    const struct rmsnorm *n = argument;
    const real *w = cpu_weights(n->w, n->wire, n->d);
    for (int64_t row = 0; row < n->rows; row++) {
        const real *x = n->x + row * n->d;
        real *y = n->to + row * n->d;
        real r = (real)(1 / sqrt((double)dot(x, x, n->d) / (double)n->d + OPS_NORM_EPSILON));
        for (int64_t i = 0; i < n->d; i++) y[i] = x[i] * r * w[i];
        n->r[row] = r;
    }
}

static enum weir_status rmsnorm_forward(const struct ops *ops, real *y, real *r, const real *x, const void *w,
                                        int64_t rows, int64_t d, weir_stream stream) {
    struct rmsnorm n = {.to = y, .r = r, .x = x, .w = w, .rows = rows, .d = d, .wire = ops->wire};
    return SUBMIT(ops, stream, "rmsnorm_forward", run_rmsnorm_forward, &n, 4 * rows * d, WRITES(y, rows * d),
                  WRITES(r, rows), READS(x, rows * d), READS_WIRE(w, ops->wire, d));
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

static void run_rmsnorm_backward(void *argument) {
    const struct rmsnorm *n = argument;
    const real *w = cpu_weights(n->w, n->wire, n->d);
    real *h = cpu_reals(SLOT_ROW, n->d);
    for (int64_t row = 0; row < n->rows; row++) {
        int64_t at = row * n->d;
        rmsnorm_row(n->to + at, n->add, n->dw, n->dy + at, n->x + at, w, h, n->r[row], n->d);
    }
}

static enum weir_status rmsnorm_backward(const struct ops *ops, real *dx, bool add, real *dw, const real *dy,
                                         const real *x, const real *r, const void *w, int64_t rows, int64_t d,
                                         weir_stream stream) {
    union {
        const real *given;
        real *kept;
    } saved = {r};
    struct rmsnorm n = {dx, dw, saved.kept, dy, x, w, rows, d, ops->wire, add};
    return SUBMIT(ops, stream, "rmsnorm_backward", run_rmsnorm_backward, &n, 9 * rows * d, WRITES(dx, rows * d),
                  READS_IF(add, dx, rows * d), UPDATES(dw, d), READS(dy, rows * d), READS(x, rows * d), READS(r, rows),
                  READS_WIRE(w, ops->wire, d));
}

/* ---- SwiGLU ------------------------------------------------------------------------------------------------------ */

struct swiglu {
    real *h, *da, *db, *dgate; /* h forward, the others backward */
    const real *dh, *a, *b, *gate;
    int64_t rows, F;
};

static void run_swiglu_forward(void *argument) {
    const struct swiglu *s = argument;
    for (int64_t row = 0; row < s->rows; row++) {
        const real *a = s->a + row * s->F, *b = s->b + row * s->F;
        real *restrict h = s->h + row * s->F;
        real gate = s->gate ? s->gate[row] : 1;
        for (int64_t i = 0; i < s->F; i++) h[i] = a[i] * sigmoid(a[i]) * b[i] * gate;
    }
}

static enum weir_status swiglu_forward(const struct ops *ops, real *h, const real *a, const real *b, const real *gate,
                                       int64_t rows, int64_t F, weir_stream stream) {
    struct swiglu s = {.h = h, .a = a, .b = b, .gate = gate, .rows = rows, .F = F};
    return SUBMIT(ops, stream, "swiglu_forward", run_swiglu_forward, &s, 20 * rows * F, WRITES(h, rows * F),
                  READS(a, rows * F), READS(b, rows * F), READS(gate, rows));
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

static void run_swiglu_backward(void *argument) {
    const struct swiglu *s = argument;
    for (int64_t row = 0; row < s->rows; row++) {
        int64_t at = row * s->F;
        real gate = s->gate ? s->gate[row] : 1;
        swiglu_row(s->da + at, s->db + at, s->dh + at, s->a + at, s->b + at, gate, s->F);
        if (!s->gate) continue;
        s->dgate[row] = dot(s->db + at, s->b + at, s->F);
        scale_row(s->db + at, gate, s->F);
    }
}

static enum weir_status swiglu_backward(const struct ops *ops, real *da, real *db, real *dgate, const real *dh,
                                        const real *a, const real *b, const real *gate, int64_t rows, int64_t F,
                                        weir_stream stream) {
    assert(!gate == !dgate);
    struct swiglu s = {NULL, da, db, dgate, dh, a, b, gate, rows, F};
    return SUBMIT(ops, stream, "swiglu_backward", run_swiglu_backward, &s, 30 * rows * F, WRITES(da, rows * F),
                  WRITES(db, rows * F), WRITES(dgate, rows), READS(dh, rows * F), READS(a, rows * F),
                  READS(b, rows * F), READS(gate, rows));
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */

struct cross_entropy {
    double *loss;
    real *logits;
    const int32_t *targets;
    double scale;
    int64_t T, V;
    bool gradient;
};

/* Gives lse - z_target. */
static double cross_entropy_row(real *z, int64_t V, int32_t target, real scale, bool gradient) {
    assert(target < V);
    double aim = (double)z[target];
    real most = largest(z, V);
    real *exps = gradient ? z : cpu_reals(SLOT_ROW, V);
    real sum = exp_shifted(exps, z, most, V);
    if (gradient) {
        scale_row(z, scale / sum, V);
        z[target] -= scale;
    }
    return (double)most + log((double)sum) - aim;
}

static void run_cross_entropy(void *argument) {
    const struct cross_entropy *c = argument;
    for (int64_t t = 0; t < c->T; t++) {
        real *z = c->logits + t * c->V;
        if (c->targets[t] >= 0)
            *c->loss += c->scale * cross_entropy_row(z, c->V, c->targets[t], (real)c->scale, c->gradient);
        else if (c->gradient)
            memset(z, 0, (size_t)c->V * sizeof *z);
    }
}

static enum weir_status cross_entropy(const struct ops *ops, double *loss, real *logits, const int32_t *targets,
                                      double scale, bool gradient, int64_t T, int64_t V, weir_stream stream) {
    struct cross_entropy c = {loss, logits, targets, scale, T, V, gradient};
    return SUBMIT(ops, stream, "cross_entropy", run_cross_entropy, &c, 20 * T * V, UPDATES(loss, 1),
                  READS(logits, T * V), WRITES(logits, gradient ? T * V : 0), READS(targets, T));
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

struct elementwise {
    void *out;
    const void *a, *b;
    enum wire out_type, in_type;
    int64_t n;
};

static void run_add(void *argument) {
    const struct elementwise *e = argument;
    real *out = e->out;
    const real *a = e->a, *b = e->b;
    for (int64_t i = 0; i < e->n; i++) out[i] = a[i] + b[i];
}

static enum weir_status add(const struct ops *ops, real *out, const real *a, const real *b, int64_t n,
                            weir_stream stream) {
    struct elementwise e = {.out = out, .a = a, .b = b, .n = n};
    return SUBMIT(ops, stream, "add", run_add, &e, n, WRITES(out, n), READS(a, n), READS(b, n));
}

static void run_convert(void *argument) {
    const struct elementwise *e = argument;
    if (e->out_type == WIRE_REAL)
        widen(e->out, e->a, e->in_type, e->n);
    else if (e->in_type == WIRE_REAL)
        narrow(e->out, e->out_type, e->a, e->n);
    else if (e->n > 0)
        memcpy(e->out, e->a, (size_t)e->n * wire_bytes(WIRE_BF16));
}

static enum weir_status convert(const struct ops *ops, void *out, enum wire out_type, const void *in, enum wire in_type,
                                int64_t n, weir_stream stream) {
    struct elementwise e = {.out = out, .a = in, .out_type = out_type, .in_type = in_type, .n = n};
    return SUBMIT(ops, stream, "convert", run_convert, &e, n, WRITES_WIRE(out, out_type, n),
                  READS_WIRE(in, in_type, n));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct ops_table cpu_table = {
    .embed_forward = embed_forward,
    .embed_backward = embed_backward,
    .rmsnorm_forward = rmsnorm_forward,
    .rmsnorm_backward = rmsnorm_backward,
    .linear_forward = cpu_linear_forward,
    .linear_backward_input = cpu_linear_backward_input,
    .linear_backward_weight = cpu_linear_backward_weight,
    .rope = cpu_rope,
    .attention_forward = cpu_attention_forward,
    .attention_backward = cpu_attention_backward,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .router_forward = cpu_router_forward,
    .router_backward = cpu_router_backward,
    .route_plan = cpu_route_plan,
    .rows_gather = cpu_rows_gather,
    .rows_combine = cpu_rows_combine,
    .cross_entropy = cross_entropy,
    .add = add,
    .convert = convert,
    .sum_blocks = cpu_sum_blocks,
    .sum_squares = cpu_sum_squares,
    .clip = cpu_clip,
    .adamw = cpu_adamw,
    .muon_momentum = cpu_muon_momentum,
    .newton_schulz = cpu_newton_schulz,
    .newton_schulz_scratch = cpu_newton_schulz_scratch,
    .muon_apply = cpu_muon_apply,
};

/* Two BLAS threads a rank are slower than one at the trainer's sizes, and a stream's thread is busy anyway. */
enum weir_status ops_open_cpu(struct weir_device *device, enum wire wire, struct ops *out) {
    openblas_set_num_threads(1);
    *out = (struct ops){.name = "cpu", .device = device, .wire = wire, .table = &cpu_table};
    return WEIR_OK;
}
