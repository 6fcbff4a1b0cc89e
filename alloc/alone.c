/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/alone.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/check.h"
#include "alloc/history.h"
#include "alloc/pool.h"

struct weir__alone {
    struct weir__extent extent; /* first */
    struct weir__alone *next;
    CUdeviceptr address; /* as reserved; 0: none */
    CUmemGenericAllocationHandle handle;
    bool created, mapped;
    unsigned users; /* calls that use the handle with the lock let go */
};

/* ---- the driver, without the lock ------------------------------------------------------------------------------- */

#define MEMORY_CALL(pool, name, call)                                                                                  \
    (__atomic_fetch_add(&(pool)->plain_memory_calls, 1, __ATOMIC_RELAXED), weir__spend((pool)->device),                \
     weir__spent_on_memory((pool)->device, weir__device_check((pool)->device, (pool)->device->driver->call, name)))

/* What is there of it goes. Gives: whether all has gone; the rest can be tried again. */
static bool unmake(struct weir_pool *pool, struct weir__alone *alone) {
    if (weir__device_enter(pool->device) != WEIR_OK) return false;
    const size_t bytes = alone->extent.bytes;
    weir__access_share(&pool->pages);
    if (alone->mapped) alone->mapped = MEMORY_CALL(pool, "cuMemUnmap", page_unmap(alone->address, bytes)) != WEIR_OK;
    if (alone->created && !alone->mapped)
        alone->created = MEMORY_CALL(pool, "cuMemRelease", page_release(alone->handle)) != WEIR_OK;
    if (alone->address != 0 && !alone->mapped) { /* addresses that the driver would keep cost nothing */
        (void)MEMORY_CALL(pool, "cuMemAddressFree", address_free(alone->address, bytes));
        alone->address = 0;
    }
    pthread_rwlock_unlock(&pool->pages.access_lock);
    weir__device_leave(pool->device);
    return !alone->created;
}

static enum weir_status make(struct weir_pool *pool, struct weir__alone *alone) {
    CUmemAllocationProp properties;
    CUmemAccessDesc access[WEIR__MOST_PEERS + 1];
    const size_t bytes = alone->extent.bytes;
    enum weir_status status = weir__device_enter(pool->device);
    if (status != WEIR_OK) return status;
    weir__page_properties(pool->device, &properties, &access[0]);
    weir__access_share(&pool->pages);
    const size_t accessors = weir__accessors(&pool->pages);
    memcpy(access + 1, pool->pages.access + 1, (accessors - 1) * sizeof *access);
    status = MEMORY_CALL(pool, "cuMemCreate", page_create(&alone->handle, bytes, &properties, 0));
    alone->created = status == WEIR_OK;
    if (status == WEIR_OK)
        status = MEMORY_CALL(pool, "cuMemAddressReserve", address_reserve(&alone->address, bytes, pool->granule, 0, 0));
    if (status == WEIR_OK) status = MEMORY_CALL(pool, "cuMemMap", page_map(alone->address, bytes, 0, alone->handle, 0));
    alone->mapped = status == WEIR_OK;
    if (status == WEIR_OK)
        status = MEMORY_CALL(pool, "cuMemSetAccess", page_set_access(alone->address, bytes, access, accessors));
    pthread_rwlock_unlock(&pool->pages.access_lock);
    weir__device_leave(pool->device);
    alone->extent.address = (uintptr_t)alone->address;
    return status == WEIR_DRIVER && weir_last_error()->driver_code == CUDA_ERROR_OUT_OF_MEMORY ? WEIR_OUT_OF_MEMORY
                                                                                               : status;
}

enum weir_status weir__alone_set_access(struct weir_pool *pool, const CUmemAccessDesc *access) {
    enum weir_status status = WEIR_OK;
    for (const struct weir__alone *alone = pool->alone; alone != NULL && status == WEIR_OK; alone = alone->next)
        if (alone->mapped)
            status =
                MEMORY_CALL(pool, "cuMemSetAccess", page_set_access(alone->address, alone->extent.bytes, access, 1));
    return status;
}

