/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's calls: what is the same under every policy. */
#include "alloc/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/history.h"
#include "alloc/trace.h"
#include "device/budget.h"
#include "device/over.h"

#define ZERO_BLOCKS ((size_t)65536) /* blocks of no bytes that can be live at once */

/* ---- the lock, and frees from host functions -------------------------------------------------------------------- */

static enum weir_status take_back(struct weir_pool *pool, void *block, weir_stream stream, uint32_t *slot,
                                  size_t *requested_bytes);

enum weir_status weir__pool_usable(const struct weir_pool *pool, const char *call) {
    if (pool == NULL) return WEIR__INVALID("%s: pool is NULL", call);
    return weir__forked() ? weir__fail_forked() : WEIR_OK;
}

/* A host function may run, and free, after its stream was destroyed: the handle it names is then nobody's, or already another
 * stream's. All that had it and may not be over count as users; the last mark of each stands for what it did. */
static void note_gone(struct weir_pool *pool, struct weir__extent *extent, weir_stream stream) {
    if (pool->order.not_alive == 0 || extent == NULL || !weir__front_let_go(extent)) return;
    for (uint32_t i = 1; i < pool->order.count; i++) {
        const struct weir__slot *slot = pool->order.slots[i];
        if (!slot->open || slot->alive || slot->stream != stream) continue;
        if (weir__extent_tag_reserve(extent, extent->tag_count + 2))
            weir__extent_tag_add(extent, (struct weir__tag){.slot = i});
        else
            weir__log(WEIR__LOG_ERROR, "pool: no host memory to note a destroyed stream");
    }
}

bool weir__pool_take_inbox(struct weir_pool *pool) {
    if (__atomic_load_n(&pool->inbox, __ATOMIC_RELAXED) == NULL) return false; /* the usual case, at no cost */
    struct weir__inbox_entry *entry = __atomic_exchange_n(&pool->inbox, NULL, __ATOMIC_ACQUIRE);
    const bool any = entry != NULL;
    while (entry != NULL) {
        struct weir__inbox_entry *next = entry->next;
        uint32_t slot;
        note_gone(pool, weir__table_get(&pool->blocks, entry->address), entry->stream);
        if (take_back(pool, (void *)entry->address, entry->stream, &slot, NULL) != WEIR_OK)
            weir__log(WEIR__LOG_ERROR, "pool: a free in a host function: %s", weir_last_error()->message);
        free(entry);
        entry = next;
    }
    return any;
}

void weir__pool_lock(struct weir_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    if (!weir__family_is_busy(pool->family))
        weir__pool_take_inbox(pool); /* else they are taken back after the call that has the turn */
}

void weir__pool_unlock(struct weir_pool *pool) { pthread_mutex_unlock(&pool->lock); }

void weir__pool_begin(struct weir_pool *pool) {
    (void)weir__spent_take();
    if (!pool->family->deterministic || weir__in_host_function()) {
        weir__pool_lock(pool);
        return;
    }
    weir__family_take_turn(pool->family, pool);
    pthread_mutex_lock(&pool->lock);
    weir__pool_take_inbox(pool);
}

void weir__pool_end(struct weir_pool *pool) {
    if (pool->fronts.paused) weir__fronts_resume(pool);
    pthread_mutex_unlock(&pool->lock);
    if (pool->family->deterministic && !weir__in_host_function()) weir__family_end_turn(pool->family);
}

