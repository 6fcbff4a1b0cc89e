/* SPDX-License-Identifier: Apache-2.0 */
/* A PyTorch memory snapshot: what each device's allocator did, as far back as the recording goes (device_traces), and what
 * it holds now (segments, with their blocks). A snapshot without a history is of what is live: all of it was before.
 *
 * Whatever may be missing in an older one is made up for: a block's address by adding up, what was requested by the block's
 * size, a time by 0, a stream or a device by 0. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "convert.h"
#include "pickle_read.h"

#define MOST_BYTES (UINT64_C(1) << 30)     /* of host memory, for what is kept of the pickle */
#define MOST_ITEMS (4 * CONVERT_MOST_ROWS) /* looked at: lists may be shared, so that they are longer than the file */

#define WORDS(X)                                                                                                       \
    X(SEGMENTS, "segments")                                                                                            \
    X(TRACES, "device_traces")                                                                                         \
    X(OVERFLOWED, "trace_alloc_overflowed")                                                                            \
    X(BLOCKS, "blocks")                                                                                                \
    X(DEVICE, "device")                                                                                                \
    X(ADDRESS, "address")                                                                                              \
    X(ADDR, "addr")                                                                                                    \
    X(TOTAL_SIZE, "total_size")                                                                                        \
    X(STREAM, "stream")                                                                                                \
    X(SIZE, "size")                                                                                                    \
    X(REQUESTED_SIZE, "requested_size")                                                                                \
    X(STATE, "state")                                                                                                  \
    X(ALLOCATED, "active_allocated")                                                                                   \
    X(PENDING, "active_pending_free")                                                                                  \
    X(AWAITING, "active_awaiting_free")                                                                                \
    X(INACTIVE, "inactive")                                                                                            \
    X(ACTION, "action")                                                                                                \
    X(TIME_US, "time_us")                                                                                              \
    X(ALLOC, "alloc")                                                                                                  \
    X(FREE_REQUESTED, "free_requested")                                                                                \
    X(FREE_COMPLETED, "free_completed")                                                                                \
    X(SEGMENT_ALLOC, "segment_alloc")                                                                                  \
    X(SEGMENT_MAP, "segment_map")                                                                                      \
    X(SEGMENT_FREE, "segment_free")                                                                                    \
    X(SEGMENT_UNMAP, "segment_unmap")

#define ENUMERATE(name, text) name,
#define TEXT(name, text)      text,
enum word { WORDS(ENUMERATE) WORD_COUNT };
static const char *const words[] = {WORDS(TEXT)};

/* What an entry of a trace does; of all others, as oom and snapshot, there is nothing to convert. */
static const struct {
    enum word word;
    enum event_kind kind;
} actions[] = {{ALLOC, EVENT_ALLOC},         {FREE_REQUESTED, EVENT_FREE}, {FREE_COMPLETED, EVENT_FREE_COMPLETED},
               {SEGMENT_ALLOC, EVENT_GREW},  {SEGMENT_MAP, EVENT_GREW},    {SEGMENT_FREE, EVENT_SHRANK},
               {SEGMENT_UNMAP, EVENT_SHRANK}};
enum { ACTION_COUNT = sizeof actions / sizeof *actions };

struct snapshot {
    struct conversion *conversion;
    const char *name;
    const struct pickle *pickle;
    struct pickle_value segments, traces;
    struct events events;
    uint64_t counts[CONVERT_MOST_DEVICES];
    uint64_t entry_count;    /* of the events, those of the trace */
    uint64_t idle_count;     /* those of what is idle at the end */
    uint64_t reserved_bytes; /* of the device's segments, at most 2^50 */
    uint64_t looked_at;
};

/* Which dictionary of which list a sentence is about. */
struct where {
    const char *what;
    size_t number; /* from 1 */
    struct pickle_value list, dict;
};

