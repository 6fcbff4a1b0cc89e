/* SPDX-License-Identifier: Apache-2.0 */
/* Costs from samples: the parts that are there are found, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

#include "tools/profile/profile.h"

static const double handles[] = {1, 3, 8}, sizes[] = {16384, 65536, 262144, 4194304};
enum { SAMPLES = 12 };

static uint64_t state = 1;

static double draw(void) { /* -1 to 1 */
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-52 - 1;
}

static struct fit fit_of(double fixed_ns, double handle_ns, double byte_ns, double noise, unsigned parts) {
    struct sample samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        samples[i] = (struct sample){handles[i / 4], handles[i / 4] * sizes[i % 4], 0};
        const double ns = fixed_ns + handle_ns * samples[i].handles + byte_ns * samples[i].bytes;
        samples[i].ns = ns * (1 + noise * draw());
    }
    return fit_cost(samples, SAMPLES, parts);
}

static void assert_near(double value, double expected, double share) {
    if (fabs(value - expected) > share * fabs(expected)) fail_msg("%g, expected %g", value, expected);
}

static void a_cost_of_every_set_of_parts_is_found(void **unused) {
    (void)unused;
    for (unsigned set = 1; set < 8; set++) {
        const double fixed = set & 1 ? 40e3 : 0, handle = set & 2 ? 30e3 : 0, byte = set & 4 ? 0.02 : 0;
        const struct fit fit = fit_of(fixed, handle, byte, 0, FIT_HANDLES | FIT_BYTES);
        assert_near(fit.fixed_ns, fixed, 1e-6);
        assert_near(fit.handle_ns, handle, 1e-6);
        assert_near(fit.byte_ns, byte, 1e-6);
        assert_true(fit.worst < 1e-6);
    }
}

static void noise_makes_no_part_that_is_not_there(void **unused) {
    (void)unused;
    for (int i = 0; i < 100; i++) {
        const struct fit fixed = fit_of(40e3, 0, 0, 0.02, FIT_HANDLES | FIT_BYTES);
        assert_near(fixed.fixed_ns, 40e3, 0.02);
        assert_true(fixed.handle_ns == 0 && fixed.byte_ns == 0);
        const struct fit handle = fit_of(0, 40e3, 0, 0.02, FIT_HANDLES | FIT_BYTES);
        assert_near(handle.handle_ns, 40e3, 0.02);
        assert_true(handle.fixed_ns == 0 && handle.byte_ns == 0);
        assert_true(handle.worst > 0 && handle.worst < 0.05);
    }
}

static void a_part_that_was_not_asked_for_is_not_given(void **unused) {
    (void)unused;
    assert_true(fit_of(1e3, 30e3, 0.02, 0, FIT_BYTES).handle_ns == 0);
    const struct fit fixed = fit_of(1e3, 30e3, 0.02, 0, 0);
    assert_true(fixed.handle_ns == 0 && fixed.byte_ns == 0 && fixed.fixed_ns > 0);
}

static void no_part_is_negative(void **unused) {
    (void)unused;
    /* less for more bytes: nothing that a cost can follow */
    const struct sample samples[] = {{1, 1 << 20, 40e3}, {1, 2 << 20, 30e3}, {1, 4 << 20, 10e3}};
    const struct fit fit = fit_cost(samples, 3, FIT_HANDLES | FIT_BYTES);
    assert_true(fit.fixed_ns >= 0 && fit.handle_ns >= 0 && fit.byte_ns >= 0 && fit.worst > 0.1);
}

static void what_takes_no_time_costs_nothing(void **unused) {
    (void)unused;
    const struct fit fit = fit_of(0, 0, 0, 0, FIT_HANDLES | FIT_BYTES);
    assert_true(fit.fixed_ns == 0 && fit.handle_ns == 0 && fit.byte_ns == 0);
}

static void a_median_is_in_the_middle(void **unused) {
    (void)unused;
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
    assert_near(median(odd, 3), 3, 0);
    assert_near(median(even, 4), 2.5, 0);
    assert_near(median(one, 1), 7, 0);
    double ten[] = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    assert_near(quantile(ten, 11, 0.9), 9, 1e-12);
    assert_near(quantile(ten, 11, 1), 10, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cost_of_every_set_of_parts_is_found),
        cmocka_unit_test(noise_makes_no_part_that_is_not_there),
        cmocka_unit_test(a_part_that_was_not_asked_for_is_not_given),
        cmocka_unit_test(no_part_is_negative),
        cmocka_unit_test(what_takes_no_time_costs_nothing),
        cmocka_unit_test(a_median_is_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
