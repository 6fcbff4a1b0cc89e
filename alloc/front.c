/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/front.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/check.h"
#include "alloc/pool.h"
#include "device/watched.h"

/* A call of a front takes some tens of nanoseconds: those of a call within it count. */
#define FAST static inline __attribute__((always_inline))

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

/* It is held for some tens of nanoseconds and never across a wait. Free, it costs one exchange and one store: half of a mutex. */
static void wait_and_lock(struct weir__front *front) {
    enum { SPINS = 100 };
    do {
        for (int i = 0; i < SPINS && __atomic_load_n(&front->locked, __ATOMIC_RELAXED); i++) continue;
        if (__atomic_load_n(&front->locked, __ATOMIC_RELAXED)) sched_yield();
    } while (__atomic_exchange_n(&front->locked, true, __ATOMIC_ACQUIRE));
}

FAST void lock(struct weir__front *front) {
    if (__atomic_exchange_n(&front->locked, true, __ATOMIC_ACQUIRE)) wait_and_lock(front);
}

FAST void unlock(struct weir__front *front) { __atomic_store_n(&front->locked, false, __ATOMIC_RELEASE); }

/* ---- what a front has kept; all under its lock -------------------------------------------------------------------- */

FAST struct weir__extent **bin_of(struct weir__front *front, size_t bytes) {
    return &front->bins[(uint64_t)bytes * UINT64_C(0x9E3779B97F4A7C15) >> 58];
}

/* By 1 or -1 block. */
FAST void count_kept(struct weir__front *front, const struct weir__extent *extent, size_t blocks) {
    __atomic_store_n(&front->kept, front->kept + (unsigned)blocks, __ATOMIC_RELAXED);
    __atomic_store_n(&front->kept_bytes, front->kept_bytes + blocks * extent->bytes, __ATOMIC_RELAXED);
    front->kept_requested_bytes += blocks * extent->requested_bytes;
}

/* Links through `left` and `right`: in front of the list, and out of it. */
FAST void link_in(struct weir__extent **list, struct weir__extent *extent) {
    extent->left = NULL;
    extent->right = *list;
    if (*list != NULL) (*list)->left = extent;
    *list = extent;
}

FAST void link_out(struct weir__extent **list, struct weir__extent *extent) {
    if (extent->left != NULL)
        extent->left->right = extent->right;
    else
        *list = extent->right;
    if (extent->right != NULL) extent->right->left = extent->left;
    extent->left = extent->right = NULL;
}

/* Behind the others with noted uses. */
static void link_noted(struct weir__front *front, struct weir__extent *extent) {
    extent->left = front->noted_last;
    extent->right = NULL;
    if (front->noted_last != NULL)
        front->noted_last->right = extent;
    else
        front->noted = extent;
    front->noted_last = extent;
    front->noted_bytes += extent->bytes;
}

static void unlink_noted(struct weir__front *front, struct weir__extent *extent) {
    if (front->noted_last == extent) front->noted_last = extent->left;
    link_out(&front->noted, extent);
    front->noted_bytes -= extent->bytes;
    extent->noted = false;
}

FAST void put_in(struct weir__front *front, struct weir__extent *extent, uint64_t tick, uint64_t number) {
    extent->kept = true;
    extent->kept_tick = tick;
    extent->number = number;
    if (extent->noted)
        link_noted(front, extent);
    else
        link_in(bin_of(front, extent->requested_bytes), extent);
    extent->newer = NULL;
    extent->older = front->newest;
    if (front->newest != NULL)
        front->newest->newer = extent;
    else
        front->oldest = extent;
    front->newest = extent;
    count_kept(front, extent, 1);
}

FAST void take_out(struct weir__front *front, struct weir__extent *extent) {
    if (extent->noted)
        unlink_noted(front, extent);
    else
        link_out(bin_of(front, extent->requested_bytes), extent);
    if (extent->older != NULL)
        extent->older->newer = extent->newer;
    else
        front->oldest = extent->newer;
    if (extent->newer != NULL)
        extent->newer->older = extent->older;
    else
        front->newest = extent->older;
    extent->older = extent->newer = NULL;
    extent->kept = false;
    count_kept(front, extent, SIZE_MAX);
}

