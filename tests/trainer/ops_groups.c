/* SPDX-License-Identifier: Apache-2.0 */
/* Experts without rows get exact zeros over recycled memory, and rows past the last group are never touched. */
#include <string.h>

#include "tests/trainer/ops_fixture.h"

enum { WIDTH = 16, GROUPS = 6, ROWS = 11, PADDED = ROWS + 3 };
static const int64_t some[GROUPS + 1] = {0, 3, 3, 8, 10, 10, 11};
static const int64_t none[GROUPS + 1];

static void assert_zeros(const real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) assert_true(x[i] == 0);
}

static void experts_without_rows_get_zero_gradients_in_every_step(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    const int64_t size = WIDTH * WIDTH;
    real *x = rig_random(&rig, ROWS * WIDTH), *dy = rig_random(&rig, ROWS * WIDTH),
         *dw = rig_dirty(&rig, GROUPS * size);
    for (int step = 0; step < 3; step++) {
        memset(dw, 0xff, (size_t)(GROUPS * size) * sizeof *dw);
        rig_done(&rig, rig.table->linear_backward_weight(&rig.ops, dw, false, dy, x, (struct row_groups){GROUPS, some},
                                                         WIDTH, WIDTH, rig.stream));
        assert_zeros(dw + 1 * size, size);
        assert_zeros(dw + 4 * size, size);
        for (int64_t i = 0; i < GROUPS * size; i++) assert_true(dw[i] == dw[i]);
        assert_true(dw[0] != 0 && dw[2 * size] != 0 && dw[5 * size] != 0);
    }
    rig_close(&rig);
}

static void no_rows_at_all_give_zero_gradients(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_BF16);
    real *nothing = rig_dirty(&rig, 0), *dw = rig_dirty(&rig, GROUPS * WIDTH * WIDTH);
    void *w = rig_bytes(&rig, GROUPS * WIDTH * WIDTH * 2);
    const struct row_groups groups = {GROUPS, none};
    rig_done(&rig, rig.table->linear_forward(&rig.ops, nothing, false, nothing, w, groups, WIDTH, WIDTH, rig.stream));
    rig_done(&rig,
             rig.table->linear_backward_input(&rig.ops, nothing, false, nothing, w, groups, WIDTH, WIDTH, rig.stream));
    rig_done(&rig, rig.table->linear_backward_weight(&rig.ops, dw, false, nothing, nothing, groups, WIDTH, WIDTH,
                                                     rig.stream));
    assert_zeros(dw, GROUPS * WIDTH * WIDTH);
    rig_close(&rig);
}

/* x and dy hold NaN in the padding: one product with it would spoil the whole gradient of the last expert. */
static void rows_past_the_last_group_are_neither_read_nor_written(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *x = rig_random(&rig, PADDED * WIDTH), *y = rig_dirty(&rig, PADDED * WIDTH);
    real *w = rig_random(&rig, GROUPS * WIDTH * WIDTH), *dw = rig_dirty(&rig, GROUPS * WIDTH * WIDTH);
    const struct row_groups groups = {GROUPS, some};
    memset(x + ROWS * WIDTH, 0xff, (PADDED - ROWS) * WIDTH * sizeof *x);
    rig_done(&rig, rig.table->linear_forward(&rig.ops, y, false, x, w, groups, WIDTH, WIDTH, rig.stream));
    rig_done(&rig, rig.table->linear_backward_weight(&rig.ops, dw, false, y, x, groups, WIDTH, WIDTH, rig.stream));
    for (int64_t i = 0; i < GROUPS * WIDTH * WIDTH; i++) assert_true(dw[i] == dw[i]);
    for (int64_t i = 0; i < ROWS * WIDTH; i++) assert_true(y[i] == y[i]);
    for (int64_t i = ROWS * WIDTH; i < PADDED * WIDTH; i++) assert_true(y[i] != y[i]);
    rig_close(&rig);
}

static void a_gradient_that_is_added_to_keeps_what_an_empty_expert_had(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    const int64_t size = WIDTH * WIDTH;
    real *x = rig_random(&rig, ROWS * WIDTH), *dy = rig_random(&rig, ROWS * WIDTH),
         *dw = rig_random(&rig, GROUPS * size);
    real kept = dw[1 * size], changed = dw[0];
    rig_done(&rig, rig.table->linear_backward_weight(&rig.ops, dw, true, dy, x, (struct row_groups){GROUPS, some},
                                                     WIDTH, WIDTH, rig.stream));
    assert_true(dw[1 * size] == kept);
    assert_true(dw[0] != changed);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_without_rows_get_zero_gradients_in_every_step),
        cmocka_unit_test(no_rows_at_all_give_zero_gradients),
        cmocka_unit_test(rows_past_the_last_group_are_neither_read_nor_written),
        cmocka_unit_test(a_gradient_that_is_added_to_keeps_what_an_empty_expert_had),
    };
    return cmocka_run_group_tests_name("trainer ops: groups", tests, NULL, NULL);
}
