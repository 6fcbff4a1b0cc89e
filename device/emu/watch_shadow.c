/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/watch_shadow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LEAF_ROOM = 32 };

enum state { UNWRITTEN, WRITTEN, TAKEN };

struct reads {
    uint32_t count, room;
    struct emu_access at[];
};

struct segment {
    uint64_t end; /* it begins where the one before ends */
    enum state state;
    struct emu_access last;
    struct emu_access read; /* the only one, or nobody's when there are none or several */
    struct reads *reads;    /* two or more, else NULL */
};

struct emu_shadow_leaf {
    uint32_t count; /* 1 to LEAF_ROOM */
    struct segment at[LEAF_ROOM];
};

static const struct emu_access nobody = {.queue = EMU_NOBODY};

/* ---- segments --------------------------------------------------------------------------------------------------- */

static const struct emu_access *reads_of(const struct segment *segment, uint32_t *count) {
    *count = segment->reads != NULL ? segment->reads->count : segment->read.queue != EMU_NOBODY;
    return segment->reads != NULL ? segment->reads->at : &segment->read;
}

static void drop_reads(struct segment *segment) {
    free(segment->reads);
    segment->reads = NULL;
    segment->read = nobody;
}

static bool add_to_reads(struct segment *segment, const struct emu_access *access) {
    uint32_t count;
    const struct emu_access *had = reads_of(segment, &count);
    if (count == 0) {
        segment->read = *access;
        return true;
    }
    if (segment->reads == NULL || segment->reads->room == count) {
        const uint32_t room = 2 * count + 2;
        struct reads *more = malloc(sizeof *more + room * sizeof *more->at);
        if (more == NULL) return false;
        memcpy(more->at, had, count * sizeof *had);
        more->count = count;
        more->room = room;
        drop_reads(segment);
        segment->reads = more;
    }
    segment->reads->at[segment->reads->count++] = *access;
    return true;
}

static bool copy_segment(struct segment *to, const struct segment *from) {
    *to = *from;
    if (from->reads == NULL) return true;
    const size_t bytes = sizeof *from->reads + from->reads->room * sizeof *from->reads->at;
    to->reads = malloc(bytes);
    if (to->reads == NULL) return false;
    memcpy(to->reads, from->reads, bytes);
    return true;
}

static bool same_access(const struct emu_access *a, const struct emu_access *b) {
    return a->position == b->position && a->queue == b->queue && a->label == b->label;
}

static bool same_history(const struct segment *a, const struct segment *b) {
    if (a->state != b->state || !same_access(&a->last, &b->last)) return false;
    uint32_t a_count, b_count;
    const struct emu_access *a_reads = reads_of(a, &a_count), *b_reads = reads_of(b, &b_count);
    if (a_count != b_count) return false;
    for (uint32_t i = 0; i < a_count; i++)
        if (!same_access(&a_reads[i], &b_reads[i])) return false;
    return true;
}

/* ---- leaves ----------------------------------------------------------------------------------------------------- */

static bool reserve_place(struct emu_shadow *shadow) {
    if (shadow->count < shadow->room) return true;
    const size_t room = shadow->room == 0 ? 16 : 2 * shadow->room;
    struct emu_shadow_place *places = realloc(shadow->places, room * sizeof *places);
    if (places == NULL) return false;
    shadow->places = places;
    shadow->room = room;
    return true;
}

/* Puts an empty leaf behind the first `number` ones. Needs a reserved place. NULL: no host memory. */
static struct emu_shadow_leaf *insert_leaf(struct emu_shadow *shadow, size_t number, uint64_t start) {
    struct emu_shadow_leaf *leaf = malloc(sizeof *leaf);
    if (leaf == NULL) return NULL;
    leaf->count = 0;
    memmove(&shadow->places[number + 1], &shadow->places[number], (shadow->count - number) * sizeof *shadow->places);
    shadow->places[number] = (struct emu_shadow_place){start, leaf};
    shadow->count++;
    return leaf;
}

static bool begin(struct emu_shadow *shadow) {
    if (shadow->count > 0) return true;
    struct emu_shadow_leaf *leaf = reserve_place(shadow) ? insert_leaf(shadow, 0, 0) : NULL;
    if (leaf == NULL) return false;
    leaf->at[leaf->count++] = (struct segment){
        .end = UINT64_MAX, .state = shadow->written ? WRITTEN : UNWRITTEN, .last = nobody, .read = nobody};
    return true;
}