/* The one freed last of this size. */
FAST struct weir__extent *find(struct weir__front *front, size_t bytes) {
    struct weir__extent *extent = *bin_of(front, bytes);
    while (extent != NULL && extent->requested_bytes != bytes) extent = extent->right;
    return extent;
}

/* No peak is passed unseen when so much more is taken. */
FAST bool may_take(const struct weir__front *front, size_t bytes, size_t requested_bytes) {
    return front->kept_bytes >= front->withheld_bytes + bytes &&
           front->kept_requested_bytes >= front->withheld_requested_bytes + requested_bytes;
}

FAST bool fits(const struct weir__front *front, size_t bytes) {
    return front->kept < WEIR__FRONT_BLOCKS && front->kept_bytes + bytes <= front->most_bytes;
}

FAST bool fits_noted(const struct weir__front *front, const struct weir__extent *extent) {
    return !extent->noted || front->noted_bytes + extent->bytes <= front->most_noted_bytes;
}

/* ---- without the pool's lock ------------------------------------------------------------------------------------ */

FAST size_t place_of(weir_stream stream) {
    return (size_t)((uint64_t)(uintptr_t)stream * UINT64_C(0x9E3779B97F4A7C15) >> 58);
}

/* The front of a stream, which may be another one's by the time that it is locked. */
FAST struct weir__front *front_of(struct weir_pool *pool, weir_stream stream) {
    for (size_t i = 0, place = place_of(stream); i < WEIR__FRONT_PROBES; i++) {
        struct weir__front *front =
            __atomic_load_n(&pool->fronts.by_stream[(place + i) % WEIR__FRONT_PLACES], __ATOMIC_ACQUIRE);
        if (front == NULL) return NULL;
        if (__atomic_load_n(&front->stream, __ATOMIC_ACQUIRE) == stream) return front;
    }
    return NULL;
}

/* Worth the lock; and the stream does not capture, unknown to the pool. */
FAST bool may_have(const struct weir_pool *pool, const struct weir__front *front, weir_stream stream) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    if (__atomic_load_n(&front->kept, __ATOMIC_RELAXED) == 0) return false;
    if (!__atomic_load_n(&front->can_capture, __ATOMIC_RELAXED)) return true;
    return pool->device->driver->stream_is_capturing(stream, &state) == CUDA_SUCCESS &&
           state == CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Frees of host functions are taken back by the next call that has the pool's lock. */
FAST struct weir__front *lock_front(struct weir_pool *pool, weir_stream stream, bool alloc) {
    if (!pool->fronts.fast || weir__in_host_function()) return NULL;
    if (__atomic_load_n(&pool->inbox, __ATOMIC_RELAXED) != NULL || weir__captures_any()) return NULL;
    struct weir__front *front = front_of(pool, stream);
    if (front == NULL || (alloc && !may_have(pool, front, stream))) return NULL;
    lock(front);
    if (front->fast && front->stream == stream) return front;
    unlock(front);
    return NULL;
}

#define PROBES 16u /* of blocks with noted uses, tried for a request */

static struct weir__extent *find_noted(const struct weir__front *front, size_t bytes) {
    struct weir__extent *extent = front->noted;
    for (unsigned i = 0; i < PROBES && extent != NULL; i++, extent = extent->right)
        if (extent->requested_bytes == bytes) return extent;
    return NULL;
}

/* A slot that a note names is there for as long as the note. */
FAST struct weir__slot *slot_of(const struct weir_pool *pool, const struct weir__tag *tag) {
    return __atomic_load_n(&pool->order.slots, __ATOMIC_ACQUIRE)[tag->slot];
}

/* The first of those with noted uses that is of this size, if the host has seen all of them pass. */
static struct weir__extent *find_over(const struct weir_pool *pool, const struct weir__front *front, size_t bytes) {
    struct weir__extent *extent = find_noted(front, bytes);
    for (uint32_t i = 0; extent != NULL && i < extent->tag_count; i++)
        if (extent->tags[i].tick > __atomic_load_n(&slot_of(pool, &extent->tags[i])->complete, __ATOMIC_ACQUIRE))
            return NULL;
    return extent;
}

