/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/slots.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

static size_t chunk_slots(unsigned chunk) { return (size_t)EMU_FIRST_CHUNK << chunk; }

static struct emu_slot *slot_at(const struct emu_slots *slots, unsigned chunk, size_t index) {
    return (struct emu_slot *)(void *)(slots->chunks[chunk] + index * slots->slot_bytes);
}

static bool grow(struct emu_slots *slots) {
    if (slots->chunk_count == EMU_MOST_CHUNKS) return false;
    const unsigned chunk = slots->chunk_count;
    char *memory = calloc(chunk_slots(chunk), slots->slot_bytes);
    if (memory == NULL) return false;
    slots->chunks[chunk] = memory;
    slots->chunk_count++;
    slots->begun = 0;
    return true;
}

/* A slot that was never handed out. */
static struct emu_slot *begin_slot(struct emu_slots *slots) {
    const bool full = slots->chunk_count == 0 || slots->begun == chunk_slots(slots->chunk_count - 1);
    if (full && !grow(slots)) return NULL;
    return slot_at(slots, slots->chunk_count - 1, slots->begun++);
}

/* Finds the chunk and index of a pointer to the start of a slot. */
static bool locate(const struct emu_slots *slots, const void *pointer, unsigned *chunk, size_t *index) {
    const uintptr_t address = (uintptr_t)pointer;
    for (unsigned i = slots->chunk_count; i-- > 0;) { /* the later ones have the most slots */
        const uintptr_t start = (uintptr_t)slots->chunks[i];
        if (address < start || address >= start + chunk_slots(i) * slots->slot_bytes) continue;
        *chunk = i;
        *index = (address - start) / slots->slot_bytes;
        return (address - start) % slots->slot_bytes == 0;
    }
    return false;
}

void *emu_slots_take(struct emu_slots *slots) {
    pthread_mutex_lock(&slots->lock);
    struct emu_slot *slot = slots->free;
    if (slot != NULL)
        slots->free = slot->next_free;
    else
        slot = begin_slot(slots);
    if (slot != NULL) {
        assert(!slot->alive);
        slot->alive = true;
    }
    pthread_mutex_unlock(&slots->lock);
    return slot;
}

void emu_slots_give(struct emu_slots *slots, void *pointer) {
    struct emu_slot *slot = pointer;
    pthread_mutex_lock(&slots->lock);
    assert(slot->alive);
    slot->alive = false;
    slot->next_free = slots->free;
    slots->free = slot;
    pthread_mutex_unlock(&slots->lock);
}

bool emu_slots_alive(struct emu_slots *slots, const void *pointer) {
    unsigned chunk;
    size_t index;
    pthread_mutex_lock(&slots->lock);
    const bool alive = locate(slots, pointer, &chunk, &index) && slot_at(slots, chunk, index)->alive;
    pthread_mutex_unlock(&slots->lock);
    return alive;
}

static size_t begun_slots(const struct emu_slots *slots, unsigned chunk) {
    return chunk + 1 == slots->chunk_count ? slots->begun : chunk_slots(chunk);
}

void *emu_slots_next(struct emu_slots *slots, const void *previous) {
    unsigned chunk = 0;
    size_t index = 0;
    void *found = NULL;
    pthread_mutex_lock(&slots->lock);
    if (previous != NULL && locate(slots, previous, &chunk, &index)) index++;
    for (; chunk < slots->chunk_count && found == NULL; chunk++, index = 0)
        for (; index < begun_slots(slots, chunk) && found == NULL; index++)
            if (slot_at(slots, chunk, index)->alive) found = slot_at(slots, chunk, index);
    pthread_mutex_unlock(&slots->lock);
    return found;
}
