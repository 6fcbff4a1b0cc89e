/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 16, NS_PER_US = 1000 };

struct field {
    char *text;
    uint64_t offset;
};

struct csv {
    const char *name;
    struct input *input;
    void (*comment)(void *with, const char *text);
    void *with;
    char *why;
    size_t why_room;
    bool bad, headed;

    char buffer[BUFFER_BYTES];
    size_t filled, at;

    char text[CSV_LONGEST_LINE + 1]; /* the line; quotes are undone and fields ended in place */
    size_t length;
    uint64_t line, line_offset, next_offset;
    struct field fields[CSV_MOST_COLUMNS];
    int field_count;

    char header[CSV_LONGEST_LINE + 1];
    const char *names[CSV_MOST_COLUMNS];
    int column_count;
};

bool csv_complain(struct csv *csv, int column, const char *format, ...) {
    if (csv->bad) return false;
    csv->bad = true;
    char where[200], what[400];
    const bool in_column = column >= 0 && column < csv->field_count;
    snprintf(where, sizeof where, "line %" PRIu64 " (byte %" PRIu64 ")", csv->line,
             in_column ? csv->fields[column].offset : csv->line_offset);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (in_column && csv->headed)
        snprintf(csv->why, csv->why_room, "%s: %s, column %.60s: %s", csv->name, where, csv->names[column], what);
    else
        snprintf(csv->why, csv->why_room, "%s: %s: %s", csv->name, where, what);
    return false;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* False at the text's end and when reading fails. */
static bool refill(struct csv *csv) {
    csv->at = 0;
    csv->filled = input_read(csv->input, csv->buffer, sizeof csv->buffer);
    if (csv->filled > 0) return true;
    const char *failure = input_failure(csv->input);
    if (failure != NULL) csv_complain(csv, CSV_NO_COLUMN, "%s", failure);
    return false;
}

static bool append(struct csv *csv, const char *from, size_t bytes) {
    if (bytes > CSV_LONGEST_LINE - csv->length)
        return csv_complain(csv, CSV_NO_COLUMN, "the line is longer than %d bytes", CSV_LONGEST_LINE);
    memcpy(csv->text + csv->length, from, bytes);
    csv->length += bytes;
    return true;
}

/* Without its end. False at the text's end and on an error. */
static bool next_line(struct csv *csv) {
    csv->length = 0;
    csv->field_count = 0;
    csv->line_offset = csv->next_offset;
    if (csv->bad || (csv->at == csv->filled && !refill(csv))) return false;
    csv->line++;
    for (bool ended = false; !ended;) {
        const char *from = csv->buffer + csv->at;
        const char *end = memchr(from, '\n', csv->filled - csv->at);
        const size_t bytes = end != NULL ? (size_t)(end - from) : csv->filled - csv->at;
        csv->at += bytes + (end != NULL);
        csv->next_offset += bytes + (end != NULL);
        if (!append(csv, from, bytes)) return false;
        ended = end != NULL || !refill(csv);
    }
    if (csv->length > 0 && csv->text[csv->length - 1] == '\r') csv->length--;
    csv->text[csv->length] = '\0';
    if (!csv->bad && strlen(csv->text) != csv->length)
        csv_complain(csv, CSV_NO_COLUMN,
                     "the line holds a byte of value 0: this is no text, nor a pickle of protocol 2 or later");
    return !csv->bad;
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Undoes the quotes of the field at *at, in place, and leaves *at behind the closing one. */
static bool unquote(struct csv *csv, char **at) {
    char *to = *at, *from = *at + 1;
    while (*from != '"' || from[1] == '"') {
        if (*from == '\0')
            return csv_complain(csv, csv->field_count - 1,
                                "a quoted field does not end in its line (a quote inside is "
                                "written twice)");
        if (*from == '"') from++;
        *to++ = *from++;
    }
    *to = '\0';
    *at = from + 1;
    while (is_blank(**at)) ++*at;
    if (**at == ',' || **at == '\0') return true;
    return csv_complain(csv, csv->field_count - 1, "'%c' follows a quoted field where a comma is expected", **at);
}

/* A field without quotes: blanks before the comma are cut off. Gives where the comma or the line's end is. */
static char *end_plain(char *text) {
    char *end = text + strcspn(text, ",");
    char *last = end;
    while (last > text && is_blank(last[-1])) last--;
    if (last < end) *last = '\0';
    return end;
}

static bool split(struct csv *csv) {
    char *at = csv->text;
    for (bool more = true; more;) {
        if (csv->field_count == CSV_MOST_COLUMNS)
            return csv_complain(csv, CSV_NO_COLUMN, "the line has more than %d fields", CSV_MOST_COLUMNS);
        while (is_blank(*at)) at++;
        struct field *field = &csv->fields[csv->field_count++];
        *field = (struct field){at, csv->line_offset + (uint64_t)(at - csv->text)};
        if (*at == '"' && !unquote(csv, &at)) return false;
        if (at == field->text) at = end_plain(at);
        more = *at == ',';
        *at++ = '\0';
    }
    return true;
}

/* The next line that has fields. CSV_END also stands for nothing left after an error. */
static enum csv_next next_fields(struct csv *csv) {
    while (next_line(csv)) {
        if (csv->text[0] == '#' && csv->comment != NULL) csv->comment(csv->with, csv->text + 1);
        if (csv->text[0] == '#' || csv->text[strspn(csv->text, " \t")] == '\0') continue;
        return split(csv) ? CSV_ROW : CSV_BAD;
    }
    return csv->bad ? CSV_BAD : CSV_END;
}

/* ---- header and rows -------------------------------------------------------------------------------------------- */

static void skip_byte_order_mark(struct csv *csv) {
    static const char mark[] = "\xef\xbb\xbf";
    if (csv->filled < 3 || memcmp(csv->buffer, mark, 3) != 0) return;
    csv->at = 3;
    csv->next_offset = 3;
}

static bool read_header(struct csv *csv) {
    if (refill(csv)) skip_byte_order_mark(csv);
    const enum csv_next next = csv->bad ? CSV_BAD : next_fields(csv);
    if (next == CSV_END) return csv_complain(csv, CSV_NO_COLUMN, "the text ends before a header line");
    if (next == CSV_BAD) return false;
    memcpy(csv->header, csv->text, sizeof csv->header);
    for (int i = 0; i < csv->field_count; i++) {
        csv->names[i] = csv->header + (csv->fields[i].text - csv->text);
        for (int j = 0; j < i; j++)
            if (strcmp(csv->names[i], csv->names[j]) == 0)
                return csv_complain(csv, i, "the header names column '%.60s' twice", csv->names[i]);
    }
    csv->column_count = csv->field_count;
    csv->headed = true;
    return true;
}

struct csv *csv_open(const char *name, struct input *input, void (*comment)(void *with, const char *text), void *with,
                     char *why, size_t room) {
    struct csv *csv = calloc(1, sizeof *csv);
    if (csv == NULL) {
        snprintf(why, room, "%s: no host memory to read it", name);
        return NULL;
    }
    csv->name = name;
    csv->input = input;
    csv->comment = comment;
    csv->with = with;
    csv->why = why;
    csv->why_room = room;
    if (read_header(csv)) return csv;
    csv_close(csv);
    return NULL;
}

void csv_close(struct csv *csv) { free(csv); }

int csv_column(const struct csv *csv, const char *name) {
    for (int i = 0; i < csv->column_count; i++)
        if (strcmp(csv->names[i], name) == 0) return i;
    return CSV_NO_COLUMN;
}

enum csv_next csv_next(struct csv *csv) {
    const enum csv_next next = next_fields(csv);
    if (next != CSV_ROW || csv->field_count == csv->column_count) return next;
    csv_complain(csv, CSV_NO_COLUMN, "the line has %d field%s, the header names %d", csv->field_count,
                 csv->field_count == 1 ? "" : "s", csv->column_count);
    return CSV_BAD;
}

uint64_t csv_line(const struct csv *csv) { return csv->line; }

uint64_t csv_offset(const struct csv *csv) { return csv->line_offset; }

const char *csv_text(const struct csv *csv, int column) { return csv->fields[column].text; }

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* Gives where the digits end; NULL when there are none, or they pass `most`. */
static const char *read_digits(const char *text, uint64_t most, uint64_t *value) {
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (number > (most - digit) / 10 || digit > most) return NULL;
        number = number * 10 + digit;
    }
    *value = number;
    return at > text ? at : NULL;
}

static bool is_all_digits(const char *text) { return *text != '\0' && text[strspn(text, "0123456789")] == '\0'; }

bool csv_number(struct csv *csv, int column, uint64_t most, uint64_t *value) {
    const char *text = csv_text(csv, column);
    if (!is_all_digits(text)) return csv_complain(csv, column, "'%.60s' is not a whole number from 0", text);
    if (read_digits(text, most, value) != NULL) return true;
    return csv_complain(csv, column, "%.60s is too large, the limit is %" PRIu64, text, most);
}

bool csv_ns(struct csv *csv, int column, uint64_t *ns) {
    const char *text = csv_text(csv, column);
    const uint64_t most = UINT64_MAX / NS_PER_US - 1;
    uint64_t us = 0, fraction = 0, unit = NS_PER_US;
    const char *at = text + strspn(text, "0123456789");
    if (at == text || (*at != '\0' && (*at != '.' || !is_all_digits(at + 1))))
        return csv_complain(csv, column, "'%.60s' is not a time in microseconds from 0, as 12 or 12.5", text);
    if (read_digits(text, most, &us) == NULL)
        return csv_complain(csv, column, "%.60s microseconds are too many, the limit is %" PRIu64, text, most);
    if (*at == '.')
        for (at++; *at != '\0' && unit > 1; at++) fraction += (uint64_t)(*at - '0') * (unit /= 10);
    *ns = us * NS_PER_US + fraction;
    return true;
}
