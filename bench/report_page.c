/* SPDX-License-Identifier: Apache-2.0 */
/* The page: the claim, all allocators at a glance, a picture for each trace, the host's time, what is missing, how it was
 * measured. It needs nothing from elsewhere and has no script. */
#include <math.h>
#include <string.h>

#include "bench/report.h"
#include "tools/page/page.h"

/* Made from report.css when the program is built. */
extern const char report_css[];

/* ---- the claim --------------------------------------------------------------------------------------------------- */

static const json_t *sum_of(const json_t *report, const char *key) {
    return report_entry(json_object_get(report, "summary"), "allocator", key);
}

/* The peer that needs least where it is to cost at most 1 %: the hardest one to beat. NULL: none was measured. */
static const json_t *hardest(const json_t *report) {
    const json_t *sum, *found = NULL;
    size_t index;
    json_array_foreach(json_object_get(report, "summary"), index, sum) {
        const double ratio = report_number(sum, "honest_median");
        if (strcmp(report_text(sum, "allocator"), "weir") == 0 || !isfinite(ratio)) continue;
        if (found == NULL || ratio < report_number(found, "honest_median")) found = sum;
    }
    return found;
}

static bool has_others(const json_t *report) {
    return report_has(report, REPORT_TORCH, true) || report_has(report, REPORT_RMM, true);
}

static void put_claim(const json_t *report, FILE *out) {
    const double weir = report_number(sum_of(report, "weir"), "honest_median");
    const json_t *next = hardest(report);
    if (isfinite(weir))
        fprintf(out, "%.3f&#160;x what is live is enough for weir to be at most 1&#160;%% slower", weir);
    else
        fputs("weir beside other allocators", out);
    if (isfinite(weir) && next != NULL) {
        const char *key = report_text(next, "allocator");
        fputs(has_others(report) ? "; the next best here, " : "; ", out);
        if (strcmp(key, "per_stream") == 0) fputs("its own policy ", out);
        page_text(report_name(key), out);
        fprintf(out, "%s needs %.2f&#160;x", has_others(report) ? "," : "", report_number(next, "honest_median"));
    }
    const size_t traces = json_array_size(json_object_get(report, "traces"));
    if (traces == 1)
        fputs(" (one trace)", out);
    else
        fprintf(out, " (medians of %zu traces)", traces);
}

/* Whose code the figures are of. */
static void put_real(const json_t *report, FILE *out) {
    const bool torch = report_has(report, REPORT_TORCH, true), rmm = report_has(report, REPORT_RMM, true);
    if (has_others(report))
        fprintf(out, "%s%s%s allocators are the real ones", torch ? "PyTorch's" : "", torch && rmm ? " and " : "",
                rmm ? "RMM's" : "");
    else
        fputs("Only weir's own policies were replayed, no other allocator", out);
}

static void put_head(const json_t *report, FILE *out) {
    page_head("weir bench", report_css, out);
    fputs("<body>\n<header>\n<p class=\"brand\">weir bench</p>\n<h1>", out);
    put_claim(report, out);
    fputs("</h1>\n<p class=\"note\">No GPU was used. ", out);
    put_real(report, out);
    fputs("; the device is emulated (profile ", out);
    page_text(report_text(json_object_get(report, "device"), "profile"), out);
    fputs("), its clock is virtual, and the traces are modelled training steps. Devices are multiples of the peak of "
          "live "
          "bytes: no allocator can do with less than 1.</p>\n</header>\n<main>\n",
          out);
}

/* ---- at a glance ------------------------------------------------------------------------------------------------- */

static void put_cell(double value, const char *format, const char *otherwise, FILE *out) {
    fputs("<td>", out);
    if (isfinite(value))
        fprintf(out, format, value); /* one of those below */
    else
        fputs(otherwise, out);
    fputs("</td>", out);
}

