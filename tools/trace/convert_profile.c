/* SPDX-License-Identifier: Apache-2.0 */
/* A profiler's log: memory events by thread, the device's work by the host's call that launched it, and the host's own
 * calls. Merged by the host's clock.
 *
 * Which stream a block is of is not in the log: an allocator takes the stream that its thread works on, so here it is
 * the one on which that thread launched most of its work. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"

#define NONE UINT32_MAX /* no launch */

enum { LEAST_WORK_NS = 100 };

/* ---- the device's work ------------------------------------------------------------------------------------------ */

struct launch_columns {
    int launch, thread, stream, work, kind, start;
};

/* Time goes forwards in every table of a profiler's log. */
static bool read_time(struct csv *csv, int column, uint64_t before, uint64_t *ns) {
    if (!csv_ns(csv, column, ns)) return false;
    if (*ns >= before) return true;
    return csv_complain(csv, column, "time goes backwards: the row before is %.3f us later",
                        (double)(before - *ns) / 1000);
}

static bool read_launch(struct conversion *conversion, struct csv *csv, const struct launch_columns *column,
                        struct launch *launch) {
    const uint64_t before = conversion->launch_count > 0 ? conversion->launches[conversion->launch_count - 1].ns : 0;
    *launch = (struct launch){.kind = 'k'};
    if (!read_time(csv, column->launch, before, &launch->ns) ||
        !convert_thread(conversion, csv, column->thread, &launch->thread) ||
        !convert_stream(conversion, csv, column->stream, &launch->stream) ||
        !csv_ns(csv, column->work, &launch->work_ns))
        return false;
    if (launch->work_ns > TRACE_MOST_NS)
        return csv_complain(csv, column->work, "one piece of work of %s us, the limit is %" PRIu64,
                            csv_text(csv, column->work), TRACE_MOST_NS / 1000);
    if (column->kind != CSV_NO_COLUMN) launch->kind = csv_text(csv, column->kind)[0];
    return column->start == CSV_NO_COLUMN || csv_ns(csv, column->start, &launch->start_ns);
}

bool convert_read_launches(struct conversion *conversion, struct csv *csv) {
    const struct launch_columns column = {csv_column(csv, "launch_us"), csv_column(csv, "thread"),
                                          csv_column(csv, "stream"),    csv_column(csv, "gpu_dur_us"),
                                          csv_column(csv, "kind"),      csv_column(csv, "gpu_start_us")};
    struct launch launch;
    enum csv_next next;
    conversion->has_start = column.start != CSV_NO_COLUMN;
    while ((next = csv_next(csv)) == CSV_ROW) {
        void *launches = conversion->launches;
        if (!convert_count_row(conversion, csv, conversion->launch_count) ||
            !read_launch(conversion, csv, &column, &launch))
            return false;
        const bool grown = convert_grow(conversion, &launches, &conversion->launch_room, conversion->launch_count,
                                        sizeof *conversion->launches);
        conversion->launches = launches;
        if (!grown) return false;
        conversion->launches[conversion->launch_count++] = launch;
    }
    return next == CSV_END;
}

/* ---- the host's calls ------------------------------------------------------------------------------------------- */

/* Queries tell nothing that a trace could say: of which event, and what the answer was, is not in the log. Nor is, for
 * which event a host wait was. */