static bool split_leaf(struct emu_shadow *shadow, size_t number) {
    enum { HALF = LEAF_ROOM / 2 };
    if (!reserve_place(shadow)) return false;
    struct emu_shadow_leaf *front = shadow->places[number].leaf;
    struct emu_shadow_leaf *back = insert_leaf(shadow, number + 1, front->at[HALF - 1].end);
    if (back == NULL) return false;
    back->count = front->count - HALF;
    front->count = HALF;
    memcpy(back->at, &front->at[HALF], back->count * sizeof *back->at);
    return true;
}

/* ---- finding, cutting and joining ------------------------------------------------------------------------------- */

struct cursor {
    size_t leaf;
    uint32_t at;
};

static struct segment *segment_at(const struct emu_shadow *shadow, struct cursor cursor) {
    return &shadow->places[cursor.leaf].leaf->at[cursor.at];
}

static uint64_t start_of(const struct emu_shadow *shadow, struct cursor cursor) {
    const struct emu_shadow_place *place = &shadow->places[cursor.leaf];
    return cursor.at > 0 ? place->leaf->at[cursor.at - 1].end : place->start;
}

static struct cursor next_of(const struct emu_shadow *shadow, struct cursor cursor) {
    if (++cursor.at == shadow->places[cursor.leaf].leaf->count) cursor = (struct cursor){cursor.leaf + 1, 0};
    return cursor;
}

static bool holds(const struct emu_shadow *shadow, size_t leaf, uint64_t address) {
    return leaf < shadow->count && shadow->places[leaf].start <= address &&
           (leaf + 1 == shadow->count || address < shadow->places[leaf + 1].start);
}

