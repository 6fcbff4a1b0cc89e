/* SPDX-License-Identifier: Apache-2.0 */
/* From the ids of a file, any 64 bits, to numbers. Ids that count up from somewhere low, which is what programs write,
 * are looked up in an array; the others in a hash table whose seed nobody who writes a file can know. Memory is bounded
 * by the ids put in, not by their values. All zero is an empty one. */
#ifndef WEIR_TRACE_IDS_H
#define WEIR_TRACE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IDS_NONE UINT32_MAX

struct ids {
    uint32_t *low; /* by id */
    uint64_t low_room;
    struct ids_entry {
        uint64_t id;
        uint32_t number;
        bool used;
    } * entries; /* open addressing; at most half of them used */
    size_t room, used;
    uint64_t put;
};

uint32_t ids_find_high(const struct ids *ids, uint64_t id);

/* The number of an id; IDS_NONE when it has none. */
static inline uint32_t ids_find(const struct ids *ids, uint64_t id) {
    if (id < ids->low_room && ids->low[id] != IDS_NONE) return ids->low[id];
    return ids->used == 0 ? IDS_NONE : ids_find_high(ids, id);
}

/* Gives an id that has none a number. False without host memory. */
bool ids_put(struct ids *ids, uint64_t id, uint32_t number);
/* The id has no number afterwards. */
void ids_drop(struct ids *ids, uint64_t id);
void ids_free(struct ids *ids);

#endif
