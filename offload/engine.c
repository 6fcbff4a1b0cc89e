/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: items out to the host pool and back.
 *
 * Who waits for what, one line an arrow; none of them is a host wait:
 *
 *   out:    caller's stream -> (ready) -> to_host; last copy of the host block -> to_host; copy; record `out`;
 *           the device block goes back to the pool after `out`
 *   in:     `out` -> to_device; consumer's stream, where the device block was allocated -> to_device; copy; record `in`
 *   fetch:  `in` -> consumer's stream; the host block goes back to the host pool, busy until `in`
 *   reclaim, for a request that the pool would refuse: what was kept goes out as above, after `ready` in place of the caller's
 *           stream; the device block of a prefetch goes back after `in`, which then stands for `out`
 *
 * Locks: the engine's is held for counters only, never across a driver call. Calls that run at once may interleave their
 * waits and copies on the engine's streams: each still waits before its own copy and records after it. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "device/error.h"
#include "offload/host_pool.h"
#include "offload/items.h"
#include "offload/order.h"
#include "weir/offload.h"

enum { COPY_MAX = 64 << 20 }; /* longer copies are cut, so that one does not hold a direction for long */

struct weir_offload {
    struct weir_device *device;
    struct weir_pool *pool;
    struct weir_host_pool *host;
    struct weir__events *events;
    weir_stream to_host, to_device;
    bool owns_to_host, owns_to_device;
    struct weir__items items;
    pthread_mutex_t lock; /* of stats */
    struct weir_offload_stats stats;
    size_t granule; /* of the device */
    uint64_t loads; /* so far; numbers the items that are loaded */
};

static _Thread_local bool prefetching; /* this thread asks for a block that nobody needs yet */

/* ---- counters -------------------------------------------------------------------------------------------------- */

static void count(struct weir_offload *engine, uint64_t *counter) {
    pthread_mutex_lock(&engine->lock);
    ++*counter;
    pthread_mutex_unlock(&engine->lock);
}

static void count_out(struct weir_offload *engine, size_t bytes) {
    struct weir_offload_stats *stats = &engine->stats;
    pthread_mutex_lock(&engine->lock);
    stats->bytes_out += bytes;
    stats->host_live_bytes += bytes;
    if (stats->host_live_bytes > stats->host_peak_bytes) stats->host_peak_bytes = stats->host_live_bytes;
    pthread_mutex_unlock(&engine->lock);
}

static void count_in(struct weir_offload *engine, size_t bytes) {
    pthread_mutex_lock(&engine->lock);
    engine->stats.bytes_in += bytes;
    pthread_mutex_unlock(&engine->lock);
}

static void count_host_free(struct weir_offload *engine, size_t bytes) {
    pthread_mutex_lock(&engine->lock);
    assert(engine->stats.host_live_bytes >= bytes);
    engine->stats.host_live_bytes -= bytes;
    pthread_mutex_unlock(&engine->lock);
}

/* ---- pieces of a move ------------------------------------------------------------------------------------------ */

static enum weir_status wait_for(struct weir_offload *engine, const char *site, weir_stream stream, weir_event event) {
    return weir__offload_wait(engine->device, site, stream, event);
}

static enum weir_status synchronize(struct weir_offload *engine, const char *site, weir_stream stream) {
    return weir__offload_synchronize(engine->device, site, stream);
}

/* Makes `stream` wait for what `other` has queued so far. */
static enum weir_status wait_for_stream(struct weir_offload *engine, const char *site, weir_stream stream,
                                        weir_stream other) {
    weir_event position;
    enum weir_status status = weir__events_record(engine->events, other, &position);
    if (status == WEIR_OK) {
        status = wait_for(engine, site, stream, position);
        weir__events_give(engine->events, position);
    }
    return status;
}

