/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool reader_complain(struct reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(reader->why, reader->why_room, "%s: line %" PRIu32 " (byte %" PRIu64 "): ", reader->path,
                          reader->line.number, reader->line.offset);
    if (length > 0 && (size_t)length < reader->why_room)
        vsnprintf(reader->why + length, reader->why_room - (size_t)length, format, arguments);
    va_end(arguments);
    return false;
}

bool reader_grow(struct reader *reader, void *array, size_t *room, size_t count, size_t size) {
    if (count < *room) return true;
    void *old;
    memcpy(&old, array, sizeof old);
    const size_t larger = *room == 0 ? 64 : *room * 2;
    void *moved = realloc(old, larger * size);
    if (moved == NULL) return reader_complain(reader, "no host memory for a trace of this length");
    memcpy(array, &moved, sizeof moved);
    *room = larger;
    return true;
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

static bool add_op(struct reader *reader, struct op op) {
    struct trace *trace = reader->trace;
    if (trace->op_count == TRACE_MOST_OPS)
        return reader_complain(reader, "more operations than the limit of %" PRIu32, TRACE_MOST_OPS);
    if (!reader_grow(reader, &trace->ops, &reader->op_room, trace->op_count, sizeof *trace->ops)) return false;
    op.line = reader->line.number;
    trace->ops[trace->op_count++] = op;
    return true;
}

static bool put_id(struct reader *reader, struct ids *ids, uint64_t id, uint32_t number) {
    return ids_put(ids, id, number) || reader_complain(reader, "no host memory for a trace of this length");
}

static bool new_stream(struct reader *reader, uint64_t id, uint32_t *stream) {
    struct trace *trace = reader->trace;
    *stream = trace->stream_count;
    if (trace->stream_count == TRACE_MOST_STREAMS)
        return reader_complain(reader, "stream %" PRIu64 " is one more than the limit of %d streams", id,
                               TRACE_MOST_STREAMS);
    if (!reader_grow(reader, &trace->stream_names, &reader->name_room, *stream, sizeof *trace->stream_names) ||
        !reader_grow(reader, &trace->stream_ids, &reader->stream_id_room, *stream, sizeof *trace->stream_ids))
        return false;
    memset(trace->stream_names[*stream], 0, sizeof *trace->stream_names);
    trace->stream_ids[*stream] = id;
    trace->stream_count++;
    return put_id(reader, &reader->streams, id, *stream);
}

bool reader_find_stream(struct reader *reader, uint64_t id, uint32_t *stream) {
    *stream = ids_find(&reader->streams, id);
    return *stream != IDS_NONE || new_stream(reader, id, stream);
}

static bool find_event(struct reader *reader, uint64_t id, uint32_t *event) {
    *event = ids_find(&reader->events, id);
    return *event != IDS_NONE ||
           reader_complain(reader, "event %" PRIu64 " was never recorded, or destroyed since", id);
}

static bool find_live(struct reader *reader, uint64_t id, uint32_t *block) {
    *block = ids_find(&reader->blocks, id);
    if (*block == IDS_NONE) return reader_complain(reader, "block %" PRIu64 " was never allocated", id);
    return reader->states[*block].op != IDS_NONE || reader_complain(reader, "block %" PRIu64 " was freed before", id);
}

static void raise_to(size_t *peak, uint64_t value) {
    if (value > *peak) *peak = value;
}

static uint64_t rounded(uint64_t bytes) { return (bytes + 511) & ~UINT64_C(511); }

static bool read_alloc(struct reader *reader, struct words *words, enum op_kind kind) {
    struct trace *trace = reader->trace;
    uint64_t id, bytes, stream;
    if (!read_next(reader, words, &id) || !read_next(reader, words, &bytes) || !read_next(reader, words, &stream) ||
        !read_no_more(reader, words))
        return false;
    struct op op = {.kind = (uint8_t)kind, .block = trace->block_count, .bytes = bytes};
    if (ids_find(&reader->blocks, id) != IDS_NONE)
        return reader_complain(reader, "block %" PRIu64 " is allocated a second time; each has an id of its own", id);
    if (bytes > TRACE_MOST_BYTES || rounded(bytes) > TRACE_MOST_BYTES - reader->rounded_bytes)
        return reader_complain(reader, "%" PRIu64 " bytes beside %" PRIu64 " live ones are more than the limit of 2^50",
                               bytes, reader->rounded_bytes);
    if (!reader_find_stream(reader, stream, &op.stream) || !put_id(reader, &reader->blocks, id, op.block) ||
        !reader_grow(reader, &reader->states, &reader->block_room, op.block, sizeof *reader->states))
        return false;
    reader->states[op.block] = (struct block_state){bytes, op.stream, (uint32_t)trace->op_count};
    trace->block_count++;
    reader->requested_bytes += bytes;
    reader->rounded_bytes += rounded(bytes);
    raise_to(&trace->peak_live_bytes, reader->requested_bytes);
    raise_to(&trace->peak_rounded_bytes, reader->rounded_bytes);
    return add_op(reader, op);
}

/* It counts towards the peaks as if it had been served and freed at once: a device below them can't serve it. */
bool reader_refused(struct reader *reader, uint64_t bytes, uint64_t stream) {
    struct trace *trace = reader->trace;
    struct op op = {.kind = OP_REFUSED, .block = trace->block_count, .bytes = bytes};
    if (bytes > TRACE_MOST_BYTES || rounded(bytes) > TRACE_MOST_BYTES - reader->rounded_bytes ||
        trace->op_count == TRACE_MOST_OPS ||
        (ids_find(&reader->streams, stream) == IDS_NONE && trace->stream_count == TRACE_MOST_STREAMS))
        return true;
    if (!reader_find_stream(reader, stream, &op.stream) ||
        !reader_grow(reader, &reader->states, &reader->block_room, op.block, sizeof *reader->states))
        return false;
    reader->states[op.block] = (struct block_state){bytes, op.stream, IDS_NONE};
    trace->block_count++;
    trace->refused_count++;
    trace->last_refused = trace->op_count;
    raise_to(&trace->peak_live_bytes, reader->requested_bytes + bytes);
    raise_to(&trace->peak_rounded_bytes, reader->rounded_bytes + rounded(bytes));
    return add_op(reader, op);
}

static bool read_align(struct reader *reader, struct words *words) {
    uint64_t id, align;
    uint32_t block;
    if (!read_next(reader, words, &id) || !read_next(reader, words, &align) || !read_no_more(reader, words))
        return false;
    if (align == 0 || align > TRACE_MOST_ALIGN || (align & (align - 1)) != 0)
        return reader_complain(reader, "an alignment of %" PRIu64 " is no power of two from 1 to 2^30", align);
    if (!find_live(reader, id, &block)) return false;
    reader->trace->ops[reader->states[block].op].align = (uint8_t)__builtin_ctzll(align);
    return true;
}

static bool is_destroyed(const struct reader *reader, uint32_t stream) {
    return ids_find(&reader->streams, reader->trace->stream_ids[stream]) != stream;
}

/* What follows the block of an f. */
static bool read_freed_where(struct reader *reader, struct words word, struct op *op) {
    uint64_t id;
    const char first = word.at == word.end ? 0 : *word.at;
    if (first == '*' && word.end - word.at == 1) {
        op->kind = OP_FREE_ANY;
    } else if (first == '@') {
        op->kind = OP_FREE_AFTER;
        word.at++;
        return read_number(reader, word, &id) && find_event(reader, id, &op->event);
    } else if (first != 0) {
        return read_number(reader, word, &id) && reader_find_stream(reader, id, &op->stream);
    } else if (is_destroyed(reader, op->stream)) {
        op->kind = OP_FREE_ANY;
    }
    return true;
}

static bool read_free(struct reader *reader, struct words *words) {
    struct op op = {.kind = OP_FREE};
    uint64_t id;
    if (!read_next(reader, words, &id)) return false;
    const struct words where = next_word(words);
    if (!read_no_more(reader, words) || !find_live(reader, id, &op.block)) return false;
    struct block_state *state = &reader->states[op.block];
    op.stream = state->stream;
    if (!read_freed_where(reader, where, &op)) return false;
    op.bytes = state->bytes;
    state->op = IDS_NONE;
    reader->requested_bytes -= state->bytes;
    reader->rounded_bytes -= rounded(state->bytes);
    return add_op(reader, op);
}

static bool read_note(struct reader *reader, struct words *words) {
    struct op op = {.kind = OP_NOTE};
    uint64_t block, stream;
    return read_next(reader, words, &block) && read_next(reader, words, &stream) && read_no_more(reader, words) &&
           find_live(reader, block, &op.block) && reader_find_stream(reader, stream, &op.stream) && add_op(reader, op);
}

static bool read_record(struct reader *reader, struct words *words) {
    struct op op = {.kind = OP_RECORD};
    uint64_t event, stream;
    if (!read_next(reader, words, &event) || !read_next(reader, words, &stream) || !read_no_more(reader, words) ||
        !reader_find_stream(reader, stream, &op.stream))
        return false;
    op.event = ids_find(&reader->events, event);
    if (op.event == IDS_NONE) {
        op.event = reader->trace->event_count;
        if (!put_id(reader, &reader->events, event, op.event)) return false;
        reader->trace->event_count++;
    }
    return add_op(reader, op);
}

static bool read_wait(struct reader *reader, struct words *words) {
    struct op op = {.kind = OP_WAIT};
    uint64_t event, stream;
    return read_next(reader, words, &event) && read_next(reader, words, &stream) && read_no_more(reader, words) &&
           find_event(reader, event, &op.event) && reader_find_stream(reader, stream, &op.stream) && add_op(reader, op);
}

/* A stream or an event that is destroyed gives its id up. */
static bool read_of_stream(struct reader *reader, struct words *words, enum op_kind kind) {
    struct op op = {.kind = (uint8_t)kind};
    uint64_t id;
    if (!read_next(reader, words, &id) || !read_no_more(reader, words) || !reader_find_stream(reader, id, &op.stream))
        return false;
    if (kind == OP_DESTROY_STREAM) ids_drop(&reader->streams, id);
    return add_op(reader, op);
}

static bool read_of_event(struct reader *reader, struct words *words, enum op_kind kind) {
    struct op op = {.kind = (uint8_t)kind};
    uint64_t id;
    if (!read_next(reader, words, &id) || !read_no_more(reader, words) || !find_event(reader, id, &op.event))
        return false;
    if (kind == OP_DESTROY_EVENT) ids_drop(&reader->events, id);
    return add_op(reader, op);
}

static bool read_alone(struct reader *reader, struct words *words, enum op_kind kind) {
    if (!read_no_more(reader, words)) return false;
    if (kind == OP_ITERATION) reader->trace->iteration_count++;
    return add_op(reader, (struct op){.kind = (uint8_t)kind});
}

static bool read_work(struct reader *reader, struct words *words) {
    struct op op = {.kind = OP_WORK};
    uint64_t stream;
    if (!read_next(reader, words, &stream)) return false;
    const struct words us = next_word(words);
    if (!read_no_more(reader, words) || !read_us(reader, us, &op.ns)) return false;
    reader->trace->has_work = true;
    return reader_find_stream(reader, stream, &op.stream) && add_op(reader, op);
}

static bool read_operation(struct reader *reader, char letter, struct words *words) {
    switch (letter) {
    case 'm':
        return read_alloc(reader, words, OP_ALLOC);
    case 'p':
        return read_alloc(reader, words, OP_LIVE);
    case 'a':
        return read_align(reader, words);
    case 'f':
        return read_free(reader, words);
    case 'u':
        return read_note(reader, words);
    case 'k':
        return read_work(reader, words);
    case 'e':
        return read_record(reader, words);
    case 'w':
        return read_wait(reader, words);
    case 's':
        return read_of_stream(reader, words, OP_SYNC_STREAM);
    case 'x':
        return read_of_stream(reader, words, OP_DESTROY_STREAM);
    case 'h':
        return read_of_event(reader, words, OP_HOST_WAIT);
    case 'y':
        return read_of_event(reader, words, OP_DESTROY_EVENT);
    case 'd':
        return read_alone(reader, words, OP_SYNC_DEVICE);
    case 'i':
        return read_alone(reader, words, OP_ITERATION);
    default:
        return MALFORMED(reader, "'%s' is no operation", shown(reader->line.text, reader->line.length).text);
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* No text can be more than the first line: what is no trace may have no line feed for long. */
static bool read_header(struct reader *reader) {
    static const char format[] = "weir-trace 1";
    const size_t length = sizeof format - 1, name = length - 1;
    struct line *line = &reader->line;
    if (!lines_next(&reader->lines, line)) {
        const char *failure = lines_failure(&reader->lines);
        return reader_complain(reader, "%s", failure != NULL ? failure : "the file is empty");
    }
    const struct shown text = shown(line->text, line->length);
    const size_t same = line->length < length ? line->length : length;
    if (line->length == 0 && line->ending == LINE_ZEROS)
        return reader_complain(reader, "it begins with a zero byte, so this is no trace");
    if (line->ending == LINE_CUT && memcmp(line->text, format, same) == 0 && line->length <= length)
        return reader_complain(reader, "the file ends in the middle of the line");
    if (line->ending != LINE_WHOLE || line->length < length || memcmp(line->text, format, name) != 0)
        return reader_complain(
            reader, "'%s' is not 'weir-trace 1', so this is no trace: of other logs weir-trace convert makes one",
            text.text);
    if (line->length == length && memcmp(line->text, format, length) == 0) return true;
    return reader_complain(reader, "version '%s' of the format is not known; 1 is", text.text + name);
}

static bool read_line(struct reader *reader) {
    struct words words = {reader->line.text, reader->line.text + reader->line.length};
    if (words.at == words.end) return true;
    const char letter = *words.at++;
    if (letter == '#') return read_comment(reader, &words);
    if (words.at < words.end && !is_blank(*words.at)) return read_operation(reader, 0, &words);
    return read_operation(reader, letter, &words);
}

/* A line that begins with zero bytes is one that a killed recording has not finished, or a whole one behind such. */
static bool read_after_zeros(struct reader *reader, bool *pending) {
    bool read = reader->line.length > 0 && read_line(reader);
    if (!read && (reader->line.length == 0 || reader->malformed)) {
        reader->trace->torn_lines += !*pending;
        reader->malformed = false;
        read = true;
    }
    *pending = false;
    return read;
}

/* A piece that zero bytes end: part of an unfinished line, if it begins with them, or if nothing stands behind them. */
static bool read_cut_piece(struct reader *reader, bool *pending) {
    if (reader->line.ending == LINE_ZEROS && !reader->line.after_zeros && !lines_only_zeros_left(&reader->lines)) {
        const char *failure = lines_failure(&reader->lines);
        return reader_complain(reader, "%s", failure != NULL ? failure : "there are zero bytes inside the line");
    }
    reader->trace->torn_lines += !*pending;
    *pending = true;
    return true;
}

static bool read_piece(struct reader *reader, bool *pending) {
    const struct line *line = &reader->line;
    switch (line->ending) {
    case LINE_TOO_LONG:
        return reader_complain(reader, "the line is longer than the limit of %d bytes", LONGEST_LINE);
    case LINE_ZEROS:
        return read_cut_piece(reader, pending);
    case LINE_CUT:
        return line->after_zeros ? read_cut_piece(reader, pending)
                                 : reader_complain(reader, "the file ends in the middle of the line");
    default:
        return line->after_zeros ? read_after_zeros(reader, pending) : read_line(reader);
    }
}

static bool read_lines(struct reader *reader) {
    bool pending = false; /* the line has begun with a cut piece, which is counted as torn */
    if (!read_header(reader)) return false;
    while (lines_next(&reader->lines, &reader->line))
        if (!read_piece(reader, &pending)) return false;
    const char *failure = lines_failure(&reader->lines);
    return failure == NULL || reader_complain(reader, "%s", failure);
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

bool trace_read_input(struct input *input, const char *path, struct trace *trace, char *why, size_t room) {
    struct reader reader = {.trace = trace, .path = path, .why = why, .why_room = room};
    *trace = (struct trace){0};
    bool read = lines_open(&reader.lines, input) || reader_complain(&reader, "no host memory to read it");
    read = read && read_lines(&reader) && finish_offsets(&reader);
    lines_close(&reader.lines);
    ids_free(&reader.blocks);
    ids_free(&reader.streams);
    ids_free(&reader.events);
    free(reader.states);
    if (!read) trace_free(trace);
    return read;
}

bool trace_read(const char *path, struct trace *trace, char *why, size_t room) {
    *trace = (struct trace){0};
    struct input *input = input_open(path, why, room);
    if (input == NULL) return false;
    const bool read = trace_read_input(input, strcmp(path, "-") == 0 ? "standard input" : path, trace, why, room);
    input_close(input);
    return read;
}

void trace_free(struct trace *trace) {
    free(trace->ops);
    free(trace->stream_names);
    free(trace->stream_ids);
    free(trace->offsets);
    *trace = (struct trace){0};
}
