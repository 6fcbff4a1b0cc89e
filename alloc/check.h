/* SPDX-License-Identifier: Apache-2.0 */
/* The debug walk: every invariant of pool.h, told by the first one that does not hold. */
#ifndef WEIR_ALLOC_CHECK_H
#define WEIR_ALLOC_CHECK_H

#include "alloc/pool.h"

/* One finding ends the walk. */
#define WEIR__HOLDS(condition, ...)                                                                                    \
    do {                                                                                                               \
        if (!(condition)) return weir__fail(WEIR_BROKEN, 0, NULL, __VA_ARGS__);                                        \
    } while (0)

/* What a walk adds up, to be compared with the accounts. */
struct weir__sums {
    size_t live, requested, idle, moving, mapped, blocks, kept, idle_pages;
};

enum weir_status weir__check_shared(struct weir_pool *pool);
/* One extent by itself: alignment, tags against slots, membership in `blocks`. */
enum weir_status weir__check_extent(const struct weir_pool *pool, const struct weir__extent *extent);
/* The accounts of pool and slots against a walk's sums. */
enum weir_status weir__check_sums(const struct weir_pool *pool, const struct weir__sums *sums);

#endif
