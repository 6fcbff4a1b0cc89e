/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/registered.h"

#include <stdlib.h>

#include "alloc/pool.h"

struct weir__registration {
    struct weir__registration *next;
    uintptr_t address;
    size_t bytes;
};

/* The places that a range of the arena touches. */
struct span {
    uint32_t begin, end;
};

static struct span span_of(const struct weir_pool *pool, uintptr_t address, size_t bytes) {
    return (struct span){weir__place_of(&pool->pages, weir__page_floor(&pool->pages, address)),
                         weir__place_of(&pool->pages, weir__page_ceil(&pool->pages, address + bytes))};
}

static bool in_arena(const struct weir_pool *pool, uintptr_t address) {
    return address - pool->pages.arena < pool->pages.arena_bytes;
}

static bool overlaps(const struct weir__registered *registered, const struct weir__extent *extent) {
    for (const struct weir__registration *at = registered->first; at != NULL; at = at->next)
        if (at->address < weir__extent_end(extent) && extent->address < at->address + at->bytes) return true;
    return false;
}

bool weir__is_fixed(const struct weir_pool *pool, const struct weir__extent *extent) {
    if (pool->registered.first == NULL) return false;
    if (pool->registered.counts == NULL || extent->alone) return overlaps(&pool->registered, extent);
    const struct span span = span_of(pool, extent->address, extent->bytes);
    for (uint32_t place = span.begin; place < span.end; place++)
        if (pool->registered.counts[place] > 0) return true;
    return false;
}

/* ---- idle memory ------------------------------------------------------------------------------------------------ */

/* Where the last run of places begins that are all registered, or all not: its first byte, or the extent's. */
static uintptr_t last_run(const struct weir_pool *pool, const struct weir__extent *extent) {
    const uint32_t *counts = pool->registered.counts;
    if (counts == NULL) return extent->address;
    const struct span span = span_of(pool, extent->address, extent->bytes);
    uint32_t place = span.end - 1;
    while (place > span.begin && (counts[place - 1] > 0) == (counts[span.end - 1] > 0)) place--;
    return place == span.begin ? extent->address : weir__place_address(&pool->pages, place);
}

bool weir__settle_by_registration(struct weir_pool *pool, struct weir__extent *extent) {
    uintptr_t begin;
    bool apart = true;
    extent->state = WEIR__MOVING; /* not idle yet, for its own back to merge with */
    while (apart && (begin = last_run(pool, extent)) > extent->address) {
        struct weir__extent *back = NULL;
        if (weir__extent_reserve(&pool->store, 1))
            back = weir__extent_split(&pool->store, extent, begin - extent->address);
        apart = back != NULL;
        if (!apart) break;
        weir__own(pool, back);
        weir__settle_idle(pool, back);
    }
    weir__settle_idle(pool, extent);
    return apart;
}

/* An idle extent over these places that is to be fixed, or not, or in part, and is not so. */
static struct weir__extent *wrongly_fixed(const struct weir_pool *pool, struct span span) {
    const uintptr_t end = weir__place_address(&pool->pages, span.end);
    for (struct weir__extent *at = pool->pages.extent_at[span.begin]; at != NULL && at->address < end; at = at->next)
        if (at->state == WEIR__IDLE && (last_run(pool, at) > at->address || at->fixed != weir__is_fixed(pool, at)))
            return at;
    return NULL;
}

static void settle_again(struct weir_pool *pool, const struct weir__registration *registration) {
    struct weir__extent *extent;
    if (!in_arena(pool, registration->address)) return;
    const struct span span = span_of(pool, registration->address, registration->bytes);
    do {
        extent = wrongly_fixed(pool, span);
        if (extent != NULL) weir__idle_remove(pool, extent);
    } while (extent != NULL && weir__settle_by_registration(pool, extent));
}

void weir__registered_clear(struct weir_pool *pool) {
    while (pool->registered.first != NULL) {
        struct weir__registration *registration = pool->registered.first;
        pool->registered.first = registration->next;
        free(registration);
    }
    free(pool->registered.counts);
    pool->registered.counts = NULL;
}

/* ---- public ----------------------------------------------------------------------------------------------------- */

static enum weir_status no_host_memory(void) {
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a registration");
}

static enum weir_status check(const struct weir_pool *pool, const char *call, const void *address, size_t bytes) {
    enum weir_status status = weir__pool_usable(pool, call);
    if (status != WEIR_OK) return status;
    if (bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)address)
        return WEIR__INVALID("%s: %zu bytes from %p on are no range", call, bytes, address);
    return WEIR_OK;
}

static void count_places(struct weir_pool *pool, const struct weir__registration *registration, bool more) {
    if (!in_arena(pool, registration->address)) return;
    const struct span span = span_of(pool, registration->address, registration->bytes);
    for (uint32_t place = span.begin; place < span.end; place++)
        pool->registered.counts[place] += more ? 1u : UINT32_MAX;
}

static enum weir_status add(struct weir_pool *pool, uintptr_t address, size_t bytes) {
    const bool shared = pool->pages.arena_bytes > 0;
    if (shared && pool->registered.counts == NULL)
        pool->registered.counts = calloc(pool->pages.arena_bytes / pool->granule, sizeof *pool->registered.counts);
    struct weir__registration *registration = malloc(sizeof *registration);
    if (registration == NULL || (shared && pool->registered.counts == NULL)) {
        free(registration);
        return no_host_memory();
    }
    *registration = (struct weir__registration){.next = pool->registered.first, .address = address, .bytes = bytes};
    pool->registered.first = registration;
    count_places(pool, registration, true);
    settle_again(pool, registration); /* what is idle beside the block on its pages */
    return WEIR_OK;
}

enum weir_status weir_pool_register(struct weir_pool *pool, const void *address, size_t bytes) {
    const char *call = "weir_pool_register";
    enum weir_status status = check(pool, call, address, bytes);
    if (status != WEIR_OK) return status;
    pool = weir__capture_home(pool, address);
    struct weir__extent *block = NULL;
    weir__pool_begin(pool);
    status = weir__find_block(pool, call, address, &block);
    if (status == WEIR_OK && bytes > weir__extent_end(block) - (uintptr_t)address)
        status = WEIR__INVALID("%s: %zu bytes from %p on do not lie in the block of %zu bytes at %#zx", call, bytes,
                               address, block->bytes, (size_t)block->address);
    if (status == WEIR_OK) status = add(pool, (uintptr_t)address, bytes);
    weir__pool_end(pool);
    return status;
}

enum weir_status weir_pool_unregister(struct weir_pool *pool, const void *address, size_t bytes) {
    enum weir_status status = check(pool, "weir_pool_unregister", address, bytes);
    if (status != WEIR_OK) return status;
    pool = weir__capture_home(pool, address);
    weir__pool_begin(pool);
    struct weir__registration **link = &pool->registered.first;
    while (*link != NULL && ((*link)->address != (uintptr_t)address || (*link)->bytes != bytes)) link = &(*link)->next;
    struct weir__registration *registration = *link;
    if (registration == NULL) {
        status = WEIR__INVALID("weir_pool_unregister: %zu bytes from %p on are not registered", bytes, address);
    } else {
        *link = registration->next;
        count_places(pool, registration, false);
        settle_again(pool, registration);
        weir__waiting_change(pool);
        free(registration);
    }
    weir__pool_end(pool);
    return status;
}
