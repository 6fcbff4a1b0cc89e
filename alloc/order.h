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
 * lost    a slot whose stream is gone without a mark after its last tags; a mark of the context completes those
 * mark of the context   an event that stands for all that was queued in the device's context, on whatever stream, known or
 *         not: a mark on every slot at once. Where the driver has no such event the host waits for the context instead, when
 *         the memory is needed
 *
 * What may be asked of a slot's stream depends on how much is known of it (kind):
 *   stream   weir made it, or it can't go (the legacy one): it is there until weir_stream_destroy has been heard
 *   foreign  made elsewhere: only a call that names it proves that it is there, and its handle may be another stream's by
 *            now, which its id tells (one cuStreamGetId at first sight, and one at each request and note; 2 context
 *            switches come with it). Others never touch it: they use marks that are there, or one of the context
 *   thread   a thread's default stream: its thread alone can name it. Others record on the legacy stream, which comes after
 *            it; when the thread has ended it is lost
 *   any      no stream: what a call names that names none. Nothing is in its order but what is complete
 *
 * Invariants.
 *   ticks of a slot never go back, not even when the slot gets another stream; so old knowledge is never wrong
 *   slot.complete < slot.tick;   slot.after[t] < slots[t].tick
 *   a mark is recorded after every tag with a tick <= its own was taken
 *   a mark of the context stands in the list of the slot `any`; its ticks[t] < slots[t].tick
 *   an event goes back to the spare ones only when no call uses its mark
 *   a stream's destroy goes on only when no call uses the stream
 *
 * Locking: everything is under the pool's lock. Functions marked (unlocks) let go of it around driver calls and take it
 * again; only queries are made under the lock. */
#ifndef WEIR_ALLOC_ORDER_H
#define WEIR_ALLOC_ORDER_H

#include <pthread.h>

#include "alloc/capture.h"
#include "alloc/extent.h"
#include "alloc/heard.h"
#include "alloc/identity.h"
#include "alloc/index.h"
#include "alloc/table.h"
#include "alloc/wait.h"
#include "device/device.h"
#include "device/emulated.h"
#include "weir/pool.h"

#define WEIR__SLOT_GONE 0u /* stands for all streams that are no more; its tags are always complete */
#define WEIR__SLOT_NONE UINT32_MAX
#define WEIR__MARK_GRANULES                                                                                            \
    128u /* a mark is recorded when so many granules that were freed on a stream are idle without one, */
#define WEIR__MARK_FREES 1024u /* or after so many frees, */
#define WEIR__MARK_SOON  64u   /* or so many, where it can't be recorded at any time later */
#define WEIR__MOST_LOST  32u   /* slots that are gone before a mark of the context is made for them */
#define WEIR__MOST_MARKS 256u  /* of a slot in deterministic mode */

struct weir__mark {
    struct weir__mark *next;
    uint64_t tick;
    CUevent event;
    unsigned users;   /* calls that use the event with the lock let go */
    bool recorded;    /* the driver has accepted the record */
    bool passed;      /* no longer in the slot's list; the last user retires it */
    uint32_t covers;  /* of the context: it is a mark of so many slots, */
    uint64_t ticks[]; /* at these ticks */
};

enum weir__slot_kind { WEIR__KIND_STREAM, WEIR__KIND_FOREIGN, WEIR__KIND_THREAD, WEIR__KIND_ANY };

