/* SPDX-License-Identifier: Apache-2.0 */
/* The distributions that generated traces are drawn from have the moments they should have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tools/trace/gen_random.h"

enum { DRAWS = 200000 };

struct moments {
    double mean, variance, skew, kurtosis; /* kurtosis of the normal distribution: 3 */
};

static double draws[DRAWS];

static struct moments moments(void) {
    struct moments m = {0};
    double sums[3] = {0};
    for (int i = 0; i < DRAWS; i++) m.mean += draws[i] / DRAWS;
    for (int i = 0; i < DRAWS; i++)
        for (int power = 2; power <= 4; power++) sums[power - 2] += pow(draws[i] - m.mean, power) / DRAWS;
    m.variance = sums[0];
    m.skew = sums[1] / pow(m.variance, 1.5);
    m.kurtosis = sums[2] / (m.variance * m.variance);
    return m;
}

/* Within `by`, which is some five standard errors of the figure over so many draws. */
static void assert_near(const char *what, double value, double expected, double by) {
    if (!(fabs(value - expected) <= by)) fail_msg("%s is %g, expected %g within %g", what, value, expected, by);
}

static void uniform_draws_fill_the_unit_interval_evenly(void **state) {
    (void)state;
    struct gen_random random;
    gen_random_seed(&random, "uniform", 1);
    for (int i = 0; i < DRAWS; i++) {
        draws[i] = gen_uniform(&random);
        assert_true(draws[i] >= 0.0 && draws[i] < 1.0);
    }
    struct moments m = moments();
    assert_near("mean", m.mean, 0.5, 0.004);
    assert_near("variance", m.variance, 1.0 / 12, 0.001);
    assert_near("kurtosis", m.kurtosis, 1.8, 0.02);
}

static void gaussian_draws_have_the_mean_and_deviation_asked_for(void **state) {
    (void)state;
    struct gen_random random;
    gen_random_seed(&random, "gauss", 1);
    for (int i = 0; i < DRAWS; i++) draws[i] = gen_gauss(&random, 6.6, 0.8);
    struct moments m = moments();
    assert_near("mean", m.mean, 6.6, 0.01);
    assert_near("deviation", sqrt(m.variance), 0.8, 0.007);
    assert_near("skew", m.skew, 0, 0.03);
    assert_near("kurtosis", m.kurtosis, 3, 0.06);
}

static void beta_draws_have_their_mean_variance_and_skew(void **state) {
    (void)state;
    const double a = 2.0, b = 1.2, n = a + b;
    struct gen_random random;
    gen_random_seed(&random, "beta", 1);
    for (int i = 0; i < DRAWS; i++) {
        draws[i] = gen_beta(&random, a, b);
        assert_true(draws[i] >= 0.0 && draws[i] <= 1.0);
    }
    struct moments m = moments();
    assert_near("mean", m.mean, a / n, 0.003);
    assert_near("variance", m.variance, a * b / (n * n * (n + 1)), 0.001);
    assert_near("skew", m.skew, 2 * (b - a) * sqrt(n + 1) / ((n + 2) * sqrt(a * b)), 0.03);
}

static void a_choice_takes_each_with_the_same_chance(void **state) {
    (void)state;
    const int64_t of[] = {512, 4, 8, 64, 1024, 4096};
    int counts[6] = {0};
    struct gen_random random;
    gen_random_seed(&random, "choice", 1);
    for (int i = 0; i < DRAWS; i++) {
        int64_t chosen = gen_choice(&random, of, 6);
        for (int j = 0; j < 6; j++) counts[j] += chosen == of[j];
    }
    for (int j = 0; j < 6; j++) assert_near("share", (double)counts[j] / DRAWS, 1.0 / 6, 0.005);
}

static void another_name_or_seed_is_another_sequence(void **state) {
    (void)state;
    struct gen_random random[4];
    gen_random_seed(&random[0], "one", 1);
    gen_random_seed(&random[1], "one", 2);
    gen_random_seed(&random[2], "two", 1);
    gen_random_seed(&random[3], "one", 1);
    const double first = gen_uniform(&random[0]);
    assert_true(first != gen_uniform(&random[1]));
    assert_true(first != gen_uniform(&random[2]));
    assert_true(first == gen_uniform(&random[3]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_draws_fill_the_unit_interval_evenly),
        cmocka_unit_test(gaussian_draws_have_the_mean_and_deviation_asked_for),
        cmocka_unit_test(beta_draws_have_their_mean_variance_and_skew),
        cmocka_unit_test(a_choice_takes_each_with_the_same_chance),
        cmocka_unit_test(another_name_or_seed_is_another_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
