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
    for (size_t i = chunk_slots(chunk); i-- > 0;) {
        struct emu_slot *slot = slot_at(slots, chunk, i);
        slot->next_free = slots->free;
        slots->free = slot;
    }
    return true;
}

/* Finds the chunk and index of a pointer to the start of a slot. */
static bool locate(const struct emu_slots *slots, const void *pointer, unsigned *chunk, size_t *index) {
    const uintptr_t address = (uintptr_t)pointer;
    for (unsigned i = 0; i < slots->chunk_count; i++) {
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
    struct emu_slot *slot = NULL;
    if (slots->free != NULL || grow(slots)) {
        slot = slots->free;
        slots->free = slot->next_free;
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

void *emu_slots_next(struct emu_slots *slots, const void *previous) {
    unsigned chunk = 0;
    size_t index = 0;
    void *found = NULL;
    pthread_mutex_lock(&slots->lock);
    if (previous != NULL && locate(slots, previous, &chunk, &index)) index++;
    for (; chunk < slots->chunk_count && found == NULL; chunk++, index = 0)
        for (; index < chunk_slots(chunk) && found == NULL; index++)
            if (slot_at(slots, chunk, index)->alive) found = slot_at(slots, chunk, index);
    pthread_mutex_unlock(&slots->lock);
    return found;
}
