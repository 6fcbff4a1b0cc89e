/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/table.h"

#include <assert.h>
#include <stdlib.h>

static struct weir__table_entry *find(const struct weir__table *table, uintptr_t key) {
    size_t at = weir__table_place(table, key);
    while (table->entries[at].key != 0 && table->entries[at].key != key) at = (at + 1) & (table->room - 1);
    return &table->entries[at];
}

bool weir__table_reserve(struct weir__table *table) {
    if ((table->count + 1) * 2 <= table->room) return true;
    struct weir__table larger = {.room = table->room == 0 ? 64 : table->room * 2};
    larger.entries = calloc(larger.room, sizeof *larger.entries);
    if (larger.entries == NULL) return false;
    for (size_t i = 0; i < table->room; i++)
        if (table->entries[i].key != 0) weir__table_put(&larger, table->entries[i].key, table->entries[i].value);
    free(table->entries);
    *table = larger;
    return true;
}

void weir__table_put(struct weir__table *table, uintptr_t key, void *value) {
    assert(key != 0 && (table->count + 1) * 2 <= table->room);
    struct weir__table_entry *entry = find(table, key);
    assert(entry->key == 0 && "one entry a key");
    *entry = (struct weir__table_entry){.key = key, .value = value};
    table->count++;
}

void *weir__table_take(struct weir__table *table, uintptr_t key) {
    if (table->room == 0 || key == 0) return NULL;
    struct weir__table_entry *entry = find(table, key);
    if (entry->key == 0) return NULL;
    void *value = entry->value;
    size_t hole = (size_t)(entry - table->entries);
    size_t mask = table->room - 1;
    /* Close the gap: an entry after it moves back unless it would pass the place where it belongs. */
    for (size_t at = (hole + 1) & mask; table->entries[at].key != 0; at = (at + 1) & mask) {
        size_t home = weir__table_place(table, table->entries[at].key);
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        table->entries[hole] = table->entries[at];
        hole = at;
    }
    table->entries[hole] = (struct weir__table_entry){0};
    table->count--;
    return value;
}

void weir__table_clear(struct weir__table *table) {
    free(table->entries);
    *table = (struct weir__table){0};
}
