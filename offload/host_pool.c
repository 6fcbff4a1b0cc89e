/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/host_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/emulated.h"
#include "device/error.h"
#include "device/watched.h"
#include "offload/blocks.h"
#include "offload/budget.h"
#include "offload/numa.h"
#include "offload/slabs.h"

enum {
    SLAB_MIN = 4 << 20,
    SLAB_MAX = 1 << 30,
    GROWTH_STEP = 2 << 20, /* slabs beyond the usual size are a multiple of this: the most that one request can waste */
};

struct weir_host_pool {
    pthread_mutex_t lock;
    pthread_cond_t grown;
    bool growing;
    bool pin_failed; /* no more growth: the pool goes on with what it has */
    struct weir_device *device;
    struct weir__events events;
    struct weir__slabs slabs;
    struct weir__blocks blocks;
    size_t slab_bytes, page_bytes;
    size_t live_bytes, peak_live_bytes;
    uint64_t refused;
};

/* ---- growth ---------------------------------------------------------------------------------------------------- */

/* How much a slab must have so that `capacity` bytes fit afterwards; 0 when the budget does not allow it. */
static size_t growth_for(const struct weir_host_pool *pool, size_t capacity) {
    size_t left = pool->slabs.budget_bytes - pool->slabs.taken_bytes;
    size_t tail = weir__runs_tail(&pool->blocks.runs);
    size_t least = pool->page_bytes;
    if (capacity > WEIR__SMALL_MAX && capacity > tail) /* small ones need an extent of the arena: some pages */
        least = weir__round_up(capacity - tail, pool->page_bytes);
    size_t wish = least <= pool->slab_bytes ? pool->slab_bytes : weir__round_up(least, GROWTH_STEP);
    wish = wish < left ? wish : left;
    return wish >= least ? wish : 0;
}

static void say_full(const struct weir_host_pool *pool, size_t capacity) {
    weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL,
               "host pool: %zu bytes asked; %zu of the budget of %zu bytes are in slabs, %zu of them free%s", capacity,
               pool->slabs.taken_bytes, pool->slabs.budget_bytes, pool->blocks.runs.free_bytes,
               pool->pin_failed ? "; no more is taken since a registration failed" : "");
}

static void wait_for_growth(struct weir_host_pool *pool) {
    if (!weir__device_takes_turns(pool->device)) {
        pthread_cond_wait(&pool->grown, &pool->lock);
        return;
    }
    pthread_mutex_unlock(&pool->lock);
    weir__device_pause(pool->device, WEIR__TURN_NS);
    pthread_mutex_lock(&pool->lock);
}

/* Adds a slab, or waits for the growth that runs. True: look again. False: the error says why not.
 * The lock is held at entry and at return, and let go in between. */
