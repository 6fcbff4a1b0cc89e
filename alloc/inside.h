/* SPDX-License-Identifier: Apache-2.0 */
/* Which live block an inner address lies in. Kept from the first question on, so that who never asks pays nothing.
 *
 * page    a granule of addresses that some block touches: where blocks begin in it, a bit each 512 bytes, and which block
 *         covers its first byte and began before
 *
 * A question costs one look into the table of pages, at most granule / 512 / 64 words (64 of them with pages of 2 MiB), and
 * one look into the table of blocks. Nothing here calls a driver or takes a lock. */
#ifndef WEIR_ALLOC_INSIDE_H
#define WEIR_ALLOC_INSIDE_H

#include "alloc/extent.h"
#include "alloc/table.h"

struct weir__inside {
    bool on;
    size_t granule;
    struct weir__table pages; /* by number */
};

/* Begins with all of `blocks`. False without host memory; nothing is kept. */
bool weir__inside_begin(struct weir__inside *inside, size_t granule, const struct weir__table *blocks);
void weir__inside_end(struct weir__inside *inside);
/* Both do nothing before it has begun. add: false without host memory; nothing has changed. */
bool weir__inside_add(struct weir__inside *inside, struct weir__extent *block);
void weir__inside_remove(struct weir__inside *inside, const struct weir__extent *block);
/* Gives: the block, or NULL. */
struct weir__extent *weir__inside_find(const struct weir__inside *inside, const struct weir__table *blocks,
                                       uintptr_t address);

#endif
