/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/items.h"

#include <assert.h>
#include <stdlib.h>

#include "device/emulated.h"
#include "device/error.h"

enum { SEGMENT = 64 };

void weir__items_init(struct weir__items *items, struct weir_device *device) {
    *items = (struct weir__items){.device = device};
    pthread_mutex_init(&items->lock, NULL);
}

void weir__items_destroy(struct weir__items *items) {
    assert(items->open == 0);
    for (uint32_t i = 0; i < items->segment_count; i++) free(items->segments[i]);
    free(items->segments);
    pthread_mutex_destroy(&items->lock);
}

static void add_segment(struct weir__items *items) {
    struct weir__item *segment = calloc(SEGMENT, sizeof *segment);
    struct weir__item **segments = realloc(items->segments, (items->segment_count + 1) * sizeof(*segments));
    if (segments != NULL) items->segments = segments;
    if (segment == NULL || segments == NULL) {
        free(segment);
        return;
    }
    for (uint32_t i = SEGMENT; i-- > 0;) { /* the lowest index comes first */
        segment[i].index = items->segment_count * SEGMENT + i;
        segment[i].next_free = items->free;
        items->free = &segment[i];
    }
    segments[items->segment_count++] = segment;
}

struct weir__item *weir__items_open(struct weir__items *items) {
    pthread_mutex_lock(&items->lock);
    if (items->free == NULL) add_segment(items);
    struct weir__item *item = items->free;
    if (item != NULL) {
        items->free = item->next_free;
        uint32_t generation = item->generation + 1;
        *item = (struct weir__item){
            .index = item->index,
            .generation = generation != 0 ? generation : 1, /* 0 is never a valid item */
            .open = true,
            .claimed = true,
        };
        items->open++;
    }
    pthread_mutex_unlock(&items->lock);
    return item;
}

/* The open item of a handle, or NULL. */
static struct weir__item *find(const struct weir__items *items, struct weir_item handle) {
    if (handle.index / SEGMENT >= items->segment_count) return NULL;
    struct weir__item *item = &items->segments[handle.index / SEGMENT][handle.index % SEGMENT];
    return item->open && item->generation == handle.generation ? item : NULL;
}

/* A pause, and not a condition, since it does under the virtual clock too. */
static void wait_a_moment(struct weir__items *items) {
    pthread_mutex_unlock(&items->lock);
    weir__device_pause(items->device, WEIR__TURN_NS);
    pthread_mutex_lock(&items->lock);
}

enum weir_status weir__items_claim(struct weir__items *items, struct weir_item handle, struct weir__item **out) {
    pthread_mutex_lock(&items->lock);
    struct weir__item *item = find(items, handle);
    while (item != NULL && item->borrowed) {
        wait_a_moment(items);
        item = find(items, handle);
    }
    const bool claimed = item != NULL && item->claimed;
    if (item != NULL) item->claimed = true;
    pthread_mutex_unlock(&items->lock);
    *out = NULL;
    if (item == NULL) {
        return WEIR__INVALID(
            "offload: item %u of generation %u is stale: it was fetched or released, or never given out", handle.index,
            handle.generation);
    }
    if (claimed) {
        return WEIR__INVALID("offload: item %u of generation %u is in use by another call", handle.index,
                             handle.generation);
    }
    *out = item;
    return WEIR_OK;
}

void weir__items_unclaim(struct weir__items *items, struct weir__item *item) {
    pthread_mutex_lock(&items->lock);
    assert(item->open && item->claimed);
    item->claimed = item->borrowed = false;
    pthread_mutex_unlock(&items->lock);
}

void weir__items_close(struct weir__items *items, struct weir__item *item) {
    pthread_mutex_lock(&items->lock);
    assert(item->open && item->claimed && items->open > 0);
    item->open = false;
    item->claimed = false;
    item->next_free = items->free;
    items->free = item;
    items->open--;
    pthread_mutex_unlock(&items->lock);
}

struct weir__item *weir__items_claim_any(struct weir__items *items) {
    struct weir__item *found = NULL;
    pthread_mutex_lock(&items->lock);
    for (uint32_t i = 0; i < items->segment_count * SEGMENT && found == NULL; i++) {
        struct weir__item *item = &items->segments[i / SEGMENT][i % SEGMENT];
        if (item->open && !item->claimed) {
            item->claimed = true;
            found = item;
        }
    }
    pthread_mutex_unlock(&items->lock);
    return found;
}

struct weir__item *weir__items_borrow(struct weir__items *items, enum weir__item_state state) {
    struct weir__item *last = NULL;
    pthread_mutex_lock(&items->lock);
    for (uint32_t i = 0; i < items->segment_count * SEGMENT; i++) {
        struct weir__item *item = &items->segments[i / SEGMENT][i % SEGMENT];
        if (item->open && !item->claimed && item->state == state && (last == NULL || item->loaded > last->loaded))
            last = item;
    }
    if (last != NULL) last->claimed = last->borrowed = true;
    pthread_mutex_unlock(&items->lock);
    return last;
}

uint64_t weir__items_count(struct weir__items *items) {
    pthread_mutex_lock(&items->lock);
    uint64_t open = items->open;
    pthread_mutex_unlock(&items->lock);
    return open;
}