static bool complain(const struct snapshot *snapshot, const struct where *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool complain(const struct snapshot *snapshot, const struct where *where, const char *format, ...) {
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const bool begins = pickle_is_container(where->dict); /* of the others where they stand is not kept */
    return convert_fail(snapshot->conversion, "%s: %s %zu (%s %" PRIu64 "): %s", snapshot->name, where->what,
                        where->number, begins ? "byte" : "of the list at byte",
                        pickle_offset(snapshot->pickle, begins ? where->dict : where->list), what);
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static struct pickle_value get(const struct snapshot *snapshot, const struct where *where, enum word key) {
    return pickle_get(snapshot->pickle, where->dict, key);
}

/* *number stays where there is no such key. */
static bool read_number(const struct snapshot *snapshot, const struct where *where, enum word key, uint64_t most,
                        uint64_t *number) {
    const struct pickle_value value = get(snapshot, where, key);
    const enum pickle_kind kind = pickle_kind(value);
    if (kind == PICKLE_ABSENT) return true;
    if (kind == PICKLE_WIDE) return complain(snapshot, where, "%s is no integer of at most 59 bits", words[key]);
    if (kind != PICKLE_NUMBER) return complain(snapshot, where, "%s is no integer", words[key]);
    if (pickle_number(value) < 0)
        return complain(snapshot, where, "%s is %" PRId64 ": negative", words[key], pickle_number(value));
    if ((uint64_t)pickle_number(value) > most)
        return complain(snapshot, where, "%s is %" PRId64 ", the limit is %" PRIu64, words[key], pickle_number(value),
                        most);
    *number = (uint64_t)pickle_number(value);
    return true;
}

static bool need(const struct snapshot *snapshot, const struct where *where, enum word key) {
    return pickle_kind(get(snapshot, where, key)) != PICKLE_ABSENT ||
           complain(snapshot, where, "%s is missing", words[key]);
}

static bool read_stream(struct snapshot *snapshot, const struct where *where, uint64_t otherwise, uint32_t *stream) {
    uint64_t id = otherwise;
    if (!read_number(snapshot, where, STREAM, UINT64_MAX, &id)) return false;
    return convert_stream_id(snapshot->conversion, id, stream) ||
           complain(snapshot, where, "stream %" PRIu64 " is one more than the limit of %d", id, TRACE_MOST_STREAMS);
}

/* The next one of a list: false, and told, where it is no dictionary or one too many was looked at. */
static bool look_at(struct snapshot *snapshot, struct pickle_value list, size_t at, const char *what,
                    struct where *where) {
    *where = (struct where){what, at + 1, list, pickle_item(snapshot->pickle, list, at)};
    if (++snapshot->looked_at > MOST_ITEMS)
        return convert_fail(snapshot->conversion, "%s: %s %zu: the lists hold more than %" PRIu64 " items",
                            snapshot->name, what, at + 1, MOST_ITEMS);
    return pickle_kind(where->dict) == PICKLE_DICT || complain(snapshot, where, "it is no dictionary");
}

/* ---- the trace -------------------------------------------------------------------------------------------------- */

/* Its place in `actions`; ACTION_COUNT: none of them. */
static bool read_action(const struct snapshot *snapshot, const struct where *where, size_t *action) {
    const struct pickle_value value = get(snapshot, where, ACTION);
    const size_t word = pickle_word(value);
    if (!need(snapshot, where, ACTION)) return false;
    if (pickle_kind(value) != PICKLE_WORD && pickle_kind(value) != PICKLE_TEXT)
        return complain(snapshot, where, "action is no text");
    for (*action = 0; *action < ACTION_COUNT && actions[*action].word != word;) ++*action;
    return true;
}

static bool add_entry(struct snapshot *snapshot, const struct where *where, enum event_kind kind) {
    struct event event = {
        .kind = (uint8_t)kind, .number = where->number, .offset = pickle_offset(snapshot->pickle, where->dict)};
    uint64_t us = 0;
    if (!need(snapshot, where, ADDR) || !need(snapshot, where, SIZE) ||
        !read_number(snapshot, where, ADDR, UINT64_MAX, &event.address) ||
        !read_number(snapshot, where, SIZE, TRACE_MOST_BYTES, &event.bytes) ||
        !read_number(snapshot, where, TIME_US, UINT64_MAX / 1000, &us) ||
        !read_stream(snapshot, where, 0, &event.place))
        return false;
    event.ns = us * 1000;
    if (snapshot->events.count == CONVERT_MOST_ROWS)
        return complain(snapshot, where, "one more than the limit of %" PRIu64 " events", CONVERT_MOST_ROWS);
    return convert_add_event(snapshot->conversion, &snapshot->events, event);
}

/* With `add` the events of one device, else how many there are. */
static bool read_trace(struct snapshot *snapshot, size_t device, bool add) {
    const struct pickle_value trace = pickle_item(snapshot->pickle, snapshot->traces, device);
    if (pickle_kind(trace) != PICKLE_LIST)
        return convert_fail(snapshot->conversion, "%s: the trace of device %zu is no list", snapshot->name, device);
    for (size_t i = 0; i < pickle_length(snapshot->pickle, trace); i++) {
        struct where where;
        size_t action = ACTION_COUNT;
        if (!look_at(snapshot, trace, i, "entry", &where) || !read_action(snapshot, &where, &action)) return false;
        if (action == ACTION_COUNT) continue;
        snapshot->counts[device] += !add;
        if (add && !add_entry(snapshot, &where, actions[action].kind)) return false;
    }
    return true;
}

/* ---- segments --------------------------------------------------------------------------------------------------- */

static bool is_live(const struct snapshot *snapshot, const struct where *where, bool *live) {
    const size_t state = pickle_word(get(snapshot, where, STATE));
    *live = state == ALLOCATED;
    if (*live || state == PENDING || state == AWAITING || state == INACTIVE) return true;
    return need(snapshot, where, STATE) && complain(snapshot, where, "state is none of the known");
}

/* The addresses of a segment: up to where its blocks have been read, and its end. */
struct range {
    uint64_t at, end;
};

/* A block's address is where the one before it ended, or behind. */
static bool read_range(struct snapshot *snapshot, const struct where *where, uint64_t bytes, struct range *segment) {
    uint64_t address = segment->at;
    if (!read_number(snapshot, where, ADDRESS, UINT64_MAX >> 1, &address)) return false;
    if (address < segment->at)
        return complain(snapshot, where, "its address is 0x%" PRIx64 ", and what is before it ends at 0x%" PRIx64,
                        address, segment->at);
    if (address > segment->end || bytes > segment->end - address)
        return complain(snapshot, where, "it ends at 0x%" PRIx64 ", and its segment at 0x%" PRIx64, address + bytes,
                        segment->end);
    segment->at = address;
    return true;
}

static bool read_block(struct snapshot *snapshot, const struct where *where, uint64_t stream, struct range *segment) {
    struct event event = {
        .kind = EVENT_IDLE_AT_END, .number = where->number, .offset = pickle_offset(snapshot->pickle, where->dict)};
    uint64_t size = 0;
    bool live;
    if (!need(snapshot, where, SIZE) || !read_number(snapshot, where, SIZE, TRACE_MOST_BYTES, &size) ||
        !read_range(snapshot, where, size, segment) || !is_live(snapshot, where, &live))
        return false;
    event.address = segment->at;
    event.bytes = size;
    segment->at += size;
    if (live) {
        event.kind = EVENT_LIVE_AT_END;
        event.rounded = pickle_kind(get(snapshot, where, REQUESTED_SIZE)) == PICKLE_ABSENT;
        if (!read_number(snapshot, where, REQUESTED_SIZE, TRACE_MOST_BYTES, &event.bytes) ||
            !read_stream(snapshot, where, stream, &event.place))
            return false;
        if (event.bytes > size)
            return complain(snapshot, where, "requested_size is %" PRIu64 ", and size is %" PRIu64, event.bytes, size);
    }
    if (!live && snapshot->entry_count == 0) return true; /* there is nothing to compare it with */
    snapshot->idle_count += !live;
    if (snapshot->events.count == CONVERT_MOST_ROWS)
        return complain(snapshot, where, "one more than the limit of %" PRIu64 " events", CONVERT_MOST_ROWS);
    return convert_add_event(snapshot->conversion, &snapshot->events, event);
}

static bool read_blocks(struct snapshot *snapshot, const struct where *segment) {
    const struct pickle_value blocks = get(snapshot, segment, BLOCKS);
    uint64_t address = 0, stream = 0, total = 0;
    if (!need(snapshot, segment, ADDRESS) || !read_number(snapshot, segment, ADDRESS, UINT64_MAX >> 1, &address) ||
        !read_number(snapshot, segment, STREAM, UINT64_MAX, &stream) ||
        !read_number(snapshot, segment, TOTAL_SIZE, TRACE_MOST_BYTES, &total))
        return false;
    if (total > TRACE_MOST_BYTES - snapshot->reserved_bytes)
        return complain(snapshot, segment, "all segments up to here have more than 2^50 bytes");
    snapshot->reserved_bytes += total;
    const bool told = pickle_kind(get(snapshot, segment, TOTAL_SIZE)) != PICKLE_ABSENT;
    struct range range = {address, told ? address + total : UINT64_MAX >> 1};
    for (size_t i = 0; i < pickle_length(snapshot->pickle, blocks); i++) {
        struct where where;
        if (!look_at(snapshot, blocks, i, "block", &where) || !read_block(snapshot, &where, stream, &range))
            return false;
    }
    return true;
}

/* With `add` the blocks of one device, else whose they are. */
static bool read_segments(struct snapshot *snapshot, bool add) {
    for (size_t i = 0; i < pickle_length(snapshot->pickle, snapshot->segments); i++) {
        struct where where;
        uint64_t device = 0;
        if (!look_at(snapshot, snapshot->segments, i, "segment", &where) ||
            !read_number(snapshot, &where, DEVICE, CONVERT_MOST_DEVICES - 1, &device))
            return false;
        const struct pickle_value blocks = get(snapshot, &where, BLOCKS);
        if (pickle_kind(blocks) != PICKLE_LIST) return complain(snapshot, &where, "blocks is no list, or missing");
        snapshot->counts[device] += add ? 0 : pickle_length(snapshot->pickle, blocks);
        if (add && device == snapshot->conversion->device && !read_blocks(snapshot, &where)) return false;
    }
    return true;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

/* A dictionary; or, of the first versions, a list of segments alone. */
static bool find_parts(struct snapshot *snapshot) {
    const struct pickle_value root = pickle_root(snapshot->pickle);
    const bool is_list = pickle_kind(root) == PICKLE_LIST;
    snapshot->segments = is_list ? root : pickle_get(snapshot->pickle, root, SEGMENTS);
    snapshot->traces = pickle_get(snapshot->pickle, root, TRACES);
    const enum pickle_kind overflowed = pickle_kind(pickle_get(snapshot->pickle, root, OVERFLOWED));
    if (overflowed != PICKLE_ABSENT && overflowed != PICKLE_TRUE && overflowed != PICKLE_FALSE)
        return convert_fail(snapshot->conversion, "%s: trace_alloc_overflowed is neither True nor False",
                            snapshot->name);
    snapshot->conversion->overflowed = overflowed == PICKLE_TRUE;
    snapshot->conversion->tells_overflow = overflowed == PICKLE_TRUE || overflowed == PICKLE_FALSE;
    const enum pickle_kind segments = pickle_kind(snapshot->segments), traces = pickle_kind(snapshot->traces);
    if (segments == PICKLE_ABSENT && traces == PICKLE_ABSENT)
        return convert_fail(snapshot->conversion,
                            "%s: the pickle is no memory snapshot: no dictionary with segments or device_traces",
                            snapshot->name);
    if ((segments != PICKLE_LIST && segments != PICKLE_ABSENT) || (traces != PICKLE_LIST && traces != PICKLE_ABSENT))
        return convert_fail(snapshot->conversion, "%s: %s is no list", snapshot->name,
                            segments != PICKLE_LIST ? "segments" : "device_traces");
    if (pickle_length(snapshot->pickle, snapshot->traces) > CONVERT_MOST_DEVICES)
        return convert_fail(snapshot->conversion, "%s: device_traces has %zu devices, the limit is %d", snapshot->name,
                            pickle_length(snapshot->pickle, snapshot->traces), CONVERT_MOST_DEVICES);
    return true;
}

/* What the allocator held before is what it holds now, without what the trace says it took and gave. */
static void count_reserve(struct snapshot *snapshot) {
    struct conversion *conversion = snapshot->conversion;
    const int64_t before = (int64_t)snapshot->reserved_bytes - conversion->reserve_growth;
    conversion->knows_reserve = snapshot->reserved_bytes > 0 && before >= 0;
    conversion->reserve_before = conversion->knows_reserve ? (uint64_t)before : 0;
}

static bool read_parts(struct snapshot *snapshot, int wanted) {
    struct conversion *conversion = snapshot->conversion;
    const size_t devices = pickle_length(snapshot->pickle, snapshot->traces);
    for (size_t i = 0; i < devices; i++)
        if (!read_trace(snapshot, i, false)) return false;
    if (!read_segments(snapshot, false) ||
        !convert_choose_device(conversion, snapshot->name, snapshot->counts, CONVERT_MOST_DEVICES, wanted))
        return false;
    if (conversion->device < devices && !read_trace(snapshot, conversion->device, true)) return false;
    snapshot->entry_count = snapshot->events.count;
    if (!read_segments(snapshot, true)) return false;
    conversion->row_count += snapshot->events.count - snapshot->idle_count;
    if (!convert_place_events(conversion, snapshot->name, &snapshot->events)) return false;
    count_reserve(snapshot);
    return true;
}

bool convert_read_snapshot(struct conversion *conversion, const struct convert_input *input, int device) {
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    struct pickle *pickle =
        pickle_read(input->name, input->input, words, WORD_COUNT, MOST_BYTES, conversion->why, conversion->room);
    bool read = false;
    if (snapshot != NULL && pickle != NULL) {
        snapshot->conversion = conversion;
        snapshot->name = input->name;
        snapshot->pickle = pickle;
        snapshot->events.unit = "entry";
        read = find_parts(snapshot) && read_parts(snapshot, device);
        free(snapshot->events.all);
    } else if (pickle != NULL) {
        convert_fail(conversion, "%s: no host memory to read it", input->name);
    }
    pickle_free(pickle);
    free(snapshot);
    return read;
}
