/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <stdlib.h>

#include "tools/options/plain.h"

static bool is_word(struct words word, const char *text) {
    const size_t length = (size_t)(word.end - word.at);
    return length == strlen(text) && memcmp(word.at, text, length) == 0;
}

/* Of a comment: no complaint. */
static bool to_number(struct words word, uint64_t *number) {
    uint64_t value = 0;
    for (const char *at = word.at; at < word.end; at++) {
        const uint64_t digit = (uint64_t)(unsigned char)*at - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *number = value;
    return word.at < word.end;
}

static void copy_text(char *to, size_t room, const char *from, size_t length) {
    if (length >= room) length = room - 1;
    for (size_t i = 0; i < length; i++) to[i] = (unsigned char)from[i] < ' ' ? ' ' : from[i];
    to[length] = 0;
    plain(to);
}

/* # stream N NAME */
static bool read_name(struct reader *reader, struct words *words) {
    struct trace *trace = reader->trace;
    uint64_t id;
    uint32_t stream;
    if (!to_number(next_word(words), &id)) return true;
    while (words->at < words->end && is_blank(*words->at)) words->at++;
    if (words->at == words->end) return true;
    if (ids_find(&reader->streams, id) == IDS_NONE && trace->stream_count == TRACE_MOST_STREAMS) return true;
    if (!reader_find_stream(reader, id, &stream)) return false;
    copy_text(trace->stream_names[stream], sizeof *trace->stream_names, words->at, (size_t)(words->end - words->at));
    return true;
}

/* # at ID OFFSET */
static bool read_offset(struct reader *reader, struct words *words) {
    struct trace *trace = reader->trace;
    uint64_t id, offset;
    if (!to_number(next_word(words), &id) || !to_number(next_word(words), &offset)) return true;
    const uint32_t block = ids_find(&reader->blocks, id);
    if (block == IDS_NONE || offset == UINT64_MAX) return true;
    const size_t known = reader->offset_room;
    while (reader->offset_room <= block)
        if (!reader_grow(reader, &trace->offsets, &reader->offset_room, reader->offset_room, sizeof *trace->offsets))
            return false;
    for (size_t i = known; i < reader->offset_room; i++) trace->offsets[i] = UINT64_MAX;
    trace->offset_count += trace->offsets[block] == UINT64_MAX;
    trace->offsets[block] = offset;
    return true;
}

/* # refused BYTES STREAM */
static bool read_refused(struct reader *reader, struct words *words) {
    uint64_t bytes, stream;
    if (!to_number(next_word(words), &bytes) || !to_number(next_word(words), &stream)) return true;
    const struct words rest = next_word(words);
    return rest.at < rest.end || reader_refused(reader, bytes, stream);
}

/* # recorded KEY=VALUE ... */
static void read_origin(struct reader *reader, struct words *words) {
    struct trace_origin *origin = &reader->trace->origin;
    for (struct words word = next_word(words); word.at < word.end; word = next_word(words)) {
        const char *equals = memchr(word.at, '=', (size_t)(word.end - word.at));
        if (equals == NULL) continue;
        const struct words key = {word.at, equals}, value = {equals + 1, word.end};
        const size_t length = (size_t)(value.end - value.at);
        if (is_word(key, "policy")) copy_text(origin->policy, sizeof origin->policy, value.at, length);
        if (is_word(key, "profile")) copy_text(origin->profile, sizeof origin->profile, value.at, length);
        if (is_word(key, "limit")) to_number(value, &origin->limit_bytes);
        if (is_word(key, "granularity")) to_number(value, &origin->granularity_bytes);
        if (is_word(key, "deterministic")) origin->deterministic = is_word(value, "on");
    }
}

bool read_comment(struct reader *reader, struct words *words) {
    const struct words first = next_word(words);
    if (is_word(first, "at")) return read_offset(reader, words);
    if (is_word(first, "stream")) return read_name(reader, words);
    if (is_word(first, "refused")) return read_refused(reader, words);
    if (is_word(first, "recorded")) read_origin(reader, words);
    return true;
}

bool finish_offsets(struct reader *reader) {
    struct trace *trace = reader->trace;
    const size_t known = reader->offset_room;
    if (trace->offsets == NULL || known >= trace->block_count) return true;
    uint64_t *offsets = realloc(trace->offsets, trace->block_count * sizeof *offsets);
    if (offsets == NULL) return reader_complain(reader, "no host memory for a trace of this length");
    for (size_t i = known; i < trace->block_count; i++) offsets[i] = UINT64_MAX;
    trace->offsets = offsets;
    return true;
}
