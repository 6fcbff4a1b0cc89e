/* SPDX-License-Identifier: Apache-2.0 */
/* Whose an address is: which block of a pool it lies in, and, when a call names another pool's block, which pool's. */
#include <string.h>

#include "alloc/pool.h"

/* A block that has been handed out by a front has no number until here. */
static bool is_live(struct weir_pool *pool, struct weir__extent *block) {
    if (block == NULL || !weir__front_let_go(block)) return false;
    if (block->number == 0) block->number = ++pool->blocks_numbered;
    return true;
}

enum weir_status weir__find_block(struct weir_pool *pool, const char *call, const void *address,
                                  struct weir__extent **block) {
    *block = weir__table_get(&pool->blocks, (uintptr_t)address); /* blocks of no bytes too */
    if (is_live(pool, *block)) return WEIR_OK;
    if (!pool->inside.on && !weir__inside_begin(&pool->inside, pool->granule, &pool->blocks))
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the table of inner addresses");
    *block = weir__inside_find(&pool->inside, &pool->blocks, (uintptr_t)address);
    if (is_live(pool, *block)) return WEIR_OK;
    return WEIR__INVALID("%s: %p lies in no live block of this pool", call, address);
}

enum weir_status weir_pool_find(struct weir_pool *pool, const void *address, struct weir_block *out) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_find");
    if (status != WEIR_OK) return status;
    if (out == NULL || out->size < sizeof out->size)
        return WEIR__INVALID("weir_pool_find: out->size must be sizeof(struct weir_block)");
    pool = weir__capture_home(pool, address);
    struct weir__extent *block;
    struct weir_block found = {.size = out->size < sizeof found ? out->size : sizeof found};
    weir__pool_lock(pool);
    status = weir__find_block(pool, "weir_pool_find", address, &block);
    if (status == WEIR_OK) {
        const struct weir__slot *home = pool->order.slots[block->home];
        found.start = (void *)block->address;
        found.bytes = block->bytes;
        found.requested_bytes = block->requested_bytes;
        found.stream = weir__slot_stream(home);
        found.any_stream = home->kind == WEIR__KIND_ANY;
        found.number = block->number;
    }
    weir__pool_unlock(pool);
    if (status == WEIR_OK) memcpy(out, &found, found.size);
    return status;
}

bool weir__pool_has(struct weir_pool *pool, const void *address) {
    struct weir_block block = {.size = sizeof block};
    const uintptr_t at = (uintptr_t)address;
    if (at - pool->pages.arena < pool->pages.arena_bytes || at - pool->zero_base < weir__zero_range_bytes(pool))
        return true;
    return (pool->policy->name == WEIR_POLICY_PER_STREAM || pool->alone != NULL) &&
           weir_pool_find(pool, address, &block) == WEIR_OK;
}

/* ---- all pools of the process ----------------------------------------------------------------------------------- */

static pthread_mutex_t known_lock =
    PTHREAD_MUTEX_INITIALIZER; /* a pool's lock is taken inside it, never the other way */
static struct weir_pool *known;

void weir__pool_known(struct weir_pool *pool) {
    pthread_mutex_lock(&known_lock);
    pool->next_known = known;
    known = pool;
    pthread_mutex_unlock(&known_lock);
}

void weir__pool_unknown(struct weir_pool *pool) {
    pthread_mutex_lock(&known_lock);
    struct weir_pool **link = &known;
    while (*link != NULL && *link != pool) link = &(*link)->next_known;
    if (*link != NULL) *link = pool->next_known;
    pthread_mutex_unlock(&known_lock);
}

void weir__pools_pass(void) {
    pthread_mutex_lock(&known_lock);
    for (struct weir_pool *pool = known; pool != NULL; pool = pool->next_known) {
        pthread_mutex_lock(&pool->lock);
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_mutex_unlock(&known_lock);
}

enum weir_status weir__explain(struct weir_pool *pool, const char *call, const void *block, enum weir_status status) {
    int device = -1;
    if (status != WEIR_INVALID) return status;
    pthread_mutex_lock(&known_lock);
    for (struct weir_pool *other = known; other != NULL && device < 0; other = other->next_known) {
        if (other == pool) continue;
        pthread_mutex_lock(&other->lock);
        const struct weir__extent *of = weir__table_get(&other->blocks, (uintptr_t)block);
        if (of != NULL && !weir__front_has(of)) device = other->device->ordinal;
        pthread_mutex_unlock(&other->lock);
    }
    pthread_mutex_unlock(&known_lock);
    if (device < 0) return status;
    return WEIR__INVALID("%s: %p is a block of a pool of device %d; the call names another pool, of device %d", call,
                         block, device, pool->device->ordinal);
}
