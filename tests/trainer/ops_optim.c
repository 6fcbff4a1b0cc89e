/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient sums in rank order, the norm, clipping, AdamW and Muon's elementwise parts, against scalar references. */
#include <math.h>
#include <string.h>

#include "tests/trainer/ops_fixture.h"
#include "trainer/ops_math.h"

/* 2^24 swallows a 1 that comes after it, not two that come before: only the order tells the results apart. */
static void blocks_are_summed_in_rank_order(void **state) {
    (void)state;
    enum { N = 1500 }; /* more than one chunk */
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *in = rig_dirty(&rig, 3 * N), *out = rig_dirty(&rig, N);
    for (int i = 0; i < N; i++) in[i] = 1, in[N + i] = 1, in[2 * N + i] = 16777216;
    in[0] = 16777216, in[2 * N] = 1;
    rig_done(&rig, rig.table->sum_blocks(&rig.ops, out, false, in, 3, N, rig.stream));
    assert_true(out[0] == 16777216);
    for (int i = 1; i < N; i++) assert_true(out[i] == 16777218);
    rig_close(&rig);
}

static void bf16_blocks_are_summed_in_full_precision(void **state) {
    (void)state;
    enum { N = 8, W = 300 };
    struct rig rig;
    rig_open(&rig, WIRE_BF16);
    uint16_t *in = rig_bytes(&rig, W * N * sizeof *in);
    real *out = rig_dirty(&rig, N);
    for (int i = 0; i < W * N; i++) in[i] = bf16_from_float(1);
    rig_done(&rig, rig.table->sum_blocks(&rig.ops, out, false, in, W, N, rig.stream)); /* bf16 sums stop at 256 */
    for (int i = 0; i < N; i++) assert_true(out[i] == W);
    rig_done(&rig, rig.table->sum_blocks(&rig.ops, out, true, in, 1, N, rig.stream));
    for (int i = 0; i < N; i++) assert_true(out[i] == W + 1);
    rig_close(&rig);
}

static void the_norm_adds_up_over_buffers(void **state) {
    (void)state;
    enum { N = 1003 };
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *x = rig_random(&rig, N), *y = rig_random(&rig, 5);
    double *sum = rig_bytes(&rig, sizeof *sum), expected = dot_double(x, x, N) + dot_double(y, y, 5);
    *sum = 0;
    rig_done(&rig, rig.table->sum_squares(&rig.ops, sum, x, N, rig.stream));
    rig_done(&rig, rig.table->sum_squares(&rig.ops, sum, y, 5, rig.stream));
    assert_true(fabs(*sum - expected) < 1e-12 * expected);
    rig_close(&rig);
}

static void clipping_scales_to_the_limit_and_leaves_smaller_norms(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *x = rig_values(&rig, 2, (const double[2]){3, -4});
    double *sum = rig_bytes(&rig, sizeof *sum);
    *sum = 25;
    rig_done(&rig, rig.table->clip(&rig.ops, x, sum, 5.1, 2, rig.stream));
    assert_true(x[0] == 3 && x[1] == -4);
    rig_done(&rig, rig.table->clip(&rig.ops, x, sum, 1, 2, rig.stream));
    const double factor = 1 / (5 + 1e-6);
    assert_near("clipped", x, (const double[2]){3 * factor, -4 * factor}, 2, 1e-7);
    *sum = NAN;
    rig_done(&rig, rig.table->clip(&rig.ops, x, sum, 1, 2, rig.stream));
    assert_true(isnan(x[0]) && isnan(x[1]));
    rig_close(&rig);
}

static void adamw_matches_the_scalar_formula_over_steps(void **state) {
    (void)state;
    enum { N = 37 };
    const double lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *p = rig_random(&rig, N), *m = rig_zeros(&rig, N), *v = rig_zeros(&rig, N);
    double ep[N], em[N] = {0}, ev[N] = {0};
    for (int i = 0; i < N; i++) ep[i] = (double)p[i];
    for (int t = 1; t <= 5; t++) {
        real *g = rig_random(&rig, N);
        for (int i = 0; i < N; i++) {
            double x = (double)g[i];
            em[i] = beta1 * em[i] + (1 - beta1) * x;
            ev[i] = beta2 * ev[i] + (1 - beta2) * x * x;
            ep[i] = ep[i] * (1 - lr * decay) -
                    lr * (em[i] / (1 - pow(beta1, t))) / (sqrt(ev[i] / (1 - pow(beta2, t))) + eps);
        }
        rig_done(&rig, rig.table->adamw(&rig.ops, p, m, v, g, N, lr, beta1, beta2, eps, decay, t, rig.stream));
    }
    assert_near("p", p, ep, N, 2e-7), assert_near("m", m, em, N, 2e-7), assert_near("v", v, ev, N, 2e-7);
    rig_close(&rig);
}

static void muon_looks_ahead_and_applies_with_decay(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *g = rig_values(&rig, 2, (const double[2]){1, -2}), *m = rig_values(&rig, 2, (const double[2]){10, 20});
    real *u = rig_dirty(&rig, 2), *p = rig_values(&rig, 2, (const double[2]){1, 1});
    rig_done(&rig, rig.table->muon_momentum(&rig.ops, u, m, g, 0.5, 2, rig.stream));
    assert_true(m[0] == 6 && m[1] == 8);
    assert_true(u[0] == 4 && u[1] == 2);
    rig_done(&rig, rig.table->muon_apply(&rig.ops, p, u, 0.25, 0.5, 0.125, 2, rig.stream));
    assert_true(p[0] == 0.875f - 0.125f && p[1] == 0.875f - 0.0625f);
    rig_close(&rig);
}

static void add_may_work_in_place(void **state) {
    (void)state;
    enum { N = 101 };
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *a = rig_random(&rig, N), *b = rig_random(&rig, N), *out = rig_dirty(&rig, N);
    rig_done(&rig, rig.table->add(&rig.ops, out, a, b, N, rig.stream));
    for (int i = 0; i < N; i++) assert_true(out[i] == a[i] + b[i]);
    rig_done(&rig, rig.table->add(&rig.ops, a, a, b, N, rig.stream));
    assert_memory_equal(a, out, N * sizeof *a);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_summed_in_rank_order),
        cmocka_unit_test(bf16_blocks_are_summed_in_full_precision),
        cmocka_unit_test(the_norm_adds_up_over_buffers),
        cmocka_unit_test(clipping_scales_to_the_limit_and_leaves_smaller_norms),
        cmocka_unit_test(adamw_matches_the_scalar_formula_over_steps),
        cmocka_unit_test(muon_looks_ahead_and_applies_with_decay),
        cmocka_unit_test(add_may_work_in_place),
    };
    return cmocka_run_group_tests_name("trainer ops: optimizer", tests, NULL, NULL);
}
