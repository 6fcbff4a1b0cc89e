/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/order.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/spent.h"
#include "device/over.h"

/* ---- slots ------------------------------------------------------------------------------------------------------ */

/* The old table stays, since a front may be looking at it: all old ones are smaller than the new one together. */
static bool grow_slots(struct weir__order *order) {
    uint32_t room = order->room == 0 ? 16 : order->room * 2;
    struct weir__slot **slots = calloc(room, sizeof *slots);
    if (slots == NULL) return false;
    if (order->count > 0) memcpy(slots, order->slots, order->count * sizeof *slots);
    order->old_slots[order->old_count++] = order->slots;
    __atomic_store_n(&order->slots, slots, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < order->count; i++) {
        uint64_t *after = realloc(slots[i]->after, room * sizeof *after);
        if (after == NULL) return false; /* some are longer than they need to be; that harms nothing */
        memset(after + order->room, 0, (room - order->room) * sizeof *after);
        slots[i]->after = after;
    }
    order->room = room;
    return true;
}

/* An unused slot: one that was forgotten, else a new one. */
static uint32_t unused_slot(struct weir__order *order) {
    for (uint32_t i = 1; i < order->count; i++)
        if (!order->slots[i]->open) return i;
    if (order->count == order->room && !grow_slots(order)) return WEIR__SLOT_NONE;
    struct weir__slot *slot = calloc(1, sizeof *slot);
    if (slot == NULL) return WEIR__SLOT_NONE;
    slot->after = calloc(order->room, sizeof *slot->after);
    if (slot->after == NULL) {
        free(slot);
        return WEIR__SLOT_NONE;
    }
    slot->tick = 1;
    slot->number = order->count;
    order->slots[order->count] = slot;
    return order->count++;
}

static enum weir__slot_kind kind_of(const struct weir__order *order, weir_stream stream) {
    if (stream == WEIR__ANY_STREAM) return WEIR__KIND_ANY;
    if (stream == CU_STREAM_PER_THREAD) return WEIR__KIND_THREAD;
    const bool stays = stream == NULL || stream == CU_STREAM_LEGACY || weir__device_has_stream(order->device, stream);
    return stays ? WEIR__KIND_STREAM : WEIR__KIND_FOREIGN;
}

/* 0 where the driver has no such numbers, or can't be asked here. */
static CUresult read_id(const struct weir__order *order, weir_stream stream, unsigned long long *id) {
    *id = 0;
    if (order->device->driver->stream_id == NULL || weir__device_enter(order->device) != WEIR_OK) return CUDA_SUCCESS;
    CUresult code = order->device->driver->stream_id(stream, id);
    weir__device_leave(order->device);
    return code;
}

/* The slot is no stream's any more. */
static void take_off(struct weir__order *order, struct weir__slot *slot, uint64_t final_tick) {
    weir__table_take(&order->by_stream, slot->key);
    slot->final_tick = final_tick;
    __atomic_store_n(&slot->alive, false, __ATOMIC_RELEASE); /* for fronts */
    slot->wants_mark = false;
    order->not_alive++;
}

/* The stream is gone, and nobody has said so: what it did last is after no mark but those that are there. */
static void lose(struct weir__order *order, struct weir__slot *slot) {
    take_off(order, slot, slot->tick);
    slot->lost = true;
    order->lost++;
}

static void lose_ended(struct weir__order *order, struct weir__slot *slot) {
    if (slot->alive && slot->kind == WEIR__KIND_THREAD && weir__thread_has_ended(slot->thread)) lose(order, slot);
}

uint32_t weir__order_add(struct weir__order *order, weir_stream stream) {
    if (!weir__table_reserve(&order->by_stream)) return WEIR__SLOT_NONE;
    enum weir__slot_kind kind = kind_of(order, stream);
    struct weir__thread *thread = kind == WEIR__KIND_THREAD ? weir__thread_self() : NULL;
    if (kind == WEIR__KIND_THREAD && thread == NULL) return WEIR__SLOT_NONE;
    for (uint32_t i = 1; i < order->count; i++) lose_ended(order, order->slots[i]);
    uint32_t i = unused_slot(order);
    if (i == WEIR__SLOT_NONE) {
        if (thread != NULL) weir__thread_release(thread);
        return i;
    }
    struct weir__slot *slot = order->slots[i];
    assert(slot->oldest == NULL && slot->idle[0].root == NULL && slot->idle[1].root == NULL);
    slot->stream = stream;
    slot->key = weir__stream_key(stream);
    slot->kind = kind;
    slot->thread = thread;
    slot->unordered = kind == WEIR__KIND_ANY;
    slot->id = 0;
    if (kind == WEIR__KIND_FOREIGN) read_id(order, stream, &slot->id);
    if (kind == WEIR__KIND_ANY) order->any = i;
    slot->open = true;
    __atomic_store_n(&slot->alive, true, __ATOMIC_RELEASE);
    slot->lost = slot->ends = false;
    slot->name[0] = 0;
    if (kind == WEIR__KIND_ANY) strcpy(slot->name, "any stream");
    slot->wants_mark = false;
    memset(slot->after, 0, order->room * sizeof *slot->after);
#define CLEAR(type, field, text) slot->field = 0;
    WEIR_STREAM_STATS_LIST(CLEAR)
#undef CLEAR
    weir__table_put(&order->by_stream, slot->key, slot);
    return i;
}

