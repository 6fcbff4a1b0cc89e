/* SPDX-License-Identifier: Apache-2.0 */
/* Static lifetimes: a block lives in [lower, upper) of a logical time, as solvers of placement take them. */
#include <inttypes.h>
#include <stdlib.h>

#include "convert.h"

struct border {
    uint64_t time;
    uint32_t block;
};

struct lifetime_columns {
    int id, lower, upper, size;
};

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static bool read_row(struct conversion *conversion, struct csv *csv, const struct lifetime_columns *column) {
    struct lifetime lifetime = {.offset = csv_offset(csv)};
    uint64_t bytes;
    uint32_t block;
    bool added;
    if (!convert_block_of(conversion, csv, column->id, &block, &added)) return false;
    if (!added)
        return csv_complain(csv, column->id, "'%s' was named before, at line %" PRIu64 ": an id is one block's",
                            csv_text(csv, column->id), conversion->blocks[block].line);
    if (!csv_number(csv, column->lower, UINT64_MAX, &lifetime.lower) ||
        !csv_number(csv, column->upper, UINT64_MAX, &lifetime.upper) ||
        !csv_number(csv, column->size, TRACE_MOST_BYTES, &bytes))
        return false;
    if (lifetime.upper <= lifetime.lower)
        return csv_complain(csv, column->upper, "a lifetime from %" PRIu64 " ends at %" PRIu64 ": it has no length",
                            lifetime.lower, lifetime.upper);
    conversion->blocks[block] = (struct convert_block){.bytes = bytes, .line = csv_line(csv)};
    conversion->lifetimes[block] = lifetime;
    conversion->lifetime_count = conversion->block_count;
    return true;
}

bool convert_read_lifetimes(struct conversion *conversion, struct csv *csv) {
    const struct lifetime_columns column = {csv_column(csv, "id"), csv_column(csv, "lower"), csv_column(csv, "upper"),
                                            csv_column(csv, "size")};
    enum csv_next next;
    while ((next = csv_next(csv)) == CSV_ROW) {
        void *lifetimes = conversion->lifetimes;
        const bool room = convert_count_row(conversion, csv, conversion->lifetime_count) &&
                          convert_grow(conversion, &lifetimes, &conversion->lifetime_room, conversion->lifetime_count,
                                       sizeof *conversion->lifetimes);
        conversion->lifetimes = lifetimes;
        if (!room || !read_row(conversion, csv, &column)) return false;
    }
    return next == CSV_END;
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static int earlier(const void *left, const void *right) {
    const struct border *a = left, *b = right;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return a->block < b->block ? -1 : a->block > b->block;
}

static bool push_begin(struct conversion *conversion, uint32_t block) {
    const struct convert_block *known = &conversion->blocks[block];
    if (convert_rounded(known->bytes) > TRACE_MOST_BYTES - conversion->live_bytes)
        return convert_fail(conversion,
                            "%s: line %" PRIu64 " (byte %" PRIu64 "), column size: %" PRIu64
                            " bytes more than the %" PRIu64
                            " that are live (blocks rounded up to 512): the limit is 2^50 at once",
                            conversion->name[FORM_LIFETIMES], known->line, conversion->lifetimes[block].offset,
                            known->bytes, conversion->live_bytes);
    conversion->live_bytes += convert_rounded(known->bytes);
    return convert_push(conversion, &conversion->steps, (struct step){.kind = STEP_ALLOC, .block = block});
}

static bool push_end(struct conversion *conversion, uint32_t block) {
    conversion->live_bytes -= convert_rounded(conversion->blocks[block].bytes);
    return convert_push(conversion, &conversion->steps, (struct step){.kind = STEP_FREE, .block = block});
}

/* Both sorted; what ends at a time ends before what begins then. */
static bool push_all(struct conversion *conversion, const struct border *begins, const struct border *ends) {
    const size_t count = conversion->lifetime_count;
    for (size_t begin = 0, end = 0; end < count;) {
        const bool begins_next = begin < count && begins[begin].time < ends[end].time;
        if (begins_next && !push_begin(conversion, begins[begin++].block)) return false;
        if (!begins_next && !push_end(conversion, ends[end++].block)) return false;
    }
    return true;
}

bool convert_lifetime_steps(struct conversion *conversion) {
    const size_t count = conversion->lifetime_count;
    struct border *begins = malloc((2 * count + 1) * sizeof *begins);
    uint32_t stream;
    if (begins == NULL) return convert_fail(conversion, "no host memory to sort %zu lifetimes", count);
    struct border *ends = begins + count;
    for (uint32_t block = 0; block < count; block++) {
        begins[block] = (struct border){conversion->lifetimes[block].lower, block};
        ends[block] = (struct border){conversion->lifetimes[block].upper, block};
    }
    qsort(begins, count, sizeof *begins, earlier);
    qsort(ends, count, sizeof *ends, earlier);
    const bool made = convert_stream_id(conversion, 0, &stream) && push_all(conversion, begins, ends);
    free(begins);
    return made;
}
