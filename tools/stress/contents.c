/* SPDX-License-Identifier: Apache-2.0 */
#include "contents.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 8191, /* where a pattern may begin, of 8 bytes: a prime, so that numbers near each other differ */
    WORD = 8,
    PATTERN_BYTES = PLACES * WORD + CONTENTS_PIECE,
    TOLD_BYTES = 4,
};

/* ---- the pattern ------------------------------------------------------------------------------------------------ */

static const unsigned char *pattern_of(const struct contents *contents, uint64_t number) {
    return contents->pattern + number % PLACES * WORD;
}

bool contents_open(struct contents *contents, uint64_t seed) {
    struct random random = {seed};
    void *memory = NULL;
    if (contents->check == CONTENTS_NONE) return true;
    if (weir_host_alloc(contents->device, PATTERN_BYTES, &memory) != WEIR_OK) return false;
    contents->pattern = memory;
    for (size_t at = 0; at < PATTERN_BYTES; at += WORD) {
        const uint64_t word = random_next(&random);
        memcpy(contents->pattern + at, &word, WORD);
    }
    return true;
}

void contents_close(struct contents *contents) {
    if (contents->pattern != NULL) weir_host_free(contents->device, contents->pattern);
    contents->pattern = NULL;
}

static size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

static void pass(void *argument) { (void)argument; }

static enum weir_status tell_of(const struct contents *contents, const struct block *block, bool write,
                                weir_stream stream) {
    const struct weir_access access = {block->address, block->bytes, write};
    const struct weir_work work = {
        .name = write ? "fill" : "look", .run = pass, .accesses = &access, .access_count = 1};
    return contents->told ? weir_device_submit(contents->device, &work, stream) : WEIR_OK;
}

/* From the host up to the end of a piece, then the whole pieces that are there double. */
enum weir_status contents_fill_rest(const struct contents *contents, const struct block *block, size_t from,
                                    weir_stream stream) {
    enum weir_status status = WEIR_OK;
    if (contents->pattern == NULL) return tell_of(contents, block, true, stream);
    while (status == WEIR_OK && from < block->bytes) {
        const size_t within = from % CONTENTS_PIECE, rest = block->bytes - from;
        const bool whole = from > 0 && within == 0;
        const void *source = whole ? block->address : pattern_of(contents, block->number) + within;
        const size_t more = lesser(whole ? from : CONTENTS_PIECE - within, rest);
        status = weir_copy(contents->device, block->address + from, source, more, stream);
        from += more;
    }
    return status;
}

enum weir_status contents_fill(const struct contents *contents, const struct block *block, weir_stream stream) {
    return contents_fill_rest(contents, block, 0, stream);
}

/* ---- what is wrong ---------------------------------------------------------------------------------------------- */

/* Whether bytes of the device from `address` on are what a block's pattern has there. */
static bool is_from(const struct contents *contents, const struct past *past, uintptr_t address,
                    const unsigned char *bytes, size_t count) {
    if (address < past->address || address - past->address >= past->bytes) return false;
    const size_t at = (address - past->address) % CONTENTS_PIECE;
    return at + count <= CONTENTS_PIECE && memcmp(pattern_of(contents, past->number) + at, bytes, count) == 0;
}

/* Of the blocks that lay there lately, the last one with such bytes. */
static bool find_owner(const struct contents *contents, const struct past *self, uintptr_t address,
                       const unsigned char *bytes, size_t count, struct past *owner) {
    struct past *pasts = malloc(HISTORY * sizeof *pasts);
    owner->number = 0;
    const size_t known = pasts != NULL ? live_history(contents->live, pasts) : 0;
    for (size_t i = 0; i < known; i++)
        if (pasts[i].number != self->number && pasts[i].number > owner->number &&
            is_from(contents, &pasts[i], address, bytes, count))
            *owner = pasts[i];
    free(pasts);
    return owner->number != 0;
}

static void tell(const struct contents *contents, const struct slot *slot, const unsigned char *expected) {
    struct past owner;
    size_t first = 0, wrong = 0;
    while (slot->bytes[first] == expected[first]) first++;
    for (size_t i = first; i < slot->length; i++) wrong += slot->bytes[i] != expected[i];
    const struct past *block = &slot->block;
    const size_t offset = slot->offset + first, count = lesser(WORD, slot->length - first);
    char what[240];
    snprintf(
        what, sizeof what,
        "block %" PRIu64 " (%zu bytes at 0x%" PRIxPTR ", allocated on stream %" PRIu32 "), looked at in the order of "
        "stream %" PRIu32 ": from byte %zu on %zu of the next %zu bytes are wrong",
        block->number, block->bytes, block->address, block->home, slot->stream, offset, wrong, slot->length - first);
    if (count >= TOLD_BYTES && find_owner(contents, block, block->address + offset, slot->bytes + first, count, &owner))
        faults_add(contents->faults, FAULT_EARLY_REUSE,
                   "%s; they are those of block %" PRIu64 " (%zu bytes at 0x%" PRIxPTR ", stream %" PRIu32
                   "), which was "
                   "asked for %s",
                   what, owner.number, owner.bytes, owner.address, owner.home,
                   owner.number > block->number ? "later: its stream did not wait for this one's work"
                                                : "earlier: its work was not over when this one was handed out");
    else
        faults_add(contents->faults, FAULT_CORRUPTION,
                   "%s (0x%02x where 0x%02x was written), and no block's that lay there", what, slot->bytes[first],
                   expected[first]);
}