/* Copies between a device block and a host block, in pieces that stay within one registration. */
static enum weir_status copy(struct weir_offload *engine, char *to, const char *from, size_t bytes, const char *host,
                             weir_stream stream) {
    enum weir_status status = WEIR_OK;
    for (size_t done = 0; done < bytes && status == WEIR_OK;) {
        size_t piece = weir_host_pool_span(engine->host, host + done);
        piece = piece < COPY_MAX ? piece : COPY_MAX;
        piece = piece < bytes - done ? piece : bytes - done;
        status = weir_copy(engine->device, to + done, from + done, piece, stream);
        done += piece;
    }
    return status;
}

/* After some call of a move out has failed: the device block stays the caller's, whose stream must not overtake the copies
 * that are queued already, and the host block goes back once they have passed. Here the host waits when there is no other
 * way. */
static void undo_out(struct weir_offload *engine, void *host, weir_stream stream) {
    struct weir_error error = *weir_last_error();
    weir_event busy = NULL;
    bool recorded = weir__events_record(engine->events, engine->to_host, &busy) == WEIR_OK;
    bool ordered = (recorded && wait_for(engine, "offload.out.undo", stream, busy) == WEIR_OK) ||
                   synchronize(engine, "offload.out.undo.host", engine->to_host) == WEIR_OK;
    if (recorded || ordered) weir__host_pool_give(engine->host, host, busy);
    if (!ordered) {
        weir__log(WEIR__LOG_ERROR, "offload: copies of a block that failed to move out can't be waited for%s",
                  recorded ? "" : "; its host block is lost");
    }
    weir__fail(error.status, error.driver_code, error.call, "%s", error.message);
}

/* ---- out ------------------------------------------------------------------------------------------------------- */

/* Queues the copy to `host`, ordered after the caller's stream. */
static enum weir_status queue_out(struct weir_offload *engine, const void *block, void *host, size_t bytes,
                                  weir_stream stream) {
    enum weir_status status = wait_for_stream(engine, "offload.out.ready", engine->to_host, stream);
    return status == WEIR_OK ? copy(engine, host, block, bytes, host, engine->to_host) : status;
}

static enum weir_status move_out(struct weir_offload *engine, struct weir__item *item, void *block, void *host,
                                 weir_stream stream) {
    weir_event out = NULL;
    enum weir_status status = queue_out(engine, block, host, item->bytes, stream);
    if (status == WEIR_OK) status = weir__events_record(engine->events, engine->to_host, &out);
    if (status == WEIR_OK) status = weir__offload_free_after(engine->pool, "offload.out.free", block, out, stream);
    if (status != WEIR_OK) {
        weir__events_give(engine->events, out);
        undo_out(engine, host, stream);
        return status;
    }
    item->state = WEIR__ITEM_HOST;
    item->host = host;
    item->event = out;
    count_out(engine, item->bytes);
    return WEIR_OK;
}

/* Takes a host block that to_host may write to once it gets there. */
static enum weir_status take_host(struct weir_offload *engine, size_t bytes, void **host) {
    weir_event busy;
    enum weir_status status = weir__host_pool_take(engine->host, bytes, host, &busy);
    if (status != WEIR_OK || busy == NULL) return status;
    status = wait_for(engine, "offload.out.slot", engine->to_host, busy);
    if (status != WEIR_OK) {
        weir__host_pool_give(engine->host, *host, busy);
        return status;
    }
    weir__events_give(engine->events, busy);
    return WEIR_OK;
}

/* The item stays on the device; what a consumer on another stream needs is the producer's position. */
static enum weir_status keep(struct weir_offload *engine, struct weir__item *item, void *block, weir_stream stream) {
    enum weir_status status = weir__events_record(engine->events, stream, &item->event);
    if (status == WEIR_OK) {
        item->state = WEIR__ITEM_KEPT;
        item->block = block;
        count(engine, &engine->stats.kept);
    }
    return status;
}

static enum weir_status place(struct weir_offload *engine, struct weir__item *item, void *block, weir_stream stream) {
    if (item->bytes == 0) {
        item->state = WEIR__ITEM_EMPTY;
        return weir_pool_free(engine->pool, block, stream);
    }
    void *host;
    enum weir_status status = take_host(engine, item->bytes, &host);
    if (status == WEIR_OUT_OF_HOST_MEMORY) return keep(engine, item, block, stream);
    return status == WEIR_OK ? move_out(engine, item, block, host, stream) : status;
}

