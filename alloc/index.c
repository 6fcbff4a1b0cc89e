/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/index.h"

#include <assert.h>

static bool less(const struct weir__extent *extent, size_t bytes, uintptr_t address) {
    return extent->bytes != bytes ? extent->bytes < bytes : extent->address < address;
}

static uint32_t priority_of(uintptr_t address) {
    return (uint32_t)(((uint64_t)address * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

/* Cuts a tree into what is below (bytes, address) and the rest. */
static void cut(struct weir__extent *tree, size_t bytes, uintptr_t address, struct weir__extent **below,
                struct weir__extent **rest) {
    while (tree != NULL) {
        if (less(tree, bytes, address)) {
            *below = tree;
            below = &tree->right;
            tree = tree->right;
        } else {
            *rest = tree;
            rest = &tree->left;
            tree = tree->left;
        }
    }
    *below = NULL;
    *rest = NULL;
}

void weir__index_insert(struct weir__index *index, struct weir__extent *extent) {
    struct weir__extent **link = &index->root;
    extent->priority = priority_of(extent->address);
    while (*link != NULL && (*link)->priority >= extent->priority)
        link = less(*link, extent->bytes, extent->address) ? &(*link)->right : &(*link)->left;
    cut(*link, extent->bytes, extent->address, &extent->left, &extent->right);
    *link = extent;
}

/* Joins two trees, all of `below` before all of `above`, at the place of `link`. */
static void join(struct weir__extent **link, struct weir__extent *below, struct weir__extent *above) {
    while (below != NULL && above != NULL) {
        if (below->priority >= above->priority) {
            *link = below;
            link = &below->right;
            below = below->right;
        } else {
            *link = above;
            link = &above->left;
            above = above->left;
        }
    }
    *link = below != NULL ? below : above;
}

void weir__index_remove(struct weir__index *index, struct weir__extent *extent) {
    struct weir__extent **link = &index->root;
    while (*link != extent) {
        assert(*link != NULL && "the extent is in the index");
        link = less(*link, extent->bytes, extent->address) ? &(*link)->right : &(*link)->left;
    }
    join(link, extent->left, extent->right);
    extent->left = extent->right = NULL;
}

struct weir__extent *weir__index_at_least(const struct weir__index *index, size_t bytes, uintptr_t address) {
    struct weir__extent *found = NULL;
    for (struct weir__extent *at = index->root; at != NULL;) {
        if (less(at, bytes, address)) {
            at = at->right;
        } else {
            found = at;
            at = at->left;
        }
    }
    return found;
}

struct weir__extent *weir__index_after(const struct weir__index *index, const struct weir__extent *extent) {
    return weir__index_at_least(index, extent->bytes, extent->address + 1);
}

struct weir__extent *weir__index_before(const struct weir__index *index, const struct weir__extent *extent) {
    struct weir__extent *found = NULL;
    for (struct weir__extent *at = index->root; at != NULL;) {
        if (less(at, extent->bytes, extent->address)) {
            found = at;
            at = at->right;
        } else {
            at = at->left;
        }
    }
    return found;
}

struct weir__extent *weir__index_largest(const struct weir__index *index) {
    struct weir__extent *at = index->root;
    while (at != NULL && at->right != NULL) at = at->right;
    return at;
}
