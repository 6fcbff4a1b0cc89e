/* SPDX-License-Identifier: Apache-2.0 */
/* From events that name addresses to rows that name blocks. An address is another block each time that it is allocated.
 *
 * What was live before the recording shows where it is freed without having been allocated, or is there at the end
 * without ever having been named. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "convert_placing.h"

static bool is_of_end(const struct event *event) {
    return event->kind == EVENT_LIVE_AT_END || event->kind == EVENT_IDLE_AT_END;
}

bool placing_complain(const struct placing *placing, const struct event *event, const char *format, ...) {
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return convert_fail(placing->conversion, "%s: %s %" PRIu64 " (byte %" PRIu64 "): %s", placing->name,
                        is_of_end(event) ? "block" : placing->events->unit, event->number, event->offset, what);
}

bool convert_add_event(struct conversion *conversion, struct events *events, struct event event) {
    void *all = events->all;
    const bool grown = convert_grow(conversion, &all, &events->room, events->count, sizeof event);
    events->all = all;
    if (grown) events->all[events->count++] = event;
    return grown;
}

bool convert_choose_device(struct conversion *conversion, const char *name, const uint64_t *counts, size_t count,
                           int wanted) {
    size_t most = 0;
    conversion->device_count = 0;
    for (size_t i = 0; i < count; i++) {
        conversion->device_count += counts[i] > 0;
        if (counts[i] > counts[most]) most = i;
    }
    const bool any = wanted == CONVERT_ANY_DEVICE;
    conversion->device = any ? (uint32_t)most : (uint32_t)wanted;
    if (any || conversion->device_count == 0) return true; /* one that says nothing is told of later */
    if ((size_t)wanted < count && counts[wanted] > 0) return true;
    return convert_fail(conversion, "%s: it says nothing of device %d; of device %zu it says most", name, wanted, most);
}

/* ---- which block an event is of --------------------------------------------------------------------------------- */

/* NULL: told. */
static struct place *find_place(struct placing *placing, size_t at) {
    const uint64_t address = placing->events->all[at].address;
    uint32_t number = ids_find(&placing->addresses, address);
    placing->place_of[at] = number;
    if (number != IDS_NONE) return &placing->places[number];
    void *places = placing->places;
    const bool grown =
        convert_grow(placing->conversion, &places, &placing->place_room, placing->place_count, sizeof *placing->places);
    placing->places = places;
    if (!grown) return NULL;
    placing->place_of[at] = number = (uint32_t)placing->place_count;
    if (!ids_put(&placing->addresses, address, number)) {
        convert_fail(placing->conversion, "%s: no host memory for its addresses", placing->name);
        return NULL;
    }
    placing->places[placing->place_count++] = (struct place){.address = address, .block = NO_BLOCK};
    return &placing->places[number];
}

/* A new block of the event's bytes. */
static bool begin_block(struct placing *placing, size_t at, struct place *place) {
    struct conversion *conversion = placing->conversion;
    const struct event *event = &placing->events->all[at];
    if (!convert_add_block(conversion)) return false;
    place->block = (uint32_t)conversion->block_count - 1;
    conversion->blocks[place->block] =
        (struct convert_block){.bytes = event->bytes, .line = event->number, .stream = event->place};
    return true;
}

static bool begin_before(struct placing *placing, size_t at, struct place *place) {
    placing->before[placing->before_count++] = (uint32_t)at;
    return begin_block(placing, at, place);
}

static bool take_alloc(struct placing *placing, size_t at, struct place *place) {
    const struct event *event = &placing->events->all[at];
    if (place->state == LIVE)
        return placing_complain(placing, event,
                                "address 0x%" PRIx64 " is given out while it is in use, since %s %" PRIu64,
                                event->address, placing->events->unit, place->number);
    place->state = LIVE;
    if (!begin_block(placing, at, place)) return false;
    placing->blocks[at] = place->block;
    return true;
}

