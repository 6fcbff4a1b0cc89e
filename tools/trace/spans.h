/* SPDX-License-Identifier: Apache-2.0 */
/* What lives where: addresses known beforehand, of which some have a block at a time. Who lives in a range is found in a few
 * steps, however many there are: of the addresses, ascending, a bit each says whether a block lives there; above it a bit each
 * says whether any of 64 bits below is set, and so on.
 *
 * Words. place: an address, by its number. rank: its place among all, ascending. */
#ifndef WEIR_TRACE_SPANS_H
#define WEIR_TRACE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPANS_NONE UINT32_MAX
enum { SPAN_LEVELS = 5 };

struct span {
    uint64_t address, end; /* end: of the block that lives there */
    uint32_t place, owner; /* owner: whatever who put it there calls it */
};

struct spans {
    struct span *all; /* by rank */
    uint32_t *ranks;  /* by place */
    uint64_t *levels[SPAN_LEVELS];
    size_t words[SPAN_LEVELS], count;
};

/* Without any; the addresses of all[0 .. count) are to be filled in by place, then spans_sort. False without host memory: there is
 * nothing to free then. */
bool spans_make(struct spans *spans, size_t count);
void spans_sort(struct spans *spans);
void spans_free(struct spans *spans);

/* The owner of a block that lives somewhere in the `bytes` from the place on; SPANS_NONE. */
uint32_t spans_find(const struct spans *spans, uint32_t place, uint64_t bytes);
/* One of no bytes lives nowhere. */
void spans_put(struct spans *spans, uint32_t place, uint64_t bytes, uint32_t owner);
void spans_drop(struct spans *spans, uint32_t place);
void spans_clear(struct spans *spans);

#endif