/* The driver may hold locks of its own while a host function runs, so it takes none of ours. */
static enum weir_status leave_in_inbox(struct weir_pool *pool, void *block, weir_stream stream) {
    struct weir__inbox_entry *entry = malloc(sizeof *entry);
    if (entry == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory to queue a free");
    entry->address = (uintptr_t)block;
    entry->stream = stream;
    entry->next = __atomic_load_n(&pool->inbox, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&pool->inbox, &entry->next, entry, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return WEIR_OK;
}

/* ---- create and destroy ----------------------------------------------------------------------------------------- */

/* Observers are not told: the pool itself is one, and has the turn. */
static enum weir_status create_stream(struct weir_device *device, weir_stream *out) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    status = weir__device_check(device, device->driver->stream_create(out, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (status == WEIR_OK && !weir__device_add_stream(device, *out)) {
        device->driver->stream_destroy(*out);
        status = weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the table of streams");
    }
    weir__device_leave(device);
    return status;
}

static void destroy_stream(struct weir_device *device, weir_stream stream) {
    weir__device_take_stream(device, stream);
    if (weir__device_enter(device) != WEIR_OK) return;
    weir__device_check(device, device->driver->stream_destroy(stream), "cuStreamDestroy");
    weir__device_leave(device);
}

static void init_locks(struct weir_pool *pool) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&pool->lock, NULL);
    weir__access_open(&pool->pages);
}

size_t weir__zero_range_bytes(const struct weir_pool *pool) {
    size_t bytes = ZERO_BLOCKS * WEIR__ALIGNMENT;
    return (bytes + pool->granule - 1) / pool->granule * pool->granule;
}

static enum weir_status zero_range_open(struct weir_pool *pool) {
    enum weir_status status = weir__device_enter(pool->device);
    if (status != WEIR_OK) return status;
    CUdeviceptr base = 0;
    pool->plain_memory_calls++;
    weir__spend(pool->device);
    const CUresult code =
        pool->device->driver->address_reserve(&base, weir__zero_range_bytes(pool), pool->granule, 0, 0);
    status = weir__spent_on_memory(pool->device, weir__device_check(pool->device, code, "cuMemAddressReserve"));
    weir__device_leave(pool->device);
    pool->zero_base = (uintptr_t)base;
    return status;
}

static void zero_range_close(struct weir_pool *pool) {
    if (pool->zero_base == 0 || weir__device_enter(pool->device) != WEIR_OK) return;
    weir__device_check(pool->device,
                       pool->device->driver->address_free((CUdeviceptr)pool->zero_base, weir__zero_range_bytes(pool)),
                       "cuMemAddressFree");
    weir__device_leave(pool->device);
}

static void release_memory(struct weir_pool *pool) {
    weir__fronts_close(pool);
    weir__order_close(&pool->order);
    weir__table_clear(&pool->blocks);
    weir__inside_end(&pool->inside);
    weir__extent_store_clear(&pool->store);
    weir__reclaims_clear(&pool->reclaims);
    weir__registered_clear(pool);
    weir__trace_close(pool->trace);
    weir__history_close(pool->history);
    pthread_cond_destroy(&pool->changed);
    if (pool->family->root == pool) weir__family_close(pool);
    pthread_rwlock_destroy(&pool->pages.access_lock);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static enum weir_status open_trace(struct weir_pool *pool, const char *path) {
    const struct weir__trace_origin origin = {.ordinal = pool->device->ordinal,
                                              .policy = pool->policy->text,
                                              .profile = pool->device->profile,
                                              .limit_bytes = pool->limit_bytes,
                                              .granularity_bytes = pool->granule,
                                              .emulated = pool->device->driver->emulated,
                                              .deterministic = pool->deterministic};
    return weir__trace_open(path, &origin, &pool->trace);
}

struct weir_pool *weir__pool_new(struct weir_device *device) {
    struct weir_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return NULL;
    pool->device = pool->pages.device = device;
    pool->granule = device->granularity_bytes;
    pool->capacity_bytes = device->capacity_bytes;
    init_locks(pool);
    return pool;
}

enum weir_status weir__pool_open(struct weir_pool *pool, enum weir_status status, const char *trace_path) {
    if (status == WEIR_OK) status = weir__order_open(&pool->order, pool->device, &pool->lock, pool->granule);
    pool->order.deterministic = pool->deterministic;
    pool->most_held_bytes = pool->limit_bytes;
    if (status == WEIR_OK && trace_path != NULL && *trace_path != 0) status = open_trace(pool, trace_path);
    if (status == WEIR_OK) status = weir__history_open(pool->history_room, &pool->history);
    if (status == WEIR_OK) status = zero_range_open(pool);
    if (status == WEIR_OK) status = pool->policy->open(pool);
    if (status != WEIR_OK) {
        zero_range_close(pool);
        release_memory(pool);
        return status;
    }
    weir__charge(pool, WEIR__SLOT_NONE);
    pool->fronts.on = pool->policy->name != WEIR_POLICY_PER_STREAM && !pool->is_graph;
    pool->fronts.fast = pool->fronts.on && !pool->deterministic && pool->trace == NULL && pool->history == NULL;
    if (!pool->is_graph) weir__pool_observe(pool);
    weir__pool_known(pool);
    return WEIR_OK;
}

enum weir_status weir_pool_create(struct weir_device *device, const struct weir_pool_options *options,
                                  struct weir_pool **out) {
    if (out == NULL) return WEIR__INVALID("weir_pool_create: out is NULL");
    *out = NULL;
    if (device == NULL) return WEIR__INVALID("weir_pool_create: device is NULL");
    struct weir_pool *pool = weir__pool_new(device);
    if (pool == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a pool");
    enum weir_status status = weir__device_budget(device, &pool->capacity_bytes);
    weir__family_open(pool);
    const char *trace_path = NULL;
    if (status == WEIR_OK) status = weir__options_settle(pool, options, &trace_path);
    pool->family->deterministic = pool->deterministic;
    weir__family_set_limit(pool);
    status = weir__pool_open(pool, status, trace_path);
    if (status == WEIR_OK) *out = pool;
    return status;
}

static enum weir_status wait_for_device(struct weir_device *device) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    status = weir__device_check(device, weir__wait_for_device(device, WEIR__SITE_POOL_DESTROY), "cuCtxSynchronize");
    weir__device_leave(device);
    return status;
}

/* A host function must not wait for the device. */
static bool may_wait_for_device(void) {
    if (!weir__in_host_function()) return true;
    weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "weir_pool_destroy can't be called inside a host function");
    weir__log(WEIR__LOG_ERROR, "pool: %s", weir_last_error()->message);
    return false;
}

void weir_pool_destroy(struct weir_pool *pool) {
    if (pool == NULL || weir__forked() || !may_wait_for_device() || !weir__capture_may_close(pool) ||
        !weir__family_may_close(pool))
        return;
    weir__pool_unknown(pool);
    if (!pool->is_graph) weir__device_unobserve(pool->device, &pool->observer);
    /* Twice, since an error of earlier work may be said in the place of a wait. */
    if (wait_for_device(pool->device) != WEIR_OK && weir__given_back(wait_for_device(pool->device)) != WEIR_OK) {
        weir__log(WEIR__LOG_ERROR, "pool: %zu bytes may be in use for ever and are not given back: %s",
                  pool->held_bytes, weir_last_error()->message);
        weir__family_stay(pool);
        return;
    }
    if (pool->has_helper) destroy_stream(pool->device, pool->helper);
    weir__pool_lock(pool);
    weir__pool_unlock(pool);
    pool->policy->close(pool);
    weir__alone_close(pool);
    zero_range_close(pool);
    weir__family_leave(pool);
    release_memory(pool);
}

/* ---- alloc ------------------------------------------------------------------------------------------------------ */

static enum weir_status alloc_zero(struct weir_pool *pool, const struct weir__request *request,
                                   struct weir__extent **out) {
    struct weir__extent *block = pool->zero_spare;
    if (block != NULL) {
        pool->zero_spare = block->right;
    } else {
        if (pool->zero_count == ZERO_BLOCKS)
            return weir__fail(WEIR_OUT_OF_MEMORY, 0, NULL, "%zu blocks of no bytes are live, which is the limit",
                              ZERO_BLOCKS);
        if (!weir__extent_reserve(&pool->store, 1))
            return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's extents");
        block = weir__extent_new(&pool->store, pool->zero_base + pool->zero_count++ * WEIR__ALIGNMENT, 0, WEIR__USED);
    }
    block->state = WEIR__USED;
    block->home = request->slot;
    block->requested_bytes = 0;
    weir__account_live(pool, block);
    *out = block;
    return WEIR_OK;
}

/* A block alone shares no page, and what is idle is given back for it: not for one that would be refused all the same. */
static bool may_come(const struct weir_pool *pool, const struct weir__request *request) {
    return !request->alone || weir__limit_leaves(pool, request->bytes);
}

static enum weir_status alloc_under_limit(struct weir_pool *pool, struct weir__request *request,
                                          struct weir__extent **out) {
    if (!weir__limit_has_room(pool, request->bytes) || !may_come(pool, request)) return WEIR_OUT_OF_MEMORY;
    return request->alone ? weir__alone_alloc(pool, request, out) : pool->policy->alloc(pool, request, out);
}

static enum weir_status serve(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out) {
    enum weir_status status;
    do status = alloc_under_limit(pool, request, out);
    while (status == WEIR_OUT_OF_MEMORY &&
           (weir__pool_take_inbox(pool) || /* host functions have freed some meanwhile */
            (may_come(pool, request) && (weir__alone_give(pool, request) || weir__family_give(pool, request)))));
    return status;
}

/* (unlocks) */
static size_t ask_free_bytes(struct weir_pool *pool) {
    pthread_mutex_unlock(&pool->lock);
    const size_t free_bytes = weir__device_free_bytes(pool);
    pthread_mutex_lock(&pool->lock);
    return free_bytes;
}

/* No wait would help. Caching allocators give their caches back even then. */
static bool exceeds_limit(const struct weir_pool *pool, size_t bytes) {
    return bytes > (pool->policy->name == WEIR_POLICY_PER_STREAM ? SIZE_MAX / 4 : pool->limit_bytes);
}

static enum weir_status alloc_block(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out) {
    const bool plain = request->alignment <= WEIR__ALIGNMENT && !request->alone;
    if (request->requested_bytes == 0 && plain) return alloc_zero(pool, request, out);
    if (exceeds_limit(pool, request->requested_bytes)) return weir__refuse(pool, request, ask_free_bytes(pool));
    request->bytes = (request->requested_bytes + WEIR__ALIGNMENT - 1) & ~(WEIR__ALIGNMENT - 1);
    if (request->bytes == 0) request->bytes = WEIR__ALIGNMENT;
    if (request->alone) request->bytes = (request->bytes + pool->granule - 1) / pool->granule * pool->granule;
    enum weir_status status = serve(pool, request, out);
    struct weir__reclaim_round round = weir__reclaim_start(pool);
    while (status == WEIR_OUT_OF_MEMORY && weir__reclaim_next(pool, request, &round))
        status = serve(pool, request, out);
    while (status == WEIR_OUT_OF_MEMORY) {
        const size_t free_bytes = ask_free_bytes(pool); /* for the report; host functions may free some meanwhile */
        if (!weir__pool_take_inbox(pool)) return weir__refuse(pool, request, free_bytes);
        status = serve(pool, request, out);
    }
    return status;
}

/* The noted uses are up to now; so is everything on the slot that the free names. */
void weir__put_tags(struct weir_pool *pool, struct weir__extent *extent, uint32_t slot) {
    weir__order_tag_notes(&pool->order, extent);
    weir__extent_tag_add(extent, weir__order_tag(&pool->order, slot, extent->bytes));
}

/* A block is none any more: unused after its noted uses and what is queued on `slot`, both up to now. */
static void put_back(struct weir_pool *pool, struct weir__extent *extent, uint32_t slot) {
    weir__account_dead(pool, extent);
    if (extent->bytes == 0) {
        weir__extent_tags_clear(extent);
        extent->right = pool->zero_spare;
        pool->zero_spare = extent;
        return;
    }
    weir__put_tags(pool, extent, slot);
    if (extent->alone)
        weir__alone_release(pool, extent);
    else
        pool->policy->release(pool, extent);
}

/* Gives a block its number, and tells of it. */
static void announce(struct weir_pool *pool, struct weir__extent *block, weir_stream stream) {
    block->number = ++pool->blocks_numbered;
    pool->allocs++;
    pool->order.slots[block->home]->allocs++;
    weir__trace_alloc(pool->trace, block->number, block->requested_bytes, stream);
    if (pool->deterministic && block->address - pool->pages.arena < pool->pages.arena_bytes)
        weir__trace_at(pool->trace, block->number, block->address - pool->pages.arena);
    weir__history_block(pool, WEIR__PAST_ALLOC, block);
    weir__tell_handed_out(pool, block, stream);
}

/* Gives a block its place in the table; undone without host memory. */
static enum weir_status publish(struct weir_pool *pool, struct weir__extent *block) {
    if (!weir__table_reserve(&pool->blocks)) {
        put_back(pool, block, block->home); /* its last users are behind that stream, perhaps not done */
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the table of blocks");
    }
    if (!weir__inside_add(&pool->inside, block)) {
        put_back(pool, block, block->home);
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the table of inner addresses");
    }
    weir__table_put(&pool->blocks, block->address, block);
    return WEIR_OK;
}

enum weir_status weir__check_stream(const char *call, weir_stream stream) {
    if (stream == WEIR__ANY_STREAM) return WEIR__INVALID("%s: %p is no stream", call, (void *)stream);
    if (stream != CU_STREAM_PER_THREAD || !weir__in_host_function()) return WEIR_OK;
    return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                      "%s: a host function runs in a thread of the driver's, whose default stream can't be meant",
                      call);
}

