/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "info.h"
#include "tools/options/plain.h"

enum { MOST_ITERATIONS_SHOWN = 12, NAME_ROOM = 40 };

#define PLURAL(count) ((count) == 1 ? "" : "s")

/* "62.81 GiB": three digits and more of what it is. By hand, so that the point is one in every locale. */
struct size_text {
    char text[32];
};

static struct size_text size_text(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    struct size_text size;
    unsigned unit = 0;
    while (unit < 5 && bytes >> (10 * (unit + 1)) != 0) unit++;
    if (unit == 0) {
        snprintf(size.text, sizeof size.text, "%" PRIu64 " B", bytes);
        return size;
    }
    const uint64_t whole = bytes >> (10 * unit), rest = bytes & ((UINT64_C(1) << (10 * unit)) - 1);
    const uint64_t hundredths = whole * 100 + ((rest * 100 + (UINT64_C(1) << (10 * unit - 1))) >> (10 * unit));
    snprintf(size.text, sizeof size.text, "%" PRIu64 ".%02" PRIu64 " %s", hundredths / 100, hundredths % 100,
             units[unit]);
    return size;
}

static struct size_text percent_text(uint64_t part, uint64_t whole) {
    struct size_text text = {""};
    const uint64_t tenths = whole == 0 ? 0 : (uint64_t)((double)part / (double)whole * 1000 + 0.5);
    if (whole > 0) snprintf(text.text, sizeof text.text, "%" PRIu64 ".%" PRIu64 " %%", tenths / 10, tenths % 10);
    return text;
}

static struct size_text time_text(uint64_t ns) {
    struct size_text text;
    const uint64_t hundredths = ns / 10000; /* of a millisecond */
    snprintf(text.text, sizeof text.text, "%" PRIu64 ".%02" PRIu64 " ms", hundredths / 100, hundredths % 100);
    return text;
}

static void put_share(FILE *out, const char *what, struct info_share share, uint64_t whole) {
    if (share.blocks == 0) return;
    fprintf(out, "  %-40s %10" PRIu64 " %13s %9s\n", what, share.blocks, size_text(share.bytes).text,
            percent_text(share.bytes, whole).text);
}