enum weir_status weir__order_confirm(struct weir__order *order, uint32_t *slot_number) {
    struct weir__slot *slot = order->slots[*slot_number];
    if (slot->kind != WEIR__KIND_FOREIGN || order->device->driver->stream_id == NULL) return WEIR_OK;
    slot->unordered = weir__in_host_function(); /* it can't be asked there */
    if (slot->unordered) return WEIR_OK;
    unsigned long long id;
    enum weir_status status = weir__device_check(order->device, read_id(order, slot->stream, &id), "cuStreamGetId");
    if (status != WEIR_OK || (id == slot->id && id != 0)) return status;
    lose(order, slot);
    *slot_number = weir__order_add(order, slot->stream);
    if (*slot_number != WEIR__SLOT_NONE) return WEIR_OK;
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's table of streams");
}

void weir__order_stream_created(struct weir__order *order, weir_stream stream) {
    uint32_t slot = weir__order_find(order, stream);
    if (slot != WEIR__SLOT_NONE) lose(order, order->slots[slot]);
}

weir_stream weir__order_handle(const struct weir__order *order, uint32_t slot_number, bool named) {
    const struct weir__slot *slot = order->slots[slot_number];
    const bool usable =
        slot->alive && (slot->kind == WEIR__KIND_STREAM || (slot->kind == WEIR__KIND_FOREIGN && named) ||
                        (slot->kind == WEIR__KIND_THREAD && weir__thread_is_self(slot->thread)));
    return usable ? slot->stream : WEIR__ANY_STREAM;
}

bool weir__order_is_over(const struct weir__order *order, uint32_t slot_number) {
    const struct weir__slot *slot = order->slots[slot_number];
    return slot->open && !slot->alive && slot_number != WEIR__SLOT_GONE && slot->oldest == NULL && slot->users == 0 &&
           slot->held == 0 && slot->complete >= slot->final_tick;
}

void weir__order_hold(struct weir__order *order, uint32_t slot) { order->slots[slot]->held++; }

void weir__order_let_go(struct weir__order *order, uint32_t slot) {
    assert(order->slots[slot]->held > 0);
    order->slots[slot]->held--;
}

void weir__order_forget(struct weir__order *order, uint32_t slot_number) {
    struct weir__slot *slot = order->slots[slot_number];
    assert(weir__order_is_over(order, slot_number) && slot->idle_bytes == 0 && slot->live_bytes == 0);
    slot->open = false;
    if (slot->thread != NULL) weir__thread_release(slot->thread);
    slot->thread = NULL;
    order->not_alive--;
    if (slot->lost) order->lost--;
    if (order->covered > order->lost) order->covered = order->lost;
}

/* Another thread may destroy a stream while a call uses it; the destroy waits for such calls. */
static weir_stream use_stream(struct weir__slot *slot) {
    slot->users++;
    return slot->stream;
}

static void unuse_stream(struct weir__order *order, struct weir__slot *slot) {
    assert(slot->users > 0);
    if (--slot->users == 0 && (!slot->alive || weir__is_captured(slot->stream))) pthread_cond_broadcast(&order->unused);
}

/* ---- events and marks ------------------------------------------------------------------------------------------- */

static void keep_event(struct weir__order *order, CUevent event) {
    assert(event != NULL);
    if (order->event_count == order->event_room) {
        size_t room = order->event_room == 0 ? 64 : order->event_room * 2;
        CUevent *events = realloc(order->events, room * sizeof *events);
        if (events == NULL) {
            order->device->driver->event_destroy(event);
            return;
        }
        order->events = events;
        order->event_room = room;
    }
    order->events[order->event_count++] = event;
}

static void retire_mark(struct weir__order *order, struct weir__mark *mark) {
    if (mark->users > 0) {
        mark->passed = true;
        return;
    }
    if (mark->event != NULL) keep_event(order, mark->event);
    free(mark);
}

static void unuse_mark(struct weir__order *order, struct weir__mark *mark) {
    assert(mark->users > 0);
    mark->users--;
    if (mark->passed) retire_mark(order, mark);
}

static void unlink_mark(struct weir__slot *slot, struct weir__mark *mark) {
    struct weir__mark **link = &slot->oldest, *before = NULL;
    while (*link != mark) {
        before = *link;
        link = &(*link)->next;
    }
    *link = mark->next;
    if (slot->newest == mark) slot->newest = before;
    slot->mark_count--;
}

/* In deterministic mode nobody asks whether marks have passed, so they would pile up. Every second one goes, whether it has
 * passed or not: a tag before it is waited for by the next one. The newest stays. */
static void thin_out(struct weir__order *order, struct weir__slot *slot) {
    for (struct weir__mark *mark = slot->oldest; mark != NULL && mark->next != NULL;) {
        struct weir__mark *dropped = mark;
        mark = mark->next->next;
        if (!dropped->recorded) continue;
        unlink_mark(slot, dropped);
        retire_mark(order, dropped);
    }
}

