/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/ranges.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

size_t emu_ranges_upto(const struct emu_ranges *ranges, uintptr_t address) {
    size_t low = 0, high = ranges->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ranges->items[middle]->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void *emu_ranges_at(const struct emu_ranges *ranges, uintptr_t address) {
    const size_t upto = emu_ranges_upto(ranges, address);
    if (upto == 0) return NULL;
    struct emu_range *range = ranges->items[upto - 1];
    return address - range->start < range->bytes ? range : NULL;
}

bool emu_ranges_overlap(const struct emu_ranges *ranges, uintptr_t start, size_t bytes) {
    const size_t upto = emu_ranges_upto(ranges, start);
    if (upto > 0 && emu_range_end(ranges->items[upto - 1]) > start) return true;
    return upto < ranges->count && ranges->items[upto]->start - start < bytes;
}

bool emu_ranges_prepare(struct emu_ranges *ranges) {
    if (ranges->count < ranges->room) return true;
    const size_t room = ranges->room == 0 ? 64 : 2 * ranges->room;
    struct emu_range **items = realloc(ranges->items, room * sizeof *items);
    if (items == NULL) return false;
    ranges->items = items;
    ranges->room = room;
    return true;
}

bool emu_ranges_insert(struct emu_ranges *ranges, struct emu_range *range) {
    assert(!emu_ranges_overlap(ranges, range->start, range->bytes));
    if (!emu_ranges_prepare(ranges)) return false;
    const size_t at = emu_ranges_upto(ranges, range->start);
    memmove(&ranges->items[at + 1], &ranges->items[at], (ranges->count - at) * sizeof *ranges->items);
    ranges->items[at] = range;
    ranges->count++;
    return true;
}

void emu_ranges_remove(struct emu_ranges *ranges, const struct emu_range *range) {
    const size_t at = emu_ranges_upto(ranges, range->start) - 1;
    assert(at < ranges->count && ranges->items[at] == range);
    memmove(&ranges->items[at], &ranges->items[at + 1], (ranges->count - at - 1) * sizeof *ranges->items);
    ranges->count--;
}