/* The slot of a stream that a call names. At first sight it is seen whether it is this device's. */
static enum weir_status slot_of(struct weir_pool *pool, const char *call, weir_stream stream, uint32_t *slot) {
    *slot = weir__order_find(&pool->order, stream);
    if (*slot != WEIR__SLOT_NONE) return WEIR_OK;
    const int other = weir__device_stream_is_anothers(pool->device, stream);
    if (other >= 0)
        return WEIR__INVALID("%s: %p is a stream of device %d; the call names a pool of device %d", call,
                             (void *)stream, other, pool->device->ordinal);
    *slot = weir__slot_for(pool, stream);
    if (*slot != WEIR__SLOT_NONE) return WEIR_OK;
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's table of streams");
}

/* The same, and the same stream still. */
enum weir_status weir__named_slot(struct weir_pool *pool, const char *call, weir_stream stream, uint32_t *slot) {
    const enum weir_status status = slot_of(pool, call, stream, slot);
    return status == WEIR_OK ? weir__order_confirm(&pool->order, slot) : status;
}

/* What was ordered before a stream that has been destroyed under the request is ordered before no other one of that handle. */
static enum weir_status check_alive(struct weir_pool *pool, const struct weir__request *request,
                                    struct weir__extent *block) {
    if (pool->order.slots[request->slot]->alive) return WEIR_OK;
    const uint32_t any = weir__slot_for(pool, WEIR__ANY_STREAM);
    put_back(pool, block, any != WEIR__SLOT_NONE ? any : request->slot);
    return weir__fail(WEIR_DRIVER, CUDA_ERROR_INVALID_HANDLE, NULL, "the request's stream was destroyed meanwhile");
}

