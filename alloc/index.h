/* SPDX-License-Identifier: Apache-2.0 */
/* An index of extents by size, then address: a treap through the extents themselves, so that no call can fail.
 * Priorities come from the address, so the shape depends on the contents alone. All calls are O(log n). */
#ifndef WEIR_ALLOC_INDEX_H
#define WEIR_ALLOC_INDEX_H

#include "alloc/extent.h"

struct weir__index {
    struct weir__extent *root;
};

void weir__index_insert(struct weir__index *index, struct weir__extent *extent);
/* Needs: the extent is in the index, its size and address as at the insert. */
void weir__index_remove(struct weir__index *index, struct weir__extent *extent);
/* Gives: the smallest extent that is at least (bytes, address), or NULL. */
struct weir__extent *weir__index_at_least(const struct weir__index *index, size_t bytes, uintptr_t address);
/* Gives: the one that follows `extent`, or NULL. */
struct weir__extent *weir__index_after(const struct weir__index *index, const struct weir__extent *extent);
/* Gives: the one that precedes `extent`, or NULL. */
struct weir__extent *weir__index_before(const struct weir__index *index, const struct weir__extent *extent);
struct weir__extent *weir__index_largest(const struct weir__index *index);

#endif