/* ---- a thread's looks ------------------------------------------------------------------------------------------- */

bool checker_open(struct checker *checker, struct contents *contents, uint64_t seed) {
    void *memory = NULL;
    *checker = (struct checker){.contents = contents, .random = {seed}};
    if (contents->pattern == NULL) return true;
    if (weir_host_alloc(contents->device, (size_t)CONTENTS_SLOTS * CONTENTS_PIECE, &memory) != WEIR_OK) return false;
    checker->bytes = memory;
    for (size_t i = 0; i < CONTENTS_SLOTS; i++) {
        checker->slots[i].bytes = checker->bytes + i * CONTENTS_PIECE;
        if (weir_event_create(contents->device, false, &checker->slots[i].event) != WEIR_OK) return false;
    }
    return true;
}

void checker_close(struct checker *checker) {
    for (size_t i = 0; i < CONTENTS_SLOTS; i++)
        if (checker->slots[i].event != NULL) weir_event_destroy(checker->contents->device, checker->slots[i].event);
    if (checker->bytes != NULL) weir_host_free(checker->contents->device, checker->bytes);
}

static enum weir_status settle(struct checker *checker, struct slot *slot) {
    if (!slot->under_way) return WEIR_OK;
    const struct contents *contents = checker->contents;
    const enum weir_status status = weir_event_synchronize(contents->device, slot->event);
    slot->under_way = false;
    if (status != WEIR_OK) return status;
    const unsigned char *expected = pattern_of(contents, slot->block.number) + slot->offset % CONTENTS_PIECE;
    checker->compared_bytes += slot->length;
    if (checker->told == slot->block.number || memcmp(slot->bytes, expected, slot->length) == 0) return WEIR_OK;
    checker->told = slot->block.number;
    tell(contents, slot, expected);
    return WEIR_OK;
}

static enum weir_status look_at(struct checker *checker, const struct block *block, size_t piece, weir_stream stream,
                                uint32_t number) {
    struct slot *slot = &checker->slots[checker->next++ % CONTENTS_SLOTS];
    struct weir_device *device = checker->contents->device;
    enum weir_status status = settle(checker, slot);
    if (status != WEIR_OK) return status;
    slot->block = (struct past){block->number, (uintptr_t)block->address, block->bytes, block->home, true};
    slot->offset = piece * CONTENTS_PIECE;
    slot->length = lesser(CONTENTS_PIECE, block->bytes - slot->offset);
    slot->stream = number;
    status = weir_copy(device, slot->bytes, block->address + slot->offset, slot->length, stream);
    if (status == WEIR_OK) status = weir_event_record(device, slot->event, stream);
    slot->under_way = status == WEIR_OK;
    return status;
}

/* The first and the last piece, and others. */
static size_t sampled(struct checker *checker, size_t pieces, size_t i) {
    return i == 0 ? 0 : i == 1 ? pieces - 1 : (size_t)random_below(&checker->random, pieces);
}

enum weir_status checker_look(struct checker *checker, const struct block *block, weir_stream stream, uint32_t number) {
    const struct contents *contents = checker->contents;
    const size_t pieces = (block->bytes + CONTENTS_PIECE - 1) / CONTENTS_PIECE;
    const bool all = contents->check == CONTENTS_FULL || pieces <= CONTENTS_SAMPLES;
    enum weir_status status = WEIR_OK;
    if (contents->pattern == NULL) return tell_of(contents, block, false, stream);
    for (size_t i = 0; i < (all ? pieces : CONTENTS_SAMPLES) && status == WEIR_OK; i++)
        status = look_at(checker, block, all ? i : sampled(checker, pieces, i), stream, number);
    return status;
}

enum weir_status checker_finish(struct checker *checker) {
    enum weir_status status = WEIR_OK;
    for (unsigned i = 0; i < CONTENTS_SLOTS && status == WEIR_OK; i++)
        status = settle(checker, &checker->slots[(checker->next + i) % CONTENTS_SLOTS]);
    return status;
}
