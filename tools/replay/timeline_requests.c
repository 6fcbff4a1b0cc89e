/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "timeline_inside.h"

enum { LONGEST = 1024 /* bytes of one request: at most 78 numbers, of 10 */ };

static void put(struct kept *kept, uint64_t number) {
    for (; number > 127; number >>= 7) kept->bytes[kept->length++] = (uint8_t)(number | 128);
    kept->bytes[kept->length++] = (uint8_t)number;
}

static void put_signed(struct kept *kept, uint64_t now, uint64_t before) {
    put(kept, now >= before ? 2 * (now - before) : 2 * (before - now) - 1);
}

/* Gives its room. */
static uint8_t *drop_oldest(struct requests *requests) {
    uint8_t *room = requests->parts[0].bytes;
    requests->dropped += requests->parts[0].count;
    memmove(&requests->parts[0], &requests->parts[1], (TIMELINE_PARTS - 1) * sizeof *requests->parts);
    requests->part_count--;
    return room;
}

/* The part that has room for one more; a new one knows nothing of what was before. NULL: no host memory. */
static struct kept *part_with_room(struct requests *requests, uint64_t ns) {
    struct kept *last = requests->part_count > 0 ? &requests->parts[requests->part_count - 1] : NULL;
    if (last != NULL && last->length + LONGEST <= TIMELINE_PART_BYTES) return last;
    uint8_t *room = requests->part_count == TIMELINE_PARTS ? drop_oldest(requests) : malloc(TIMELINE_PART_BYTES);
    if (room == NULL) return NULL;
    last = &requests->parts[requests->part_count++];
    *last = (struct kept){.bytes = room, .live = requests->live, .begin_ns = ns};
    memset(&requests->before, 0, sizeof requests->before);
    return last;
}

/* ---- what is expected to be idle -------------------------------------------------------------------------------- */

static void expect_idle(const struct timeline *timeline, const struct op *op, unsigned kind, uint64_t *idle) {
    const uint32_t slot = timeline_slot(timeline, op->stream);
    const uint64_t units = op->bytes / TIMELINE_UNIT + (op->bytes % TIMELINE_UNIT > 0);
    if (slot >= TIMELINE_SLOTS) return;
    if (kind == KEPT_ALLOC) idle[slot] -= idle[slot] < units ? idle[slot] : units;
    if (kind == KEPT_FREE) idle[slot] += units;
}

static unsigned count_unexpected(const uint64_t *expected, const struct sample *sample) {
    unsigned count = 0;
    for (uint32_t i = 0; i < TIMELINE_SLOTS; i++) count += expected[i] != sample->idle[i] / TIMELINE_UNIT;
    return count;
}

static void put_idle(struct kept *kept, uint64_t *expected, const struct sample *sample, unsigned count) {
    put(kept, count);
    for (uint32_t i = 0; i < TIMELINE_SLOTS; i++) {
        const uint64_t now = sample->idle[i] / TIMELINE_UNIT;
        if (expected[i] == now) continue;
        put(kept, i);
        put_signed(kept, now, expected[i]);
        expected[i] = now;
    }
}

/* ---- what it did ------------------------------------------------------------------------------------------------ */

static unsigned mask_of(const struct counts *counts) {
    return (counts->memory_calls > 0 ? 1 : 0) | (counts->page_moves > 0 ? 2 : 0) | (counts->device_waits > 0 ? 4 : 0) |
           (counts->host_waits > 0 ? 8 : 0) | (counts->stranded > 0 ? 16 : 0);
}

static void put_counts(struct kept *kept, const struct counts *counts, unsigned mask) {
    put(kept, mask);
    if (mask & 1) put(kept, counts->memory_calls);
    if (mask & 2) put(kept, counts->page_moves), put(kept, counts->moved_bytes / TIMELINE_UNIT);
    if (mask & 4) put(kept, counts->device_waits);
    if (mask & 8) put(kept, counts->host_waits), put(kept, counts->host_wait_ns);
    if (mask & 16) put(kept, counts->stranded / TIMELINE_UNIT);
}

/* ---- a request -------------------------------------------------------------------------------------------------- */

/* An alloc that did not add to what is live got nothing. */
static unsigned kind_of(const struct op *op, uint64_t live_before, uint64_t live) {
    if (op->kind == OP_NOTE) return KEPT_USE;
    if (op->kind == OP_REFUSED) return KEPT_IN_VAIN;
    if (op->kind == OP_ALLOC) return live == live_before && op->bytes > 0 ? KEPT_IN_VAIN : KEPT_ALLOC;
    return KEPT_FREE;
}

void timeline_add_request(struct timeline *timeline, const struct op *op, const struct sample *sample) {
    struct requests *requests = &timeline->requests;
    struct kept *kept = part_with_room(requests, sample->ns);
    if (kept == NULL) {
        timeline->broken = true;
        return;
    }
    const unsigned kind = kind_of(op, requests->live, sample->live), mask = mask_of(&sample->counts);
    const uint64_t held = sample->held / TIMELINE_UNIT;
    if (timeline->tells_idle) expect_idle(timeline, op, kind, requests->before.idle);
    const unsigned unexpected = count_unexpected(requests->before.idle, sample);
    const unsigned head = kind | (op->line != requests->before.line + 1 ? HEAD_LINE : 0) |
                          (op->stream != requests->before.stream ? HEAD_STREAM : 0) |
                          (held != requests->before.held ? HEAD_HELD : 0) | (unexpected > 0 ? HEAD_IDLE : 0) |
                          (mask != 0 ? HEAD_COUNTS : 0);
    kept->bytes[kept->length++] = (uint8_t)head;
    put(kept, sample->ns - requests->before.ns);
    put(kept, op->bytes % TIMELINE_UNIT == 0 ? op->bytes / TIMELINE_UNIT << 1 | 1 : op->bytes << 1);
    if (head & HEAD_LINE) put(kept, op->line - requests->before.line);
    if (head & HEAD_STREAM) put(kept, op->stream);
    if (head & HEAD_HELD) put_signed(kept, held, requests->before.held);
    if (head & HEAD_IDLE) put_idle(kept, requests->before.idle, sample, unexpected);
    if (head & HEAD_COUNTS) put_counts(kept, &sample->counts, mask);
    kept->count++;
    requests->before.ns = sample->ns;
    requests->before.line = op->line;
    requests->before.stream = op->stream;
    requests->before.held = held;
    requests->live = sample->live;
}
