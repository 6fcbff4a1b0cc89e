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
    assert(extent->queue == NULL);
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

size_t weir__extent_tagged_bytes(const struct weir__extent *extent) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < extent->tag_count; i++) bytes += extent->tags[i].bytes;
    return bytes;
}

/* The front keeps accounted bytes up to its own size, in the order of the tags; the back gets the rest. */
static void deal_out_tagged_bytes(struct weir__extent *front, struct weir__extent *back) {
    size_t left = front->bytes;
    for (uint32_t i = 0; i < front->tag_count; i++) {
        const size_t bytes = front->tags[i].bytes + back->tags[i].bytes, keep = bytes < left ? bytes : left;
        front->tags[i].bytes = keep;
        back->tags[i].bytes = bytes - keep;
        left -= keep;
    }
}

/* A new extent that is like `extent` but for its place and its tags' bytes, which are 0. */
static struct weir__extent *twin(struct weir__extent_store *store, const struct weir__extent *extent, uintptr_t address,
                                 size_t bytes) {
    struct weir__extent *made = weir__extent_new(store, address, bytes, extent->state);
    if (!weir__extent_tag_reserve(made, extent->tag_count)) {
        weir__extent_delete(store, made);
        return NULL;
    }
    for (uint32_t i = 0; i < extent->tag_count; i++)
        made->tags[i] = (struct weir__tag){
            .slot = extent->tags[i].slot, .tick = extent->tags[i].tick, .number = extent->tags[i].number};
    made->tag_count = extent->tag_count;
    made->was = extent->was;
    made->home = extent->home;
    made->small = extent->small;
    made->stale = extent->stale;
    made->fixed = extent->fixed;
    made->number = extent->number;
    return made;
}

struct weir__extent *weir__extent_split(struct weir__extent_store *store, struct weir__extent *extent, size_t bytes) {
    assert(bytes > 0 && bytes < extent->bytes && bytes % WEIR__ALIGNMENT == 0);
    struct weir__extent *back = twin(store, extent, extent->address + bytes, extent->bytes - bytes);
    if (back == NULL) return NULL;
    extent->bytes = bytes;
    deal_out_tagged_bytes(extent, back);
    back->previous = extent;
    back->next = extent->next;
    if (back->next != NULL) back->next->previous = back;
    extent->next = back;
    return back;
}

struct weir__extent *weir__extent_split_front(struct weir__extent_store *store, struct weir__extent *extent,
                                              size_t bytes) {
    assert(bytes > 0 && bytes < extent->bytes && bytes % WEIR__ALIGNMENT == 0);
    struct weir__extent *front = twin(store, extent, extent->address, bytes);
    if (front == NULL) return NULL;
    extent->address += bytes;
    extent->bytes -= bytes;
    deal_out_tagged_bytes(front, extent);
    front->next = extent;
    front->previous = extent->previous;
    if (front->previous != NULL) front->previous->next = front;
    extent->previous = front;
    return front;
}

static bool unite_tags(struct weir__extent *extent, const struct weir__extent *other) {
    if (!weir__extent_tag_reserve(extent, extent->tag_count + other->tag_count)) return false;
    for (uint32_t i = 0; i < other->tag_count; i++) weir__extent_tag_add(extent, other->tags[i]);
    return true;
}

bool weir__extent_merge(struct weir__extent_store *store, struct weir__extent *extent, struct weir__extent *next) {
    assert(extent->next == next && weir__extent_end(extent) == next->address);
    if (!unite_tags(extent, next)) return false;
    extent->bytes += next->bytes;
    extent->next = next->next;
    if (extent->next != NULL) extent->next->previous = extent;
    weir__extent_delete(store, next);
    return true;
}

bool weir__extent_merge_front(struct weir__extent_store *store, struct weir__extent *previous,
                              struct weir__extent *extent) {
    assert(previous->next == extent && weir__extent_end(previous) == extent->address);
    if (!unite_tags(extent, previous)) return false;
    extent->address = previous->address;
    extent->bytes += previous->bytes;
    extent->previous = previous->previous;
    if (extent->previous != NULL) extent->previous->next = extent;
    weir__extent_delete(store, previous);
    return true;
}

/* ---- queues ----------------------------------------------------------------------------------------------------- */

void weir__queue_add(struct weir__queue *queue, struct weir__extent *extent) {
    assert(extent->queue == NULL);
    extent->queue = queue;
    extent->newer = NULL;
    extent->older = queue->newest;
    if (queue->newest != NULL)
        queue->newest->newer = extent;
    else
        queue->oldest = extent;
    queue->newest = extent;
}

void weir__queue_remove(struct weir__extent *extent) {
    struct weir__queue *queue = extent->queue;
    if (queue == NULL) return;
    if (queue->cursor == extent) queue->cursor = extent->newer;
    if (extent->older != NULL)
        extent->older->newer = extent->newer;
    else
        queue->oldest = extent->newer;
    if (extent->newer != NULL)
        extent->newer->older = extent->older;
    else
        queue->newest = extent->older;
    extent->queue = NULL;
}