static void put_sum(const json_t *report, const json_t *sum, FILE *out) {
    const char *key = report_text(sum, "allocator");
    const json_t *entry = report_entry(json_object_get(report, "allocators"), "key", key);
    const bool measured = report_number(sum, "traces") > 0;
    const double least = report_number(sum, "cpu_of_weir_least"), most = report_number(sum, "cpu_of_weir_most");
    const char *none = measured ? "more than 3" : "-";
    fprintf(out,
            "<tr><th scope=\"row\"><svg class=\"key\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"c%zu\" "
            "width=\"10\" height=\"10\" rx=\"2\"/></svg>",
            report_colour(key));
    page_text(report_name(key), out);
    fputs("<br/><small>", out);
    page_text(report_text(entry, "what"), out);
    fputs("</small></th>", out);
    put_cell(report_number(sum, "min_median"), "%.3f", none, out);
    put_cell(report_number(sum, "min_most"), "%.3f", none, out);
    put_cell(report_number(sum, "honest_median"), "%.3f", none, out);
    put_cell(report_number(sum, "honest_most"), "%.3f", none, out);
    put_cell(report_number(sum, "honest_of_weir"), "%.2f x", "-", out);
    put_cell(report_number(sum, "held_median"), "%.2f", "-", out);
    put_cell(report_number(sum, "cpu_of_weir"), "%.1f x", "-", out);
    fputs("<td>", out);
    if (isfinite(least) && strcmp(key, "weir") != 0) fprintf(out, "%.1f to %.0f x", least, most);
    fputs("</td></tr>\n", out);
}

static const char glance_head[] =
    "<section>\n"
    "<h2>At a glance</h2>\n"
    "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"At a glance\">\n"
    "<table class=\"glance\" aria-describedby=\"glance-words\">\n"
    "<thead><tr><th scope=\"col\"></th><th scope=\"col\">smallest device</th><th scope=\"col\">worst</th><th "
    "scope=\"col\">at most 1 % slower from</th><th scope=\"col\">worst</th><th scope=\"col\">median, of "
    "weir's</th><th scope=\"col\">held with plenty</th><th scope=\"col\">host time, of weir's</th><th "
    "scope=\"col\">range</th></tr></thead>\n"
    "<tbody>\n";

/* Below the table, not in it: a table that is scrolled sideways takes its caption along. */
static void put_glance_words(const json_t *report, FILE *out) {
    const bool coarse = json_is_true(json_object_get(report, "quick"));
    fprintf(
        out,
        "<p class=\"note words\" id=\"glance-words\">Median and worst of the traces. Smallest: on which the job "
        "completes. At most 1 %% slower: %s. Held: what an allocator takes of a device 4 times the peak. Host time: "
        "of the loops below and others, by their fastest rounds; median, least and most.</p>\n",
        coarse ? "on this device. Both were found by bisecting alone (quick): a larger one may say otherwise"
               : "on this device and every larger one of those tried");
}

static void put_glance(const json_t *report, FILE *out) {
    const json_t *sum;
    size_t index;
    fputs(glance_head, out);
    json_array_foreach(json_object_get(report, "summary"), index, sum) {
        const bool has = report_number(sum, "traces") > 0 || isfinite(report_number(sum, "cpu_of_weir"));
        if (has) put_sum(report, sum, out);
    }
    fputs("</tbody>\n</table>\n</div>\n", out);
    put_glance_words(report, out);
}

