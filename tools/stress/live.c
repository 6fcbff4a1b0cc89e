/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include <pthread.h>
#include <stdlib.h>

#include "tools/plugin/places.h"

struct live {
    pthread_mutex_t lock;
    size_t page_bytes;
    struct places *places;
    struct block *blocks; /* LIVE_MOST_BLOCKS */
    uint32_t *spare;      /* ids of those that are none */
    uint32_t spare_count;
    uint64_t last_number, bytes, peak_bytes;
    uint64_t moving_pages;  /* of blocks that are begun and not in place, or taken out and not ended */
    uint64_t changed_pages; /* sum over all begins and takes so far */
    struct past *history;   /* by number modulo HISTORY */
};

struct live *live_open(size_t page_bytes) {
    struct live *live = calloc(1, sizeof *live);
    if (live == NULL) return NULL;
    pthread_mutex_init(&live->lock, NULL);
    live->page_bytes = page_bytes;
    live->places = places_open(LIVE_MOST_BLOCKS);
    live->blocks = calloc(LIVE_MOST_BLOCKS, sizeof *live->blocks);
    live->spare = calloc(LIVE_MOST_BLOCKS, sizeof *live->spare);
    live->history = calloc(HISTORY, sizeof *live->history);
    if (live->places == NULL || live->blocks == NULL || live->spare == NULL || live->history == NULL) {
        live_close(live);
        return NULL;
    }
    for (uint32_t id = LIVE_MOST_BLOCKS; id > 0;) live->spare[live->spare_count++] = --id;
    return live;
}

void live_close(struct live *live) {
    if (live == NULL) return;
    if (live->places != NULL) places_close(live->places);
    free(live->blocks);
    free(live->spare);
    free(live->history);
    pthread_mutex_destroy(&live->lock);
    free(live);
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

/* Of a block that is nowhere yet: however it may lie. */
static uint64_t most_pages(const struct live *live, size_t bytes) { return bytes / live->page_bytes + 2; }

/* Pages that have been counted up to an address. */
struct count {
    size_t page_bytes;
    uint64_t pages;
    uintptr_t end; /* first page that is not counted */
};

static void count_pages(void *to, const struct place *place) {
    struct count *count = to;
    uintptr_t first = place->address / count->page_bytes;
    const uintptr_t end = (place->address + place->bytes - 1) / count->page_bytes + 1;
    if (first < count->end) first = count->end;
    if (end <= first) return;
    count->pages += end - first;
    count->end = end;
}

static uint64_t placed_pages(const struct live *live) {
    struct count count = {live->page_bytes, 0, 0};
    places_each(live->places, count_pages, &count);
    return count.pages;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* Needs: the lock. */
static void move_pages(struct live *live, const struct block *block) {
    live->moving_pages += most_pages(live, block->bytes);
    live->changed_pages += most_pages(live, block->bytes);
}

static void spare_block(struct live *live, struct block *block) {
    live->moving_pages -= most_pages(live, block->bytes);
    live->spare[live->spare_count++] = block->id;
}

struct block *live_begin(struct live *live, size_t bytes, uint32_t home, struct live_moment *moment) {
    struct block *block = NULL;
    pthread_mutex_lock(&live->lock);
    if (live->spare_count > 0) {
        const uint32_t id = live->spare[--live->spare_count];
        block = &live->blocks[id];
        *block = (struct block){.number = ++live->last_number, .bytes = bytes, .home = home, .id = id};
        *moment = (struct live_moment){live->moving_pages, live->changed_pages};
        move_pages(live, block);
    }
    pthread_mutex_unlock(&live->lock);
    return block;
}

static struct past past_of(const struct block *block, bool is_live) {
    return (struct past){block->number, (uintptr_t)block->address, block->bytes, block->home, is_live};
}

/* Needs: the lock. */
static void remember(struct live *live, const struct block *block, bool is_live) {
    live->history[block->number % HISTORY] = past_of(block, is_live);
}

static struct place place_of(const struct block *block) {
    return (struct place){.address = (uintptr_t)block->address, .bytes = block->bytes, .line = block->id};
}

bool live_put(struct live *live, struct block *block, struct past *other) {
    const struct place place = place_of(block);
    pthread_mutex_lock(&live->lock);
    const struct place *there = places_overlap(live->places, &place);
    if (there != NULL) {
        *other = past_of(&live->blocks[there->line], true);
    } else {
        places_put(live->places, block->id, &place);
        live->moving_pages -= most_pages(live, block->bytes);
        live->bytes += block->bytes;
        if (live->bytes > live->peak_bytes) live->peak_bytes = live->bytes;
        remember(live, block, true);
    }
    pthread_mutex_unlock(&live->lock);
    return there == NULL;
}

void live_take(struct live *live, const struct block *block) {
    pthread_mutex_lock(&live->lock);
    places_take(live->places, block->id);
    move_pages(live, block);
    live->bytes -= block->bytes;
    remember(live, block, false);
    pthread_mutex_unlock(&live->lock);
}

void live_end(struct live *live, struct block *block) {
    pthread_mutex_lock(&live->lock);
    spare_block(live, block);
    pthread_mutex_unlock(&live->lock);
}

uint64_t live_refused(struct live *live, struct block *block, const struct live_moment *moment) {
    pthread_mutex_lock(&live->lock);
    const uint64_t pages = placed_pages(live) + moment->moving_pages + (live->changed_pages - moment->changed_pages);
    spare_block(live, block);
    pthread_mutex_unlock(&live->lock);
    return pages * live->page_bytes;
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

static uint64_t figure(struct live *live, const uint64_t *of) {
    pthread_mutex_lock(&live->lock);
    const uint64_t bytes = *of;
    pthread_mutex_unlock(&live->lock);
    return bytes;
}

uint64_t live_bytes(struct live *live) { return figure(live, &live->bytes); }
uint64_t live_peak_bytes(struct live *live) { return figure(live, &live->peak_bytes); }

size_t live_history(struct live *live, struct past *pasts) {
    size_t count = 0;
    pthread_mutex_lock(&live->lock);
    for (size_t i = 0; i < HISTORY; i++)
        if (live->history[i].number != 0) pasts[count++] = live->history[i];
    pthread_mutex_unlock(&live->lock);
    return count;
}
