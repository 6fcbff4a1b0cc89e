/* SPDX-License-Identifier: Apache-2.0 */
/* A set of ranges that do not overlap, sorted by start. Finding is a binary search. The array's spare room lies in its
 * midst, where something was inserted or removed last, so that a run of neighbours costs one move of pointers. */
#ifndef WEIR_EMU_RANGES_H
#define WEIR_EMU_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_range { /* first member of whatever is kept in ranges */
    uintptr_t start;
    size_t bytes;
};

struct emu_ranges {
    struct emu_range **items;
    size_t count, room, gap; /* before items[gap] nothing is spare; then come room - count spare places */
};

/* Number `i` by start. */
static inline struct emu_range *emu_ranges_item(const struct emu_ranges *ranges, size_t i) {
    return ranges->items[i < ranges->gap ? i : i + (ranges->room - ranges->count)];
}

static inline uintptr_t emu_range_end(const struct emu_range *range) { return range->start + range->bytes; }

/* How many ranges start at or before `address`: the index of the first one after it. */
size_t emu_ranges_upto(const struct emu_ranges *ranges, uintptr_t address);
/* The range that holds `address`, or NULL. */
void *emu_ranges_at(const struct emu_ranges *ranges, uintptr_t address);
bool emu_ranges_overlap(const struct emu_ranges *ranges, uintptr_t start, size_t bytes);
/* False: no host memory. Needs: no overlap. */
bool emu_ranges_insert(struct emu_ranges *ranges, struct emu_range *range);
void emu_ranges_remove(struct emu_ranges *ranges, const struct emu_range *range);
/* Makes room for one more, so that the next insert can't fail. False: no host memory. */
bool emu_ranges_prepare(struct emu_ranges *ranges);

#endif
