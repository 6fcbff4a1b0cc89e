/* SPDX-License-Identifier: Apache-2.0 */
/* Inside convert_addresses.c and convert_overlaps.c: which block an event is of. */
#ifndef WEIR_TRACE_CONVERT_PLACING_H
#define WEIR_TRACE_CONVERT_PLACING_H

#include "convert.h"

#define NO_BLOCK UINT32_MAX

enum place_state {
    NEVER_NAMED, /* by what is before the end */
    LIVE,
    ASKED_FREE,
    IS_FREE,
    LEFT_OUT, /* never named, and the end says another thing of it than the events */
};

struct place {
    uint64_t address;
    uint64_t number; /* of the event that named it last */
    uint32_t block;
    uint8_t state; /* enum place_state */
};

struct placing {
    struct conversion *conversion;
    const char *name;
    const struct events *events;
    size_t ends;          /* where in the events those of the end begin */
    struct ids addresses; /* to places */
    struct place *places;
    size_t place_count, place_room;
    uint32_t *place_of; /* by event; of what has no address undefined */
    uint32_t *blocks;   /* by event: which one it begins or ends; NO_BLOCK: neither */
    uint32_t *before;   /* events that tell of a block from before the first, one for each such block */
    size_t before_count;
    uint64_t ns; /* of the rows so far: what a log's clock does backwards is left out */
    bool asks;   /* some free is told when it is asked for, not only when it is completed */
};

bool placing_complain(const struct placing *placing, const struct event *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Once the events before the end are placed: no two blocks may live in the same bytes. What the end says otherwise than the
 * events is left out, and counted: they are two copies, and a program goes on between them. */
bool placing_check_overlaps(struct placing *placing);

#endif
