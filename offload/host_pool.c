/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/host_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/error.h"
#include "offload/budget.h"
#include "offload/numa.h"
#include "offload/order.h"
#include "offload/runs.h"
#include "offload/slabs.h"
#include "offload/small.h"

enum {
    SMALL_STEP = 64,    /* alignment that is promised */
    LARGE_STEP = 256,   /* at most 3 % of the smallest block that is cut from the runs */
    SIZE_BUCKETS = 256, /* sizes that live at once are few: a model has some tens of shapes */
    SLAB_MIN = 4 << 20,
    SLAB_MAX = 1 << 30,
    GROWTH_STEP = 2 << 20, /* slabs beyond the usual size are a multiple of this: the most that one request can waste */
};

struct size {
    size_t capacity;
    size_t blocks; /* handed out or idle */
    struct block *oldest, *newest;
    struct size *next;
};

struct block {
    char *address;
    size_t bytes; /* as asked; 0 while idle */
    struct size *size;
    weir_event busy;
    struct block *next;       /* in the size's idle list */
    struct block *next_known; /* in the address table */
};

struct weir_host_pool {
    pthread_mutex_t lock;
    pthread_cond_t grown;
    bool growing;
    bool pin_failed; /* no more growth: the pool goes on with what it has */
    struct weir_device *device;
    struct weir__events events;
    struct weir__slabs slabs;
    struct weir__runs runs;
    struct weir__small *small;
    size_t slab_bytes, page_bytes;
    struct size *sizes[SIZE_BUCKETS];
    struct block **known; /* by address */
    size_t known_buckets, block_count;
    size_t live_bytes, peak_live_bytes;
    uint64_t refused;
};

/* ---- sizes and blocks ------------------------------------------------------------------------------------------ */

static size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

static size_t capacity_of(size_t bytes) { return round_up(bytes, bytes <= WEIR__SMALL_MAX ? SMALL_STEP : LARGE_STEP); }

static size_t scatter(uintptr_t key, size_t buckets) {
    return (size_t)(((uint64_t)key * 0x9E3779B97F4A7C15u) >> 20) % buckets;
}

static struct size **find_size(struct weir_host_pool *pool, size_t capacity) {
    struct size **at = &pool->sizes[scatter(capacity / SMALL_STEP, SIZE_BUCKETS)];
    while (*at != NULL && (*at)->capacity != capacity) {
        at = &(*at)->next;
    }
    return at;
}

static struct block **find_block(struct weir_host_pool *pool, const void *address) {
    struct block **at = &pool->known[scatter((uintptr_t)address / SMALL_STEP, pool->known_buckets)];
    while (*at != NULL && (*at)->address != (const char *)address) {
        at = &(*at)->next_known;
    }
    return at;
}

/* Doubles the address table when it is full; without memory it only gets slower. */
static void widen_known(struct weir_host_pool *pool) {
    if (pool->block_count < pool->known_buckets) {
        return;
    }
    struct block **old = pool->known;
    size_t old_buckets = pool->known_buckets;
    struct block **wide = calloc(old_buckets * 2, sizeof *wide);
    if (wide == NULL) {
        return;
    }
    pool->known = wide;
    pool->known_buckets = old_buckets * 2;
    for (size_t i = 0; i < old_buckets; i++) {
        for (struct block *block = old[i], *next; block != NULL; block = next) {
            next = block->next_known;
            block->next_known = NULL;
            *find_block(pool, block->address) = block;
        }
    }
    free(old);
}

static char *cut_bytes(struct weir_host_pool *pool, size_t capacity) {
    if (capacity <= WEIR__SMALL_MAX) {
        return weir__small_alloc(pool->small, capacity, SMALL_STEP);
    }
    size_t offset;
    return weir__runs_take(&pool->runs, capacity, LARGE_STEP, &offset) ? pool->slabs.base + offset : NULL;
}

static void return_bytes(struct weir_host_pool *pool, char *address, size_t capacity) {
    if (capacity <= WEIR__SMALL_MAX) {
        weir__small_free(pool->small, address);
    } else {
        weir__runs_give(&pool->runs, (size_t)(address - pool->slabs.base), capacity);
    }
}

/* Gives the size of a capacity, made when it is not there yet; NULL without memory. */
static struct size *need_size(struct weir_host_pool *pool, size_t capacity) {
    struct size **at = find_size(pool, capacity);
    if (*at == NULL && (*at = calloc(1, sizeof **at)) != NULL) {
        (*at)->capacity = capacity;
    }
    return *at;
}

