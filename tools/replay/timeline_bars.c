/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "timeline_inside.h"

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

void timeline_add_bar(struct timeline *timeline, uint32_t number, uint64_t start, uint64_t end) {
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
