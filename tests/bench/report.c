/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: the bench's page is well-formed and needs nothing from elsewhere, whatever the figures are; its sums are what they are
 * said to be; and what is missing is named with its reason. */
#include "bench/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/well_formed.h"

/* ---- a report of two traces -------------------------------------------------------------------------------------- */

static json_t *parsed(const char *text) {
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    if (json == NULL) fail_msg("%s", error.text);
    return json;
}

#define POINT(ratio, outcome, slowdown)                                                                                \
    "{\"capacity_ratio\":" ratio ",\"outcome\":\"" outcome "\",\"slowdown\":" slowdown "}"
#define RESULT(key, least, honest, held, points)                                                                       \
    "{\"allocator\":\"" key "\",\"missing\":null,\"min_capacity_ratio\":" least ",\"honest_capacity_ratio\":" honest   \
    ",\"held_ratio\":" held ",\"fails_above\":[],\"curve\":[" points "]}"
#define TRACE(name, results)                                                                                           \
    "{\"name\":\"" name "\",\"operations\":100,\"iterations\":5,\"peak_live_bytes\":1073741824,\"results\":[" results  \
    "]}"

static const char first_trace[] = TRACE(
    "one", RESULT("weir", "1.0", "1.0", "1.2",
                  POINT("1.0", "completed", "0.001") "," POINT(
                      "2.0", "completed",
                      "0")) "," RESULT("torch", "1.5", "2.0", "1.8",
                                       POINT("1.0", "out_of_memory", "null") "," POINT(
                                           "2.0", "completed",
                                           "0.01")) ",{\"allocator\":\"rmm_pool\",\"missing\":\"it crashed <here>\"}");
static const char second_trace[] =
    TRACE("two & more", RESULT("weir", "1.1", "1.25", "1.4",
                               POINT("1.0", "out_of_memory", "null") "," POINT(
                                   "2.0", "completed", "0")) "," RESULT("torch", "1.65", "null", "2.0",
                                                                        POINT("1.0", "out_of_memory", "null") "," POINT(
                                                                            "2.0", "completed", "3")));

static const char pool[] =
    "{\"mutex_ns\":11.0,\"missing\":{\"jemalloc\":\"it is not "
    "installed\"},\"versions\":{\"mimalloc\":\"2.0.9\"},\"pairs\":["
    "{\"loop\":\"pairs-4K\",\"bytes\":4096,\"threads\":1,\"record_use\":false,\"weir_ns\":22.0,\"weir_fastest_ns\":20."
    "0,"
    "\"torch_ns\":900.0,\"torch_fastest_ns\":200.0,\"rmm_pool_ns\":null,\"rmm_pool_fastest_ns\":null}],\"mix\":["
    "{\"loop\":\"mix-64M\",\"bytes\":67108864,\"threads\":1,\"record_use\":false,\"weir_ns\":40.0,\"weir_fastest_ns\":"
    "40.0,"
    "\"torch_ns\":1200.0,\"torch_fastest_ns\":1200.0}]}";

static json_t *made_report(void) {
    json_t *report = parsed(
        "{\"report\":\"weir-bench 1\",\"emulated\":true,\"made\":\"2026-11-30\",\"replay_seconds\":12.5,"
        "\"machine\":{\"processor\":\"<CPU>\",\"cores\":2},\"device\":{\"profile\":\"gh200\"},"
        "\"commands\":[\"./run.sh bench --torch && true\"],\"allocators\":["
        "{\"key\":\"weir\",\"name\":\"weir\",\"what\":\"itself\",\"version\":null,\"missing\":null},"
        "{\"key\":\"torch\",\"name\":\"PyTorch, default\",\"what\":\"as it comes\",\"version\":\"PyTorch "
        "1.2\",\"replayed\":true,\"missing\":null},"
        "{\"key\":\"rmm_pool\",\"name\":\"RMM, pool\",\"what\":\"its pool\",\"version\":null,\"missing\":null},"
        "{\"key\":\"rmm_arena\",\"name\":\"RMM, arena\",\"what\":\"its arena\",\"version\":null,"
        "\"missing\":\"pip said \\\"</p><script>\\\"\"},"
        "{\"key\":\"jemalloc\",\"name\":\"jemalloc\",\"what\":\"of the host\",\"version\":null,\"missing\":null},"
        "{\"key\":\"mimalloc\",\"name\":\"mimalloc\",\"what\":\"of the host\",\"version\":null,\"replayed\":false,"
        "\"missing\":null}]}");
    json_t *figures = parsed(pool), *traces = json_array();
    report_add_cpu(figures, report);
    json_decref(figures);
    json_array_append_new(traces, parsed(first_trace));
    json_array_append_new(traces, parsed(second_trace));
    json_object_set_new(report, "traces", traces);
    report_sum(report);
    return report;
}