/* The noted uses are up to now. A stream that is being destroyed meanwhile is one that the program does not use. */
static void tag_notes(const struct weir_pool *pool, struct weir__front *front, struct weir__extent *extent) {
    for (uint32_t i = 0; i < extent->tag_count; i++) {
        struct weir__slot *slot = slot_of(pool, &extent->tags[i]);
        extent->tags[i].tick = weir__slot_tick(slot);
        weir__slot_count_frees(slot, 1);
    }
    front->noted_since_look++;
}

/* Streams that may go unheard, or are gone, are for the pool. */
static bool may_tag(const struct weir_pool *pool, const struct weir__extent *extent) {
    bool may = extent->tag_count <= WEIR__INLINE_TAGS;
    for (uint32_t i = 0; may && i < extent->tag_count; i++) {
        const struct weir__slot *slot = slot_of(pool, &extent->tags[i]);
        may = slot->kind == WEIR__KIND_STREAM && __atomic_load_n(&slot->alive, __ATOMIC_ACQUIRE);
    }
    return may;
}

/* As weir__tell_taken_back. */
static void tell_taken_back(const struct weir_pool *pool, const struct weir__extent *extent, weir_stream stream) {
    weir_stream named[WEIR__INLINE_TAGS + 1] = {stream};
    size_t count = 1;
    for (uint32_t i = 0; i < extent->tag_count; i++) named[count++] = slot_of(pool, &extent->tags[i])->stream;
    weir__device_take_back(pool->device, (const void *)extent->address, extent->bytes, named, count, NULL);
}

bool weir__front_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out) {
    struct weir__front *front = lock_front(pool, stream, true);
    if (front == NULL) return false;
    struct weir__extent *extent = find(front, bytes);
    if (extent == NULL && front->noted != NULL) extent = find_over(pool, front, bytes);
    if (extent != NULL && !may_take(front, extent->bytes, bytes)) extent = NULL;
    if (extent != NULL) {
        take_out(front, extent);
        weir__extent_tags_clear(extent);
        extent->number = 0; /* it gets one when somebody asks */
        front->allocs++;
        *out = (void *)extent->address;
        if (pool->device->watched) weir__tell_handed_out(pool, extent, stream);
    }
    unlock(front);
    return extent != NULL;
}

/* A free that makes a new peak of what is idle is for the pool to count. */
FAST bool is_peak(const struct weir__front *front, size_t bytes) {
    const struct weir__slot *slot = front->slot;
    return __atomic_load_n(&slot->idle_bytes, __ATOMIC_RELAXED) + front->kept_bytes + bytes >
           __atomic_load_n(&slot->peak_idle_bytes, __ATOMIC_RELAXED);
}

bool weir__front_free(struct weir_pool *pool, void *block, weir_stream stream, size_t *requested_bytes) {
    struct weir__front *front = lock_front(pool, stream, false);
    if (front == NULL) return false;
    struct weir__extent *extent = weir__table_get(&front->own, (uintptr_t)block);
    const bool keep = extent != NULL && !extent->kept && (!extent->noted || may_tag(pool, extent)) &&
                      fits(front, extent->bytes) && fits_noted(front, extent) && !is_peak(front, extent->bytes);
    if (keep) {
        if (requested_bytes != NULL) *requested_bytes = extent->requested_bytes;
        front->frees++;
        if (extent->noted) tag_notes(pool, front, extent);
        if (pool->device->watched) tell_taken_back(pool, extent, stream);
        put_in(front, extent, weir__slot_tick(front->slot), __atomic_load_n(&pool->frees_stamped, __ATOMIC_RELAXED));
    }
    unlock(front);
    return keep;
}

/* ---- under it: fronts ------------------------------------------------------------------------------------------- */

static void settle_fast(const struct weir_pool *pool, struct weir__front *front) {
    const struct weir__fronts *fronts = &pool->fronts;
    front->fast =
        fronts->fast && !front->ended && !fronts->shut && !fronts->waited && !fronts->paused && !fronts->recorded;
}