struct weir__slot {
    uint32_t number;
    weir_stream stream;
    uintptr_t key; /* in by_stream, while alive */
    enum weir__slot_kind kind;
    unsigned long long id;       /* foreign: its stream's; 0: not known */
    struct weir__thread *thread; /* thread: whose */
    bool unordered;              /* nothing that it did can be relied on: only what is complete comes before it */
    bool lost;                   /* not alive, and nobody said so */
    bool open, alive;            /* open: in use; alive: the stream exists as far as is known */
    bool ends;                   /* its destroy has begun: nothing is kept for it any more */
    unsigned users;              /* calls that use the stream with the lock let go */
    unsigned held;               /* calls that need the slot to be no other stream's with the lock let go */
    char name[32];
    uint64_t
        tick; /* atomic, for fronts: it moves before a mark is recorded or the stream is asked, so that who has queued work
                      and sees the old one has queued it before */
    uint64_t complete;   /* atomic, for fronts */
    uint64_t final_tick; /* once not alive: what tags for this slot carry */
    struct weir__mark *oldest, *newest;
    unsigned mark_count;
    uint64_t *after;            /* by slot: highest tick of it that this stream is known to run after */
    bool wants_mark;            /* per-stream policy: a noted use was freed and must be seen complete */
    unsigned frees_since_mark;  /* atomic, for fronts */
    size_t bytes_since_mark;    /* freed, and not taken again as far as is known */
    struct weir__front *front;  /* NULL until the first free for one */
    struct weir__index idle[2]; /* per-stream policy: [1] is for small blocks */
#define WEIR__SLOT_FIELD(type, field, text) type field;
    WEIR_STREAM_STATS_LIST(WEIR__SLOT_FIELD)
#undef WEIR__SLOT_FIELD
};

/* As a program sees it: 0 where a call named none. */
static inline weir_stream weir__slot_stream(const struct weir__slot *slot) {
    return slot->kind != WEIR__KIND_ANY ? slot->stream : NULL;
}

/* What a free on a living slot is tagged with now. */
static inline uint64_t weir__slot_tick(const struct weir__slot *slot) {
    return __atomic_load_n(&slot->tick, __ATOMIC_ACQUIRE);
}

static inline unsigned weir__slot_frees(const struct weir__slot *slot) {
    return __atomic_load_n(&slot->frees_since_mark, __ATOMIC_RELAXED);
}
static inline void weir__slot_count_frees(struct weir__slot *slot, unsigned frees) {
    __atomic_fetch_add(&slot->frees_since_mark, frees, __ATOMIC_RELAXED);
}

struct weir__order {
    struct weir_device *device;
    pthread_mutex_t *lock;
    size_t granule;
    bool deterministic;        /* polls see nothing */
    bool no_context_events;    /* the driver refuses them */
    uint32_t any;              /* the slot for no stream; WEIR__SLOT_NONE until the first call that names none */
    struct weir__slot **slots; /* atomic, for fronts */
    struct weir__slot **old_slots[32]; /* shorter ones */
    uint32_t old_count;
    uint32_t count, room;
    uint32_t not_alive;     /* open slots whose stream is gone, */
    uint32_t lost, covered; /* of those, lost ones, and those for which a mark of the context has been made since */
    struct weir__table by_stream;
    struct weir__heard heard; /* not in deterministic mode: it hangs on when calls of other threads are heard */
    pthread_cond_t unused;    /* the last user of a stream that dies or is captured is done */
    CUevent *events;          /* spare ones */
    size_t event_count, event_room;
    uint64_t order_calls;
    uint64_t passed;      /* counts what has become complete: marks, streams found empty, waits for the context */
    CUresult query_error; /* what the driver said of a mark when it was asked last, if that was no answer */
};

enum weir_status weir__order_open(struct weir__order *order, struct weir_device *device, pthread_mutex_t *lock,
                                  size_t granule);
/* Needs: no call in flight. */
void weir__order_close(struct weir__order *order);

/* Gives: the slot of a stream, WEIR__SLOT_NONE when it has none yet. */
static inline uint32_t weir__order_find(const struct weir__order *order, weir_stream stream) {
    const struct weir__slot *slot = weir__table_get(&order->by_stream, weir__stream_key(stream));
    return slot == NULL ? WEIR__SLOT_NONE : slot->number;
}
/* Gives: a slot for a stream that has none; WEIR__SLOT_NONE without host memory. */
uint32_t weir__order_add(struct weir__order *order, weir_stream stream);
/* Needs: a call that names the slot's stream. Sees whether the handle still stands for the same stream; when it does not,
 * the old slot is lost and *slot is a new one. Fails: WEIR_DRIVER when the handle names no stream; WEIR_OUT_OF_HOST_MEMORY. */
