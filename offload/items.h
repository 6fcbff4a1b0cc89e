/* SPDX-License-Identifier: Apache-2.0 */
/* Items by handle: a table whose places are used again, with a generation that makes every earlier handle stale.
 *
 * Places come in segments that never move, so that a claimed item can be used without the lock. A claim keeps two calls
 * on one item apart; the second is refused. What the engine claims of itself, for a while, a call waits for.
 *
 *   a place is free, or open (its generation is the handle's), and open or claimed
 *   borrowed: claimed by the engine
 *   open == sum(open places) */
#ifndef WEIR_OFFLOAD_ITEMS_H
#define WEIR_OFFLOAD_ITEMS_H

#include <pthread.h>

#include "weir/offload.h"

/* Where an item's bytes are. */
enum weir__item_state {
    WEIR__ITEM_EMPTY,   /* no bytes: nowhere */
    WEIR__ITEM_KEPT,    /* on the device: the caller's own block; `ready` is its producer's position */
    WEIR__ITEM_HOST,    /* in the host block; `out` is the copy that wrote it */
    WEIR__ITEM_LOADING, /* on the way to the device block; `in` is the copy that reads the host block */
};

struct weir__item {
    enum weir__item_state state;
    size_t bytes;
    void *host;       /* HOST, LOADING */
    void *block;      /* KEPT, LOADING */
    weir_event event; /* KEPT: ready; HOST: out; LOADING: in. The item's own */
    uint64_t loaded;  /* LOADING: when, the later the larger */
    uint32_t index, generation;
    bool open, claimed, borrowed;
    struct weir__item *next_free;
};

struct weir__items {
    struct weir_device *device;
    pthread_mutex_t lock;
    struct weir__item **segments;
    uint32_t segment_count;
    struct weir__item *free;
    uint64_t open;
};

void weir__items_init(struct weir__items *items, struct weir_device *device);
void weir__items_destroy(struct weir__items *items);

/* A fresh item, open and claimed; NULL without memory. */
struct weir__item *weir__items_open(struct weir__items *items);
/* Claims the item of a handle, once the engine does not borrow it. Fails: WEIR_INVALID for a stale one, and for one that another call
 * is using. */
enum weir_status weir__items_claim(struct weir__items *items, struct weir_item handle, struct weir__item **out);
/* Ends a claim; the item stays. */
void weir__items_unclaim(struct weir__items *items, struct weir__item *item);
/* Ends a claim and the item: its handle is stale from now on. */
void weir__items_close(struct weir__items *items, struct weir__item *item);
/* Claims some item that is open and not claimed; NULL when there is none. */
struct weir__item *weir__items_claim_any(struct weir__items *items);
/* Borrows an item in a state, the one that was loaded last; it ends as a claim does. NULL when there is none. */
struct weir__item *weir__items_borrow(struct weir__items *items, enum weir__item_state state);
uint64_t weir__items_count(struct weir__items *items);

#endif