static enum weir_status allocate(struct weir_pool *pool, size_t bytes, size_t alignment, bool alone, weir_stream stream,
                                 void **out) {
    struct weir__request request = {.requested_bytes = bytes,
                                    .host_function = weir__in_host_function(),
                                    .alone = alone,
                                    .wait_limit_ns = pool->wait_limit_ns,
                                    .alignment = alignment < WEIR__ALIGNMENT ? WEIR__ALIGNMENT : alignment,
                                    .most_created = SIZE_MAX,
                                    .most_mapped = SIZE_MAX};
    struct weir__extent *block = NULL;
    weir__pool_begin(pool);
    if (!request.host_function) {
        weir__give_excess_back(pool);
        if (!pool->deterministic) weir__order_cover_lost(&pool->order);
        weir__forget_gone_in_order(pool);
    }
    enum weir_status status = weir__named_slot(pool, "weir_pool_alloc", stream, &request.slot);
    const bool held = status == WEIR_OK;
    if (held) weir__order_hold(&pool->order, request.slot);
    if (status == WEIR_OK && alignment <= WEIR__ALIGNMENT && !alone)
        block = weir__front_take(pool, request.slot, bytes);
    if (block != NULL) weir__plan_add(&pool->plan, block->bytes, request.slot, block->address);
    if (status == WEIR_OK && block == NULL) {
        status = alloc_block(pool, &request, &block);
        weir__waiting_end(pool, &request);
        if (status == WEIR_OK) status = check_alive(pool, &request, block);
        if (status == WEIR_OK) status = publish(pool, block);
    }
    if (status == WEIR_OK) {
        announce(pool, block, stream);
        if (alignment > WEIR__ALIGNMENT) weir__trace_aligned(pool->trace, block->number, alignment);
        *out = (void *)block->address;
    }
    weir__charge(pool, request.slot);
    if (held) weir__order_let_go(&pool->order, request.slot);
    weir__pool_end(pool);
    return status;
}