enum weir_status weir__order_confirm(struct weir__order *order, uint32_t *slot);
/* A stream that weir has just made: one of the same handle that was there before is gone, unheard. */
void weir__order_stream_created(struct weir__order *order, weir_stream stream);
/* The stream whose handle names the slot in this call; WEIR__ANY_STREAM when none does. `named`: by the call itself. */
weir_stream weir__order_handle(const struct weir__order *order, uint32_t slot, bool named);
/* True when a slot's stream is gone, all that it did is complete and no call holds it, so that extents need not name it any more. */
bool weir__order_is_over(const struct weir__order *order, uint32_t slot);
/* Between the two it is not, so that a call may let go of the lock and know the slot by its number after. The stream may end. */
void weir__order_hold(struct weir__order *order, uint32_t slot);
void weir__order_let_go(struct weir__order *order, uint32_t slot);
/* Forgets such a slot. Needs: no extent names it. */
void weir__order_forget(struct weir__order *order, uint32_t slot);

/* A tag for what is freed on a slot now; `bytes` counts towards the next mark. */
struct weir__tag weir__order_tag(struct weir__order *order, uint32_t slot, size_t bytes);
/* The same for one of a tick that was then. */
struct weir__tag weir__order_tag_at(struct weir__order *order, uint32_t slot, uint64_t tick, size_t bytes);
/* The noted uses of a block that is freed are up to now. */
void weir__order_tag_notes(struct weir__order *order, struct weir__extent *extent);
/* What bears the tags has been taken by a stream: it counts towards marks no longer. */
void weir__order_untag(struct weir__order *order, const struct weir__extent *taken);
static inline bool weir__order_is_complete(const struct weir__order *order, struct weir__tag tag) {
    return tag.slot == WEIR__SLOT_GONE || tag.tick <= order->slots[tag.slot]->complete;
}
static inline bool weir__order_is_ordered(const struct weir__order *order, uint32_t slot, struct weir__tag tag) {
    if (weir__order_is_complete(order, tag)) return true;
    if (order->slots[slot]->unordered) return false;
    return tag.slot == slot || tag.tick <= order->slots[slot]->after[tag.slot];
}
static inline bool weir__order_extent_is_complete(const struct weir__order *order, const struct weir__extent *extent) {
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (!weir__order_is_complete(order, extent->tags[i])) return false;
    return true;
}
/* The first of an extent's tags that a slot's stream is not known to run after; NULL when there is none. */
static inline const struct weir__tag *weir__order_unordered(const struct weir__order *order, uint32_t slot,
                                                            const struct weir__extent *extent) {
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (!weir__order_is_ordered(order, slot, extent->tags[i])) return &extent->tags[i];
    return NULL;
}
static inline bool weir__order_extent_is_ordered(const struct weir__order *order, uint32_t slot,
                                                 const struct weir__extent *extent) {
    return weir__order_unordered(order, slot, extent) == NULL;
}

/* Ordered, or, as far as was heard, by the program: then making the slot's stream wait for it costs the device nothing. */
static inline bool weir__order_extent_is_likely(const struct weir__order *order, uint32_t slot,
                                                const struct weir__extent *idle) {
    for (uint32_t i = 0; i < idle->tag_count; i++)
        if (!weir__order_is_ordered(order, slot, idle->tags[i]) &&
            !weir__heard_before(&order->heard, idle->tags[i].slot, idle->tags[i].number, slot))
            return false;
    return true;
}

