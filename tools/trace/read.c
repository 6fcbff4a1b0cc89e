/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_LINE 256
#define MOST_FIELDS  4
#define NONE         UINT32_MAX

/* A table from an id of the file to its dense number. */
struct ids {
    struct id_entry {
        uint64_t id;
        uint32_t number;
        bool used;
    } * entries;
    size_t room, count;
};

/* What must be known of a block or a stream to accept the next line about it. */
struct block_state {
    size_t bytes;
    uint32_t stream;
    bool live;
};

struct reader {
    struct trace *trace;
    const char *path;
    uint32_t line;
    char *why;
    size_t why_room, op_room, block_room;
    struct ids blocks, streams, events;
    struct block_state *states; /* by block */
    size_t live_bytes, requested_bytes;
};

static bool complain(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool complain(struct reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(reader->why, reader->why_room, "%s: line %" PRIu32 ": ", reader->path, reader->line);
    if (length > 0 && (size_t)length < reader->why_room)
        vsnprintf(reader->why + length, reader->why_room - (size_t)length, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- ids -------------------------------------------------------------------------------------------------------- */

static struct id_entry *find_id(const struct ids *ids, uint64_t id) {
    size_t at = (size_t)((id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (ids->room - 1);
    while (ids->entries[at].used && ids->entries[at].id != id) at = (at + 1) & (ids->room - 1);
    return &ids->entries[at];
}

static bool reserve_id(struct ids *ids) {
    if ((ids->count + 1) * 2 <= ids->room) return true;
    struct ids larger = {.room = ids->room == 0 ? 64 : ids->room * 2, .count = ids->count};
    larger.entries = calloc(larger.room, sizeof *larger.entries);
    if (larger.entries == NULL) return false;
    for (size_t i = 0; i < ids->room; i++)
        if (ids->entries[i].used) *find_id(&larger, ids->entries[i].id) = ids->entries[i];
    free(ids->entries);
    *ids = larger;
    return true;
}

static uint32_t number_of(const struct ids *ids, uint64_t id) {
    if (ids->room == 0) return NONE;
    const struct id_entry *entry = find_id(ids, id);
    return entry->used ? entry->number : NONE;
}

static bool add_id(struct reader *reader, struct ids *ids, uint64_t id, uint32_t number) {
    if (!reserve_id(ids)) return complain(reader, "no host memory for %zu ids", ids->count + 1);
    struct id_entry *entry = find_id(ids, id);
    if (!entry->used) ids->count++;
    *entry = (struct id_entry){.id = id, .number = number, .used = true};
    return true;
}

static bool grow(struct reader *reader, void **array, size_t *room, size_t count, size_t size) {
    if (count < *room) return true;
    size_t larger = *room == 0 ? 1024 : *room * 2;
    void *moved = realloc(*array, larger * size);
    if (moved == NULL) return complain(reader, "no host memory for a trace of this length");
    *array = moved;
    *room = larger;
    return true;
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

static bool add_op(struct reader *reader, struct op op) {
    struct trace *trace = reader->trace;
    void *ops = trace->ops;
    bool grown = grow(reader, &ops, &reader->op_room, trace->op_count, sizeof *trace->ops);
    trace->ops = ops;
    if (!grown) return false;
    op.line = reader->line;
    trace->ops[trace->op_count++] = op;
    return true;
}

/* The dense number of a stream, a new one at first sight. */
static bool stream_of(struct reader *reader, uint64_t id, uint32_t *stream) {
    struct trace *trace = reader->trace;
    *stream = number_of(&reader->streams, id);
    if (*stream != NONE) return true;
    if (trace->stream_count == TRACE_MOST_STREAMS)
        return complain(reader, "stream %" PRIu64 " is the %dth one, the limit is %d", id, TRACE_MOST_STREAMS + 1,
                        TRACE_MOST_STREAMS);
    void *names = realloc(trace->stream_names, (trace->stream_count + 1) * sizeof *trace->stream_names);
    if (names == NULL) return complain(reader, "no host memory for stream %" PRIu64, id);
    trace->stream_names = names;
    trace->stream_names[trace->stream_count][0] = 0;
    void *stream_ids = realloc(trace->stream_ids, (trace->stream_count + 1) * sizeof *trace->stream_ids);
    if (stream_ids == NULL) return complain(reader, "no host memory for stream %" PRIu64, id);
    trace->stream_ids = stream_ids;
    trace->stream_ids[trace->stream_count] = id;
    *stream = trace->stream_count++;
    return add_id(reader, &reader->streams, id, *stream);
}

static bool event_of(struct reader *reader, uint64_t id, uint32_t *event) {
    *event = number_of(&reader->events, id);
    return *event != NONE || complain(reader, "event %" PRIu64 " was never recorded", id);
}

static bool live_block(struct reader *reader, uint64_t id, uint32_t *block) {
    *block = number_of(&reader->blocks, id);
    if (*block == NONE) return complain(reader, "block %" PRIu64 " was never allocated", id);
    return reader->states[*block].live || complain(reader, "block %" PRIu64 " was freed before", id);
}

static void raise_to(size_t *peak, size_t value) {
    if (value > *peak) *peak = value;
}

static size_t rounded(size_t bytes) { return (bytes + 511) & ~(size_t)511; }

static bool read_alloc(struct reader *reader, const uint64_t *field, enum op_kind kind) {
    struct trace *trace = reader->trace;
    struct op op = {.kind = kind, .block = trace->block_count, .bytes = field[1]};
    if (number_of(&reader->blocks, field[0]) != NONE)
        return complain(reader, "block id %" PRIu64 " is used a second time", field[0]);
    if (field[1] > TRACE_MOST_BYTES || rounded(field[1]) > TRACE_MOST_BYTES - reader->live_bytes)
        return complain(reader, "%" PRIu64 " bytes beside %zu live ones are more than the limit of 2^50", field[1],
                        reader->live_bytes);
    if (!stream_of(reader, field[2], &op.stream) || !add_id(reader, &reader->blocks, field[0], op.block)) return false;
    void *states = reader->states;
    bool grown = grow(reader, &states, &reader->block_room, op.block, sizeof *reader->states);
    reader->states = states;
    if (!grown) return false;
    reader->states[op.block] = (struct block_state){.bytes = op.bytes, .stream = op.stream, .live = true};
    trace->block_count++;
    reader->requested_bytes += op.bytes;
    reader->live_bytes += rounded(op.bytes);
    raise_to(&trace->peak_live_bytes, reader->requested_bytes);
    raise_to(&trace->peak_rounded_bytes, reader->live_bytes);
    return add_op(reader, op);
}

static bool add_free(struct reader *reader, struct op op) {
    struct block_state *state = &reader->states[op.block];
    state->live = false;
    op.bytes = state->bytes;
    reader->requested_bytes -= state->bytes;
    reader->live_bytes -= rounded(state->bytes);
    return add_op(reader, op);
}

static bool read_number(const char *text, uint64_t *number) {
    if (*text < '0' || *text > '9') return false;
    char *end = NULL;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *end == 0;
}

static bool read_free(struct reader *reader, char *const *word, int words) {
    struct op op = {.kind = OP_FREE};
    uint64_t id;
    if (words < 2 || words > 3) return complain(reader, "f takes a block and at most one of a stream, * and @event");
    if (!read_number(word[1], &id)) return complain(reader, "'%s' is no block id", word[1]);
    if (!live_block(reader, id, &op.block)) return false;
    op.stream = reader->states[op.block].stream;
    if (words == 2) return add_free(reader, op);
    if (strcmp(word[2], "*") == 0) {
        op.kind = OP_FREE_ANY;
    } else if (word[2][0] == '@') {
        op.kind = OP_FREE_AFTER;
        if (!read_number(word[2] + 1, &id)) return complain(reader, "'%s' is no event id", word[2] + 1);
        if (!event_of(reader, id, &op.event)) return false;
    } else {
        if (!read_number(word[2], &id)) return complain(reader, "'%s' is no stream", word[2]);
        if (!stream_of(reader, id, &op.stream)) return false;
    }
    return add_free(reader, op);
}

static bool read_note(struct reader *reader, const uint64_t *field) {
    struct op op = {.kind = OP_NOTE};
    return live_block(reader, field[0], &op.block) && stream_of(reader, field[1], &op.stream) && add_op(reader, op);
}

static bool read_record(struct reader *reader, const uint64_t *field) {
    struct op op = {.kind = OP_RECORD};
    if (!stream_of(reader, field[1], &op.stream)) return false;
    op.event = number_of(&reader->events, field[0]);
    if (op.event == NONE) {
        op.event = reader->trace->event_count++;
        if (!add_id(reader, &reader->events, field[0], op.event)) return false;
    }
    return add_op(reader, op);
}

static bool read_wait(struct reader *reader, const uint64_t *field) {
    struct op op = {.kind = OP_WAIT};
    return event_of(reader, field[0], &op.event) && stream_of(reader, field[1], &op.stream) && add_op(reader, op);
}

static bool read_stream(struct reader *reader, uint64_t id, enum op_kind kind) {
    struct op op = {.kind = kind};
    return stream_of(reader, id, &op.stream) && add_op(reader, op);
}

static bool read_event(struct reader *reader, uint64_t id, enum op_kind kind) {
    struct op op = {.kind = kind};
    return event_of(reader, id, &op.event) && add_op(reader, op);
}

static bool read_work(struct reader *reader, char *const *word, int words) {
    uint64_t stream;
    struct op op = {.kind = OP_WORK};
    if (words != 3 || !read_number(word[1], &stream)) return complain(reader, "k takes a stream and microseconds");
    const char *us = word[2];
    size_t digits = strspn(us, "0123456789");
    if (us[digits] == '.') digits += 1 + strspn(us + digits + 1, "0123456789");
    if (digits == 0 || us[digits] != 0) return complain(reader, "'%s' is no time in microseconds", us);
    double ns = 0;
    for (const char *at = us; *at >= '0' && *at <= '9'; at++) ns = ns * 10 + (*at - '0');
    ns *= 1000;
    const char *point = strchr(us, '.');
    double place = 100;
    for (const char *at = point != NULL ? point + 1 : ""; *at != 0; at++, place /= 10) ns += (*at - '0') * place;
    if (ns > (double)TRACE_MOST_NS) return complain(reader, "%s microseconds are more than the limit of 10^12", us);
    op.ns = (uint64_t)(ns + 0.5);
    reader->trace->has_work = true;
    return stream_of(reader, stream, &op.stream) && add_op(reader, op);
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* Fields of the operations that are plain numbers. */
static int plain_fields(char letter) {
    switch (letter) {
    case 'm':
    case 'p':
        return 3;
    case 'u':
    case 'e':
    case 'w':
        return 2;
    case 'h':
    case 's':
    case 'x':
    case 'y':
        return 1;
    case 'd':
    case 'i':
        return 0;
    default:
        return -1;
    }
}

static bool read_plain(struct reader *reader, char letter, const uint64_t *field) {
    switch (letter) {
    case 'm':
        return read_alloc(reader, field, OP_ALLOC);
    case 'p':
        return read_alloc(reader, field, OP_LIVE);
    case 'u':
        return read_note(reader, field);
    case 'e':
        return read_record(reader, field);
    case 'w':
        return read_wait(reader, field);
    case 'h':
        return read_event(reader, field[0], OP_HOST_WAIT);
    case 's':
        return read_stream(reader, field[0], OP_SYNC_STREAM);
    case 'x':
        return read_stream(reader, field[0], OP_DESTROY_STREAM);
    case 'y':
        return read_event(reader, field[0], OP_DESTROY_EVENT);
    case 'd':
        return add_op(reader, (struct op){.kind = OP_SYNC_DEVICE});
    default:
        reader->trace->iteration_count++;
        return add_op(reader, (struct op){.kind = OP_ITERATION});
    }
}

static bool read_operation(struct reader *reader, char *const *word, int words) {
    uint64_t field[MOST_FIELDS] = {0};
    if (word[0][1] != 0) return complain(reader, "'%s' is no operation", word[0]);
    if (word[0][0] == 'f') return read_free(reader, word, words);
    if (word[0][0] == 'k') return read_work(reader, word, words);
    int expected = plain_fields(word[0][0]);
    if (expected < 0) return complain(reader, "'%s' is no operation", word[0]);
    if (words != expected + 1)
        return complain(reader, "%s takes %d numbers, there are %d", word[0], expected, words - 1);
    for (int i = 0; i < expected; i++)
        if (!read_number(word[i + 1], &field[i])) return complain(reader, "'%s' is no number", word[i + 1]);
    return read_plain(reader, word[0][0], field);
}

/* "# stream N NAME" names a stream; every other comment says nothing. */
static bool read_comment(struct reader *reader, const char *text) {
    unsigned long long id;
    int name_at = 0;
    uint32_t stream;
    if (sscanf(text, "# stream %llu %n", &id, &name_at) < 1 || name_at == 0) return true;
    if (!stream_of(reader, id, &stream)) return false;
    char *name = reader->trace->stream_names[stream];
    snprintf(name, sizeof reader->trace->stream_names[0], "%s", text + name_at);
    return true;
}

static bool read_line(struct reader *reader, char *text) {
    char *word[MOST_FIELDS + 1], *rest = NULL;
    int words = 0;
    if (reader->line == 1)
        return strcmp(text, "weir-trace 1") == 0 || complain(reader, "'%.40s' is not 'weir-trace 1'", text);
    if (text[0] == '#') return read_comment(reader, text);
    for (char *at = strtok_r(text, " \t", &rest); at != NULL && words <= MOST_FIELDS; at = strtok_r(NULL, " \t", &rest))
        word[words++] = at;
    return words == 0 || read_operation(reader, word, words);
}

/* Gives a line without its end; a comment may be longer than the room, and is cut. */
static bool next_line(struct reader *reader, FILE *file, char text[static LONGEST_LINE], bool *end) {
    *end = fgets(text, LONGEST_LINE, file) == NULL;
    if (*end) return true;
    if (reader->line == UINT32_MAX) return complain(reader, "the limit of lines is reached");
    reader->line++;
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n') {
        text[length - 1] = 0;
        if (length > 1 && text[length - 2] == '\r') text[length - 2] = 0;
        return true;
    }
    if (length < LONGEST_LINE - 1 && !feof(file)) return complain(reader, "the line holds a zero byte");
    if (feof(file)) return true;
    if (text[0] != '#') return complain(reader, "the line is longer than %d characters", LONGEST_LINE - 2);
    for (int c = 0; c != EOF && c != '\n';) c = fgetc(file);
    return true;
}

static bool read_lines(struct reader *reader, FILE *file) {
    char text[LONGEST_LINE];
    for (bool end = false;;) {
        if (!next_line(reader, file, text, &end)) return false;
        if (end) break;
        if (!read_line(reader, text)) return false;
    }
    if (ferror(file)) return complain(reader, "%s", strerror(errno));
    return reader->line > 0 || complain(reader, "the file is empty");
}

bool trace_read(const char *path, struct trace *trace, char *why, size_t room) {
    struct reader reader = {.trace = trace, .path = path, .why = why, .why_room = room};
    *trace = (struct trace){0};
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(why, room, "%s: %s", path, strerror(errno));
        return false;
    }
    bool read = read_lines(&reader, file);
    fclose(file);
    free(reader.blocks.entries);
    free(reader.streams.entries);
    free(reader.events.entries);
    free(reader.states);
    if (!read) trace_free(trace);
    return read;
}

void trace_free(struct trace *trace) {
    free(trace->ops);
    free(trace->stream_names);
    free(trace->stream_ids);
    free(trace->offsets);
    *trace = (struct trace){0};
}