static void append_mark(struct weir__slot *slot, struct weir__mark *mark) {
    if (slot->newest != NULL)
        slot->newest->next = mark;
    else
        slot->oldest = mark;
    slot->newest = mark;
    slot->mark_count++;
}

/* The first recorded mark at or after a tag: of its slot, else of the context. */
static struct weir__mark *find_mark(const struct weir__order *order, struct weir__tag tag) {
    struct weir__mark *mark = order->slots[tag.slot]->oldest;
    while (mark != NULL && (mark->tick < tag.tick || !mark->recorded)) mark = mark->next;
    if (mark != NULL || order->any == WEIR__SLOT_NONE) return mark;
    mark = order->slots[order->any]->oldest;
    while (mark != NULL && (tag.slot >= mark->covers || mark->ticks[tag.slot] < tag.tick || !mark->recorded))
        mark = mark->next;
    return mark;
}

static bool captures(const struct weir__driver *driver, weir_stream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver->stream_is_capturing == NULL) return false;
    CUresult code = driver->stream_is_capturing(stream, &status);
    return code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (code == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

static enum weir_status fail_captured(void) {
    return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                      "what was freed on a stream that captures can't be waited for before the capture ends");
}

static enum weir_status fail_while_captured(void) {
    return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "no mark can be made of the context while a stream of it captures");
}

static enum weir_status record_context(struct weir_device *device, CUevent event) {
    const bool quiet = weir__capture_quiet_begin();
    const CUresult code = quiet ? device->driver->context_record(device->context, event) : CUDA_SUCCESS;
    weir__capture_quiet_end();
    return quiet ? weir__device_check(device, code, "cuCtxRecordEvent") : fail_while_captured();
}

/* On a stream; or, where it is none, for all of the context. */
static enum weir_status record(struct weir_device *device, struct weir__mark *mark, weir_stream stream) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    if (stream != WEIR__ANY_STREAM && captures(device->driver, stream)) status = fail_captured();
    if (status == WEIR_OK && mark->event == NULL)
        status = weir__device_check(device, device->driver->event_create(&mark->event, CU_EVENT_DISABLE_TIMING),
                                    "cuEventCreate");
    if (status == WEIR_OK && stream == WEIR__ANY_STREAM)
        status = record_context(device, mark->event);
    else if (status == WEIR_OK)
        status = weir__device_check(device, device->driver->event_record(mark->event, stream), "cuEventRecord");
    /* Another thread may have begun a capture of it meanwhile: then the event may be the capture's, and a look at it would spoil
     * that; the record did not. */
    if (status == WEIR_OK && stream != WEIR__ANY_STREAM && captures(device->driver, stream)) status = fail_captured();
    weir__device_leave(device);
    return status;
}

static void set_complete(struct weir__slot *slot, uint64_t tick) {
    __atomic_store_n(&slot->complete, tick, __ATOMIC_RELEASE);
}

static uint64_t next_tick(struct weir__slot *slot) { return __atomic_fetch_add(&slot->tick, 1, __ATOMIC_SEQ_CST); }

/* The next mark goes here: tags from now on are after it. */
static uint64_t end_tick(struct weir__slot *slot) {
    weir__slot_count_frees(slot, 0 - weir__slot_frees(slot));
    slot->bytes_since_mark = 0;
    return next_tick(slot);
}

static struct weir__mark *new_mark(struct weir__order *order, struct weir__slot *slot, uint32_t covers,
                                   enum weir_status *status) {
    const size_t bytes = sizeof(struct weir__mark) + covers * sizeof(uint64_t);
    struct weir__mark *mark = calloc(1, bytes);
    if (mark == NULL) {
        *status = weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a mark of %zu bytes", bytes);
        return NULL;
    }
    if (order->deterministic && slot->mark_count >= WEIR__MOST_MARKS) thin_out(order, slot);
    if (order->event_count > 0) mark->event = order->events[--order->event_count];
    mark->users = 1;
    mark->covers = covers;
    append_mark(slot, mark);
    order->order_calls++;
    return mark;
}

/* No mark has been made after all of what may be queued on a slot's stream still. */
static void tell_unmarked(struct weir__slot *slot) {
    if (slot->open && slot->alive && slot->complete + 1 < weir__slot_tick(slot)) weir__slot_count_frees(slot, 1);
}

/* (unlocks) Records a new mark. Gives it, or NULL and why. */
static struct weir__mark *finish_mark(struct weir__order *order, struct weir__slot *slot, struct weir__mark *mark,
                                      weir_stream stream, enum weir_status *status) {
    use_stream(slot);
    pthread_mutex_unlock(order->lock);
    weir__spend(order->device);
    *status = weir__spent_on_order(order->device, record(order->device, mark, stream));
    pthread_mutex_lock(order->lock);
    unuse_stream(order, slot);
    if (*status == WEIR_OK) {
        mark->recorded = true;
        return mark;
    }
    if (mark->covers == 0) tell_unmarked(slot);
    for (uint32_t i = 0; i < mark->covers; i++) tell_unmarked(order->slots[i]);
    unlink_mark(slot, mark);
    mark->users = 0;
    retire_mark(order, mark);
    return NULL;
}