static void drop_size_if_empty(struct weir_host_pool *pool, struct size *size) {
    if (size->blocks == 0) {
        struct size **at = find_size(pool, size->capacity);
        *at = size->next;
        free(size);
    }
}

/* A new block cut from what is free in the slabs; NULL when nothing fits. */
static struct block *cut_block(struct weir_host_pool *pool, size_t capacity) {
    struct block *block = calloc(1, sizeof *block);
    struct size *size = block != NULL ? need_size(pool, capacity) : NULL;
    if (size == NULL) {
        free(block);
        return NULL;
    }
    block->address = cut_bytes(pool, capacity);
    if (block->address == NULL) {
        drop_size_if_empty(pool, size);
        free(block);
        return NULL;
    }
    block->size = size;
    size->blocks++;
    widen_known(pool);
    struct block **at = find_block(pool, block->address);
    assert(*at == NULL);
    *at = block;
    pool->block_count++;
    return block;
}

/* Needs: not in an idle list, not busy. */
static void dissolve(struct weir_host_pool *pool, struct block *block) {
    struct size *size = block->size;
    struct block **at = find_block(pool, block->address);
    *at = block->next_known;
    pool->block_count--;
    return_bytes(pool, block->address, size->capacity);
    free(block);
    size->blocks--;
    drop_size_if_empty(pool, size);
}

/* ---- idle blocks ----------------------------------------------------------------------------------------------- */

static void push_idle(struct block *block) {
    struct size *size = block->size;
    block->next = NULL;
    if (size->newest != NULL) {
        size->newest->next = block;
    } else {
        size->oldest = block;
    }
    size->newest = block;
}

/* True when no copy can still touch an idle block: then its event is given back. */
static bool passed(struct weir_host_pool *pool, struct block *block) {
    if (block->busy == NULL) {
        return true;
    }
    if (!weir__offload_passed(pool->device, "host.idle", block->busy)) {
        return false;
    }
    weir__events_give(&pool->events, block->busy);
    block->busy = NULL;
    return true;
}

/* Takes an idle block out of its list: the oldest, or the oldest that no copy can still touch. */
static struct block *pop_idle(struct weir_host_pool *pool, struct size *size, bool may_be_busy) {
    struct block *previous = NULL;
    for (struct block *block = size->oldest; block != NULL; previous = block, block = block->next) {
        if (!may_be_busy && !passed(pool, block)) {
            continue;
        }
        if (previous != NULL) {
            previous->next = block->next;
        } else {
            size->oldest = block->next;
        }
        if (size->newest == block) {
            size->newest = previous;
        }
        return block;
    }
    return NULL;
}

static bool dissolve_idle_of(struct weir_host_pool *pool, struct size *size) {
    bool any = false;
    for (size_t left = size->blocks; left > 0; left--) { /* the last one takes the size with it */
        struct block *block = pop_idle(pool, size, false);
        if (block == NULL) {
            break;
        }
        dissolve(pool, block);
        any = true;
    }
    return any;
}

/* Dissolves the idle blocks whose copies have passed; false when there are none. */
static bool dissolve_idle(struct weir_host_pool *pool) {
    bool any = false;
    for (size_t i = 0; i < SIZE_BUCKETS; i++) {
        for (struct size *size = pool->sizes[i], *next; size != NULL; size = next) {
            next = size->next;
            any = dissolve_idle_of(pool, size) || any;
        }
    }
    return any;
}

/* ---- growth ---------------------------------------------------------------------------------------------------- */

/* How much a slab must have so that `capacity` bytes fit afterwards; 0 when the budget does not allow it. */
static size_t growth_for(const struct weir_host_pool *pool, size_t capacity) {
    size_t left = pool->slabs.budget_bytes - pool->slabs.taken_bytes;
    size_t tail = weir__runs_tail(&pool->runs);
    size_t least = pool->page_bytes;
    if (capacity > WEIR__SMALL_MAX) {
        assert(tail < capacity); /* else it would have fitted: all pieces are multiples of LARGE_STEP */
        least = round_up(capacity - tail, pool->page_bytes);
    }
    size_t wish = least <= pool->slab_bytes ? pool->slab_bytes : round_up(least, GROWTH_STEP);
    wish = wish < left ? wish : left;
    return wish >= least ? wish : 0;
}

