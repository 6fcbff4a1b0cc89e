/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of pinned host memory, since pinning and unpinning are dear. Each block is an allocation of the driver's own, so all that the
 * driver tells of one is right but its size, and that one is freed (host.c corrects both).
 *
 * capacity  what a block is pinned with: the request, rounded up by at most an eighth of it, or to 256 bytes
 * marks     of a block that was freed, a device each: events that stand for all that was queued in its context by then. Before they
 *           have passed the block is not handed out
 * state     live: the program's; idle: in a list; else some call is busy with it
 *
 *   sum(capacity of live blocks) == live <= held == sum(capacity of all blocks)
 *   held <= 1.25 x the highest live + 64 MiB, but where the driver takes nothing back
 *
 * A block serves requests of the same capacity, flags and device. No driver call is made under the lock. */
#ifndef WEIR_ALLOC_PRELOAD_PINNED_H
#define WEIR_ALLOC_PRELOAD_PINNED_H

#include "alloc/preload/preload.h"

#define WEIR__PINNED_PLAIN (1u << 31) /* in place of flags: of cuMemAllocHost, which has none */

/* Gives: pinned memory of the driver's itself. */
CUresult weir__pinned_from_driver(const struct weir__real *driver, void **address, size_t bytes, unsigned flags);
/* Gives: an idle block, or a new one. Needs: bytes > 0; the device's primary context is current; it has a pool.
 * Fails: as the driver, once all that is idle has been given back to it. */
CUresult weir__pinned_alloc(const struct weir__real *driver, int ordinal, size_t bytes, unsigned flags, void **address);
/* Takes a block back, without a wait of the host's where it can be known later what was queued by now; else the driver takes it back,
 * which waits. *ours: it was a block. */
CUresult weir__pinned_free(const struct weir__real *driver, void *address, bool *ours);

struct weir__pinned_found {
    bool live;
    void *start;
    size_t bytes; /* asked for */
};
/* Gives: false unless the address lies in a block. What lies behind the bytes that were asked for is not live. */
bool weir__pinned_find(const struct weir__real *driver, CUdeviceptr address, struct weir__pinned_found *found);

/* A device is about to be reset: its blocks are no more, and all that was queued on it will be over.
 * Needs: no other call; the device has its pool still. */
void weir__pinned_reset(const struct weir__real *driver, int ordinal);

#endif
