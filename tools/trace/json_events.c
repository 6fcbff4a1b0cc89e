/* SPDX-License-Identifier: Apache-2.0 */
/* All of it is held against the grammar here (json_text.c), what is around the events alone so. Each event goes to jansson,
 * whole; a number in it that jansson has no room for becomes a text of the same length before. */
#include "json_events.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "json_text.h"

enum { BUFFER_BYTES = 1 << 16, LONGEST_KEY = 32, AT_END = -1 };

struct json_event {
    json_t *object, *args;
    uint64_t number, offset;
    const char *text;
    size_t bytes;
    bool doubled; /* some key is there twice, in the event or in its args */
};

struct walk {
    const char *name;
    struct input *input;
    bool (*take)(void *with, const struct json_event *event);
    void *with;
    char *why;
    size_t room;

    uint8_t buffer[BUFFER_BYTES];
    size_t at, filled;
    uint64_t buffer_offset; /* of its first byte in the text */

    struct json_text text; /* the value that is being read */
    char *value;           /* it, where it is kept: an event */
    size_t value_bytes, value_room;
    size_t keys, arg_keys; /* of that event */
    bool in_args;
    uint64_t count;
    bool listed; /* traceEvents was there */
};

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static struct json_field field_of(const json_t *value) {
    struct json_field field = {.text = ""};
    if (value == NULL) return field;
    field.kind = FIELD_OTHER;
    if (json_is_string(value)) field.kind = FIELD_TEXT, field.text = json_string_value(value);
    if (json_is_real(value)) field.kind = FIELD_REAL, field.real = json_real_value(value);
    if (json_is_integer(value)) field.kind = FIELD_INTEGER, field.integer = json_integer_value(value);
    return field;
}

struct json_field json_get(const struct json_event *event, const char *key) {
    return field_of(json_object_get(event->object, key));
}

struct json_field json_get_arg(const struct json_event *event, const char *key) {
    return field_of(json_object_get(event->args, key));
}

uint64_t json_number(const struct json_event *event) { return event->number; }

