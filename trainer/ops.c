/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations: each call is checked, described (arguments, accesses, cost) and submitted; a leaf does it. */
#include "trainer/ops_work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- submission -------------------------------------------------------------------------------------------------- */

/* Lines of an access list: `n` numbers at `at`. A NULL address or no bytes: left out when submitted. */
#define READS(at, n)                                                                                                   \
    { (at), (size_t)(n) * sizeof *(at), false }
#define WRITES(at, n)                                                                                                  \
    { (at), (size_t)(n) * sizeof *(at), true }
#define UPDATES(at, n) READS(at, n), WRITES(at, n)
#define READS_WIRE(at, type, n)                                                                                        \
    { (at), (size_t)(n)*wire_bytes(type), false }
#define WRITES_WIRE(at, type, n)                                                                                       \
    { (at), (size_t)(n)*wire_bytes(type), true }
/* `add`: what is written is read before */
#define STORES(add, at, n) {(at), (add) ? (size_t)(n) * sizeof *(at) : 0, false}, WRITES(at, n)

enum { MOST_ACCESSES = 16 };

static const char *const names[OPS_COUNT] = {
#define OPS_NAME(op) [OP_##op] = #op,
    OPS_LIST(OPS_NAME)
#undef OPS_NAME
};

static enum weir_status submit(const struct ops *ops, enum op op, void *arguments, size_t argument_bytes, double flops,
                               weir_stream stream, const struct weir_access *accesses, size_t access_count) {
    struct weir_access kept[MOST_ACCESSES];
    struct weir_work work = {.name = names[op],
                             .run = ops->leaf->run[op],
                             .launch = ops->leaf->launch[op],
                             .argument = arguments,
                             .argument_bytes = argument_bytes,
                             .accesses = kept,
                             .flops = flops};
    if (!work.run && !work.launch) return WEIR_NOT_SUPPORTED;
    assert(access_count <= MOST_ACCESSES);
    for (size_t i = 0; i < access_count; i++) {
        if (!accesses[i].address || !accesses[i].bytes) continue;
        kept[work.access_count++] = accesses[i];
        work.bytes += (double)accesses[i].bytes;
    }
    return weir_device_submit(ops->device, &work, stream);
}

/* SUBMIT(ops, operation, &arguments, flops, stream, accesses...) */
#define SUBMIT(ops, op, arguments, flops, stream, ...)                                                                 \
    submit((ops), OP_##op, (arguments), sizeof *(arguments), (double)(flops), (stream),                                \
           (const struct weir_access[]){__VA_ARGS__},                                                                  \
           sizeof((const struct weir_access[]){__VA_ARGS__}) / sizeof(struct weir_access))

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static enum weir_status embed_forward(const struct ops *ops, real *out, const void *table, const int32_t *ids,
                                      int64_t T, int64_t V, int64_t d, weir_stream stream) {
    struct embed_args e = {out, table, ids, T, V, d, ops->wire};
    return SUBMIT(ops, embed_forward, &e, 0, stream, WRITES(out, T * d), READS(ids, T),
                  READS_WIRE(table, ops->wire, V * d));
}

static enum weir_status embed_backward(const struct ops *ops, real *dtable, const real *dout, const int32_t *ids,
                                       int64_t T, int64_t V, int64_t d, weir_stream stream) {
    struct embed_args e = {dtable, dout, ids, T, V, d, WIRE_REAL};
    return SUBMIT(ops, embed_backward, &e, T * d, stream, UPDATES(dtable, V * d), READS(dout, T * d), READS(ids, T));
}

static enum weir_status rmsnorm_forward(const struct ops *ops, real *y, real *r, const real *x, const void *w,
                                        int64_t rows, int64_t d, weir_stream stream) {
    struct rmsnorm_args n = {.y = y, .r_out = r, .x = x, .w = w, .rows = rows, .d = d, .wire = ops->wire};
    return SUBMIT(ops, rmsnorm_forward, &n, 4 * rows * d, stream, WRITES(y, rows * d), WRITES(r, rows),
                  READS(x, rows * d), READS_WIRE(w, ops->wire, d));
}

