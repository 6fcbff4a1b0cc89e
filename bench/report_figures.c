/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "bench/figures.h"
#include "bench/report.h"

enum { MOST_VALUES = 256 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

double report_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

const char *report_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

const json_t *report_entry(const json_t *list, const char *key, const char *value) {
    size_t index;
    const json_t *entry;
    json_array_foreach(list, index, entry) {
        if (strcmp(report_text(entry, key), value) == 0) return entry;
    }
    return NULL;
}

json_t *report_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* ---- the host's time --------------------------------------------------------------------------------------------- */

static double subject_number(const json_t *row, const char *subject, const char *what) {
    char key[96];
    snprintf(key, sizeof key, "%.60s%s", subject, what);
    return report_number(row, key);
}

static void add_loop(const json_t *row, bool mix, json_t *loops) {
    json_t *results = json_array();
    for (size_t i = 0; i < report_allocator_count; i++) {
        const char *key = report_allocators[i].key;
        const double median = subject_number(row, key, "_ns"), fastest = subject_number(row, key, "_fastest_ns");
        if (isnan(median)) continue;
        json_array_append_new(
            results, json_pack("{s:s, s:f, s:f}", "allocator", key, "median_ns", median, "fastest_ns", fastest));
    }
    json_array_append_new(loops,
                          json_pack("{s:s, s:I, s:I, s:b, s:b, s:o}", "loop", report_text(row, "loop"), "bytes",
                                    json_integer_value(json_object_get(row, "bytes")), "threads",
                                    json_integer_value(json_object_get(row, "threads")), "record_use",
                                    json_is_true(json_object_get(row, "record_use")), "mix", mix, "results", results));
}

void report_add_cpu(const json_t *pool, json_t *report) {
    static const char *const lists[] = {"pairs", "mix"};
    json_t *loops = json_array(), *entry;
    size_t index;
    for (size_t list = 0; list < 2; list++) {
        const json_t *row;
        json_array_foreach(json_object_get(pool, lists[list]), index, row) add_loop(row, list == 1, loops);
    }
    json_object_set_new(
        report, "cpu",
        json_pack("{s:o, s:o}", "mutex_ns", report_real(report_number(pool, "mutex_ns")), "loops", loops));
    json_array_foreach(json_object_get(report, "allocators"), index, entry) {
        json_t *why = json_object_get(json_object_get(pool, "missing"), report_text(entry, "key"));
        json_object_set(entry, "cpu_missing", why != NULL ? why : json_null());
        const char *version = report_text(json_object_get(pool, "versions"), report_text(entry, "key"));
        if (*version != 0)
            json_object_set_new(entry, "version", json_sprintf("%s %s", report_text(entry, "name"), version));
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

struct values {
    double value[MOST_VALUES];
    size_t count;
};

static void add(struct values *values, double value) {
    if (values->count < MOST_VALUES) values->value[values->count++] = value;
}

static double median_of(const struct values *values) { return figures_median(values->value, values->count); }
static double least_of(const struct values *values) { return figures_least(values->value, values->count); }
static double most_of(const struct values *values) { return figures_most(values->value, values->count); }

/* A device that was not found is larger than any that was tried. */
static double device_of(const json_t *result, const char *key) {
    const double ratio = report_number(result, key);
    return isnan(ratio) ? (double)INFINITY : ratio;
}

static size_t beyond(const struct values *values) {
    size_t count = 0;
    for (size_t i = 0; i < values->count; i++) count += isinf(values->value[i]) ? 1 : 0;
    return count;
}

/* `name`_median, _most, _of_weir, and in how many traces no device was found. */
static void sum_devices(const json_t *report, const char *key, const char *from, const char *name, json_t *sum) {
    struct values ratios = {.count = 0}, of_weir = {.count = 0};
    const json_t *trace;
    size_t index;
    char named[64];
    json_array_foreach(json_object_get(report, "traces"), index, trace) {
        const json_t *results = json_object_get(trace, "results"), *result = report_entry(results, "allocator", key);
        const json_t *weir = report_entry(results, "allocator", "weir");
        if (result == NULL || !json_is_null(json_object_get(result, "missing"))) continue;
        add(&ratios, device_of(result, from));
        add(&of_weir, device_of(result, from) / report_number(weir, from));
    }
    const struct {
        const char *what;
        json_t *value;
    } sums[] = {{"median", report_real(median_of(&ratios))},
                {"most", report_real(most_of(&ratios))},
                {"of_weir", report_real(median_of(&of_weir))},
                {"beyond", json_integer((json_int_t)beyond(&ratios))}};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        snprintf(named, sizeof named, "%s_%s", name, sums[i].what);
        json_object_set_new(sum, named, sums[i].value);
    }
    json_object_set_new(sum, "traces", json_integer((json_int_t)ratios.count));
}

static void sum_held(const json_t *report, const char *key, json_t *sum) {
    struct values held = {.count = 0};
    const json_t *trace;
    size_t index, again = 0;
    json_array_foreach(json_object_get(report, "traces"), index, trace) {
        const json_t *result = report_entry(json_object_get(trace, "results"), "allocator", key);
        add(&held, report_number(result, "held_ratio"));
        again += json_array_size(json_object_get(result, "fails_above")) > 0 ? 1 : 0;
    }
    json_object_set_new(sum, "held_median", report_real(median_of(&held)));
    json_object_set_new(sum, "traces_that_fail_above", json_integer((json_int_t)again));
}

/* By the fastest rounds, which other programs on the machine have disturbed least. */
static void sum_cpu(const json_t *report, const char *key, json_t *sum) {
    struct values of_weir = {.count = 0};
    const json_t *loop;
    size_t index;
    json_array_foreach(json_object_get(json_object_get(report, "cpu"), "loops"), index, loop) {
        const json_t *results = json_object_get(loop, "results");
        add(&of_weir, report_number(report_entry(results, "allocator", key), "fastest_ns") /
                          report_number(report_entry(results, "allocator", "weir"), "fastest_ns"));
    }
    json_object_set_new(sum, "cpu_of_weir", report_real(median_of(&of_weir)));
    json_object_set_new(sum, "cpu_of_weir_least", report_real(least_of(&of_weir)));
    json_object_set_new(sum, "cpu_of_weir_most", report_real(most_of(&of_weir)));
}

bool report_has(const json_t *report, enum report_peer peer, bool replayed) {
    const json_t *sum;
    size_t index;
    json_array_foreach(json_object_get(report, "summary"), index, sum) {
        const size_t place = report_place(report_text(sum, "allocator"));
        if (place == report_allocator_count || report_allocators[place].peer != peer) continue;
        if (replayed ? report_number(sum, "traces") > 0 : isfinite(report_number(sum, "cpu_of_weir"))) return true;
    }
    return false;
}

void report_sum(json_t *report) {
    json_t *summary = json_array();
    const json_t *entry;
    size_t index;
    json_array_foreach(json_object_get(report, "allocators"), index, entry) {
        const char *key = report_text(entry, "key");
        json_t *sum = json_pack("{s:s}", "allocator", key);
        sum_devices(report, key, "min_capacity_ratio", "min", sum);
        sum_devices(report, key, "honest_capacity_ratio", "honest", sum);
        sum_held(report, key, sum);
        sum_cpu(report, key, sum);
        json_array_append_new(summary, sum);
    }
    json_object_set_new(report, "summary", summary);
}