enum weir_status weir_offload_out(struct weir_offload *engine, void *block, size_t bytes, weir_stream stream,
                                  struct weir_item *item) {
    if (engine == NULL || item == NULL || (block == NULL && bytes > 0)) {
        return WEIR__INVALID("weir_offload_out: %s is NULL", engine == NULL ? "engine"
                                                             : item == NULL ? "item"
                                                                            : "block");
    }
    *item = (struct weir_item){0};
    struct weir__item *opened = weir__items_open(&engine->items);
    if (opened == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "offload: no memory for an item");
    opened->bytes = bytes;
    struct weir_item handle = {.index = opened->index, .generation = opened->generation};
    enum weir_status status = place(engine, opened, block, stream);
    if (status != WEIR_OK) {
        weir__items_close(&engine->items, opened);
        return status;
    }
    count(engine, &engine->stats.offloads);
    weir__items_unclaim(&engine->items, opened);
    *item = handle;
    return WEIR_OK;
}

/* ---- in -------------------------------------------------------------------------------------------------------- */

/* Queues the copy into `block`, ordered after the consumer's stream, where the block was allocated; records *in after it. */
static enum weir_status queue_in(struct weir_offload *engine, const struct weir__item *item, void *block,
                                 weir_stream stream, weir_event *in) {
    enum weir_status status = wait_for_stream(engine, "offload.in.block", engine->to_device, stream);
    if (status == WEIR_OK) status = copy(engine, block, item->host, item->bytes, item->host, engine->to_device);
    return status == WEIR_OK ? weir__events_record(engine->events, engine->to_device, in) : status;
}

/* Gives a device block back whose copy in may be queued in part. The item stays on the host, and what is queued becomes
 * its event: to_device has waited for the copy out before. */
static void undo_in(struct weir_offload *engine, struct weir__item *item, void *block, weir_stream stream) {
    struct weir_error error = *weir_last_error();
    weir_event partly = NULL;
    enum weir_status status = weir__events_record(engine->events, engine->to_device, &partly);
    if (status == WEIR_OK) {
        status = weir__offload_free_after(engine->pool, "offload.in.undo", block, partly, stream);
        weir__events_give(engine->events, item->event);
        item->event = partly;
    } else if ((status = synchronize(engine, "offload.in.undo.host", engine->to_device)) == WEIR_OK) {
        status = weir_pool_free(engine->pool, block, stream);
    }
    if (status != WEIR_OK)
        weir__log(WEIR__LOG_ERROR, "offload: a device block is lost: %s", weir_last_error()->message);
    weir__fail(error.status, error.driver_code, error.call, "%s", error.message);
}

/* Gives a device block: to_device has waited for the item's copy out, and nothing is queued that touches the block. */
static enum weir_status begin_in(struct weir_offload *engine, const struct weir__item *item, weir_stream stream,
                                 void **block) {
    enum weir_status status = weir_pool_alloc(engine->pool, item->bytes, stream, block);
    if (status != WEIR_OK) return status;
    status = wait_for(engine, "offload.in.out", engine->to_device, item->event);
    if (status != WEIR_OK) {
        struct weir_error error = *weir_last_error();
        if (weir_pool_free(engine->pool, *block, stream) != WEIR_OK)
            weir__log(WEIR__LOG_ERROR, "offload: a device block is lost: %s", weir_last_error()->message);
        weir__fail(error.status, error.driver_code, error.call, "%s", error.message);
    }
    return status;
}