static enum weir_status rmsnorm_backward(const struct ops *ops, real *dx, bool add, real *dw, const real *dy,
                                         const real *x, const real *r, const void *w, int64_t rows, int64_t d,
                                         weir_stream stream) {
    struct rmsnorm_args n = {
        .dx = dx, .dw = dw, .dy = dy, .x = x, .r = r, .w = w, .rows = rows, .d = d, .wire = ops->wire, .add = add};
    return SUBMIT(ops, rmsnorm_backward, &n, 9 * rows * d, stream, STORES(add, dx, rows * d), UPDATES(dw, d),
                  READS(dy, rows * d), READS(x, rows * d), READS(r, rows), READS_WIRE(w, ops->wire, d));
}

static enum weir_status rope(const struct ops *ops, real *x, int64_t T, int64_t S, int64_t heads, int64_t D,
                             int direction, weir_stream stream) {
    assert(S > 0 && D % 2 == 0 && (direction == 1 || direction == -1));
    struct rope_args r = {x, T, S, heads, D, direction};
    return SUBMIT(ops, rope, &r, 3 * T * heads * D, stream, UPDATES(x, T * heads * D));
}

static enum weir_status swiglu_forward(const struct ops *ops, real *h, const real *a, const real *b, const real *gate,
                                       int64_t rows, int64_t F, weir_stream stream) {
    struct swiglu_args s = {.h = h, .a = a, .b = b, .gate = gate, .rows = rows, .F = F};
    return SUBMIT(ops, swiglu_forward, &s, 20 * rows * F, stream, WRITES(h, rows * F), READS(a, rows * F),
                  READS(b, rows * F), READS(gate, rows));
}

static enum weir_status swiglu_backward(const struct ops *ops, real *da, real *db, real *dgate, const real *dh,
                                        const real *a, const real *b, const real *gate, int64_t rows, int64_t F,
                                        weir_stream stream) {
    assert(!gate == !dgate);
    struct swiglu_args s = {NULL, da, db, dgate, dh, a, b, gate, rows, F};
    return SUBMIT(ops, swiglu_backward, &s, 30 * rows * F, stream, WRITES(da, rows * F), WRITES(db, rows * F),
                  WRITES(dgate, rows), READS(dh, rows * F), READS(a, rows * F), READS(b, rows * F), READS(gate, rows));
}