static size_t find_leaf(const struct emu_shadow *shadow, uint64_t address) {
    if (holds(shadow, shadow->near, address)) return shadow->near;
    size_t low = 0, high = shadow->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (shadow->places[middle].start <= address)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The segment that holds an address below UINT64_MAX. */
static struct cursor find(struct emu_shadow *shadow, uint64_t address) {
    shadow->near = find_leaf(shadow, address);
    const struct emu_shadow_leaf *leaf = shadow->places[shadow->near].leaf;
    uint32_t low = 0, high = leaf->count - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (leaf->at[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return (struct cursor){shadow->near, low};
}

/* Makes a segment begin at `address`. False: no host memory; nothing has changed. */
static bool cut(struct emu_shadow *shadow, uint64_t address) {
    if (address == UINT64_MAX) return true;
    struct cursor cursor = find(shadow, address);
    if (start_of(shadow, cursor) == address) return true;
    if (shadow->places[cursor.leaf].leaf->count == LEAF_ROOM) {
        if (!split_leaf(shadow, cursor.leaf)) return false;
        cursor = find(shadow, address);
    }
    struct segment front;
    if (!copy_segment(&front, segment_at(shadow, cursor))) return false;
    front.end = address;
    struct emu_shadow_leaf *leaf = shadow->places[cursor.leaf].leaf;
    memmove(&leaf->at[cursor.at + 1], &leaf->at[cursor.at], (leaf->count - cursor.at) * sizeof *leaf->at);
    leaf->at[cursor.at] = front;
    leaf->count++;
    return true;
}

/* Goes through the segments of a leaf from number `first` on, up to the one that begins at or behind `end`. Those with
 * the history of *kept become part of it; it is the last one that stays. Gives true when `end` has been passed. */
static bool join_leaf(struct emu_shadow_leaf *leaf, uint32_t first, uint64_t start, uint64_t end,
                      struct segment **kept) {
    uint32_t to = first, from = first;
    bool passed = false;
    for (; from < leaf->count && !passed; from++) {
        struct segment *segment = &leaf->at[from];
        passed = start >= end;
        start = segment->end;
        if (*kept != NULL && same_history(*kept, segment)) {
            (*kept)->end = segment->end;
            free(segment->reads);
            continue;
        }
        if (to != from) leaf->at[to] = *segment;
        *kept = &leaf->at[to++];
    }
    if (to != from) memmove(&leaf->at[to], &leaf->at[from], (leaf->count - from) * sizeof *leaf->at);
    leaf->count -= from - to;
    return passed;
}

/* Neighbours with one history become one, among those between `start` and `end` and what lies beside. */
static void join(struct emu_shadow *shadow, uint64_t start, uint64_t end) {
    const struct cursor cursor = find(shadow, start > 0 ? start - 1 : 0);
    struct segment *kept = NULL;
    size_t from = cursor.leaf, to = cursor.leaf; /* the first leaf keeps at least the segment at the cursor */
    uint64_t at = start_of(shadow, cursor);
    for (bool passed = false; from < shadow->count && !passed; from++) {
        struct emu_shadow_place place = shadow->places[from];
        if (from > cursor.leaf) at = place.start;
        passed = join_leaf(place.leaf, from > cursor.leaf ? 0 : cursor.at, at, end, &kept);
        if (from > cursor.leaf) { /* the one before may have got its first ones */
            const struct emu_shadow_leaf *before = shadow->places[to - 1].leaf;
            place.start = before->at[before->count - 1].end;
        }
        if (place.leaf->count > 0)
            shadow->places[to++] = place;
        else
            free(place.leaf);
    }
    if (to == from) return;
    memmove(&shadow->places[to], &shadow->places[from], (shadow->count - from) * sizeof *shadow->places);
    shadow->count -= from - to;
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

static bool ordered(const struct emu_visit *visit, const struct emu_access *before) {
    if (before->queue >= EMU_BY_HOST) return true;
    if (before->queue == visit->access.queue && before->position <= visit->access.position) return true;
    return emu_known_of(visit->known, before->queue) >= before->position;
}

static bool is_read(enum emu_act act) { return act == EMU_ACT_READ || act == EMU_ACT_HOST_READ; }

/* What only those may do who own the bytes. */
static bool is_use(enum emu_act act) { return is_read(act) || act == EMU_ACT_WRITE || act == EMU_ACT_HOST_WRITE; }

static void check_segment(const struct segment *segment, uint64_t start, uint64_t bytes,
                          const struct emu_visit *visit) {
    if (visit->act == EMU_ACT_USE) return;
    if (segment->state == TAKEN && is_use(visit->act)) {
        visit->at_fault(visit->self, EMU_FAULT_FREED, &segment->last, start, bytes);
        return;
    }
    if (visit->act == EMU_ACT_TAKE && visit->lenient) return;
    if (!ordered(visit, &segment->last)) visit->at_fault(visit->self, EMU_FAULT_RACE, &segment->last, start, bytes);
    if (is_read(visit->act)) {
        if (segment->state == UNWRITTEN)
            visit->at_fault(visit->self, EMU_FAULT_UNWRITTEN, &segment->last, start, bytes);
        return;
    }
    uint32_t count;
    const struct emu_access *reads = reads_of(segment, &count);
    for (uint32_t i = 0; i < count; i++)
        if (!ordered(visit, &reads[i])) visit->at_fault(visit->self, EMU_FAULT_RACE, &reads[i], start, bytes);
}

/* ---- noting ----------------------------------------------------------------------------------------------------- */

static void drop_reads_before(struct segment *segment, const struct emu_visit *visit) {
    struct reads *reads = segment->reads;
    if (reads == NULL) {
        if (ordered(visit, &segment->read)) segment->read = nobody;
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < reads->count; i++)
        if (!ordered(visit, &reads->at[i])) reads->at[kept++] = reads->at[i];
    reads->count = kept;
    if (kept == 0) drop_reads(segment);
}

/* Reads that come before this one need not be kept: whatever comes after it comes after them. */
static bool note_use(struct segment *segment, const struct emu_visit *visit) {
    if (visit->over) return true;
    drop_reads_before(segment, visit);
    bool noted = add_to_reads(segment, &visit->access);
    for (size_t i = 1; i < visit->end_count && noted; i++) noted = add_to_reads(segment, &visit->ends[i]);
    return noted;
}

static bool note_read(struct segment *segment, const struct emu_visit *visit) {
    segment->state = WRITTEN; /* a read of what nobody wrote is at fault once */
    return note_use(segment, visit);
}

static void note_write(struct segment *segment, enum state state, const struct emu_access *access) {
    drop_reads(segment);
    segment->state = state;
    segment->last = *access;
}

/* Lenient: what the ends do not cover is kept beside them. */
static bool note_taken(struct segment *segment, const struct emu_visit *visit) {
    struct segment old = *segment;
    segment->reads = NULL;
    note_write(segment, TAKEN, &visit->access);
    bool noted = true;
    for (size_t i = 0; i < visit->end_count && noted; i++)
        if (!same_access(&visit->ends[i], &visit->access)) noted = add_to_reads(segment, &visit->ends[i]);
    if (visit->lenient) {
        uint32_t count;
        const struct emu_access *reads = reads_of(&old, &count);
        for (uint32_t i = 0; i < count && noted; i++)
            if (!ordered(visit, &reads[i])) noted = add_to_reads(segment, &reads[i]);
        if (noted && !ordered(visit, &old.last)) noted = add_to_reads(segment, &old.last);
    }
    free(old.reads);
    return noted;
}

static bool note(struct segment *segment, const struct emu_visit *visit) {
    if (segment->state == TAKEN && is_use(visit->act)) return true; /* it stays known as freed */
    switch (visit->act) {
    case EMU_ACT_READ:
        return note_read(segment, visit);
    case EMU_ACT_TAKE:
        return note_taken(segment, visit);
    case EMU_ACT_HAND_OUT:
        note_write(segment, UNWRITTEN, &visit->access);
        return true;
    case EMU_ACT_WRITE:
    case EMU_ACT_HOST_WRITE:
        note_write(segment, WRITTEN, &visit->access);
        return true;
    case EMU_ACT_HOST_TAKE:
        note_write(segment, segment->state, &visit->access);
        return true;
    case EMU_ACT_HOST_READ:
        segment->state = WRITTEN;
        return true;
    case EMU_ACT_USE:
        return note_use(segment, visit);
    case EMU_ACTS:
        break;
    }
    return true;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static bool visit_segment(struct segment *segment, uint64_t start, const struct emu_visit *visit) {
    check_segment(segment, start, segment->end - start, visit);
    return note(segment, visit);
}

static bool visit_run(struct emu_shadow *shadow, uint64_t start, uint64_t end, const struct emu_visit *visit) {
    if (!cut(shadow, start) || !cut(shadow, end)) return false;
    bool noted = true;
    struct cursor cursor = find(shadow, start);
    for (uint64_t at = start; at < end; cursor = next_of(shadow, cursor)) {
        struct segment *segment = segment_at(shadow, cursor);
        noted = visit_segment(segment, at, visit) && noted;
        at = segment->end;
    }
    join(shadow, start, end);
    return noted;
}

/* Most accesses are to what was accessed as a whole before, between things with histories of their own. */
bool emu_shadow_visit(struct emu_shadow *shadow, uint64_t start, uint64_t bytes, const struct emu_visit *visit) {
    if (bytes == 0 || bytes > UINT64_MAX - start) return true;
    const uint64_t end = start + bytes;
    if (!begin(shadow)) return false;
    const struct cursor cursor = find(shadow, start);
    struct segment *segment = segment_at(shadow, cursor);
    if (start_of(shadow, cursor) != start || segment->end != end) return visit_run(shadow, start, end, visit);
    const bool noted = visit_segment(segment, start, visit);
    const uint32_t count = shadow->places[cursor.leaf].leaf->count;
    const bool joins = cursor.at == 0 || cursor.at + 1 == count || same_history(segment - 1, segment) ||
                       same_history(segment, segment + 1);
    if (joins) join(shadow, start, end);
    return noted;
}

bool emu_shadow_forget(struct emu_shadow *shadow, uint64_t start, uint64_t bytes) {
    if (shadow->count == 0 || bytes == 0 || bytes > UINT64_MAX - start) return true;
    const uint64_t end = start + bytes;
    if (!cut(shadow, start) || !cut(shadow, end)) return false;
    struct cursor cursor = find(shadow, start);
    for (uint64_t at = start; at < end; cursor = next_of(shadow, cursor)) {
        struct segment *segment = segment_at(shadow, cursor);
        note_write(segment, shadow->written ? WRITTEN : UNWRITTEN, &nobody);
        at = segment->end;
    }
    join(shadow, start, end);
    return true;
}

void emu_shadow_clear(struct emu_shadow *shadow) {
    for (size_t i = 0; i < shadow->count; i++) {
        struct emu_shadow_leaf *leaf = shadow->places[i].leaf;
        for (uint32_t j = 0; j < leaf->count; j++) free(leaf->at[j].reads);
        free(leaf);
    }
    free(shadow->places);
    *shadow = (struct emu_shadow){.written = shadow->written};
}
