/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/identity.h"
#include "alloc/trace_file.h"
#include "alloc/trace_numbers.h"
#include "device/cuda_abi.h"
#include "device/error.h"

struct weir__trace {
    struct weir__trace_file file;
    struct weir__numbers streams, events;
};

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static const char two_digits[201] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                    "8081828384858687888990919293949596979899";

static unsigned count_digits(uint64_t number) {
    unsigned count = 1;
    for (; number >= 10000; number /= 10000) count += 4;
    return count + (number >= 10) + (number >= 100) + (number >= 1000);
}

static void write_digits(char *to, uint64_t number, unsigned count) {
    for (; count > 2; count -= 2, number /= 100) memcpy(to + count - 2, two_digits + 2 * (number % 100), 2);
    if (count == 2)
        memcpy(to, two_digits + 2 * number, 2);
    else
        *to = (char)('0' + number);
}

/* A letter and up to three numbers are written where they are to stand, without a copy: most lines are of this kind. */
static void put_numbers(struct weir__trace *trace, char letter, const uint64_t *numbers, unsigned count) {
    unsigned digits[3];
    size_t length = 2 + count;
    for (unsigned i = 0; i < count; i++) length += digits[i] = count_digits(numbers[i]);
    const uint64_t place = weir__trace_file_reserve(&trace->file, length);
    if (place == WEIR__TRACE_NO_PLACE) return;
    char *line = weir__trace_file_begin(&trace->file, place, length), *to = line + 1;
    for (unsigned i = 0; i < count; i++) {
        *to++ = ' ';
        write_digits(to, numbers[i], digits[i]);
        to += digits[i];
    }
    weir__trace_file_commit(line, letter);
}

/* Any other line. */
struct line {
    char *end; /* of what is there */
    char text[WEIR__TRACE_LONGEST_LINE];
};

static void begin(struct line *line, char letter) {
    line->text[0] = letter;
    line->end = line->text + 1;
}

static void add_digits(struct line *line, uint64_t number) {
    const unsigned count = count_digits(number);
    write_digits(line->end, number, count);
    line->end += count;
}

static void add_number(struct line *line, uint64_t number) {
    *line->end++ = ' ';
    add_digits(line, number);
}

/* What does not fit is left out; room for the line feed stays. */
static void add_text(struct line *line, const char *text) {
    const size_t room = (size_t)(line->text + sizeof line->text - 1 - line->end), length = strnlen(text, room);
    memcpy(line->end, text, length);
    line->end += length;
}

static size_t finish(struct line *line) {
    *line->end++ = '\n';
    return (size_t)(line->end - line->text);
}

static void put(struct weir__trace *trace, struct line *line) {
    const size_t length = finish(line);
    const uint64_t place = weir__trace_file_reserve(&trace->file, length);
    if (place != WEIR__TRACE_NO_PLACE) weir__trace_file_write(&trace->file, place, line->text, length);
}

/* Nothing is to be recorded: there is no trace, or it has ended. */
static bool is_off(const struct weir__trace *trace) { return trace == NULL || weir__trace_file_ended(&trace->file); }

static void put_only(struct weir__trace *trace, char letter) {
    if (!is_off(trace)) put_numbers(trace, letter, NULL, 0);
}

static void put_number(struct weir__trace *trace, char letter, uint64_t number) {
    put_numbers(trace, letter, &number, 1);
}

