/* SPDX-License-Identifier: Apache-2.0 */
/* Order between streams as the pool sees it: slots, ticks, marks, and waits.
 *
 * slot    a place for one stream; streams come and go, slot numbers are used again
 * tick    position in a stream's queue: the number of the mark that will be recorded next there. What is freed now is
 *         tagged with it, so a tag (slot, tick) is behind us once any mark of that slot with number >= tick has passed
 * mark    an event of the pool's own, recorded on a stream
 * ordered `slot` is known to run after a tag: the tag is the slot's own, or complete, or the pool made it wait
 * complete the host has seen that a mark at or after the tag has passed
 * deterministic: what the device did is not looked at. `complete` rises by the pool's own waits alone, and marks live until
 *         then, thinned out when they are many
 * lost    a slot whose stream is gone without a mark after its last tags; only a synchronised device completes those
 *
 * Invariants.
 *   ticks of a slot never go back, not even when the slot gets another stream; so old knowledge is never wrong
 *   slot.complete < slot.tick;   slot.after[t] < slots[t].tick
 *   a mark is recorded after every tag with a tick <= its own was taken
 *   an event goes back to the spare ones only when no call uses its mark
 *   a stream's destroy goes on only when no call uses the stream
 *
 * Locking: everything is under the pool's lock. Functions marked (unlocks) let go of it around driver calls and take it
 * again; only queries are made under the lock. */
#ifndef WEIR_ALLOC_ORDER_H
#define WEIR_ALLOC_ORDER_H

#include <pthread.h>

#include "alloc/extent.h"
#include "alloc/index.h"
#include "alloc/table.h"
#include "alloc/wait.h"
#include "device/device.h"
#include "device/emulated.h"
#include "weir/pool.h"

#define WEIR__SLOT_GONE     0u /* stands for all streams that are no more; its tags are always complete */
#define WEIR__SLOT_NONE     UINT32_MAX
#define WEIR__MARK_FREES    64u  /* a mark is recorded after so many frees on a stream, */
#define WEIR__MARK_GRANULES 128u /* or when so many granules were freed there */
#define WEIR__MOST_MARKS    256u /* of a slot in deterministic mode */

struct weir__mark {
    struct weir__mark *next;
    uint64_t tick;
    CUevent event;
    unsigned users; /* calls that use the event with the lock let go */
    bool recorded;  /* the driver has accepted the record */
    bool passed;    /* no longer in the slot's list; the last user retires it */
};

struct weir__slot {
    uint32_t number;
    weir_stream stream;
    bool open, alive; /* open: in use; alive: the stream exists as far as is known */
    unsigned users;   /* calls that use the stream with the lock let go */
    char name[32];
    uint64_t tick, complete;
    uint64_t final_tick; /* once not alive: what tags for this slot carry */
    struct weir__mark *oldest, *newest;
    unsigned mark_count;
    uint64_t *after; /* by slot: highest tick of it that this stream is known to run after */
    bool wants_mark; /* per-stream policy: a noted use was freed and must be seen complete */
    unsigned frees_since_mark;
    size_t bytes_since_mark;
    struct weir__index idle[2]; /* per-stream policy: [1] is for small blocks */
#define WEIR__SLOT_FIELD(type, field, text) type field;
    WEIR_STREAM_STATS_LIST(WEIR__SLOT_FIELD)
#undef WEIR__SLOT_FIELD
};

struct weir__order {
    struct weir_device *device;
    pthread_mutex_t *lock;
    size_t granule;
    bool deterministic; /* polls see nothing */
    struct weir__slot **slots;
    uint32_t count, room;
    uint32_t not_alive; /* open slots whose stream is gone */
    struct weir__table by_stream;
    pthread_cond_t unused; /* the last user of a dying stream is done */
    CUevent *events;       /* spare ones */
    size_t event_count, event_room;
    uint64_t order_calls;
};

enum weir_status weir__order_open(struct weir__order *order, struct weir_device *device, pthread_mutex_t *lock,
                                  size_t granule);
/* Needs: no call in flight. */
void weir__order_close(struct weir__order *order);

/* Gives: the slot of a stream, WEIR__SLOT_NONE when it has none yet. */
uint32_t weir__order_find(const struct weir__order *order, weir_stream stream);
/* Gives: a slot for a stream that has none; WEIR__SLOT_NONE without host memory. */
uint32_t weir__order_add(struct weir__order *order, weir_stream stream);
/* True when a slot's stream is gone and all that it did is complete, so that extents need not name it any more. */
bool weir__order_is_over(const struct weir__order *order, uint32_t slot);
/* Forgets such a slot. Needs: no extent names it. */
void weir__order_forget(struct weir__order *order, uint32_t slot);

/* A tag for what is freed on a slot now; `bytes` counts towards the next mark. */
struct weir__tag weir__order_tag(struct weir__order *order, uint32_t slot, size_t bytes);
bool weir__order_is_complete(const struct weir__order *order, struct weir__tag tag);
bool weir__order_is_ordered(const struct weir__order *order, uint32_t slot, struct weir__tag tag);
bool weir__order_extent_is_complete(const struct weir__order *order, const struct weir__extent *extent);
bool weir__order_extent_is_ordered(const struct weir__order *order, uint32_t slot, const struct weir__extent *extent);

/* Asks the driver which marks have passed. Gives: true when something new is complete. Never in deterministic mode. */
bool weir__order_poll(struct weir__order *order);
/* The same, and for slots with tags after their last mark whether the whole stream is empty: dearer, sees more. */
bool weir__order_poll_streams(struct weir__order *order);
/* True when enough was freed on a slot since its last mark. */
bool weir__order_mark_is_due(const struct weir__order *order, uint32_t slot);
/* (unlocks) Records a mark on a slot's stream now, unless it is gone: its last mark stands for all. Fails: WEIR_DRIVER,
 * WEIR_OUT_OF_HOST_MEMORY; no mark is made. */
enum weir_status weir__order_mark(struct weir__order *order, uint32_t slot);
/* (unlocks) Makes a slot's stream run after a tag: it waits for the first sufficient mark, recorded now if there is
 * none. Gives: *waited when the driver was asked to wait. Fails: the driver; nothing is known that was not before. */
enum weir_status weir__order_wait_device(struct weir__order *order, uint32_t slot, struct weir__tag tag, bool *waited);
/* (unlocks) Makes the host wait until a tag is complete, at most until `deadline_ns` of the device's clock.
 * Gives: WEIR_NOT_READY past the deadline. */
enum weir_status weir__order_wait_host(struct weir__order *order, struct weir__tag tag, uint64_t deadline_ns);
/* (unlocks) Before a stream is destroyed: a last mark unless it is empty, then its slot is not alive. Waits for the calls
 * of other threads that record on the stream. */
void weir__order_stream_destroyed(struct weir__order *order, weir_stream stream);

#endif