static bool grow(struct weir_host_pool *pool, size_t capacity) {
    if (pool->growing) {
        while (pool->growing) wait_for_growth(pool);
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
        weir__runs_extend(&pool->blocks.runs, growth.bytes);
    }
    pool->growing = false;
    pthread_cond_broadcast(&pool->grown);
    return status == WEIR_OK;
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

static struct weir__block *find_memory(struct weir_host_pool *pool, size_t capacity, bool may_be_busy) {
    for (;;) {
        struct weir__block *block = weir__blocks_pop_idle(&pool->blocks, capacity, may_be_busy);
        if (block == NULL) block = weir__blocks_cut(&pool->blocks, capacity);
        if (block != NULL) return block;
        if (!weir__blocks_dissolve_idle(&pool->blocks) && !grow(pool, capacity)) return NULL;
    }
}

/* A block without an event is one that no copy can still touch. */
static void *hand_out(struct weir_host_pool *pool, struct weir__block *block, size_t bytes, weir_event *busy) {
    if (block->busy == NULL) weir__device_host_access(pool->device, block->address, bytes, true);
    *busy = block->busy;
    block->busy = NULL;
    block->bytes = bytes;
    pool->live_bytes += bytes;
    if (pool->live_bytes > pool->peak_live_bytes) pool->peak_live_bytes = pool->live_bytes;
    return block->address;
}

static enum weir_status request(struct weir_host_pool *pool, size_t bytes, bool may_be_busy, void **out,
                                weir_event *busy) {
    *out = NULL;
    *busy = NULL;
    if (bytes == 0) return WEIR_OK;
    pthread_mutex_lock(&pool->lock);
    struct weir__block *block = NULL;
    if (bytes > pool->slabs.budget_bytes) {
        weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: %zu bytes asked, more than the budget of %zu bytes",
                   bytes, pool->slabs.budget_bytes);
    } else {
        block = find_memory(pool, weir__blocks_capacity(bytes), may_be_busy);
    }
    if (block != NULL)
        *out = hand_out(pool, block, bytes, busy);
    else
        pool->refused++;
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
    struct weir__block *block = weir__blocks_find(&pool->blocks, address);
    bool known = block != NULL && block->bytes > 0;
    if (known) {
        if (busy == NULL) weir__device_host_access(pool->device, block->address, block->bytes, true);
        pool->live_bytes -= block->bytes;
        block->bytes = 0;
        block->busy = busy;
        weir__blocks_push_idle(block);
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
    if (pool == NULL || out == NULL)
        return WEIR__INVALID("weir_host_pool_alloc: %s is NULL", pool == NULL ? "pool" : "out");
    weir_event busy;
    enum weir_status status = request(pool, bytes, false, out, &busy);
    assert(busy == NULL);
    return status;
}

void weir_host_pool_free(struct weir_host_pool *pool, void *address) {
    if (pool != NULL) weir__host_pool_give(pool, address, NULL);
}

enum weir_status weir_host_pool_free_on(struct weir_host_pool *pool, void *address, weir_stream stream) {
    if (pool == NULL) return WEIR__INVALID("weir_host_pool_free_on: pool is NULL");
    if (address == NULL) return WEIR_OK;
    weir_event busy;
    enum weir_status status = weir__events_record(&pool->events, stream, &busy);
    if (status == WEIR_OK) weir__host_pool_give(pool, address, busy);
    return status;
}

size_t weir_host_pool_span(struct weir_host_pool *pool, const void *address) {
    if (pool == NULL) return 0;
    size_t span = 0;
    pthread_mutex_lock(&pool->lock);
    uintptr_t offset = (uintptr_t)address - (uintptr_t)pool->slabs.base; /* huge when it lies before */
    if (offset < pool->slabs.taken_bytes) span = weir__slabs_span(&pool->slabs, offset);
    pthread_mutex_unlock(&pool->lock);
    return span;
}

enum weir_status weir_host_pool_get_stats(struct weir_host_pool *pool, struct weir_host_pool_stats *stats) {
    if (pool == NULL || stats == NULL || stats->size != sizeof *stats)
        return WEIR__INVALID("weir_host_pool_get_stats: needs a pool and stats->size == %zu", sizeof *stats);
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
    if (options->size != sizeof *options)
        return WEIR__INVALID("host pool: options->size is %zu, %zu expected", options->size, sizeof *options);
    if (options->ranks < 0) return WEIR__INVALID("host pool: ranks is %d, at least 0 expected", options->ranks);
    if (options->numa_node < -1)
        return WEIR__INVALID("host pool: numa_node is %d, at least -1 expected", options->numa_node);
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
    if (budget == 0) budget = weir__default_budget(weir__memory_available(""), options->ranks);
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
    slab = weir__round_up(slab, pool->page_bytes);
    pool->slab_bytes = slab < budget ? slab : budget;
    *budget_bytes = budget;
    return WEIR_OK;
}

static enum weir_status choose_node(struct weir_device *device, int wanted, int *node) {
    struct weir_device_info info = {.size = sizeof info};
    enum weir_status status = weir_device_get_info(device, &info);
    if (status != WEIR_OK) return status;
    struct weir__numa_topology *topology = malloc(sizeof *topology);
    if (topology == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: no memory for the topology");
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
    weir__blocks_clear(&pool->blocks);
    if (pool->slabs.mapping != NULL) weir__slabs_destroy(&pool->slabs);
    weir__events_destroy(&pool->events);
    pthread_cond_destroy(&pool->grown);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static enum weir_status set_up(struct weir_host_pool *pool, const struct weir_host_pool_options *options) {
    size_t budget_bytes = 0;
    int node = -1;
    enum weir_status status = settle_sizes(pool, options, &budget_bytes);
    if (status == WEIR_OK) status = choose_node(pool->device, options->numa_node, &node);
    if (status == WEIR_OK)
        status = weir__slabs_init(&pool->slabs, pool->device, budget_bytes, WEIR__SLABS_CHUNK_MAX, node);
    if (status == WEIR_OK) status = weir__blocks_init(&pool->blocks, pool->device, &pool->events, pool->slabs.base);
    return status;
}

enum weir_status weir_host_pool_create(struct weir_device *device, const struct weir_host_pool_options *options,
                                       struct weir_host_pool **out) {
    const struct weir_host_pool_options defaults = {.size = sizeof defaults, .numa_node = -1};
    if (device == NULL || out == NULL)
        return WEIR__INVALID("weir_host_pool_create: %s is NULL", device == NULL ? "device" : "out");
    *out = NULL;
    options = options != NULL ? options : &defaults;
    enum weir_status status = check_options(options);
    if (status != WEIR_OK) return status;
    struct weir_host_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: no memory for it");
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
    if (pool != NULL) tear_down(pool);
}
