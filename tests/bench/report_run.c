/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: the smallest bench makes figures and a page of them, with a peer that is a library and one that is not there; the page
 * can be made again from the figures; bad input is refused by name. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/report.h"
#include "tests/well_formed.h"

static char folder[] = "/tmp/weir_bench_report_XXXXXX";

static const char pool[] = "{\"mutex_ns\":11,\"missing\":{\"torch\":\"no "
                           "library was given\"},\"mix\":[],\"pairs\":[{\"loop\":\"pairs-4K\",\"bytes\":4096,"
                           "\"threads\":1,\"record_use\":false,\"weir_ns\":22,\"weir_fastest_ns\":20,\"rmm_pool_ns\":"
                           "400,\"rmm_pool_fastest_ns\":300}]}";

/* Its exit status; `said`: what it said on standard error. */
static int run(const char *said, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int run(const char *said, const char *format, ...) {
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(command, sizeof command, "cd %s && ", folder);
    length += vsnprintf(command + length, sizeof command - (size_t)length, format, arguments);
    va_end(arguments);
    snprintf(command + length, sizeof command - (size_t)length, " > out 2> %s", said);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *text_of(const char *name) {
    char path[256], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re"), *out = open_memstream(&text, &bytes);
    assert_non_null(file);
    for (int byte; (byte = fgetc(file)) != EOF;) fputc(byte, out);
    fclose(file);
    fclose(out);
    return text;
}

static void write_text(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_place(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return 1;
    write_text("pool.json", pool);
    return run("said", "%s gen gpt-dense --iters 4 --set layers=2 batch=1 -o small.trace", TRACER);
}

static int remove_place(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const json_t *entry(const json_t *list, const char *key, const char *value) {
    size_t index;
    const json_t *found;
    json_array_foreach(list, index, found) {
        const char *text = json_string_value(json_object_get(found, key));
        if (text != NULL && strcmp(text, value) == 0) return found;
    }
    fail_msg("nothing has %s %s", key, value);
    return NULL;
}

static void the_smallest_bench_makes_figures_and_a_page(void **state) {
    (void)state;
    json_error_t error;
    assert_int_equal(run("said",
                         "%s --quick --json=report.json --html=report.html --pool=pool.json --library=rmm:9.9:%s "
                         "'--absent=torch:no network' '--command=here' small=small.trace",
                         BENCH, PLAIN),
                     0);
    char *page = text_of("report.html"), *text = text_of("report.json");
    is_well_formed(page);
    asks_for_nothing_from_elsewhere(page);
    assert_non_null(strstr(page, "<b>PyTorch, default</b> was not run: no network"));
    json_t *report = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(report);
    const json_t *torch = entry(json_object_get(report, "allocators"), "key", "torch");
    assert_string_equal(json_string_value(json_object_get(torch, "missing")), "no network");
    assert_string_equal(json_string_value(json_object_get(torch, "cpu_missing")), "no network");
    char *said = text_of("out");
    assert_non_null(strstr(said, "PyTorch, default was not run: no network\n"));
    free(said);
    assert_non_null(strstr(page, "WEIR_PEER_RMM=pool weir-replay TRACE --allocator=" PLAIN ":weir_peer_alloc:"));
    const json_t *trace = entry(json_object_get(report, "traces"), "name", "small");
    const json_t *weir = entry(json_object_get(trace, "results"), "allocator", "weir");
    const json_t *peer = entry(json_object_get(trace, "results"), "allocator", "rmm_pool");
    assert_true(json_real_value(json_object_get(weir, "min_capacity_ratio")) >= 1);
    assert_int_equal(json_array_size(json_object_get(weir, "curve")), 7);
    assert_int_equal(json_array_size(json_object_get(peer, "curve")), 7);
    assert_true(json_is_null(json_object_get(peer, "missing")));
    const json_t *sum = entry(json_object_get(report, "summary"), "allocator", "rmm_pool");
    assert_true(json_real_value(json_object_get(sum, "cpu_of_weir")) == 15);
    json_decref(report);
    free(text);
    free(page);
}

static void the_page_is_made_again_from_the_figures(void **state) {
    (void)state;
    assert_int_equal(run("said", "%s --from=report.json --html=again.html --json=again.json", BENCH), 0);
    char *page = text_of("report.html"), *again = text_of("again.html");
    char *figures = text_of("report.json"), *figures_again = text_of("again.json");
    assert_string_equal(page, again);
    assert_string_equal(figures, figures_again);
    free(page);
    free(again);
    free(figures);
    free(figures_again);
}

static void a_library_that_is_none_is_missing_with_the_reason_on_the_machine_that_was_named(void **state) {
    (void)state;
    assert_int_equal(run("said",
                         "%s --quick --json=none.json --html=none.html --pool=pool.json --profile=h100 "
                         "--library=torch:1:./none.so "
                         "small=small.trace",
                         BENCH),
                     0);
    char *page = text_of("none.html");
    assert_non_null(strstr(page, "<b>PyTorch, default</b> was not replayed: --allocator ./none.so: the library can't"));
    assert_non_null(strstr(page, "(profile h100)"));
    free(page);
}

/* Of another kind than any that the value may have. */
static json_t *wrong_for(const json_t *value) {
    return json_is_string(value) ? json_integer(1) : json_is_null(value) ? json_object() : json_string("x");
}

static void refuse_each(const json_t *report, json_t *part, const char *key, size_t *count) {
    char why[320];
    json_t *value = json_incref(json_is_object(part) ? json_object_get(part, key) : json_array_get(part, 0));
    json_is_object(part) ? json_object_set_new(part, key, wrong_for(value))
                         : json_array_set_new(part, 0, wrong_for(value));
    if (report_check(report, why, sizeof why)) fail_msg("%s of a wrong kind is taken", key);
    json_is_object(part) ? json_object_set(part, key, value) : json_array_set(part, 0, value);
    assert_true(report_check(report, why, sizeof why));
    ++*count;
    const char *inner;
    json_t *next;
    void *after;
    json_object_foreach_safe(value, after, inner, next) refuse_each(report, value, inner, count);
    if (json_array_size(value) > 0) refuse_each(report, value, "an entry", count);
    json_decref(value);
}

static void a_report_with_any_value_of_a_wrong_kind_is_refused(void **state) {
    (void)state;
    char *text = text_of("report.json");
    json_t *report = json_loads(text, 0, NULL);
    size_t count = 0;
    free(text);
    json_object_del(report, "summary"); /* it is made anew */
    json_object_del(report, "report");
    const char *key;
    json_t *value;
    void *after;
    json_object_foreach_safe(report, after, key, value) refuse_each(report, report, key, &count);
    assert_true(count > 40);
    json_decref(report);
}

static void bad_input_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *arguments, *sentence;
    } refused[] = {
        {"--json=a --html=b --pool=pool.json", "no NAME=TRACE is given"},
        {"--html=b small=small.trace", "--json=FILE and --pool=FILE are needed"},
        {"--html=b --from=pool.json", "pool.json is no report: \"report\" is not \"weir-bench 1\""},
        {"--html=b --from=small.trace", "small.trace, line 1: "},
        {"--html=b --from=report.json small=small.trace", "--from makes a page"},
        {"--html=b --library=cub:1:x", "--library cub:1:x: expected torch: or rmm: and VERSION:PATH"},
        {"--html=b --library=rmm:1", "--library rmm:1: expected torch: or rmm: and VERSION:PATH"},
        {"--html=b --from=cut.json", "cut.json is no report: made is missing: it should be a text"},
        {"--html=b --from=nowhere.json", "nowhere.json"},
        {"--json=a --html=b --pool=nowhere.json small=small.trace", "nowhere.json"},
        {"--json=a --html=b --pool=pool.json small=none.trace", "'small=none.trace' can't be read: No such file"},
        {"--html=b --jobs=0", "--jobs 0: expected a whole number from 1 to 64"},
        {"--html=b --fast", "unknown option --fast"},
        {"--html=b small", "'small' is not NAME=TRACE"},
    };
    write_text("cut.json", "{\"report\":\"weir-bench 1\"}");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (run("said", "%s %s", BENCH, refused[i].arguments) != 2) fail_msg("%s is not refused", refused[i].arguments);
        char *said = text_of("said");
        if (strstr(said, refused[i].sentence) == NULL) fail_msg("%s: said \"%s\"", refused[i].arguments, said);
        free(said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_bench_makes_figures_and_a_page),
        cmocka_unit_test(the_page_is_made_again_from_the_figures),
        cmocka_unit_test(a_library_that_is_none_is_missing_with_the_reason_on_the_machine_that_was_named),
        cmocka_unit_test(a_report_with_any_value_of_a_wrong_kind_is_refused),
        cmocka_unit_test(bad_input_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
