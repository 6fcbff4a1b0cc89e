/* SPDX-License-Identifier: Apache-2.0 */
/* Extents: runs of addresses that tile a range, and the tags of those that are unused.
 *
 * extent  a run of addresses: used (a live block), idle (free, with pages of its own), bare (no pages of its own), moving
 *         (claimed by one call for a change that needs the driver), or pending (per-stream policy: freed, its noted uses
 *         not seen complete)
 * stale   a bare extent whose addresses may still be mapped to pages that are others' now (pages.h)
 * tag     (slot, tick): the extent is really unused once the stream of that slot has passed that tick; a stale one: the old
 *         mapping is. Of a used one: a noted stream, and where that was when the block gave bytes up that still lie in it
 *         (resize.c), else 0; the stream that it did so on counts as noted
 * piece   an extent as a part of a longer run
 *
 * Invariants.
 *   extents tile their range:    e.next.address == e.address + e.bytes
 *   all bytes of an idle extent are accounted to a stream:   sum(tag.bytes) == e.bytes
 *   one tag a slot:              tags of one extent name distinct slots
 *   addresses and sizes are multiples of 512; bare extents begin and end on page borders
 *
 * Nothing here calls a driver or takes a lock; the pool's lock orders all of it. */
#ifndef WEIR_ALLOC_EXTENT_H
#define WEIR_ALLOC_EXTENT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__ALIGNMENT   ((size_t)512) /* of every block, in bytes; the one constant that does not count granules */
#define WEIR__INLINE_TAGS 3

enum weir__extent_state { WEIR__USED, WEIR__IDLE, WEIR__BARE, WEIR__MOVING, WEIR__PENDING };

struct weir__tag {
    uint32_t slot;
    uint64_t tick;
    uint64_t number; /* idle: of the last free behind it; 0: not yet known */
    size_t bytes;    /* how much of the extent this stream used last; 0 in used extents */
};

struct weir__extent {
    uintptr_t address;
    size_t bytes;
    struct weir__extent *previous, *next; /* in address order */
    enum weir__extent_state state;
    enum weir__extent_state was; /* while moving: what it is again if the call fails */
    uint32_t home;               /* used: slot it was allocated on; idle: slot in whose index it is */
    bool small;                  /* per-stream policy: it lies in a segment for small blocks */
    bool stale;                  /* bare, or moving that was: old mappings may be left */
    bool alone;                  /* outside the arena, on a handle of its own (alone.h) */
    bool fixed;                  /* idle: it touches a registered page (registered.h) */
    size_t requested_bytes;      /* used: as asked */
    uint64_t number; /* used: its number in the trace, 0: it gets one when it is asked for; idle: when it was freed, the
                        older the smaller */
    struct weir__extent *left, *right; /* in an index, or in a front's bin; right alone in the list of spare structs */
    struct weir__extent *older, *newer;
    struct weir__queue *queue; /* it waits in, or NULL */
    struct weir__front *front; /* used: the front whose own it is, or NULL */
    uint64_t kept_tick;        /* kept by a front: of the stream at the free */
    bool kept;
    bool noted; /* a front's own that is live: it has noted uses */
    uint32_t priority;
    uint32_t tag_count, tag_room;
    struct weir__tag *tags; /* own_tags, or allocated */
    struct weir__tag own_tags[WEIR__INLINE_TAGS];
};

/* Extents in the order in which they came. */
struct weir__queue {
    struct weir__extent *oldest, *newest;
    struct weir__extent *cursor; /* of a walk that takes extents out: stays right when they are */
};
void weir__queue_add(struct weir__queue *queue, struct weir__extent *extent);
/* Takes an extent out of whatever queue it is in. */
void weir__queue_remove(struct weir__extent *extent);

/* Structs for extents, from chunks that are given back at the end. */
struct weir__extent_store {
    struct weir__extent *spare;
    size_t spare_count;
    struct weir__extent_chunk *chunks;
};

/* Makes sure that `count` more extents can be had. False when host memory is exhausted; nothing has changed. */
bool weir__extent_reserve(struct weir__extent_store *store, size_t count);
/* Needs: a reserve of at least one. Gives: an extent without tags and neighbours. */
struct weir__extent *weir__extent_new(struct weir__extent_store *store, uintptr_t address, size_t bytes,
                                      enum weir__extent_state state);
void weir__extent_delete(struct weir__extent_store *store, struct weir__extent *extent);
void weir__extent_store_clear(struct weir__extent_store *store);

static inline uintptr_t weir__extent_end(const struct weir__extent *extent) { return extent->address + extent->bytes; }

/* Cuts an extent in two after `bytes` bytes: it keeps the front, the back is new and follows it. Tags are in both;
 * accounted bytes are dealt out in the order of the tags.
 * Needs: a reserve of one, 0 < bytes < extent->bytes. Gives: the back; NULL without host memory, nothing has changed. */
struct weir__extent *weir__extent_split(struct weir__extent_store *store, struct weir__extent *extent, size_t bytes);

/* The same, but it keeps the back. Gives: the new front. */
struct weir__extent *weir__extent_split_front(struct weir__extent_store *store, struct weir__extent *extent,
                                              size_t bytes);

/* Appends `next`, the neighbour after `extent`, and deletes it; tags are united, the later tick a slot.
 * False without host memory for the tags; nothing has changed. */
bool weir__extent_merge(struct weir__extent_store *store, struct weir__extent *extent, struct weir__extent *next);
/* The same with the neighbour before it. */
bool weir__extent_merge_front(struct weir__extent_store *store, struct weir__extent *previous,
                              struct weir__extent *extent);

/* Room for `count` tags in all. False without host memory. */
bool weir__extent_tag_reserve(struct weir__extent *extent, uint32_t count);
/* Adds a tag, or raises the one of that slot and adds to its bytes. Needs: room. */
static inline void weir__extent_tag_add(struct weir__extent *extent, struct weir__tag tag) {
    for (uint32_t i = 0; i < extent->tag_count; i++) {
        struct weir__tag *mine = &extent->tags[i];
        if (mine->slot != tag.slot) continue;
        if (tag.tick > mine->tick) mine->tick = tag.tick;
        if (tag.number > mine->number) mine->number = tag.number;
        mine->bytes += tag.bytes;
        return;
    }
    assert(extent->tag_count < extent->tag_room);
    extent->tags[extent->tag_count++] = tag;
}
static inline void weir__extent_tags_clear(struct weir__extent *extent) { extent->tag_count = 0; }
size_t weir__extent_tagged_bytes(const struct weir__extent *extent);

#endif
