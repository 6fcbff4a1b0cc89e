/* SPDX-License-Identifier: Apache-2.0 */
#include "info.h"

#include <inttypes.h>
#include <stdlib.h>

const char *const info_kind_names[INFO_KINDS] = {
    "alloc",  "refused", "live_before", "free",        "free_any",  "free_after",     "use",           "work",
    "record", "wait",    "sync_stream", "sync_device", "host_wait", "destroy_stream", "destroy_event", "iteration",
};

static bool is_alloc(const struct op *op) {
    return op->kind == OP_ALLOC || op->kind == OP_REFUSED || op->kind == OP_LIVE;
}
static bool is_free(const struct op *op) {
    return op->kind == OP_FREE || op->kind == OP_FREE_ANY || op->kind == OP_FREE_AFTER;
}

static void add(struct info_share *share, uint64_t bytes) {
    share->blocks++;
    share->bytes += bytes;
}

static void take(struct info_share *share, uint64_t bytes) {
    share->blocks--;
    share->bytes -= bytes;
}

static unsigned size_of(uint64_t bytes) { return bytes == 0 ? 0 : 64 - (unsigned)__builtin_clzll(bytes); }

const char *info_stream_name(const struct trace *trace, uint32_t stream, char *text, size_t room) {
    const char *name = trace->stream_names[stream];
    if (name[0] != 0) return name;
    snprintf(text, room, "stream %" PRIu64, trace->stream_ids[stream]);
    return text;
}

/* ---- the whole trace -------------------------------------------------------------------------------------------- */

/* Which blocks were allocated in which iteration is known from the place of their operation. */
static uint32_t iteration_at(const struct info *info, size_t op) {
    uint32_t from = 0, to = info->trace->iteration_count; /* the answer is in [from, to] */
    while (from < to) {
        const uint32_t middle = from + (to - from + 1) / 2;
        if (info->iterations[middle - 1].first_op <= op)
            from = middle;
        else
            to = middle - 1;
    }
    return from;
}

static void find_iterations(struct info *info) {
    const struct trace *trace = info->trace;
    size_t count = 0;
    for (size_t i = 0; i < trace->op_count; i++) {
        if (trace->ops[i].kind != OP_ITERATION) continue;
        if (count > 0) info->iterations[count - 1].end_op = i;
        info->iterations[count++] = (struct info_iteration){.first_op = i + 1, .end_op = trace->op_count};
    }
}

static void count_alloc(struct info *info, size_t at, uint64_t *live) {
    const struct op *op = &info->trace->ops[at];
    struct info_stream *stream = &info->streams[op->stream];
    info->alloc_ops[op->block] = at;
    add(&stream->allocated, op->bytes);
    add(&stream->live, op->bytes);
    add(&info->sizes[size_of(op->bytes)], op->bytes);
    add(&info->never_freed, op->bytes);
    if (stream->live.bytes > stream->peak_live_bytes) stream->peak_live_bytes = stream->live.bytes;
    *live += op->bytes;
    if (info->peak_op == SIZE_MAX && *live == info->trace->peak_live_bytes) info->peak_op = at;
}

static void count_free(struct info *info, size_t at, uint64_t *live) {
    const struct op *op = &info->trace->ops[at];
    const size_t alloc = info->alloc_ops[op->block];
    unsigned window = 0;
    for (size_t most = 10; window < INFO_WINDOWS - 1 && at - alloc > most; most *= 10) window++;
    const uint32_t span = iteration_at(info, at) - iteration_at(info, alloc);
    take(&info->streams[info->trace->ops[alloc].stream].live, op->bytes);
    take(&info->never_freed, op->bytes);
    add(&info->windows[window], op->bytes);
    add(&info->spans[span < INFO_SPANS ? span : INFO_SPANS - 1], op->bytes);
    *live -= op->bytes;
}

static void count_ops(struct info *info) {
    const struct trace *trace = info->trace;
    uint64_t live = 0;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct op *op = &trace->ops[i];
        info->by_kind[op->kind]++;
        if (is_alloc(op)) count_alloc(info, i, &live);
        if (is_free(op) || op->kind == OP_REFUSED) count_free(info, i, &live);
        if (op->kind == OP_NOTE) {
            const uint32_t owner = trace->ops[info->alloc_ops[op->block]].stream;
            info->streams[owner].uses_by_others += owner != op->stream;
        }
        if (op->kind == OP_WAIT) info->streams[op->stream].waits++;
        if (op->kind != OP_WORK) continue;
        info->streams[op->stream].works++;
        info->streams[op->stream].work_ns += op->ns;
        info->work_ns += op->ns;
    }
}

/* ---- the peak --------------------------------------------------------------------------------------------------- */

static int by_bytes_and_stream(const void *left, const void *right) {
    const struct info_group *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

static int by_place(const void *left, const void *right) {
    const struct info_group *a = left, *b = right;
    const int order = by_bytes_and_stream(left, right);
    return order != 0 ? order : (a->line > b->line) - (a->line < b->line);
}

/* Most bytes in all first; bytes * blocks is at most what is live. */
static int by_total(const void *left, const void *right) {
    const struct info_group *a = left, *b = right;
    const uint64_t total_a = a->bytes * a->blocks, total_b = b->bytes * b->blocks;
    if (total_a != total_b) return total_a < total_b ? 1 : -1;
    return by_bytes_and_stream(left, right);
}

/* Blocks of equal size on one stream become one group, the largest first. */
static size_t join_equal(struct info_group *groups, size_t count) {
    size_t kept = 0;
    qsort(groups, count, sizeof *groups, by_place);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && by_bytes_and_stream(&groups[kept - 1], &groups[i]) == 0)
            groups[kept - 1].blocks++;
        else
            groups[kept++] = groups[i];
    }
    return kept;
}