/* A free, and the end of one, are of the bytes that were given out. */
static bool check_size(struct placing *placing, const struct event *event, const struct place *place) {
    const uint64_t bytes = placing->conversion->blocks[place->block].bytes;
    if (event->bytes == bytes) return true;
    placing->conversion->odd_free_count++;
    return placing->events->sizes_are_told ||
           placing_complain(placing, event,
                            "%" PRIu64 " bytes are freed at 0x%" PRIx64 ", of a block of %" PRIu64 " (%s %" PRIu64 ")",
                            event->bytes, event->address, bytes, placing->events->unit, place->number);
}

/* A completion without the request for it: of a recording that began between the two, unless it has no requests at all. */
static bool take_free(struct placing *placing, size_t at, struct place *place) {
    const struct event *event = &placing->events->all[at];
    const bool completed = event->kind == EVENT_FREE_COMPLETED;
    const enum place_state was = (enum place_state)place->state;
    if (was == IS_FREE || (was == ASKED_FREE && !completed))
        return placing_complain(placing, event, "address 0x%" PRIx64 " is freed a second time, after %s %" PRIu64,
                                event->address, placing->events->unit, place->number);
    if (was != NEVER_NAMED && !check_size(placing, event, place)) return false;
    place->state = completed ? IS_FREE : ASKED_FREE;
    if (was == ASKED_FREE || (was == NEVER_NAMED && completed && placing->asks)) return true;
    if (was == NEVER_NAMED && !begin_before(placing, at, place)) return false;
    placing->blocks[at] = place->block;
    return true;
}

static bool take(struct placing *placing, size_t at) {
    const struct event *event = &placing->events->all[at];
    placing->blocks[at] = NO_BLOCK;
    if (event->kind == EVENT_GREW || event->kind == EVENT_SHRANK) return true;
    struct place *place = find_place(placing, at);
    if (place == NULL || is_of_end(event)) return place != NULL;
    const bool taken = event->kind == EVENT_ALLOC ? take_alloc(placing, at, place) : take_free(placing, at, place);
    place->number = event->number;
    return taken;
}