/* Shows a front to calls that take no lock of the pool's, where there is a place for it. */
static void enter(struct weir_pool *pool, struct weir__front *front) {
    struct weir__front **places = pool->fronts.by_stream, **place = NULL;
    for (size_t i = 0, first = place_of(front->stream); i < WEIR__FRONT_PROBES; i++) {
        place = &places[(first + i) % WEIR__FRONT_PLACES];
        if (*place != NULL && *place != front && !(*place)->ended) continue;
        __atomic_store_n(place, front, __ATOMIC_RELEASE);
        return;
    }
}

/* The front of a slot, made or opened again where it has none; NULL: it can have none. */
static struct weir__front *front_for(struct weir_pool *pool, struct weir__slot *slot) {
    struct weir__front *front = slot->front;
    if (front != NULL && !front->ended) return front;
    if (!slot->alive || slot->ends || slot->kind != WEIR__KIND_STREAM) return NULL;
    if (front == NULL) {
        front = aligned_alloc(_Alignof(struct weir__front), sizeof *front);
        if (front == NULL) return NULL;
        *front = (struct weir__front){.slot = slot,
                                      .ended = true,
                                      .most_bytes = WEIR__FRONT_GRANULES * pool->granule,
                                      .most_noted_bytes = WEIR__FRONT_NOTED * pool->granule,
                                      .next = pool->fronts.first};
        pool->fronts.first = slot->front = front;
    }
    lock(front);
    front->ended = false;
    const bool can_capture =
        slot->stream != NULL && slot->stream != CU_STREAM_LEGACY && pool->device->driver->stream_is_capturing != NULL;
    __atomic_store_n(&front->can_capture, can_capture, __ATOMIC_RELAXED);
    __atomic_store_n(&front->stream, slot->stream, __ATOMIC_RELEASE);
    settle_fast(pool, front);
    unlock(front);
    enter(pool, front);
    return front;
}

/* ---- under it: blocks ------------------------------------------------------------------------------------------- */

#define ASKED_AFTER 16u /* frees of blocks with noted uses; at once for large ones, which it takes calls to replace */

/* Blocks may be kept and taken. */
static bool is_open(const struct weir_pool *pool, const struct weir__front *front) {
    return !front->ended && !pool->fronts.shut && !pool->fronts.waited;
}

/* Tags that a block is held back by. */
struct held_back {
    uint32_t count;
    struct weir__tag tags[WEIR__INLINE_TAGS];
};

/* The first of those with noted uses of this size, if it is ordered before the slot. Else its tags are in `held_back`, where it is time
 * to ask. */
static struct weir__extent *find_ordered(const struct weir_pool *pool, struct weir__front *front, size_t bytes,
                                         struct held_back *held_back) {
    struct weir__extent *extent = find_noted(front, bytes);
    if (extent == NULL || weir__order_extent_is_ordered(&pool->order, front->slot->number, extent)) return extent;
    if ((front->noted_since_look >= ASKED_AFTER || bytes >= pool->granule) && extent->tag_count <= WEIR__INLINE_TAGS) {
        memcpy(held_back->tags, extent->tags, extent->tag_count * sizeof *extent->tags);
        held_back->count = extent->tag_count;
        front->noted_since_look = 0;
    }
    return NULL;
}

/* *new_peak: more is live of what it keeps than the pool has counted at a peak. */
static struct weir__extent *take(const struct weir_pool *pool, struct weir__front *front, size_t bytes,
                                 struct held_back *held_back, bool *new_peak) {
    lock(front);
    struct weir__extent *extent = find(front, bytes);
    if (extent == NULL) extent = find_ordered(pool, front, bytes, held_back);
    if (extent != NULL) {
        take_out(front, extent);
        weir__extent_tags_clear(extent);
        *new_peak = !may_take(front, 0, 0);
    }
    unlock(front);
    return extent;
}

struct weir__extent *weir__front_take(struct weir_pool *pool, uint32_t slot, size_t bytes) {
    struct weir__front *front = pool->order.slots[slot]->front;
    if (front == NULL || __atomic_load_n(&front->kept, __ATOMIC_RELAXED) == 0 || !is_open(pool, front)) return NULL;
    struct held_back held_back;
    bool new_peak;
    held_back.count = 0;
    struct weir__extent *extent = take(pool, front, bytes, &held_back, &new_peak);
    if (extent == NULL && held_back.count > 0 && weir__order_look(&pool->order, held_back.tags, held_back.count)) {
        weir__settle_complete(pool);
        extent = take(pool, front, bytes, &held_back, &new_peak);
    }
    if (extent != NULL && new_peak) weir__account_taken(pool, front->slot);
    return extent;
}

