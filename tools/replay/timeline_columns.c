/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline_inside.h"

static void add_counts(struct counts *into, const struct counts *from) {
    into->memory_calls += from->memory_calls;
    into->page_moves += from->page_moves;
    into->moved_bytes += from->moved_bytes;
    into->device_waits += from->device_waits;
    into->host_waits += from->host_waits;
    into->host_wait_ns += from->host_wait_ns;
    if (from->stranded > into->stranded) into->stranded = from->stranded;
}

static void merge(struct sample *into, const struct sample *from) {
    const uint64_t held = into->held > from->held ? into->held : from->held;
    struct counts counts = into->counts;
    add_counts(&counts, &from->counts);
    if (from->live > into->live) *into = *from;
    into->held = held;
    into->counts = counts;
}

static bool in_one(const struct timeline *timeline, const struct sample *a, const struct sample *b) {
    return a->ns / timeline->column_ns == b->ns / timeline->column_ns;
}

static void coarsen(struct timeline *timeline) {
    uint32_t kept = 0;
    timeline->column_ns *= 2;
    for (uint32_t i = 0; i < timeline->column_count; i++) {
        struct sample *last = kept > 0 ? &timeline->columns[kept - 1] : NULL;
        if (last != NULL && in_one(timeline, last, &timeline->columns[i]))
            merge(last, &timeline->columns[i]);
        else
            timeline->columns[kept++] = timeline->columns[i];
    }
    timeline->column_count = kept;
}

static void add_column(struct timeline *timeline, const struct sample *sample) {
    const uint32_t count = timeline->column_count;
    if (count > 0 && in_one(timeline, &timeline->columns[count - 1], sample)) {
        merge(&timeline->columns[count - 1], sample);
        return;
    }
    while (timeline->column_count == TIMELINE_COLUMNS) coarsen(timeline);
    timeline->columns[timeline->column_count++] = *sample;
}

static void raise_to(struct peak *peak, uint64_t bytes, uint64_t ns, uint32_t stream) {
    if (bytes > peak->bytes) *peak = (struct peak){bytes, ns, stream};
}

void timeline_add_sample(struct timeline *timeline, uint32_t stream, const struct sample *sample) {
    uint64_t idle = 0;
    add_column(timeline, sample);
    for (uint32_t i = 0; i < TIMELINE_SLOTS; i++) {
        idle += sample->idle[i];
        raise_to(&timeline->idle_of[i], sample->idle[i], sample->ns, stream);
    }
    raise_to(&timeline->live, sample->live, sample->ns, stream);
    raise_to(&timeline->held, sample->held, sample->ns, stream);
    raise_to(&timeline->idle, idle, sample->ns, stream);
    raise_to(&timeline->stranded, sample->counts.stranded, sample->ns, stream);
}
