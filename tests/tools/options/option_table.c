/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: a table of options reads values of each kind in both forms, refuses what is not meant with a sentence that names the
 * option, the value and the limit, and prints the help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tools/options/option_table.h"

struct options {
    bool quick;
    const char *name, *json_path, *color, *word;
    unsigned threads;
    int device;
    uint64_t seed;
    int64_t steps;
    int added, words;
};

static const char *const colors[] = {"red", "green", NULL};

static bool read_add(const char *value, struct options *options, struct complaint complaint) {
    if (strcmp(value, "nothing") == 0) return complain(complaint, "--add nothing: expected something");
    options->added++;
    return true;
}

static const struct option table[] = {
    {"quick", NULL, "soon", OPTION_FLAG(quick)},
    {"name", "NAME", "of it;\nthe second line", OPTION_TEXT(name), .letter = 'n'},
    {"json", "FILE", "as JSON", OPTION_OUTPUT(json_path)},
    {"color", "NAME", "red or green", OPTION_CHOICE(color, colors)},
    {"threads", "N", "at once", OPTION_COUNT(threads, 1, 64)},
    {"device", "N", "which one", OPTION_COUNT(device, 0, 63)},
    {"seed", "N", "of chance", OPTION_COUNT(seed, 0, UINT64_MAX)},
    {"steps", "N", "in all", OPTION_COUNT(steps, 1, INT64_MAX)},
    {"add", "A-RATHER-LONG-VALUE", "again and again", OPTION_READ(read_add), .many = true},
    {"help", NULL, NULL, OPTION_HELP},
    {"version", NULL, NULL, OPTION_VERSION},
};

static int take_word(char **words, struct options *options, struct complaint complaint) {
    if (strcmp(words[0], "bad") == 0) return complain(complaint, "'bad' is bad");
    options->word = words[0];
    options->words++;
    if (strcmp(words[0], "pair") != 0) return 1;
    return words[1] != NULL ? 2 : complain(complaint, "pair needs another");
}

static bool check(struct options *options, struct complaint complaint) {
    return !options->quick || options->device == 0 || complain(complaint, "--quick is for device 0");
}

static const struct option_table with_words = {.program = "weir-x",
                                               .usage = "usage: weir-x [options]\n",
                                               .status = "Exit status: 0.\n",
                                               .options = table,
                                               .count = sizeof table / sizeof *table,
                                               .words = take_word,
                                               .check = check};

/* Reads a line cut at blanks. */
static int parse(const struct option_table *options_table, struct options *options, const char *line, char *why,
                 size_t room) {
    static char text[256];
    char *argument[32] = {(char *)"weir-x"};
    int count = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) argument[count++] = word;
    *options = (struct options){0};
    return options_parse(options_table, options, count, argument, (struct complaint){why, room});
}

static struct options good(const char *line) {
    struct options options;
    char why[300] = "";
    if (parse(&with_words, &options, line, why, sizeof why) != OPTIONS_GO_ON) fail_msg("'%s': %s", line, why);
    return options;
}

static void values_come_after_a_blank_or_an_equals_sign(void **state) {
    (void)state;
    for (int form = 0; form < 2; form++) {
        const struct options options =
            good(form == 0 ? "--name a=b --color green --device 63 --threads 64 --seed 18446744073709551615 --steps 7"
                           : "--name=a=b --color=green --device=63 --threads=64 --seed=18446744073709551615 --steps=7");
        assert_string_equal(options.name, "a=b");
        assert_string_equal(options.color, "green");
        assert_int_equal(options.threads, 64);
        assert_int_equal(options.device, 63);
        assert_true(options.seed == UINT64_MAX);
        assert_int_equal(options.steps, 7);
        assert_false(options.quick);
    }
    assert_string_equal(good("-n x").name, "x");
    assert_string_equal(good("-n=x").name, "x");
    assert_string_equal(good("--name --quick").name, "--quick");
    assert_true(good("--quick").quick);
    assert_int_equal(good("--add a --add=b --add c").added, 3);
}

static void an_output_without_a_file_is_standard_output(void **state) {
    (void)state;
    assert_null(good("").json_path);
    assert_string_equal(good("--json x").json_path, "");
    assert_string_equal(good("--json x").word, "x");
    assert_string_equal(good("--json=-").json_path, "");
    assert_string_equal(good("--json=x").json_path, "x");
}

static void words_are_what_is_no_option_and_all_behind_two_dashes(void **state) {
    (void)state;
    assert_string_equal(good("a --quick b").word, "b");
    assert_true(good("a --quick b").quick);
    assert_string_equal(good("-").word, "-");
    const struct options options = good("-- --quick");
    assert_string_equal(options.word, "--quick");
    assert_false(options.quick);
    assert_string_equal(good("-- --").word, "--");
    assert_int_equal(good("--").words, 0);
    assert_int_equal(good("pair --nothing a").words, 2);
}

