/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: what the host pool hands out and what it keeps for the next request of the same size.
 *
 * block:     a range of the slabs that is handed out or idle.
 * capacity:  what a block really takes: the request rounded up to 64 bytes (small, from jemalloc) or 256 (from the runs).
 * size:      all blocks of one capacity; its idle ones wait in the order in which they came back.
 * busy:      the event of the last copy that may still read or write an idle block, NULL when there is none.
 *
 *   sum(capacity of the blocks from the runs) + extents of the arena + runs.free_bytes == bytes in slabs
 *   a size has at least one block; a block is in the address table, and while idle in its size's list
 *
 * Threads: the pool's lock is held in every call; the only driver calls are queries. */
#ifndef WEIR_OFFLOAD_BLOCKS_H
#define WEIR_OFFLOAD_BLOCKS_H

#include "offload/events.h"
#include "offload/runs.h"
#include "offload/small.h"

enum {
    WEIR__SMALL_STEP = 64,    /* alignment that is promised */
    WEIR__LARGE_STEP = 256,   /* at most 3 % of the smallest block that is cut from the runs */
    WEIR__SIZE_BUCKETS = 256, /* sizes that live at once are few: a model has some tens of shapes */
};

struct weir__size {
    size_t capacity;
    size_t blocks; /* handed out or idle */
    struct weir__block *oldest, *newest;
    struct weir__size *next;
};

struct weir__block {
    char *address;
    size_t bytes; /* as asked; 0 while idle */
    struct weir__size *size;
    weir_event busy;
    struct weir__block *next;       /* in the size's idle list */
    struct weir__block *next_known; /* in the address table */
};

struct weir__blocks {
    struct weir_device *device;
    struct weir__events *events;
    char *base; /* of the slabs */
    struct weir__runs runs;
    struct weir__small *small;
    struct weir__size *sizes[WEIR__SIZE_BUCKETS];
    struct weir__block **known; /* by address */
    size_t known_buckets, count;
};

/* Makes an empty set, in place. Fails: WEIR_OUT_OF_HOST_MEMORY, WEIR_SYSTEM; weir__blocks_clear is allowed then. */
enum weir_status weir__blocks_init(struct weir__blocks *blocks, struct weir_device *device, struct weir__events *events,
                                   char *base);
/* Forgets all blocks; their events go back. Needs: no copy in flight. */
void weir__blocks_clear(struct weir__blocks *blocks);

/* What a request of `bytes` takes. Needs: far from SIZE_MAX. */
size_t weir__blocks_capacity(size_t bytes);
/* The block that starts at an address, or NULL. */
struct weir__block *weir__blocks_find(struct weir__blocks *blocks, const void *address);
/* An idle block of exactly that capacity, the oldest first; NULL when there is none. Unless it may be busy, only one that
 * no copy can still touch. */
struct weir__block *weir__blocks_pop_idle(struct weir__blocks *blocks, size_t capacity, bool may_be_busy);
void weir__blocks_push_idle(struct weir__block *block);
/* A new block from the runs or the arena; NULL when nothing fits. */
struct weir__block *weir__blocks_cut(struct weir__blocks *blocks, size_t capacity);
/* Gives the idle blocks whose copies have passed back to the runs and the arena; false when there are none. */
bool weir__blocks_dissolve_idle(struct weir__blocks *blocks);

#endif
