/* SPDX-License-Identifier: Apache-2.0 */
/* The router takes the K best of scores + bias, the lower id on a tie; the gates come from the scores alone; the plan
 * is a stable sort by expert. */
#include <math.h>

#include "tests/trainer/ops_fixture.h"

struct routing {
    struct rig rig;
    real *scores, *gates, *bias, *logits;
    int32_t *ids;
};

static void route(struct routing *r, const double *logits, const double *bias, int64_t T, int64_t E, int64_t K,
                  double scale) {
    rig_open(&r->rig, WIRE_REAL);
    r->logits = rig_values(&r->rig, T * E, logits);
    r->bias = rig_values(&r->rig, E, bias);
    r->scores = rig_dirty(&r->rig, T * E), r->gates = rig_dirty(&r->rig, T * K);
    r->ids = rig_bytes(&r->rig, (size_t)(T * K) * sizeof *r->ids);
    rig_done(&r->rig, r->rig.table->router_forward(&r->rig.ops, r->scores, r->ids, r->gates, r->logits, r->bias, false,
                                                   T, E, K, (real)scale, r->rig.stream));
}

static const double no_bias[8];

static void the_best_experts_come_best_first(void **state) {
    (void)state;
    struct routing r;
    route(&r, (const double[8]){2, -1, .5, .4, -2, 3, .1, .2}, no_bias, 1, 8, 4, 2.5);
    assert_memory_equal(r.ids, ((const int32_t[4]){5, 0, 2, 3}), 4 * sizeof *r.ids);
    const double s[4] = {1 / (1 + exp(-3.)), 1 / (1 + exp(-2.)), 1 / (1 + exp(-.5)), 1 / (1 + exp(-.4))};
    const double sum = s[0] + s[1] + s[2] + s[3];
    assert_near("gates", r.gates,
                (const double[4]){2.5 * s[0] / sum, 2.5 * s[1] / sum, 2.5 * s[2] / sum, 2.5 * s[3] / sum}, 4, 1e-6);
    rig_close(&r.rig);
}

static double logit(double p) { return log(p / (1 - p)); }

/* All choices are negative: a masked or initial value of 0 would win against them. */
static void the_bias_moves_the_choice_but_never_the_gates(void **state) {
    (void)state;
    struct routing r;
    const double scores[8] = {.50, .40, .45, .30, .42, .41, .10, .05};
    double logits[8];
    for (int e = 0; e < 8; e++) logits[e] = logit(scores[e]);
    route(&r, logits, (const double[8]){-1, -2, -2, -2, -1, -1, -2, -2}, 1, 8, 3, 1);
    assert_memory_equal(r.ids, ((const int32_t[3]){0, 4, 5}), 3 * sizeof *r.ids);
    assert_near("gates", r.gates, (const double[3]){.375940, .315789, .308271}, 3, 2e-6);
    rig_close(&r.rig);
}

static void ties_go_to_the_lower_id(void **state) {
    (void)state;
    struct routing r;
    route(&r, (const double[2 * 6]){1, 1, 1, 1, 1, 1, 0, 2, 1, 2, 1, 2}, no_bias, 2, 6, 4, 1);
    assert_memory_equal(r.ids, ((const int32_t[8]){0, 1, 2, 3, 1, 3, 5, 2}), 8 * sizeof *r.ids);
    rig_close(&r.rig);
}

/* Dropping the broken expert in silence would hide it. */
static void a_nan_is_chosen_and_shows_in_the_gates(void **state) {
    (void)state;
    struct routing r;
    route(&r, (const double[2 * 4]){1, 2, NAN, 3, NAN, NAN, NAN, NAN}, no_bias, 2, 4, 2, 1);
    assert_memory_equal(r.ids, ((const int32_t[4]){2, 3, 0, 1}), 4 * sizeof *r.ids);
    for (int i = 0; i < 4; i++) assert_true(isnan(r.gates[i]));
    rig_close(&r.rig);
}

static void a_replay_keeps_the_choice_and_renews_the_gates(void **state) {
    (void)state;
    struct routing r;
    route(&r, (const double[4]){1, 2, 3, 4}, no_bias, 1, 4, 2, 1);
    r.ids[0] = 1, r.ids[1] = 0;
    rig_done(&r.rig, r.rig.table->router_forward(&r.rig.ops, r.scores, r.ids, r.gates, r.logits, r.bias, true, 1, 4, 2,
                                                 1, r.rig.stream));
    assert_memory_equal(r.ids, ((const int32_t[2]){1, 0}), 2 * sizeof *r.ids);
    const double a = 1 / (1 + exp(-2.)), b = 1 / (1 + exp(-1.));
    assert_near("gates", r.gates, (const double[2]){a / (a + b), b / (a + b)}, 2, 1e-6);
    rig_close(&r.rig);
}

static void the_plan_sorts_by_expert_and_keeps_the_order_inside(void **state) {
    (void)state;
    enum { T = 37, E = 5, K = 3, N = T * K };
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    int32_t *ids = rig_integers(&rig, N, E - 1); /* the last expert gets nothing */
    int32_t *order = rig_bytes(&rig, N * sizeof *order), *slot = rig_bytes(&rig, N * sizeof *slot);
    int32_t *counts = rig_bytes(&rig, E * sizeof *counts);
    rig_done(&rig, rig.table->route_plan(&rig.ops, order, slot, counts, ids, T, E, K, rig.stream));
    int32_t next = 0;
    for (int32_t e = 0; e < E; e++) {
        int32_t count = 0;
        for (int32_t n = 0; n < N; n++) {
            if (ids[n] != e) continue;
            assert_int_equal(order[next], n);
            assert_int_equal(slot[n], next);
            next++, count++;
        }
        assert_int_equal(counts[e], count);
    }
    assert_int_equal(next, N);
    rig_close(&rig);
}

static void a_plan_of_no_tokens_counts_zero(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    int32_t *counts = rig_bytes(&rig, 3 * sizeof *counts), *none = rig_bytes(&rig, 0);
    rig_done(&rig, rig.table->route_plan(&rig.ops, none, none, counts, none, 0, 3, 2, rig.stream));
    assert_memory_equal(counts, ((const int32_t[3]){0, 0, 0}), 3 * sizeof *counts);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_experts_come_best_first),
        cmocka_unit_test(the_bias_moves_the_choice_but_never_the_gates),
        cmocka_unit_test(ties_go_to_the_lower_id),
        cmocka_unit_test(a_nan_is_chosen_and_shows_in_the_gates),
        cmocka_unit_test(a_replay_keeps_the_choice_and_renews_the_gates),
        cmocka_unit_test(the_plan_sorts_by_expert_and_keeps_the_order_inside),
        cmocka_unit_test(a_plan_of_no_tokens_counts_zero),
    };
    return cmocka_run_group_tests_name("trainer ops: router", tests, NULL, NULL);
}
