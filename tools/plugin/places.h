/* SPDX-License-Identifier: Apache-2.0 */
/* Where the live blocks of a run lie, by address. Each call is O(log n) in the live blocks. */
#ifndef WEIR_PLUGIN_PLACES_H
#define WEIR_PLUGIN_PLACES_H

#include <stddef.h>
#include <stdint.h>

struct places;

struct place {
    uintptr_t address;
    uint64_t bytes;
    uint32_t line; /* of its allocation */
};

/* For blocks of the numbers below `blocks`. NULL: no host memory. */
struct places *places_open(size_t blocks);
void places_close(struct places *places);
/* Gives: a live block that shares a byte with this one, which ends below the highest address; or NULL. */
const struct place *places_overlap(const struct places *places, const struct place *place);
/* Needs: the block is not live, and overlaps none that is. */
void places_put(struct places *places, uint32_t block, const struct place *place);
/* Needs: the block is live. */
void places_take(struct places *places, uint32_t block);
/* Visits the live blocks by ascending address. */
void places_each(const struct places *places, void (*visit)(void *to, const struct place *place), void *to);

#endif
