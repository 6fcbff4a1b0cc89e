/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool's last events were, for its snapshots (docs/snapshot.md): the option history says how many are kept, the oldest
 * give way. All under the pool's lock; where nothing is kept an event costs one comparison. */
#ifndef WEIR_ALLOC_HISTORY_H
#define WEIR_ALLOC_HISTORY_H

#include "alloc/pool.h"

enum weir__past {
    WEIR__PAST_ALLOC,
    WEIR__PAST_FREE,
    WEIR__PAST_MAPPED, /* addresses have pages from here on */
    WEIR__PAST_UNMAPPED,
    WEIR__PAST_TAKEN,      /* of the per-stream pool: one allocation of the driver's, or a block alone */
    WEIR__PAST_GIVEN_BACK, /* and its end */
    WEIR__PAST_REFUSED,    /* in the place of the address: what the device has free */
    WEIR__PAST_SNAPSHOT,
};

struct weir__past_event {
    uintptr_t address;
    size_t bytes;
    weir_stream stream;
    uint64_t ns;
    enum weir__past kind;
};

struct weir__history {
    size_t room;
    uint64_t count; /* of all that there were; the last `room` of them are kept */
    struct weir__past_event events[];
};

/* Gives: NULL for no room. Fails: WEIR_OUT_OF_HOST_MEMORY. Host memory that is never reached is never touched. */
enum weir_status weir__history_open(size_t room, struct weir__history **out);
void weir__history_close(struct weir__history *history);
void weir__history_put(struct weir_pool *pool, enum weir__past kind, uintptr_t address, size_t bytes, uint32_t slot);
/* Copies what is kept, oldest first, to room for as much. Gives: how many. */
size_t weir__history_copy(const struct weir__history *history, struct weir__past_event *to);

struct weir__pickle;
/* Writes events as a list of entries of device_traces: a free as two (history_pickle.c). */
void weir__history_pickle(struct weir__pickle *pickle, const struct weir__past_event *events, size_t count);

/* Of no bytes there is no event. */
static inline void weir__history_add(struct weir_pool *pool, enum weir__past kind, uintptr_t address, size_t bytes,
                                     uint32_t slot) {
    if (pool->history != NULL && (bytes > 0 || kind >= WEIR__PAST_REFUSED))
        weir__history_put(pool, kind, address, bytes, slot);
}

/* Pages are no stream's: the viewer joins neighbours of one stream alone, and what it can't join it can't undo. */
static inline void weir__history_pages(struct weir_pool *pool, enum weir__past kind, uintptr_t address, size_t bytes) {
    weir__history_add(pool, kind, address, bytes, WEIR__SLOT_NONE);
}

static inline void weir__history_segment(struct weir_pool *pool, enum weir__past kind,
                                         const struct weir__extent *extent) {
    weir__history_add(pool, kind, extent->address, extent->bytes, extent->home);
}

/* A block has the bytes that were asked for; one without memory is left out, as in the snapshot's segments. */
static inline void weir__history_block(struct weir_pool *pool, enum weir__past kind, const struct weir__extent *block) {
    if (pool->history != NULL && block->bytes > 0)
        weir__history_put(pool, kind, block->address, block->requested_bytes, block->home);
}

#endif
