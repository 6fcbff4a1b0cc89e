/* SPDX-License-Identifier: Apache-2.0 */
/* Whether blocks that live at the same time have bytes in common: such a log contradicts itself, and its peak would be none.
 *
 * Of a snapshot, what is there at the end is another copy than what was done before. A program of several threads goes on
 * between the two, so they may differ; of what they differ in, the events say what counts. */
#include <inttypes.h>

#include "convert_placing.h"
#include "spans.h"

struct check {
    struct placing *placing;
    struct spans spans;
};

static const struct event *event_at(const struct check *check, size_t at) { return &check->placing->events->all[at]; }

static struct place *place_at(const struct check *check, size_t at) {
    return &check->placing->places[check->placing->place_of[at]];
}

static uint32_t find(const struct check *check, size_t at) {
    return spans_find(&check->spans, check->placing->place_of[at], event_at(check, at)->bytes);
}

static void put(struct check *check, size_t at) {
    spans_put(&check->spans, check->placing->place_of[at], event_at(check, at)->bytes, (uint32_t)at);
}

static bool complain(const struct check *check, size_t at, size_t other) {
    const struct event *event = event_at(check, at), *there = event_at(check, other);
    const bool end = there->kind == EVENT_LIVE_AT_END || there->kind == EVENT_IDLE_AT_END;
    return placing_complain(check->placing, event,
                            "%" PRIu64 " bytes at 0x%" PRIx64 " overlap the %" PRIu64 " at 0x%" PRIx64 " of %s %" PRIu64
                            " (byte %" PRIu64 ")",
                            event->bytes, event->address, there->bytes, there->address,
                            end ? "block" : check->placing->events->unit, there->number, there->offset);
}

/* Those of the end were copied at once. */
static bool check_ends(struct check *check) {
    for (size_t i = check->placing->ends; i < check->placing->events->count; i++) {
        const uint32_t other = find(check, i);
        if (other != SPANS_NONE) return complain(check, i, other);
        put(check, i);
    }
    spans_clear(&check->spans);
    return true;
}

/* False, and told, where a recorder of all threads could not have seen it. */
static bool allow(struct check *check, size_t at, size_t other) {
    check->placing->conversion->overlap_count++;
    return check->placing->events->misses_threads || complain(check, at, other);
}

static bool put_before(struct check *check) {
    const struct placing *placing = check->placing;
    for (size_t i = 0; i < placing->before_count; i++) {
        const uint32_t other = find(check, placing->before[i]);
        if (other != SPANS_NONE && !allow(check, placing->before[i], other)) return false;
        put(check, placing->before[i]);
    }
    return true;
}

static void leave_out(struct check *check, size_t at) {
    place_at(check, at)->state = LEFT_OUT;
    check->placing->conversion->ends_left_out++;
}

/* What no event names was there all the time, unless that can't be: then it came between the two copies. */
static void put_ends(struct check *check) {
    for (size_t i = check->placing->ends; i < check->placing->events->count; i++) {
        if (event_at(check, i)->kind != EVENT_LIVE_AT_END || place_at(check, i)->state != NEVER_NAMED) continue;
        if (find(check, i) == SPANS_NONE)
            put(check, i);
        else
            leave_out(check, i);
    }
}

static bool check_alloc(struct check *check, size_t at) {
    uint32_t other;
    while ((other = find(check, at)) != SPANS_NONE && other >= check->placing->ends) {
        leave_out(check, other);
        spans_drop(&check->spans, check->placing->place_of[other]);
    }
    if (other != SPANS_NONE && !allow(check, at, other)) return false;
    put(check, at);
    return true;
}

static bool check_events(struct check *check) {
    const struct placing *placing = check->placing;
    for (size_t i = 0; i < placing->ends; i++) {
        if (placing->blocks[i] == NO_BLOCK) continue;
        if (event_at(check, i)->kind != EVENT_ALLOC)
            spans_drop(&check->spans, placing->place_of[i]);
        else if (!check_alloc(check, i))
            return false;
    }
    return true;
}

/* What lives by the events and what by the end; of the former the spans are full. */
static void compare_ends(struct check *check) {
    const struct placing *placing = check->placing;
    for (size_t i = placing->ends; i < placing->events->count; i++) {
        const struct event *event = event_at(check, i);
        const struct place *place = place_at(check, i);
        bool differs = place->state == ASKED_FREE || place->state == IS_FREE;
        if (event->kind == EVENT_IDLE_AT_END)
            differs = find(check, i) != SPANS_NONE;
        else if (place->state == LIVE)
            differs = !event->rounded && event->bytes != placing->conversion->blocks[place->block].bytes;
        placing->conversion->ends_left_out += differs;
    }
}

bool placing_check_overlaps(struct placing *placing) {
    struct check check = {.placing = placing};
    if (!spans_make(&check.spans, placing->place_count))
        return convert_fail(placing->conversion, "%s: no host memory for its addresses", placing->name);
    for (size_t i = 0; i < placing->place_count; i++) check.spans.all[i].address = placing->places[i].address;
    spans_sort(&check.spans);
    bool good = check_ends(&check) && put_before(&check);
    if (good) put_ends(&check);
    good = good && check_events(&check);
    if (good) compare_ends(&check);
    spans_free(&check.spans);
    return good;
}