static void say_full(const struct weir_host_pool *pool, size_t capacity) {
    weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL,
               "host pool: %zu bytes asked; %zu of the budget of %zu bytes are in slabs, %zu of them free%s", capacity,
               pool->slabs.taken_bytes, pool->slabs.budget_bytes, pool->runs.free_bytes,
               pool->pin_failed ? "; no more is taken since a registration failed" : "");
}

/* Adds a slab, or waits for the growth that runs. True: look again. False: the error says why not.
 * The lock is held at entry and at return, and let go in between. */
static bool grow(struct weir_host_pool *pool, size_t capacity) {
    if (pool->growing) {
        while (pool->growing) {
            pthread_cond_wait(&pool->grown, &pool->lock);
        }
        return true;
    }
    size_t bytes = pool->pin_failed ? 0 : growth_for(pool, capacity);
    if (bytes == 0 || !weir__slabs_reserve(&pool->slabs, bytes)) {
        say_full(pool, capacity);
        return false;
    }
    struct weir__growth growth;
    pool->growing = true;
    pthread_mutex_unlock(&pool->lock);
    enum weir_status status = weir__slabs_prepare(&pool->slabs, bytes, &growth);
    pthread_mutex_lock(&pool->lock);
    pool->slabs.register_calls += growth.register_calls;
    pool->slabs.register_failures += growth.register_failures;
    pool->pin_failed = pool->pin_failed || growth.register_failures > 0;
    if (status == WEIR_OK) {
        weir__slabs_commit(&pool->slabs, &growth);
        weir__runs_extend(&pool->runs, growth.bytes);
    }
    pool->growing = false;
    pthread_cond_broadcast(&pool->grown);
    return status == WEIR_OK;
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

static struct block *idle_block(struct weir_host_pool *pool, size_t capacity, bool may_be_busy) {
    struct size *size = *find_size(pool, capacity);
    return size != NULL ? pop_idle(pool, size, may_be_busy) : NULL;
}

static struct block *find_memory(struct weir_host_pool *pool, size_t capacity, bool may_be_busy) {
    for (;;) {
        struct block *block = idle_block(pool, capacity, may_be_busy);
        if (block == NULL) {
            block = cut_block(pool, capacity);
        }
        if (block != NULL) {
            return block;
        }
        if (!dissolve_idle(pool) && !grow(pool, capacity)) {
            return NULL;
        }
    }
}

static void *hand_out(struct weir_host_pool *pool, struct block *block, size_t bytes, weir_event *busy) {
    *busy = block->busy;
    block->busy = NULL;
    block->bytes = bytes;
    pool->live_bytes += bytes;
    if (pool->live_bytes > pool->peak_live_bytes) {
        pool->peak_live_bytes = pool->live_bytes;
    }
    return block->address;
}

static enum weir_status request(struct weir_host_pool *pool, size_t bytes, bool may_be_busy, void **out,
                                weir_event *busy) {
    *out = NULL;
    *busy = NULL;
    if (bytes == 0) {
        return WEIR_OK;
    }
    pthread_mutex_lock(&pool->lock);
    struct block *block = NULL;
    if (bytes > pool->slabs.budget_bytes) {
        weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: %zu bytes asked, more than the budget of %zu bytes",
                   bytes, pool->slabs.budget_bytes);
    } else {
        block = find_memory(pool, capacity_of(bytes), may_be_busy);
    }
    if (block != NULL) {
        *out = hand_out(pool, block, bytes, busy);
    } else {
        pool->refused++;
    }
    pthread_mutex_unlock(&pool->lock);
    return block != NULL ? WEIR_OK : WEIR_OUT_OF_HOST_MEMORY;
}

enum weir_status weir__host_pool_take(struct weir_host_pool *pool, size_t bytes, void **out, weir_event *busy) {
    return request(pool, bytes, true, out, busy);
}