enum weir_status weir_pool_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out) {
    if (out == NULL) return WEIR__INVALID("weir_pool_alloc: out is NULL");
    *out = NULL;
    enum weir_status status = weir__pool_usable(pool, "weir_pool_alloc");
    if (status == WEIR_OK && weir__front_alloc(pool, bytes, stream, out)) return WEIR_OK;
    if (status == WEIR_OK) status = weir__check_stream("weir_pool_alloc", stream);
    if (status == WEIR_OK) status = weir__capture_route(&pool, "weir_pool_alloc", stream);
    return status == WEIR_OK ? allocate(pool, bytes, WEIR__ALIGNMENT, false, stream, out) : status;
}

#define MOST_ALIGNMENT ((size_t)1 << 30)

/* WEIR_NOT_SUPPORTED when no address that a shared pool has is aligned so. */
static enum weir_status check_alignment(const struct weir_pool *pool, size_t bytes, size_t alignment) {
    if (alignment == 0 || alignment > MOST_ALIGNMENT || (alignment & (alignment - 1)) != 0)
        return WEIR__INVALID("weir_pool_alloc_aligned: an alignment of %zu is no power of two from 1 to %zu", alignment,
                             MOST_ALIGNMENT);
    const struct weir__pages *pages = &pool->pages;
    const size_t skipped = (alignment - pages->arena % alignment) % alignment;
    if (pages->arena_bytes == 0 || bytes > pages->arena_bytes || skipped <= pages->arena_bytes - bytes) return WEIR_OK;
    return weir__fail(
        WEIR_NOT_SUPPORTED, 0, NULL,
        "weir_pool_alloc_aligned: of the pool's %zu bytes of addresses from %#zx on, none has room for %zu bytes "
        "at an alignment of %zu",
        pages->arena_bytes, (size_t)pages->arena, bytes, alignment);
}