static void what_is_wrong_is_named_with_its_limit(void **state) {
    (void)state;
    static const struct {
        const char *line, *sentence;
    } bad[] = {
        {"--nmae x", "unknown option --nmae; did you mean --name?"},
        {"--zzzzzzzz=x", "unknown option --zzzzzzzz (--help lists them)"},
        {"--thread 2", "unknown option --thread; did you mean --threads?"},
        {"-x", "unknown option -x (--help lists them)"},
        {"-nx", "unknown option -nx (--help lists them)"},
        {"-name x", "unknown option -name (--help lists them)"},
        {"--quick=1", "--quick takes no value"},
        {"--quick=", "--quick takes no value"},
        {"--name", "--name needs a value: NAME"},
        {"--name=", "--name needs a value: NAME"},
        {"-n", "-n needs a value: NAME"},
        {"--json=", "--json needs a value: FILE"},
        {"--name a --name b", "--name is given twice"},
        {"-n a --name b", "--name is given twice"},
        {"--quick --quick", "--quick is given twice"},
        {"--color blue", "--color blue is not one of red, green"},
        {"--threads 0", "--threads 0: expected a whole number from 1 to 64"},
        {"--threads 65", "--threads 65: expected a whole number from 1 to 64"},
        {"--threads 1x", "--threads 1x: expected"},
        {"--threads -1", "--threads -1: expected"},
        {"--threads +1", "--threads +1: expected"},
        {"--threads 4294967297", "--threads 4294967297: expected"},
        {"--seed 18446744073709551616", "expected a whole number from 0 to 18446744073709551615"},
        {"--steps 9223372036854775808", "expected a whole number from 1 to 9223372036854775807"},
        {"--add nothing", "--add nothing: expected something"},
        {"a bad", "'bad' is bad"},
        {"pair", "pair needs another"},
        {"--quick --device 1", "--quick is for device 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct options options;
        char why[300] = "";
        assert_int_equal(parse(&with_words, &options, bad[i].line, why, sizeof why), OPTIONS_BAD);
        if (strstr(why, bad[i].sentence) == NULL) fail_msg("'%s': %s", bad[i].line, why);
    }
}

static void a_program_without_words_refuses_them(void **state) {
    (void)state;
    struct option_table without = with_words;
    static const char *const lines[] = {"x", "-", "--"};
    without.words = NULL;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct options options;
        char why[300] = "", sentence[64];
        assert_int_equal(parse(&without, &options, lines[i], why, sizeof why), OPTIONS_BAD);
        snprintf(sentence, sizeof sentence, "'%s' is not an option (--help lists them)", lines[i]);
        assert_string_equal(why, sentence);
    }
}

static void an_answer_ends_the_reading(void **state) {
    (void)state;
    struct options options;
    char why[300] = "";
    assert_int_equal(parse(&with_words, &options, "--version --bogus", why, sizeof why), OPTIONS_ANSWERED);
    assert_int_equal(parse(&with_words, &options, "--quick --device 1 --help bad", why, sizeof why), OPTIONS_ANSWERED);
    assert_int_equal(parse(&with_words, &options, "--bogus --help", why, sizeof why), OPTIONS_BAD);
}

static void help_shows_each_option_with_its_value(void **state) {
    (void)state;
    char *said = NULL;
    size_t length;
    FILE *out = open_memstream(&said, &length);
    options_help(&with_words, out);
    fclose(out);
    assert_string_equal(said, "usage: weir-x [options]\n"
                              "\n"
                              "  --quick              soon\n"
                              "  -n, --name NAME      of it;\n"
                              "                       the second line\n"
                              "  --json[=FILE]        as JSON\n"
                              "  --color NAME         red or green\n"
                              "  --threads N          at once\n"
                              "  --device N           which one\n"
                              "  --seed N             of chance\n"
                              "  --steps N            in all\n"
                              "  --add A-RATHER-LONG-VALUE\n"
                              "                       again and again\n"
                              "  --help\n"
                              "  --version\n"
                              "\n"
                              "Exit status: 0.\n");
    free(said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_after_a_blank_or_an_equals_sign),
        cmocka_unit_test(an_output_without_a_file_is_standard_output),
        cmocka_unit_test(words_are_what_is_no_option_and_all_behind_two_dashes),
        cmocka_unit_test(what_is_wrong_is_named_with_its_limit),
        cmocka_unit_test(a_program_without_words_refuses_them),
        cmocka_unit_test(an_answer_ends_the_reading),
        cmocka_unit_test(help_shows_each_option_with_its_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