static bool in_capture(const struct weir__order *order, weir_stream stream) {
    if (weir__is_captured(stream)) return true;
    if (weir__device_enter(order->device) != WEIR_OK) return false;
    const bool open = captures(order->device->driver, stream);
    weir__device_leave(order->device);
    return open;
}

/* WEIR_NOT_SUPPORTED while a stream is seen to capture: what is asked of the whole context would make the capture invalid. The
 * legacy stream answers for all blocking ones; of the others those that weir or this thread can name are asked, whether the pool
 * has ever served them or not. */
static enum weir_status check_captures(const struct weir__order *order) {
    const struct weir__driver *driver = order->device->driver;
    if (driver->stream_is_capturing == NULL) return WEIR_OK;
    enum weir_status status = weir__device_enter(order->device);
    if (status != WEIR_OK) return status;
    bool open = weir__capture_heard() || captures(driver, CU_STREAM_LEGACY) || captures(driver, CU_STREAM_PER_THREAD) ||
                weir__device_has_stream_that(order->device, captures);
    weir__device_leave(order->device);
    return open ? fail_while_captured() : WEIR_OK;
}

/* (unlocks) Records a mark by a slot's own stream, or one that comes after it, and gives it with one user, or NULL and why. */
static struct weir__mark *make_mark(struct weir__order *order, struct weir__slot *slot, weir_stream stream,
                                    enum weir_status *status) {
    *status = weir__is_captured(stream) ? fail_captured() : WEIR_OK; /* record asks the driver too */
    struct weir__mark *mark = *status == WEIR_OK ? new_mark(order, slot, 0, status) : NULL;
    if (mark == NULL) return NULL;
    mark->tick = end_tick(slot);
    return finish_mark(order, slot, mark, stream, status);
}

static bool has_context_events(const struct weir__order *order) {
    return order->device->driver->context_record != NULL && !order->no_context_events;
}

/* (unlocks) The same for all slots at once. Needs: a driver with such events. WEIR_NOT_SUPPORTED: it refuses them after all. */
static struct weir__mark *make_context_mark(struct weir__order *order, enum weir_status *status) {
    uint32_t any = order->any != WEIR__SLOT_NONE ? order->any : weir__order_add(order, WEIR__ANY_STREAM);
    if (any == WEIR__SLOT_NONE) {
        *status = weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's table of streams");
        return NULL;
    }
    *status = check_captures(order);
    struct weir__mark *mark = *status == WEIR_OK ? new_mark(order, order->slots[any], order->count, status) : NULL;
    if (mark == NULL) return NULL;
    for (uint32_t i = 0; i < order->count; i++) mark->ticks[i] = end_tick(order->slots[i]);
    mark->tick = mark->ticks[any];
    mark = finish_mark(order, order->slots[any], mark, WEIR__ANY_STREAM, status);
    if (*status == WEIR_DRIVER && weir_last_error()->driver_code == CUDA_ERROR_NOT_SUPPORTED) {
        order->no_context_events = true;
        *status = WEIR_NOT_SUPPORTED;
    }
    return mark;
}

/* The stream that a mark of a living slot can be recorded on. A thread's default stream is behind the legacy one for all other
 * threads. WEIR__ANY_STREAM: none. */
static weir_stream recordable(const struct weir__order *order, const struct weir__slot *slot, bool named) {
    weir_stream own = weir__order_handle(order, slot->number, named);
    if (own == WEIR__ANY_STREAM && slot->alive && slot->kind == WEIR__KIND_THREAD) return CU_STREAM_LEGACY;
    return own;
}

static enum weir_status settle(struct weir__order *order, struct weir__mark *mark, enum weir_status status) {
    if (mark != NULL) unuse_mark(order, mark);
    return status == WEIR_NOT_SUPPORTED ? WEIR_OK : weir__given_back(status);
}

enum weir_status weir__order_mark(struct weir__order *order, uint32_t slot_number, bool named) {
    enum weir_status status = WEIR_OK;
    struct weir__slot *slot = order->slots[slot_number];
    lose_ended(order, slot);
    if (named && slot->alive) status = weir__order_confirm(order, &slot_number);
    if (status != WEIR_OK || !slot->alive) return status;
    weir_stream stream = recordable(order, slot, named);
    struct weir__mark *mark = NULL;
    if (stream != WEIR__ANY_STREAM)
        mark = make_mark(order, slot, stream, &status);
    else if (has_context_events(order))
        mark = make_context_mark(order, &status);
    return settle(order, mark, status);
}

/* True for a slot that has tags of which no mark tells. */
static bool is_unmarked(const struct weir__order *order, const struct weir__slot *slot) {
    if (!slot->open) return false;
    if (slot->alive) return weir__slot_frees(slot) > 0;
    return slot->complete < slot->final_tick &&
           find_mark(order, (struct weir__tag){.slot = slot->number, .tick = slot->final_tick}) == NULL;
}