/* HOST becomes LOADING, or nothing changes. */
static enum weir_status load(struct weir_offload *engine, struct weir__item *item, weir_stream stream) {
    void *block;
    weir_event in;
    enum weir_status status = begin_in(engine, item, stream, &block);
    if (status != WEIR_OK) return status;
    status = queue_in(engine, item, block, stream, &in);
    if (status != WEIR_OK) {
        undo_in(engine, item, block, stream);
        return status;
    }
    weir__events_give(engine->events, item->event);
    item->event = in;
    item->block = block;
    item->loaded = __atomic_add_fetch(&engine->loads, 1, __ATOMIC_RELAXED);
    item->state = WEIR__ITEM_LOADING;
    count_in(engine, item->bytes);
    return WEIR_OK;
}

enum weir_status weir_offload_prefetch(struct weir_offload *engine, struct weir_item handle, weir_stream stream) {
    if (engine == NULL) return WEIR__INVALID("weir_offload_prefetch: engine is NULL");
    struct weir__item *item;
    enum weir_status status = weir__items_claim(&engine->items, handle, &item);
    if (status != WEIR_OK) return status;
    if (item->state == WEIR__ITEM_HOST) {
        prefetching = true;
        status = load(engine, item, stream);
        prefetching = false;
        if (status == WEIR_OK) count(engine, &engine->stats.prefetches);
    }
    weir__items_unclaim(&engine->items, item);
    return status;
}

/* Gives the host block back, busy until the copy in has passed; the item's event goes with it. */
static void give_host(struct weir_offload *engine, struct weir__item *item) {
    weir__host_pool_give(engine->host, item->host, item->event);
    item->event = NULL;
    count_host_free(engine, item->bytes);
}

static enum weir_status hand_back(struct weir_offload *engine, struct weir__item *item, weir_stream stream,
                                  void **block) {
    if (item->state == WEIR__ITEM_EMPTY) return weir_pool_alloc(engine->pool, 0, stream, block);
    bool kept = item->state == WEIR__ITEM_KEPT;
    enum weir_status status = wait_for(engine, kept ? "offload.fetch.kept" : "offload.fetch.in", stream, item->event);
    if (status != WEIR_OK) return status;
    *block = item->block;
    if (kept) {
        weir__events_give(engine->events, item->event);
        count(engine, &engine->stats.forwarded);
    } else {
        give_host(engine, item);
    }
    return WEIR_OK;
}

enum weir_status weir_offload_fetch(struct weir_offload *engine, struct weir_item handle, weir_stream stream,
                                    void **block) {
    if (engine == NULL || block == NULL)
        return WEIR__INVALID("weir_offload_fetch: %s is NULL", engine == NULL ? "engine" : "block");
    *block = NULL;
    struct weir__item *item;
    enum weir_status status = weir__items_claim(&engine->items, handle, &item);
    if (status != WEIR_OK) return status;
    if (item->state == WEIR__ITEM_HOST) {
        status = load(engine, item, stream);
        if (status == WEIR_OK) count(engine, &engine->stats.late);
    }
    if (status == WEIR_OK) status = hand_back(engine, item, stream, block);
    if (status != WEIR_OK) {
        weir__items_unclaim(&engine->items, item);
        return status;
    }
    count(engine, &engine->stats.fetches);
    weir__items_close(&engine->items, item);
    return WEIR_OK;
}

/* ---- reclaim --------------------------------------------------------------------------------------------------- */

/* An item that did not move after all stays as it was; the host waits for what may be queued of its copy. */
static void undo_late(struct weir_offload *engine, void *host) {
    if (synchronize(engine, "offload.kept.undo", engine->to_host) == WEIR_OK)
        weir__host_pool_give(engine->host, host, NULL);
    else
        weir__log(WEIR__LOG_ERROR,
                  "offload: copies of a block that failed to move out can't be waited for; its host block is lost");
}