enum weir_status weir_pool_alloc_aligned(struct weir_pool *pool, size_t bytes, size_t alignment, weir_stream stream,
                                         void **out) {
    if (out == NULL) return WEIR__INVALID("weir_pool_alloc_aligned: out is NULL");
    *out = NULL;
    enum weir_status status = weir__pool_usable(pool, "weir_pool_alloc_aligned");
    if (status == WEIR_OK) status = check_alignment(pool, bytes, alignment);
    if (status == WEIR_OK) status = weir__check_stream("weir_pool_alloc_aligned", stream);
    if (status == WEIR_OK) status = weir__capture_route(&pool, "weir_pool_alloc_aligned", stream);
    return status == WEIR_OK ? allocate(pool, bytes, alignment, false, stream, out) : status;
}

static bool can_export(const struct weir_pool *pool) {
    CUmemAllocationProp properties;
    CUmemAccessDesc access;
    if (pool->device->driver->page_export == NULL) return false;
    weir__page_properties(pool->device, &properties, &access);
    return properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

enum weir_status weir_pool_alloc_exportable(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out) {
    const char *call = "weir_pool_alloc_exportable";
    if (out == NULL) return WEIR__INVALID("%s: out is NULL", call);
    *out = NULL;
    enum weir_status status = weir__pool_usable(pool, call);
    if (status == WEIR_OK) status = weir__check_stream(call, stream);
    if (status == WEIR_OK) status = weir__capture_route(&pool, call, stream);
    if (status != WEIR_OK) return status;
    if (weir__in_host_function() || pool->is_graph)
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s can't be called in a capture or a host function", call);
    if (!can_export(pool))
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s: memory of device %d can't be exported as a descriptor",
                          call, pool->device->ordinal);
    return allocate(pool, bytes, WEIR__ALIGNMENT, true, stream, out);
}

enum weir_status weir_pool_alloc_any(struct weir_pool *pool, size_t bytes, void **out) {
    if (out == NULL) return WEIR__INVALID("weir_pool_alloc_any: out is NULL");
    *out = NULL;
    enum weir_status status = weir__pool_usable(pool, "weir_pool_alloc_any");
    if (status == WEIR_OK) status = weir__capture_route(&pool, "weir_pool_alloc_any", WEIR__ANY_STREAM);
    return status == WEIR_OK ? allocate(pool, bytes, WEIR__ALIGNMENT, false, WEIR__ANY_STREAM, out) : status;
}

/* ---- free ------------------------------------------------------------------------------------------------------- */

static enum weir_status no_block(const char *call, const void *block) {
    return WEIR__INVALID("%s: %p is not the start of a live block of this pool (freed already, inside a block, or from "
                         "elsewhere)",
                         call, block);
}

/* A live block, which is no front's own any more. */
enum weir_status weir__block_at(struct weir_pool *pool, const char *call, const void *block,
                                struct weir__extent **out) {
    *out = weir__table_get(&pool->blocks, (uintptr_t)block);
    return *out != NULL && weir__front_let_go(*out) ? WEIR_OK : no_block(call, block);
}

/* `event`: what the free named in place of the slot's stream, or NULL. */
static void release(struct weir_pool *pool, struct weir__extent *extent, uint32_t slot, weir_event event) {
    weir__tell_taken_back(pool, extent, slot, event);
    weir__history_block(pool, WEIR__PAST_FREE, extent);
    pool->frees++;
    pool->order.slots[extent->home]->frees++;
    if (event == NULL && !extent->alone && weir__front_keep(pool, extent, slot)) return;
    weir__table_take(&pool->blocks, extent->address);
    weir__inside_remove(&pool->inside, extent);
    put_back(pool, extent, slot);
}

static enum weir_status take_back(struct weir_pool *pool, void *block, weir_stream stream, uint32_t *slot,
                                  size_t *requested_bytes) {
    struct weir__extent *extent = weir__table_get(&pool->blocks, (uintptr_t)block);
    const char *call = stream == WEIR__ANY_STREAM ? "weir_pool_free_any" : "weir_pool_free";
    if (extent == NULL || weir__front_has(extent)) return no_block(call, block);
    enum weir_status status = slot_of(pool, call, stream, slot);
    if (status != WEIR_OK) return status;
    if (requested_bytes != NULL) *requested_bytes = extent->requested_bytes;
    weir__trace_free(pool->trace, extent->number, stream, extent->home == *slot);
    release(pool, extent, *slot, NULL);
    return WEIR_OK;
}

