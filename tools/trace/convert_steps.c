/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of log share: names to numbers, arrays that grow, steps, and writing them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"

#define NO_MEMORY "no host memory for a log of this length"

bool convert_fail(struct conversion *conversion, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(conversion->why, conversion->room, format, arguments);
    va_end(arguments);
    return false;
}

bool convert_grow(struct conversion *conversion, void **array, size_t *room, size_t count, size_t size) {
    if (count < *room) return true;
    const size_t larger = *room == 0 ? 256 : *room * 2;
    void *moved = realloc(*array, larger * size);
    if (moved == NULL) return convert_fail(conversion, NO_MEMORY);
    *array = moved;
    *room = larger;
    return true;
}

uint64_t convert_rounded(uint64_t bytes) { return (bytes + 511) / 512 * 512; }

/* ---- names to numbers ------------------------------------------------------------------------------------------- */

bool convert_stream_id(struct conversion *conversion, uint64_t id, uint32_t *stream) {
    *stream = ids_find(&conversion->stream_numbers, id);
    if (*stream != IDS_NONE) return true;
    if (conversion->stream_count == TRACE_MOST_STREAMS)
        return convert_fail(conversion, "more than %d streams", TRACE_MOST_STREAMS);
    *stream = conversion->stream_count++;
    conversion->stream_ids[*stream] = id;
    return ids_put(&conversion->stream_numbers, id, *stream) || convert_fail(conversion, NO_MEMORY);
}

bool convert_stream(struct conversion *conversion, struct csv *csv, int column, uint32_t *stream) {
    uint64_t id;
    if (!csv_number(csv, column, UINT64_MAX, &id)) return false;
    if (convert_stream_id(conversion, id, stream)) return true;
    return csv_complain(csv, column, "stream %" PRIu64 " is one more than the limit of %d", id, TRACE_MOST_STREAMS);
}

bool convert_thread_id(struct conversion *conversion, uint64_t id, uint32_t *thread) {
    *thread = ids_find(&conversion->thread_numbers, id);
    if (*thread != IDS_NONE) return true;
    if (conversion->thread_count == CONVERT_MOST_THREADS)
        return convert_fail(conversion, "more than %d threads", CONVERT_MOST_THREADS);
    *thread = conversion->thread_count++;
    return ids_put(&conversion->thread_numbers, id, *thread) || convert_fail(conversion, NO_MEMORY);
}

bool convert_thread(struct conversion *conversion, struct csv *csv, int column, uint32_t *thread) {
    uint64_t id;
    if (!csv_number(csv, column, UINT64_MAX, &id)) return false;
    if (convert_thread_id(conversion, id, thread)) return true;
    return csv_complain(csv, column, "thread %" PRIu64 " is one more than the limit of %d", id, CONVERT_MOST_THREADS);
}

bool convert_add_block(struct conversion *conversion) {
    void *blocks = conversion->blocks;
    const bool grown =
        convert_grow(conversion, &blocks, &conversion->block_room, conversion->block_count, sizeof *conversion->blocks);
    conversion->blocks = blocks;
    if (grown) conversion->blocks[conversion->block_count++] = (struct convert_block){0};
    return grown;
}