static void put_share_heading(FILE *out, const char *what) {
    fprintf(out, "\n%-42s %10s %13s\n", what, "blocks", "bytes");
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static void put_refused(FILE *out, const struct trace *trace) {
    const struct op *last = &trace->ops[trace->last_refused];
    char name[NAME_ROOM];
    fprintf(out, "the recorded run was refused %zu request%s (the last %s on %s at line %" PRIu32 "): ",
            trace->refused_count, PLURAL(trace->refused_count), size_text(last->bytes).text,
            info_stream_name(trace, last->stream, name, sizeof name), last->line);
    fprintf(out, "what it would have done after that is not in the trace\n");
}

static void put_head(FILE *out, const char *path, const struct trace *trace) {
    const struct trace_origin *origin = &trace->origin;
    char name[1000];
    snprintf(name, sizeof name, "%s", path);
    fprintf(out, "%s: %zu operation%s, %" PRIu32 " block%s on %" PRIu32 " stream%s, %" PRIu32 " iteration%s\n",
            plain(name), trace->op_count, PLURAL(trace->op_count), trace->block_count, PLURAL(trace->block_count),
            trace->stream_count, PLURAL(trace->stream_count), trace->iteration_count, PLURAL(trace->iteration_count));
    if (origin->policy[0] != 0)
        fprintf(out, "recorded under policy %s, limit %s, pages of %s%s%s%s%s\n", origin->policy,
                size_text(origin->limit_bytes).text, size_text(origin->granularity_bytes).text,
                origin->profile[0] != 0 ? ", profile " : "", origin->profile,
                origin->deterministic ? ", deterministic" : "",
                trace->offset_count > 0 ? ", with the blocks' addresses" : "");
    if (trace->refused_count > 0) put_refused(out, trace);
    if (trace->torn_lines > 0)
        fprintf(out, "%zu line%s not written whole when the recording program was killed, and left out\n",
                trace->torn_lines, trace->torn_lines == 1 ? " was" : "s were");
}

static void put_streams_at_peak(FILE *out, const struct info *info) {
    const struct trace *trace = info->trace;
    for (uint32_t i = 0; i < trace->stream_count; i++) {
        char name[NAME_ROOM], what[NAME_ROOM + 8];
        snprintf(what, sizeof what, "on %s", info_stream_name(trace, i, name, sizeof name));
        put_share(out, what, info->streams[i].at_peak, info->at_peak.bytes);
    }
}

static void put_peak(FILE *out, const struct info *info) {
    const struct trace *trace = info->trace;
    char what[64 + NAME_ROOM], name[NAME_ROOM];
    if (info->peak_op == SIZE_MAX) return;
    fprintf(out, "\npeak live %s (%zu bytes; %zu with each block rounded up to 512), at line %" PRIu32,
            size_text(trace->peak_live_bytes).text, trace->peak_live_bytes, trace->peak_rounded_bytes,
            trace->ops[info->peak_op].line);
    if (info->peak_iteration > 0) fprintf(out, ", in iteration %" PRIu32, info->peak_iteration);
    put_share_heading(out, "\nat the peak");
    put_share(out, trace->iteration_count > 0 ? "from before the first iteration" : "all", info->at_peak_before,
              info->at_peak.bytes);
    put_share(out, "from earlier iterations", info->at_peak_earlier, info->at_peak.bytes);
    put_share(out, "from the iteration itself", info->at_peak_own, info->at_peak.bytes);
    put_share_heading(out, "at the peak, by stream");
    put_streams_at_peak(out, info);
    put_share_heading(out, "at the peak, by blocks of one size");
    for (size_t i = 0; i < info->group_count; i++) {
        const struct info_group *group = &info->groups[i];
        snprintf(what, sizeof what, "%s on %s", size_text(group->bytes).text,
                 info_stream_name(trace, group->stream, name, sizeof name));
        put_share(out, what, (struct info_share){group->blocks, group->blocks * group->bytes}, info->at_peak.bytes);
    }
}

static void put_streams(FILE *out, const struct info *info) {
    const struct trace *trace = info->trace;
    if (trace->stream_count == 0) return;
    fprintf(out, "\n%-26s %10s %13s %13s %10s %8s %14s\n", "streams", "blocks", "allocated", "peak live", "used by",
            "waits", trace->has_work ? "work" : "");
    fprintf(out, "%-26s %10s %13s %13s %10s\n", "", "", "", "", "others");
    for (uint32_t i = 0; i < trace->stream_count; i++) {
        const struct info_stream *stream = &info->streams[i];
        char name[NAME_ROOM];
        fprintf(out, "  %-24s %10" PRIu64 " %13s %13s %10" PRIu64 " %8" PRIu64 " %14s\n",
                info_stream_name(trace, i, name, sizeof name), stream->allocated.blocks,
                size_text(stream->allocated.bytes).text, size_text(stream->peak_live_bytes).text,
                stream->uses_by_others, stream->waits, trace->has_work ? time_text(stream->work_ns).text : "");
    }
    if (!trace->has_work) fprintf(out, "  the trace has no work (k): a replay of it has no time\n");
}

static void put_largest(FILE *out, const struct info *info) {
    if (info->largest_count == 0) return;
    fprintf(out, "\n%-42s %10s %13s\n", "largest blocks", "blocks", "first at line");
    for (size_t i = 0; i < info->largest_count; i++) {
        const struct info_group *group = &info->largest[i];
        char name[NAME_ROOM], what[64 + NAME_ROOM];
        snprintf(what, sizeof what, "%s on %s", size_text(group->bytes).text,
                 info_stream_name(info->trace, group->stream, name, sizeof name));
        fprintf(out, "  %-40s %10" PRIu64 " %13" PRIu32 "\n", what, group->blocks, group->line);
    }
}

static void put_sizes(FILE *out, const struct info *info) {
    uint64_t all = 0;
    for (unsigned i = 0; i < INFO_SIZES; i++) all += info->sizes[i].bytes;
    put_share_heading(out, "sizes");
    put_share(out, "0 B", info->sizes[0], all);
    for (unsigned i = 1; i < INFO_SIZES; i++) {
        char what[80];
        snprintf(what, sizeof what, "from %s", size_text(UINT64_C(1) << (i - 1)).text);
        put_share(out, what, info->sizes[i], all);
    }
}

static void put_lifetimes(FILE *out, const struct info *info) {
    static const char *const windows[INFO_WINDOWS] = {
        "freed within 10 operations", "within 100", "within 1000", "within 10,000", "within 100,000",
        "within 1,000,000",           "later",
    };
    static const char *const spans[INFO_SPANS] = {"freed in its own iteration", "in the next one", "later"};
    uint64_t all = info->never_freed.bytes;
    for (unsigned i = 0; i < INFO_WINDOWS; i++) all += info->windows[i].bytes;
    put_share_heading(out, "lifetimes");
    for (unsigned i = 0; i < INFO_WINDOWS; i++) put_share(out, windows[i], info->windows[i], all);
    put_share(out, "never freed", info->never_freed, all);
    if (info->trace->iteration_count == 0) return;
    put_share_heading(out, "lifetimes, by iterations");
    for (unsigned i = 0; i < INFO_SPANS; i++) put_share(out, spans[i], info->spans[i], all);
    put_share(out, "never freed", info->never_freed, all);
}

/* Behind the last one stands what the program does at its end. */
static void put_rest(FILE *out, const struct info_iteration *own) {
    fprintf(out, ", the same");
    if (own->requests > own->same) fprintf(out, ", and %" PRIu64 " at the end", own->requests - own->same);
    fprintf(out, "\n");
}

static void put_iterations(FILE *out, const struct info *info) {
    const uint32_t count = info->trace->iteration_count;
    if (count < 2) return;
    fprintf(out, "\niterations: %" PRIu64 " of %" PRIu32 " make%s the same requests as the one before\n",
            info->identical_iterations, count - 1, info->identical_iterations == 1 ? "s" : "");
    for (uint32_t i = 0; i < count && i < MOST_ITERATIONS_SHOWN; i++) {
        const struct info_iteration *own = &info->iterations[i];
        fprintf(out, "  %4" PRIu32 " %10" PRIu64 " request%s", i + 1, own->requests, PLURAL(own->requests));
        if (i == 0)
            fprintf(out, "\n");
        else if (own->identical)
            put_rest(out, own);
        else
            fprintf(out, ", the first %" PRIu64 " the same\n", own->same);
    }
    if (count > MOST_ITERATIONS_SHOWN) fprintf(out, "  ... (--json has all)\n");
}

static void put_kinds(FILE *out, const struct info *info) {
    fprintf(out, "\noperations:");
    for (unsigned i = 0, shown = 0; i < INFO_KINDS; i++)
        if (info->by_kind[i] > 0)
            fprintf(out, "%s %" PRIu64 " %s", shown++ == 0 ? "" : ",", info->by_kind[i], info_kind_names[i]);
    fprintf(out, "\n");
}

void info_put_words(FILE *out, const char *path, const struct info *info) {
    put_head(out, path, info->trace);
    if (info->trace->op_count == 0) return;
    put_peak(out, info);
    put_streams(out, info);
    put_largest(out, info);
    if (info->trace->block_count > 0) {
        put_sizes(out, info);
        put_lifetimes(out, info);
    }
    put_iterations(out, info);
    put_kinds(out, info);
}