/* What is there at the end and was never named. */
static bool take_ends(struct placing *placing) {
    for (size_t i = placing->ends; i < placing->events->count; i++) {
        struct place *place = &placing->places[placing->place_of[i]];
        const bool is_new = placing->events->all[i].kind == EVENT_LIVE_AT_END && place->state == NEVER_NAMED;
        if (is_new && !begin_before(placing, i, place)) return false;
    }
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static bool add_live(const struct placing *placing, const struct event *event, uint64_t bytes) {
    struct conversion *conversion = placing->conversion;
    if (bytes > TRACE_MOST_BYTES || convert_rounded(bytes) > TRACE_MOST_BYTES - conversion->live_bytes)
        return placing_complain(placing, event,
                                "%" PRIu64 " bytes more than the %" PRIu64
                                " that are live (blocks rounded up to 512): the limit is 2^50 at once",
                                bytes, conversion->live_bytes);
    conversion->live_bytes += convert_rounded(bytes);
    return true;
}

static bool push_before(struct placing *placing) {
    struct conversion *conversion = placing->conversion;
    uint32_t block = 0;
    for (size_t i = 0; i < placing->before_count; i++) {
        const uint32_t at = placing->before[i];
        const struct event *event = &placing->events->all[at];
        block = placing->blocks[at];
        if (block == NO_BLOCK) block = placing->places[placing->place_of[at]].block; /* live to the end */
        const struct step row = {.kind = STEP_LIVE, .block = block, .stream = event->place, .ns = event->ns};
        if (!add_live(placing, event, event->bytes) || !convert_push(conversion, &conversion->rows, row)) return false;
    }
    return true;
}

static bool push_reserve(const struct placing *placing, const struct event *event) {
    struct conversion *conversion = placing->conversion;
    const bool grew = event->kind == EVENT_GREW;
    const struct step row = {.kind = STEP_RESERVE, .grew = grew, .value = event->bytes, .ns = placing->ns};
    if (event->bytes > TRACE_MOST_BYTES ||
        __builtin_add_overflow(conversion->reserve_growth, grew ? (int64_t)event->bytes : -(int64_t)event->bytes,
                               &conversion->reserve_growth))
        return placing_complain(placing, event, "a reserve that changes by %" PRIu64 " bytes passes the limit of 2^50",
                                event->bytes);
    conversion->has_reserve = true;
    if (conversion->reserve_growth > conversion->peak_reserve_growth)
        conversion->peak_reserve_growth = conversion->reserve_growth;
    return convert_push(conversion, &conversion->rows, row);
}

static bool push_row(struct placing *placing, size_t at) {
    struct conversion *conversion = placing->conversion;
    const struct event *event = &placing->events->all[at];
    const uint32_t block = placing->blocks[at];
    const bool allocates = event->kind == EVENT_ALLOC;
    if (event->ns > placing->ns) placing->ns = event->ns;
    if (event->kind == EVENT_GREW || event->kind == EVENT_SHRANK) return push_reserve(placing, event);
    if (block == NO_BLOCK) return true;
    const uint64_t bytes = conversion->blocks[block].bytes;
    if (allocates && !add_live(placing, event, bytes)) return false;
    if (!allocates) conversion->live_bytes -= convert_rounded(bytes);
    const struct step row = {
        .kind = allocates ? STEP_ALLOC : STEP_FREE, .block = block, .stream = event->place, .ns = placing->ns};
    return convert_push(conversion, &conversion->rows, row);
}

/* Of what the log says was live before, the bytes of which no event shows a block; they are live all the time. */
static bool count_hidden(struct placing *placing) {
    struct conversion *conversion = placing->conversion;
    uint64_t hidden = placing->events->live_before_bytes;
    for (size_t i = 0; i < placing->before_count; i++) {
        const uint64_t bytes = placing->events->all[placing->before[i]].bytes;
        hidden -= bytes < hidden ? bytes : hidden;
    }
    if (conversion->hidden_bytes == 0) conversion->hidden_bytes = hidden;
    if (conversion->hidden_bytes > TRACE_MOST_BYTES)
        return convert_fail(conversion, "%s: %" PRIu64 " bytes were live before: the limit is 2^50", placing->name,
                            conversion->hidden_bytes);
    conversion->live_bytes = convert_rounded(conversion->hidden_bytes);
    return true;
}

static bool place_all(struct placing *placing) {
    const struct events *events = placing->events;
    for (size_t i = 0; i < events->count; i++) placing->asks |= events->all[i].kind == EVENT_FREE;
    placing->ends = events->count;
    while (placing->ends > 0 && is_of_end(&events->all[placing->ends - 1])) placing->ends--;
    for (size_t i = 0; i < events->count; i++)
        if (!take(placing, i)) return false;
    if (!placing_check_overlaps(placing) || !take_ends(placing) || !count_hidden(placing) || !push_before(placing))
        return false;
    for (size_t i = 0; i < events->count; i++)
        if (!push_row(placing, i)) return false;
    return true;
}

bool convert_place_events(struct conversion *conversion, const char *name, const struct events *events) {
    struct placing placing = {.conversion = conversion, .name = name, .events = events};
    placing.blocks = malloc((events->count + 1) * sizeof *placing.blocks);
    placing.before = malloc((events->count + 1) * sizeof *placing.before);
    placing.place_of = malloc((events->count + 1) * sizeof *placing.place_of);
    bool placed = placing.blocks != NULL && placing.before != NULL && placing.place_of != NULL;
    if (!placed) convert_fail(conversion, "%s: no host memory for its %zu events", name, events->count);
    placed = placed && place_all(&placing);
    conversion->end_ns = placing.ns;
    ids_free(&placing.addresses);
    free(placing.places);
    free(placing.blocks);
    free(placing.before);
    free(placing.place_of);
    return placed;
}