bool weir__front_has(const struct weir__extent *extent) {
    struct weir__front *front = extent->front;
    if (front == NULL) return false;
    lock(front);
    const bool kept = extent->kept;
    unlock(front);
    return kept;
}

static void own_no_more(struct weir__extent *extent) {
    extent->front = NULL;
    extent->noted = false;
}

static void disown(struct weir__front *front, struct weir__extent *extent) {
    weir__table_take(&front->own, extent->address);
    own_no_more(extent);
}

static enum weir_status add_note(struct weir__extent *extent, uint32_t slot) {
    if (!weir__extent_tag_reserve(extent, extent->tag_count + 2)) return WEIR_OUT_OF_HOST_MEMORY;
    weir__extent_tag_add(extent, (struct weir__tag){.slot = slot});
    return WEIR_OK;
}

enum weir_status weir__front_note(struct weir__extent *extent, uint32_t slot) {
    struct weir__front *front = extent->front;
    if (front == NULL) return add_note(extent, slot);
    lock(front);
    const enum weir_status status = extent->kept ? WEIR_INVALID : add_note(extent, slot);
    extent->noted = extent->noted || status == WEIR_OK;
    unlock(front);
    return status;
}

bool weir__front_let_go(struct weir__extent *extent) {
    struct weir__front *front = extent->front;
    if (front == NULL) return true;
    lock(front);
    const bool live = !extent->kept;
    if (live) disown(front, extent);
    unlock(front);
    return live;
}

/* What was kept becomes idle, unused after the tick at its free. Needs: it is no front's own. */
static void give_back(struct weir_pool *pool, struct weir__extent *extent) {
    weir__table_take(&pool->blocks, extent->address);
    weir__inside_remove(&pool->inside, extent);
    weir__account_dead(pool, extent);
    weir__extent_tag_add(extent, weir__order_tag_at(&pool->order, extent->home, extent->kept_tick, extent->bytes));
    weir__settle_by_registration(pool, extent);
}