/* (unlocks) On a slot's own stream, where that is possible. Gives: whether a mark of the context is needed. */
static bool needs_context_mark(struct weir__order *order, struct weir__slot *slot, enum weir_status *status) {
    lose_ended(order, slot);
    if (!is_unmarked(order, slot)) return false;
    const weir_stream stream = recordable(order, slot, false);
    if (stream == WEIR__ANY_STREAM) return true;
    if (in_capture(order, stream)) return false;
    struct weir__mark *mark = make_mark(order, slot, stream, status);
    *status = settle(order, mark, *status);
    return false;
}

enum weir_status weir__order_mark_all(struct weir__order *order) {
    enum weir_status status = WEIR_OK;
    bool context = false;
    for (uint32_t i = 1; i < order->count && status == WEIR_OK; i++)
        context |= needs_context_mark(order, order->slots[i], &status);
    if (status != WEIR_OK || !context || !has_context_events(order)) return status;
    struct weir__mark *mark = make_context_mark(order, &status);
    return settle(order, mark, status);
}

bool weir__order_has_marks(const struct weir__order *order) {
    for (uint32_t i = 1; i < order->count; i++)
        if (order->slots[i]->oldest != NULL) return true;
    return false;
}

bool weir__order_mark_is_due(const struct weir__order *order, uint32_t slot_number) {
    const struct weir__slot *slot = order->slots[slot_number];
    const size_t granules = slot->kind == WEIR__KIND_FOREIGN ? 1 : WEIR__MARK_GRANULES; /* it can't be made later */
    const unsigned frees = slot->kind == WEIR__KIND_STREAM ? WEIR__MARK_FREES : WEIR__MARK_SOON;
    return slot->alive && (weir__slot_frees(slot) >= frees || slot->bytes_since_mark >= granules * order->granule);
}

/* ---- what is known ---------------------------------------------------------------------------------------------- */

struct weir__tag weir__order_tag_at(struct weir__order *order, uint32_t slot_number, uint64_t tick, size_t bytes) {
    struct weir__slot *slot = order->slots[slot_number];
    if (tick == slot->tick) { /* no mark has been made for it */
        weir__slot_count_frees(slot, 1);
        slot->bytes_since_mark += bytes;
    }
    return (struct weir__tag){.slot = slot_number, .tick = slot->alive ? tick : slot->final_tick, .bytes = bytes};
}

struct weir__tag weir__order_tag(struct weir__order *order, uint32_t slot, size_t bytes) {
    return weir__order_tag_at(order, slot, order->slots[slot]->tick, bytes);
}

void weir__order_tag_notes(struct weir__order *order, struct weir__extent *extent) {
    for (uint32_t i = 0; i < extent->tag_count; i++) extent->tags[i] = weir__order_tag(order, extent->tags[i].slot, 0);
}

static size_t less(size_t from, size_t by) { return by < from ? from - by : 0; }

void weir__order_untag(struct weir__order *order, const struct weir__extent *taken) {
    for (uint32_t i = 0; i < taken->tag_count; i++) {
        struct weir__slot *slot = order->slots[taken->tags[i].slot];
        if (taken->tags[i].tick != slot->tick) continue; /* a mark has been made for it */
        if (slot->kind != WEIR__KIND_FOREIGN)
            slot->bytes_since_mark = less(slot->bytes_since_mark, taken->tags[i].bytes);
    }
}

/* What the host has waited for needs no marks any more; polls do the same. */
static void retire_complete(struct weir__order *order, struct weir__slot *slot) {
    while (slot->oldest != NULL && slot->oldest->recorded && slot->oldest->tick <= slot->complete) {
        struct weir__mark *mark = slot->oldest;
        unlink_mark(slot, mark);
        retire_mark(order, mark);
    }
}

static void raise_complete(struct weir__slot *slot, uint64_t tick) {
    if (tick > slot->complete) set_complete(slot, tick);
}

static void raise_to(uint64_t *tick, uint64_t reached) {
    if (reached > *tick) *tick = reached;
}

/* A mark of a slot has passed. Needs: the mark is in use, or in no list. */
static void mark_passed(struct weir__order *order, struct weir__slot *slot, const struct weir__mark *mark) {
    order->passed++;
    raise_complete(slot, mark->tick);
    for (uint32_t i = 0; i < mark->covers; i++) {
        raise_complete(order->slots[i], mark->ticks[i]);
        retire_complete(order, order->slots[i]);
    }
}

static bool has_passed(struct weir__order *order, const struct weir__mark *mark, const char *site) {
    const CUresult code = weir__wait_event_query(order->device, site, mark->event);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY) order->query_error = code;
    return code == CUDA_SUCCESS;
}

static bool poll_slot(struct weir__order *order, struct weir__slot *slot, const char *site) {
    bool advanced = false;
    lose_ended(order, slot);
    while (slot->oldest != NULL && slot->oldest->recorded && has_passed(order, slot->oldest, site)) {
        struct weir__mark *mark = slot->oldest;
        unlink_mark(slot, mark);
        mark_passed(order, slot, mark);
        retire_mark(order, mark);
        advanced = true;
    }
    return advanced;
}

static bool poll(struct weir__order *order, const char *site) {
    if (order->deterministic || weir__device_enter(order->device) != WEIR_OK) return false;
    bool advanced = false;
    order->query_error = CUDA_SUCCESS;
    for (uint32_t i = 1; i < order->count; i++) advanced |= poll_slot(order, order->slots[i], site);
    weir__device_leave(order->device);
    return advanced;
}

