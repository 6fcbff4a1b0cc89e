/* SPDX-License-Identifier: Apache-2.0 */
#include "spans.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

void spans_free(struct spans *spans) {
    free(spans->all);
    free(spans->ranks);
    for (int level = 0; level < SPAN_LEVELS; level++) free(spans->levels[level]);
    *spans = (struct spans){0};
}

bool spans_make(struct spans *spans, size_t count) {
    *spans = (struct spans){.count = count};
    spans->all = malloc((count + 1) * sizeof *spans->all);
    spans->ranks = malloc((count + 1) * sizeof *spans->ranks);
    bool made = spans->all != NULL && spans->ranks != NULL;
    for (int level = 0; level < SPAN_LEVELS; level++) {
        count = spans->words[level] = count / 64 + 1;
        spans->levels[level] = calloc(count, sizeof *spans->levels[level]);
        made = made && spans->levels[level] != NULL;
    }
    if (!made) spans_free(spans);
    return made;
}

static int by_address(const void *left, const void *right) {
    const struct span *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

void spans_sort(struct spans *spans) {
    for (uint32_t place = 0; place < spans->count; place++) spans->all[place].place = place;
    if (spans->count > 1) qsort(spans->all, spans->count, sizeof *spans->all, by_address);
    for (uint32_t rank = 0; rank < spans->count; rank++) spans->ranks[spans->all[rank].place] = rank;
}

/* The first rank from `at` on that has a block, or the last up to it; NONE. */
static size_t next_from(const struct spans *spans, size_t at) {
    for (int level = 0; level < SPAN_LEVELS; level++) {
        const size_t word = at / 64;
        if (word >= spans->words[level]) return NONE;
        const uint64_t bits = spans->levels[level][word] & UINT64_MAX << at % 64;
        if (bits != 0) {
            at = word * 64 + (size_t)__builtin_ctzll(bits);
            while (level-- > 0) at = at * 64 + (size_t)__builtin_ctzll(spans->levels[level][at]);
            return at;
        }
        at = word + 1;
    }
    return NONE;
}

static size_t last_to(const struct spans *spans, size_t at) {
    for (int level = 0; level < SPAN_LEVELS; level++) {
        const size_t word = at / 64;
        const uint64_t bits = spans->levels[level][word] & UINT64_MAX >> (63 - at % 64);
        if (bits != 0) {
            at = word * 64 + 63 - (size_t)__builtin_clzll(bits);
            while (level-- > 0) at = at * 64 + 63 - (size_t)__builtin_clzll(spans->levels[level][at]);
            return at;
        }
        if (word == 0) return NONE;
        at = word - 1;
    }
    return NONE;
}

static uint64_t end_of(uint64_t address, uint64_t bytes) {
    return bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
}

uint32_t spans_find(const struct spans *spans, uint32_t place, uint64_t bytes) {
    const size_t rank = spans->ranks[place], below = last_to(spans, rank), above = next_from(spans, rank + 1);
    const uint64_t address = spans->all[rank].address;
    if (bytes == 0) return SPANS_NONE;
    if (below != NONE && spans->all[below].end > address) return spans->all[below].owner;
    if (above != NONE && spans->all[above].address < end_of(address, bytes)) return spans->all[above].owner;
    return SPANS_NONE;
}

void spans_put(struct spans *spans, uint32_t place, uint64_t bytes, uint32_t owner) {
    size_t at = spans->ranks[place];
    struct span *span = &spans->all[at];
    if (bytes == 0) return;
    span->end = end_of(span->address, bytes);
    span->owner = owner;
    for (int level = 0; level < SPAN_LEVELS; level++, at /= 64) spans->levels[level][at / 64] |= UINT64_C(1) << at % 64;
}

void spans_drop(struct spans *spans, uint32_t place) {
    size_t at = spans->ranks[place];
    for (int level = 0; level < SPAN_LEVELS; level++, at /= 64) {
        spans->levels[level][at / 64] &= ~(UINT64_C(1) << at % 64);
        if (spans->levels[level][at / 64] != 0) return;
    }
}

void spans_clear(struct spans *spans) {
    for (int level = 0; level < SPAN_LEVELS; level++)
        memset(spans->levels[level], 0, spans->words[level] * sizeof *spans->levels[level]);
}
