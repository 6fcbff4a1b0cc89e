/* SPDX-License-Identifier: Apache-2.0 */
/* A loop as bars, one for each allocator: the fastest round, and a thin line to the median. The scale is logarithmic, from 1 ns
 * to 100 us, and the same in all. */
#include <math.h>
#include <string.h>

#include "bench/report.h"
#include "tools/page/page.h"

#define LEFT  170.0
#define WIDE  480.0
#define RIGHT 66.0 /* for the figures */
#define ROW   20.0
#define MOST  1e5

static double right_of(double ns) { return LEFT + (WIDE - LEFT - RIGHT) * log(fmin(fmax(ns, 1), MOST)) / log(MOST); }

static void put_ns(double ns, FILE *out) {
    if (ns >= 10e3)
        fprintf(out, "%.0f us", ns / 1e3);
    else
        fprintf(out, ns < 10 ? "%.1f ns" : "%.0f ns", ns);
}

static void put_bar(const json_t *result, double weir_ns, double y, FILE *out) {
    const char *key = report_text(result, "allocator");
    const double fastest = report_number(result, "fastest_ns"), median = report_number(result, "median_ns");
    fprintf(out, "<text class=\"end\" x=\"%.0f\" y=\"%.1f\">", LEFT - 8, y + 14);
    page_text(report_name(key), out);
    fprintf(out,
            "</text>\n<rect class=\"c%zu\" x=\"%.0f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\"/><path class=\"reach\" "
            "d=\"M%.1f %.1fH%.1f\"/><text class=\"strong\" x=\"%.1f\" y=\"%.1f\">",
            report_colour(key), LEFT, y + 3, fmax(right_of(fastest) - LEFT, 1), ROW - 6, right_of(fastest), y + ROW / 2,
            right_of(median), right_of(median) + 5, y + 14);
    put_ns(fastest, out);
    fputs("</text>\n<title>", out);
    page_text(report_name(key), out);
    fprintf(out, ": fastest %.1f ns, median %.1f ns; %.1f x weir's</title>\n", fastest, median, fastest / weir_ns);
}

/* pairs-4K: an alloc and its free, 4 KiB */
static void put_name(const json_t *loop, FILE *out) {
    const long long bytes = json_integer_value(json_object_get(loop, "bytes"));
    const char *what = json_is_true(json_object_get(loop, "mix"))          ? "one of 256 live blocks is replaced, up to"
                       : json_is_true(json_object_get(loop, "record_use")) ? "alloc, a use on a second stream, free:"
                                                                           : "alloc and free:";
    fprintf(out, "%s ", what);
    if (bytes >= 1 << 20)
        fprintf(out, "%lld MiB", bytes >> 20);
    else if (bytes >= 1 << 10)
        fprintf(out, "%lld KiB", bytes >> 10);
    else
        fprintf(out, "%lld bytes", bytes);
    if (json_integer_value(json_object_get(loop, "threads")) > 1) fputs(", two threads at once, each", out);
}

void report_bars(const json_t *loop, const json_t *allocators, FILE *out) {
    const json_t *results = json_object_get(loop, "results"), *result, *entry;
    const double weir = report_number(report_entry(results, "allocator", "weir"), "fastest_ns");
    size_t index, rows = 0;
    fputs("<figure>\n<figcaption><h3>", out);
    put_name(loop, out);
    fprintf(out, "</h3></figcaption>\n<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"Nanoseconds a step\">\n",
            WIDE, ROW * (double)json_array_size(results) + 4);
    json_array_foreach(allocators, index, entry) {
        result = report_entry(results, "allocator", report_text(entry, "key"));
        if (result == NULL) continue;
        fputs("<g>\n", out);
        put_bar(result, weir, ROW * (double)rows++, out);
        fputs("</g>\n", out);
    }
    fputs("</svg>\n</figure>\n", out);
}
