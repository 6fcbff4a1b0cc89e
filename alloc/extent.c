/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/extent.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_EXTENTS 256

struct weir__extent_chunk {
    struct weir__extent_chunk *next;
    struct weir__extent extents[CHUNK_EXTENTS];
};

bool weir__extent_reserve(struct weir__extent_store *store, size_t count) {
    while (store->spare_count < count) {
        struct weir__extent_chunk *chunk = calloc(1, sizeof *chunk);
        if (chunk == NULL) return false;
        chunk->next = store->chunks;
        store->chunks = chunk;
        for (size_t i = CHUNK_EXTENTS; i-- > 0;) {
            chunk->extents[i].right = store->spare;
            store->spare = &chunk->extents[i];
        }
        store->spare_count += CHUNK_EXTENTS;
    }
    return true;
}

struct weir__extent *weir__extent_new(struct weir__extent_store *store, uintptr_t address, size_t bytes,
                                      enum weir__extent_state state) {
    struct weir__extent *extent = store->spare;
    assert(extent != NULL && "reserve before new");
    store->spare = extent->right;
    store->spare_count--;
    *extent = (struct weir__extent){.address = address, .bytes = bytes, .state = state, .was = state};
    extent->tags = extent->own_tags;
    extent->tag_room = WEIR__INLINE_TAGS;
    return extent;
}

void weir__extent_delete(struct weir__extent_store *store, struct weir__extent *extent) {
    if (extent->tags != extent->own_tags) free(extent->tags);
    extent->tags = extent->own_tags;
    extent->right = store->spare;
    store->spare = extent;
    store->spare_count++;
}

static void free_chunk_tags(struct weir__extent_chunk *chunk) {
    for (size_t i = 0; i < CHUNK_EXTENTS; i++) {
        struct weir__extent *extent = &chunk->extents[i];
        if (extent->tags != extent->own_tags) free(extent->tags);
    }
}

void weir__extent_store_clear(struct weir__extent_store *store) {
    while (store->chunks != NULL) {
        struct weir__extent_chunk *chunk = store->chunks;
        store->chunks = chunk->next;
        free_chunk_tags(chunk);
        free(chunk);
    }
    *store = (struct weir__extent_store){0};
}

bool weir__extent_tag_reserve(struct weir__extent *extent, uint32_t count) {
    if (count <= extent->tag_room) return true;
    uint32_t room = count + count / 2;
    struct weir__tag *tags = malloc(room * sizeof *tags);
    if (tags == NULL) return false;
    memcpy(tags, extent->tags, extent->tag_count * sizeof *tags);
    if (extent->tags != extent->own_tags) free(extent->tags);
    extent->tags = tags;
    extent->tag_room = room;
    return true;
}

void weir__extent_tag_add(struct weir__extent *extent, struct weir__tag tag) {
    for (uint32_t i = 0; i < extent->tag_count; i++) {
        struct weir__tag *mine = &extent->tags[i];
        if (mine->slot != tag.slot) continue;
        if (tag.tick > mine->tick) mine->tick = tag.tick;
        mine->bytes += tag.bytes;
        return;
    }
    assert(extent->tag_count < extent->tag_room);
    extent->tags[extent->tag_count++] = tag;
}

void weir__extent_tags_clear(struct weir__extent *extent) { extent->tag_count = 0; }

size_t weir__extent_tagged_bytes(const struct weir__extent *extent) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < extent->tag_count; i++) bytes += extent->tags[i].bytes;
    return bytes;
}

/* The front keeps accounted bytes up to its own size, in the order of the tags; the back gets the rest. */
static void deal_out_tagged_bytes(struct weir__extent *front, struct weir__extent *back) {
    size_t left = front->bytes;
    for (uint32_t i = 0; i < front->tag_count; i++) {
        struct weir__tag *mine = &front->tags[i];
        size_t keep = mine->bytes < left ? mine->bytes : left;
        back->tags[i].bytes = mine->bytes - keep;
        mine->bytes = keep;
        left -= keep;
    }
}

struct weir__extent *weir__extent_split(struct weir__extent_store *store, struct weir__extent *extent, size_t bytes) {
    assert(bytes > 0 && bytes < extent->bytes && bytes % WEIR__ALIGNMENT == 0);
    struct weir__extent *back = weir__extent_new(store, extent->address + bytes, extent->bytes - bytes, extent->state);
    if (!weir__extent_tag_reserve(back, extent->tag_count)) {
        weir__extent_delete(store, back);
        return NULL;
    }
    memcpy(back->tags, extent->tags, extent->tag_count * sizeof *back->tags);
    back->tag_count = extent->tag_count;
    back->was = extent->was;
    back->home = extent->home;
    back->small = extent->small;
    back->number = extent->number;
    extent->bytes = bytes;
    deal_out_tagged_bytes(extent, back);
    back->previous = extent;
    back->next = extent->next;
    if (back->next != NULL) back->next->previous = back;
    extent->next = back;
    return back;
}

bool weir__extent_merge(struct weir__extent_store *store, struct weir__extent *extent, struct weir__extent *next) {
    assert(extent->next == next && weir__extent_end(extent) == next->address);
    if (!weir__extent_tag_reserve(extent, extent->tag_count + next->tag_count)) return false;
    for (uint32_t i = 0; i < next->tag_count; i++) weir__extent_tag_add(extent, next->tags[i]);
    extent->bytes += next->bytes;
    extent->next = next->next;
    if (extent->next != NULL) extent->next->previous = extent;
    weir__extent_delete(store, next);
    return true;
}