bool weir__order_poll(struct weir__order *order) { return poll(order, WEIR__SITE_MARK_PASSED); }
bool weir__order_poll_waited(struct weir__order *order) { return poll(order, WEIR__SITE_HOST_WAIT); }

/* A capture that began between the two questions would be spoilt by the second. */
static bool stream_is_empty(const struct weir__order *order, weir_stream stream) {
    const bool may_ask =
        weir__capture_none_comes_begin() && !weir__is_captured(stream) && !captures(order->device->driver, stream);
    const bool empty =
        may_ask && weir__wait_stream_query(order->device, WEIR__SITE_STREAM_PASSED, stream) == CUDA_SUCCESS;
    weir__capture_quiet_end();
    return empty;
}

/* An empty stream has passed every tag so far; what is freed from now on must not look as if it had been, so the tick moves
 * first. */
static bool query_stream(struct weir__order *order, struct weir__slot *slot) {
    weir_stream stream = weir__order_handle(order, slot->number, false);
    const unsigned frees = weir__slot_frees(slot);
    if (stream == WEIR__ANY_STREAM || frees == 0) return false;
    const uint64_t tick = next_tick(slot);
    if (!stream_is_empty(order, stream)) return false;
    weir__slot_count_frees(slot, 0 - frees);
    slot->bytes_since_mark = 0;
    set_complete(slot, tick);
    order->passed++;
    return true;
}

bool weir__order_poll_streams(struct weir__order *order) {
    bool advanced = weir__order_poll(order);
    if (order->deterministic || weir__device_enter(order->device) != WEIR_OK) return advanced;
    for (uint32_t i = 1; i < order->count; i++) advanced |= query_stream(order, order->slots[i]);
    weir__device_leave(order->device);
    return advanced;
}

bool weir__order_look(struct weir__order *order, const struct weir__tag *tags, uint32_t count) {
    if (order->deterministic || weir__device_enter(order->device) != WEIR_OK) return false;
    bool advanced = false;
    for (uint32_t i = 0; i < count; i++) {
        struct weir__slot *slot = order->slots[tags[i].slot];
        if (!weir__order_is_complete(order, tags[i])) advanced |= poll_slot(order, slot, WEIR__SITE_MARK_PASSED);
        if (!weir__order_is_complete(order, tags[i])) advanced |= query_stream(order, slot);
    }
    weir__device_leave(order->device);
    return advanced;
}

/* ---- waits ------------------------------------------------------------------------------------------------------ */

/* The slot's stream, if it is one that can capture and be asked. */
static weir_stream can_capture(const struct weir__order *order, const struct weir__slot *slot) {
    const weir_stream stream = weir__order_handle(order, slot->number, false);
    return stream != NULL && stream != CU_STREAM_LEGACY ? stream : WEIR__ANY_STREAM;
}

/* What is queued on it now comes when a graph is launched. */
static bool is_for_a_graph(const struct weir__order *order, const struct weir__slot *slot) {
    const weir_stream stream = can_capture(order, slot);
    return stream != WEIR__ANY_STREAM && in_capture(order, stream);
}

/* Waits for the whole context: the last resort where no mark can be made. */
static enum weir_status synchronize(struct weir__order *order) {
    uint64_t ticks[order->count];
    uint32_t count = order->count;
    enum weir_status status = check_captures(order);
    const bool captured = status == WEIR_NOT_SUPPORTED;
    if (status != WEIR_OK && !captured) return status;
    for (uint32_t i = 0; i < count; i++)
        ticks[i] = captured && is_for_a_graph(order, order->slots[i]) ? 0 : next_tick(order->slots[i]);
    pthread_mutex_unlock(order->lock);
    status = weir__device_enter(order->device);
    if (status == WEIR_OK) {
        CUresult code = captured ? weir__wait_for_device_in_capture(order->device, WEIR__SITE_LOST_STREAM)
                                 : weir__wait_for_device(order->device, WEIR__SITE_LOST_STREAM);
        status = weir__device_check(order->device, code, captured ? "cuMemFree" : "cuCtxSynchronize");
        weir__device_leave(order->device);
    }
    pthread_mutex_lock(order->lock);
    order->passed++;
    for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
        raise_complete(order->slots[i], ticks[i]);
        retire_complete(order, order->slots[i]);
    }
    return status;
}

/* A mark at or after a tag, with one user more; NULL: *status says why, or the tag became complete on the way. */
static struct weir__mark *mark_for(struct weir__order *order, struct weir__tag tag, enum weir_status *status) {
    struct weir__slot *slot = order->slots[tag.slot];
    struct weir__mark *mark = find_mark(order, tag);
    if (mark != NULL) {
        mark->users++;
        return mark;
    }
    lose_ended(order, slot);
    weir_stream stream = recordable(order, slot, false);
    *status = WEIR_NOT_SUPPORTED;
    if (stream != WEIR__ANY_STREAM)
        mark = make_mark(order, slot, stream, status);
    else if (has_context_events(order))
        mark = make_context_mark(order, status);
    if (*status == WEIR_NOT_SUPPORTED && !is_for_a_graph(order, slot)) *status = synchronize(order);
    return mark;
}

