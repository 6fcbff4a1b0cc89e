/* SPDX-License-Identifier: Apache-2.0 */
/* Every backward pass is the derivative of its forward pass: central differences in double, 1e-6 relative.
 *
 * The loss is sum(out * weights); `weights` is then the gradient that the backward pass is given. */
#include <math.h>

#include "tests/trainer/ops_fixture.h"

_Static_assert(sizeof(real) == sizeof(double), "differences need double");

typedef double (*loss_of)(void *problem);

enum {
    SAMPLE = 256
}; /* numbers of a tensor that are tried; the stride is odd or 1, so that none of a row is left out */

/* Differences of the loss in x against `gradient`; the error of h^2 and rounding over h stay near 1e-10. */
static void assert_gradient(const char *what, void *problem, loss_of loss, real *x, const real *gradient, int64_t n) {
    const real h = 1e-5;
    const int64_t stride = n / SAMPLE | 1;
    real picked[SAMPLE + 1];
    double differences[SAMPLE + 1];
    int64_t count = 0;
    for (int64_t i = 0; i < n && count < COUNT(picked); i += stride) {
        real kept = x[i];
        x[i] = kept + h;
        double above = loss(problem);
        x[i] = kept - h;
        double below = loss(problem);
        x[i] = kept;
        picked[count] = gradient[i];
        differences[count++] = (above - below) / (2 * h);
    }
    assert_near(what, picked, differences, count, 1e-6);
}

