/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/watch_shadow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BITS = 21, LEAF_BITS = 13, TOP_BITS = 14 }; /* 48 bits of address in all */

#define CHUNK_BYTES ((uint64_t)1 << CHUNK_BITS)

enum state { UNWRITTEN, WRITTEN, TAKEN };

struct reads {
    uint32_t count, room;
    struct emu_access at[];
};

struct segment {
    uint32_t end; /* in the chunk; it begins where the one before ends */
    enum state state;
    struct emu_access last;
    struct emu_access read; /* the only one, or nobody's when there are none or several */
    struct reads *reads;    /* two or more, else NULL */
};

struct emu_shadow_chunk {
    uint32_t count, room;
    struct segment at[];
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

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

static struct emu_shadow_chunk *new_chunk(bool written) {
    enum { FIRST_ROOM = 4 };
    struct emu_shadow_chunk *chunk = malloc(sizeof *chunk + FIRST_ROOM * sizeof *chunk->at);
    if (chunk == NULL) return NULL;
    chunk->count = 1;
    chunk->room = FIRST_ROOM;
    chunk->at[0] = (struct segment){
        .end = (uint32_t)CHUNK_BYTES, .state = written ? WRITTEN : UNWRITTEN, .last = nobody, .read = nobody};
    return chunk;
}

static void free_chunk(struct emu_shadow_chunk *chunk) {
    for (uint32_t i = 0; chunk != NULL && i < chunk->count; i++) free(chunk->at[i].reads);
    free(chunk);
}

/* The place of a chunk in the table; NULL without host memory, or when it need not be made and is not there. */
static struct emu_shadow_chunk **place_of(struct emu_shadow *shadow, uint64_t number, bool make) {
    if (shadow->leaves == NULL) {
        if (!make) return NULL;
        shadow->leaves = calloc((size_t)1 << TOP_BITS, sizeof *shadow->leaves);
        if (shadow->leaves == NULL) return NULL;
    }
    struct emu_shadow_chunk ***leaf = &shadow->leaves[number >> LEAF_BITS];
    if (*leaf == NULL) {
        if (!make) return NULL;
        *leaf = calloc((size_t)1 << LEAF_BITS, sizeof **leaf);
        if (*leaf == NULL) return NULL;
    }
    return &(*leaf)[number & (((uint64_t)1 << LEAF_BITS) - 1)];
}

/* The first segment that ends after `offset`. */
static uint32_t segment_at(const struct emu_shadow_chunk *chunk, uint32_t offset) {
    uint32_t low = 0, high = chunk->count - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (chunk->at[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Makes a segment begin at `offset`, and gives its number. False: no host memory; nothing has changed. */
static bool cut(struct emu_shadow_chunk **place, uint32_t offset, uint32_t *number) {
    struct emu_shadow_chunk *chunk = *place;
    const uint32_t i = offset < CHUNK_BYTES ? segment_at(chunk, offset) : chunk->count;
    *number = i;
    if ((i > 0 ? chunk->at[i - 1].end : 0) == offset) return true;
    if (chunk->count == chunk->room) {
        chunk = realloc(chunk, sizeof *chunk + 2 * chunk->room * sizeof *chunk->at);
        if (chunk == NULL) return false;
        chunk->room *= 2;
        *place = chunk;
    }
    struct segment front;
    if (!copy_segment(&front, &chunk->at[i])) return false;
    front.end = offset;
    memmove(&chunk->at[i + 1], &chunk->at[i], (chunk->count - i) * sizeof *chunk->at);
    chunk->at[i] = front;
    chunk->count++;
    *number = i + 1;
    return true;
}

/* Neighbours with one history become one, among [first, end) and what lies beside. */
static void join(struct emu_shadow_chunk *chunk, uint32_t first, uint32_t end) {
    if (first > 0) first--;
    if (end < chunk->count) end++;
    uint32_t kept = first;
    for (uint32_t i = first + 1; i < end; i++) {
        if (same_history(&chunk->at[kept], &chunk->at[i])) {
            chunk->at[kept].end = chunk->at[i].end;
            free(chunk->at[i].reads);
        } else {
            chunk->at[++kept] = chunk->at[i];
        }
    }
    if (kept + 1 == end) return;
    memmove(&chunk->at[kept + 1], &chunk->at[end], (chunk->count - end) * sizeof *chunk->at);
    chunk->count -= end - (kept + 1);
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

static bool ordered(const struct emu_visit *visit, const struct emu_access *before) {
    if (before->queue >= EMU_BY_HOST || before->queue == visit->access.queue) return true;
    return emu_known_of(visit->known, before->queue) >= before->position;
}

static bool is_read(enum emu_act act) { return act == EMU_ACT_READ || act == EMU_ACT_HOST_READ; }

/* What only those may do who own the bytes. */
static bool is_use(enum emu_act act) { return is_read(act) || act == EMU_ACT_WRITE || act == EMU_ACT_HOST_WRITE; }

static void check_segment(const struct segment *segment, uint64_t start, uint64_t bytes,
                          const struct emu_visit *visit) {
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

/* Reads that come before this one need not be kept: whatever comes after it comes after them. */
static bool note_read(struct segment *segment, const struct emu_visit *visit) {
    segment->state = WRITTEN; /* a read of what nobody wrote is at fault once */
    if (segment->reads == NULL) {
        if (segment->read.queue != EMU_NOBODY && !ordered(visit, &segment->read))
            return add_to_reads(segment, &visit->access);
        segment->read = visit->access;
        return true;
    }
    struct reads *reads = segment->reads;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < reads->count; i++)
        if (!ordered(visit, &reads->at[i])) reads->at[kept++] = reads->at[i];
    reads->count = kept;
    if (kept > 0) return add_to_reads(segment, &visit->access);
    drop_reads(segment);
    segment->read = visit->access;
    return true;
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
    case EMU_ACTS:
        break;
    }
    return true;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static bool visit_chunk(struct emu_shadow_chunk **place, uint64_t base, uint32_t from, uint32_t to,
                        const struct emu_visit *visit) {
    uint32_t first, end;
    if (!cut(place, from, &first) || !cut(place, to, &end)) return false;
    struct emu_shadow_chunk *chunk = *place;
    bool noted = true;
    for (uint32_t i = first, start = from; i < end; start = chunk->at[i++].end) {
        check_segment(&chunk->at[i], base + start, chunk->at[i].end - start, visit);
        noted = note(&chunk->at[i], visit) && noted;
    }
    join(chunk, first, end);
    return noted;
}

static bool in_reach(uint64_t start, uint64_t bytes) {
    const uint64_t reach = (uint64_t)1 << (CHUNK_BITS + LEAF_BITS + TOP_BITS);
    return start < reach && bytes <= reach - start;
}

bool emu_shadow_visit(struct emu_shadow *shadow, uint64_t start, uint64_t bytes, const struct emu_visit *visit) {
    if (!in_reach(start, bytes)) return true;
    for (uint64_t at = start, end = start + bytes; at < end;) {
        const uint64_t base = at & ~(CHUNK_BYTES - 1);
        const uint64_t upto = base + CHUNK_BYTES < end ? base + CHUNK_BYTES : end;
        struct emu_shadow_chunk **place = place_of(shadow, at >> CHUNK_BITS, true);
        if (place == NULL) return false;
        if (*place == NULL) *place = new_chunk(shadow->written);
        if (*place == NULL) return false;
        if (!visit_chunk(place, base, (uint32_t)(at - base), (uint32_t)(upto - base), visit)) return false;
        at = upto;
    }
    return true;
}

static bool forget_part(struct emu_shadow_chunk **place, uint32_t from, uint32_t to, bool written) {
    uint32_t first, end;
    if (!cut(place, from, &first) || !cut(place, to, &end)) return false;
    for (uint32_t i = first; i < end; i++) note_write(&(*place)->at[i], written ? WRITTEN : UNWRITTEN, &nobody);
    join(*place, first, end);
    return true;
}

bool emu_shadow_forget(struct emu_shadow *shadow, uint64_t start, uint64_t bytes) {
    if (!in_reach(start, bytes)) return true;
    for (uint64_t at = start, end = start + bytes; at < end;) {
        const uint64_t base = at & ~(CHUNK_BYTES - 1);
        const uint64_t upto = base + CHUNK_BYTES < end ? base + CHUNK_BYTES : end;
        struct emu_shadow_chunk **place = place_of(shadow, at >> CHUNK_BITS, false);
        if (place != NULL && *place != NULL && upto - at == CHUNK_BYTES) {
            free_chunk(*place);
            *place = NULL;
        } else if (place != NULL && *place != NULL) {
            if (!forget_part(place, (uint32_t)(at - base), (uint32_t)(upto - base), shadow->written)) return false;
        }
        at = upto;
    }
    return true;
}

void emu_shadow_clear(struct emu_shadow *shadow) {
    for (size_t i = 0; shadow->leaves != NULL && i < (size_t)1 << TOP_BITS; i++) {
        for (size_t j = 0; shadow->leaves[i] != NULL && j < (size_t)1 << LEAF_BITS; j++)
            free_chunk(shadow->leaves[i][j]);
        free(shadow->leaves[i]);
    }
    free(shadow->leaves);
    shadow->leaves = NULL;
}
