/* SPDX-License-Identifier: Apache-2.0 */
/* What weir-trace info tells of a trace: info_figures.c counts, info_words.c and info_json.c show.
 *
 * Words. request: an allocation or a free. iteration: from an `i` to the next one or the end; what stands before the
 * first `i` belongs to iteration 0, which is none. peak: the first moment at which the most bytes are live, as
 * requested. */
#ifndef WEIR_TRACE_INFO_H
#define WEIR_TRACE_INFO_H

#include <stdio.h>

#include "trace.h"

enum {
    INFO_KINDS = OP_ITERATION + 1,
    INFO_MOST_GROUPS = 10,
    INFO_MOST_LARGEST = 10,
    INFO_SIZES = 52,  /* 0: of no bytes; else from 2^(size - 1) to below 2^size */
    INFO_WINDOWS = 7, /* freed within 10, 100 ... 10^6 operations; later */
    INFO_SPANS = 3,   /* freed in the iteration of the allocation, in the next, later */
};

struct info_share {
    uint64_t blocks, bytes;
};

struct info_stream {
    struct info_share allocated, live, at_peak;
    uint64_t peak_live_bytes;
    uint64_t uses_by_others; /* noted of its blocks by other streams */
    uint64_t work_ns, works, waits;
};

/* Blocks of one size on one stream. */
struct info_group {
    uint64_t bytes, blocks;
    uint32_t stream;
    uint32_t line; /* of the first */
};

struct info_iteration {
    size_t first_op, end_op;
    uint64_t requests;
    uint64_t same;  /* as those of the iteration before, up to the first that differs in kind, bytes or stream */
    bool identical; /* all; the last one may go on behind them, since a program's end does */
};

struct info {
    const struct trace *trace;
    uint64_t by_kind[INFO_KINDS];
    struct info_stream *streams; /* by stream */
    size_t *alloc_ops;           /* by block */
    uint64_t work_ns;
    size_t peak_op; /* after which the peak is reached */
    uint32_t peak_iteration;
    struct info_share at_peak, at_peak_before, at_peak_earlier, at_peak_own; /* all; allocated before the first
                                                                                iteration, in an earlier one than the
                                                                                peak's, in the peak's */
    struct info_group groups[INFO_MOST_GROUPS];   /* live at the peak; most bytes in all first */
    struct info_group largest[INFO_MOST_LARGEST]; /* of the whole trace; the largest block first */
    size_t group_count, largest_count;
    struct info_share sizes[INFO_SIZES], sizes_at_peak[INFO_SIZES];
    struct info_share windows[INFO_WINDOWS], spans[INFO_SPANS], never_freed;
    struct info_iteration *iterations; /* from iteration 1 at index 0 */
    uint64_t identical_iterations;     /* of those after the first */
};

extern const char *const info_kind_names[INFO_KINDS];

/* False without host memory. The trace must stay. */
bool info_gather(const struct trace *trace, struct info *info);
void info_free(struct info *info);

/* A stream's name, or its id where the trace gives none. */
const char *info_stream_name(const struct trace *trace, uint32_t stream, char *text, size_t room);

void info_put_words(FILE *out, const char *path, const struct info *info);
void info_put_json(FILE *out, const char *path, const struct info *info);

#endif
