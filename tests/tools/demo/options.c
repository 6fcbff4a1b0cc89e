/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: options are taken in both forms, and a bad one ends in a sentence that helps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tools/demo/options.h"

static int parse(struct options *options, char *message, const char *one, const char *two) {
    char *argv[] = {(char *)"weir-demo", (char *)one, (char *)two, NULL};
    *options = (struct options){0};
    return options_parse(&demo_options, options, two ? 3 : one ? 2 : 1, argv, (struct complaint){message, 256});
}

static void values_come_after_a_blank_or_an_equals_sign(void **state) {
    (void)state;
    struct options options;
    char message[256];
    assert_int_equal(parse(&options, message, "--config", "a.yaml"), OPTIONS_GO_ON);
    assert_string_equal(options.config, "a.yaml");
    assert_int_equal(parse(&options, message, "--config=b.yaml", "--steps=7"), OPTIONS_GO_ON);
    assert_string_equal(options.config, "b.yaml");
    assert_int_equal(options.steps, 7);
    assert_int_equal(parse(&options, message, "--data", "a.txt"), OPTIONS_GO_ON);
    assert_string_equal(options.data, "a.txt");
    assert_int_equal(parse(&options, message, "--json", "--keep"), OPTIONS_GO_ON);
    assert_true(options.keep);
    assert_string_equal(options.json_path, "");
    assert_int_equal(parse(&options, message, "--json=x.json", NULL), OPTIONS_GO_ON);
    assert_string_equal(options.json_path, "x.json");
    assert_int_equal(parse(&options, message, NULL, NULL), OPTIONS_GO_ON);
    assert_true(!options.config && !options.out && options.steps == 0 && !options.json_path);
}

static void a_bad_option_ends_in_a_sentence(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"--stpes=3", "unknown option --stpes; did you mean --steps?"},
        {"--jsno", "unknown option --jsno; did you mean --json?"},
        {"--steps=0", "--steps 0: expected a whole number from 1 to 1000"},
        {"--steps=1001", "--steps 1001: expected a whole number from 1 to 1000"},
        {"--steps", "--steps needs a value: N"},
        {"--out=", "--out needs a value: DIR"},
        {"--keep=yes", "--keep takes no value"},
        {"demo", "'demo' is not an option"},
        {"--", "'--' is not an option"},
        {"-h", "unknown option -h"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options options;
        char message[256] = "";
        assert_int_equal(parse(&options, message, cases[i][0], NULL), OPTIONS_BAD);
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
