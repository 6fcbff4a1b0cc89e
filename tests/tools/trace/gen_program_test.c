/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace gen as a program: what it prints, writes and refuses. WEIR_TRACE_PROGRAM is the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/trace/gen_families.h"
#include "tools/trace/trace.h"

static char folder[] = "/tmp/weir-gen-program-XXXXXX";
static char path[64], other_path[64], log_path[64], suite_path[64];
static char text[1 << 16];

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/one.trace", folder);
    snprintf(other_path, sizeof other_path, "%s/other.trace", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    snprintf(suite_path, sizeof suite_path, "%s/suite", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char name[400];
    DIR *suite = opendir(suite_path);
    for (struct dirent *entry; suite != NULL && (entry = readdir(suite)) != NULL;) {
        snprintf(name, sizeof name, "%s/%s", suite_path, entry->d_name);
        if (entry->d_name[0] != '.') unlink(name);
    }
    if (suite != NULL) closedir(suite);
    rmdir(suite_path);
    unlink(path);
    unlink(other_path);
    unlink(log_path);
    return rmdir(folder);
}

static const char *read_file(const char *from) {
    FILE *file = fopen(from, "r");
    if (file == NULL) fail_msg("%s is not there", from);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static int run_line(const char *line) {
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Both outputs go to the log, unless `arguments` say otherwise. */
static int gen(const char *arguments, ...) __attribute__((format(printf, 1, 2)));
static int gen(const char *arguments, ...) {
    char line[800], command[1200];
    va_list values;
    va_start(values, arguments);
    vsnprintf(line, sizeof line, arguments, values);
    va_end(values);
    snprintf(command, sizeof command, "'%s' gen >'%s' 2>&1 %s", getenv("WEIR_TRACE_PROGRAM"), log_path, line);
    return run_line(command);
}

static void assert_says(const char *words) {
    if (strstr(read_file(log_path), words) == NULL) fail_msg("says \"%s\", expected \"%s\"", text, words);
}

/* ---- asked right ------------------------------------------------------------------------------------------------- */

static void the_list_names_every_family(void **state) {
    (void)state;
    assert_int_equal(gen("--list"), 0);
    for (size_t i = 0; i < gen_family_count; i++) assert_says(gen_families[i].name);
}

static void help_shows_the_parameters_with_a_family_s_values(void **state) {
    (void)state;
    assert_int_equal(gen("--help"), 0);
    assert_says("--set KEY=VALUE");
    assert_says("layers       36");
    assert_says("layers       32");
    assert_int_equal(gen("moe-noac --help"), 0);
    assert_says("layers       8");
    assert_says("a whole number from 1 to 1024");
}

static void a_trace_goes_to_standard_output_or_to_a_file(void **state) {
    (void)state;
    assert_int_equal(gen("gpt-dense --iters 1 >'%s'", path), 0);
    assert_int_equal(gen("gpt-dense --iters 1 -o '%s'", other_path), 0);
    assert_says("gpt-dense seed 1: ");
    assert_says("peak live 68.10 GiB");
    char compare[200];
    snprintf(compare, sizeof compare, "cmp '%s' '%s'", path, other_path);
    assert_int_equal(run_line(compare), 0);
}

static void the_first_comment_is_the_command_that_makes_the_trace(void **state) {
    (void)state;
    assert_int_equal(gen("--seed=5 moe-accum --set layers=3 'hot=0.5' --iters 1 --set ac=False --output='%s'", path),
                     0);
    char command[600], compare[200];
    const char *comment = strstr(read_file(path), "# weir-trace gen ");
    assert_non_null(comment);
    snprintf(command, sizeof command, "%.*s", (int)strcspn(comment + 17, "\n"), comment + 17);
    assert_string_equal(command, "moe-accum --seed 5 --set layers=3 --set iters=1 --set hot=0.5 --set ac=False");
    assert_int_equal(gen("%s -o '%s'", command, other_path), 0);
    snprintf(compare, sizeof compare, "cmp '%s' '%s'", path, other_path);
    assert_int_equal(run_line(compare), 0);
}

/* Peak and operations as SEEDS.txt has them. */
static void assert_row(const struct gen_suite_row *row) {
    char name[200], why[512], expected[300], seeds[100];
    struct trace trace;
    snprintf(name, sizeof name, "%s/%s-s%d.trace.gz", suite_path, row->family, (int)row->seed);
    if (!trace_read(name, &trace, why, sizeof why)) fail_msg("%s", why);
    assert_int_equal(trace.iteration_count, 1);
    snprintf(expected, sizeof expected, "\n%s-s%d.trace.gz family=%s seed=%d ops=%zu allocs=%u peak_live=%zu ",
             row->family, (int)row->seed, row->family, (int)row->seed, trace.op_count, trace.block_count,
             trace.peak_live_bytes);
    snprintf(seeds, sizeof seeds, "%s/SEEDS.txt", suite_path);
    if (strstr(read_file(seeds), expected) == NULL) fail_msg("SEEDS.txt has no line %s", expected);
    trace_free(&trace);
}

static void the_suite_is_compressed_and_says_how_to_make_each(void **state) {
    (void)state;
    if (gen("suite '%s' --iters 1", suite_path) != 0) {
        if (strstr(read_file(log_path), "gzip") == NULL) fail_msg("%s", text);
        print_message("built without gzip: SKIPPED\n");
        skip();
    }
    bool shown[64] = {false};
    for (size_t i = 0; i < gen_suite_count; i++) {
        assert_row(&gen_suite[i]);
        for (size_t j = 0; j < gen_family_count; j++)
            if (strcmp(gen_families[j].name, gen_suite[i].family) == 0) shown[j] = true;
    }
    for (size_t j = 0; j < gen_family_count; j++)
        if (!shown[j]) fail_msg("%s is not in the suite", gen_families[j].name);
}

/* ---- asked wrong ------------------------------------------------------------------------------------------------- */

static void assert_refused(int status, const char *arguments, const char *words) {
    const int given = gen("%s", arguments);
    if (given != status) fail_msg("'%s' gives %d, expected %d: %s", arguments, given, status, read_file(log_path));
    assert_says(words);
    const char *newline = strchr(text, '\n'); /* one sentence */
    if (newline == NULL || newline[1] != '\0') fail_msg("'%s' says %s", arguments, text);
}

static void what_is_wrong_is_refused_in_one_sentence(void **state) {
    (void)state;
    assert_refused(2, "", "no family given");
    assert_refused(2, "moe-fsdp3", "no family 'moe-fsdp3'; did you mean moe-fsdp2?");
    assert_refused(2, "x", "no family 'x' (--list shows them)");
    assert_refused(2, "moe-fsdp2 moe-fsdp1", "'moe-fsdp1' is one argument too many");
    assert_refused(2, "moe-fsdp2 --sed 1", "unknown option --sed; did you mean --seed?");
    assert_refused(2, "moe-fsdp2 --seed", "--seed needs a value");
    assert_refused(2, "moe-fsdp2 --seed 1x", "--seed 1x: expected a whole number from 0 to 18446744073709551615");
    assert_refused(2, "moe-fsdp2 --iters 0", "iters is '0', expected a whole number from 1 to 100000");
    assert_refused(2, "moe-fsdp2 --set layer=1", "did you mean layers?");
    assert_refused(2, "--set layers=1 moe-fsdp2", "--set belongs to a family, which comes first");
    assert_refused(2, "moe-fsdp2 --set seq=16777216 batch=4096", "expected at most 268435456");
    assert_refused(2, "suite", "suite needs a directory");
    assert_refused(2, "suite a b", "'b' is one argument too many");
    assert_refused(2, "suite /tmp/none --seed 2", "the suite has its own seeds");
    assert_refused(2, "suite /tmp/none --iters no", "iters is 'no'");
    assert_refused(2, "suite /tmp/none -o y", "the suite goes to its directory");
}

static void what_cannot_be_written_fails(void **state) {
    (void)state;
    char arguments[200];
    snprintf(arguments, sizeof arguments, "moe-fsdp2 -o '%s/none/x.trace'", folder);
    assert_refused(1, arguments, "none/x.trace");
    snprintf(arguments, sizeof arguments, "suite '%s/none/suite'", folder);
    assert_refused(1, arguments, "none/suite");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_names_every_family),
        cmocka_unit_test(help_shows_the_parameters_with_a_family_s_values),
        cmocka_unit_test(a_trace_goes_to_standard_output_or_to_a_file),
        cmocka_unit_test(the_first_comment_is_the_command_that_makes_the_trace),
        cmocka_unit_test(the_suite_is_compressed_and_says_how_to_make_each),
        cmocka_unit_test(what_is_wrong_is_refused_in_one_sentence),
        cmocka_unit_test(what_cannot_be_written_fails),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
