/* SPDX-License-Identifier: Apache-2.0 */
/* Multiples of the granule. It is a power of two on every device known, and then nothing is divided: a free looks at a dozen
 * page borders, and a division takes longer than all else that is done there. */
#ifndef WEIR_ALLOC_GRANULE_H
#define WEIR_ALLOC_GRANULE_H

#include <stddef.h>
#include <stdint.h>

static inline uintptr_t weir__floor_to(uintptr_t address, size_t granule) {
    return (granule & (granule - 1)) == 0 ? address & ~(uintptr_t)(granule - 1) : address - address % granule;
}
static inline uintptr_t weir__ceil_to(uintptr_t address, size_t granule) {
    return weir__floor_to(address + granule - 1, granule);
}
/* How many granules `bytes` bytes have, rounded down. */
static inline size_t weir__granules(size_t bytes, size_t granule) {
    return (granule & (granule - 1)) == 0 ? bytes >> __builtin_ctzll(granule) : bytes / granule;
}
/* Whole pages in [begin, end). */
static inline size_t weir__whole_pages(uintptr_t begin, uintptr_t end, size_t granule) {
    const uintptr_t first = weir__ceil_to(begin, granule), last = weir__floor_to(end, granule);
    return last > first ? weir__granules(last - first, granule) : 0;
}

#endif