/* Only where there is something to say. */
static void put_edges(const json_t *report, FILE *out) {
    const json_t *sum;
    size_t index;
    const char *before =
        "<p>Completing is not monotone: on some larger devices than their smallest memory runs out again under ";
    bool any = false;
    json_array_foreach(json_object_get(report, "summary"), index, sum) {
        const double traces = report_number(sum, "traces_that_fail_above");
        if (!(traces > 0)) continue;
        fputs(before, out);
        page_text(report_name(report_text(sum, "allocator")), out);
        fprintf(out, " (%.0f of %.0f traces)", traces, report_number(sum, "traces"));
        before = "; ";
        any = true;
    }
    if (any) fputs(".</p>\n", out);
    fputs("</section>\n", out);
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

static bool put_reason(const json_t *entry, const char *key, const char *what, FILE *out) {
    const char *why = report_text(entry, key);
    if (*why == 0) return false;
    fputs("<li><b>", out);
    page_text(report_text(entry, "name"), out);
    fprintf(out, "</b> %s: ", what);
    page_text(why, out);
    fputs("</li>\n", out);
    return true;
}

static void put_missing(const json_t *report, FILE *out) {
    const json_t *entry, *trace;
    size_t index, at;
    bool any = false;
    fputs("<section>\n<h2>What is missing</h2>\n<ul class=\"missing\">\n", out);
    json_array_foreach(json_object_get(report, "allocators"), index, entry) {
        const bool same = strcmp(report_text(entry, "missing"), report_text(entry, "cpu_missing")) == 0;
        any = put_reason(entry, "missing", same ? "was not run" : "was not replayed", out) || any;
        if (!same) any = put_reason(entry, "cpu_missing", "was not timed", out) || any;
    }
    json_array_foreach(json_object_get(report, "traces"), at, trace) {
        json_array_foreach(json_object_get(trace, "results"), index, entry) {
            const json_t *allocator =
                report_entry(json_object_get(report, "allocators"), "key", report_text(entry, "allocator"));
            if (*report_text(entry, "missing") == 0 || *report_text(allocator, "missing") != 0) continue;
            fputs("<li><b>", out);
            page_text(report_name(report_text(entry, "allocator")), out);
            fputs("</b> failed on ", out);
            page_text(report_text(trace, "name"), out);
            fputs(": ", out);
            page_text(report_text(entry, "missing"), out);
            fputs("</li>\n", out);
            any = true;
        }
    }
    fputs(any ? "" : "<li>Nothing: all allocators of the list were there.</li>\n", out);
    fputs("<li><b>The driver's own stream-ordered pool</b> (cudaMallocAsync, RMM's cuda_async_memory_resource): the "
          "emulated "
          "driver's is a stand-in, which says nothing about NVIDIA's.</li>\n</ul>\n</section>\n",
          out);
}

/* ---- traces and loops -------------------------------------------------------------------------------------------- */

static const char traces_head[] = "<section>\n<h2>From small devices to large</h2>\n<p>Fields say by how many per cent "
                                  "the job is slower than with an\n"
                                  "allocator that costs nothing and never fails; <i>out</i>: memory ran out. The tick "
                                  "is the smallest device found, the\n"
                                  "diamond the one from which on the allocator costs at most 1 %.</p>\n";

static void put_traces(const json_t *report, FILE *out) {
    const json_t *trace;
    size_t index;
    fputs(traces_head, out);
    json_array_foreach(json_object_get(report, "traces"), index, trace) {
        fputs("<figure>\n<figcaption><h3>", out);
        page_text(report_text(trace, "name"), out);
        fprintf(out, "</h3><p>%.1f GiB live at the peak, %.0f operations, %.0f iterations.</p></figcaption>\n",
                report_number(trace, "peak_live_bytes") / 0x1p30, report_number(trace, "operations"),
                report_number(trace, "iterations"));
        report_curves(trace, index, out);
        fputs("</figure>\n", out);
    }
    fputs("</section>\n", out);
}

static const char host_head[] = /* of printf */
    "<section>\n"
    "<h2>What calls cost the host</h2>\n"
    "<p>Nanoseconds a step, of the fastest of 41 rounds; the thin line reaches to the median. The scale is "
    "logarithmic, from 1 ns to 100 us. Subjects take turns in one run; driver calls cost what they cost in "
    "the emulated driver.%s%s A mutex that nobody else wants: %.1f ns.</p>\n<div class=\"bars\">\n";

static const char host_malloc[] = " jemalloc and mimalloc give host memory, which has no streams.";
static const char host_rmm[] = " RMM has no call for a use.";

static void put_host_time(const json_t *report, FILE *out) {
    static const char *const shown[] = {"pairs-4K", "pairs-64M", "uses-1M", "threads-1M", "mix-1M", "mix-64M"};
    const json_t *loops = json_object_get(json_object_get(report, "cpu"), "loops");
    fprintf(out, host_head, report_has(report, REPORT_HOST, false) ? host_malloc : "",
            report_has(report, REPORT_RMM, false) ? host_rmm : "",
            report_number(json_object_get(report, "cpu"), "mutex_ns"));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const json_t *loop = report_entry(loops, "loop", shown[i]);
        if (loop != NULL) report_bars(loop, json_object_get(report, "allocators"), out);
    }
    fputs("</div>\n</section>\n", out);
}