static void add_to(real *x, real shift, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += shift;
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

enum { EMBED_T = 7, EMBED_V = 5, EMBED_D = 3 };

struct embedding {
    struct rig rig;
    real *table, *out, *weights;
    int32_t *ids;
};

static double embedding_loss(void *problem) {
    struct embedding *p = problem;
    rig_done(&p->rig, p->rig.table->embed_forward(&p->rig.ops, p->out, p->table, p->ids, EMBED_T, EMBED_V, EMBED_D,
                                                  p->rig.stream));
    return dot_double(p->out, p->weights, EMBED_T * EMBED_D);
}

static void embedding_backward_is_the_derivative(void **state) {
    (void)state;
    struct embedding p;
    rig_open(&p.rig, WIRE_REAL);
    p.table = rig_random(&p.rig, EMBED_V * EMBED_D);
    p.out = rig_dirty(&p.rig, EMBED_T * EMBED_D);
    p.weights = rig_random(&p.rig, EMBED_T * EMBED_D);
    p.ids = rig_integers(&p.rig, EMBED_T, EMBED_V - 1); /* the last row is never used */
    real *gradient = rig_zeros(&p.rig, EMBED_V * EMBED_D);
    add_to(gradient, 0.5, EMBED_V * EMBED_D);
    rig_done(&p.rig, p.rig.table->embed_backward(&p.rig.ops, gradient, p.weights, p.ids, EMBED_T, EMBED_V, EMBED_D,
                                                 p.rig.stream));
    add_to(gradient, -0.5, EMBED_V * EMBED_D);
    assert_gradient("dtable", &p, embedding_loss, p.table, gradient, EMBED_V * EMBED_D);
    rig_close(&p.rig);
}

/* ---- RMSNorm ----------------------------------------------------------------------------------------------------- */

enum { NORM_ROWS = 3, NORM_D = 11 };

struct norm {
    struct rig rig;
    real *y, *r, *x, *w, *weights;
};

static double norm_loss(void *problem) {
    struct norm *p = problem;
    rig_done(&p->rig,
             p->rig.table->rmsnorm_forward(&p->rig.ops, p->y, p->r, p->x, p->w, NORM_ROWS, NORM_D, p->rig.stream));
    return dot_double(p->y, p->weights, NORM_ROWS * NORM_D);
}

static void check_norm(bool add) {
    struct norm p;
    rig_open(&p.rig, WIRE_REAL);
    const int64_t n = NORM_ROWS * NORM_D;
    p.y = rig_dirty(&p.rig, n), p.r = rig_dirty(&p.rig, NORM_ROWS);
    p.x = rig_random(&p.rig, n), p.w = rig_random(&p.rig, NORM_D), p.weights = rig_random(&p.rig, n);
    real *dx = add ? rig_zeros(&p.rig, n) : rig_dirty(&p.rig, n), *dw = rig_zeros(&p.rig, NORM_D);
    if (add) add_to(dx, 2, n);
    add_to(dw, 3, NORM_D);
    norm_loss(&p);
    rig_done(&p.rig, p.rig.table->rmsnorm_backward(&p.rig.ops, dx, add, dw, p.weights, p.x, p.r, p.w, NORM_ROWS, NORM_D,
                                                   p.rig.stream));
    if (add) add_to(dx, -2, n);
    add_to(dw, -3, NORM_D);
    assert_gradient("dx", &p, norm_loss, p.x, dx, n);
    assert_gradient("dw", &p, norm_loss, p.w, dw, NORM_D);
    rig_close(&p.rig);
}

static void rmsnorm_backward_is_the_derivative(void **state) {
    (void)state;
    check_norm(false);
}

static void rmsnorm_backward_adds_to_what_is_there(void **state) {
    (void)state;
    check_norm(true);
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

enum { LINEAR_IN = 5, LINEAR_OUT = 4, LINEAR_GROUPS = 4, LINEAR_ROWS = 6 };
static const int64_t linear_offsets[LINEAR_GROUPS + 1] = {0, 2, 2, 5, 6};

struct linear {
    struct rig rig;
    real *y, *x, *w, *weights;
    struct row_groups groups;
};

static double linear_loss(void *problem) {
    struct linear *p = problem;
    rig_done(&p->rig, p->rig.table->linear_forward(&p->rig.ops, p->y, false, p->x, p->w, p->groups, LINEAR_IN,
                                                   LINEAR_OUT, p->rig.stream));
    return dot_double(p->y, p->weights, LINEAR_ROWS * LINEAR_OUT);
}

static void check_linear(bool add) {
    struct linear p = {.groups = {LINEAR_GROUPS, linear_offsets}};
    const int64_t sizes[2] = {LINEAR_ROWS * LINEAR_IN, LINEAR_GROUPS * LINEAR_OUT * LINEAR_IN};
    rig_open(&p.rig, WIRE_REAL);
    p.y = rig_dirty(&p.rig, LINEAR_ROWS * LINEAR_OUT), p.weights = rig_random(&p.rig, LINEAR_ROWS * LINEAR_OUT);
    p.x = rig_random(&p.rig, sizes[0]), p.w = rig_random(&p.rig, sizes[1]);
    real *dx = rig_dirty(&p.rig, sizes[0]), *dw = rig_dirty(&p.rig, sizes[1]);
    for (int64_t i = 0; add && i < sizes[0]; i++) dx[i] = 1;
    for (int64_t i = 0; add && i < sizes[1]; i++) dw[i] = 1;
    rig_done(&p.rig, p.rig.table->linear_backward_input(&p.rig.ops, dx, add, p.weights, p.w, p.groups, LINEAR_IN,
                                                        LINEAR_OUT, p.rig.stream));
    rig_done(&p.rig, p.rig.table->linear_backward_weight(&p.rig.ops, dw, add, p.weights, p.x, p.groups, LINEAR_IN,
                                                         LINEAR_OUT, p.rig.stream));
    if (add) add_to(dx, -1, sizes[0]), add_to(dw, -1, sizes[1]);
    assert_gradient("dx", &p, linear_loss, p.x, dx, sizes[0]);
    assert_gradient("dW", &p, linear_loss, p.w, dw, sizes[1]);
    rig_close(&p.rig);
}

static void linear_backward_is_the_derivative(void **state) {
    (void)state;
    check_linear(false);
}

static void linear_backward_adds_to_what_is_there(void **state) {
    (void)state;
    check_linear(true);
}

/* ---- rotary embedding and attention ------------------------------------------------------------------------------ */

enum { ATTENTION_S = 70, ATTENTION_T = 140, ATTENTION_H = 4, ATTENTION_G = 2, ATTENTION_D = 4 };

struct attention {
    struct rig rig;
    real *o, *lse, *q, *k, *v, *turned, *weights;
};

/* q goes through the rotation too, so that both are checked together */
static double attention_loss(void *problem) {
    struct attention *p = problem;
    const struct ops_table *table = p->rig.table;
    const int64_t n = ATTENTION_T * ATTENTION_H * ATTENTION_D;
    for (int64_t i = 0; i < n; i++) p->turned[i] = p->q[i];
    rig_done(&p->rig,
             table->rope(&p->rig.ops, p->turned, ATTENTION_T, ATTENTION_S, ATTENTION_H, ATTENTION_D, 1, p->rig.stream));
    rig_done(&p->rig, table->attention_forward(&p->rig.ops, p->o, p->lse, p->turned, p->k, p->v, ATTENTION_T,
                                               ATTENTION_S, ATTENTION_H, ATTENTION_G, ATTENTION_D, p->rig.stream));
    return dot_double(p->o, p->weights, n);
}

/* Two sequences, each longer than a block of queries; two heads share a key. */
static void attention_and_rope_backward_are_the_derivative(void **state) {
    (void)state;
    struct attention p;
    rig_open(&p.rig, WIRE_REAL);
    const int64_t n = ATTENTION_T * ATTENTION_H * ATTENTION_D, kn = ATTENTION_T * ATTENTION_G * ATTENTION_D;
    p.o = rig_dirty(&p.rig, n), p.lse = rig_dirty(&p.rig, ATTENTION_T * ATTENTION_H);
    p.q = rig_random(&p.rig, n), p.k = rig_random(&p.rig, kn), p.v = rig_random(&p.rig, kn);
    p.turned = rig_dirty(&p.rig, n), p.weights = rig_random(&p.rig, n);
    real *dq = rig_dirty(&p.rig, n), *dk = rig_dirty(&p.rig, kn), *dv = rig_dirty(&p.rig, kn);
    attention_loss(&p);
    rig_done(&p.rig, p.rig.table->attention_backward(&p.rig.ops, dq, dk, dv, p.weights, p.o, p.lse, p.turned, p.k, p.v,
                                                     ATTENTION_T, ATTENTION_S, ATTENTION_H, ATTENTION_G, ATTENTION_D,
                                                     p.rig.stream));
    rig_done(&p.rig,
             p.rig.table->rope(&p.rig.ops, dq, ATTENTION_T, ATTENTION_S, ATTENTION_H, ATTENTION_D, -1, p.rig.stream));
    assert_gradient("dq", &p, attention_loss, p.q, dq, n);
    assert_gradient("dk", &p, attention_loss, p.k, dk, kn);
    assert_gradient("dv", &p, attention_loss, p.v, dv, kn);
    rig_close(&p.rig);
}

/* ---- SwiGLU ------------------------------------------------------------------------------------------------------ */

enum { GLU_ROWS = 3, GLU_F = 13 };

struct swiglu {
    struct rig rig;
    real *h, *a, *b, *gate, *weights;
};

static double swiglu_loss(void *problem) {
    struct swiglu *p = problem;
    rig_done(&p->rig,
             p->rig.table->swiglu_forward(&p->rig.ops, p->h, p->a, p->b, p->gate, GLU_ROWS, GLU_F, p->rig.stream));
    return dot_double(p->h, p->weights, GLU_ROWS * GLU_F);
}

static void check_swiglu(bool gated) {
    struct swiglu p;
    rig_open(&p.rig, WIRE_REAL);
    const int64_t n = GLU_ROWS * GLU_F;
    p.h = rig_dirty(&p.rig, n), p.weights = rig_random(&p.rig, n);
    p.a = rig_random(&p.rig, n), p.b = rig_random(&p.rig, n);
    p.gate = gated ? rig_random(&p.rig, GLU_ROWS) : NULL;
    real *da = rig_dirty(&p.rig, n), *db = rig_dirty(&p.rig, n), *dgate = gated ? rig_dirty(&p.rig, GLU_ROWS) : NULL;
    rig_done(&p.rig, p.rig.table->swiglu_backward(&p.rig.ops, da, db, dgate, p.weights, p.a, p.b, p.gate, GLU_ROWS,
                                                  GLU_F, p.rig.stream));
    assert_gradient("da", &p, swiglu_loss, p.a, da, n);
    assert_gradient("db", &p, swiglu_loss, p.b, db, n);
    if (gated) assert_gradient("dgate", &p, swiglu_loss, p.gate, dgate, GLU_ROWS);
    rig_close(&p.rig);
}

static void swiglu_backward_is_the_derivative(void **state) {
    (void)state;
    check_swiglu(false);
}

static void gated_swiglu_backward_is_the_derivative(void **state) {
    (void)state;
    check_swiglu(true);
}

/* ---- router ------------------------------------------------------------------------------------------------------ */

enum { ROUTER_T = 6, ROUTER_E = 7, ROUTER_K = 3 };

struct router {
    struct rig rig;
    real *scores, *gates, *logits, *bias, *weights;
    int32_t *ids;
};

static double router_loss(void *problem) {
    struct router *p = problem;
    rig_done(&p->rig, p->rig.table->router_forward(&p->rig.ops, p->scores, p->ids, p->gates, p->logits, p->bias, true,
                                                   ROUTER_T, ROUTER_E, ROUTER_K, 2.5, p->rig.stream));
    return dot_double(p->gates, p->weights, ROUTER_T * ROUTER_K);
}

static void router_backward_is_the_derivative_of_the_gates(void **state) {
    (void)state;
    struct router p;
    rig_open(&p.rig, WIRE_REAL);
    p.scores = rig_dirty(&p.rig, ROUTER_T * ROUTER_E), p.gates = rig_dirty(&p.rig, ROUTER_T * ROUTER_K);
    p.logits = rig_random(&p.rig, ROUTER_T * ROUTER_E), p.bias = rig_random(&p.rig, ROUTER_E);
    p.weights = rig_random(&p.rig, ROUTER_T * ROUTER_K);
    p.ids = rig_bytes(&p.rig, ROUTER_T * ROUTER_K * sizeof *p.ids);
    real *dlogits = rig_dirty(&p.rig, ROUTER_T * ROUTER_E);
    rig_done(&p.rig, p.rig.table->router_forward(&p.rig.ops, p.scores, p.ids, p.gates, p.logits, p.bias, false,
                                                 ROUTER_T, ROUTER_E, ROUTER_K, 2.5, p.rig.stream));
    rig_done(&p.rig, p.rig.table->router_backward(&p.rig.ops, dlogits, p.weights, p.scores, p.ids, ROUTER_T, ROUTER_E,
                                                  ROUTER_K, 2.5, p.rig.stream));
    assert_gradient("dlogits", &p, router_loss, p.logits, dlogits, ROUTER_T * ROUTER_E);
    rig_close(&p.rig);
}

/* ---- rows and loss ----------------------------------------------------------------------------------------------- */

enum { ROWS_T = 5, ROWS_K = 2, ROWS_N = ROWS_T * ROWS_K, ROWS_D = 3, ROWS_E = 3 };

/* Gathering by `order` and combining by `slot` are each other's transpose: <gather(x), y> = <x, combine(y)>. */
static void gather_and_combine_are_each_others_backward(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    int32_t *ids = rig_integers(&rig, ROWS_N, ROWS_E), *order = rig_bytes(&rig, ROWS_N * sizeof *order);
    int32_t *slot = rig_bytes(&rig, ROWS_N * sizeof *slot), *counts = rig_bytes(&rig, ROWS_E * sizeof *counts);
    real *x = rig_random(&rig, ROWS_T * ROWS_D), *y = rig_random(&rig, ROWS_N * ROWS_D);
    real *gathered = rig_dirty(&rig, ROWS_N * ROWS_D), *combined = rig_dirty(&rig, ROWS_T * ROWS_D);
    rig_done(&rig, rig.table->route_plan(&rig.ops, order, slot, counts, ids, ROWS_T, ROWS_E, ROWS_K, rig.stream));
    rig_done(&rig, rig.table->rows_gather(&rig.ops, gathered, WIRE_REAL, x, WIRE_REAL, order, ROWS_K, ROWS_N, ROWS_T,
                                          ROWS_D, rig.stream));
    rig_done(&rig, rig.table->rows_combine(&rig.ops, combined, false, y, WIRE_REAL, slot, ROWS_T, ROWS_K, ROWS_N,
                                           ROWS_D, rig.stream));
    double there = dot_double(gathered, y, ROWS_N * ROWS_D), back = dot_double(x, combined, ROWS_T * ROWS_D);
    assert_true(fabs(there - back) < 1e-12 && fabs(there) > 1e-3);
    rig_close(&rig);
}

enum { LOSS_T = 4, LOSS_V = 9 };

struct loss {
    struct rig rig;
    double *sum;
    real *logits;
    int32_t *targets;
};

static double cross_entropy_loss(void *problem) {
    struct loss *p = problem;
    *p->sum = 0;
    rig_done(&p->rig, p->rig.table->cross_entropy(&p->rig.ops, p->sum, p->logits, p->targets, 0.25, false, LOSS_T,
                                                  LOSS_V, p->rig.stream));
    return *p->sum;
}

static void cross_entropy_gradient_is_the_derivative(void **state) {
    (void)state;
    struct loss p;
    rig_open(&p.rig, WIRE_REAL);
    p.sum = rig_bytes(&p.rig, sizeof *p.sum);
    *p.sum = 0;
    p.logits = rig_random(&p.rig, LOSS_T * LOSS_V);
    p.targets = rig_ids(&p.rig, LOSS_T, (const int32_t[LOSS_T]){3, -100, 0, 8});
    real *gradient = rig_dirty(&p.rig, LOSS_T * LOSS_V);
    for (int64_t i = 0; i < LOSS_T * LOSS_V; i++) gradient[i] = p.logits[i];
    rig_done(&p.rig, p.rig.table->cross_entropy(&p.rig.ops, p.sum, gradient, p.targets, 0.25, true, LOSS_T, LOSS_V,
                                                p.rig.stream));
    assert_gradient("dlogits", &p, cross_entropy_loss, p.logits, gradient, LOSS_T * LOSS_V);
    rig_close(&p.rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_backward_is_the_derivative),
        cmocka_unit_test(rmsnorm_backward_is_the_derivative),
        cmocka_unit_test(rmsnorm_backward_adds_to_what_is_there),
        cmocka_unit_test(linear_backward_is_the_derivative),
        cmocka_unit_test(linear_backward_adds_to_what_is_there),
        cmocka_unit_test(attention_and_rope_backward_are_the_derivative),
        cmocka_unit_test(swiglu_backward_is_the_derivative),
        cmocka_unit_test(gated_swiglu_backward_is_the_derivative),
        cmocka_unit_test(router_backward_is_the_derivative_of_the_gates),
        cmocka_unit_test(gather_and_combine_are_each_others_backward),
        cmocka_unit_test(cross_entropy_gradient_is_the_derivative),
    };
    return cmocka_run_group_tests_name("trainer ops: gradients", tests, NULL, NULL);
}
