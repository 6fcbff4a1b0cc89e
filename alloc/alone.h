/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that stand alone on a handle of their own, so that they can be given to another process.
 *
 * alone   a block outside the arena: own addresses, one handle of as many pages as it needs. To accounts, tags, tables and
 *         the allowance it is a block like any other. Freed, it is idle (its extent is pending) until somebody needs the memory:
 *         then it goes back to the driver, once the host has seen its uses end
 *
 * Everything needs the pool's lock; functions marked (unlocks) let go of it around driver calls. */
#ifndef WEIR_ALLOC_ALONE_H
#define WEIR_ALLOC_ALONE_H

#include <stdbool.h>
#include <stddef.h>

#include "device/driver.h"
#include "weir/status.h"

struct weir_pool;
struct weir__alone;
struct weir__extent;
struct weir__request;
struct weir__sums;

/* (unlocks) As a policy's alloc. Needs: request->bytes in whole granules. */
enum weir_status weir__alone_alloc(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out);
/* A block comes back, with its tags. */
void weir__alone_release(struct weir_pool *pool, struct weir__extent *extent);
/* (unlocks) Gives back what is idle and complete, while more than `target_bytes` are held. Gives: whether there was any. */
bool weir__alone_trim(struct weir_pool *pool, size_t target_bytes);
/* The idle one that was freed first of those that are not complete and may go, or NULL. */
struct weir__extent *weir__alone_oldest_incomplete(const struct weir_pool *pool);
/* (unlocks) The host waits for that, as in the ladder. False: there is none, or no time. */
bool weir__alone_wait(struct weir_pool *pool, struct weir__request *request);
/* (unlocks) The host waits for what was freed first of all that is idle, alone or not. False: there is none, or no time. */
bool weir__wait_for_idle(struct weir_pool *pool, struct weir__request *request);
/* (unlocks) For a request that lacks memory: gives all back that is complete, and if there is none the host waits. Gives:
 * whether to look again. */
bool weir__alone_give(struct weir_pool *pool, struct weir__request *request);
/* All that is mapped can be used as `access` says too. The driver is called with the lock held (peer.c). */
enum weir_status weir__alone_set_access(struct weir_pool *pool, const CUmemAccessDesc *access);
/* For slots that are gone: `visit` may change the tags. */
void weir__alone_each(struct weir_pool *pool, void (*visit)(struct weir_pool *pool, struct weir__extent *extent));
/* Calls `visit` with each block, and what was one, in no order. */
void weir__alone_tell(const struct weir_pool *pool,
                      void (*visit)(void *self, const struct weir_pool *pool, const struct weir__extent *block),
                      void *self);
enum weir_status weir__alone_check(const struct weir_pool *pool, struct weir__sums *sums);
void weir__alone_close(struct weir_pool *pool);

#endif
