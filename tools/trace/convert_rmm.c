/* SPDX-License-Identifier: Apache-2.0 */
/* What RMM's logging adaptor wrote (rmm::mr::logging_resource_adaptor): one line a request, in the order in which the
 * resource below could have seen them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define DAY_NS        (86400 * NS_PER_SECOND)

struct rmm_columns {
    int time, action, pointer, size, stream;
};

struct rmm_reader {
    struct conversion *conversion;
    struct csv *csv;
    struct rmm_columns column;
    struct events events;
    uint64_t days_ns, last_ns; /* of a clock that begins anew each day */
    uint64_t timed_line;       /* of the time that was read last; 0: none yet */
    bool daily;                /* as it was */
};

/* ---- fields ----------------------------------------------------------------------------------------------------- */

/* Digits behind the point, as nanoseconds. NULL: other characters. */
static const char *read_fraction(const char *text, uint64_t *ns) {
    uint64_t unit = NS_PER_SECOND;
    for (; *text >= '0' && *text <= '9'; text++) *ns += (uint64_t)(*text - '0') * (unit /= 10);
    return text;
}

/* 23:59:59.000001, or with a colon before the microseconds, as RMM wrote it once; or seconds, as 1634567890.25. */
static bool parse_time(const char *text, uint64_t *ns, bool *daily) {
    uint64_t part[3] = {0};
    int parts = 0;
    for (bool more = true; more && parts < 3;) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 10) return false;
        part[parts++] = strtoull(text, NULL, 10);
        text += digits;
        more = *text == ':' && parts < 3;
        text += more;
    }
    *daily = parts == 3;
    if (parts == 2 || (*daily && (part[0] > 23 || part[1] > 59 || part[2] > 60))) return false;
    *ns = (*daily ? (part[0] * 60 + part[1]) * 60 + part[2] : part[0]) * NS_PER_SECOND;
    if (*text == '.' || (*text == ':' && *daily)) text = read_fraction(text + 1, ns);
    return *text == '\0';
}

static bool read_time(struct rmm_reader *reader, uint64_t *ns) {
    const char *text = csv_text(reader->csv, reader->column.time);
    bool daily;
    if (!parse_time(text, ns, &daily))
        return csv_complain(reader->csv, reader->column.time,
                            "'%.60s' is no time, as 23:59:59.000001 or seconds, as 1634567890.25", text);
    if (reader->timed_line != 0 && daily != reader->daily)
        return csv_complain(reader->csv, reader->column.time, "'%.60s' is %s, and line %" PRIu64 " has %s", text,
                            daily ? "a time of day" : "seconds", reader->timed_line,
                            daily ? "seconds" : "a time of day");
    reader->daily = daily;
    reader->timed_line = csv_line(reader->csv);
    if (daily && *ns + DAY_NS / 2 < reader->last_ns) reader->days_ns += DAY_NS; /* midnight */
    reader->last_ns = *ns;
    *ns += reader->days_ns;
    return true;
}

/* Hexadecimal with 0x or with letters, else decimal. `(nil)` is 0. */
static bool read_handle(struct rmm_reader *reader, int column, int base, uint64_t *value) {
    const char *text = csv_text(reader->csv, column), *digits = text;
    if (strncmp(digits, "0x", 2) == 0) digits += 2, base = 16;
    const size_t length = strspn(digits, "0123456789abcdefABCDEF");
    *value = 0;
    if (strcmp(text, "(nil)") == 0) return true;
    if (length == 0 || digits[length] != '\0')
        return csv_complain(reader->csv, column, "'%.60s' is no address or handle, as 0x7f0000000000", text);
    if (strspn(digits, "0123456789") < length) base = 16;
    errno = 0;
    *value = strtoull(digits, NULL, base);
    return errno == 0 || csv_complain(reader->csv, column, "'%.60s' is more than 64 bits", text);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static bool read_row(struct rmm_reader *reader) {
    const char *action = csv_text(reader->csv, reader->column.action);
    const bool allocates = strcmp(action, "allocate") == 0, fails = strcmp(action, "allocate failure") == 0,
               frees = strcmp(action, "free") == 0 || strcmp(action, "deallocate") == 0;
    struct event event = {.kind = allocates ? EVENT_ALLOC : EVENT_FREE,
                          .number = csv_line(reader->csv),
                          .offset = csv_offset(reader->csv)};
    uint64_t stream;
    if (!allocates && !fails && !frees)
        return csv_complain(reader->csv, reader->column.action,
                            "'%.40s' is no action: allocate, allocate failure, free or deallocate", action);
    if (!read_time(reader, &event.ns) || !csv_number(reader->csv, reader->column.size, UINT64_MAX, &event.bytes) ||
        !read_handle(reader, reader->column.pointer, 16, &event.address) ||
        !read_handle(reader, reader->column.stream, 10, &stream))
        return false;
    reader->conversion->refused_count += fails;
    if (fails || (event.address == 0 && event.bytes == 0)) return true; /* nothing was asked for, and nothing given */
    if (event.address == 0)
        return csv_complain(reader->csv, reader->column.pointer, "%" PRIu64 " bytes at address 0", event.bytes);
    if (!convert_stream_id(reader->conversion, stream, &event.place))
        return csv_complain(reader->csv, reader->column.stream, "stream %" PRIu64 " is one more than the limit of %d",
                            stream, TRACE_MOST_STREAMS);
    return convert_add_event(reader->conversion, &reader->events, event);
}

static bool read_rows(struct rmm_reader *reader) {
    enum csv_next next;
    for (uint64_t count = 0; (next = csv_next(reader->csv)) == CSV_ROW; count++)
        if (!convert_count_row(reader->conversion, reader->csv, count) || !read_row(reader)) return false;
    return next == CSV_END;
}

bool convert_read_rmm(struct conversion *conversion, struct csv *csv) {
    struct rmm_reader reader = {.conversion = conversion,
                                .csv = csv,
                                .column = {csv_column(csv, "Time"), csv_column(csv, "Action"),
                                           csv_column(csv, "Pointer"), csv_column(csv, "Size"),
                                           csv_column(csv, "Stream")},
                                .events = {.unit = "line", .sizes_are_told = true}};
    const bool read =
        read_rows(&reader) && convert_place_events(conversion, conversion->name[FORM_RMM], &reader.events);
    free(reader.events.all);
    return read;
}
