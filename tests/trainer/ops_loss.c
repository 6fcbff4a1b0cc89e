/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy: the value and gradient by definition; the same whether taken in one piece or in chunks. */
#include <math.h>
#include <string.h>

#include "tests/trainer/ops_fixture.h"

enum { T = 40, V = 53 };

struct problem {
    struct rig rig;
    double *loss;
    real *logits;
    int32_t *targets;
};

static void open_problem(struct problem *p) {
    rig_open(&p->rig, WIRE_REAL);
    p->loss = rig_bytes(&p->rig, sizeof *p->loss);
    *p->loss = 0;
    p->logits = rig_random(&p->rig, T * V);
    for (int64_t i = 0; i < T * V; i++) p->logits[i] *= 20;
    p->targets = rig_integers(&p->rig, T, V);
    p->targets[3] = -100;
    p->targets[T - 1] = -1;
}

static void take(struct problem *p, real *logits, int64_t first, int64_t rows, bool gradient) {
    rig_done(&p->rig, p->rig.table->cross_entropy(&p->rig.ops, p->loss, logits + first * V, p->targets + first, 0.125,
                                                  gradient, rows, V, p->rig.stream));
}

static real *copy_of(struct problem *p) {
    real *copy = rig_dirty(&p->rig, T * V);
    memcpy(copy, p->logits, T * V * sizeof *copy);
    return copy;
}

static void loss_and_gradient_are_as_defined(void **state) {
    (void)state;
    struct problem p;
    open_problem(&p);
    double expected[T * V] = {0}, loss = 0;
    for (int t = 0; t < T; t++) {
        const real *z = p.logits + t * V;
        double sum = 0;
        if (p.targets[t] < 0) continue;
        for (int i = 0; i < V; i++) sum += exp((double)z[i]);
        loss += 0.125 * (log(sum) - (double)z[p.targets[t]]);
        for (int i = 0; i < V; i++) expected[t * V + i] = 0.125 * (exp((double)z[i]) / sum - (i == p.targets[t]));
    }
    take(&p, p.logits, 0, T, true);
    assert_true(fabs(*p.loss - loss) < 1e-6 * loss);
    assert_near("gradient", p.logits, expected, T * V, 1e-6);
    rig_close(&p.rig);
}

static void one_chunk_and_eight_give_the_same_bits(void **state) {
    (void)state;
    struct problem p;
    open_problem(&p);
    real *chunked = copy_of(&p);
    take(&p, p.logits, 0, T, true);
    double whole = *p.loss;
    *p.loss = 0;
    for (int chunk = 0; chunk < 8; chunk++) take(&p, chunked, chunk * T / 8, T / 8, true);
    assert_true(whole == *p.loss);
    assert_memory_equal(p.logits, chunked, T * V * sizeof *chunked);
    rig_close(&p.rig);
}

static void without_a_gradient_the_logits_stay(void **state) {
    (void)state;
    struct problem p;
    open_problem(&p);
    real *before = copy_of(&p);
    take(&p, p.logits, 0, T, false);
    double loss = *p.loss;
    assert_memory_equal(p.logits, before, T * V * sizeof *before);
    *p.loss = 0;
    take(&p, p.logits, 0, T, true);
    assert_true(loss == *p.loss && loss > 0);
    rig_close(&p.rig);
}

/* exp alone would overflow, and the other way round lose everything. */
static void large_logits_do_not_overflow(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    double *loss = rig_bytes(&rig, sizeof *loss);
    *loss = 0;
    real *z = rig_values(&rig, 4, (const double[4]){1e4, 1e4, -1e4, -1e4});
    int32_t *target = rig_ids(&rig, 2, (const int32_t[2]){0, 1});
    rig_done(&rig, rig.table->cross_entropy(&rig.ops, loss, z, target, 1, true, 2, 2, rig.stream));
    assert_true(fabs(*loss - 2 * log(2)) < 1e-6);
    assert_near("gradient", z, (const double[4]){-.5, .5, .5, -.5}, 4, 1e-6);
    rig_close(&rig);
}

static void a_nan_logit_shows_in_the_loss(void **state) {
    (void)state;
    struct problem p;
    open_problem(&p);
    p.logits[5 * V + 7] = (real)NAN;
    take(&p, p.logits, 0, T, true);
    assert_true(isnan(*p.loss));
    rig_close(&p.rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradient_are_as_defined),   cmocka_unit_test(one_chunk_and_eight_give_the_same_bits),
        cmocka_unit_test(without_a_gradient_the_logits_stay), cmocka_unit_test(large_logits_do_not_overflow),
        cmocka_unit_test(a_nan_logit_shows_in_the_loss),
    };
    return cmocka_run_group_tests_name("trainer ops: loss", tests, NULL, NULL);
}