/* KEPT becomes HOST, or nothing changes. */
static enum weir_status move_late(struct weir_offload *engine, struct weir__item *item) {
    void *host;
    weir_event out = NULL;
    enum weir_status status = take_host(engine, item->bytes, &host);
    if (status != WEIR_OK) return status;
    status = wait_for(engine, "offload.kept.ready", engine->to_host, item->event);
    if (status == WEIR_OK) status = copy(engine, host, item->block, item->bytes, host, engine->to_host);
    if (status == WEIR_OK) status = weir__events_record(engine->events, engine->to_host, &out);
    if (status == WEIR_OK)
        status = weir__offload_free_after(engine->pool, "offload.kept.free", item->block, out, engine->to_device);
    if (status != WEIR_OK) {
        weir__events_give(engine->events, out);
        undo_late(engine, host);
        return status;
    }
    weir__events_give(engine->events, item->event);
    item->event = out;
    item->host = host;
    item->state = WEIR__ITEM_HOST;
    count_out(engine, item->bytes);
    count(engine, &engine->stats.moved_late);
    return WEIR_OK;
}

/* LOADING becomes HOST again; its copy in is what the next one comes after. */
static enum weir_status drop_prefetch(struct weir_offload *engine, struct weir__item *item) {
    enum weir_status status =
        weir__offload_free_after(engine->pool, "offload.dropped", item->block, item->event, engine->to_host);
    if (status != WEIR_OK) return status;
    item->state = WEIR__ITEM_HOST;
    count(engine, &engine->stats.dropped);
    return WEIR_OK;
}

/* Gives: bytes that the pool is sure to have of what was given to it, at least. */
static size_t give_up(struct weir_offload *engine, enum weir__item_state state, size_t wanted_bytes,
                      enum weir_status (*give)(struct weir_offload *engine, struct weir__item *item)) {
    size_t given = 0;
    bool any = false;
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && given < wanted_bytes) {
        struct weir__item *item = weir__items_borrow(&engine->items, state);
        if (item == NULL) break;
        const size_t bytes = item->bytes;
        status = give(engine, item);
        weir__items_unclaim(&engine->items, item);
        if (status != WEIR_OK) break;
        any = true;
        given += bytes > engine->granule ? bytes - engine->granule : 0; /* the pages that it has to itself */
    }
    return any && given == 0 ? 1 : given;
}

/* For a request that the pool would refuse. */
static bool reclaim(void *self, struct weir_pool *pool, size_t wanted_bytes) {
    struct weir_offload *engine = self;
    (void)pool;
    if (prefetching) return false;
    size_t given = give_up(engine, WEIR__ITEM_KEPT, wanted_bytes, move_late);
    if (given < wanted_bytes) given += give_up(engine, WEIR__ITEM_LOADING, wanted_bytes - given, drop_prefetch);
    return given > 0;
}

/* ---- release --------------------------------------------------------------------------------------------------- */

/* Drops what a claimed item holds. On failure it holds it still. */
static enum weir_status drop(struct weir_offload *engine, struct weir__item *item) {
    if (item->state == WEIR__ITEM_KEPT || item->state == WEIR__ITEM_LOADING) {
        enum weir_status status =
            weir__offload_free_after(engine->pool, "offload.release", item->block, item->event, engine->to_host);
        if (status != WEIR_OK) return status;
    }
    if (item->state == WEIR__ITEM_HOST || item->state == WEIR__ITEM_LOADING)
        give_host(engine, item);
    else
        weir__events_give(engine->events, item->event);
    return WEIR_OK;
}

enum weir_status weir_offload_release(struct weir_offload *engine, struct weir_item handle) {
    if (engine == NULL) return WEIR__INVALID("weir_offload_release: engine is NULL");
    struct weir__item *item;
    enum weir_status status = weir__items_claim(&engine->items, handle, &item);
    if (status != WEIR_OK) return status;
    status = drop(engine, item);
    if (status == WEIR_OK)
        weir__items_close(&engine->items, item);
    else
        weir__items_unclaim(&engine->items, item);
    return status;
}

/* ---- create, destroy, stats ------------------------------------------------------------------------------------ */

static enum weir_status need_stream(struct weir_device *device, weir_stream given, weir_stream *stream, bool *owned) {
    *stream = given;
    if (given != NULL) return WEIR_OK;
    enum weir_status status = weir_stream_create(device, stream);
    *owned = status == WEIR_OK;
    return status;
}

