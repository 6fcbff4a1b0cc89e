/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "answer.h"
#include "device/json.h"

static const char *const endings[] = {
    [ENDED_COMPLETED] = "completed", [ENDED_OUT_OF_MEMORY] = "out_of_memory", [ENDED_FAILED] = "failed"};

/* ---- values ----------------------------------------------------------------------------------------------------- */

static void put_key(FILE *out, const char *key) { fprintf(out, ",\n \"%s\":", key); }

static void put_text(FILE *out, const char *key, const char *text) {
    put_key(out, key);
    if (text != NULL)
        weir__put_json(text, out);
    else
        fputs("null", out);
}

static void put_bool(FILE *out, const char *key, bool value) {
    put_key(out, key);
    fputs(value ? "true" : "false", out);
}

static void put_bare_count(FILE *out, uint64_t count) {
    if (count == NOT_KNOWN)
        fputs("null", out);
    else
        fprintf(out, "%" PRIu64, count);
}

static void put_count(FILE *out, const char *key, uint64_t count) {
    put_key(out, key);
    put_bare_count(out, count);
}

static void put_bare_number(FILE *out, double number, int decimals) {
    if (isfinite(number))
        fprintf(out, "%.*f", decimals, number);
    else
        fputs("null", out);
}

static void put_number(FILE *out, const char *key, double number, int decimals) {
    put_key(out, key);
    put_bare_number(out, number, decimals);
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct answer *answer, size_t pages) {
    return pages == 0 ? NOT_KNOWN : (uint64_t)pages * answer->search->page_bytes;
}

static void put_ratios(FILE *out, const char *key, const struct answer *answer, const size_t *pages, size_t count) {
    put_key(out, key);
    if (answer->found.min_pages == 0) {
        fputs("null", out);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "[" : ", ", out);
        put_bare_number(out, answer_ratio(answer, pages[i]), 6);
    }
    fputs(count == 0 ? "[]" : "]", out);
}

static void put_capacities(FILE *out, const struct answer *answer) {
    const struct found *found = &answer->found;
    put_count(out, "capacity_bytes", bytes_of(answer, answer->pages));
    put_number(out, "capacity_ratio", answer_ratio(answer, answer->pages), 6);
    put_text(out, "outcome", endings[answer->outcome->ending]);
    put_count(out, "failed_line",
              answer->outcome->ending == ENDED_COMPLETED ? NOT_KNOWN : answer->outcome->failed_line);
    put_text(out, "why", answer->outcome->ending == ENDED_FAILED ? answer->outcome->why : NULL);
    put_count(out, "peak_live_bytes", answer->trace->peak_live_bytes);
    put_count(out, "peak_rounded_bytes", answer->trace->peak_rounded_bytes);
    put_count(out, "peak_held_bytes", answer->outcome->peak_held_bytes);
    put_count(out, "peak_stranded_bytes", answer->outcome->peak_stranded_bytes);
    put_count(out, "min_capacity_bytes", bytes_of(answer, found->min_pages));
    put_number(out, "min_capacity_ratio", answer_ratio(answer, found->min_pages), 6);
    put_ratios(out, "fails_above", answer, found->fails_above, found->fails_above_count);
    put_ratios(out, "completes_below", answer, found->completes_below, found->completes_below_count);
    put_count(out, "honest_capacity_bytes", bytes_of(answer, found->honest_pages));
    put_number(out, "honest_capacity_ratio", answer_ratio(answer, found->honest_pages), 6);
}

static void put_costs(FILE *out, const struct answer *answer) {
    const struct outcome *outcome = answer->outcome;
    bool timed = search_is_timed(answer->search);
    double waited_us = outcome->host_wait_ns == NOT_KNOWN ? (double)NAN : (double)outcome->host_wait_ns / 1e3;
    put_number(out, "run_time_us", timed ? (double)outcome->run_ns / 1e3 : (double)NAN, 3);
    put_number(out, "slowdown", answer_slowdown(answer, outcome), 6);
    put_number(out, "fluid_slowdown", answer_fluid_slowdown(answer, answer->pages), 6);
    put_count(out, "memory_calls", outcome->memory_calls);
    put_count(out, "memory_calls_steady", outcome->memory_calls_steady);
    put_count(out, "order_calls_steady", outcome->order_calls_steady);
    put_count(out, "page_moves", outcome->page_moves);
    put_count(out, "moved_bytes", outcome->moved_bytes);
    put_count(out, "device_waits", outcome->device_waits);
    put_count(out, "host_waits", outcome->host_waits);
    put_count(out, "host_waits_steady", outcome->host_waits_steady);
    put_number(out, "host_wait_us", timed ? waited_us : (double)NAN, 3);
    put_number(out, "ns_per_op", outcome->cpu_ns_per_op, 1);
    put_count(out, "addresses_compared", outcome->addresses_compared);
    put_count(out, "addresses_equal", outcome->addresses_equal);
    put_count(out, "uses_not_told", outcome->uses_not_told);
}

static void put_point(FILE *out, const struct answer *answer, size_t pages) {
    const struct outcome *outcome = search_outcome(answer->search, answer->search->setup.target, pages);
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = {{"memory_calls_steady", outcome->memory_calls_steady},
                  {"page_moves", outcome->page_moves},
                  {"device_waits", outcome->device_waits},
                  {"host_waits", outcome->host_waits},
                  {"host_waits_steady", outcome->host_waits_steady}};
    fprintf(out, "{\"capacity_bytes\":%" PRIu64 ", \"capacity_ratio\":", bytes_of(answer, pages));
    put_bare_number(out, answer_ratio(answer, pages), 6);
    fprintf(out, ", \"outcome\":\"%s\", \"slowdown\":", endings[outcome->ending]);
    put_bare_number(out, answer_slowdown(answer, outcome), 6);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        fprintf(out, ", \"%s\":", counts[i].key);
        put_bare_count(out, counts[i].count);
    }
    fputs(", \"fluid_slowdown\":", out);
    put_bare_number(out, answer_fluid_slowdown(answer, pages), 6);
    fputc('}', out);
}

static void put_curve(FILE *out, const struct answer *answer) {
    put_key(out, "curve");
    fputs(answer->curve == NULL ? "null" : "[", out);
    for (size_t i = 0; answer->curve != NULL && i < answer->curve_count; i++) {
        fputs(i == 0 ? "" : ",\n  ", out);
        put_point(out, answer, answer->curve[i]);
    }
    fputs(answer->curve == NULL ? "" : "]", out);
}

void answer_json(const struct answer *answer, FILE *out) {
    const struct options *options = answer->options;
    fputs("{\"trace\":", out);
    weir__put_json(options->trace_path, out);
    put_text(out, "policy", options->allocator == NULL ? options->policy : NULL);
    put_text(out, "allocator", options->allocator);
    put_text(out, "law", options->clock == CLOCK_VIRTUAL ? options->law : NULL);
    put_text(out, "clock", options->clock == CLOCK_VIRTUAL ? "virtual" : "none");
    put_text(out, "profile", answer->profile);
    put_bool(out, "emulated", true);
    put_bool(out, "blind", options->blind);
    put_bool(out, "deterministic", options->deterministic);
    put_count(out, "operations", answer->trace->op_count);
    put_count(out, "iterations", answer->trace->iteration_count);
    put_capacities(out, answer);
    put_costs(out, answer);
    put_count(out, "refused_requests", answer->trace->refused_count);
    put_count(out, "failed_runs", answer->search->failed_runs);
    put_curve(out, answer);
    fputs("}\n", out);
}
