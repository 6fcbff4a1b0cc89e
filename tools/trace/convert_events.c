/* SPDX-License-Identifier: Apache-2.0 */
/* Memory events: what an allocator noted of each request, one after another. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"

enum { SHORTEST_NS = 100 }; /* a trace's work has one decimal of a microsecond */

struct event_columns {
    int op, id, size, place, time; /* place: stream, or thread */
};

struct event_reader {
    struct conversion *conversion;
    struct csv *csv;
    struct event_columns column;
    bool by_thread;
    uint64_t begun_line; /* of the first row that is not `p`; 0: none yet */
    uint64_t last_ns, last_line;
};

void convert_read_comment(void *with, const char *text) {
    static const char words[] = "pre-existing live bytes ";
    struct conversion *conversion = with;
    const char *at = strstr(text, words);
    if (at != NULL) conversion->told_bytes = strtoull(at + strlen(words), NULL, 10);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static bool add_row(struct event_reader *reader, enum step_kind kind, uint32_t block, uint32_t place, uint64_t value) {
    const struct step row = {
        .kind = (uint8_t)kind, .block = block, .stream = place, .value = value, .ns = reader->last_ns};
    return convert_push(reader->conversion, &reader->conversion->rows, row);
}

static bool read_place(struct event_reader *reader, uint32_t *place) {
    if (reader->by_thread) return convert_thread(reader->conversion, reader->csv, reader->column.place, place);
    return convert_stream(reader->conversion, reader->csv, reader->column.place, place);
}

static bool read_time(struct event_reader *reader) {
    uint64_t ns;
    if (!csv_ns(reader->csv, reader->column.time, &ns)) return false;
    if (reader->last_line != 0 && ns < reader->last_ns)
        return csv_complain(reader->csv, reader->column.time, "time goes backwards: line %" PRIu64 " was %.3f us later",
                            reader->last_line, (double)(reader->last_ns - ns) / 1000);
    reader->last_ns = ns;
    reader->last_line = csv_line(reader->csv);
    return true;
}

static bool add_block(struct event_reader *reader, bool before, uint32_t block, uint32_t place, uint64_t bytes) {
    struct conversion *conversion = reader->conversion;
    struct convert_block *known = &conversion->blocks[block];
    if (before && reader->begun_line != 0)
        return csv_complain(reader->csv, reader->column.op,
                            "'p' is a block from before the recording, which began at line %" PRIu64,
                            reader->begun_line);
    if (bytes > TRACE_MOST_BYTES || convert_rounded(bytes) > TRACE_MOST_BYTES - conversion->live_bytes)
        return csv_complain(reader->csv, reader->column.size,
                            "%" PRIu64 " bytes more than the %" PRIu64
                            " that are live (blocks rounded up to 512): the limit is 2^50 at once",
                            bytes, conversion->live_bytes);
    conversion->live_bytes += convert_rounded(bytes);
    *known = (struct convert_block){.bytes = bytes, .line = csv_line(reader->csv), .stream = place};
    return add_row(reader, before ? STEP_LIVE : STEP_ALLOC, block, place, 0);
}

/* `r` and `f`. A free takes effect where the program asked for it; where only its completion was noted, there. */
static bool free_block(struct event_reader *reader, bool completed, uint32_t block, uint32_t place, uint64_t bytes) {
    struct conversion *conversion = reader->conversion;
    struct convert_block *known = &conversion->blocks[block];
    const bool first = known->state == BLOCK_LIVE;
    if (known->state == BLOCK_FREE || (known->state == BLOCK_ASKED_FREE && !completed))
        return csv_complain(reader->csv, reader->column.id, "'%s' was freed before, at line %" PRIu64,
                            csv_text(reader->csv, reader->column.id), known->line);
    if (bytes != known->bytes)
        return csv_complain(reader->csv, reader->column.size,
                            "%" PRIu64 " bytes are freed of a block of %" PRIu64 " (line %" PRIu64 ")", bytes,
                            known->bytes, known->line);
    known->state = completed ? BLOCK_FREE : BLOCK_ASKED_FREE;
    known->line = csv_line(reader->csv);
    if (!first) return true;
    conversion->live_bytes -= convert_rounded(bytes);
    return add_row(reader, STEP_FREE, block, place, 0);
}

static bool read_block_row(struct event_reader *reader, char op, uint32_t place, uint64_t bytes) {
    struct csv *csv = reader->csv;
    uint32_t block;
    bool added;
    if (!convert_block_of(reader->conversion, csv, reader->column.id, &block, &added)) return false;
    const bool frees = op == 'r' || op == 'f';
    if (frees && added)
        return csv_complain(csv, reader->column.id, "'%s' was never allocated", csv_text(csv, reader->column.id));
    if (!frees && !added)
        return csv_complain(csv, reader->column.id, "'%s' was named before, at line %" PRIu64 ": an id is one block's",
                            csv_text(csv, reader->column.id), reader->conversion->blocks[block].line);
    return frees ? free_block(reader, op == 'f', block, place, bytes)
                 : add_block(reader, op == 'p', block, place, bytes);
}

/* What the allocator held when the recording began is not in the table: only growth is known. */
static bool read_reserve_row(struct event_reader *reader, bool grown, uint64_t bytes) {
    struct conversion *conversion = reader->conversion;
    const int64_t change = grown ? (int64_t)bytes : -(int64_t)bytes;
    if (bytes > TRACE_MOST_BYTES ||
        __builtin_add_overflow(conversion->reserve_growth, change, &conversion->reserve_growth))
        return csv_complain(reader->csv, reader->column.size,
                            "a reserve that changes by %" PRIu64 " bytes passes the limit of 2^50", bytes);
    conversion->has_reserve = true;
    if (conversion->reserve_growth > conversion->peak_reserve_growth)
        conversion->peak_reserve_growth = conversion->reserve_growth;
    return add_row(reader, STEP_RESERVE, grown, 0, bytes);
}

static bool read_row(struct event_reader *reader) {
    const char *op = csv_text(reader->csv, reader->column.op);
    const char *known = reader->by_thread ? "parf" : "parfSs";
    uint32_t place = 0;
    uint64_t bytes;
    if (op[0] == '\0' || op[1] != '\0' || strchr(known, op[0]) == NULL)
        return csv_complain(reader->csv, reader->column.op, "'%.20s' is no event: one letter of %s", op, known);
    if (!read_time(reader) || !csv_number(reader->csv, reader->column.size, UINT64_MAX, &bytes) ||
        !read_place(reader, &place))
        return false;
    if (op[0] != 'p' && reader->begun_line == 0) reader->begun_line = csv_line(reader->csv);
    if (op[0] == 'S' || op[0] == 's') return read_reserve_row(reader, op[0] == 'S', bytes);
    return read_block_row(reader, op[0], place, bytes);
}

bool convert_read_events(struct conversion *conversion, struct csv *csv, bool by_thread) {
    struct event_reader reader = {
        .conversion = conversion,
        .csv = csv,
        .by_thread = by_thread,
        .column = {csv_column(csv, "op"), csv_column(csv, "id"), csv_column(csv, "size"),
                   csv_column(csv, by_thread ? "thread" : "stream"), csv_column(csv, "time_us")},
    };
    enum csv_next next;
    if (conversion->hidden_bytes > TRACE_MOST_BYTES)
        return csv_complain(csv, CSV_NO_COLUMN, "%" PRIu64 " bytes were live before: the limit is 2^50",
                            conversion->hidden_bytes);
    conversion->live_bytes = convert_rounded(conversion->hidden_bytes);
    for (uint64_t count = 0; (next = csv_next(csv)) == CSV_ROW; count++)
        if (!convert_count_row(conversion, csv, count) || !read_row(&reader)) return false;
    if (next == CSV_END) conversion->end_ns = reader.last_ns;
    return next == CSV_END;
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

/* What passed up to `ns`, in whole tenths of a microsecond; the rest is kept for the next time. */
static bool push_gap(struct conversion *conversion, uint32_t stream, uint64_t ns, uint64_t *told_ns) {
    const uint64_t gap = (ns - *told_ns) / SHORTEST_NS * SHORTEST_NS;
    *told_ns += gap;
    return convert_push_work(conversion, stream, gap);
}

/* When the recording began: what was live before has no time of its own. */
static uint64_t begin_of(const struct conversion *conversion) {
    const struct steps *rows = &conversion->rows;
    for (size_t i = 0; i < rows->count; i++)
        if (rows->all[i].kind != STEP_LIVE) return rows->all[i].ns;
    return conversion->end_ns;
}

/* The time between two events is work on the stream of the second: the device's own is not in the log. Threads have
 * no streams here: a profiler's memory events by themselves are all on one. */
bool convert_timed_steps(struct conversion *conversion) {
    const struct steps *rows = &conversion->rows;
    const uint64_t begin_ns = begin_of(conversion);
    uint64_t told_ns = begin_ns;
    const bool by_thread = conversion->name[FORM_MEMORY] != NULL || conversion->name[FORM_KINETO] != NULL;
    uint32_t stream = 0;
    if ((by_thread || conversion->stream_count == 0) && !convert_stream_id(conversion, 0, &stream)) return false;
    if (!convert_push_hidden(conversion, stream)) return false;
    for (size_t i = 0; i < rows->count; i++) {
        struct step step = rows->all[i];
        const bool timed = step.kind != STEP_LIVE && step.kind != STEP_RESERVE;
        if (by_thread) step.stream = stream;
        if (by_thread && step.kind <= STEP_FREE) conversion->blocks[step.block].stream = stream;
        if (timed) stream = step.stream;
        if (timed && !push_gap(conversion, stream, step.ns, &told_ns)) return false;
        if (!convert_push(conversion, &conversion->steps, step)) return false;
    }
    conversion->span_ns = conversion->end_ns - begin_ns;
    return push_gap(conversion, stream, conversion->end_ns, &told_ns);
}
