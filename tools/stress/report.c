/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>

#include "tools/page/page.h"

static double mebibytes(uint64_t bytes) { return (double)bytes / 0x1p20; }

static double share(uint64_t part, uint64_t whole) { return whole > 0 ? (double)part / (double)whole : 0; }

static uint64_t faults_of(const struct answer *answer) { return atomic_load(&answer->stress->faults.count); }

static void put_patterns(const struct options *options, const char *quote, const char *between, FILE *out) {
    for (unsigned i = 0; i < options->pattern_count; i++)
        fprintf(out, "%s%s%s%s", i > 0 ? between : "", quote, pattern_names[options->patterns[i]], quote);
}

static const char *check_name(const struct answer *answer) {
    static const char *const names[] = {"full", "sample", "none"};
    return names[answer->stress->contents.pattern != NULL ? answer->stress->contents.check : CONTENTS_NONE];
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

void report_begin(const struct answer *answer, FILE *out) {
    const struct options *options = answer->stress->options;
    fprintf(out, "weir-stress: %s on %s (%s%s), %.1f MiB; %u thread%s, %u stream%s, ",
            options->allocator != NULL ? options->allocator : "weir's pool", answer->info.name,
            answer->info.emulated ? "emulated" : "a real device", answer->stress->watched ? ", watched" : "",
            mebibytes(answer->usable_bytes), options->threads, options->threads == 1 ? "" : "s", options->streams,
            options->streams == 1 ? "" : "s");
    put_patterns(options, "", ", ", out);
    fprintf(out, "; seed %" PRIu64 "\n", options->seed);
}

static void put_times(const char *name, const struct histogram *times, FILE *out) {
    static const double shares[] = {0.5, 0.99, 0.999, 0.9999};
    fprintf(out, "  %-12s", name);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        fprintf(out, " %12.1f", (double)histogram_share(times, shares[i]) / 1e3);
    fprintf(out, " %12.1f\n", (double)times->most_ns / 1e3);
}

static void put_extras(const struct answer *answer, FILE *out) {
    const uint32_t made = answer->stress->options->extras;
    unsigned put = 0;
    if (made == 0) return;
    fputs("  extras:", out);
    for (unsigned i = 0; i < EXTRAS; i++)
        if ((made >> i & 1) != 0)
            fprintf(out, "%s %" PRIu64 " %s", put++ > 0 ? "," : "", answer->counts.extras[i], extra_names[i]);
    fputc('\n', out);
}

static void put_contents(const struct answer *answer, FILE *out) {
    if (answer->stress->contents.pattern != NULL)
        fprintf(out, "  contents: %.1f MiB compared in %" PRIu64 " looks\n", mebibytes(answer->compared_bytes),
                answer->counts.looks);
    else
        fprintf(out, "  contents: not compared%s\n",
                answer->backed ? "" : "; the emulated memory is addresses only (memory:unbacked)");
}

static void put_watch(const struct answer *answer, FILE *out) {
    if (answer->stress->watched)
        fprintf(out, "  watch: %" PRIu64 " reports\n", answer->stress->watch_reports);
    else
        fprintf(out, "  watch: %s\n", answer->info.emulated ? "off (WEIR_EMU)" : "a real device has none");
}

void report_words(const struct answer *answer, FILE *out) {
    const struct options *options = answer->stress->options;
    const struct counts *counts = &answer->counts;
    const uint64_t found = faults_of(answer);
    if (found == 0)
        fprintf(out, "No fault found");
    else
        fprintf(out, "%" PRIu64 " fault%s found", found, found == 1 ? "" : "s");
    fprintf(out, "%s in %.1f s: %" PRIu64 " operations.\n", answer->interrupted ? ", interrupted," : "",
            answer->seconds, answer->operations);
    for (unsigned i = 0; i < FAULT_KINDS; i++)
        if (answer->stress->faults.counts[i] > 0)
            fprintf(out, "  %s: %" PRIu64 "\n", fault_keys[i], answer->stress->faults.counts[i]);
    fprintf(out,
            "  %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " uses on other streams, %" PRIu64
            " times a stream was held back, %" PRIu64 " blocks given to other threads\n",
            counts->allocs, counts->frees, counts->uses, counts->holds, counts->gifts);
    put_extras(answer, out);
    put_contents(answer, out);
    put_watch(answer, out);
    fprintf(out, "  most live at once: %.1f MiB, %.1f %% of %.1f MiB", mebibytes(answer->peak_bytes),
            100 * share(answer->peak_bytes, answer->usable_bytes), mebibytes(answer->usable_bytes));
    if (answer->peak_held_bytes > 0) fprintf(out, "; most held: %.1f MiB", mebibytes(answer->peak_held_bytes));
    fprintf(out, "\n  refused: %" PRIu64 " requests", counts->refused);
    if (counts->refused > 0)
        fprintf(out, "%s; the least that was live with the request: %.1f %%",
                options->margin < 0 ? " (no faults without --margin)"
                                    : " (faults only where too little was live: docs/stress.md)",
                100 * share(counts->least_refused_bytes, answer->usable_bytes));
    fprintf(out, "\n  %-12s %12s %12s %12s %12s %12s\n", "us", "median", "99 %", "99.9 %", "99.99 %", "worst");
    put_times("allocation", &counts->alloc_ns, out);
    put_times("free", &counts->free_ns, out);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_number(const char *key, uint64_t value, FILE *out) { fprintf(out, ",\n \"%s\":%" PRIu64, key, value); }

static void put_real(const char *key, double value, FILE *out) { fprintf(out, ",\n \"%s\":%.6f", key, value); }

static void put_text(const char *key, const char *text, FILE *out) {
    fprintf(out, ",\n \"%s\":", key);
    if (text != NULL)
        page_json(text, out);
    else
        fputs("null", out);
}

static void put_histogram(const char *key, const struct histogram *times, FILE *out) {
    fprintf(out,
            ",\n \"%s\":{\"count\":%" PRIu64 ",\"p50\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"p999\":%" PRIu64
            ",\"p9999\":%" PRIu64 ",\"max\":%" PRIu64 "}",
            key, times->count, histogram_share(times, 0.5), histogram_share(times, 0.99), histogram_share(times, 0.999),
            histogram_share(times, 0.9999), times->most_ns);
}

static void put_faults(const struct faults *faults, FILE *out) {
    fputs(",\n \"faults_by_kind\":{", out);
    for (unsigned i = 0; i < FAULT_KINDS; i++)
        fprintf(out, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", fault_keys[i], faults->counts[i]);
    fputs("},\n \"first_faults\":[", out);
    for (unsigned i = 0; i < faults->kept; i++) {
        if (i > 0) fputs(",\n  ", out);
        page_json(faults->texts[i], out);
    }
    fputs("]", out);
}

static void put_asked(const struct answer *answer, FILE *out) {
    const struct options *options = answer->stress->options;
    put_text("allocator", options->allocator, out);
    fprintf(out, ",\n \"emulated\":%s", answer->info.emulated ? "true" : "false");
    put_text("device", answer->info.name, out);
    put_text("profile", answer->info.profile[0] != 0 ? answer->info.profile : NULL, out);
    put_number("seed", options->seed, out);
    put_number("threads", options->threads, out);
    put_number("streams", options->streams, out);
    put_text("sizes", options->sizes, out);
    fputs(",\n \"patterns\":[", out);
    put_patterns(options, "\"", ",", out);
    fputs("]", out);
    put_real("fill", options->fill, out);
    put_text("check", check_name(answer), out);
}

void report_json(const struct answer *answer, FILE *out) {
    const struct counts *counts = &answer->counts;
    char digest[32];
    fprintf(out, "{\"outcome\":\"%s\",\n \"interrupted\":%s", faults_of(answer) == 0 ? "clean" : "faults",
            answer->interrupted ? "true" : "false");
    put_asked(answer, out);
    put_real("seconds", answer->seconds, out);
    put_number("operations", answer->operations, out);
    put_number("allocations", counts->allocs, out);
    put_number("frees", counts->frees, out);
    put_number("uses", counts->uses, out);
    put_number("holds", counts->holds, out);
    put_number("gifts", counts->gifts, out);
    fputs(",\n \"extras\":{", out);
    for (unsigned i = 0; i < EXTRAS; i++)
        fprintf(out, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", extra_names[i], counts->extras[i]);
    fputs("}", out);
    put_number("looks", counts->looks, out);
    put_number("compared_bytes", answer->compared_bytes, out);
    put_number("usable_bytes", answer->usable_bytes, out);
    put_number("peak_live_bytes", answer->peak_bytes, out);
    put_real("utilisation", share(answer->peak_bytes, answer->usable_bytes), out);
    put_number("peak_held_bytes", answer->peak_held_bytes, out);
    put_number("refused", counts->refused, out);
    put_number("least_refused_bytes", counts->least_refused_bytes, out);
    put_histogram("alloc_ns", &counts->alloc_ns, out);
    put_histogram("free_ns", &counts->free_ns, out);
    snprintf(digest, sizeof digest, "%016" PRIx64, answer->digest);
    put_text("digest", digest, out);
    if (answer->stress->watched)
        put_number("watch_reports", answer->stress->watch_reports, out);
    else
        fputs(",\n \"watch_reports\":null", out);
    put_number("faults", faults_of(answer), out);
    put_faults(&answer->stress->faults, out);
    fputs("}\n", out);
}