/* Needs: both locks. */
static void withhold(struct weir__fronts *fronts, struct weir__front *front, size_t bytes, size_t requested_bytes) {
    fronts->withheld_bytes += bytes - front->withheld_bytes;
    fronts->withheld_requested_bytes += requested_bytes - front->withheld_requested_bytes;
    front->withheld_bytes = bytes;
    front->withheld_requested_bytes = requested_bytes;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Takes the `count` oldest out of a front, as a list through `newer`. Needs: its lock, and so many. */
static struct weir__extent *take_oldest(struct weir_pool *pool, struct weir__front *front, unsigned count) {
    struct weir__extent *first = NULL, **link = &first;
    for (; count > 0; count--) {
        struct weir__extent *extent = front->oldest;
        take_out(front, extent);
        disown(front, extent);
        *link = extent;
        link = &extent->newer;
    }
    withhold(&pool->fronts, front, least(front->withheld_bytes, front->kept_bytes),
             least(front->withheld_requested_bytes, front->kept_requested_bytes));
    return first;
}

static void give_list_back(struct weir_pool *pool, struct weir__extent *extent) {
    for (struct weir__extent *next; extent != NULL; extent = next) {
        next = extent->newer;
        extent->newer = NULL;
        give_back(pool, extent);
    }
}

/* Makes room for a block. Needs: the front's lock. Gives: what has to go, to be given back. */
static struct weir__extent *make_room(struct weir_pool *pool, struct weir__front *front, size_t bytes) {
    struct weir__extent *gone = NULL, **link = &gone;
    for (; !fits(front, bytes); link = &(*link)->newer) *link = take_oldest(pool, front, 1);
    return gone;
}

static bool may_keep(const struct weir_pool *pool, const struct weir__extent *extent, uint32_t slot) {
    return pool->fronts.on && extent->home == slot && extent->bytes > 0 &&
           extent->bytes <= WEIR__FRONT_LARGEST * pool->granule;
}

bool weir__front_keep(struct weir_pool *pool, struct weir__extent *extent, uint32_t slot_number) {
    struct weir__slot *slot = pool->order.slots[slot_number];
    struct weir__front *front = may_keep(pool, extent, slot_number) ? front_for(pool, slot) : NULL;
    if (extent->front != NULL && extent->front != front) weir__front_let_go(extent);
    if (front == NULL) return false;
    lock(front);
    struct weir__extent *gone = NULL;
    extent->noted = extent->tag_count > 0;
    const bool keep = is_open(pool, front) && fits_noted(front, extent) &&
                      (extent->front == front || weir__table_reserve(&front->own));
    if (keep) {
        gone = make_room(pool, front, extent->bytes);
        if (extent->front == NULL) weir__table_put(&front->own, extent->address, extent);
        extent->front = front;
        front->noted_since_look += extent->noted;
        weir__order_tag_notes(&pool->order, extent);
        put_in(front, extent, weir__slot_tick(slot), weir__stamp(pool));
        weir__account_kept(slot);
    } else if (extent->front != NULL) {
        disown(front, extent);
    } else {
        extent->noted = false;
    }
    unlock(front);
    give_list_back(pool, gone);
    return keep;
}

/* Two lists through `newer`, each with the oldest first, as one. So it does not matter which front is which. */
static struct weir__extent *merge(struct weir__extent *a, struct weir__extent *b) {
    struct weir__extent *first = NULL, **link = &first;
    while (a != NULL && b != NULL) {
        struct weir__extent **older = a->number <= b->number ? &a : &b;
        *link = *older;
        link = &(*link)->newer;
        *older = *link;
    }
    *link = a != NULL ? a : b;
    return first;
}

bool weir__fronts_drain(struct weir_pool *pool) {
    struct weir__extent *all = NULL;
    for (struct weir__front *front = pool->fronts.first; front != NULL; front = front->next) {
        if (__atomic_load_n(&front->kept, __ATOMIC_RELAXED) == 0) continue;
        lock(front);
        struct weir__extent *kept = take_oldest(pool, front, front->kept);
        unlock(front);
        all = merge(all, kept);
    }
    give_list_back(pool, all);
    return all != NULL;
}

void weir__front_end(struct weir_pool *pool, uint32_t slot) {
    struct weir__front *front = slot == WEIR__SLOT_NONE ? NULL : pool->order.slots[slot]->front;
    if (front == NULL) return;
    lock(front);
    struct weir__extent *kept = take_oldest(pool, front, front->kept);
    front->ended = true;
    front->fast = false;
    for (size_t i = 0; i < front->own.room; i++)
        if (front->own.entries[i].value != NULL) own_no_more(front->own.entries[i].value);
    weir__table_clear(&front->own);
    weir__fronts_count(pool, front);
    unlock(front);
    give_list_back(pool, kept);
}

void weir__fronts_pause(struct weir_pool *pool, size_t *bytes, size_t *requested_bytes) {
    pool->fronts.paused = true;
    for (struct weir__front *front = pool->fronts.first; front != NULL; front = front->next) {
        lock(front);
        front->fast = false;
        *bytes += front->kept_bytes;
        *requested_bytes += front->kept_requested_bytes;
        unlock(front);
    }
}

static void settle_all(struct weir_pool *pool, bool drain) {
    for (struct weir__front *front = pool->fronts.first; front != NULL; front = front->next) {
        lock(front);
        settle_fast(pool, front);
        unlock(front);
    }
    if (drain) weir__fronts_drain(pool);
}

/* Deals out, in equal shares as far as each front has use for its own, what may be taken before there is a new peak. */
void weir__fronts_resume(struct weir_pool *pool) {
    size_t kept = 0, requested = 0, fronts = 0;
    for (struct weir__front *front = pool->fronts.first; front != NULL; front = front->next) {
        lock(front); /* no frees from here on */
        kept += front->kept_bytes;
        requested += front->kept_requested_bytes;
        fronts++;
    }
    size_t room = pool->peak_live_bytes + kept - pool->live_bytes;
    size_t requested_room = pool->peak_requested_bytes + requested - pool->requested_bytes;
    pool->fronts.paused = false;
    for (struct weir__front *front = pool->fronts.first; front != NULL; front = front->next, fronts--) {
        const struct weir__slot *slot = front->slot;
        const size_t own_room = slot->peak_live_bytes + front->kept_bytes - slot->live_bytes;
        const size_t share = least(front->kept_bytes, least(room / fronts, own_room));
        const size_t requested_share = least(front->kept_requested_bytes, requested_room / fronts);
        room -= share;
        requested_room -= requested_share;
        withhold(&pool->fronts, front, front->kept_bytes - share, front->kept_requested_bytes - requested_share);
        settle_fast(pool, front);
        unlock(front);
    }
}

void weir__fronts_shut(struct weir_pool *pool, bool shut) {
    if (pool->fronts.shut == shut) return;
    pool->fronts.shut = shut;
    settle_all(pool, shut);
}

void weir__fronts_recorded(struct weir_pool *pool, bool recorded) {
    if (pool->fronts.recorded == recorded) return;
    pool->fronts.recorded = recorded;
    settle_all(pool, false);
}

void weir__fronts_waited(struct weir_pool *pool, bool waited) {
    if (pool->fronts.waited == waited) return;
    pool->fronts.waited = waited;
    settle_all(pool, waited);
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

bool weir__fronts_keep_any(const struct weir_pool *pool) {
    for (const struct weir__front *front = pool->fronts.first; front != NULL; front = front->next)
        if (__atomic_load_n(&front->kept, __ATOMIC_RELAXED) > 0) return true;
    return false;
}

size_t weir__front_kept_bytes(const struct weir__slot *slot) {
    return slot->front == NULL ? 0 : __atomic_load_n(&slot->front->kept_bytes, __ATOMIC_RELAXED);
}

size_t weir__front_withheld_bytes(const struct weir__slot *slot) {
    return slot->front == NULL ? 0 : slot->front->withheld_bytes;
}

size_t weir__fronts_kept_bytes(const struct weir_pool *pool) {
    size_t bytes = 0;
    for (const struct weir__front *front = pool->fronts.first; front != NULL; front = front->next)
        bytes += __atomic_load_n(&front->kept_bytes, __ATOMIC_RELAXED);
    return bytes;
}

void weir__fronts_lock(struct weir_pool *pool) {
    for (struct weir__front *front = pool->fronts.first; front != NULL; front = front->next) lock(front);
}

void weir__fronts_unlock(struct weir_pool *pool) {
    for (struct weir__front *front = pool->fronts.first; front != NULL; front = front->next) unlock(front);
}

static void show(struct weir_pool *pool, bool shown) {
    for (struct weir__front *front = pool->fronts.first; front != NULL; front = front->next)
        weir__account_shown(pool, front, shown);
}

void weir__fronts_show(struct weir_pool *pool) {
    weir__fronts_lock(pool);
    show(pool, true);
}

void weir__fronts_hide(struct weir_pool *pool) {
    show(pool, false);
    weir__fronts_unlock(pool);
}

/* ---- the walk, and the end -------------------------------------------------------------------------------------- */

static enum weir_status check_kept(const struct weir_pool *pool, const struct weir__front *front) {
    size_t bytes = 0, requested = 0, noted = 0;
    unsigned kept = 0;
    for (const struct weir__extent *extent = front->oldest; extent != NULL; extent = extent->newer, kept++) {
        WEIR__HOLDS(extent->kept && extent->front == front && extent->state == WEIR__USED &&
                        (extent->noted || extent->tag_count == 0) &&
                        weir__table_get(&front->own, extent->address) == extent &&
                        pool->order.slots[extent->home] == front->slot,
                    "extent %#zx+%zu is kept by a front, and it is not one of its own that is free",
                    (size_t)extent->address, extent->bytes);
        WEIR__HOLDS(extent->kept_tick <= front->slot->tick, "extent %#zx+%zu was freed in the future",
                    (size_t)extent->address, extent->bytes);
        bytes += extent->bytes;
        requested += extent->requested_bytes;
        noted += extent->noted ? extent->bytes : 0;
    }
    WEIR__HOLDS(noted == front->noted_bytes && noted <= front->most_noted_bytes,
                "a front keeps %zu bytes with noted uses; it says %zu of at most %zu", noted, front->noted_bytes,
                front->most_noted_bytes);
    WEIR__HOLDS(kept == front->kept && bytes == front->kept_bytes && requested == front->kept_requested_bytes,
                "a front keeps %u blocks of %zu bytes, %zu requested; it says %u, %zu, %zu", kept, bytes, requested,
                front->kept, front->kept_bytes, front->kept_requested_bytes);
    WEIR__HOLDS(kept <= WEIR__FRONT_BLOCKS && bytes <= front->most_bytes, "a front keeps %u blocks of %zu bytes", kept,
                bytes);
    return WEIR_OK;
}

static enum weir_status check_own(const struct weir_pool *pool, const struct weir__front *front) {
    unsigned kept = 0;
    for (size_t i = 0; i < front->own.room; i++) {
        const struct weir__extent *extent = front->own.entries[i].value;
        if (extent == NULL) continue;
        WEIR__HOLDS(extent->front == front && weir__table_get(&pool->blocks, extent->address) == extent,
                    "extent %#zx+%zu is a front's own, and no block", (size_t)extent->address, extent->bytes);
        kept += extent->kept;
    }
    WEIR__HOLDS(kept == front->kept, "a front has %u kept blocks in its table, it says %u", kept, front->kept);
    return WEIR_OK;
}

/* What may be taken from a front makes no new peak of its stream. */
static enum weir_status check_withheld(const struct weir__front *front, size_t may_take) {
    const struct weir__slot *slot = front->slot;
    WEIR__HOLDS(may_take == 0 || slot->live_bytes + may_take <= slot->peak_live_bytes,
                "live %zu of a stream and %zu of its front's are more than the peak %zu", slot->live_bytes, may_take,
                slot->peak_live_bytes);
    return WEIR_OK;
}

static size_t above(size_t a, size_t b) { return a > b ? a - b : 0; }

enum weir_status weir__fronts_check(const struct weir_pool *pool) {
    enum weir_status status = WEIR_OK;
    size_t bytes = 0, requested = 0, withheld = 0, withheld_requested = 0;
    for (const struct weir__front *front = pool->fronts.first; front != NULL && status == WEIR_OK;
         front = front->next) {
        const size_t may_take = above(front->kept_bytes, front->withheld_bytes);
        status = check_kept(pool, front);
        if (status == WEIR_OK) status = check_own(pool, front);
        if (status == WEIR_OK && !pool->fronts.paused) status = check_withheld(front, may_take);
        WEIR__HOLDS(!front->ended || (front->kept == 0 && front->own.count == 0),
                    "a front without a stream has blocks");
        bytes += may_take;
        requested += above(front->kept_requested_bytes, front->withheld_requested_bytes);
        withheld += front->withheld_bytes;
        withheld_requested += front->withheld_requested_bytes;
    }
    if (status != WEIR_OK) return status;
    WEIR__HOLDS(withheld == pool->fronts.withheld_bytes && withheld_requested == pool->fronts.withheld_requested_bytes,
                "fronts withhold %zu bytes, %zu requested; the pool says %zu, %zu", withheld, withheld_requested,
                pool->fronts.withheld_bytes, pool->fronts.withheld_requested_bytes);
    if (pool->fronts.paused) return WEIR_OK;
    WEIR__HOLDS((bytes == 0 || pool->live_bytes + bytes <= pool->peak_live_bytes) &&
                    (requested == 0 || pool->requested_bytes + requested <= pool->peak_requested_bytes),
                "live %zu and %zu of fronts are more than the peak %zu, or requested %zu and %zu than %zu",
                pool->live_bytes, bytes, pool->peak_live_bytes, pool->requested_bytes, requested,
                pool->peak_requested_bytes);
    return WEIR_OK;
}

void weir__fronts_close(struct weir_pool *pool) {
    while (pool->fronts.first != NULL) {
        struct weir__front *front = pool->fronts.first;
        pool->fronts.first = front->next;
        weir__table_clear(&front->own);
        free(front);
    }
}
