/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/emulated.h"
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
    free(timeline->slots);
    free(timeline->idle);
    free(timeline);
}

static void forget_figures(struct outcome *outcome) {
    outcome->memory_calls = outcome->page_moves = outcome->moved_bytes = NOT_KNOWN;
    outcome->device_waits = outcome->host_waits = outcome->host_wait_ns = NOT_KNOWN;
}

bool timeline_open(struct run *run, char *why, size_t room) {
    const uint32_t streams = run->trace->stream_count;
    struct timeline *made = calloc(1, sizeof *made);
    run->timeline = NULL;
    if (made != NULL) {
        made->row_count = streams + 1;
        made->columns = calloc(TIMELINE_COLUMNS, sizeof *made->columns);
        made->rows = calloc(made->row_count, sizeof *made->rows);
        made->slots = calloc(made->row_count, sizeof *made->slots);
        made->idle = calloc(made->row_count, sizeof *made->idle);
    }
    if (made == NULL || made->columns == NULL || made->rows == NULL || made->slots == NULL || made->idle == NULL) {
        free_timeline(made);
        snprintf(why, room, "no host memory for a timeline of %u streams", streams);
        return false;
    }
    made->column_ns = 1;
    made->iterations_in_one = 1;
    made->begin_ns = weir__device_now_ns(run->device);
    made->holds = run->setup->target == TARGET_POOL || run->setup->target == TARGET_PLUGIN;
    forget_figures(&made->before);
    forget_figures(&made->now);
    run->timeline = made;
    return true;
}

static uint64_t now_ns(const struct run *run) { return weir__device_now_ns(run->device) - run->timeline->begin_ns; }

/* ---- bars ------------------------------------------------------------------------------------------------------- */

/* The bars that come of it are mostly as long as the resolution, or as far apart: so there are about half as many of
 * them for a resolution twice as coarse. */
static bool joins(const struct timeline *timeline, const struct bar *bar, uint64_t start, uint64_t end) {
    if (timeline->gap_ns == 0) return false;
    const uint64_t gap = start > bar->end ? start - bar->end : 0;
    return gap < timeline->gap_ns && end - bar->start <= 2 * timeline->gap_ns;
}

static void join(struct bar *bar, const struct bar *other) {
    if (other->end > bar->end) bar->end = other->end;
    bar->busy += other->busy;
}

static void thin(struct timeline *timeline) {
    timeline->gap_ns = timeline->gap_ns == 0 ? 256 : 2 * timeline->gap_ns;
    timeline->bar_count = 0;
    for (uint32_t r = 0; r < timeline->row_count; r++) {
        struct row *row = &timeline->rows[r];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < row->count; i++) {
            const struct bar bar = row->bars[i];
            if (kept > 0 && joins(timeline, &row->bars[kept - 1], bar.start, bar.end))
                join(&row->bars[kept - 1], &bar);
            else
                row->bars[kept++] = bar;
        }
        row->count = kept;
        timeline->bar_count += kept;
    }
}

static bool room_for_bar(struct timeline *timeline, struct row *row) {
    if (row->count < row->room) return true;
    const uint32_t room = row->room == 0 ? 64 : 2 * row->room;
    struct bar *grown = realloc(row->bars, room * sizeof *grown);
    if (grown == NULL) {
        timeline->broken = true;
        return false;
    }
    row->bars = grown;
    row->room = room;
    return true;
}