enum host_call convert_call_of(const char *name) {
    static const struct {
        const char *name;
        enum host_call call;
    } known[] = {{"cudaStreamWaitEvent", CALL_WAIT_EVENT},    {"cuStreamWaitEvent", CALL_WAIT_EVENT},
                 {"cudaStreamSynchronize", CALL_SYNC_STREAM}, {"cuStreamSynchronize", CALL_SYNC_STREAM},
                 {"cudaDeviceSynchronize", CALL_SYNC_DEVICE}, {"cuCtxSynchronize", CALL_SYNC_DEVICE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return known[i].call;
    return CALL_OTHER;
}

bool convert_read_calls(struct conversion *conversion, struct csv *csv) {
    const int name = csv_column(csv, "call"), thread = csv_column(csv, "thread"), time = csv_column(csv, "time_us");
    enum csv_next next;
    while ((next = csv_next(csv)) == CSV_ROW) {
        const uint64_t before = conversion->call_count > 0 ? conversion->calls[conversion->call_count - 1].ns : 0;
        struct call call = {.kind = (uint8_t)convert_call_of(csv_text(csv, name)), .next = NONE};
        void *calls = conversion->calls;
        if (!convert_count_row(conversion, csv, conversion->call_count) || !read_time(csv, time, before, &call.ns) ||
            !convert_thread(conversion, csv, thread, &call.thread))
            return false;
        const bool grown =
            convert_grow(conversion, &calls, &conversion->call_room, conversion->call_count, sizeof *conversion->calls);
        conversion->calls = calls;
        if (!grown) return false;
        conversion->calls[conversion->call_count++] = call;
    }
    return next == CSV_END;
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

struct merge {
    struct conversion *conversion;
    struct worker {
        uint32_t stream;          /* what the thread works on */
        uint32_t last, elsewhere; /* its last launch so far, and its last on another stream than that one's */
    } * workers;                  /* by thread */
    uint32_t *counts;             /* of launches, by thread and stream; then by stream alone */
    size_t thread_count, stream_count;
    uint32_t main_stream;
    size_t row, launch, call; /* the next of each table */
};

static size_t most_of(const uint32_t *counts, size_t count) {
    size_t most = 0;
    for (size_t i = 1; i < count; i++)
        if (counts[i] > counts[most]) most = i;
    return most;
}

static void choose_streams(struct merge *merge) {
    const struct conversion *conversion = merge->conversion;
    const size_t streams = merge->stream_count;
    uint32_t *together = merge->counts + merge->thread_count * streams;
    for (size_t i = 0; i < conversion->launch_count; i++) {
        const struct launch *launch = &conversion->launches[i];
        merge->counts[launch->thread * streams + launch->stream]++;
        together[launch->stream]++;
    }
    merge->main_stream = (uint32_t)most_of(together, streams);
    for (size_t thread = 0; thread < merge->thread_count; thread++) {
        const uint32_t *counts = merge->counts + thread * streams;
        const size_t most = most_of(counts, streams);
        merge->workers[thread].stream = counts[most] > 0 ? (uint32_t)most : merge->main_stream;
    }
}

static void name_streams(struct conversion *conversion) {
    static const char kinds[] = "kncm";
    static const char *const names[] = {"compute", "nccl", "copies", "sets"};
    uint32_t(*counts)[4] = calloc(conversion->stream_count + 1, sizeof *counts);
    if (counts == NULL) return; /* names are an extra */
    for (size_t i = 0; i < conversion->launch_count; i++) {
        const char *kind = strchr(kinds, conversion->launches[i].kind);
        if (kind != NULL && *kind != '\0') counts[conversion->launches[i].stream][kind - kinds]++;
    }
    for (size_t i = 0; i < conversion->stream_count; i++) {
        const size_t most = most_of(counts[i], 4);
        if (counts[i][most] > 0) strcpy(conversion->stream_names[i], names[most]);
    }
    free(counts);
}

/* Each call's next launch by its thread. */
static void find_next_launches(struct merge *merge) {
    struct conversion *conversion = merge->conversion;
    size_t launch = conversion->launch_count;
    for (size_t i = conversion->call_count; i-- > 0;) {
        struct call *call = &conversion->calls[i];
        for (; launch > 0 && conversion->launches[launch - 1].ns >= call->ns; launch--)
            merge->workers[conversion->launches[launch - 1].thread].last = (uint32_t)launch - 1;
        call->next = merge->workers[call->thread].last;
    }
    for (size_t thread = 0; thread < merge->thread_count; thread++) merge->workers[thread].last = NONE;
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

/* The thread's last launch on another stream than `stream`. */
static uint32_t last_elsewhere(const struct merge *merge, uint32_t thread, uint32_t stream) {
    const struct worker *worker = &merge->workers[thread];
    if (worker->last == NONE || merge->conversion->launches[worker->last].stream != stream) return worker->last;
    return worker->elsewhere;
}

static void note_launch(struct merge *merge, uint32_t number) {
    const struct launch *launches = merge->conversion->launches;
    struct worker *worker = &merge->workers[launches[number].thread];
    if (worker->last != NONE && launches[worker->last].stream != launches[number].stream)
        worker->elsewhere = worker->last;
    worker->last = number;
}

/* Which streams a wait joins is not in the log. The thread that makes one is about to launch on the stream that waits,
 * and waits for what it launched last on another. Left out where the device's own times say otherwise: the work
 * began before the other ended. */
static bool push_wait(struct merge *merge, const struct call *call) {
    struct conversion *conversion = merge->conversion;
    if (call->next == NONE) return conversion->waits_left_out++, true;
    const struct launch *next = &conversion->launches[call->next];
    const uint32_t last = last_elsewhere(merge, call->thread, next->stream);
    if (last == NONE) return conversion->waits_left_out++, true;
    const struct launch *other = &conversion->launches[last];
    if (conversion->has_start &&
        (next->start_ns < other->start_ns || next->start_ns - other->start_ns < other->work_ns))
        return conversion->waits_left_out++, true;
    const struct step step = {.kind = STEP_WAIT, .stream = next->stream, .other = other->stream};
    conversion->wait_count++;
    return convert_push(conversion, &conversion->steps, step);
}

static bool push_call(struct merge *merge, const struct call *call) {
    struct conversion *conversion = merge->conversion;
    struct step step = {.kind = STEP_SYNC_DEVICE, .stream = merge->workers[call->thread].stream};
    switch ((enum host_call)call->kind) {
    case CALL_WAIT_EVENT:
        return push_wait(merge, call);
    case CALL_SYNC_STREAM:
        step.kind = STEP_SYNC_STREAM;
        break;
    case CALL_SYNC_DEVICE:
        break;
    case CALL_OTHER:
        conversion->calls_left_out++;
        return true;
    }
    return convert_push(conversion, &conversion->steps, step);
}

static bool push_launch(struct merge *merge, uint32_t number) {
    const struct launch *launch = &merge->conversion->launches[number];
    const uint64_t ns = (launch->work_ns + LEAST_WORK_NS / 2) / LEAST_WORK_NS * LEAST_WORK_NS;
    note_launch(merge, number);
    return convert_push_work(merge->conversion, launch->stream, ns);
}

static bool push_memory(struct merge *merge, struct step step) {
    if (step.kind == STEP_RESERVE) return convert_push(merge->conversion, &merge->conversion->steps, step);
    struct convert_block *block = &merge->conversion->blocks[step.block];
    if (step.kind != STEP_FREE) block->stream = merge->workers[step.stream].stream;
    step.stream = block->stream;
    return convert_push(merge->conversion, &merge->conversion->steps, step);
}

/* The earliest of the three tables' next rows; at one time: an allocation, a call, a launch, a free. */
static bool push_next(struct merge *merge) {
    struct conversion *conversion = merge->conversion;
    const bool rows = merge->row < conversion->rows.count, launches = merge->launch < conversion->launch_count,
               calls = merge->call < conversion->call_count;
    const uint64_t launch_ns = launches ? conversion->launches[merge->launch].ns : UINT64_MAX;
    const uint64_t call_ns = calls ? conversion->calls[merge->call].ns : UINT64_MAX;
    const uint64_t device_ns = call_ns < launch_ns ? call_ns : launch_ns;
    if (rows) {
        const struct step *row = &conversion->rows.all[merge->row];
        const bool first = row->kind == STEP_LIVE || row->ns < device_ns || (!launches && !calls);
        if (first || (row->ns == device_ns && row->kind == STEP_ALLOC)) {
            merge->row++;
            return push_memory(merge, *row);
        }
    }
    if (calls && (!launches || call_ns <= launch_ns)) return push_call(merge, &conversion->calls[merge->call++]);
    return push_launch(merge, (uint32_t)merge->launch++);
}

static void set_span(struct conversion *conversion) {
    uint64_t begin = UINT64_MAX, end = conversion->end_ns;
    if (conversion->launch_count > 0) {
        const uint64_t last = conversion->launches[conversion->launch_count - 1].ns;
        begin = conversion->launches[0].ns;
        if (last > end) end = last;
    }
    for (size_t i = 0; i < conversion->rows.count; i++)
        if (conversion->rows.all[i].kind != STEP_LIVE) {
            if (conversion->rows.all[i].ns < begin) begin = conversion->rows.all[i].ns;
            break;
        }
    conversion->span_ns = begin < end ? end - begin : 0;
}

static bool merge_tables(struct merge *merge) {
    struct conversion *conversion = merge->conversion;
    find_next_launches(merge);
    choose_streams(merge);
    name_streams(conversion);
    set_span(conversion);
    if (!convert_push_hidden(conversion, merge->main_stream)) return false;
    while (merge->row < conversion->rows.count || merge->launch < conversion->launch_count ||
           merge->call < conversion->call_count)
        if (!push_next(merge)) return false;
    return true;
}

bool convert_profile_steps(struct conversion *conversion) {
    struct merge merge = {
        .conversion = conversion, .thread_count = conversion->thread_count, .stream_count = conversion->stream_count};
    if (conversion->launch_count == 0)
        return convert_fail(conversion, "%s: the table of work has no rows", conversion->name[FORM_LAUNCHES]);
    merge.workers = malloc((merge.thread_count + 1) * sizeof *merge.workers);
    /* at most 4,096 of each */
    merge.counts = calloc((merge.thread_count + 1) * merge.stream_count, sizeof *merge.counts);
    bool made = merge.workers != NULL && merge.counts != NULL;
    if (!made) convert_fail(conversion, "no host memory to merge the tables");
    for (size_t i = 0; made && i < merge.thread_count; i++) merge.workers[i] = (struct worker){0, NONE, NONE};
    made = made && merge_tables(&merge);
    free(merge.workers);
    free(merge.counts);
    return made;
}