static void put_two(struct weir__trace *trace, char letter, uint64_t first, uint64_t second) {
    put_numbers(trace, letter, (const uint64_t[]){first, second}, 2);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void stream_line(struct line *line, uint64_t number, const char *name) {
    begin(line, '#');
    add_text(line, " stream");
    add_number(line, number);
    add_text(line, " ");
    add_text(line, name);
}

/* Shows a number to others once the line that shows it first has its place; then writes that line. */
static void publish(struct weir__trace *trace, struct weir__numbers *numbers, uintptr_t key, uint64_t number,
                    bool is_new, struct line *line) {
    const size_t length = finish(line);
    const uint64_t place =
        number != WEIR__UNSEEN ? weir__trace_file_reserve(&trace->file, length) : WEIR__TRACE_NO_PLACE;
    weir__numbers_end(numbers, key, number, is_new);
    if (number == WEIR__UNSEEN) weir__trace_file_end(&trace->file, "no host memory for a stream or an event");
    if (place != WEIR__TRACE_NO_PLACE) weir__trace_file_write(&trace->file, place, line->text, length);
}

/* Gives a stream the next number, and the name that weir itself calls it by. */
static uint64_t number_stream(struct weir__trace *trace, weir_stream stream) {
    bool is_new;
    struct line line;
    char name[32] = "stream ";
    const uintptr_t key = weir__stream_key(stream);
    const uint64_t number = weir__numbers_begin(&trace->streams, key, &is_new);
    if (!is_new && number != WEIR__UNSEEN) {
        weir__numbers_end(&trace->streams, key, number, false);
        return number;
    }
    if (stream == WEIR__ANY_STREAM)
        snprintf(name, sizeof name, "any stream");
    else
        snprintf(name, sizeof name, "stream %llu", (unsigned long long)number);
    stream_line(&line, number, name);
    publish(trace, &trace->streams, key, number, is_new, &line);
    return number;
}

static uint64_t stream_number(struct weir__trace *trace, weir_stream stream) {
    const uint64_t number = weir__numbers_find(&trace->streams, weir__stream_key(stream));
    return number != WEIR__UNSEEN ? number : number_stream(trace, stream);
}

static uint64_t event_number(const struct weir__trace *trace, weir_event event) {
    return weir__numbers_find(&trace->events, (uintptr_t)event);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

/* Writes what `letter` stands for. False: nothing. */
static bool expand(char letter, int ordinal, char *to, size_t room) {
    if (letter == 'p')
        snprintf(to, room, "%ld", (long)getpid());
    else if (letter == 'd')
        snprintf(to, room, "%d", ordinal);
    else if (letter == '%')
        snprintf(to, room, "%%");
    else
        return false;
    return true;
}

/* `to` has room for any expansion of `path`. */
static enum weir_status expand_path(const char *path, int ordinal, char *to) {
    for (; *path != 0; path++) {
        if (*path != '%') {
            *to++ = *path;
            continue;
        }
        if (!expand(path[1], ordinal, to, 24))
            return WEIR__INVALID("trace %s: after %% p (process id), d (device) or %% is expected, not '%.1s'", path,
                                 path + 1);
        to += strlen(to);
        path++;
    }
    *to = 0;
    return WEIR_OK;
}

/* A profile's name may be any text: here it is one word. */
static void add_word(struct line *line, const char *text) {
    char *word = line->end;
    add_text(line, text);
    for (; word < line->end; word++)
        if ((unsigned char)*word <= ' ') *word = '_';
}

static void put_head(struct weir__trace *trace, const struct weir__trace_origin *origin) {
    struct line line;
    begin(&line, 'w');
    add_text(&line, "eir-trace 1");
    put(trace, &line);
    begin(&line, '#');
    add_text(&line, " recorded policy=");
    add_text(&line, origin->policy);
    add_text(&line, " limit=");
    add_digits(&line, origin->limit_bytes);
    add_text(&line, " granularity=");
    add_digits(&line, origin->granularity_bytes);
    if (origin->emulated) {
        add_text(&line, " profile=");
        add_word(&line, origin->profile);
    }
    add_text(&line, origin->deterministic ? " deterministic=on" : " deterministic=off");
    put(trace, &line);
}

static enum weir_status open_expanded(struct weir__trace *trace, const char *path, int ordinal) {
    char *expanded = malloc(strlen(path) * 12 + 24);
    if (expanded == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory to record to %s", path);
    enum weir_status status = expand_path(path, ordinal, expanded);
    if (status == WEIR_OK) status = weir__trace_file_open(&trace->file, expanded);
    free(expanded);
    return status;
}

enum weir_status weir__trace_open(const char *path, const struct weir__trace_origin *origin, struct weir__trace **out) {
    struct weir__trace *trace = aligned_alloc(_Alignof(struct weir__trace), sizeof *trace);
    *out = NULL;
    if (trace == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory to record to %s", path);
    const enum weir_status status = open_expanded(trace, path, origin->ordinal);
    if (status != WEIR_OK) {
        free(trace);
        return status;
    }
    weir__numbers_open(&trace->streams);
    weir__numbers_open(&trace->events);
    put_head(trace, origin);
    *out = trace;
    return WEIR_OK;
}

void weir__trace_close(struct weir__trace *trace) {
    if (trace == NULL) return;
    weir__trace_file_close(&trace->file);
    weir__numbers_close(&trace->streams);
    weir__numbers_close(&trace->events);
    free(trace);
}

/* ---- the pool's calls -------------------------------------------------------------------------------------------- */

void weir__trace_alloc(struct weir__trace *trace, uint64_t block, size_t bytes, weir_stream stream) {
    if (is_off(trace)) return;
    put_numbers(trace, 'm', (const uint64_t[]){block, bytes, stream_number(trace, stream)}, 3);
}

static void put_comment(struct weir__trace *trace, const char *word, uint64_t first, uint64_t second) {
    struct line line;
    begin(&line, '#');
    add_text(&line, word);
    add_number(&line, first);
    add_number(&line, second);
    put(trace, &line);
}

void weir__trace_aligned(struct weir__trace *trace, uint64_t block, size_t alignment) {
    if (!is_off(trace)) put_numbers(trace, 'a', (const uint64_t[]){block, alignment}, 2);
}

void weir__trace_at(struct weir__trace *trace, uint64_t block, size_t offset) {
    if (!is_off(trace)) put_comment(trace, " at", block, offset);
}

void weir__trace_refused(struct weir__trace *trace, size_t bytes, weir_stream stream) {
    if (!is_off(trace)) put_comment(trace, " refused", bytes, stream_number(trace, stream));
}

static void put_free_any(struct weir__trace *trace, uint64_t block) {
    struct line line;
    begin(&line, 'f');
    add_number(&line, block);
    add_text(&line, " *");
    put(trace, &line);
}

void weir__trace_free(struct weir__trace *trace, uint64_t block, weir_stream stream, bool own) {
    if (is_off(trace)) return;
    if (stream == WEIR__ANY_STREAM)
        put_free_any(trace, block);
    else if (own)
        put_number(trace, 'f', block);
    else
        put_two(trace, 'f', block, stream_number(trace, stream));
}

/* An event that was never seen recorded can't be replayed: the free then names no stream, which promises less. */
void weir__trace_free_after(struct weir__trace *trace, uint64_t block, weir_event event) {
    if (is_off(trace)) return;
    const uint64_t number = event_number(trace, event);
    struct line line;
    begin(&line, 'f');
    add_number(&line, block);
    add_text(&line, number == WEIR__UNSEEN ? " *" : " @");
    if (number != WEIR__UNSEEN) add_digits(&line, number);
    put(trace, &line);
}

void weir__trace_note(struct weir__trace *trace, uint64_t block, weir_stream stream) {
    if (!is_off(trace)) put_two(trace, 'u', block, stream_number(trace, stream));
}

void weir__trace_iteration(struct weir__trace *trace) { put_only(trace, 'i'); }

void weir__trace_name(struct weir__trace *trace, weir_stream stream, const char *name) {
    if (is_off(trace)) return;
    struct line line;
    stream_line(&line, stream_number(trace, stream), name);
    put(trace, &line);
}

/* ---- what the observer sees -------------------------------------------------------------------------------------- */

void weir__trace_work(struct weir__trace *trace, weir_stream stream, double ns) {
    const uint64_t tenths = (uint64_t)(ns / 100 + 0.5);
    if (is_off(trace) || tenths == 0) return;
    struct line line;
    begin(&line, 'k');
    add_number(&line, stream_number(trace, stream));
    add_number(&line, tenths / 10);
    if (tenths % 10 != 0) {
        add_text(&line, ".");
        add_digits(&line, tenths % 10);
    }
    put(trace, &line);
}

/* An event's first record shows its number: nobody may use it in a line before. */
void weir__trace_event_recorded(struct weir__trace *trace, weir_event event, weir_stream stream) {
    if (is_off(trace)) return;
    const uint64_t on = stream_number(trace, stream);
    uint64_t number = event_number(trace, event);
    if (number != WEIR__UNSEEN) {
        put_two(trace, 'e', number, on);
        return;
    }
    bool is_new;
    struct line line;
    number = weir__numbers_begin(&trace->events, (uintptr_t)event, &is_new);
    begin(&line, 'e');
    add_number(&line, number);
    add_number(&line, on);
    publish(trace, &trace->events, (uintptr_t)event, number, is_new, &line);
}

void weir__trace_event_destroyed(struct weir__trace *trace, weir_event event) {
    if (is_off(trace)) return;
    const uint64_t number = weir__numbers_take(&trace->events, (uintptr_t)event);
    if (number != WEIR__UNSEEN) put_number(trace, 'y', number);
}

void weir__trace_event_synchronized(struct weir__trace *trace, weir_event event) {
    if (is_off(trace)) return;
    const uint64_t number = event_number(trace, event);
    if (number != WEIR__UNSEEN) put_number(trace, 'h', number);
}

void weir__trace_stream_waited(struct weir__trace *trace, weir_stream stream, weir_event event) {
    if (is_off(trace)) return;
    const uint64_t number = event_number(trace, event);
    if (number != WEIR__UNSEEN) put_two(trace, 'w', number, stream_number(trace, stream));
}

void weir__trace_stream_destroyed(struct weir__trace *trace, weir_stream stream) {
    if (is_off(trace)) return;
    const uint64_t number = weir__numbers_take(&trace->streams, weir__stream_key(stream));
    if (number != WEIR__UNSEEN) put_number(trace, 'x', number);
}

void weir__trace_stream_synchronized(struct weir__trace *trace, weir_stream stream) {
    if (!is_off(trace)) put_number(trace, 's', stream_number(trace, stream));
}

void weir__trace_device_synchronized(struct weir__trace *trace) { put_only(trace, 'd'); }