static bool can_be_waited_for(const struct weir__order *order, struct weir__tag tag) {
    if (weir__order_is_complete(order, tag) || find_mark(order, tag) != NULL) return true;
    const weir_stream stream = can_capture(order, order->slots[tag.slot]);
    return stream == WEIR__ANY_STREAM || !weir__is_captured(stream);
}

bool weir__order_extent_can_be_waited_for(const struct weir__order *order, const struct weir__extent *extent) {
    for (uint32_t i = 0; weir__captures_any() && i < extent->tag_count; i++)
        if (!can_be_waited_for(order, extent->tags[i])) return false;
    return true;
}

bool weir__order_extent_lacks_mark(const struct weir__order *order, const struct weir__extent *extent) {
    for (uint32_t i = 0; i < extent->tag_count; i++)
        if (!weir__order_is_complete(order, extent->tags[i]) && find_mark(order, extent->tags[i]) == NULL) return true;
    return false;
}

/* A slot's stream has been made to wait for a mark of another one. */
static void learn(struct weir__slot *slot, uint32_t other, const struct weir__mark *mark) {
    for (uint32_t i = 0; i < mark->covers; i++) raise_to(&slot->after[i], mark->ticks[i]);
    if (mark->covers == 0) raise_to(&slot->after[other], mark->tick);
}

enum weir_status weir__order_wait_device(struct weir__order *order, uint32_t slot_number, struct weir__tag tag,
                                         bool *waited) {
    struct weir__slot *slot = order->slots[slot_number];
    enum weir_status status = WEIR_OK;
    if (weir__order_is_ordered(order, slot_number, tag)) return WEIR_OK;
    struct weir__mark *mark = mark_for(order, tag, &status);
    if (mark == NULL) return status;
    if (!slot->alive) { /* the program has destroyed it under this call */
        unuse_mark(order, mark);
        return weir__device_check(order->device, CUDA_ERROR_INVALID_HANDLE, "cuStreamWaitEvent");
    }
    order->order_calls++;
    weir_stream stream = use_stream(slot);
    pthread_mutex_unlock(order->lock);
    weir__spend(order->device);
    status = weir__device_enter(order->device);
    if (status == WEIR_OK) {
        CUresult code = weir__wait_on_stream(order->device, WEIR__SITE_DEVICE_WAIT, stream, mark->event);
        status = weir__device_check(order->device, code, "cuStreamWaitEvent");
        weir__device_leave(order->device);
    }
    weir__spent_on_order(order->device, status);
    pthread_mutex_lock(order->lock);
    unuse_stream(order, slot);
    if (status == WEIR_OK) {
        learn(slot, tag.slot, mark);
        *waited = true;
    }
    unuse_mark(order, mark);
    return status;
}

/* Asks until the event has passed or the deadline has; the driver offers no bounded wait. Sleeps 10 us to 0.5 ms. */
static enum weir_status wait_for_event(struct weir_device *device, CUevent event, uint64_t deadline_ns) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    CUresult code = weir__wait_event_query(device, WEIR__SITE_HOST_WAIT, event);
    for (uint64_t pause_ns = 10000; code == CUDA_ERROR_NOT_READY && weir__device_now_ns(device) < deadline_ns;) {
        weir__device_pause(device, pause_ns);
        if (pause_ns < 500000) pause_ns += pause_ns / 4;
        code = weir__wait_event_query(device, WEIR__SITE_HOST_WAIT, event);
    }
    status = code == CUDA_ERROR_NOT_READY ? WEIR_NOT_READY : weir__device_check(device, code, "cuEventQuery");
    weir__device_leave(device);
    return status;
}

enum weir_status weir__order_wait_host(struct weir__order *order, struct weir__tag tag, uint64_t deadline_ns) {
    enum weir_status status = WEIR_OK;
    if (weir__order_is_complete(order, tag)) return WEIR_OK;
    struct weir__mark *mark = mark_for(order, tag, &status);
    if (mark == NULL) return status;
    struct weir__slot *slot = order->slots[tag.slot];
    pthread_mutex_unlock(order->lock);
    status = wait_for_event(order->device, mark->event, deadline_ns);
    pthread_mutex_lock(order->lock);
    if (status == WEIR_OK) mark_passed(order, mark->covers > 0 ? order->slots[order->any] : slot, mark);
    unuse_mark(order, mark);
    retire_complete(order, slot);
    return status;
}

/* True when nothing is queued on the slot's stream: then no mark is needed. */
static bool is_empty(struct weir__order *order, const struct weir__slot *slot) {
    if (weir__device_enter(order->device) != WEIR_OK) return false;
    CUresult code = weir__wait_stream_query(order->device, WEIR__SITE_STREAM_END, slot->stream);
    weir__device_leave(order->device);
    return code == CUDA_SUCCESS;
}

/* ---- the whole context ------------------------------------------------------------------------------------------ */

static bool is_out_of_reach(const struct weir__order *order, const struct weir__slot *slot) {
    if (!slot->open || weir__order_handle(order, slot->number, false) != WEIR__ANY_STREAM) return false;
    return slot->alive ? weir__slot_frees(slot) > 0 : slot->complete < slot->final_tick;
}