/* ---- accounts --------------------------------------------------------------------------------------------------- */

static void account_idle(struct weir_pool *pool, const struct weir__extent *extent, bool idle) {
    for (uint32_t i = 0; i < extent->tag_count; i++)
        (idle ? weir__account_idle : weir__account_unidle)(pool, extent->tags[i].slot, extent->tags[i].bytes);
}

/* In a call's hands it counts as held without an address. */
static void take_in_hand(struct weir_pool *pool, size_t bytes) {
    pool->unmapped_bytes += bytes;
    weir__claim_begin(pool);
}

static void put_down(struct weir_pool *pool, size_t bytes) {
    pool->unmapped_bytes -= bytes;
    weir__claim_end(pool);
}

static void forget(struct weir_pool *pool, struct weir__alone *alone) {
    weir__account_unhold(pool, alone->extent.bytes);
    pool->alone_bytes -= alone->extent.bytes;
    if (alone->extent.tags != alone->extent.own_tags) free(alone->extent.tags);
    free(alone);
}

/* The viewer mixes no segments of its two kinds: it is of the kind that the policy's own are. */
static void tell(struct weir_pool *pool, const struct weir__extent *extent, bool there) {
    if (pool->policy->name == WEIR_POLICY_PER_STREAM)
        weir__history_segment(pool, there ? WEIR__PAST_TAKEN : WEIR__PAST_GIVEN_BACK, extent);
    else
        weir__history_pages(pool, there ? WEIR__PAST_MAPPED : WEIR__PAST_UNMAPPED, extent->address, extent->bytes);
}

static void put_in(struct weir_pool *pool, struct weir__alone *alone) {
    alone->next = pool->alone;
    pool->alone = alone;
}

/* ---- giving back ------------------------------------------------------------------------------------------------ */

static bool may_go(const struct weir_pool *pool, const struct weir__alone *alone) {
    return alone->extent.state == WEIR__PENDING && alone->users == 0 && !weir__is_fixed(pool, &alone->extent);
}

static struct weir__alone *take_complete(struct weir_pool *pool) {
    for (struct weir__alone **link = &pool->alone; *link != NULL; link = &(*link)->next) {
        struct weir__alone *alone = *link;
        if (!may_go(pool, alone) || !weir__order_extent_is_complete(&pool->order, &alone->extent)) continue;
        *link = alone->next;
        return alone;
    }
    return NULL;
}

bool weir__alone_trim(struct weir_pool *pool, size_t target_bytes) {
    struct weir__alone *alone, *stuck = NULL; /* that the driver would not take: they are tried again another time */
    bool any = false;
    if (pool->alone == NULL || pool->held_bytes <= target_bytes) return false;
    weir__order_reach(&pool->order);
    weir__order_poll_streams(&pool->order);
    while (pool->held_bytes > target_bytes && (alone = take_complete(pool)) != NULL) {
        account_idle(pool, &alone->extent, false);
        take_in_hand(pool, alone->extent.bytes);
        /* its addresses may be another's before the driver's call returns */
        tell(pool, &alone->extent, false);
        pthread_mutex_unlock(&pool->lock);
        const bool gone = unmake(pool, alone);
        pthread_mutex_lock(&pool->lock);
        any = any || gone;
        if (gone) {
            put_down(pool, alone->extent.bytes);
            forget(pool, alone);
        } else {
            alone->next = stuck;
            stuck = alone;
        }
    }
    while (stuck != NULL) {
        alone = stuck;
        stuck = alone->next;
        put_down(pool, alone->extent.bytes);
        account_idle(pool, &alone->extent, true);
        tell(pool, &alone->extent, true);
        put_in(pool, alone);
    }
    return any;
}

