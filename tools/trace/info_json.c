/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes are integers, times in nanoseconds; null for what is not known. */
#include <inttypes.h>

#include "device/json.h"
#include "info.h"

static void put_share(FILE *out, const char *key, struct info_share share) {
    fprintf(out, "\"%s\":{\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", key, share.blocks, share.bytes);
}

static void put_stream_name(FILE *out, const struct trace *trace, uint32_t stream) {
    char name[40];
    weir__put_json(info_stream_name(trace, stream, name, sizeof name), out);
}

static void put_origin(FILE *out, const struct trace *trace) {
    const struct trace_origin *origin = &trace->origin;
    fprintf(out, " \"recorded\":");
    if (origin->policy[0] == 0) {
        fprintf(out, "null,\n");
        return;
    }
    fprintf(out, "{\"policy\":");
    weir__put_json(origin->policy, out);
    fprintf(out, ",\"profile\":");
    if (origin->profile[0] != 0)
        weir__put_json(origin->profile, out);
    else
        fprintf(out, "null");
    fprintf(out, ",\"limit_bytes\":%" PRIu64 ",\"granularity_bytes\":%" PRIu64 ",\"deterministic\":%s},\n",
            origin->limit_bytes, origin->granularity_bytes, origin->deterministic ? "true" : "false");
}

static void put_head(FILE *out, const char *path, const struct info *info) {
    const struct trace *trace = info->trace;
    fprintf(out, "{\"trace\":");
    weir__put_json(path, out);
    fprintf(out, ",\n");
    put_origin(out, trace);
    fprintf(out,
            " \"operations\":%zu, \"blocks\":%" PRIu32 ", \"events\":%" PRIu32 ", \"torn_lines\":%zu, "
            "\"offsets\":%zu,\n \"by_kind\":{",
            trace->op_count, trace->block_count, trace->event_count, trace->torn_lines, trace->offset_count);
    for (unsigned i = 0; i < INFO_KINDS; i++)
        fprintf(out, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", info_kind_names[i], info->by_kind[i]);
    fprintf(out, "},\n \"work_ns\":");
    fprintf(out, trace->has_work ? "%" PRIu64 ",\n" : "null,\n", info->work_ns);
}

static void put_groups(FILE *out, const struct trace *trace, const struct info_group *groups, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s{\"block_bytes\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"first_line\":%" PRIu32 ",\"stream\":",
                i > 0 ? "," : "", groups[i].bytes, groups[i].blocks, groups[i].line);
        put_stream_name(out, trace, groups[i].stream);
        fputc('}', out);
    }
}

static void put_peak(FILE *out, const struct info *info) {
    const struct trace *trace = info->trace;
    fprintf(out, " \"peak_live_bytes\":%zu, \"peak_rounded_bytes\":%zu,\n", trace->peak_live_bytes,
            trace->peak_rounded_bytes);
    if (info->peak_op == SIZE_MAX) {
        fprintf(out, " \"at_peak\":null,\n");
        return;
    }
    fprintf(out, " \"at_peak\":{\"line\":%" PRIu32 ",\"iteration\":%" PRIu32 ",", trace->ops[info->peak_op].line,
            info->peak_iteration);
    put_share(out, "all", info->at_peak);
    fputc(',', out);
    put_share(out, "before_the_first_iteration", info->at_peak_before);
    fputc(',', out);
    put_share(out, "earlier_iterations", info->at_peak_earlier);
    fputc(',', out);
    put_share(out, "its_iteration", info->at_peak_own);
    fprintf(out, ",\n  \"groups\":[");
    put_groups(out, trace, info->groups, info->group_count);
    fprintf(out, "]},\n");
}

static void put_streams(FILE *out, const struct info *info) {
    const struct trace *trace = info->trace;
    fprintf(out, " \"streams\":[");
    for (uint32_t i = 0; i < trace->stream_count; i++) {
        const struct info_stream *stream = &info->streams[i];
        fprintf(out, "%s\n  {\"name\":", i > 0 ? "," : "");
        put_stream_name(out, trace, i);
        fprintf(out,
                ",\"id\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"allocated_bytes\":%" PRIu64
                ",\"peak_live_bytes\":%" PRIu64 ",\"live_at_peak_bytes\":%" PRIu64 ",\"uses_by_others\":%" PRIu64
                ",\"waits\":%" PRIu64 ",\"work_ns\":",
                trace->stream_ids[i], stream->allocated.blocks, stream->allocated.bytes, stream->peak_live_bytes,
                stream->at_peak.bytes, stream->uses_by_others, stream->waits);
        fprintf(out, trace->has_work ? "%" PRIu64 "}" : "null}", stream->work_ns);
    }
    fprintf(out, "],\n");
}

static void put_sizes(FILE *out, const struct info *info) {
    bool first = true;
    fprintf(out, " \"sizes\":[");
    for (unsigned i = 0; i < INFO_SIZES; i++) {
        if (info->sizes[i].blocks == 0) continue;
        fprintf(out, "%s\n  {\"from_bytes\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 ",",
                first ? "" : ",", i == 0 ? 0 : UINT64_C(1) << (i - 1), info->sizes[i].blocks, info->sizes[i].bytes);
        put_share(out, "at_peak", info->sizes_at_peak[i]);
        fputc('}', out);
        first = false;
    }
    fprintf(out, "],\n");
}

static void put_lifetimes(FILE *out, const struct info *info) {
    static const char *const windows[INFO_WINDOWS] = {"10", "100", "1000", "10000", "100000", "1000000", "later"};
    static const char *const spans[INFO_SPANS] = {"own", "next", "later"};
    fprintf(out, " \"lifetimes\":{\"within_operations\":{");
    for (unsigned i = 0; i < INFO_WINDOWS; i++) {
        if (i > 0) fputc(',', out);
        put_share(out, windows[i], info->windows[i]);
    }
    fprintf(out, "},\n  \"freed_in_iteration\":{");
    for (unsigned i = 0; i < INFO_SPANS; i++) {
        if (i > 0) fputc(',', out);
        put_share(out, spans[i], info->spans[i]);
    }
    fprintf(out, "},\n  ");
    put_share(out, "never_freed", info->never_freed);
    fprintf(out, "},\n");
}

static void put_iterations(FILE *out, const struct info *info) {
    const uint32_t count = info->trace->iteration_count;
    fprintf(out, " \"iterations\":%" PRIu32 ", \"identical_iterations\":%" PRIu64 ",\n \"repetition\":[", count,
            info->identical_iterations);
    for (uint32_t i = 0; i < count; i++) {
        const struct info_iteration *own = &info->iterations[i];
        fprintf(out, "%s{\"requests\":%" PRIu64 ",\"same\":", i > 0 ? "," : "", own->requests);
        if (i == 0)
            fprintf(out, "null,\"identical\":null}");
        else
            fprintf(out, "%" PRIu64 ",\"identical\":%s}", own->same, own->identical ? "true" : "false");
    }
    fprintf(out, "]}\n");
}

void info_put_json(FILE *out, const char *path, const struct info *info) {
    put_head(out, path, info);
    put_peak(out, info);
    put_streams(out, info);
    fprintf(out, " \"largest_blocks\":[");
    put_groups(out, info->trace, info->largest, info->largest_count);
    fprintf(out, "],\n");
    put_sizes(out, info);
    put_lifetimes(out, info);
    put_iterations(out, info);
}
