/* SPDX-License-Identifier: Apache-2.0 */
#include "write.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "trace.h"

/* LONGEST_OPERATION: a letter, three numbers of 20 digits, what stands between them. */
enum { BUFFER_BYTES = 1 << 16, LONGEST_OPERATION = 80, LONGEST_COMMENT = 1000 };

struct trace_writer {
    struct output *output;
    size_t used;
    char text[BUFFER_BYTES];
};

static void flush(struct trace_writer *writer) {
    output_put(writer->output, writer->text, writer->used);
    writer->used = 0;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* Room for one line, its first letter in it; finished by end_line. */
static char *begin_line(struct trace_writer *writer, size_t longest, char letter) {
    if (writer->used + longest > sizeof writer->text) flush(writer);
    char *at = writer->text + writer->used;
    *at = letter;
    return at + 1;
}

static void end_line(struct trace_writer *writer, char *at) {
    *at = '\n';
    writer->used = (size_t)(at + 1 - writer->text);
}

static char *put_digits(char *at, uint64_t number) {
    char digits[20];
    size_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count > 0) *at++ = digits[--count];
    return at;
}

static char *put_field(char *at, uint64_t number) {
    *at = ' ';
    return put_digits(at + 1, number);
}

static void put_none(struct trace_writer *writer, char letter) {
    end_line(writer, begin_line(writer, LONGEST_OPERATION, letter));
}

static void put_one(struct trace_writer *writer, char letter, uint64_t number) {
    end_line(writer, put_field(begin_line(writer, LONGEST_OPERATION, letter), number));
}

static void put_two(struct trace_writer *writer, char letter, uint64_t first, uint64_t second) {
    end_line(writer, put_field(put_field(begin_line(writer, LONGEST_OPERATION, letter), first), second));
}

static void put_three(struct trace_writer *writer, char letter, uint64_t first, uint64_t second, uint64_t third) {
    char *at = put_field(put_field(begin_line(writer, LONGEST_OPERATION, letter), first), second);
    end_line(writer, put_field(at, third));
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

void trace_put_alloc(struct trace_writer *writer, uint64_t block, uint64_t bytes, uint64_t stream) {
    put_three(writer, 'm', block, bytes, stream);
}

void trace_put_live(struct trace_writer *writer, uint64_t block, uint64_t bytes, uint64_t stream) {
    put_three(writer, 'p', block, bytes, stream);
}

void trace_put_align(struct trace_writer *writer, uint64_t block, uint64_t align) {
    put_two(writer, 'a', block, align);
}

void trace_put_free(struct trace_writer *writer, uint64_t block) { put_one(writer, 'f', block); }

void trace_put_free_on(struct trace_writer *writer, uint64_t block, uint64_t stream) {
    put_two(writer, 'f', block, stream);
}

void trace_put_free_any(struct trace_writer *writer, uint64_t block) {
    char *at = put_field(begin_line(writer, LONGEST_OPERATION, 'f'), block);
    memcpy(at, " *", 2);
    end_line(writer, at + 2);
}

void trace_put_free_after(struct trace_writer *writer, uint64_t block, uint64_t event) {
    char *at = put_field(begin_line(writer, LONGEST_OPERATION, 'f'), block);
    memcpy(at, " @", 2);
    end_line(writer, put_digits(at + 2, event));
}

void trace_put_use(struct trace_writer *writer, uint64_t block, uint64_t stream) {
    put_two(writer, 'u', block, stream);
}

void trace_put_work(struct trace_writer *writer, uint64_t stream, double us) {
    if (!(us >= 0 && us <= (double)TRACE_MOST_NS / 1000)) { /* nor what is not a number */
        output_fail(writer->output, "work of %g us can't be written: from 0 to 10^12 us", us);
        return;
    }
    const uint64_t tenths = (uint64_t)(us * 10 + 0.5);
    char *at = put_field(put_field(begin_line(writer, LONGEST_OPERATION, 'k'), stream), tenths / 10);
    at[0] = '.';
    at[1] = (char)('0' + tenths % 10);
    end_line(writer, at + 2);
}

void trace_put_record(struct trace_writer *writer, uint64_t event, uint64_t stream) {
    put_two(writer, 'e', event, stream);
}

void trace_put_wait(struct trace_writer *writer, uint64_t event, uint64_t stream) {
    put_two(writer, 'w', event, stream);
}

void trace_put_sync_stream(struct trace_writer *writer, uint64_t stream) { put_one(writer, 's', stream); }
void trace_put_sync_device(struct trace_writer *writer) { put_none(writer, 'd'); }
void trace_put_host_wait(struct trace_writer *writer, uint64_t event) { put_one(writer, 'h', event); }
void trace_put_destroy_stream(struct trace_writer *writer, uint64_t stream) { put_one(writer, 'x', stream); }
void trace_put_destroy_event(struct trace_writer *writer, uint64_t event) { put_one(writer, 'y', event); }
void trace_put_iteration(struct trace_writer *writer) { put_none(writer, 'i'); }

/* ---- comments --------------------------------------------------------------------------------------------------- */

/* A comment is one line, whatever is in it: what would end it becomes a blank. */
void trace_put_comment(struct trace_writer *writer, const char *format, ...) {
    char text[LONGEST_COMMENT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *at = begin_line(writer, sizeof text + 3, '#');
    *at++ = ' ';
    for (const char *from = text; *from != 0; from++) *at++ = (unsigned char)*from < ' ' ? ' ' : *from;
    end_line(writer, at);
}

void trace_put_stream_name(struct trace_writer *writer, uint64_t stream, const char *name) {
    if (name[0] != 0) trace_put_comment(writer, "stream %llu %s", (unsigned long long)stream, name);
}

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

struct trace_writer *trace_writer_open(const char *path, char *why, size_t room) {
    static const char header[] = "weir-trace 1\n";
    struct trace_writer *writer = malloc(sizeof *writer);
    if (writer == NULL) {
        snprintf(why, room, "%s: no host memory to write it", path);
        return NULL;
    }
    writer->output = output_open(path, why, room);
    if (writer->output == NULL) {
        free(writer);
        return NULL;
    }
    writer->used = sizeof header - 1;
    memcpy(writer->text, header, writer->used);
    return writer;
}

bool trace_writer_close(struct trace_writer *writer, char *why, size_t room) {
    flush(writer);
    const bool whole = output_close(writer->output, false, why, room);
    free(writer);
    return whole;
}

void trace_writer_abandon(struct trace_writer *writer) {
    output_abandon(writer->output);
    free(writer);
}
