/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes follow their law, and a histogram says within a sixteenth what it was told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/stress/histogram.h"
#include "tools/stress/laws.h"

static struct law law_of(const char *text) {
    struct law law;
    char why[400] = "";
    if (!law_read(text, &law, why, sizeof why)) fail_msg("%s: %s", text, why);
    return law;
}

static void a_fixed_size_is_that_size(void **state) {
    (void)state;
    struct random random = {1};
    size_t cursor = 0;
    const struct law law = law_of("fixed:1.5M");
    for (int i = 0; i < 10; i++) assert_int_equal(law_size(&law, &random, &cursor, 1 << 30), 3 << 19);
    assert_int_equal(law_size(&law, &random, &cursor, 1000), 1000); /* no more than there may be */
}

static void each_octave_comes_as_often_under_the_log_uniform_law(void **state) {
    (void)state;
    enum { DRAWS = 64000, OCTAVES = 8 };
    struct random random = {2};
    size_t cursor = 0, seen[OCTAVES] = {0};
    const struct law law = law_of("log:1K:256K");
    for (int i = 0; i < DRAWS; i++) {
        const size_t bytes = law_size(&law, &random, &cursor, 1 << 30);
        assert_in_range(bytes, 1 << 10, 1 << 18);
        for (int octave = 0; octave < OCTAVES; octave++)
            seen[octave] += bytes >= 1024u << octave && bytes < 2048u << octave;
    }
    for (int octave = 0; octave < OCTAVES; octave++)
        assert_in_range(seen[octave], DRAWS / OCTAVES * 9 / 10, DRAWS / OCTAVES * 11 / 10);
}

static void a_trace_gives_the_sizes_of_its_requests_in_their_order(void **state) {
    (void)state;
    char path[] = "/tmp/stress_lawsXXXXXX", text[64];
    const int file = mkstemp(path);
    FILE *out = fdopen(file, "w");
    struct random random = {3};
    size_t cursor = 0;
    assert_non_null(out);
    fputs("weir-trace 1\np 9 700 0\nm 1 4096 0\nk 0 10\nm 2 0 0\nm 3 512 1\nf 1\n# refused 123456 0\n", out);
    fclose(out);
    snprintf(text, sizeof text, "trace:%s", path);
    struct law law = law_of(text);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(law_size(&law, &random, &cursor, 1 << 30), 700);
        assert_int_equal(law_size(&law, &random, &cursor, 1 << 30), 4096);
        assert_int_equal(law_size(&law, &random, &cursor, 1 << 30), 512);
        assert_int_equal(law_size(&law, &random, &cursor, 1 << 30), 123456);
    }
    law_free(&law);
    remove(path);
}

static void what_is_no_law_is_refused_by_name(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",         "fixed",       "fixed:",        "fixed:0",
        "fixed:x",  "fixed:1025T", "log:1K",        "log:2K:1K",
        "log::",    "log:1K:2K:3", "uniform:1K:2K", "fixed:99999999999999999999999999999999999999",
        "log:0:1K", "fixedx:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct law law;
        char why[400] = "";
        assert_false(law_read(wrong[i], &law, why, sizeof why));
        assert_non_null(strstr(why, "--sizes"));
        law_free(&law);
    }
}

static void a_share_is_at_most_a_sixteenth_above(void **state) {
    (void)state;
    struct histogram histogram = {0};
    assert_int_equal(histogram_share(&histogram, 0.5), 0);
    for (uint64_t i = 1; i <= 100000; i++) histogram_add(&histogram, i * 7);
    static const double shares[] = {0.01, 0.5, 0.99, 0.9999};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const uint64_t exact = (uint64_t)(shares[i] * 700000 + 0.5), said = histogram_share(&histogram, shares[i]);
        assert_in_range(said, exact, exact + exact / 16);
    }
    assert_int_equal(histogram_share(&histogram, 1), 700000);
    assert_int_equal(histogram.most_ns, 700000);
}

static void the_longest_time_has_a_bucket(void **state) {
    (void)state;
    struct histogram one = {0}, all = {0};
    histogram_add(&one, UINT64_MAX);
    histogram_add(&one, 0);
    histogram_join(&all, &one);
    histogram_join(&all, &one);
    assert_int_equal(all.count, 4);
    assert_int_equal(histogram_share(&all, 0.5), 0);
    assert_true(histogram_share(&all, 0.9) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_size_is_that_size),
        cmocka_unit_test(each_octave_comes_as_often_under_the_log_uniform_law),
        cmocka_unit_test(a_trace_gives_the_sizes_of_its_requests_in_their_order),
        cmocka_unit_test(what_is_no_law_is_refused_by_name),
        cmocka_unit_test(a_share_is_at_most_a_sixteenth_above),
        cmocka_unit_test(the_longest_time_has_a_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