uint64_t json_offset(const struct json_event *event) { return event->offset; }

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static bool fail(struct walk *walk, uint64_t offset, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool fail(struct walk *walk, uint64_t offset, const char *format, ...) {
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(walk->why, walk->room, "%s: byte %" PRIu64 ": %s", walk->name, offset, what);
    return false;
}

static uint64_t offset_of(const struct walk *walk) { return walk->buffer_offset + walk->at; }

/* The next byte, not yet taken; AT_END. */
static int look(struct walk *walk) {
    if (walk->at == walk->filled) {
        walk->buffer_offset += walk->filled;
        walk->at = 0;
        walk->filled = input_read(walk->input, walk->buffer, sizeof walk->buffer);
    }
    return walk->at < walk->filled ? walk->buffer[walk->at] : AT_END;
}

static bool fail_here(struct walk *walk, const char *expected) {
    const char *failure = input_failure(walk->input);
    if (failure != NULL) return fail(walk, offset_of(walk), "%s", failure);
    if (look(walk) == AT_END) return fail(walk, offset_of(walk), "the text ends where %s is expected", expected);
    return fail(walk, offset_of(walk), "%s is expected", expected);
}

/* The byte there breaks the grammar, or the text ends before its time. */
static bool fail_text(struct walk *walk, bool event) {
    char expected[120];
    snprintf(expected, sizeof expected, "%s", json_text_expected(&walk->text));
    if (!event || look(walk) == AT_END) return fail_here(walk, expected);
    return fail(walk, offset_of(walk), "event %" PRIu64 ": %s is expected", walk->count, expected);
}

static bool is_blank(int byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

static int look_behind_blanks(struct walk *walk) {
    while (is_blank(look(walk))) walk->at++;
    return look(walk);
}

static bool expect(struct walk *walk, char byte, const char *expected) {
    if (look_behind_blanks(walk) != byte) return fail_here(walk, expected);
    walk->at++;
    return true;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

enum passing { PASSING, ENDED, BROKEN };

/* One byte of a value. *taken: it is one. */
static enum passing pass_byte(struct walk *walk, uint8_t byte, bool *taken) {
    const enum json_step step = json_text_step(&walk->text, byte);
    *taken = step == JSON_GOES_ON || step == JSON_ENDED;
    return step == JSON_GOES_ON ? PASSING : step == JSON_BROKEN ? BROKEN : ENDED;
}

static bool end_passing(struct walk *walk, enum passing passing, bool event) {
    if (passing == ENDED || (passing == PASSING && json_text_may_end(&walk->text))) return true;
    return fail_text(walk, event);
}

/* Moves behind the next value, which is let go. */
static bool pass_value(struct walk *walk) {
    enum passing passing = PASSING;
    bool taken = true;
    json_text_begin(&walk->text);
    for (; passing == PASSING && look(walk) != AT_END; walk->at += taken) {
        walk->at += json_text_run(&walk->text, walk->buffer + walk->at, walk->filled - walk->at);
        taken = walk->at < walk->filled;
        if (taken) passing = pass_byte(walk, walk->buffer[walk->at], &taken);
    }
    return end_passing(walk, passing, false);
}

/* Into `key`, cut where it is longer than all that are looked for. Escapes stay as they are. */
static bool pass_key(struct walk *walk, char key[LONGEST_KEY]) {
    enum passing passing = PASSING;
    bool taken = true;
    size_t length = 0;
    if (look_behind_blanks(walk) != '"') return fail_here(walk, "a key, in quotes,");
    json_text_begin(&walk->text);
    for (; passing == PASSING && look(walk) != AT_END; walk->at += taken) {
        if (length < LONGEST_KEY) key[length++] = (char)look(walk);
        passing = pass_byte(walk, (uint8_t)look(walk), &taken);
    }
    if (!end_passing(walk, passing, false)) return false;
    memmove(key, key + 1, length - 1); /* without its quotes */
    key[length < LONGEST_KEY ? length - 2 : LONGEST_KEY - 1] = '\0';
    return expect(walk, ':', "a colon");
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static bool grow_value(struct walk *walk, size_t bytes) {
    if (bytes <= walk->value_room) return true;
    const size_t larger = bytes + walk->value_room;
    char *moved = realloc(walk->value, larger);
    if (moved == NULL) return fail(walk, offset_of(walk), "no host memory for an event of %zu bytes", larger);
    walk->value = moved;
    walk->value_room = larger;
    return true;
}

/* A number is valid whatever its size. Where nobody asks for it, it does not matter; who does sees a text. */
static void cover_number(char *number, size_t bytes) {
    char copy[64], *end = number + bytes;
    const bool exponent = memchr(number, 'e', bytes) != NULL || memchr(number, 'E', bytes) != NULL;
    if (bytes < 19 && !exponent) return;
    char *text = bytes < sizeof copy ? copy : strndup(number, bytes);
    bool fits = text != NULL;
    if (text == copy) memcpy(copy, number, bytes), copy[bytes] = '\0';
    errno = 0;
    if (fits && strpbrk(text, ".eE") != NULL)
        fits = isfinite(strtod(text, NULL)) != 0;
    else if (fits)
        (void)strtoll(text, NULL, 10), fits = errno != ERANGE;
    if (text != copy) free(text);
    if (!fits) number[0] = end[-1] = '"';
}

/* What the byte ended, of the event that is kept up to it. */
static void end_token(struct walk *walk) {
    const struct json_text *text = &walk->text;
    char *token = walk->value + walk->value_bytes - text->token_bytes;
    if (text->token == JSON_NUMBER) cover_number(token, text->token_bytes);
    if (text->token != JSON_KEY || text->depth > 2) return;
    walk->keys += text->depth == 1;
    walk->arg_keys += text->depth == 2 && walk->in_args;
    if (text->depth == 1) walk->in_args = text->token_bytes == 4 && memcmp(token, "args", 4) == 0;
}

/* Of the bytes at hand as many as may be. */
static enum passing keep_some(struct walk *walk, size_t most) {
    const uint8_t *from = walk->buffer + walk->at;
    enum passing passing = PASSING;
    bool taken = true;
    for (size_t i = 0; i < most && passing == PASSING;) {
        const size_t run = json_text_run(&walk->text, from + i, most - i);
        memcpy(walk->value + walk->value_bytes, from + i, run);
        walk->value_bytes += run;
        walk->at += run;
        i += run;
        if (i == most) break;
        passing = pass_byte(walk, from[i], &taken);
        if (walk->text.token != JSON_NO_TOKEN) end_token(walk);
        if (taken) walk->value[walk->value_bytes++] = (char)from[i++];
        walk->at += taken;
    }
    return passing;
}

/* The next value, kept. */
static bool keep_event(struct walk *walk) {
    enum passing passing = PASSING;
    walk->value_bytes = walk->keys = walk->arg_keys = 0;
    walk->in_args = false;
    json_text_begin(&walk->text);
    while (passing == PASSING && look(walk) != AT_END) {
        const size_t left = walk->filled - walk->at, room = JSON_LONGEST_EVENT - walk->value_bytes;
        if (room == 0)
            return fail(walk, offset_of(walk), "event %" PRIu64 " is longer than %d bytes", walk->count,
                        JSON_LONGEST_EVENT);
        if (!grow_value(walk, walk->value_bytes + (left < room ? left : room))) return false;
        passing = keep_some(walk, left < room ? left : room);
    }
    return end_passing(walk, passing, true);
}

static bool take_event(struct walk *walk, uint64_t offset) {
    json_error_t error;
    json_t *value = json_loadb(walk->value, walk->value_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (value == NULL)
        return fail(walk, offset + (uint64_t)error.position, "event %" PRIu64 ": %s", walk->count, error.text);
    json_t *args = json_object_get(value, "args");
    const struct json_event event = {
        .object = value,
        .args = args,
        .number = walk->count,
        .offset = offset,
        .text = walk->value,
        .bytes = walk->value_bytes,
        .doubled = walk->keys != json_object_size(value) || walk->arg_keys != json_object_size(args),
    };
    const bool taken = !json_is_object(value) || walk->take(walk->with, &event);
    json_decref(value);
    return taken;
}

/* ---- keys that are there twice ---------------------------------------------------------------------------------- */

/* A key as it stands in the text, escapes and all. */
static bool is_key(const char *raw, size_t bytes, const char *key) {
    if (memchr(raw, '\\', bytes) == NULL) return strlen(key) == bytes && memcmp(raw, key, bytes) == 0;
    json_t *text = json_loadb(raw - 1, bytes + 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL); /* with its quotes */
    const bool is = json_is_string(text) && strcmp(json_string_value(text), key) == 0;
    json_decref(text);
    return is;
}

static bool is_doubled(const struct json_event *event, const char *key) {
    struct json_text text;
    bool in_args = false;
    size_t own = 0, of_args = 0;
    json_text_begin(&text);
    for (size_t i = 0; i < event->bytes; i++) {
        if (json_text_step(&text, (uint8_t)event->text[i]) != JSON_GOES_ON) break;
        if (text.token != JSON_KEY || text.depth > 2) continue;
        const char *raw = event->text + i - text.token_bytes;
        own += text.depth == 1 && is_key(raw, text.token_bytes, key);
        of_args += text.depth == 2 && in_args && is_key(raw, text.token_bytes, key);
        if (text.depth == 1) in_args = is_key(raw, text.token_bytes, "args");
    }
    return own > 1 || of_args > 1;
}

const char *json_doubled(const struct json_event *event, const char *const *keys) {
    if (!event->doubled) return NULL;
    while (*keys != NULL && !is_doubled(event, *keys)) keys++;
    return *keys;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

/* Behind the opening bracket, up to and with the closing one. */
static bool pass_events(struct walk *walk) {
    if (look_behind_blanks(walk) == ']') return expect(walk, ']', "a bracket");
    do {
        look_behind_blanks(walk);
        const uint64_t offset = offset_of(walk);
        walk->count++;
        if (!keep_event(walk) || !take_event(walk, offset)) return false;
        if (look_behind_blanks(walk) == ']') return expect(walk, ']', "a bracket");
    } while (expect(walk, ',', "a comma, or the list's end,"));
    return false;
}

static bool pass_pair(struct walk *walk) {
    char key[LONGEST_KEY];
    const uint64_t offset = (look_behind_blanks(walk), offset_of(walk));
    if (!pass_key(walk, key)) return false;
    if (strcmp(key, "traceEvents") != 0) return pass_value(walk);
    if (walk->listed) return fail(walk, offset, "traceEvents comes a second time");
    walk->listed = true;
    if (look_behind_blanks(walk) != '[') return fail_here(walk, "a list of events");
    walk->at++;
    return pass_events(walk);
}

static bool pass_object(struct walk *walk) {
    if (look_behind_blanks(walk) == '}') return expect(walk, '}', "a brace");
    do {
        if (!pass_pair(walk)) return false;
        if (look_behind_blanks(walk) == '}') return expect(walk, '}', "a brace");
    } while (expect(walk, ',', "a comma, or the object's end,"));
    return false;
}

static void pass_mark(struct walk *walk) {
    static const char mark[] = JSON_BYTE_ORDER_MARK;
    if (look(walk) == (uint8_t)mark[0] && walk->filled >= 3 && memcmp(walk->buffer, mark, 3) == 0) walk->at = 3;
}

static bool pass_all(struct walk *walk) {
    pass_mark(walk);
    if (look_behind_blanks(walk) == '[') {
        walk->at++;
        if (!pass_events(walk)) return false;
    } else if (!expect(walk, '{', "an object or a list") || !pass_object(walk)) {
        return false;
    }
    const bool ended = look_behind_blanks(walk) == AT_END && input_failure(walk->input) == NULL;
    return ended || fail_here(walk, "the end");
}

bool json_begins(const uint8_t *text, size_t count) {
    size_t at = count >= 3 && memcmp(text, JSON_BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    while (at < count && is_blank(text[at])) at++;
    return at < count && (text[at] == '{' || text[at] == '[');
}

bool json_each_event(const char *name, struct input *input, bool (*take)(void *with, const struct json_event *event),
                     void *with, char *why, size_t room) {
    struct walk *walk = calloc(1, sizeof *walk);
    if (walk == NULL) {
        snprintf(why, room, "%s: no host memory to read it", name);
        return false;
    }
    *walk = (struct walk){.name = name, .input = input, .take = take, .with = with, .why = why, .room = room};
    const bool passed = pass_all(walk);
    free(walk->value);
    free(walk);
    return passed;
}