static char *page_of(const json_t *report) {
    char *page = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&page, &bytes);
    assert_non_null(out);
    report_page(report, out);
    assert_int_equal(fclose(out), 0);
    return page;
}

static void has(const char *page, const char *part) {
    if (strstr(page, part) == NULL) fail_msg("the page lacks \"%s\"", part);
}

static void has_not(const char *page, const char *part) {
    if (strstr(page, part) != NULL) fail_msg("the page has \"%s\"", part);
}

static void is_near(double value, double expected) {
    if (!(value > expected - 1e-9 && value < expected + 1e-9)) fail_msg("%.9g is not %.9g", value, expected);
}

/* ---- promises ---------------------------------------------------------------------------------------------------- */

static void the_page_is_well_formed_and_complete_in_itself(void **state) {
    (void)state;
    json_t *report = made_report();
    char *page = page_of(report);
    is_well_formed(page);
    asks_for_nothing_from_elsewhere(page);
    has(page, "No GPU was used");
    has(page, "<code>./run.sh bench --torch &#38;&#38; true</code>");
    has(page, "&#60;CPU&#62;");
    has(page, "Peers over the emulated CUDA runtime and driver: PyTorch 1.2.");
    has(page, "Peers of host memory: mimalloc 2.0.9.");
    free(page);
    json_decref(report);
}

static void sums_are_medians_and_ratios_to_weir(void **state) {
    (void)state;
    json_t *report = made_report();
    const json_t *summary = json_object_get(report, "summary");
    const json_t *weir = report_entry(summary, "allocator", "weir"),
                 *torch = report_entry(summary, "allocator", "torch");
    is_near(report_number(weir, "min_median"), 1.05);
    is_near(report_number(weir, "min_most"), 1.1);
    is_near(report_number(weir, "honest_median"), 1.125);
    is_near(report_number(weir, "held_median"), 1.3);
    is_near(report_number(weir, "cpu_of_weir"), 1);
    is_near(report_number(torch, "min_median"), 1.575);
    is_near(report_number(torch, "min_of_weir"), 1.5);
    is_near(report_number(torch, "cpu_of_weir"), 20);
    is_near(report_number(torch, "cpu_of_weir_least"), 10);
    is_near(report_number(torch, "cpu_of_weir_most"), 30);
    json_decref(report);
}

static void no_device_is_more_than_any_and_is_told_as_such(void **state) {
    (void)state;
    json_t *report = made_report();
    const json_t *torch = report_entry(json_object_get(report, "summary"), "allocator", "torch");
    assert_true(json_is_null(json_object_get(torch, "honest_median")));
    is_near(report_number(torch, "honest_beyond"), 1);
    is_near(report_number(torch, "traces"), 2);
    char *page = page_of(report);
    has(page, "more than 3");
    free(page);
    json_decref(report);
}

static void what_is_missing_is_named_with_its_reason(void **state) {
    (void)state;
    json_t *report = made_report();
    char *page = page_of(report);
    has(page, "<b>RMM, arena</b> was not replayed: pip said &#34;&#60;/p&#62;&#60;script&#62;&#34;");
    has(page, "<b>RMM, pool</b> failed on one: it crashed &#60;here&#62;");
    has(page, "<b>jemalloc</b> was not timed: it is not installed");
    assert_null(strstr(page, "<script"));
    free(page);
    json_decref(report);
}

/* A report in which nothing ran but weir's own two policies. */
static json_t *own_report(bool quick) {
    static const char text[] = "{\"allocators\":[{\"key\":\"weir\"},{\"key\":\"per_stream\"},{\"key\":\"torch\","
                               "\"missing\":\"it was not asked "
                               "for\",\"cpu_missing\":\"it was not asked for\"}]}";
    json_t *report = parsed(text), *traces = json_array();
    json_array_append_new(traces, parsed(TRACE("one", RESULT("weir", "1.0", "1.0", "1.2",
                                                             "") "," RESULT("per_stream", "1.2", "1.4", "1.5", ""))));
    json_object_set_new(report, "traces", traces);
    json_object_set_new(report, "quick", json_boolean(quick));
    report_sum(report);
    return report;
}

