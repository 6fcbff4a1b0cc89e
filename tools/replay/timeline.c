/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/emulated.h"
#include "device/path.h"
#include "timeline_inside.h"
#include "tools/trace/output.h"

/* A piece of work on its way; noted when it ends. */
struct work {
    struct timeline *timeline;
    struct run *run;
    uint32_t stream;
    uint64_t ns;
    struct work *next;
};

/* ---- open ------------------------------------------------------------------------------------------------------- */

static void free_timeline(struct timeline *timeline) {
    if (timeline == NULL) return;
    while (timeline->spare != NULL) {
        struct work *next = timeline->spare->next;
        free(timeline->spare);
        timeline->spare = next;
    }
    for (uint32_t i = 0; timeline->rows != NULL && i < timeline->row_count; i++) free(timeline->rows[i].bars);
    free(timeline->rows);
    free(timeline->columns);
    for (unsigned i = 0; i < timeline->requests.part_count; i++) free(timeline->requests.parts[i].bytes);
    free(timeline->slots);
    free(timeline->idle_bytes);
    free(timeline);
}

static void forget_figures(struct outcome *outcome) {
    outcome->memory_calls = outcome->page_moves = outcome->moved_bytes = NOT_KNOWN;
    outcome->device_waits = outcome->host_waits = outcome->host_wait_ns = NOT_KNOWN;
}

static uint64_t live_before(const struct trace *trace) {
    uint64_t live = 0;
    for (size_t i = 0; i < trace->op_count; i++)
        if (trace->ops[i].kind == OP_LIVE) live += trace->ops[i].bytes;
    return live;
}

bool timeline_open(struct run *run, const struct target *target, char *why, size_t room) {
    const uint32_t streams = run->trace->stream_count;
    struct timeline *made = calloc(1, sizeof *made);
    run->timeline = NULL;
    if (made != NULL) {
        made->row_count = streams + 1;
        made->columns = calloc(TIMELINE_COLUMNS, sizeof *made->columns);
        made->rows = calloc(made->row_count, sizeof *made->rows);
        made->slots = calloc(made->row_count, sizeof *made->slots);
        made->idle_bytes = calloc(made->row_count, sizeof *made->idle_bytes);
    }
    if (made == NULL || made->columns == NULL || made->rows == NULL || made->slots == NULL ||
        made->idle_bytes == NULL) {
        free_timeline(made);
        snprintf(why, room, "no host memory for a timeline of %u streams", streams);
        return false;
    }
    made->column_ns = 1;
    made->iterations_in_one = 1;
    made->requests.live = live_before(run->trace);
    made->tells_idle = target->idle_by_stream != NULL;
    made->begin_ns = weir__device_now_ns(run->device);
    made->holds = run->setup->target == TARGET_POOL || run->setup->target == TARGET_PLUGIN;
    forget_figures(&made->before);
    forget_figures(&made->now);
    run->timeline = made;
    return true;
}

static uint64_t now_ns(const struct run *run) { return weir__device_now_ns(run->device) - run->timeline->begin_ns; }

/* ---- work ------------------------------------------------------------------------------------------------------- */

/* A host function of the emulated driver: called when the work ends. */
static void work_ended(void *argument) {
    struct work *work = argument;
    struct timeline *timeline = work->timeline;
    const uint64_t end = now_ns(work->run);
    timeline_add_bar(timeline, work->stream, end > work->ns ? end - work->ns : 0, end);
    work->next = timeline->spare;
    timeline->spare = work;
}