void weir__order_reach(struct weir__order *order) {
    enum { LOOKS = 20, PAUSE_NS = 50000 };
    bool any = false;
    for (uint32_t i = 1; i < order->count; i++) any = any || is_out_of_reach(order, order->slots[i]);
    if (order->deterministic || !any || !has_context_events(order)) return;
    enum weir_status status = WEIR_OK;
    struct weir__mark *mark = make_context_mark(order, &status);
    for (int i = 0; i < LOOKS && mark != NULL; i++) {
        weir__order_poll(order);
        if (mark->passed) break;
        pthread_mutex_unlock(order->lock);
        weir__device_pause(order->device, PAUSE_NS);
        pthread_mutex_lock(order->lock);
    }
    if (mark != NULL) unuse_mark(order, mark);
}

/* Many slots are lost, and would never be seen to be over. */
void weir__order_cover_lost(struct weir__order *order) {
    enum weir_status status = WEIR_OK;
    if (order->lost < order->covered + WEIR__MOST_LOST || !has_context_events(order)) return;
    order->covered = order->lost;
    struct weir__mark *mark = make_context_mark(order, &status);
    settle(order, mark, status);
}

/* Until another call is through with a stream, or for a while. */
static void wait_for_users(struct weir__order *order) {
    if (!weir__device_takes_turns(order->device)) {
        pthread_cond_wait(&order->unused, order->lock);
        return;
    }
    pthread_mutex_unlock(order->lock);
    weir__device_pause(order->device, WEIR__TURN_NS);
    pthread_mutex_lock(order->lock);
}

void weir__order_retire(struct weir__order *order, weir_stream stream) {
    const uint32_t slot = weir__order_find(order, stream);
    if (slot != WEIR__SLOT_NONE) lose(order, order->slots[slot]);
}

void weir__order_wait_for_users(struct weir__order *order, weir_stream stream) {
    const uint32_t slot = weir__order_find(order, stream);
    while (slot != WEIR__SLOT_NONE && order->slots[slot]->users > 0) wait_for_users(order);
}

/* The default streams stay, whatever a program asks. */
static bool goes(weir_stream stream) {
    return stream != NULL && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD && stream != WEIR__ANY_STREAM;
}

void weir__order_stream_destroyed(struct weir__order *order, weir_stream stream) {
    uint32_t number = weir__order_find(order, stream);
    if (number == WEIR__SLOT_NONE) return;
    struct weir__slot *slot = order->slots[number];
    if (!goes(stream)) return;
    if (slot->ends) { /* two threads destroy it */
        weir__order_wait_for_users(order, stream);
        return;
    }
    slot->ends = true;
    if (!order->deterministic && is_empty(order, slot)) {
        set_complete(slot, next_tick(slot));
        order->passed++;
        take_off(order, slot, slot->complete);
    } else {
        enum weir_status status = WEIR_OK;
        struct weir__mark *mark = make_mark(order, slot, slot->stream, &status);
        if (mark != NULL && weir__slot_frees(slot) == 0)
            take_off(order, slot, mark->tick);
        else
            lose(order, slot); /* other threads have freed on it after the mark */
        if (mark != NULL) unuse_mark(order, mark);
    }
    while (slot->users > 0 && !slot->alive) wait_for_users(order);
}

/* ---- open and close --------------------------------------------------------------------------------------------- */

enum weir_status weir__order_open(struct weir__order *order, struct weir_device *device, pthread_mutex_t *lock,
                                  size_t granule) {
    *order = (struct weir__order){
        .device = device, .lock = lock, .granule = granule, .any = WEIR__SLOT_NONE, .unused = PTHREAD_COND_INITIALIZER};
    uint32_t gone = grow_slots(order) ? unused_slot(order) : WEIR__SLOT_NONE;
    if (gone == WEIR__SLOT_NONE)
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's table of streams");
    assert(gone == WEIR__SLOT_GONE);
    order->slots[gone]->open = true;
    snprintf(order->slots[gone]->name, sizeof order->slots[gone]->name, "destroyed streams");
    return WEIR_OK;
}

static void close_slot(struct weir__order *order, struct weir__slot *slot) {
    while (slot->oldest != NULL) {
        struct weir__mark *mark = slot->oldest;
        unlink_mark(slot, mark);
        retire_mark(order, mark);
    }
    if (slot->thread != NULL) weir__thread_release(slot->thread);
    free(slot->after);
    free(slot);
}

void weir__order_close(struct weir__order *order) {
    for (uint32_t i = 0; i < order->count; i++) close_slot(order, order->slots[i]);
    if (order->event_count > 0 && weir__device_enter(order->device) == WEIR_OK) {
        for (size_t i = 0; i < order->event_count; i++) order->device->driver->event_destroy(order->events[i]);
        weir__device_leave(order->device);
    }
    free(order->events);
    while (order->old_count > 0) free(order->old_slots[--order->old_count]);
    free(order->slots);
    weir__table_clear(&order->by_stream);
    weir__heard_clear(&order->heard);
    pthread_cond_destroy(&order->unused);
    *order = (struct weir__order){0};
}
