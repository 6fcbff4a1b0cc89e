/* SPDX-License-Identifier: Apache-2.0 */
/* What the watch knows of bytes: who wrote them last, who read them since, whether there is anything to read. Plain
 * data, no lock of its own.
 *
 * Words. space: the physical bytes of a device, host memory, or the addresses of device memory. segment: bytes of a space with one history. leaf: some
 * segments that follow each other. label: a number that stands for a name and what its bearer does with bytes.
 *
 *     segments tile the space, and leaves the segments, both in order; no two neighbours in a leaf have one history
 *     so an access costs what the histories cost that it meets, however many bytes they are
 *
 *     read of a segment: every read since the last write that no later read is known to come after
 *     an access that is ordered after one of those is ordered after all that it stands for
 *     TAKEN: last and reads are the positions after which the bytes are unused */
#ifndef WEIR_EMU_WATCH_SHADOW_H
#define WEIR_EMU_WATCH_SHADOW_H

#include "device/emu/watch_known.h"

#define EMU_NOBODY  UINT32_MAX       /* queue of an access that there was not */
#define EMU_BY_HOST (UINT32_MAX - 1) /* queue of the host: before everything that is submitted later */

struct emu_access {
    uint64_t position;
    uint32_t queue;
    uint32_t label;
};

/* What is done to bytes. Each is checked against the last write and, but for the two reads, the reads since. */
enum emu_act {
    EMU_ACT_READ,
    EMU_ACT_WRITE,
    EMU_ACT_HAND_OUT, /* undefined contents for a stream */
    EMU_ACT_TAKE,     /* they come back, and are nobody's */
    EMU_ACT_HOST_READ,
    EMU_ACT_HOST_WRITE,
    EMU_ACT_HOST_TAKE, /* unmap, free, release: the contents stay, whatever they are */
    EMU_ACT_USE,       /* of addresses, by whatever act: checked against nothing, and kept like a read */
    EMU_ACTS
};

enum emu_fault { EMU_FAULT_RACE, EMU_FAULT_FREED, EMU_FAULT_UNWRITTEN };

struct emu_visit {
    enum emu_act act;
    struct emu_access access;
    const struct emu_known *known; /* what comes before it */
    /* Of a take: the positions after which the bytes are unused, one a stream; `access` is the first of them */
    const struct emu_access *ends;
    size_t end_count;
    bool over;    /* EMU_ACT_READ: when the call returns; nothing later needs to come after it */
    bool lenient; /* EMU_ACT_TAKE: accesses that it does not cover are kept, not at fault */
    /* Called for each segment at fault; first.queue may be EMU_NOBODY when nobody ever wrote there. */
    void (*at_fault)(void *self, enum emu_fault fault, const struct emu_access *first, uint64_t start, uint64_t bytes);
    void *self;
};

struct emu_shadow_leaf;

struct emu_shadow {
    struct emu_shadow_place {
        uint64_t start;
        struct emu_shadow_leaf *leaf;
    } * places; /* none: the space has no history yet */
    size_t count, room;
    size_t near;  /* where something was found last */
    bool written; /* what has no history counts as written: host memory */
};

/* Checks [start, start + bytes) and notes the access. False: no host memory; part of it may not be noted. */
bool emu_shadow_visit(struct emu_shadow *shadow, uint64_t start, uint64_t bytes, const struct emu_visit *visit);
/* The bytes have no history. False: no host memory. */
bool emu_shadow_forget(struct emu_shadow *shadow, uint64_t start, uint64_t bytes);
void emu_shadow_clear(struct emu_shadow *shadow);

#endif
