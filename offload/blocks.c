/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/blocks.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "device/error.h"
#include "offload/order.h"

enum { KNOWN_START = 256 }; /* buckets of the address table at first */

/* ---- sizes and blocks ------------------------------------------------------------------------------------------ */

size_t weir__blocks_capacity(size_t bytes) {
    return weir__round_up(bytes, bytes <= WEIR__SMALL_MAX ? WEIR__SMALL_STEP : WEIR__LARGE_STEP);
}

static size_t scatter(uintptr_t key, size_t buckets) {
    return (size_t)(((uint64_t)key * 0x9E3779B97F4A7C15u) >> 20) % buckets;
}

static struct weir__size **find_size(struct weir__blocks *blocks, size_t capacity) {
    struct weir__size **at = &blocks->sizes[scatter(capacity / WEIR__SMALL_STEP, WEIR__SIZE_BUCKETS)];
    while (*at != NULL && (*at)->capacity != capacity) at = &(*at)->next;
    return at;
}

static struct weir__block **find_known(struct weir__blocks *blocks, const void *address) {
    struct weir__block **at = &blocks->known[scatter((uintptr_t)address / WEIR__SMALL_STEP, blocks->known_buckets)];
    while (*at != NULL && (*at)->address != (const char *)address) at = &(*at)->next_known;
    return at;
}

/* Doubles the address table when it is full; without memory it only gets slower. */
static void widen_known(struct weir__blocks *blocks) {
    if (blocks->count < blocks->known_buckets) return;
    struct weir__block **old = blocks->known;
    size_t old_buckets = blocks->known_buckets;
    struct weir__block **wide = calloc(old_buckets * 2, sizeof *wide);
    if (wide == NULL) return;
    blocks->known = wide;
    blocks->known_buckets = old_buckets * 2;
    for (size_t i = 0; i < old_buckets; i++) {
        for (struct weir__block *block = old[i], *next; block != NULL; block = next) {
            next = block->next_known;
            block->next_known = NULL;
            *find_known(blocks, block->address) = block;
        }
    }
    free(old);
}

static char *cut_bytes(struct weir__blocks *blocks, size_t capacity) {
    if (capacity <= WEIR__SMALL_MAX) return weir__small_alloc(blocks->small, capacity, WEIR__SMALL_STEP);
    size_t offset;
    return weir__runs_take(&blocks->runs, capacity, WEIR__LARGE_STEP, &offset) ? blocks->base + offset : NULL;
}

static void return_bytes(struct weir__blocks *blocks, char *address, size_t capacity) {
    if (capacity <= WEIR__SMALL_MAX)
        weir__small_free(blocks->small, address);
    else
        weir__runs_give(&blocks->runs, (size_t)(address - blocks->base), capacity);
}

/* Gives the size of a capacity, made when it is not there yet; NULL without memory. */
static struct weir__size *need_size(struct weir__blocks *blocks, size_t capacity) {
    struct weir__size **at = find_size(blocks, capacity);
    if (*at == NULL && (*at = calloc(1, sizeof **at)) != NULL) (*at)->capacity = capacity;
    return *at;
}

static void drop_size_if_empty(struct weir__blocks *blocks, struct weir__size *size) {
    if (size->blocks == 0) {
        struct weir__size **at = find_size(blocks, size->capacity);
        *at = size->next;
        free(size);
    }
}

struct weir__block *weir__blocks_cut(struct weir__blocks *blocks, size_t capacity) {
    struct weir__block *block = calloc(1, sizeof *block);
    struct weir__size *size = block != NULL ? need_size(blocks, capacity) : NULL;
    if (size == NULL) {
        free(block);
        return NULL;
    }
    block->address = cut_bytes(blocks, capacity);
    if (block->address == NULL) {
        drop_size_if_empty(blocks, size);
        free(block);
        return NULL;
    }
    block->size = size;
    size->blocks++;
    widen_known(blocks);
    struct weir__block **at = find_known(blocks, block->address);
    assert(*at == NULL);
    *at = block;
    blocks->count++;
    return block;
}

