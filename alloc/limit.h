/* SPDX-License-Identifier: Apache-2.0 */
/* The limit as the other parts of the pool ask about it.
 *
 * untaken  what may still be taken from the driver: 0, never a wrapped difference, while more is held than a lowered limit
 * excess   what the pool, or its family, holds above a lowered limit, to be given back as it becomes idle and complete
 *
 * Invariant.  held <= most_held == max(limit, what has been held ever since the limit was lowered) <= capacity
 *
 * Everything here needs the pool's lock. */
#ifndef WEIR_ALLOC_LIMIT_H
#define WEIR_ALLOC_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"

struct weir_pool;

size_t weir__untaken_bytes(const struct weir_pool *pool);
size_t weir__excess_bytes(const struct weir_pool *pool);
/* (unlocks) Gives back what is idle and complete while more than `target_bytes` are held; in deterministic mode it waits for what
 * is not complete. */
enum weir_status weir__trim(struct weir_pool *pool, size_t target_bytes);
/* (unlocks) Gives the excess back as far as it is idle and complete; what is wrong with that is logged. */
void weir__give_excess_back(struct weir_pool *pool);
/* False while the pool holds more than its limit and what is live leaves no room for `bytes` more under the limit. */
bool weir__limit_has_room(const struct weir_pool *pool, size_t bytes);
/* False when what is live leaves no room for `bytes` more under the limit, whatever else is given back. */
bool weir__limit_leaves(const struct weir_pool *pool, size_t bytes);

#endif
