/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/runs.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Room for `pieces` pieces: between n used pieces there are at most n + 1 runs. */
static bool reserve(struct weir__runs *runs, size_t pieces) {
    if (pieces + 1 <= runs->room) return true;
    size_t room = runs->room * 2 > pieces + 1 ? runs->room * 2 : pieces + 16;
    struct weir__run *grown = realloc(runs->free, room * sizeof *grown);
    if (grown == NULL) return false;
    runs->free = grown;
    runs->room = room;
    return true;
}

static void insert(struct weir__runs *runs, size_t at, struct weir__run run) {
    assert(runs->count < runs->room);
    memmove(&runs->free[at + 1], &runs->free[at], (runs->count - at) * sizeof run);
    runs->free[at] = run;
    runs->count++;
}

static void erase(struct weir__runs *runs, size_t at) {
    runs->count--;
    memmove(&runs->free[at], &runs->free[at + 1], (runs->count - at) * sizeof *runs->free);
}

/* Index of the first run at or after `offset`. */
static size_t position(const struct weir__runs *runs, size_t offset) {
    size_t low = 0;
    size_t high = runs->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (runs->free[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds a free range and merges it with the runs that it touches. */
static void add(struct weir__runs *runs, size_t offset, size_t bytes) {
    size_t at = position(runs, offset);
    struct weir__run *next = at < runs->count ? &runs->free[at] : NULL;
    struct weir__run *previous = at > 0 ? &runs->free[at - 1] : NULL;
    assert(next == NULL || offset + bytes <= next->offset);
    assert(previous == NULL || previous->offset + previous->bytes <= offset);
    bool before = previous != NULL && previous->offset + previous->bytes == offset;
    bool after = next != NULL && offset + bytes == next->offset;
    runs->free_bytes += bytes;
    if (before && after) {
        previous->bytes += bytes + next->bytes;
        erase(runs, at);
    } else if (before) {
        previous->bytes += bytes;
    } else if (after) {
        next->offset = offset;
        next->bytes += bytes;
    } else {
        insert(runs, at, (struct weir__run){.offset = offset, .bytes = bytes});
    }
}

bool weir__runs_init(struct weir__runs *runs) {
    *runs = (struct weir__runs){0};
    return reserve(runs, 0);
}

void weir__runs_extend(struct weir__runs *runs, size_t bytes) {
    size_t offset = runs->end;
    runs->end += bytes;
    add(runs, offset, bytes);
}

static size_t padding(size_t offset, size_t alignment) { return (alignment - offset % alignment) % alignment; }

/* The smallest run that holds the bytes at that alignment; runs->count when none does. */
static size_t best_fit(const struct weir__runs *runs, size_t bytes, size_t alignment) {
    size_t best = runs->count;
    for (size_t i = 0; i < runs->count; i++) {
        const struct weir__run *run = &runs->free[i];
        size_t pad = padding(run->offset, alignment);
        if (run->bytes >= bytes && run->bytes - bytes >= pad &&
            (best == runs->count || run->bytes < runs->free[best].bytes))
            best = i;
    }
    return best;
}

bool weir__runs_take(struct weir__runs *runs, size_t bytes, size_t alignment, size_t *offset) {
    assert(bytes > 0 && alignment > 0 && (alignment & (alignment - 1)) == 0);
    size_t at = best_fit(runs, bytes, alignment);
    if (at == runs->count || !reserve(runs, runs->pieces + 1)) return false;
    struct weir__run *run = &runs->free[at];
    size_t pad = padding(run->offset, alignment);
    struct weir__run rest = {.offset = run->offset + pad + bytes, .bytes = run->bytes - pad - bytes};
    *offset = run->offset + pad;
    runs->free_bytes -= bytes;
    runs->pieces++;
    run->bytes = pad;
    if (rest.bytes > 0 && pad > 0)
        insert(runs, at + 1, rest);
    else if (rest.bytes > 0)
        *run = rest;
    else if (pad == 0)
        erase(runs, at);
    return true;
}

void weir__runs_give(struct weir__runs *runs, size_t offset, size_t bytes) {
    assert(bytes > 0 && offset + bytes <= runs->end && runs->pieces > 0);
    add(runs, offset, bytes);
    runs->pieces--;
}

bool weir__runs_split(struct weir__runs *runs) {
    if (!reserve(runs, runs->pieces + 1)) return false;
    runs->pieces++;
    return true;
}

void weir__runs_merge(struct weir__runs *runs) {
    assert(runs->pieces > 1);
    runs->pieces--;
}

size_t weir__runs_tail(const struct weir__runs *runs) {
    if (runs->count == 0) return 0;
    const struct weir__run *last = &runs->free[runs->count - 1];
    return last->offset + last->bytes == runs->end ? last->bytes : 0;
}

bool weir__runs_check(const struct weir__runs *runs) {
    size_t sum = 0;
    for (size_t i = 0; i < runs->count; i++) {
        const struct weir__run *run = &runs->free[i];
        size_t limit = i + 1 < runs->count ? runs->free[i + 1].offset : runs->end + 1;
        if (run->bytes == 0 || run->offset + run->bytes >= limit) return false;
        sum += run->bytes;
    }
    return sum == runs->free_bytes && runs->count <= runs->pieces + 1;
}

void weir__runs_clear(struct weir__runs *runs) {
    free(runs->free);
    *runs = (struct weir__runs){0};
}