static enum weir_status free_block(struct weir_pool *pool, void *block, weir_stream stream, size_t *requested_bytes) {
    if (weir__in_host_function()) return leave_in_inbox(pool, block, stream);
    uint32_t slot;
    weir__pool_begin(pool);
    enum weir_status status = take_back(pool, block, stream, &slot, requested_bytes);
    if (status == WEIR_OK) {
        weir__order_hold(&pool->order, slot);
        pool->policy->after_release(pool, slot);
        weir__charge(pool, slot);
        weir__order_let_go(&pool->order, slot);
    }
    weir__pool_end(pool);
    return status;
}

enum weir_status weir__pool_free(struct weir_pool *pool, void *block, weir_stream stream, size_t *requested_bytes) {
    if (block == NULL) return WEIR_OK;
    enum weir_status status = weir__pool_usable(pool, "weir_pool_free");
    if (status == WEIR_OK && weir__front_free(pool, block, stream, requested_bytes)) return WEIR_OK;
    if (status == WEIR_OK) status = weir__check_stream("weir_pool_free", stream);
    if (status != WEIR_OK) return status;
    pool = weir__capture_home(pool, block);
    return weir__explain(pool, "weir_pool_free", block, free_block(pool, block, stream, requested_bytes));
}

enum weir_status weir_pool_free(struct weir_pool *pool, void *block, weir_stream stream) {
    return weir__pool_free(pool, block, stream, NULL);
}

enum weir_status weir_pool_free_any(struct weir_pool *pool, void *block) {
    if (block == NULL) return WEIR_OK;
    enum weir_status status = weir__pool_usable(pool, "weir_pool_free_any");
    if (status != WEIR_OK) return status;
    pool = weir__capture_home(pool, block);
    return weir__explain(pool, "weir_pool_free_any", block, free_block(pool, block, WEIR__ANY_STREAM, NULL));
}

/* ---- free after an event ---------------------------------------------------------------------------------------- */

/* (unlocks) Makes the stream that carries the waits of weir_pool_free_after. Of two calls at once one wins. */
static enum weir_status make_helper(struct weir_pool *pool) {
    weir_stream stream = NULL;
    if (pool->has_helper) return WEIR_OK;
    pthread_mutex_unlock(&pool->lock);
    enum weir_status status = create_stream(pool->device, &stream);
    pthread_mutex_lock(&pool->lock);
    if (status != WEIR_OK) return status;
    if (pool->has_helper) {
        pthread_mutex_unlock(&pool->lock);
        destroy_stream(pool->device, stream);
        pthread_mutex_lock(&pool->lock);
        return WEIR_OK;
    }
    pool->helper = stream;
    pool->has_helper = true;
    return WEIR_OK;
}

static enum weir_status helper_slot(struct weir_pool *pool, uint32_t *slot) {
    *slot = weir__slot_for(pool, pool->helper);
    if (*slot == WEIR__SLOT_NONE)
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's table of streams");
    strcpy(pool->order.slots[*slot]->name, "free_after");
    return WEIR_OK;
}

/* (unlocks) The helper stream waits for the event as it is recorded now; a tag on the helper is then after it. */
static enum weir_status helper_wait(struct weir_pool *pool, weir_event event) {
    pool->order.order_calls++;
    pthread_mutex_unlock(&pool->lock);
    weir__spend(pool->device);
    enum weir_status status = weir__device_enter(pool->device);
    if (status == WEIR_OK) {
        CUresult code = weir__wait_on_stream(pool->device, WEIR__SITE_FREE_AFTER, pool->helper, event);
        status = weir__device_check(pool->device, code, "cuStreamWaitEvent");
        weir__device_leave(pool->device);
    }
    weir__spent_on_order(pool->device, status);
    pthread_mutex_lock(&pool->lock);
    return status;
}

/* Takes a block back when the driver is over: no work is left to come after. */
static enum weir_status release_at_end(struct weir_pool *pool, struct weir__extent *extent) {
    uint32_t slot = weir__slot_for(pool, WEIR__ANY_STREAM);
    if (slot == WEIR__SLOT_NONE)
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's table of streams");
    weir__trace_free(pool->trace, extent->number, WEIR__ANY_STREAM, false);
    release(pool, extent, slot, NULL);
    return WEIR_OK;
}

