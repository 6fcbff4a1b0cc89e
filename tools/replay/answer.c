/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define NOTABLE       0.01 /* a slowdown that is worth a word */
#define PLURAL(count) ((count) == 1 ? "" : "s")

double answer_ratio(const struct answer *answer, size_t pages) {
    size_t peak = answer->trace->peak_live_bytes;
    return pages == 0 || peak == 0 ? (double)NAN : (double)pages * (double)answer->search->page_bytes / (double)peak;
}

double answer_slowdown(const struct answer *answer, const struct outcome *outcome) {
    return search_slowdown(answer->search, outcome);
}

double answer_fluid_slowdown(const struct answer *answer, size_t pages) {
    return search_slowdown(answer->search, search_outcome(answer->search, TARGET_FLUID, pages));
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

struct text {
    char is[64];
};

static struct text size_text(uint64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    struct text text;
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) size /= 1024;
    snprintf(text.is, sizeof text.is, unit == 0 ? "%.0f %s" : "%.2f %s", size, units[unit]);
    return text;
}

static struct text pages_text(const struct answer *answer, size_t pages) {
    struct text text;
    double ratio = answer_ratio(answer, pages);
    struct text size = size_text((uint64_t)pages * answer->search->page_bytes);
    if (isnan(ratio)) return size;
    snprintf(text.is, sizeof text.is, "%.20s (%.3f x the peak)", size.is, ratio);
    return text;
}

static struct text time_text(double ns) {
    struct text text;
    snprintf(text.is, sizeof text.is,
             ns >= 1e9   ? "%.2f s"
             : ns >= 1e6 ? "%.2f ms"
                         : "%.1f us",
             ns >= 1e9   ? ns / 1e9
             : ns >= 1e6 ? ns / 1e6
                         : ns / 1e3);
    return text;
}

static struct text count_text(uint64_t count) {
    struct text text;
    snprintf(text.is, sizeof text.is, count == NOT_KNOWN ? "not known" : "%" PRIu64, count);
    return text;
}

/* Who answers the requests. */
static struct text who(const struct answer *answer) {
    struct text text;
    const char *policy = answer->options->policy, *library = answer->options->plugin.library;
    const char *slash = library != NULL ? strrchr(library, '/') : NULL;
    if (library != NULL)
        snprintf(text.is, sizeof text.is, "the plug-in %.40s", slash != NULL ? slash + 1 : library);
    else if (strcmp(policy, "per-stream") == 0)
        snprintf(text.is, sizeof text.is, "per-stream caching");
    else
        snprintf(text.is, sizeof text.is, "weir (%s)", policy);
    return text;
}

