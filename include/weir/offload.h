/* SPDX-License-Identifier: Apache-2.0 */
/* Offload: moves saved activations to CPU memory and back in time.
 *
 * The host pool holds pinned host memory: slabs bound to the NUMA node of the GPU's own CPUs, registered with the
 * driver, cut up by a private jemalloc arena, under a hard budget. The engine moves items: it copies a block out on its
 * own stream after the last use, gives the block back to the device pool with the copy's event, and copies it back on
 * a second stream when asked, so that the block is ready when the consumer reaches it. The host never waits for a copy.
 *
 * Before the device pool refuses a request it asks the engine (weir_pool_add_reclaim): items that stayed on the device for want of
 * host memory move out if there is some by now, then prefetches that were not fetched yet are given up, the latest first; fetch copies
 * those in again. A prefetch itself takes nothing from others in that way.
 *
 * An item is a handle (index and generation), never an address: a stale handle is an error, not somebody else's data.
 *
 * Stream order. offload(block, s): the copy starts after the position of s now; the block is no longer the caller's.
 * fetch(item, s): s waits for the item's own copy, not for the engine's stream.
 *
 * Threads: any; calls on one item are the caller's to order. This library must be linked at program start (it holds
 * jemalloc, whose thread-local storage is static); it can't be loaded with dlopen. */
#ifndef WEIR_OFFLOAD_H
#define WEIR_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/device.h"
#include "weir/pool.h"
#include "weir/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- host pool ------------------------------------------------------------------------------------------------- */

struct weir_host_pool;

struct weir_host_pool_options {
    size_t size;         /* sizeof(struct weir_host_pool_options) */
    size_t budget_bytes; /* most host memory that slabs may take; 0: a half of the memory that the process's cgroup and
                          * machine have available, over `ranks` */
    size_t slab_bytes;   /* size of a slab; 0: a sixteenth of the budget, 4 MiB to 1 GiB */
    int ranks;           /* processes that share the host; 0: 1 */
    int numa_node;       /* -1: the device's own; a node without CPUs is refused (GPU memory shown as a node). 0 is a
                          * node number, so set -1 when in doubt */
};

struct weir_host_pool_stats {
    size_t size; /* in: sizeof(struct weir_host_pool_stats) */
    size_t budget_bytes;
    size_t slab_bytes;       /* taken from the system in slabs */
    size_t registered_bytes; /* of these, pinned with the driver */
    size_t live_bytes;       /* handed out, as asked */
    size_t peak_live_bytes;
    uint64_t slabs, register_calls, register_failures;
    uint64_t refused; /* requests refused for the budget */
    int numa_node;    /* -1: unbound */
    bool bound;       /* pages are bound to numa_node */
};

/* Fails: WEIR_INVALID (budget below one slab, a node without CPUs), WEIR_OUT_OF_HOST_MEMORY. *out is NULL. */
WEIR_API enum weir_status weir_host_pool_create(struct weir_device *device,
                                                const struct weir_host_pool_options *options,
                                                struct weir_host_pool **out);
/* Needs: no copy in flight from or to its memory (destroy the engine before). */
WEIR_API void weir_host_pool_destroy(struct weir_host_pool *pool);
/* Gives: `bytes` bytes of pinned memory, aligned to 64. bytes == 0 gives NULL and WEIR_OK.
 * Fails: WEIR_OUT_OF_HOST_MEMORY past the budget; counted; the pool is as it was. */
WEIR_API enum weir_status weir_host_pool_alloc(struct weir_host_pool *pool, size_t bytes, void **out);
/* Needs: no copy from or to the block is queued or running. NULL is allowed; an address that is no block's start is
 * logged as an error, and nothing changes. */
WEIR_API void weir_host_pool_free(struct weir_host_pool *pool, void *address);
/* As weir_host_pool_free, but copies of the block (of any part of it) may still be queued on `stream`: it is not handed
 * out again before what `stream` has queued so far has passed. Fails: WEIR_DRIVER; the block is still the caller's. */
WEIR_API enum weir_status weir_host_pool_free_on(struct weir_host_pool *pool, void *address, weir_stream stream);
/* Gives: how many bytes from `address` on lie in the same registration; 0 outside the pool. A block may go on in the next
 * one, and drivers refuse a copy across the border: a program that copies by itself cuts there (the engine does). */
WEIR_API size_t weir_host_pool_span(struct weir_host_pool *pool, const void *address);
WEIR_API enum weir_status weir_host_pool_get_stats(struct weir_host_pool *pool, struct weir_host_pool_stats *stats);

/* ---- engine ---------------------------------------------------------------------------------------------------- */

struct weir_offload;

struct weir_item {
    uint32_t index;
    uint32_t generation; /* 0 is never a valid item */
};

struct weir_offload_options {
    size_t size;           /* sizeof(struct weir_offload_options) */
    weir_stream to_host;   /* stream for copies out; 0: the engine makes its own */
    weir_stream to_device; /* stream for copies in; 0: the engine makes its own */
};

struct weir_offload_stats {
    size_t size; /* in: sizeof(struct weir_offload_stats) */
    uint64_t offloads, fetches, prefetches;
    uint64_t kept;      /* items that stayed on the device, since host memory was exhausted */
    uint64_t forwarded; /* fetched while still on the device: handed back without a copy */
    uint64_t late;      /* fetches without a prefetch before, or whose prefetch was given up */
    size_t bytes_out, bytes_in;
    size_t host_live_bytes, host_peak_bytes;
    uint64_t open_items; /* offloaded and not yet fetched or released */
    uint64_t moved_late; /* items that had stayed on the device and moved out when the pool was short */
    uint64_t dropped;    /* prefetches that were given up when the pool was short */
};

WEIR_API enum weir_status weir_offload_create(struct weir_device *device, struct weir_pool *pool,
                                              struct weir_host_pool *host, const struct weir_offload_options *options,
                                              struct weir_offload **out);
/* Waits for the engine's copies, then releases open items. */
WEIR_API void weir_offload_destroy(struct weir_offload *engine);

/* Takes a block of the pool over: copies its first `bytes` bytes to the host after what `stream` has queued so far, and
 * frees it to the pool after that copy.
 *
 * Gives:   *item.
 * Fails:   WEIR_INVALID, WEIR_DRIVER, WEIR_OUT_OF_HOST_MEMORY (for the item itself): the block is still the caller's. A full host pool is no failure: the item stays
 *          on the device, and is counted. */
WEIR_API enum weir_status weir_offload_out(struct weir_offload *engine, void *block, size_t bytes, weir_stream stream,
                                           struct weir_item *item);
/* Starts the copy back into a new block, allocated on `stream` now; a second call does nothing.
 * Fails: WEIR_OUT_OF_MEMORY: nothing has changed, and fetch will try again. */
WEIR_API enum weir_status weir_offload_prefetch(struct weir_offload *engine, struct weir_item item, weir_stream stream);
/* Gives the item back: *block is ready for use on `stream` and belongs to the caller; the item is gone.
 * Fails: WEIR_INVALID for a stale item, WEIR_OUT_OF_MEMORY: the item stays. */
WEIR_API enum weir_status weir_offload_fetch(struct weir_offload *engine, struct weir_item item, weir_stream stream,
                                             void **block);
/* Drops an item without reading it back. */
WEIR_API enum weir_status weir_offload_release(struct weir_offload *engine, struct weir_item item);
WEIR_API enum weir_status weir_offload_get_stats(struct weir_offload *engine, struct weir_offload_stats *stats);

#if defined(__cplusplus)
}
#endif
#endif
