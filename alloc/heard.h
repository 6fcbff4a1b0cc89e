/* SPDX-License-Identifier: Apache-2.0 */
/* What the program's own events and waits say of the order of its streams, as far as weir hears of them (observe.c). It tells which
 * idle memory a stream may have without being held back: what the program has ordered before it anyway. It is never relied on: the
 * asking stream is made to wait all the same, which costs the host a call and the device nothing. So what is not heard, of events
 * that are recorded or waited for by other ways, or heard wrong, costs time at most.
 *
 * number   of a free (extent.h): the older the smaller
 * clock    by slot: what that slot freed up to this number comes before */
#ifndef WEIR_ALLOC_HEARD_H
#define WEIR_ALLOC_HEARD_H

#include "alloc/table.h"
#include "weir/device.h"

enum {
    WEIR__HEARD_SLOTS = 32,    /* nothing is heard of slots with greater numbers */
    WEIR__HEARD_EVENTS = 4096, /* all are forgotten when there are so many */
};

struct weir__clock {
    uint64_t numbers[WEIR__HEARD_SLOTS];
};

struct weir__heard {
    struct weir__clock streams[WEIR__HEARD_SLOTS];
    uint64_t newest;           /* number that was heard */
    struct weir__table events; /* the clock of what an event's last record came after */
};

/* An event has been recorded on a slot's stream; `number`: of the last free. Without host memory it is not heard. */
void weir__heard_record(struct weir__heard *heard, uint32_t slot, weir_event event, uint64_t number);
/* A slot's stream waits for an event. */
void weir__heard_wait(struct weir__heard *heard, uint32_t slot, weir_event event);
void weir__heard_forget(struct weir__heard *heard, weir_event event);
void weir__heard_clear(struct weir__heard *heard);
/* The program has ordered `slot` after what `other` freed up to a number, as far as is known. */
static inline bool weir__heard_before(const struct weir__heard *heard, uint32_t other, uint64_t number, uint32_t slot) {
    return slot < WEIR__HEARD_SLOTS && other < WEIR__HEARD_SLOTS && number <= heard->streams[slot].numbers[other];
}
/* So many frees ago, and more, `slot` stood where all that `other` has queued may begin: what follows there has had that long to
 * be done. False where `other` is not known to wait for `slot`. */
static inline bool weir__heard_begun(const struct weir__heard *heard, uint32_t other, uint32_t slot, uint64_t frees) {
    if (slot >= WEIR__HEARD_SLOTS || other >= WEIR__HEARD_SLOTS) return false;
    const uint64_t begin = heard->streams[other].numbers[slot];
    return begin > 0 && heard->newest >= begin + frees;
}

#endif