/* Likely, or what is to be waited for could begin so many frees ago and more, as far as was heard: then the wait is short, if it is one. */
static inline bool weir__order_extent_is_ripe(const struct weir__order *order, uint32_t slot,
                                              const struct weir__extent *idle, uint64_t frees) {
    for (uint32_t i = 0; i < idle->tag_count; i++)
        if (!weir__order_is_ordered(order, slot, idle->tags[i]) &&
            !weir__heard_before(&order->heard, idle->tags[i].slot, idle->tags[i].number, slot) &&
            !weir__heard_begun(&order->heard, idle->tags[i].slot, slot, frees))
            return false;
    return true;
}

/* Asks the driver which marks have passed. Gives: true when something new is complete. Never in deterministic mode. */
bool weir__order_poll(struct weir__order *order);
/* The same, and for slots with tags after their last mark whether the whole stream is empty: dearer, sees more. */
bool weir__order_poll_streams(struct weir__order *order);
/* The same look at marks for a request that the host waits for, which is a site of its own (wait.h). */
bool weir__order_poll_waited(struct weir__order *order);
/* True when a mark is there that has not been seen to have passed. */
bool weir__order_has_marks(const struct weir__order *order);
/* The same, of the streams of some tags. */
bool weir__order_look(struct weir__order *order, const struct weir__tag *tags, uint32_t count);
/* True when enough was freed on a slot since its last mark. */
bool weir__order_mark_is_due(const struct weir__order *order, uint32_t slot);
/* (unlocks) Records a mark on a slot's stream now, unless it is gone: its last mark stands for all. `named`: by the call.
 * Where the stream can't be touched, a mark of the context. Fails: WEIR_DRIVER, WEIR_OUT_OF_HOST_MEMORY; no mark is made. */
enum weir_status weir__order_mark(struct weir__order *order, uint32_t slot, bool named);
/* (unlocks) Records marks for all tags that have none yet, but for those of streams in capture. Fails as weir__order_mark; the
 * marks that were made stay. */
enum weir_status weir__order_mark_all(struct weir__order *order);
/* (unlocks) For streams that can't be asked and have tags after their last mark: records a mark of the context, and gives
 * an idle device a moment, at most 1 ms, to pass it. */
void weir__order_reach(struct weir__order *order);
/* (unlocks) When many slots are lost: records a mark of the context, so that they are seen to be over some day. */
void weir__order_cover_lost(struct weir__order *order);
/* (unlocks) Makes a slot's stream run after a tag: it waits for the first sufficient mark, recorded now if there is
 * none. Gives: *waited when the driver was asked to wait. Fails: the driver; nothing is known that was not before. */
enum weir_status weir__order_wait_device(struct weir__order *order, uint32_t slot, struct weir__tag tag, bool *waited);
/* (unlocks) Makes the host wait until a tag is complete, at most until `deadline_ns` of the device's clock.
 * Gives: WEIR_NOT_READY past the deadline. */
enum weir_status weir__order_wait_host(struct weir__order *order, struct weir__tag tag, uint64_t deadline_ns);
/* True unless an extent bears a tag that can be waited for only when a capture has ended (capture.h). */
/* True when an extent bears a tag that is not complete and that no mark covers. */
bool weir__order_extent_lacks_mark(const struct weir__order *order, const struct weir__extent *extent);
bool weir__order_extent_can_be_waited_for(const struct weir__order *order, const struct weir__extent *extent);
/* What was freed on a stream so far is complete at no time and ordered for nobody: its slot is no more that of the stream. */
void weir__order_retire(struct weir__order *order, weir_stream stream);
/* (unlocks) Waits for the calls of other threads that record on a stream. */
void weir__order_wait_for_users(struct weir__order *order, weir_stream stream);
/* (unlocks) Before a stream is destroyed: a last mark unless it is empty, then its slot is not alive. Waits for the calls
 * of other threads that record on the stream. */
void weir__order_stream_destroyed(struct weir__order *order, weir_stream stream);

#endif
