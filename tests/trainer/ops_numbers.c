/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 is rounded to the nearest, ties to even; the float exponential is within 1 ulp over its whole range. */
#include <math.h>

#include "tests/trainer/ops_fixture.h"
#include "trainer/ops_math.h"

/* The nearer of the two bf16 numbers around x, by distance in double; the even one when equally near. */
static uint16_t nearest_bf16(float x) {
    uint16_t down = (uint16_t)(float_bits(x) >> 16), up = (uint16_t)(down + 1); /* towards zero, away from it */
    double below = (double)bf16_to_float(down), above = (double)bf16_to_float(up);
    if (isinf(above)) above = copysign(ldexp(1, 128), (double)x); /* where the next number would be */
    double to_below = fabs((double)x - below), to_above = fabs(above - (double)x);
    return to_below < to_above || (to_below == to_above && !(down & 1)) ? down : up;
}

static void every_bf16_number_comes_back_unchanged(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float x = bf16_to_float((uint16_t)bits);
        if (!isnan(x)) assert_int_equal(bf16_from_float(x), bits);
    }
}

static void conversion_rounds_to_the_nearest_and_ties_to_even(void **state) {
    (void)state;
    const uint32_t tails[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1234, 0xabcd};
    for (uint32_t high = 0; high < 0x10000; high++)
        for (int64_t i = 0; i < COUNT(tails); i++) {
            float x = bits_float(high << 16 | tails[i]);
            if (!isnan(x) && !isinf(x)) assert_int_equal(bf16_from_float(x), nearest_bf16(x));
        }
}

static void conversion_keeps_infinity_and_nan(void **state) {
    (void)state;
    assert_int_equal(bf16_from_float(INFINITY), 0x7f80);
    assert_int_equal(bf16_from_float(-INFINITY), 0xff80);
    assert_true(isnan(bf16_to_float(bf16_from_float(NAN))));
    assert_true(isnan(bf16_to_float(bf16_from_float(bits_float(0x7f800001u))))); /* its low bits alone say NaN */
    assert_true(isnan(bf16_to_float(bf16_from_float(bits_float(0xffffffffu)))));
}

static void the_operation_converts_every_number_of_a_buffer(void **state) {
    (void)state;
    enum { N = 1031 };
    struct rig rig;
    rig_open(&rig, WIRE_BF16);
    real *x = rig_random(&rig, N), *back = rig_dirty(&rig, N);
    uint16_t *narrowed = rig_bytes(&rig, (N + 1) * sizeof *narrowed);
    rig_done(&rig, rig.table->convert(&rig.ops, narrowed, WIRE_BF16, x, WIRE_REAL, N, rig.stream));
    rig_done(&rig, rig.table->convert(&rig.ops, back, WIRE_REAL, narrowed, WIRE_BF16, N, rig.stream));
    for (int i = 0; i < N; i++) {
        assert_int_equal(narrowed[i], nearest_bf16((float)x[i]));
        assert_true(back[i] == (real)bf16_to_float(narrowed[i]));
    }
    assert_int_equal(narrowed[N], 0xffff);
    rig_close(&rig);
}

static void the_exponential_is_within_an_ulp(void **state) {
    (void)state;
    double worst = 0;
    for (float x = -87.3f; x < 88.72f; x += 0.00137f) {
        double exact = exp((double)x);
        int exponent;
        frexp(exact, &exponent);
        worst = fmax(worst, fabs((double)exp_float(x) - exact) / ldexp(1, exponent - 24));
    }
    assert_true(worst < 1);
}

static void the_exponential_ends_as_it_should(void **state) {
    (void)state;
    assert_true(exp_float(0) == 1);
    assert_true(exp_float(-INFINITY) == 0 && exp_float(-1e30f) == 0 && exp_float(-104) == 0);
    assert_true(exp_float(-100) > 0); /* below the normal numbers */
    assert_true(isinf(exp_float(INFINITY)) && isinf(exp_float(89)) && !isinf(exp_float(88.7f)));
    assert_true(isnan(exp_float(NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bf16_number_comes_back_unchanged),
        cmocka_unit_test(conversion_rounds_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(conversion_keeps_infinity_and_nan),
        cmocka_unit_test(the_operation_converts_every_number_of_a_buffer),
        cmocka_unit_test(the_exponential_is_within_an_ulp),
        cmocka_unit_test(the_exponential_ends_as_it_should),
    };
    return cmocka_run_group_tests_name("trainer ops: numbers", tests, NULL, NULL);
}
