/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/heard.h"

#include <stdlib.h>

static struct weir__clock *clock_of(struct weir__heard *heard, weir_event event) {
    struct weir__clock *clock = weir__table_get(&heard->events, (uintptr_t)event);
    if (clock != NULL) return clock;
    if (heard->events.count == WEIR__HEARD_EVENTS) weir__heard_clear(heard);
    clock = weir__table_reserve(&heard->events) ? malloc(sizeof *clock) : NULL;
    if (clock != NULL) weir__table_put(&heard->events, (uintptr_t)event, clock);
    return clock;
}

void weir__heard_record(struct weir__heard *heard, uint32_t slot, weir_event event, uint64_t number) {
    if (slot >= WEIR__HEARD_SLOTS) {
        weir__heard_forget(heard, event);
        return;
    }
    heard->newest = number;
    struct weir__clock *clock = clock_of(heard, event);
    if (clock == NULL) return;
    *clock = heard->streams[slot];
    clock->numbers[slot] = number;
}

void weir__heard_wait(struct weir__heard *heard, uint32_t slot, weir_event event) {
    const struct weir__clock *clock = weir__table_get(&heard->events, (uintptr_t)event);
    if (clock == NULL || slot >= WEIR__HEARD_SLOTS) return;
    uint64_t *numbers = heard->streams[slot].numbers;
    for (uint32_t i = 0; i < WEIR__HEARD_SLOTS; i++)
        if (clock->numbers[i] > numbers[i]) numbers[i] = clock->numbers[i];
}

void weir__heard_forget(struct weir__heard *heard, weir_event event) {
    free(weir__table_take(&heard->events, (uintptr_t)event));
}

void weir__heard_clear(struct weir__heard *heard) {
    for (size_t i = 0; i < heard->events.room; i++) free(heard->events.entries[i].value);
    weir__table_clear(&heard->events);
}