void timeline_work(struct run *run, const struct op *op, struct weir_emu_work *work) {
    struct timeline *timeline = run->timeline;
    if (timeline == NULL) return;
    struct work *piece = timeline->spare;
    if (piece != NULL)
        timeline->spare = piece->next;
    else
        piece = malloc(sizeof *piece);
    if (piece == NULL) {
        timeline->broken = true;
        return;
    }
    *piece = (struct work){.timeline = timeline, .run = run, .stream = op->stream, .ns = op->ns};
    work->function = work_ended;
    work->argument = piece;
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

static void note_iteration(struct timeline *timeline, uint64_t ns) {
    if (++timeline->iterations_left_out < timeline->iterations_in_one && timeline->iteration_count > 0) return;
    if (timeline->iteration_count == TIMELINE_ITERATIONS) {
        for (uint32_t i = 0; i < TIMELINE_ITERATIONS / 2; i++) timeline->iterations[i] = timeline->iterations[2 * i];
        timeline->iteration_count /= 2;
        timeline->iterations_in_one *= 2;
    }
    timeline->iterations[timeline->iteration_count++] = ns;
    timeline->iterations_left_out = 0;
}

/* The last stream of all that can have a slot of its own gets the last but one. */
static uint32_t slot_for(struct timeline *timeline, uint32_t stream) {
    if (timeline->slots[stream] != 0) return timeline_slot(timeline, stream);
    timeline->slots[stream] = (uint8_t)(timeline->slot_count + 1);
    if (timeline->slot_count + 1 < TIMELINE_SLOTS) timeline->slot_count++;
    return timeline_slot(timeline, stream);
}

static void note_idle(struct run *run, const struct target *target, const struct op *op, struct sample *sample) {
    struct timeline *timeline = run->timeline;
    if (!timeline->tells_idle) return;
    run_charging(run, false);
    target->idle_by_stream(run, timeline->idle_bytes, &sample->counts.stranded);
    run_charging(run, true);
    (void)slot_for(timeline, op->stream);
    for (uint32_t i = 0; i < run->trace->stream_count; i++) {
        if (timeline->idle_bytes[i] == 0 || timeline->idle_bytes[i] == NOT_KNOWN) continue;
        timeline->has_idle = true;
        sample->idle[slot_for(timeline, i)] += timeline->idle_bytes[i];
    }
}

static uint64_t held_bytes(struct run *run) {
    struct weir_emu_counts counts;
    if (!run->timeline->holds || weir__device_counts(run->device, &counts) != WEIR_OK) return run->live_bytes;
    return counts.held_bytes;
}

static uint64_t grown(uint64_t now, uint64_t before) {
    if (now == NOT_KNOWN) return 0;
    return before == NOT_KNOWN ? now : now - before;
}

static void note_figures(struct run *run, const struct target *target, struct counts *counts, uint64_t ns) {
    struct timeline *timeline = run->timeline;
    struct outcome *now = &timeline->now, *before = &timeline->before;
    target->figures(run, now);
    counts->memory_calls = grown(now->memory_calls, before->memory_calls);
    counts->page_moves = grown(now->page_moves, before->page_moves);
    counts->moved_bytes = grown(now->moved_bytes, before->moved_bytes);
    counts->device_waits = grown(now->device_waits, before->device_waits);
    counts->host_waits = grown(now->host_waits, before->host_waits);
    counts->host_wait_ns = grown(now->host_wait_ns, before->host_wait_ns);
    if (counts->host_waits > 0 && now->host_wait_ns == NOT_KNOWN) counts->host_wait_ns = ns - timeline->last_ns;
    const uint64_t since = ns - timeline->last_ns, waited = counts->host_wait_ns < since ? counts->host_wait_ns : since;
    if (waited > 0) timeline_add_bar(timeline, timeline->row_count - 1, ns - waited, ns);
    before->memory_calls = now->memory_calls;
    before->page_moves = now->page_moves;
    before->moved_bytes = now->moved_bytes;
    before->device_waits = now->device_waits;
    before->host_waits = now->host_waits;
    before->host_wait_ns = now->host_wait_ns;
}

static void note_request(struct run *run, const struct target *target, const struct op *op, uint64_t ns) {
    struct sample sample = {.ns = ns, .live = run->live_bytes, .held = held_bytes(run)};
    note_figures(run, target, &sample.counts, ns);
    note_idle(run, target, op, &sample);
    timeline_add_sample(run->timeline, op->stream, &sample);
    timeline_add_request(run->timeline, op, &sample);
}

void timeline_note(struct run *run, const struct target *target, const struct op *op) {
    struct timeline *timeline = run->timeline;
    if (timeline == NULL) return;
    const uint64_t ns = now_ns(run);
    switch ((enum op_kind)op->kind) {
    case OP_ALLOC:
    case OP_REFUSED:
    case OP_FREE:
    case OP_FREE_ANY:
    case OP_FREE_AFTER:
    case OP_NOTE:
        note_request(run, target, op, ns);
        break;
    case OP_SYNC_STREAM:
    case OP_SYNC_DEVICE:
    case OP_HOST_WAIT:
        if (ns > timeline->last_ns) timeline_add_bar(timeline, timeline->row_count - 1, timeline->last_ns, ns);
        break;
    case OP_ITERATION:
        note_iteration(timeline, ns);
        break;
    default:
        break;
    }
    timeline->last_ns = ns;
    timeline->last = op;
}

/* ---- close ------------------------------------------------------------------------------------------------------ */

/* What is not whole is no page, and takes the place of none. */
static bool give_up(const char *path, const char *part, char *why, size_t room) {
    snprintf(why, room, "the timeline %s can't be written: %s", path, strerror(errno));
    if (part != NULL) unlink(part);
    return false;
}

static bool write_whole(struct run *run, const struct outcome *outcome, FILE *out) {
    const bool written = timeline_page(run, outcome, out) && fflush(out) == 0 && !ferror(out);
    const int error = errno;
    if (fclose(out) == 0 && written) return true;
    if (!written) errno = error;
    return false;
}

static bool write_page(struct run *run, const struct outcome *outcome, char *why, size_t room) {
    char *part = NULL, *path = run->setup->timeline_path != NULL ? weir__behind_links(run->setup->timeline_path) : NULL;
    if (run->setup->timeline_path == NULL) return true;
    const int file = path != NULL ? output_open_beside(path, &part) : -1;
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    bool written = out != NULL && write_whole(run, outcome, out) && (part == NULL || rename(part, path) == 0);
    if (!written) written = give_up(run->setup->timeline_path, file >= 0 ? part : NULL, why, room);
    if (out == NULL && file >= 0) close(file);
    free(part);
    free(path);
    return written;
}

static bool write_text(const struct run *run, const struct outcome *outcome, char *why, size_t room) {
    FILE *out = run->setup->timeline_text;
    if (out == NULL) return true;
    if (timeline_text(run, outcome, out) && fflush(out) == 0 && !ferror(out)) return true;
    snprintf(why, room, "the timeline's text can't be written: %s", strerror(errno));
    return false;
}

bool timeline_close(struct run *run, const struct outcome *outcome, char *why, size_t room) {
    struct timeline *timeline = run->timeline;
    if (timeline == NULL) return true;
    bool written = false;
    if (timeline->broken)
        snprintf(why, room, "no host memory for the timeline");
    else
        written = write_page(run, outcome, why, room) && write_text(run, outcome, why, room);
    free_timeline(timeline);
    run->timeline = NULL;
    return written;
}
