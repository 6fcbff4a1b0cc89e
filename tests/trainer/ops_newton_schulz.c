/* SPDX-License-Identifier: Apache-2.0 */
/* Newton-Schulz: five steps of 3.4445 x - 4.7750 x^3 + 2.0315 x^5 on each matrix alone. */
#include <math.h>

#include "tests/trainer/ops_fixture.h"

static void iterate(struct rig *rig, real *u, int64_t count, int64_t rows, int64_t cols) {
    real *scratch = rig_dirty(rig, rig->table->newton_schulz_scratch(rows, cols));
    rig_done(rig, rig->table->newton_schulz(&rig->ops, u, scratch, count, rows, cols, rig->stream));
}

static void singular_values_follow_the_polynomial(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *u = rig_values(&rig, 4, (const double[4]){0.6, 0, 0, 0.8}); /* its norm is 1 already */
    iterate(&rig, u, 1, 2, 2);
    assert_near("diagonal", u, (const double[4]){0.722876168617117, 0, 0, 1.1192039299160428}, 4, 1e-5);
    real *one = rig_values(&rig, 1, (const double[1]){-7});
    iterate(&rig, one, 1, 1, 1);
    assert_near("1 x 1", one, (const double[1]){-0.696436}, 1, 1e-5);
    rig_close(&rig);
}

static void a_tall_matrix_is_iterated_whole(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *u = rig_dirty(&rig, 8 * 4);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++) u[i * 4 + j] = (real)((3 * i + 5 * j) % 7 - 3);
    iterate(&rig, u, 1, 8, 4);
    assert_near("first row", u, (const double[4]){-0.50087, 0.22240, -0.06960, -0.24961}, 4, 2e-5);
    assert_true(fabs(sqrt(dot_double(u, u, 32)) - 1.82163) < 2e-5);
    rig_close(&rig);
}

/* As one matrix the first would come out a thousand times smaller. */
static void stacked_matrices_are_each_scaled_alone(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *u = rig_zeros(&rig, 2 * 16);
    double expected[32] = {0};
    for (int i = 0; i < 4; i++) {
        u[i * 5] = 1, u[16 + i * 5] = 1000;
        expected[i * 5] = expected[16 + i * 5] = 0.76544;
    }
    iterate(&rig, u, 2, 4, 4);
    assert_near("both", u, expected, 32, 2e-5);
    rig_close(&rig);
}

static void a_wide_matrix_gives_the_transpose_of_the_tall_one(void **state) {
    (void)state;
    enum { ROWS = 7, COLS = 12 };
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *wide = rig_random(&rig, ROWS * COLS), *tall = rig_dirty(&rig, ROWS * COLS);
    double expected[ROWS * COLS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) tall[j * ROWS + i] = wide[i * COLS + j];
    iterate(&rig, wide, 1, ROWS, COLS);
    iterate(&rig, tall, 1, COLS, ROWS);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) expected[i * COLS + j] = (double)tall[j * ROWS + i];
    assert_near("transpose", wide, expected, ROWS * COLS, 1e-5);
    rig_close(&rig);
}

/* A shard's padding, and experts that never had a row, must not become noise or NaN. */
static void zero_rows_and_zero_matrices_stay_zero(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *u = rig_random(&rig, 2 * 4 * 6);
    for (int j = 0; j < 6; j++) u[2 * 6 + j] = 0;
    for (int i = 24; i < 48; i++) u[i] = 0;
    iterate(&rig, u, 2, 4, 6);
    for (int j = 0; j < 6; j++) assert_true(u[2 * 6 + j] == 0);
    for (int i = 24; i < 48; i++) assert_true(u[i] == 0);
    assert_true(u[0] != 0);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(singular_values_follow_the_polynomial),
        cmocka_unit_test(a_tall_matrix_is_iterated_whole),
        cmocka_unit_test(stacked_matrices_are_each_scaled_alone),
        cmocka_unit_test(a_wide_matrix_gives_the_transpose_of_the_tall_one),
        cmocka_unit_test(zero_rows_and_zero_matrices_stay_zero),
    };
    return cmocka_run_group_tests_name("trainer ops: Newton-Schulz", tests, NULL, NULL);
}
