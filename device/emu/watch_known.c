/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/watch_known.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_STEP = 8 }; /* clocks grow by so many queues at once */

void emu_known_drop(struct emu_known *known) {
    if (known == NULL) return;
    assert(known->references > 0);
    if (--known->references == 0) free(known);
}

/* Makes *known one that only its holder has, with room for `count` queues. */
static bool own(struct emu_known **known, uint32_t count) {
    struct emu_known *old = *known;
    if (old != NULL && old->references == 1 && old->count >= count) return true;
    const uint32_t had = old != NULL ? old->count : 0;
    if (count < had) count = had;
    count = (count + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP;
    struct emu_known *made = malloc(sizeof *made + count * sizeof *made->at);
    if (made == NULL) return false;
    made->references = 1;
    made->count = count;
    if (had > 0) memcpy(made->at, old->at, had * sizeof *made->at);
    memset(made->at + had, 0, (count - had) * sizeof *made->at);
    emu_known_drop(old);
    *known = made;
    return true;
}

bool emu_known_raise(struct emu_known **known, uint32_t queue, uint64_t position) {
    if (emu_known_of(*known, queue) >= position) return true;
    if (!own(known, queue + 1)) return false;
    (*known)->at[queue] = position;
    return true;
}

static bool covers(const struct emu_known *known, const struct emu_known *other) {
    for (uint32_t i = 0; i < other->count; i++)
        if (other->at[i] > emu_known_of(known, i)) return false;
    return true;
}

bool emu_known_join(struct emu_known **known, struct emu_known *other) {
    if (other == NULL || other == *known || covers(*known, other)) return true;
    if (*known == NULL) {
        *known = emu_known_keep(other);
        return true;
    }
    if (!own(known, other->count)) return false;
    uint64_t *at = (*known)->at;
    for (uint32_t i = 0; i < other->count; i++)
        if (at[i] < other->at[i]) at[i] = other->at[i];
    return true;
}