/* ---- how it was measured ----------------------------------------------------------------------------------------- */

/* Of the allocators that were replayed, or of those that were only timed. */
static void put_versions(const json_t *report, bool replayed, const char *what, FILE *out) {
    const json_t *entry;
    size_t index;
    const char *last = "";
    json_array_foreach(json_object_get(report, "allocators"), index, entry) {
        const char *version = report_text(entry, "version");
        if (json_is_true(json_object_get(entry, "replayed")) != replayed) continue;
        if (*version == 0 || strcmp(version, last) == 0) continue;
        if (*last == 0)
            fprintf(out, "<p>Peers %s: ", what);
        else
            fputs("; ", out);
        page_text(version, out);
        last = version;
    }
    if (*last != 0) fputs(".</p>\n", out);
}

static const char how_text[] =
    "<section>\n"
    "<h2>How it was measured</h2>\n"
    "<p>Each run replays a trace's operations in their order, in a process of its own, on an emulated device "
    "of that size. Work takes what the trace says, driver calls what the profile says. What it says are "
    "published figures and assumptions until a machine is measured: slowdowns hang on them, the smallest "
    "device hardly does.";
static const char how_gh200[] =
    " cudaMalloc and cudaFree cost 100 us and 15 us a MiB each under this one, which is most of the slowdown "
    "of allocators that go back to the driver: docs/results.md says what is left of it at a flat cost.";
static const char how_torch[] = " PyTorch's allocator is that of pip's libc10_cuda, called from C++ without Python.";
static const char how_rmm[] =
    " RMM's resources are given the whole device at their start, the best for what fits; they take no uses on other "
    "streams, so the replay makes the block's stream wait for them before it is freed.";
static const char how_commands[] = "<p>The first command makes all of it; the others are what it runs, for each TRACE; "
                                   "programs lie in build/bin.</p>\n<ul class=\"commands\">\n";

static void put_how(const json_t *report, FILE *out) {
    const json_t *machine = json_object_get(report, "machine"), *command;
    const char *profile = report_text(json_object_get(report, "device"), "profile");
    size_t index;
    fprintf(out,
            "%s%s</p>\n<p>Memory that runs out ends a run: what the program would have done then is not in a "
            "trace.%s%s</p>\n",
            how_text, strcmp(profile, "gh200") == 0 ? how_gh200 : "",
            report_has(report, REPORT_TORCH, true) ? how_torch : "",
            report_has(report, REPORT_RMM, true) ? how_rmm : "");
    put_versions(report, true, "over the emulated CUDA runtime and driver", out);
    put_versions(report, false, "of host memory", out);
    fputs(how_commands, out);
    json_array_foreach(json_object_get(report, "commands"), index, command) {
        fputs("<li><code>", out);
        page_text(json_is_string(command) ? json_string_value(command) : "", out);
        fputs("</code></li>\n", out);
    }
    fputs("</ul>\n<p>Made ", out);
    page_text(report_text(report, "made"), out);
    fputs(" on ", out);
    page_text(report_text(machine, "processor"), out);
    fprintf(out, ", %.0f cores; the replays took %.0f seconds. All figures are in report.json.</p>\n</section>\n",
            report_number(machine, "cores"), report_number(report, "replay_seconds"));
}

void report_page(const json_t *report, FILE *out) {
    put_head(report, out);
    put_glance(report, out);
    put_edges(report, out);
    put_traces(report, out);
    put_host_time(report, out);
    put_missing(report, out);
    put_how(report, out);
    fputs("</main>\n</body>\n</html>\n", out);
}
