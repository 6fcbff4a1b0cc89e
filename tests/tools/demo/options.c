/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: options are taken in both forms, and a bad one ends in a sentence that helps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tools/demo/options.h"

static int parse(struct demo_options *options, char *message, const char *one, const char *two) {
    char *argv[] = {(char *)"weir-demo", (char *)one, (char *)two, NULL};
    return demo_options_parse(options, two ? 3 : one ? 2 : 1, argv, message, 256);
}

static void values_come_after_a_blank_or_an_equals_sign(void **state) {
    (void)state;
    struct demo_options options;
    char message[256];
    assert_int_equal(parse(&options, message, "--config", "a.yaml"), 0);
    assert_string_equal(options.config, "a.yaml");
    assert_int_equal(parse(&options, message, "--config=b.yaml", "--steps=7"), 0);
    assert_string_equal(options.config, "b.yaml");
    assert_int_equal(options.steps, 7);
    assert_int_equal(parse(&options, message, "--data", "a.txt"), 0);
    assert_string_equal(options.data, "a.txt");
    assert_int_equal(parse(&options, message, "--json", "--keep"), 0);
    assert_true(options.json && options.keep && !options.json_path);
    assert_int_equal(parse(&options, message, "--json=x.json", NULL), 0);
    assert_string_equal(options.json_path, "x.json");
    assert_int_equal(parse(&options, message, NULL, NULL), 0);
    assert_true(!options.config && !options.out && options.steps == 0 && !options.json);
}

static void a_bad_option_ends_in_a_sentence(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"--stpes=3", "unknown option --stpes; the nearest known one is --steps"},
        {"--jsno", "unknown option --jsno; the nearest known one is --json"},
        {"--steps=0", "--steps is \"0\", expected a whole number from 1 to 1000"},
        {"--steps=3x", "--steps is \"3x\", expected a whole number from 1 to 1000"},
        {"--steps=99999999999999999999", "expected a whole number from 1 to 1000"},
        {"--steps", "--steps needs a value: --steps N"},
        {"--out=", "--out needs a value: --out DIR"},
        {"--keep=yes", "--keep takes no value, but was given \"yes\""},
        {"demo", "\"demo\" is not an option"},
        {"--", "\"--\" is not an option"},
        {"-h", "\"-h\" is not an option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct demo_options options;
        char message[256] = "";
        assert_int_equal(parse(&options, message, cases[i][0], NULL), 2);
        if (!strstr(message, cases[i][1])) fail_msg("%s: \"%s\"", cases[i][0], message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_after_a_blank_or_an_equals_sign),
        cmocka_unit_test(a_bad_option_ends_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