/* One figure a line, names in a column. */
static void put_line(FILE *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put_line(FILE *out, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(out, "  %-16s ", name);
    vfprintf(out, format, arguments);
    fputc('\n', out);
    va_end(arguments);
}

/* All but the report's own advice, which is for the program that asked; ours follows. */
static void put_report(FILE *out, const char *text) {
    for (const char *at = text; *at != 0 && strncmp(at, "what to try", strlen("what to try")) != 0;) {
        size_t length = strcspn(at, "\n");
        fprintf(out, "  %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static const struct op *op_of_line(const struct trace *trace, uint32_t line) {
    for (size_t i = 0; i < trace->op_count; i++)
        if (trace->ops[i].line == line) return &trace->ops[i];
    return NULL;
}

static void put_refusal(const struct answer *answer, FILE *out) {
    const struct trace *trace = answer->trace;
    const struct op *op = op_of_line(trace, answer->outcome->failed_line);
    fprintf(out, "Out of memory: %s does not complete on %s. ", who(answer).is, pages_text(answer, answer->pages).is);
    fprintf(out, "Refused at line %" PRIu32, answer->outcome->failed_line);
    if (op != NULL && op->kind <= OP_LIVE) {
        const char *name = trace->stream_names[op->stream];
        fprintf(out, ": %s on stream %" PRIu64 "%s%s%s", size_text(op->bytes).is, trace->stream_ids[op->stream],
                name[0] != 0 ? " (" : "", name, name[0] != 0 ? ")" : "");
    }
    fprintf(out, ".\n");
    put_report(out, answer->outcome->report);
}

static void put_fit(const struct answer *answer, FILE *out) {
    double slowdown = answer_slowdown(answer, answer->outcome);
    fprintf(out, "It fits: %s completes on %s", who(answer).is, pages_text(answer, answer->pages).is);
    if (isnan(slowdown)) {
        fprintf(out, ".\n");
        return;
    }
    fprintf(out, ", %.2f %% slower than with an allocator that costs nothing", 100 * slowdown);
    if (answer->trace->iteration_count < 3)
        fprintf(out, " (over the whole run, the first taking of memory included: the trace marks fewer than three "
                     "iterations)");
    fprintf(out, ".\n");
}

static void put_fluid(const struct answer *answer, FILE *out) {
    const struct outcome *fluid = search_outcome(answer->search, TARGET_FLUID, answer->pages);
    double slowdown = search_slowdown(answer->search, fluid);
    if (fluid == NULL) return;
    if (isnan(slowdown))
        fprintf(out, "A fluid does not complete there either: more is live at once than the device has.\n");
    else
        fprintf(out,
                "A fluid there, as a yardstick: %.2f %% slower (no fragmentation; the host waits for the earliest "
                "recorded use alone).\n",
                100 * slowdown);
}

/* Whether the run came to its steady part; else all counts as steady. */
static bool reached_steady(const struct answer *answer) {
    const struct outcome *outcome = answer->outcome;
    uint32_t iterations = 0;
    for (size_t i = 0; i < answer->trace->op_count; i++) {
        const struct op *op = &answer->trace->ops[i];
        if (outcome->ending != ENDED_COMPLETED && op->line >= outcome->failed_line) break;
        iterations += op->kind == OP_ITERATION;
    }
    return iterations >= answer->options->steady_from;
}

static void put_figures(const struct answer *answer, FILE *out) {
    const struct outcome *outcome = answer->outcome;
    bool steady = reached_steady(answer);
    if (outcome->peak_held_bytes != NOT_KNOWN)
        put_line(out, "held at most", "%s of the device's memory", size_text(outcome->peak_held_bytes).is);
    if (outcome->peak_stranded_bytes != NOT_KNOWN)
        put_line(out, "stranded at most", "%s idle that the asking stream could not be given",
                 size_text(outcome->peak_stranded_bytes).is);
    if (steady)
        put_line(out, "memory calls", "%s, %s of them from iteration %u on", count_text(outcome->memory_calls).is,
                 count_text(outcome->memory_calls_steady).is, answer->options->steady_from);
    else
        put_line(out, "memory calls", "%s", count_text(outcome->memory_calls).is);
    if (steady)
        put_line(out, "order calls", "%s from iteration %u on", count_text(outcome->order_calls_steady).is,
                 answer->options->steady_from);
    else
        put_line(out, "order calls", "%s", count_text(outcome->order_calls).is);
    if (outcome->page_moves != NOT_KNOWN)
        put_line(out, "pages moved", "%s%s%s", count_text(outcome->page_moves).is,
                 outcome->moved_bytes != NOT_KNOWN ? ", " : "",
                 outcome->moved_bytes != NOT_KNOWN ? size_text(outcome->moved_bytes).is : "");
    if (outcome->device_waits != NOT_KNOWN)
        put_line(out, "waits", "%s on the device, %s of the host", count_text(outcome->device_waits).is,
                 count_text(outcome->host_waits).is);
    else
        put_line(out, "waits", "%s of the host", count_text(outcome->host_waits).is);
    if (!search_is_timed(answer->search)) return;
    if (outcome->host_wait_ns != NOT_KNOWN)
        put_line(out, "the host waited", "%s of %s", time_text((double)outcome->host_wait_ns).is,
                 time_text((double)outcome->run_ns).is);
}

static void put_refused_before(const struct trace *trace, FILE *out) {
    if (trace->refused_count == 0) return;
    const struct op *last = &trace->ops[trace->last_refused];
    const char *name = trace->stream_names[last->stream];
    fprintf(out, "The recorded run was refused %zu request%s ", trace->refused_count, PLURAL(trace->refused_count));
    fprintf(out, "(the last %s on stream %" PRIu64 "%s%s%s at line %" PRIu32 "): ", size_text(last->bytes).is,
            trace->stream_ids[last->stream], name[0] != 0 ? " (" : "", name, name[0] != 0 ? ")" : "", last->line);
    fprintf(out, "what it would have done after that is not in the trace.\n");
}

static void put_checks(const struct answer *answer, FILE *out) {
    const struct outcome *outcome = answer->outcome;
    if (outcome->addresses_compared != 0 && outcome->addresses_compared != NOT_KNOWN)
        put_line(out, "addresses", "%" PRIu64 " of %" PRIu64 " as in the recorded run", outcome->addresses_equal,
                 outcome->addresses_compared);
    if (outcome->uses_not_told != 0 && outcome->uses_not_told != NOT_KNOWN)
        put_line(out, "uses not told", "%" PRIu64 ": the library takes none, so the replay made streams wait for them",
                 outcome->uses_not_told);
    if (answer->trace->torn_lines != 0)
        put_line(out, "lines left out", "%zu, not written whole when the recording ended", answer->trace->torn_lines);
}

/* ---- what was searched for -------------------------------------------------------------------------------------- */

static void put_list(const struct answer *answer, const char *what, const size_t *pages, size_t count, FILE *out) {
    enum { SHOWN = 12 };
    if (count == 0) return;
    fprintf(out, "  %s", what);
    for (size_t i = 0; i < count && i < SHOWN; i++)
        fprintf(out, "%s %.3f x", i == 0 ? "" : ",", answer_ratio(answer, pages[i]));
    fprintf(out, count > SHOWN ? " and %zu more\n" : "\n", count - SHOWN);
}

static void put_found(const struct answer *answer, FILE *out) {
    const struct options *options = answer->options;
    const struct found *found = &answer->found;
    if (options->scan && found->min_pages != 0)
        fprintf(out, "smallest sufficient device: %s\n", pages_text(answer, found->min_pages).is);
    else if (options->scan && answer->search->failed_runs == 0)
        fprintf(out, "no device up to %d x the peak is sufficient\n", SEARCH_MOST_TIMES);
    else if (options->scan)
        fprintf(out, "the smallest sufficient device is not known: runs failed\n");
    put_list(answer, "fails again at", found->fails_above, found->fails_above_count, out);
    put_list(answer, "completes below it at", found->completes_below, found->completes_below_count, out);
    if (options->honest == 0) return;
    double percent = (double)options->honest / (double)RATIO_ONE * 100;
    if (found->honest_pages != 0)
        fprintf(out, "at most %g %% slower on it and on every larger one of those tried: %s\n", percent,
                pages_text(answer, found->honest_pages).is);
    else if (answer->search->failed_runs > 0)
        fprintf(out, "from which device on it is at most %g %% slower is not known: runs failed\n", percent);
    else if (search_is_timed(answer->search))
        fprintf(out, "no device up to 3 x the peak is at most %g %% slower\n", percent);
    else
        fprintf(out, "at most %g %% slower: no answer, since the trace says nothing of how long work takes (k)\n",
                percent);
}

static struct text percent_text(double fraction) {
    struct text text = {"-"};
    if (isfinite(fraction)) snprintf(text.is, sizeof text.is, "%.2f %%", 100 * fraction);
    return text;
}

static void put_curve(const struct answer *answer, FILE *out) {
    static const char *const endings[] = {"completed", "out of memory", "failed"};
    if (answer->curve_count == 0) return;
    fprintf(out, "  %-23s   %-13s   %9s %9s   %12s   %11s   %10s\n", "capacity", "outcome", "slower", "fluid",
            "steady calls", "pages moved", "host waits");
    for (size_t i = 0; i < answer->curve_count; i++) {
        size_t pages = answer->curve[i];
        const struct outcome *outcome = search_outcome(answer->search, answer->search->setup.target, pages);
        struct text size = size_text((uint64_t)pages * answer->search->page_bytes), ratio = {""};
        double number = answer_ratio(answer, pages);
        if (isfinite(number)) snprintf(ratio.is, sizeof ratio.is, "%.3f x", number);
        fprintf(out, "  %10s  %11s   %-13s   %9s %9s   %12s   %11s   %10s\n", ratio.is, size.is,
                endings[outcome->ending], percent_text(answer_slowdown(answer, outcome)).is,
                percent_text(answer_fluid_slowdown(answer, pages)).is, count_text(outcome->memory_calls_steady).is,
                count_text(outcome->page_moves).is, count_text(outcome->host_waits).is);
    }
}

/* ---- what it was made on, and what next ------------------------------------------------------------------------- */

static void put_ground(const struct answer *answer, FILE *out) {
    const struct options *options = answer->options;
    const struct trace *trace = answer->trace;
    bool clock = options->clock == CLOCK_VIRTUAL;
    fprintf(out, "Emulated, no GPU was used: profile %s, %s%s%s. ", answer->profile,
            clock ? "cost law " : "no clock, so nothing takes time", clock ? options->law : "",
            clock ? ", virtual clock" : "");
    fprintf(out, "The trace: %zu operation%s, %" PRIu32 " iteration%s, %" PRIu32 " stream%s, %s live at the peak.\n",
            trace->op_count, PLURAL(trace->op_count), trace->iteration_count, PLURAL(trace->iteration_count),
            trace->stream_count, PLURAL(trace->stream_count), size_text(trace->peak_live_bytes).is);
    if (answer->profile_bytes != 0 && (uint64_t)answer->pages * answer->search->page_bytes > answer->profile_bytes)
        fprintf(out, "The device is larger than the profile's machine, %s.\n", size_text(answer->profile_bytes).is);
    if (clock && !trace->has_work)
        fprintf(out,
                "It says nothing of how long work takes (k): there is no slowdown to tell, and a smallest device is "
                "a best case, since work takes no time here and pending uses are over at once.\n");
    if (answer->search->failed_runs > 0)
        fprintf(out, "%zu of the runs failed; they count as not completed.\n", answer->search->failed_runs);
}

static void put_advice_on_memory(const struct answer *answer, FILE *out) {
    const struct options *options = answer->options;
    bool own = options->allocator == NULL, per_stream = own && strcmp(options->policy, "per-stream") == 0;
    if (answer_ratio(answer, answer->pages) < 1) {
        fprintf(out, "- a larger device, a smaller batch or offload: more is live at once than the device has\n");
        return;
    }
    if (per_stream || !own) fprintf(out, "- weir's own pool: --policy latency, or footprint\n");
    if (own && !per_stream && strcmp(options->policy, "footprint") != 0)
        fprintf(out, "- --policy footprint: waits for idle memory before it takes more\n");
    if (!options->scan) fprintf(out, "- --scan: how large a device would have to be\n");
}

static void put_advice(const struct answer *answer, FILE *out) {
    const struct options *options = answer->options;
    double slowdown = answer_slowdown(answer, answer->outcome);
    bool slow = slowdown > NOTABLE && options->honest == 0;
    bool completed = answer->outcome->ending == ENDED_COMPLETED;
    if (completed && !slow && options->scan) return;
    fprintf(out, "To try:\n");
    if (!completed) put_advice_on_memory(answer, out);
    if (slow) fprintf(out, "- --honest 1%%: from which device on it costs at most 1 %%\n");
    if (completed && !options->scan) fprintf(out, "- --scan: the smallest device that would do\n");
}

void answer_words(const struct answer *answer, FILE *out) {
    const struct outcome *outcome = answer->outcome;
    if (outcome->ending == ENDED_FAILED) {
        fprintf(out, "Failed: %s\n", outcome->why);
    } else {
        outcome->ending == ENDED_COMPLETED ? put_fit(answer, out) : put_refusal(answer, out);
        put_refused_before(answer->trace, out);
        put_fluid(answer, out);
        put_figures(answer, out);
    }
    put_checks(answer, out);
    put_found(answer, out);
    put_curve(answer, out);
    put_ground(answer, out);
    if (outcome->ending != ENDED_FAILED) put_advice(answer, out);
}