void weir__host_pool_give(struct weir_host_pool *pool, void *address, weir_event busy) {
    if (address == NULL) {
        assert(busy == NULL);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    struct block *block = *find_block(pool, address);
    bool known = block != NULL && block->bytes > 0;
    if (known) {
        pool->live_bytes -= block->bytes;
        block->bytes = 0;
        block->busy = busy;
        push_idle(block);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!known) {
        weir__log(WEIR__LOG_ERROR, "host pool: free of %p, which is no block's start or is free already", address);
        weir__events_give(&pool->events, busy);
    }
}

/* ---- the public face ------------------------------------------------------------------------------------------- */

struct weir_device *weir__host_pool_device(struct weir_host_pool *pool) {
    return pool->device;
}

struct weir__events *weir__host_pool_events(struct weir_host_pool *pool) {
    return &pool->events;
}

enum weir_status weir_host_pool_alloc(struct weir_host_pool *pool, size_t bytes, void **out) {
    if (pool == NULL || out == NULL) {
        return WEIR__INVALID("weir_host_pool_alloc: %s is NULL", pool == NULL ? "pool" : "out");
    }
    weir_event busy;
    enum weir_status status = request(pool, bytes, false, out, &busy);
    assert(busy == NULL);
    return status;
}

void weir_host_pool_free(struct weir_host_pool *pool, void *address) {
    if (pool != NULL) {
        weir__host_pool_give(pool, address, NULL);
    }
}

enum weir_status weir_host_pool_free_on(struct weir_host_pool *pool, void *address, weir_stream stream) {
    if (pool == NULL) {
        return WEIR__INVALID("weir_host_pool_free_on: pool is NULL");
    }
    if (address == NULL) {
        return WEIR_OK;
    }
    weir_event busy;
    enum weir_status status = weir__events_record(&pool->events, stream, &busy);
    if (status == WEIR_OK) {
        weir__host_pool_give(pool, address, busy);
    }
    return status;
}

size_t weir_host_pool_span(struct weir_host_pool *pool, const void *address) {
    if (pool == NULL) {
        return 0;
    }
    size_t span = 0;
    pthread_mutex_lock(&pool->lock);
    uintptr_t offset = (uintptr_t)address - (uintptr_t)pool->slabs.base; /* huge when it lies before */
    if (offset < pool->slabs.taken_bytes) {
        span = weir__slabs_span(&pool->slabs, offset);
    }
    pthread_mutex_unlock(&pool->lock);
    return span;
}

enum weir_status weir_host_pool_get_stats(struct weir_host_pool *pool, struct weir_host_pool_stats *stats) {
    if (pool == NULL || stats == NULL || stats->size != sizeof *stats) {
        return WEIR__INVALID("weir_host_pool_get_stats: needs a pool and stats->size == %zu", sizeof *stats);
    }
    pthread_mutex_lock(&pool->lock);
    *stats = (struct weir_host_pool_stats){
        .size = sizeof *stats,
        .budget_bytes = pool->slabs.budget_bytes,
        .slab_bytes = pool->slabs.taken_bytes,
        .registered_bytes = pool->slabs.taken_bytes,
        .live_bytes = pool->live_bytes,
        .peak_live_bytes = pool->peak_live_bytes,
        .slabs = pool->slabs.slabs,
        .register_calls = pool->slabs.register_calls,
        .register_failures = pool->slabs.register_failures,
        .refused = pool->refused,
        .numa_node = pool->slabs.bound ? pool->slabs.node : -1,
        .bound = pool->slabs.bound,
    };
    pthread_mutex_unlock(&pool->lock);
    return WEIR_OK;
}

/* ---- create and destroy ---------------------------------------------------------------------------------------- */

static size_t clamp(size_t value, size_t low, size_t high) { return value < low ? low : value > high ? high : value; }

static enum weir_status check_options(const struct weir_host_pool_options *options) {
    if (options->size != sizeof *options) {
        return WEIR__INVALID("host pool: options->size is %zu, %zu expected", options->size, sizeof *options);
    }
    if (options->ranks < 0) {
        return WEIR__INVALID("host pool: ranks is %d, at least 0 expected", options->ranks);
    }
    if (options->numa_node < -1) {
        return WEIR__INVALID("host pool: numa_node is %d, at least -1 expected", options->numa_node);
    }
    if (options->budget_bytes > SIZE_MAX / 4) {
        return WEIR__INVALID("host pool: budget_bytes is %zu, at most %zu expected", options->budget_bytes,
                             SIZE_MAX / 4);
    }
    return WEIR_OK;
}

/* Fills in what the options leave open, and rounds to pages. */
static enum weir_status settle_sizes(struct weir_host_pool *pool, const struct weir_host_pool_options *options,
                                     size_t *budget_bytes) {
    size_t budget = options->budget_bytes;
    if (budget == 0) {
        budget = weir__default_budget(weir__memory_available(""), options->ranks);
    }
    budget -= budget % pool->page_bytes;
    if (budget == 0) {
        return WEIR__INVALID("host pool: a budget of %zu bytes is less than a page of %zu bytes", options->budget_bytes,
                             pool->page_bytes);
    }
    if (options->slab_bytes > budget) {
        return WEIR__INVALID("host pool: a budget of %zu bytes is less than one slab of %zu bytes", budget,
                             options->slab_bytes);
    }
    size_t slab = options->slab_bytes != 0 ? options->slab_bytes : clamp(budget / 16, SLAB_MIN, SLAB_MAX);
    slab = round_up(slab, pool->page_bytes);
    pool->slab_bytes = slab < budget ? slab : budget;
    *budget_bytes = budget;
    return WEIR_OK;
}

static enum weir_status choose_node(struct weir_device *device, int wanted, int *node) {
    struct weir_device_info info = {.size = sizeof info};
    enum weir_status status = weir_device_get_info(device, &info);
    if (status != WEIR_OK) {
        return status;
    }
    struct weir__numa_topology *topology = malloc(sizeof *topology);
    if (topology == NULL) {
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: no memory for the topology");
    }
    struct weir__numa_choice choice;
    weir__numa_read("", topology);
    status = weir__numa_choose(topology, wanted, info.numa_node, &choice);
    free(topology);
    if (status == WEIR_OK) {
        weir__log(WEIR__LOG_INFO, "host pool: NUMA node %d (%s)", choice.node, choice.why);
        *node = choice.node;
    }
    return status;
}

/* Needs: no growth, no copy in flight. Also for a pool that was made in part. */
static void tear_down(struct weir_host_pool *pool) {
    for (size_t i = 0; i < pool->known_buckets; i++) {
        for (struct block *block = pool->known[i], *next; block != NULL; block = next) {
            next = block->next_known;
            weir__events_give(&pool->events, block->busy);
            free(block);
        }
    }
    for (size_t i = 0; i < SIZE_BUCKETS; i++) {
        for (struct size *size = pool->sizes[i], *next; size != NULL; size = next) {
            next = size->next;
            free(size);
        }
    }
    if (pool->small != NULL) {
        weir__small_destroy(pool->small);
    }
    if (pool->slabs.mapping != NULL) {
        weir__slabs_destroy(&pool->slabs);
    }
    weir__runs_clear(&pool->runs);
    weir__events_destroy(&pool->events);
    free(pool->known);
    pthread_cond_destroy(&pool->grown);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static enum weir_status set_up(struct weir_host_pool *pool, const struct weir_host_pool_options *options) {
    size_t budget_bytes = 0;
    int node = -1;
    enum weir_status status = settle_sizes(pool, options, &budget_bytes);
    if (status == WEIR_OK) {
        status = choose_node(pool->device, options->numa_node, &node);
    }
    if (status == WEIR_OK) {
        status = weir__slabs_init(&pool->slabs, pool->device, budget_bytes, WEIR__SLABS_CHUNK_MAX, node);
    }
    if (status == WEIR_OK) {
        pool->known_buckets = 256;
        pool->known = calloc(pool->known_buckets, sizeof *pool->known);
        if (pool->known == NULL || !weir__runs_init(&pool->runs)) {
            pool->known_buckets = pool->known != NULL ? pool->known_buckets : 0;
            status = weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: no memory for its tables");
        }
    }
    return status == WEIR_OK ? weir__small_create(&pool->runs, pool->slabs.base, &pool->small) : status;
}

enum weir_status weir_host_pool_create(struct weir_device *device, const struct weir_host_pool_options *options,
                                       struct weir_host_pool **out) {
    const struct weir_host_pool_options defaults = {.size = sizeof defaults, .numa_node = -1};
    if (device == NULL || out == NULL) {
        return WEIR__INVALID("weir_host_pool_create: %s is NULL", device == NULL ? "device" : "out");
    }
    *out = NULL;
    options = options != NULL ? options : &defaults;
    enum weir_status status = check_options(options);
    if (status != WEIR_OK) {
        return status;
    }
    struct weir_host_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: no memory for it");
    }
    pool->device = device;
    pool->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->grown, NULL);
    weir__events_init(&pool->events, device);
    status = set_up(pool, options);
    if (status != WEIR_OK) {
        tear_down(pool);
        return status;
    }
    *out = pool;
    return WEIR_OK;
}

void weir_host_pool_destroy(struct weir_host_pool *pool) {
    if (pool != NULL) {
        tear_down(pool);
    }
}
