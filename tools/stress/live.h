/* SPDX-License-Identifier: Apache-2.0 */
/* The live blocks of all threads, by address: so that memory which is handed out twice is found, and so that it is known how
 * much room there was when a request is refused. Threads: any.
 *
 * A block is begun before its memory is asked for, and ended after its free has returned: in between it may hold memory, so
 * all of it counts where a refusal is judged. It is in place from the hand-out to the call of the free. */
#ifndef WEIR_STRESS_LIVE_H
#define WEIR_STRESS_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_MOST_BLOCKS 65536
#define HISTORY          8192 /* blocks that are remembered */

struct weir_pool;

struct block {
    uint64_t number; /* from 1, in the order of requests */
    unsigned char *address;
    size_t bytes;
    uint32_t home;          /* number of the stream of its allocation */
    uint64_t users;         /* a bit for each other stream that uses it */
    uint32_t id;            /* of its place */
    struct weir_pool *pool; /* a sub-pool's; NULL: of what is tested itself */
    bool stays;             /* with the thread that asked for it */
    bool exportable;        /* stands alone: what is cut off it is nobody's */
};

/* What is remembered of a block when it is no more. */
struct past {
    uint64_t number;
    uintptr_t address;
    size_t bytes;
    uint32_t home;
    bool live;
};

/* What might hold memory when a request began. */
struct live_moment {
    uint64_t moving_pages, changed_pages;
};

struct live;

struct live *live_open(size_t page_bytes);
void live_close(struct live *live);

/* Gives: a block with its number; NULL: there are LIVE_MOST_BLOCKS. */
struct block *live_begin(struct live *live, size_t bytes, uint32_t home, struct live_moment *moment);
/* Puts it in place, block->address being set. Gives: true; false when a live block shares memory with it, *other: it is not
 * in place then, and must not be taken out. */
bool live_put(struct live *live, struct block *block, struct past *other);
/* Takes it out of its place, before its free. */
void live_take(struct live *live, const struct block *block);
/* It holds nothing any more; the struct serves another block. */
void live_end(struct live *live, struct block *block);
/* A request that was refused: ends the block. Gives: bytes of the pages that it, and all that may have held memory while it was
 * asked for, take: with less memory than that, no allocator need have it. */
uint64_t live_refused(struct live *live, struct block *block, const struct live_moment *moment);

uint64_t live_bytes(struct live *live); /* in place, as asked */
uint64_t live_peak_bytes(struct live *live);
/* Gives: the last blocks, up to HISTORY; how many. */
size_t live_history(struct live *live, struct past *pasts);

#endif
