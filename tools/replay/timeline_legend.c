/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "timeline_inside.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

const char *timeline_row_name(const struct run *run, uint32_t row, char *text, size_t room) {
    if (row == run->trace->stream_count)
        snprintf(text, room, "host waits");
    else if (run->trace->stream_names[row][0] != '\0')
        snprintf(text, room, "%s", run->trace->stream_names[row]);
    else
        snprintf(text, room, "stream %" PRIu64, run->trace->stream_ids[row]);
    return text;
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

const char *timeline_trace_name(const struct setup *setup) {
    return setup->trace_name != NULL ? file_name(setup->trace_name) : "A trace";
}

void timeline_allocator_name(const struct setup *setup, char *text, size_t room) {
    switch (setup->target) {
    case TARGET_POOL:
        snprintf(text, room, "weir, policy %s", setup->policy);
        return;
    case TARGET_PLUGIN:
        snprintf(text, room, "%s", file_name(setup->library));
        return;
    case TARGET_FREE:
        snprintf(text, room, "an allocator that costs nothing");
        return;
    case TARGET_FLUID:
        snprintf(text, room, "no fragmentation, waiting for pending uses only");
        return;
    }
}

/* ---- colours and rows ------------------------------------------------------------------------------------------- */

/* Those that share the last slot have no colour. */
static uint64_t most_idle(const struct timeline *timeline, uint32_t stream) {
    const uint32_t slot = timeline_slot(timeline, stream);
    return slot + 1 < TIMELINE_SLOTS ? timeline->idle_of[slot].bytes : 0;
}

/* The row that has most of it and is not `taken` yet; row_count: none has any. */
static uint32_t next_most(const struct timeline *timeline, const uint64_t *amount, const uint8_t *taken) {
    uint32_t most = timeline->row_count;
    for (uint32_t i = 0; i < timeline->row_count; i++)
        if (!taken[i] && amount[i] > 0 && (most == timeline->row_count || amount[i] > amount[most])) most = i;
    return most;
}

/* Colours go to the streams with most idle bytes, then to the busiest. */
static void give_colours(const struct run *run, struct legend *legend, uint64_t *amount, uint8_t *taken) {
    const struct timeline *timeline = run->timeline;
    const uint32_t streams = run->trace->stream_count;
    uint32_t given = 0;
    memset(legend->colour, TIMELINE_COLOURS - 1, timeline->row_count);
    for (uint32_t i = 0; i < streams; i++) amount[i] = most_idle(timeline, i);
    amount[streams] = 0; /* the host has none */
    for (uint32_t i; given < TIMELINE_COLOURS - 1 && (i = next_most(timeline, amount, taken)) < streams; given++) {
        taken[i] = 1;
        legend->colour[i] = (uint8_t)given;
        legend->coloured[legend->coloured_count++] = i;
    }
    for (uint32_t i = 0; i < streams; i++) amount[i] = timeline->rows[i].busy_ns;
    for (uint32_t i; given < TIMELINE_COLOURS - 1 && (i = next_most(timeline, amount, taken)) < streams; given++) {
        taken[i] = 1;
        legend->colour[i] = (uint8_t)given;
    }
}

static void choose_rows(const struct run *run, uint32_t most, struct legend *legend, uint64_t *amount, uint8_t *taken) {
    const struct timeline *timeline = run->timeline;
    uint32_t with_bars = 0, chosen = 0;
    memset(taken, 0, timeline->row_count);
    for (uint32_t i = 0; i < timeline->row_count; i++)
        amount[i] = timeline->rows[i].count > 0 ? timeline->rows[i].busy_ns + 1 : 0;
    for (uint32_t i = 0; i < timeline->row_count; i++) with_bars += amount[i] > 0;
    for (uint32_t i; chosen < most && (i = next_most(timeline, amount, taken)) < timeline->row_count; chosen++)
        taken[i] = 1;
    for (uint32_t i = 0; i < timeline->row_count; i++)
        if (taken[i]) legend->shown[legend->shown_count++] = i;
    legend->left_out = with_bars - legend->shown_count;
}

bool legend_make(const struct run *run, uint32_t most, struct legend *legend) {
    const uint32_t rows = run->timeline->row_count;
    uint64_t *amount = calloc(rows, sizeof *amount);
    uint8_t *taken = calloc(rows, 1);
    *legend = (struct legend){.colour = calloc(rows, 1), .shown = calloc(rows, sizeof *legend->shown)};
    const bool made = amount != NULL && taken != NULL && legend->colour != NULL && legend->shown != NULL;
    if (made) {
        give_colours(run, legend, amount, taken);
        choose_rows(run, most, legend, amount, taken);
    }
    free(amount);
    free(taken);
    return made;
}

void legend_free(struct legend *legend) {
    free(legend->colour);
    free(legend->shown);
}

uint64_t timeline_end_ns(const struct run *run, const struct outcome *outcome) {
    uint64_t end = run->timeline->last_ns > outcome->run_ns ? run->timeline->last_ns : outcome->run_ns;
    for (uint32_t i = 0; i < run->timeline->row_count; i++) {
        const struct row *row = &run->timeline->rows[i];
        if (row->count > 0 && row->bars[row->count - 1].end > end) end = row->bars[row->count - 1].end;
    }
    return end;
}