static void the_words_are_of_what_was_run(void **state) {
    (void)state;
    json_t *report = made_report(), *own = own_report(false);
    char *page = page_of(report), *own_page = page_of(own);
    has(page, "No GPU was used. PyTorch's allocators are the real ones; the device is emulated");
    has(page, "libc10_cuda");
    has_not(page, "RMM's resources are"); /* it failed */
    has(own_page, "Only weir's own policies were replayed, no other allocator; the device is emulated");
    has(own_page, "; its own policy per-stream needs 1.40&#160;x (one trace)");
    has_not(own_page, "the next best here");
    has_not(own_page, "real ones");
    has_not(own_page, "RMM's resources are");
    has_not(own_page, "RMM has no call");
    has_not(own_page, "libc10_cuda");
    has_not(own_page, "jemalloc");
    free(page);
    free(own_page);
    json_decref(report);
    json_decref(own);
}

static void a_quick_run_promises_nothing_of_larger_devices(void **state) {
    (void)state;
    json_t *quick = own_report(true), *full = own_report(false);
    char *quick_page = page_of(quick), *full_page = page_of(full);
    has(full_page, "every larger one of those tried");
    has_not(quick_page, "every larger one of those tried");
    has(quick_page, "bisecting alone");
    has_not(full_page, "bisecting alone");
    free(quick_page);
    free(full_page);
    json_decref(quick);
    json_decref(full);
}

static void words_below_a_table_are_not_scrolled_with_it(void **state) {
    (void)state;
    json_t *report = own_report(false);
    char *page = page_of(report);
    has(page, "</table>\n</div>\n<p class=\"note words\" id=\"glance-words\">");
    has_not(page, "<caption>");
    free(page);
    json_decref(report);
}

static void pictures_show_each_device_and_where_memory_ran_out(void **state) {
    (void)state;
    json_t *report = made_report();
    char *page = page_of(report);
    size_t out = 0;
    for (const char *at = page; (at = strstr(at, ">out</text>")) != NULL; at++) out++;
    assert_int_equal(out, 3);
    has(page, "PyTorch, default on 2 x: 1.0 % slower");
    has(page, "smallest device: 1.500 x");
    has(page, "at most 1 % slower from 1.250 x on");
    has(page, "one of 256 live blocks is replaced, up to 64 MiB");
    free(page);
    json_decref(report);
}

static void odd_figures_still_make_a_page(void **state) {
    (void)state;
    static const char *const odd[] = {
        "{}",
        "{\"traces\":3,\"allocators\":\"none\",\"cpu\":[],\"commands\":{},\"machine\":null}",
        "{\"traces\":[1,{\"results\":[{\"curve\":[{},{\"slowdown\":-1e300}]}]}],\"allocators\":[2,{\"key\":5}],"
        "\"commands\":[7]}",
        "{\"cpu\":{\"loops\":[{\"loop\":\"pairs-4K\",\"bytes\":-1,\"results\":[{\"allocator\":\"?\",\"fastest_ns\":"
        "1e308}]}]},"
        "\"allocators\":[{\"key\":\"?\",\"name\":\"<\"}]}",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        json_t *report = parsed(odd[i]);
        report_sum(report);
        char *page = page_of(report);
        is_well_formed(page);
        free(page);
        json_decref(report);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_well_formed_and_complete_in_itself),
        cmocka_unit_test(sums_are_medians_and_ratios_to_weir),
        cmocka_unit_test(no_device_is_more_than_any_and_is_told_as_such),
        cmocka_unit_test(what_is_missing_is_named_with_its_reason),
        cmocka_unit_test(the_words_are_of_what_was_run),
        cmocka_unit_test(a_quick_run_promises_nothing_of_larger_devices),
        cmocka_unit_test(words_below_a_table_are_not_scrolled_with_it),
        cmocka_unit_test(pictures_show_each_device_and_where_memory_ran_out),
        cmocka_unit_test(odd_figures_still_make_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