static void count_at_peak(struct info *info, uint32_t block) {
    const struct op *op = &info->trace->ops[info->alloc_ops[block]];
    const uint32_t iteration = iteration_at(info, info->alloc_ops[block]);
    add(&info->at_peak, op->bytes);
    add(&info->streams[op->stream].at_peak, op->bytes);
    add(&info->sizes_at_peak[size_of(op->bytes)], op->bytes);
    add(iteration == 0                      ? &info->at_peak_before
        : iteration == info->peak_iteration ? &info->at_peak_own
                                            : &info->at_peak_earlier,
        op->bytes);
}

static struct info_group group_of(const struct info *info, uint32_t block) {
    const struct op *op = &info->trace->ops[info->alloc_ops[block]];
    return (struct info_group){.bytes = op->bytes, .blocks = 1, .stream = op->stream, .line = op->line};
}

/* At most `most` of them. */
static size_t keep_first(struct info_group *to, size_t most, const struct info_group *groups, size_t count) {
    const size_t kept = count < most ? count : most;
    for (size_t i = 0; i < kept; i++) to[i] = groups[i];
    return kept;
}

/* `live` and `groups` have room for all blocks. */
static void look_at_peak(struct info *info, bool *live, struct info_group *groups) {
    const struct trace *trace = info->trace;
    size_t count = 0;
    info->peak_iteration = iteration_at(info, info->peak_op);
    for (size_t i = 0; i <= info->peak_op; i++) {
        const struct op *op = &trace->ops[i];
        const bool stays = is_alloc(op) && (op->kind != OP_REFUSED || i == info->peak_op);
        if (is_alloc(op) || is_free(op)) live[op->block] = stays;
    }
    for (uint32_t block = 0; block < trace->block_count; block++) {
        if (!live[block]) continue;
        count_at_peak(info, block);
        groups[count++] = group_of(info, block);
    }
    count = join_equal(groups, count);
    qsort(groups, count, sizeof *groups, by_total);
    info->group_count = keep_first(info->groups, INFO_MOST_GROUPS, groups, count);
}

static bool look_at_blocks(struct info *info) {
    const uint32_t count = info->trace->block_count;
    if (count == 0) return true;
    bool *live = calloc(count, sizeof *live);
    struct info_group *groups = malloc(count * sizeof *groups);
    const bool have_room = live != NULL && groups != NULL;
    if (have_room) {
        look_at_peak(info, live, groups);
        for (uint32_t block = 0; block < count; block++) groups[block] = group_of(info, block);
        info->largest_count = keep_first(info->largest, INFO_MOST_LARGEST, groups, join_equal(groups, count));
    }
    free(live);
    free(groups);
    return have_room;
}

/* ---- repetition ------------------------------------------------------------------------------------------------- */

/* The next request at or after *at; NULL when there is none before the end. */
static const struct op *next_request(const struct trace *trace, size_t *at, size_t end) {
    for (; *at < end; ++*at)
        if (is_alloc(&trace->ops[*at]) || is_free(&trace->ops[*at])) return &trace->ops[(*at)++];
    return NULL;
}

static bool are_same(const struct op *a, const struct op *b) {
    return is_alloc(a) == is_alloc(b) && a->bytes == b->bytes && a->stream == b->stream;
}

static void compare(const struct trace *trace, const struct info_iteration *before, struct info_iteration *own) {
    size_t at = own->first_op, before_at = before->first_op;
    for (;;) {
        const struct op *op = next_request(trace, &at, own->end_op);
        const struct op *earlier = next_request(trace, &before_at, before->end_op);
        if (op == NULL || earlier == NULL || !are_same(op, earlier)) break;
        own->same++;
    }
    const bool is_last = own->end_op == trace->op_count;
    own->identical = own->same == before->requests && (is_last || own->requests == before->requests);
}

static void compare_iterations(struct info *info) {
    for (uint32_t i = 0; i < info->trace->iteration_count; i++) {
        struct info_iteration *own = &info->iterations[i];
        for (size_t at = own->first_op; next_request(info->trace, &at, own->end_op) != NULL;) own->requests++;
        if (i == 0) continue;
        compare(info->trace, own - 1, own);
        info->identical_iterations += own->identical;
    }
}

bool info_gather(const struct trace *trace, struct info *info) {
    *info = (struct info){.trace = trace, .peak_op = SIZE_MAX};
    info->streams = calloc((size_t)trace->stream_count + 1, sizeof *info->streams);
    info->alloc_ops = calloc((size_t)trace->block_count + 1, sizeof *info->alloc_ops);
    info->iterations = calloc((size_t)trace->iteration_count + 1, sizeof *info->iterations);
    bool gathered = info->streams != NULL && info->alloc_ops != NULL && info->iterations != NULL;
    if (gathered) {
        find_iterations(info);
        count_ops(info);
        compare_iterations(info);
        gathered = look_at_blocks(info);
    }
    if (!gathered) info_free(info);
    return gathered;
}

void info_free(struct info *info) {
    free(info->streams);
    free(info->alloc_ops);
    free(info->iterations);
    info->streams = NULL;
    info->alloc_ops = NULL;
    info->iterations = NULL;
}