/* Needs: not in an idle list, not busy. */
static void dissolve(struct weir__blocks *blocks, struct weir__block *block) {
    struct weir__size *size = block->size;
    struct weir__block **at = find_known(blocks, block->address);
    *at = block->next_known;
    blocks->count--;
    return_bytes(blocks, block->address, size->capacity);
    free(block);
    size->blocks--;
    drop_size_if_empty(blocks, size);
}

struct weir__block *weir__blocks_find(struct weir__blocks *blocks, const void *address) {
    return *find_known(blocks, address);
}

/* ---- idle blocks ----------------------------------------------------------------------------------------------- */

void weir__blocks_push_idle(struct weir__block *block) {
    struct weir__size *size = block->size;
    block->next = NULL;
    if (size->newest != NULL)
        size->newest->next = block;
    else
        size->oldest = block;
    size->newest = block;
}

/* True when no copy can still touch an idle block: then its event is given back. */
static bool passed(struct weir__blocks *blocks, struct weir__block *block) {
    if (block->busy == NULL) return true;
    if (!weir__offload_passed(blocks->device, "host.idle", block->busy)) return false;
    weir__events_give(blocks->events, block->busy);
    block->busy = NULL;
    return true;
}

/* Takes an idle block out of its list: the oldest, or the oldest that no copy can still touch. */
static struct weir__block *pop_idle(struct weir__blocks *blocks, struct weir__size *size, bool may_be_busy) {
    struct weir__block *previous = NULL;
    for (struct weir__block *block = size->oldest; block != NULL; previous = block, block = block->next) {
        if (!may_be_busy && !passed(blocks, block)) continue;
        if (previous != NULL)
            previous->next = block->next;
        else
            size->oldest = block->next;
        if (size->newest == block) size->newest = previous;
        return block;
    }
    return NULL;
}

struct weir__block *weir__blocks_pop_idle(struct weir__blocks *blocks, size_t capacity, bool may_be_busy) {
    struct weir__size *size = *find_size(blocks, capacity);
    return size != NULL ? pop_idle(blocks, size, may_be_busy) : NULL;
}

static bool dissolve_idle_of(struct weir__blocks *blocks, struct weir__size *size) {
    bool any = false;
    for (size_t left = size->blocks; left > 0; left--) { /* the last one takes the size with it */
        struct weir__block *block = pop_idle(blocks, size, false);
        if (block == NULL) break;
        dissolve(blocks, block);
        any = true;
    }
    return any;
}

bool weir__blocks_dissolve_idle(struct weir__blocks *blocks) {
    bool any = false;
    for (size_t i = 0; i < WEIR__SIZE_BUCKETS; i++) {
        for (struct weir__size *size = blocks->sizes[i], *next; size != NULL; size = next) {
            next = size->next;
            any = dissolve_idle_of(blocks, size) || any;
        }
    }
    return any;
}

/* ---- the whole set ---------------------------------------------------------------------------------------------- */

enum weir_status weir__blocks_init(struct weir__blocks *blocks, struct weir_device *device, struct weir__events *events,
                                   char *base) {
    *blocks = (struct weir__blocks){.device = device, .events = events, .base = base};
    blocks->known = calloc(KNOWN_START, sizeof *blocks->known);
    if (blocks->known == NULL || !weir__runs_init(&blocks->runs))
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: no memory for its tables");
    blocks->known_buckets = KNOWN_START;
    return weir__small_create(&blocks->runs, base, &blocks->small);
}

void weir__blocks_clear(struct weir__blocks *blocks) {
    for (size_t i = 0; i < blocks->known_buckets; i++) {
        for (struct weir__block *block = blocks->known[i], *next; block != NULL; block = next) {
            next = block->next_known;
            weir__events_give(blocks->events, block->busy);
            free(block);
        }
    }
    for (size_t i = 0; i < WEIR__SIZE_BUCKETS; i++) {
        for (struct weir__size *size = blocks->sizes[i], *next; size != NULL; size = next) {
            next = size->next;
            free(size);
        }
    }
    if (blocks->small != NULL) weir__small_destroy(blocks->small);
    weir__runs_clear(&blocks->runs);
    free(blocks->known);
    *blocks = (struct weir__blocks){0};
}
