/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: which byte ranges of one address range are free. Best fit, neighbours merged; plain data, no lock, no device.
 *
 * run:   a maximal free byte range, [offset, offset + bytes).
 * piece: a used byte range that comes back in one call; weir__runs_split and _merge change how many there are.
 *
 *   runs are sorted by offset, and two neighbours never touch
 *   count <= pieces + 1 <= room      (so that giving a piece back never allocates)
 *   sum(run.bytes) == free_bytes */
#ifndef WEIR_OFFLOAD_RUNS_H
#define WEIR_OFFLOAD_RUNS_H

#include <stdbool.h>
#include <stddef.h>

struct weir__run {
    size_t offset;
    size_t bytes;
};

struct weir__runs {
    struct weir__run *free;
    size_t count, room, pieces;
    size_t free_bytes;
    size_t end; /* of the range */
};

static inline size_t weir__round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

/* An empty range. False without memory. */
bool weir__runs_init(struct weir__runs *runs);
/* Appends `bytes` free bytes at the end of the range. */
void weir__runs_extend(struct weir__runs *runs, size_t bytes);
/* Takes `bytes` bytes at a multiple of `alignment` (a power of two) from the smallest run that has them. False when none
 * has; nothing has changed. */
bool weir__runs_take(struct weir__runs *runs, size_t bytes, size_t alignment, size_t *offset);
/* Gives a piece back. */
void weir__runs_give(struct weir__runs *runs, size_t offset, size_t bytes);
/* A used piece became two (false without memory: it did not), or two became one. */
bool weir__runs_split(struct weir__runs *runs);
void weir__runs_merge(struct weir__runs *runs);
/* Free bytes at the very end of the range: what an extension adds to. */
size_t weir__runs_tail(const struct weir__runs *runs);
/* True when the invariants hold. */
bool weir__runs_check(const struct weir__runs *runs);
void weir__runs_clear(struct weir__runs *runs);

#endif
