/* SPDX-License-Identifier: Apache-2.0 */
/* The host pool as the engine sees it, and how it is made.
 *
 *   sum(bytes of the blocks handed out) == live_bytes <= slabs.taken_bytes <= slabs.budget_bytes
 *   blocks.runs.end == slabs.taken_bytes
 *
 * The ladder for a request: (1) an idle block of exactly that capacity; (2) a cut from the runs or the arena; (3) idle
 * blocks of other sizes whose copies have passed are dissolved, then 2 again; (4) another slab; (5) refused. In a steady
 * step only 1 is reached: no jemalloc work, no driver call, the same addresses.
 *
 * Lock: one a pool. Under it there are no driver calls but queries; slabs grow outside it, one growth at a time, and a
 * request that needs a growth waits for the one that runs. */
#ifndef WEIR_OFFLOAD_HOST_POOL_H
#define WEIR_OFFLOAD_HOST_POOL_H

#include "offload/events.h"
#include "weir/offload.h"

/* What the pool was made for. */
struct weir_device *weir__host_pool_device(struct weir_host_pool *pool);
/* The events that its blocks may be given back with. */
struct weir__events *weir__host_pool_events(struct weir_host_pool *pool);

/* As weir_host_pool_alloc, but the block may still be busy: the taker makes its stream wait for *busy before it touches
 * the block, then gives the event back. */
enum weir_status weir__host_pool_take(struct weir_host_pool *pool, size_t bytes, void **out, weir_event *busy);
/* As weir_host_pool_free, but the block is busy until `busy` (of weir__host_pool_events, now the pool's) has passed. */
void weir__host_pool_give(struct weir_host_pool *pool, void *address, weir_event busy);

#endif