bool convert_block_of(struct conversion *conversion, struct csv *csv, int column, uint32_t *block, bool *added) {
    uint64_t id;
    if (!csv_number(csv, column, UINT64_MAX, &id)) return false;
    *block = ids_find(&conversion->block_ids, id);
    *added = *block == IDS_NONE;
    if (!*added) return true;
    *block = (uint32_t)conversion->block_count;
    if (!convert_add_block(conversion)) return false;
    return ids_put(&conversion->block_ids, id, *block) || convert_fail(conversion, NO_MEMORY);
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

bool convert_push(struct conversion *conversion, struct steps *steps, struct step step) {
    void *all = steps->all;
    const bool grown = convert_grow(conversion, &all, &steps->room, steps->count, sizeof *steps->all);
    steps->all = all;
    if (grown) steps->all[steps->count++] = step;
    return grown;
}

bool convert_push_hidden(struct conversion *conversion, uint32_t stream) {
    const uint32_t block = (uint32_t)conversion->block_count; /* one more than the table's */
    if (conversion->hidden_bytes == 0) return true;
    if (!convert_add_block(conversion)) return false;
    conversion->blocks[block] = (struct convert_block){.bytes = conversion->hidden_bytes, .stream = stream};
    return convert_push(conversion, &conversion->steps,
                        (struct step){.kind = STEP_LIVE, .block = block, .stream = stream});
}

bool convert_push_work(struct conversion *conversion, uint32_t stream, uint64_t ns) {
    while (ns > 0) {
        const uint64_t piece = ns < TRACE_MOST_NS ? ns : TRACE_MOST_NS;
        const struct step step = {.kind = STEP_WORK, .stream = stream, .value = piece};
        if (!convert_push(conversion, &conversion->steps, step)) return false;
        conversion->work_ns += piece;
        ns -= piece;
    }
    return true;
}

bool convert_count_row(struct conversion *conversion, struct csv *csv, uint64_t count) {
    conversion->row_count++;
    if (count < CONVERT_MOST_ROWS) return true;
    return csv_complain(csv, CSV_NO_COLUMN, "the table has more than %" PRIu64 " rows", CONVERT_MOST_ROWS);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void put_memory(const struct conversion *conversion, const struct step *step, struct trace_writer *writer) {
    const struct convert_block *block = &conversion->blocks[step->block];
    const uint64_t stream = conversion->stream_ids[step->stream];
    if (step->kind == STEP_LIVE)
        trace_put_live(writer, step->block, block->bytes, stream);
    else if (step->kind == STEP_ALLOC)
        trace_put_alloc(writer, step->block, block->bytes, stream);
    else if (block->stream == step->stream)
        trace_put_free(writer, step->block);
    else
        trace_put_free_on(writer, step->block, stream);
}

/* An event a stream that is waited for, recorded where it is waited for. */
static void put_wait(const struct conversion *conversion, const struct step *step, struct trace_writer *writer) {
    const uint64_t other = conversion->stream_ids[step->other];
    trace_put_record(writer, other, other);
    trace_put_wait(writer, other, conversion->stream_ids[step->stream]);
}

static void put_step(const struct conversion *conversion, const struct step *step, struct trace_writer *writer) {
    switch ((enum step_kind)step->kind) {
    case STEP_LIVE:
    case STEP_ALLOC:
    case STEP_FREE:
        put_memory(conversion, step, writer);
        break;
    case STEP_WORK:
        trace_put_work(writer, conversion->stream_ids[step->stream], (double)step->value / 1000);
        break;
    case STEP_WAIT:
        put_wait(conversion, step, writer);
        break;
    case STEP_SYNC_STREAM:
        trace_put_sync_stream(writer, conversion->stream_ids[step->stream]);
        break;
    case STEP_SYNC_DEVICE:
        trace_put_sync_device(writer);
        break;
    case STEP_ITERATION:
        trace_put_iteration(writer);
        break;
    case STEP_RESERVE:
        trace_put_comment(writer, "reserve %c%" PRIu64, step->grew ? '+' : '-', step->value);
        break;
    }
}

/* Only the last part of a path, and nothing that would end the line. */
static void put_origin(const char *path, struct trace_writer *writer) {
    const char *slash = strrchr(path, '/');
    char name[100];
    snprintf(name, sizeof name, "%s", slash != NULL ? slash + 1 : path);
    for (char *at = name; *at != '\0'; at++)
        if ((unsigned char)*at < ' ') *at = '?';
    trace_put_comment(writer, "converted from %s", name);
}

void convert_put(const struct conversion *conversion, struct trace_writer *writer) {
    for (int form = 0; form < FORM_COUNT; form++)
        if (conversion->name[form] != NULL) put_origin(conversion->name[form], writer);
    for (size_t i = 0; i < conversion->stream_count; i++)
        if (conversion->stream_names[i][0] != '\0')
            trace_put_stream_name(writer, conversion->stream_ids[i], conversion->stream_names[i]);
    for (size_t i = 0; i < conversion->steps.count; i++) put_step(conversion, &conversion->steps.all[i], writer);
    trace_put_comment(writer, "peak live %" PRIu64, conversion->peak_live_bytes);
    if (conversion->has_reserve)
        trace_put_comment(writer, "reserve grew by up to %" PRId64, conversion->peak_reserve_growth);
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

void convert_free(struct conversion *conversion) {
    ids_free(&conversion->block_ids);
    ids_free(&conversion->stream_numbers);
    ids_free(&conversion->thread_numbers);
    free(conversion->blocks);
    free(conversion->rows.all);
    free(conversion->launches);
    free(conversion->calls);
    free(conversion->lifetimes);
    free(conversion->steps.all);
    memset(conversion, 0, sizeof *conversion);
}