static void add_bar(struct timeline *timeline, uint32_t number, uint64_t start, uint64_t end) {
    struct row *row = &timeline->rows[number];
    const struct bar bar = {start, end, end - start};
    row->busy_ns += bar.busy;
    if (row->count > 0 && joins(timeline, &row->bars[row->count - 1], start, end)) {
        join(&row->bars[row->count - 1], &bar);
        return;
    }
    if (!room_for_bar(timeline, row)) return;
    row->bars[row->count++] = bar;
    if (++timeline->bar_count <= TIMELINE_BARS) return;
    while (timeline->bar_count > TIMELINE_BARS / 2 && timeline->gap_ns < UINT64_MAX / 8) thin(timeline);
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

/* A host function of the emulated driver: called when the work ends. */
static void work_ended(void *argument) {
    struct work *work = argument;
    struct timeline *timeline = work->timeline;
    const uint64_t end = now_ns(work->run);
    add_bar(timeline, work->stream, end > work->ns ? end - work->ns : 0, end);
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

/* ---- columns ---------------------------------------------------------------------------------------------------- */

static void merge(struct column *into, const struct column *from) {
    const struct column kept = *into;
    if (from->live > into->live) *into = *from;
    into->held = kept.held > from->held ? kept.held : from->held;
    into->memory_calls = kept.memory_calls + from->memory_calls;
    into->page_moves = kept.page_moves + from->page_moves;
    into->moved_bytes = kept.moved_bytes + from->moved_bytes;
    into->device_waits = kept.device_waits + from->device_waits;
    into->host_waits = kept.host_waits + from->host_waits;
    into->host_wait_ns = kept.host_wait_ns + from->host_wait_ns;
}

static void coarsen(struct timeline *timeline) {
    uint32_t kept = 0;
    timeline->column_ns *= 2;
    for (uint32_t i = 0; i < timeline->column_count; i++) {
        struct column *last = kept > 0 ? &timeline->columns[kept - 1] : NULL;
        if (last != NULL && last->ns / timeline->column_ns == timeline->columns[i].ns / timeline->column_ns)
            merge(last, &timeline->columns[i]);
        else
            timeline->columns[kept++] = timeline->columns[i];
    }
    timeline->column_count = kept;
}

/* The last stream of all that can have a slot of its own gets the last but one. */
static uint32_t slot_for(struct timeline *timeline, uint32_t stream) {
    if (timeline->slots[stream] != 0) return timeline_slot(timeline, stream);
    if (timeline->slot_count + 1 >= TIMELINE_SLOTS) return TIMELINE_SLOTS - 1;
    timeline->slots[stream] = (uint8_t)++timeline->slot_count;
    return timeline->slot_count - 1;
}

static void ask_idle(struct run *run, const struct target *target, struct column *column) {
    struct timeline *timeline = run->timeline;
    column->idle_live = run->live_bytes;
    if (target->idle_by_stream == NULL) return;
    run_charging(run, false);
    target->idle_by_stream(run, timeline->idle);
    run_charging(run, true);
    memset(column->idle, 0, sizeof column->idle);
    for (uint32_t i = 0; i < run->trace->stream_count; i++) {
        if (timeline->idle[i] == 0 || timeline->idle[i] == NOT_KNOWN) continue;
        timeline->has_idle = true;
        column->idle[slot_for(timeline, i)] += timeline->idle[i];
    }
}

static uint64_t held_bytes(struct run *run) {
    struct weir_emu_counts counts;
    if (!run->timeline->holds || weir__device_counts(run->device, &counts) != WEIR_OK) return run->live_bytes;
    return counts.held_bytes;
}

/* Asking for idle bytes takes long, so it is done again only where live bytes have grown by more than can be seen. */
static struct column *column_now(struct run *run, const struct target *target, uint64_t ns) {
    struct timeline *timeline = run->timeline;
    struct column *last = timeline->column_count > 0 ? &timeline->columns[timeline->column_count - 1] : NULL;
    if (last == NULL || last->ns / timeline->column_ns != ns / timeline->column_ns) {
        while (timeline->column_count == TIMELINE_COLUMNS) coarsen(timeline);
        last = &timeline->columns[timeline->column_count++];
        *last = (struct column){.ns = ns, .live = run->live_bytes};
        ask_idle(run, target, last);
    } else if (run->live_bytes > last->live) {
        last->ns = ns;
        last->live = run->live_bytes;
        if (last->live > last->idle_live + run->device->capacity_bytes / 512) ask_idle(run, target, last);
    }
    const uint64_t held = held_bytes(run);
    if (held > last->held) last->held = held;
    return last;
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

static uint64_t grown(uint64_t now, uint64_t before) {
    if (now == NOT_KNOWN) return 0;
    return before == NOT_KNOWN ? now : now - before;
}

static void note_figures(struct run *run, const struct target *target, struct column *column, uint64_t ns) {
    struct timeline *timeline = run->timeline;
    struct outcome *now = &timeline->now, *before = &timeline->before;
    target->figures(run, now);
    const uint64_t waits = grown(now->host_waits, before->host_waits);
    uint64_t wait_ns = grown(now->host_wait_ns, before->host_wait_ns);
    if (waits > 0 && now->host_wait_ns == NOT_KNOWN) wait_ns = ns - timeline->last_ns;
    column->memory_calls += grown(now->memory_calls, before->memory_calls);
    column->page_moves += grown(now->page_moves, before->page_moves);
    column->moved_bytes += grown(now->moved_bytes, before->moved_bytes);
    column->device_waits += grown(now->device_waits, before->device_waits);
    column->host_waits += waits;
    column->host_wait_ns += wait_ns;
    if (wait_ns > ns - timeline->last_ns) wait_ns = ns - timeline->last_ns;
    if (wait_ns > 0) add_bar(timeline, timeline->row_count - 1, ns - wait_ns, ns);
    before->memory_calls = now->memory_calls;
    before->page_moves = now->page_moves;
    before->moved_bytes = now->moved_bytes;
    before->device_waits = now->device_waits;
    before->host_waits = now->host_waits;
    before->host_wait_ns = now->host_wait_ns;
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
        note_figures(run, target, column_now(run, target, ns), ns);
        break;
    case OP_SYNC_STREAM:
    case OP_SYNC_DEVICE:
    case OP_HOST_WAIT:
        if (ns > timeline->last_ns) add_bar(timeline, timeline->row_count - 1, timeline->last_ns, ns);
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
    timeline_page(run, outcome, out);
    const bool written = fflush(out) == 0 && !ferror(out);
    const int error = errno;
    if (fclose(out) == 0 && written) return true;
    if (!written) errno = error;
    return false;
}

static bool write_page(struct run *run, const struct outcome *outcome, char *why, size_t room) {
    const char *path = run->setup->timeline_path;
    char *part;
    const int file = output_open_beside(path, &part);
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    bool written = out != NULL && write_whole(run, outcome, out) && (part == NULL || rename(part, path) == 0);
    if (!written) written = give_up(path, file >= 0 ? part : NULL, why, room);
    if (out == NULL && file >= 0) close(file);
    free(part);
    return written;
}

bool timeline_close(struct run *run, const struct target *target, const struct outcome *outcome, char *why,
                    size_t room) {
    struct timeline *timeline = run->timeline;
    (void)target;
    if (timeline == NULL) return true;
    bool written = false;
    if (timeline->broken)
        snprintf(why, room, "no host memory for the timeline %s", run->setup->timeline_path);
    else
        written = write_page(run, outcome, why, room);
    free_timeline(timeline);
    run->timeline = NULL;
    return written;
}
