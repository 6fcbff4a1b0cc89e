/* SPDX-License-Identifier: Apache-2.0 */
/* A table from a nonzero address to a pointer: open addressing, O(1). Blocks by address, streams and events by handle. */
#ifndef WEIR_ALLOC_TABLE_H
#define WEIR_ALLOC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__table_entry {
    uintptr_t key; /* 0: empty */
    void *value;
};

struct weir__table {
    struct weir__table_entry *entries;
    size_t room, count; /* room is a power of two; count <= room / 2 */
};

/* Makes sure that one more entry can be put. False without host memory; nothing has changed. */
bool weir__table_reserve(struct weir__table *table);
/* Needs: a reserve; the key is not there. */
void weir__table_put(struct weir__table *table, uintptr_t key, void *value);
static inline size_t weir__table_place(const struct weir__table *table, uintptr_t key) {
    return (size_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (table->room - 1);
}
static inline void *weir__table_get(const struct weir__table *table, uintptr_t key) {
    if (table->room == 0 || key == 0) return NULL;
    size_t at = weir__table_place(table, key);
    while (table->entries[at].key != 0 && table->entries[at].key != key) at = (at + 1) & (table->room - 1);
    return table->entries[at].value;
}
/* Gives: the value taken out, or NULL. */
void *weir__table_take(struct weir__table *table, uintptr_t key);
void weir__table_clear(struct weir__table *table);

#endif
