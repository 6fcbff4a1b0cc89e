/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/trace_numbers.h"

#include <stdlib.h>

/* Open addressing. A key is put once and stays, so that a look-up without the lock never misses one that is moved; its
 * number goes when the handle does. A table that is half full is copied into a new one without those that are gone; it is
 * freed at the end, so that memory grows with the handles ever seen, by less than their lines in the trace. */
struct weir__numbers_table {
    size_t room, keys; /* room is a power of two; keys <= room / 2, those whose number is gone too */
    struct weir__numbers_table *older;
    struct entry {
        uintptr_t key;   /* atomic; 0: empty */
        uint64_t number; /* atomic */
    } entries[];
};

static struct entry *find(struct weir__numbers_table *table, uintptr_t key) {
    size_t at = (size_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (table->room - 1);
    for (;; at = (at + 1) & (table->room - 1)) {
        const uintptr_t there = __atomic_load_n(&table->entries[at].key, __ATOMIC_ACQUIRE);
        if (there == key || there == 0) return &table->entries[at];
    }
}

static void put(struct weir__numbers_table *table, uintptr_t key, uint64_t number) {
    struct entry *entry = find(table, key);
    __atomic_store_n(&entry->number, number, __ATOMIC_RELEASE);
    if (entry->key == key) return;
    table->keys++;
    __atomic_store_n(&entry->key, key, __ATOMIC_RELEASE);
}

static size_t count_live(const struct weir__numbers_table *table) {
    size_t live = 0;
    for (size_t i = 0; i < table->room; i++)
        live += table->entries[i].key != 0 && table->entries[i].number != WEIR__UNSEEN;
    return live;
}

/* Needs the lock. Makes sure that one more key can be put. */
static bool reserve(struct weir__numbers *numbers) {
    struct weir__numbers_table *table = numbers->table;
    if (table != NULL && (table->keys + 1) * 2 <= table->room) return true;
    size_t room = 64;
    while (table != NULL && room < 4 * (count_live(table) + 1)) room *= 2;
    struct weir__numbers_table *larger = calloc(1, sizeof *larger + room * sizeof *larger->entries);
    if (larger == NULL) return false;
    larger->room = room;
    larger->older = table;
    for (size_t i = 0; table != NULL && i < table->room; i++)
        if (table->entries[i].key != 0 && table->entries[i].number != WEIR__UNSEEN)
            put(larger, table->entries[i].key, table->entries[i].number);
    __atomic_store_n(&numbers->table, larger, __ATOMIC_RELEASE);
    return true;
}

void weir__numbers_open(struct weir__numbers *numbers) {
    *numbers = (struct weir__numbers){0};
    pthread_mutex_init(&numbers->lock, NULL);
}

void weir__numbers_close(struct weir__numbers *numbers) {
    for (struct weir__numbers_table *table = numbers->table, *older; table != NULL; table = older) {
        older = table->older;
        free(table);
    }
    pthread_mutex_destroy(&numbers->lock);
}

uint64_t weir__numbers_find(const struct weir__numbers *numbers, uintptr_t key) {
    struct weir__numbers_table *table = __atomic_load_n(&numbers->table, __ATOMIC_ACQUIRE);
    if (table == NULL) return WEIR__UNSEEN;
    const struct entry *entry = find(table, key);
    return __atomic_load_n(&entry->key, __ATOMIC_ACQUIRE) == key ? __atomic_load_n(&entry->number, __ATOMIC_ACQUIRE)
                                                                 : WEIR__UNSEEN;
}

uint64_t weir__numbers_begin(struct weir__numbers *numbers, uintptr_t key, bool *is_new) {
    pthread_mutex_lock(&numbers->lock);
    const uint64_t known = weir__numbers_find(numbers, key);
    *is_new = known == WEIR__UNSEEN && reserve(numbers);
    return *is_new ? numbers->given : known;
}

void weir__numbers_end(struct weir__numbers *numbers, uintptr_t key, uint64_t number, bool is_new) {
    if (is_new) {
        put(numbers->table, key, number);
        numbers->given++;
    }
    pthread_mutex_unlock(&numbers->lock);
}

uint64_t weir__numbers_take(struct weir__numbers *numbers, uintptr_t key) {
    pthread_mutex_lock(&numbers->lock);
    const uint64_t number = weir__numbers_find(numbers, key);
    if (number != WEIR__UNSEEN) put(numbers->table, key, WEIR__UNSEEN);
    pthread_mutex_unlock(&numbers->lock);
    return number;
}