struct weir__extent *weir__alone_oldest_incomplete(const struct weir_pool *pool) {
    struct weir__extent *oldest = NULL;
    for (struct weir__alone *at = pool->alone; at != NULL; at = at->next)
        if (may_go(pool, at) && weir__order_extent_can_be_waited_for(&pool->order, &at->extent) &&
            !weir__order_extent_is_complete(&pool->order, &at->extent) &&
            (oldest == NULL || at->extent.number < oldest->number))
            oldest = &at->extent;
    return oldest;
}

bool weir__alone_wait(struct weir_pool *pool, struct weir__request *request) {
    const struct weir__extent *oldest = weir__alone_oldest_incomplete(pool);
    return oldest != NULL && weir__wait_on_host(pool, request, oldest) == WEIR_OK;
}

bool weir__alone_give(struct weir_pool *pool, struct weir__request *request) {
    if (request->host_function) return false;
    if (!weir__alone_trim(pool, 0)) return weir__alone_wait(pool, request);
    request->most_created = SIZE_MAX; /* the driver has more now */
    return true;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

static enum weir_status try(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out) {
    weir__account_short(pool, request->slot);
    if (!weir__limit_has_room(pool, request->bytes) || request->bytes > weir__untaken_bytes(pool))
        return WEIR_OUT_OF_MEMORY;
    struct weir__alone *alone = calloc(1, sizeof *alone);
    if (alone == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a block");
    struct weir__extent *extent = &alone->extent;
    *extent = (struct weir__extent){.bytes = request->bytes,
                                    .requested_bytes = request->requested_bytes,
                                    .state = WEIR__USED,
                                    .home = request->slot,
                                    .alone = true,
                                    .tags = extent->own_tags,
                                    .tag_room = WEIR__INLINE_TAGS};
    if (!weir__account_hold(pool, request->bytes)) {
        free(alone);
        return WEIR_OUT_OF_MEMORY;
    }
    pool->alone_bytes += request->bytes;
    take_in_hand(pool, request->bytes);
    pthread_mutex_unlock(&pool->lock);
    const enum weir_status status = make(pool, alone);
    const bool gone = status != WEIR_OK && unmake(pool, alone);
    pthread_mutex_lock(&pool->lock);
    put_down(pool, request->bytes);
    if (status == WEIR_OUT_OF_MEMORY) request->most_created = 0;
    if (!gone) tell(pool, extent, true);
    if (gone) {
        forget(pool, alone);
    } else if (status != WEIR_OK) { /* it stays held, as idle memory that nobody has used */
        extent->state = WEIR__PENDING;
        weir__extent_tag_add(extent, (struct weir__tag){.slot = request->slot, .bytes = extent->bytes});
        account_idle(pool, extent, true);
        put_in(pool, alone);
    } else {
        put_in(pool, alone);
        weir__account_live(pool, extent);
        *out = extent;
    }
    return status;
}

bool weir__wait_for_idle(struct weir_pool *pool, struct weir__request *request) {
    if (weir__alone_wait(pool, request)) return true;
    const struct weir__extent *incomplete = pool->pages.arena_bytes > 0 ? weir__ladder_oldest_incomplete(pool) : NULL;
    if (incomplete != NULL) return weir__wait_on_host(pool, request, incomplete) == WEIR_OK;
    return pool->in_flight > 0 && weir__wait_for_claims(pool, weir__deadline(pool, request));
}

/* What is idle makes room: what is complete, else the host waits. Where others have what the limit leaves, all is lacking. */
static bool make_room(struct weir_pool *pool, struct weir__request *request) {
    const size_t untaken = weir__untaken_bytes(pool), held = pool->held_bytes;
    const size_t lacking = request->bytes - (untaken < request->bytes ? untaken : 0);
    weir__trim(pool, held > lacking ? held - lacking : 0);
    return pool->held_bytes < held || weir__wait_for_idle(pool, request);
}

enum weir_status weir__alone_alloc(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out) {
    enum weir_status status;
    weir__let_waiters_look(pool, request);
    do status = try(pool, request, out);
    while (status == WEIR_OUT_OF_MEMORY && make_room(pool, request));
    return status;
}

void weir__alone_release(struct weir_pool *pool, struct weir__extent *extent) {
    extent->state = WEIR__PENDING;
    extent->number = weir__stamp(pool);
    account_idle(pool, extent, true);
    weir__waiting_change(pool);
}

void weir__alone_each(struct weir_pool *pool, void (*visit)(struct weir_pool *pool, struct weir__extent *extent)) {
    for (struct weir__alone *at = pool->alone; at != NULL; at = at->next) {
        const bool idle = at->extent.state == WEIR__PENDING;
        if (idle) account_idle(pool, &at->extent, false);
        visit(pool, &at->extent);
        if (idle) account_idle(pool, &at->extent, true);
    }
}

void weir__alone_tell(const struct weir_pool *pool,
                      void (*visit)(void *self, const struct weir_pool *pool, const struct weir__extent *block),
                      void *self) {
    for (const struct weir__alone *at = pool->alone; at != NULL; at = at->next) visit(self, pool, &at->extent);
}

enum weir_status weir__alone_check(const struct weir_pool *pool, struct weir__sums *sums) {
    size_t bytes = 0;
    for (const struct weir__alone *at = pool->alone; at != NULL; at = at->next) {
        const struct weir__extent *extent = &at->extent;
        enum weir_status status = weir__check_extent(pool, extent);
        if (status != WEIR_OK) return status;
        WEIR__HOLDS(extent->state != WEIR__PENDING || weir__extent_tagged_bytes(extent) == extent->bytes,
                    "the block %#zx+%zu alone: streams account for %zu bytes", (size_t)extent->address, extent->bytes,
                    weir__extent_tagged_bytes(extent));
        bytes += extent->bytes;
        if (extent->state == WEIR__USED) {
            sums->live += extent->bytes;
            sums->requested += extent->requested_bytes;
            sums->blocks++;
        } else {
            sums->idle += extent->bytes;
        }
    }
    WEIR__HOLDS(pool->in_flight > 0 || bytes == pool->alone_bytes, "%zu bytes stand alone, the blocks have %zu",
                pool->alone_bytes, bytes);
    return WEIR_OK;
}

void weir__alone_close(struct weir_pool *pool) {
    while (pool->alone != NULL) {
        struct weir__alone *alone = pool->alone;
        pool->alone = alone->next;
        unmake(pool, alone);
        if (alone->extent.tags != alone->extent.own_tags) free(alone->extent.tags);
        free(alone);
    }
}

/* ---- export ----------------------------------------------------------------------------------------------------- */

enum weir_status weir_pool_export(struct weir_pool *pool, const void *block, int *fd) {
    const char *call = "weir_pool_export";
    if (fd == NULL) return WEIR__INVALID("%s: fd is NULL", call);
    *fd = -1;
    enum weir_status status = weir__pool_usable(pool, call);
    if (status != WEIR_OK) return status;
    if (weir__in_host_function())
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s can't be called inside a host function", call);
    struct weir__extent *extent;
    weir__pool_begin(pool);
    status = weir__block_at(pool, call, block, &extent);
    if (status == WEIR_OK && !extent->alone)
        status = WEIR__INVALID("%s: %p is not from weir_pool_alloc_exportable", call, block);
    if (status == WEIR_OK) {
        struct weir__alone *alone = (struct weir__alone *)extent;
        alone->users++; /* it stays, also when it is freed meanwhile */
        pthread_mutex_unlock(&pool->lock);
        status = weir__device_enter(pool->device);
        if (status == WEIR_OK) {
            const CUresult code =
                pool->device->driver->page_export(fd, alone->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
            status = weir__device_check(pool->device, code, "cuMemExportToShareableHandle");
            weir__device_leave(pool->device);
        }
        pthread_mutex_lock(&pool->lock);
        alone->users--;
    }
    if (status != WEIR_OK) *fd = -1;
    weir__pool_end(pool);
    return weir__explain(pool, call, block, status);
}
