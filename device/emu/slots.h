/* SPDX-License-Identifier: Apache-2.0 */
/* Slots for what handles point at. A freed slot is the next one handed out, as a driver reuses handles; its memory is
 * never returned, so a stale or wild handle is told apart safely: it is an error, never a crash. */
#ifndef WEIR_EMU_SLOTS_H
#define WEIR_EMU_SLOTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { EMU_MOST_CHUNKS = 24, EMU_FIRST_CHUNK = 64 };

struct emu_slot { /* first member of whatever is kept in slots */
    struct emu_slot *next_free;
    bool alive;
};

struct emu_slots {
    size_t slot_bytes;
    pthread_mutex_t lock;
    char *chunks[EMU_MOST_CHUNKS]; /* chunk i holds EMU_FIRST_CHUNK << i slots */
    unsigned chunk_count;
    size_t begun; /* slots of the last chunk that have been handed out: those behind are never touched */
    struct emu_slot *free;
};

#define EMU_SLOTS_INITIALIZER(type)                                                                                    \
    { .slot_bytes = sizeof(type), .lock = PTHREAD_MUTEX_INITIALIZER }

/* A slot, alive; its memory is zero when it is new, else as it was left. NULL: no host memory. */
void *emu_slots_take(struct emu_slots *slots);
void emu_slots_give(struct emu_slots *slots, void *slot);
/* True when `pointer` is a slot of these, and alive. */
bool emu_slots_alive(struct emu_slots *slots, const void *pointer);
/* The alive slot after `previous` (NULL: the first), in the order of chunks; NULL at the end. */
void *emu_slots_next(struct emu_slots *slots, const void *previous);

#endif
