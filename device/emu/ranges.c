/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/ranges.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* True: the answer is where something was inserted or removed last, as it mostly is while runs come and go. */
static bool at_gap(const struct emu_ranges *ranges, uintptr_t address) {
    const size_t gap = ranges->gap;
    return (gap == 0 || emu_ranges_item(ranges, gap - 1)->start <= address) &&
           (gap == ranges->count || emu_ranges_item(ranges, gap)->start > address);
}

size_t emu_ranges_upto(const struct emu_ranges *ranges, uintptr_t address) {
    size_t low = 0, high = ranges->count;
    if (at_gap(ranges, address)) return ranges->gap;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (emu_ranges_item(ranges, middle)->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void *emu_ranges_at(const struct emu_ranges *ranges, uintptr_t address) {
    const size_t upto = emu_ranges_upto(ranges, address);
    if (upto == 0) return NULL;
    struct emu_range *range = emu_ranges_item(ranges, upto - 1);
    return address - range->start < range->bytes ? range : NULL;
}

bool emu_ranges_overlap(const struct emu_ranges *ranges, uintptr_t start, size_t bytes) {
    const size_t upto = emu_ranges_upto(ranges, start);
    if (upto > 0 && emu_range_end(emu_ranges_item(ranges, upto - 1)) > start) return true;
    return upto < ranges->count && emu_ranges_item(ranges, upto)->start - start < bytes;
}

/* Brings the spare room before number `at`. */
static void move_gap(struct emu_ranges *ranges, size_t at) {
    const size_t spare = ranges->room - ranges->count;
    struct emu_range **items = ranges->items;
    if (at < ranges->gap) memmove(&items[at + spare], &items[at], (ranges->gap - at) * sizeof *items);
    if (at > ranges->gap) memmove(&items[ranges->gap], &items[ranges->gap + spare], (at - ranges->gap) * sizeof *items);
    ranges->gap = at;
}

bool emu_ranges_prepare(struct emu_ranges *ranges) {
    if (ranges->count < ranges->room) return true;
    const size_t room = ranges->room == 0 ? 64 : 2 * ranges->room;
    struct emu_range **items = realloc(ranges->items, room * sizeof *items);
    if (items == NULL) return false;
    ranges->items = items;
    ranges->room = room;
    ranges->gap = ranges->count; /* all the new room lies behind them */
    return true;
}

bool emu_ranges_insert(struct emu_ranges *ranges, struct emu_range *range) {
    assert(!emu_ranges_overlap(ranges, range->start, range->bytes));
    if (!emu_ranges_prepare(ranges)) return false;
    move_gap(ranges, emu_ranges_upto(ranges, range->start));
    ranges->items[ranges->gap++] = range;
    ranges->count++;
    return true;
}

void emu_ranges_remove(struct emu_ranges *ranges, const struct emu_range *range) {
    const size_t at = emu_ranges_upto(ranges, range->start) - 1;
    assert(at < ranges->count && emu_ranges_item(ranges, at) == range);
    move_gap(ranges, at + 1);
    ranges->gap--;
    ranges->count--;
}
