/* SPDX-License-Identifier: Apache-2.0 */
#include "ids.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

enum { LOW_AT_LEAST = 1024, LOW_PER_ID = 4 }; /* the array has room for some ids for each that was put in */

/* Random bytes that the kernel gives every process. */
static uint64_t seed(void) {
    uint64_t value = 0;
    const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    if (random != NULL) memcpy(&value, random, sizeof value);
    return value;
}

/* The finaliser of splitmix64. */
static size_t place_of(uint64_t id, size_t room) {
    uint64_t z = id ^ seed();
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (size_t)(z ^ (z >> 31)) & (room - 1);
}

static struct ids_entry *entry_of(const struct ids *ids, uint64_t id) {
    size_t at = place_of(id, ids->room);
    while (ids->entries[at].used && ids->entries[at].id != id) at = (at + 1) & (ids->room - 1);
    return &ids->entries[at];
}

uint32_t ids_find_high(const struct ids *ids, uint64_t id) {
    const struct ids_entry *entry = entry_of(ids, id);
    return entry->used ? entry->number : IDS_NONE;
}

static bool put_low(struct ids *ids, uint64_t id, uint32_t number) {
    if (id >= ids->low_room) {
        uint64_t room = ids->low_room == 0 ? LOW_AT_LEAST : ids->low_room;
        while (room <= id) room *= 2;
        uint32_t *low = realloc(ids->low, room * sizeof *low);
        if (low == NULL) return false;
        memset(low + ids->low_room, 0xff, (room - ids->low_room) * sizeof *low); /* IDS_NONE */
        ids->low = low;
        ids->low_room = room;
    }
    ids->low[id] = number;
    return true;
}

static bool put_high(struct ids *ids, uint64_t id, uint32_t number) {
    if ((ids->used + 1) * 2 > ids->room) {
        struct ids larger = {.room = ids->room == 0 ? 64 : ids->room * 2};
        larger.entries = calloc(larger.room, sizeof *larger.entries);
        if (larger.entries == NULL) return false;
        for (size_t i = 0; i < ids->room; i++)
            if (ids->entries[i].used) *entry_of(&larger, ids->entries[i].id) = ids->entries[i];
        free(ids->entries);
        ids->entries = larger.entries;
        ids->room = larger.room;
    }
    struct ids_entry *entry = entry_of(ids, id);
    ids->used += !entry->used; /* one that was dropped has its place still */
    *entry = (struct ids_entry){.id = id, .number = number, .used = true};
    return true;
}

bool ids_put(struct ids *ids, uint64_t id, uint32_t number) {
    const bool low = id < ids->low_room || id < LOW_AT_LEAST || id / LOW_PER_ID < ids->put;
    ids->put++;
    return low ? put_low(ids, id, number) : put_high(ids, id, number);
}

void ids_drop(struct ids *ids, uint64_t id) {
    if (id < ids->low_room && ids->low[id] != IDS_NONE) {
        ids->low[id] = IDS_NONE;
    } else if (ids->used > 0) {
        struct ids_entry *entry = entry_of(ids, id);
        if (entry->used) entry->number = IDS_NONE;
    }
}

void ids_free(struct ids *ids) {
    free(ids->low);
    free(ids->entries);
    *ids = (struct ids){0};
}