static void drop_stream(struct weir_offload *engine, weir_stream stream, bool owned) {
    if (owned && weir_stream_destroy(engine->device, stream) != WEIR_OK)
        weir__log(WEIR__LOG_ERROR, "offload: a stream could not be destroyed: %s", weir_last_error()->message);
}

static void tear_down(struct weir_offload *engine) {
    drop_stream(engine, engine->to_host, engine->owns_to_host);
    drop_stream(engine, engine->to_device, engine->owns_to_device);
    weir__items_destroy(&engine->items);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

enum weir_status weir_offload_create(struct weir_device *device, struct weir_pool *pool, struct weir_host_pool *host,
                                     const struct weir_offload_options *options, struct weir_offload **out) {
    if (out == NULL || device == NULL || pool == NULL || host == NULL)
        return WEIR__INVALID("weir_offload_create: needs a device, a pool, a host pool and a place for the engine");
    *out = NULL;
    if (options != NULL && options->size != sizeof *options)
        return WEIR__INVALID("offload: options->size is %zu, %zu expected", options->size, sizeof *options);
    if (weir__host_pool_device(host) != device)
        return WEIR__INVALID("offload: the host pool was made for another device");
    struct weir_device_info info = {.size = sizeof info};
    enum weir_status status = weir_device_get_info(device, &info);
    if (status != WEIR_OK) return status;
    struct weir_offload *engine = calloc(1, sizeof *engine);
    if (engine == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "offload: no memory for an engine");
    engine->device = device;
    engine->pool = pool;
    engine->host = host;
    engine->events = weir__host_pool_events(host);
    engine->granule = info.granularity_bytes;
    weir__items_init(&engine->items, device);
    pthread_mutex_init(&engine->lock, NULL);
    const struct weir_offload_options none = {.size = sizeof none};
    options = options != NULL ? options : &none;
    status = need_stream(device, options->to_host, &engine->to_host, &engine->owns_to_host);
    if (status == WEIR_OK)
        status = need_stream(device, options->to_device, &engine->to_device, &engine->owns_to_device);
    if (status == WEIR_OK) status = weir_pool_add_reclaim(pool, reclaim, engine);
    if (status != WEIR_OK) {
        tear_down(engine);
        return status;
    }
    *out = engine;
    return WEIR_OK;
}

void weir_offload_destroy(struct weir_offload *engine) {
    if (engine == NULL) return;
    if (weir_pool_remove_reclaim(engine->pool, reclaim, engine) != WEIR_OK)
        weir__log(WEIR__LOG_ERROR, "offload: %s", weir_last_error()->message);
    if (synchronize(engine, "offload.destroy.out", engine->to_host) != WEIR_OK ||
        synchronize(engine, "offload.destroy.in", engine->to_device) != WEIR_OK)
        weir__log(WEIR__LOG_ERROR, "offload: the engine's copies can't be waited for: %s", weir_last_error()->message);
    for (struct weir__item *item; (item = weir__items_claim_any(&engine->items)) != NULL;) {
        if (drop(engine, item) != WEIR_OK) {
            weir__log(WEIR__LOG_ERROR, "offload: a device block is left to its pool: %s", weir_last_error()->message);
            weir__events_give(engine->events, item->event);
            if (item->state == WEIR__ITEM_LOADING) weir__host_pool_give(engine->host, item->host, NULL);
        }
        weir__items_close(&engine->items, item);
    }
    tear_down(engine);
}

enum weir_status weir_offload_get_stats(struct weir_offload *engine, struct weir_offload_stats *stats) {
    if (engine == NULL || stats == NULL || stats->size != sizeof *stats)
        return WEIR__INVALID("weir_offload_get_stats: needs an engine and stats->size == %zu", sizeof *stats);
    pthread_mutex_lock(&engine->lock);
    *stats = engine->stats;
    pthread_mutex_unlock(&engine->lock);
    stats->size = sizeof *stats;
    stats->open_items = weir__items_count(&engine->items);
    return WEIR_OK;
}