enum weir_status weir_pool_free_after(struct weir_pool *pool, void *block, weir_event event) {
    if (block == NULL) return WEIR_OK;
    enum weir_status status = weir__pool_usable(pool, "weir_pool_free_after");
    if (status != WEIR_OK) return status;
    if (event == NULL) return WEIR__INVALID("weir_pool_free_after: event is NULL");
    if (weir__capture_home(pool, block)->is_graph)
        return weir__fail(
            WEIR_NOT_SUPPORTED, 0, NULL,
            "weir_pool_free_after: the block is a graph's, and so may be the event; weir_pool_free names a stream");
    if (weir__in_host_function())
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "weir_pool_free_after can't be called inside a host function");
    struct weir__extent *extent;
    uint32_t slot = WEIR__SLOT_NONE;
    weir__pool_begin(pool);
    status = weir__block_at(pool, "weir_pool_free_after", block, &extent);
    if (status == WEIR_OK) status = make_helper(pool);
    if (status == WEIR_OK) status = helper_slot(pool, &slot);
    if (status == WEIR_OK) status = helper_wait(pool, event);
    const bool over = weir__is_over(status);
    if (status == WEIR_OK || over) status = weir__block_at(pool, "weir_pool_free_after", block, &extent);
    if (status == WEIR_OK && over) {
        status = release_at_end(pool, extent);
    } else if (status == WEIR_OK) {
        weir__trace_free_after(pool->trace, extent->number, event);
        release(pool, extent, slot, event);
        pool->policy->after_release(pool, slot);
    }
    weir__charge(pool, slot);
    weir__pool_end(pool);
    return weir__explain(pool, "weir_pool_free_after", block, status);
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

enum weir_status weir_pool_note(struct weir_pool *pool, void *block, weir_stream stream) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_note");
    if (status != WEIR_OK) return status;
    status = weir__check_stream("weir_pool_note", stream);
    if (status != WEIR_OK) return status;
    pool = weir__capture_home(pool, block);
    struct weir__extent *extent;
    weir__pool_begin(pool);
    uint32_t slot = WEIR__SLOT_NONE;
    extent = weir__table_get(&pool->blocks, (uintptr_t)block);
    status = extent != NULL ? weir__named_slot(pool, "weir_pool_note", stream, &slot) : WEIR_INVALID;
    if (status == WEIR_OK) {
        status = weir__front_note(extent, slot);
        if (status == WEIR_OUT_OF_HOST_MEMORY) weir__fail(status, 0, NULL, "no host memory to note a stream");
        if (status == WEIR_INVALID) extent = NULL;
    }
    if (extent == NULL) status = no_block("weir_pool_note", block);
    if (status == WEIR_OK) weir__trace_note(pool->trace, extent->number, stream);
    weir__pool_end(pool);
    return weir__explain(pool, "weir_pool_note", block, status);
}

enum weir_status weir_pool_mark_iteration(struct weir_pool *pool) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_mark_iteration");
    if (status != WEIR_OK) return status;
    weir__pool_begin(pool);
    pool->iteration++;
    weir__plan_turn(&pool->plan, __atomic_load_n(&pool->pages.memory_calls, __ATOMIC_RELAXED));
    weir__give_excess_back(pool); /* and opens the fronts, or shuts them */
    weir__trace_iteration(pool->trace);
    weir__pool_end(pool);
    return WEIR_OK;
}

enum weir_status weir_pool_trim(struct weir_pool *pool, size_t target_bytes) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_trim");
    if (status != WEIR_OK) return status;
    if (weir__in_host_function())
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "weir_pool_trim can't be called inside a host function");
    weir__pool_begin(pool);
    status = weir__given_back(weir__trim(pool, target_bytes));
    weir__charge(pool, WEIR__SLOT_NONE);
    weir__pool_end(pool);
    return status;
}

void weir_pool_name_stream(struct weir_pool *pool, weir_stream stream, const char *name) {
    if (pool == NULL || name == NULL || weir__forked()) return;
    weir__pool_begin(pool);
    uint32_t slot = weir__slot_for(pool, stream);
    if (slot != WEIR__SLOT_NONE) {
        char *to = pool->order.slots[slot]->name;
        strncpy(to, name, sizeof pool->order.slots[slot]->name - 1);
        for (; *to != 0; to++)
            if (*to == '\n' || *to == '\r') *to = ' '; /* a name is one line of a trace */
        weir__trace_name(pool->trace, stream, pool->order.slots[slot]->name);
    }
    weir__pool_end(pool);
}