static enum weir_status cross_entropy(const struct ops *ops, double *loss, real *logits, const int32_t *targets,
                                      double scale, bool gradient, int64_t T, int64_t V, weir_stream stream) {
    struct cross_entropy_args c = {loss, logits, targets, scale, T, V, gradient};
    return SUBMIT(ops, cross_entropy, &c, 20 * T * V, stream, UPDATES(loss, 1), READS(logits, T * V),
                  WRITES(logits, gradient ? T * V : 0), READS(targets, T));
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

static int64_t rows_of(struct row_groups groups) { return groups.offsets[groups.count]; }

/* The offsets ride behind the arguments, since the caller's may be gone when the work runs. */
static enum weir_status submit_linear(const struct ops *ops, enum op op, const struct linear_args *linear,
                                      struct row_groups groups, weir_stream stream, const struct weir_access *accesses,
                                      size_t access_count) {
    assert(groups.count > 0 && groups.offsets[0] == 0);
    for (int g = 0; g < groups.count; g++) assert(groups.offsets[g] <= groups.offsets[g + 1]);
    size_t offsets_bytes = (size_t)(groups.count + 1) * sizeof *groups.offsets;
    struct linear_args *whole = malloc(sizeof *whole + offsets_bytes);
    if (!whole) return WEIR_OUT_OF_HOST_MEMORY;
    *whole = *linear;
    whole->state = ops->state;
    whole->count = groups.count;
    memcpy(whole->offsets, groups.offsets, offsets_bytes);
    double flops = 2.0 * (double)rows_of(groups) * (double)linear->in * (double)linear->out;
    enum weir_status status =
        submit(ops, op, whole, sizeof *whole + offsets_bytes, flops, stream, accesses, access_count);
    free(whole);
    return status;
}

static enum weir_status linear_forward(const struct ops *ops, real *y, bool add, const real *x, const void *w,
                                       struct row_groups groups, int64_t in, int64_t out, weir_stream stream) {
    struct linear_args l = {.result = y, .left = x, .right = w, .in = in, .out = out, .wire = ops->wire, .add = add};
    int64_t rows = rows_of(groups);
    const struct weir_access accesses[] = {STORES(add, y, rows * out), READS(x, rows * in),
                                           READS_WIRE(w, ops->wire, rows ? groups.count * in * out : 0)};
    return submit_linear(ops, OP_linear_forward, &l, groups, stream, accesses, sizeof accesses / sizeof *accesses);
}

static enum weir_status linear_backward_input(const struct ops *ops, real *dx, bool add, const real *dy, const void *w,
                                              struct row_groups groups, int64_t in, int64_t out, weir_stream stream) {
    struct linear_args l = {.result = dx, .left = dy, .right = w, .in = in, .out = out, .wire = ops->wire, .add = add};
    int64_t rows = rows_of(groups);
    const struct weir_access accesses[] = {STORES(add, dx, rows * in), READS(dy, rows * out),
                                           READS_WIRE(w, ops->wire, rows ? groups.count * in * out : 0)};
    return submit_linear(ops, OP_linear_backward_input, &l, groups, stream, accesses,
                         sizeof accesses / sizeof *accesses);
}

static enum weir_status linear_backward_weight(const struct ops *ops, real *dw, bool add, const real *dy, const real *x,
                                               struct row_groups groups, int64_t in, int64_t out, weir_stream stream) {
    struct linear_args l = {.result = dw, .left = dy, .right = x, .in = in, .out = out, .wire = WIRE_REAL, .add = add};
    int64_t rows = rows_of(groups);
    const struct weir_access accesses[] = {STORES(add, dw, groups.count * in * out), READS(dy, rows * out),
                                           READS(x, rows * in)};
    return submit_linear(ops, OP_linear_backward_weight, &l, groups, stream, accesses,
                         sizeof accesses / sizeof *accesses);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Of one product of queries and keys, the causal half. */
static double product_flops(const struct attention_args *a) {
    assert(a->S > 0 && a->D > 0 && a->G > 0 && a->T % a->S == 0 && a->H % a->G == 0);
    return (double)(a->T * a->H) * (double)((a->S + 1) * a->D);
}

static enum weir_status attention_forward(const struct ops *ops, real *o, real *lse, const real *q, const real *k,
                                          const real *v, int64_t T, int64_t S, int64_t H, int64_t G, int64_t D,
                                          weir_stream stream) {
    struct attention_args a = {
        .o_out = o, .lse_out = lse, .q = q, .k = k, .v = v, .T = T, .S = S, .H = H, .G = G, .D = D};
    return SUBMIT(ops, attention_forward, &a, 2 * product_flops(&a), stream, WRITES(o, T * H * D), WRITES(lse, T * H),
                  READS(q, T * H * D), READS(k, T * G * D), READS(v, T * G * D));
}

static enum weir_status attention_backward(const struct ops *ops, real *dq, real *dk, real *dv, const real *dout,
                                           const real *o, const real *lse, const real *q, const real *k, const real *v,
                                           int64_t T, int64_t S, int64_t H, int64_t G, int64_t D, weir_stream stream) {
    struct attention_args a = {NULL, NULL, dq, dk, dv, dout, o, lse, q, k, v, T, S, H, G, D};
    return SUBMIT(ops, attention_backward, &a, 5 * product_flops(&a), stream, WRITES(dq, T * H * D),
                  WRITES(dk, T * G * D), WRITES(dv, T * G * D), READS(dout, T * H * D), READS(o, T * H * D),
                  READS(lse, T * H), READS(q, T * H * D), READS(k, T * G * D), READS(v, T * G * D));
}

/* ---- routing ----------------------------------------------------------------------------------------------------- */

static enum weir_status router_forward(const struct ops *ops, real *scores, int32_t *ids, real *gates,
                                       const real *logits, const real *bias, bool replay, int64_t T, int64_t E,
                                       int64_t K, real scale, weir_stream stream) {
    assert(K > 0 && K <= E);
    struct router_args r = {.scores_out = scores,
                            .gates = gates,
                            .ids_out = ids,
                            .logits = logits,
                            .bias = bias,
                            .state = ops->state,
                            .T = T,
                            .E = E,
                            .K = K,
                            .scale = scale,
                            .replay = replay};
    const struct weir_access chosen = {ids, (size_t)(T * K) * sizeof *ids, !replay};
    return SUBMIT(ops, router_forward, &r, 20 * T * E, stream, chosen, WRITES(scores, T * E), WRITES(gates, T * K),
                  READS(logits, T * E), READS(bias, replay ? 0 : E));
}

static enum weir_status router_backward(const struct ops *ops, real *dlogits, const real *dgates, const real *scores,
                                        const int32_t *ids, int64_t T, int64_t E, int64_t K, real scale,
                                        weir_stream stream) {
    struct router_args r = {
        .dlogits = dlogits, .dgates = dgates, .scores = scores, .ids = ids, .T = T, .E = E, .K = K, .scale = scale};
    return SUBMIT(ops, router_backward, &r, 10 * T * K + T * E, stream, WRITES(dlogits, T * E), READS(dgates, T * K),
                  READS(scores, T * E), READS(ids, T * K));
}

static enum weir_status route_plan(const struct ops *ops, int32_t *order, int32_t *slot, int32_t *counts,
                                   const int32_t *ids, int64_t T, int64_t E, int64_t K, weir_stream stream) {
    assert(E > 0 && T * K <= INT32_MAX);
    struct plan_args p = {order, slot, counts, ids, T, E, K};
    return SUBMIT(ops, route_plan, &p, 0, stream, WRITES(order, T * K), WRITES(slot, T * K), WRITES(counts, E),
                  READS(ids, T * K));
}

static enum weir_status rows_gather(const struct ops *ops, void *out, enum wire out_type, const void *in,
                                    enum wire in_type, const int32_t *index, int64_t divide, int64_t N, int64_t in_rows,
                                    int64_t d, weir_stream stream) {
    assert(divide > 0);
    struct rows_args r = {.out = out,
                          .in = in,
                          .index = index,
                          .out_rows = N,
                          .in_rows = in_rows,
                          .d = d,
                          .divide = divide,
                          .out_type = out_type,
                          .in_type = in_type};
    return SUBMIT(ops, rows_gather, &r, 0, stream, WRITES_WIRE(out, out_type, N * d),
                  READS_WIRE(in, in_type, N ? in_rows * d : 0), READS(index, N));
}

static enum weir_status rows_combine(const struct ops *ops, real *out, bool add, const void *in, enum wire in_type,
                                     const int32_t *slot, int64_t T, int64_t K, int64_t N, int64_t d,
                                     weir_stream stream) {
    assert(K > 0);
    struct rows_args r = {.out = out,
                          .in = in,
                          .index = slot,
                          .out_rows = T,
                          .in_rows = N,
                          .d = d,
                          .K = K,
                          .in_type = in_type,
                          .add = add};
    return SUBMIT(ops, rows_combine, &r, T * K * d, stream, STORES(add, out, T * d),
                  READS_WIRE(in, in_type, T ? N * d : 0), READS(slot, T * K));
}

/* ---- elementwise, gradients -------------------------------------------------------------------------------------- */

static enum weir_status add(const struct ops *ops, real *out, const real *a, const real *b, int64_t n,
                            weir_stream stream) {
    struct add_args e = {out, a, b, n};
    return SUBMIT(ops, add, &e, n, stream, WRITES(out, n), READS(a, n), READS(b, n));
}

static enum weir_status convert(const struct ops *ops, void *out, enum wire out_type, const void *in, enum wire in_type,
                                int64_t n, weir_stream stream) {
    struct convert_args c = {out, in, out_type, in_type, n};
    return SUBMIT(ops, convert, &c, n, stream, WRITES_WIRE(out, out_type, n), READS_WIRE(in, in_type, n));
}

static enum weir_status sum_blocks(const struct ops *ops, real *out, bool add, const void *in, int64_t W, int64_t n,
                                   weir_stream stream) {
    assert(W > 0);
    struct sum_blocks_args s = {out, in, W, n, ops->wire, add};
    return SUBMIT(ops, sum_blocks, &s, W * n, stream, STORES(add, out, n), READS_WIRE(in, ops->wire, W * n));
}

static enum weir_status sum_squares(const struct ops *ops, double *sum, const real *x, int64_t n, weir_stream stream) {
    struct sum_squares_args s = {sum, x, n};
    return SUBMIT(ops, sum_squares, &s, 2 * n, stream, UPDATES(sum, 1), READS(x, n));
}

static enum weir_status clip(const struct ops *ops, real *x, const double *sum, double limit, int64_t n,
                             weir_stream stream) {
    struct clip_args c = {x, sum, limit, n};
    return SUBMIT(ops, clip, &c, n, stream, UPDATES(x, n), READS(sum, 1));
}

/* ---- optimizer --------------------------------------------------------------------------------------------------- */

static enum weir_status adamw(const struct ops *ops, real *p, real *m, real *v, const real *g, int64_t n, double lr,
                              double beta1, double beta2, double eps, double decay, int64_t t, weir_stream stream) {
    assert(t >= 1);
    struct adamw_args a = {.p = p,
                           .m = m,
                           .v = v,
                           .g = g,
                           .n = n,
                           .beta1 = (real)beta1,
                           .fresh1 = (real)(1 - beta1),
                           .beta2 = (real)beta2,
                           .fresh2 = (real)(1 - beta2),
                           .eps = (real)eps,
                           .keep = (real)(1 - lr * decay),
                           .step = (real)(lr / (1 - pow(beta1, (double)t))),
                           .root = (real)(1 / sqrt(1 - pow(beta2, (double)t)))};
    return SUBMIT(ops, adamw, &a, 14 * n, stream, UPDATES(p, n), UPDATES(m, n), UPDATES(v, n), READS(g, n));
}

static enum weir_status muon_momentum(const struct ops *ops, real *u, real *m, const real *g, double mu, int64_t n,
                                      weir_stream stream) {
    struct momentum_args s = {u, m, g, (real)mu, n};
    return SUBMIT(ops, muon_momentum, &s, 4 * n, stream, WRITES(u, n), UPDATES(m, n), READS(g, n));
}

static int64_t newton_schulz_scratch(int64_t rows, int64_t cols) {
    int64_t side = shorter(rows, cols);
    return 2 * side * side + rows * cols;
}

static enum weir_status newton_schulz(const struct ops *ops, real *u, real *scratch, int64_t count, int64_t rows,
                                      int64_t cols, weir_stream stream) {
    assert(rows > 0 && cols > 0);
    struct newton_schulz_args s = {u, scratch, ops->state, count, rows, cols};
    double side = (double)shorter(rows, cols), numbers = (double)(rows * cols);
    return SUBMIT(ops, newton_schulz, &s, (double)count * 10 * side * (2 * numbers + side * side), stream,
                  UPDATES(u, count * rows * cols), WRITES(scratch, newton_schulz_scratch(rows, cols)));
}

static enum weir_status muon_apply(const struct ops *ops, real *p, const real *u, double lr, double decay, double scale,
                                   int64_t n, weir_stream stream) {
    struct muon_apply_args s = {p, u, (real)(1 - lr * decay), (real)(lr * scale), n};
    return SUBMIT(ops, muon_apply, &s, 3 * n, stream, UPDATES(p, n), READS(u, n));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct ops_table table = {
#define OPS_MEMBER(op) .op = op,
    OPS_LIST(OPS_MEMBER)
#undef OPS_MEMBER
        .newton_schulz_scratch = newton_schulz_scratch,
};

void ops_open(struct weir_device *device, enum wire wire, const char *name, const char *lacks,
              const struct ops_leaf *leaf, void *state, struct ops *out) {
    *out = (struct ops){name, lacks, device, wire, &table, leaf, state, NULL};
}
