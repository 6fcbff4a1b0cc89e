/* SPDX-License-Identifier: Apache-2.0 */
/* What is around the events is walked here: strings, and how deep the brackets are. Each event goes to jansson, whole. */
#include "json_events.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

enum { BUFFER_BYTES = 1 << 16, LONGEST_KEY = 32, AT_END = -1 };

struct json_event {
    json_t *object, *args;
    uint64_t number, offset;
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

    char *value; /* the event that is being read; NULL while nothing is kept */
    size_t value_bytes, value_room;
    uint64_t count;
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

static bool keep(struct walk *walk, const uint8_t *from, size_t count) {
    if (count > JSON_LONGEST_EVENT - walk->value_bytes)
        return fail(walk, offset_of(walk), "event %" PRIu64 " is longer than %d bytes", walk->count,
                    JSON_LONGEST_EVENT);
    if (walk->value_bytes + count > walk->value_room) {
        const size_t larger = walk->value_bytes + count + walk->value_room;
        char *moved = realloc(walk->value, larger);
        if (moved == NULL) return fail(walk, offset_of(walk), "no host memory for an event of %zu bytes", larger);
        walk->value = moved;
        walk->value_room = larger;
    }
    memcpy(walk->value + walk->value_bytes, from, count);
    walk->value_bytes += count;
    return true;
}

struct nesting {
    uint64_t depth;
    bool in_text, escaped, ended;
};

/* Is the byte the value's last, or behind it? The latter is not taken. */
static bool step(struct nesting *nesting, uint8_t byte) {
    if (nesting->in_text) {
        if (nesting->escaped || byte == '\\')
            nesting->escaped = !nesting->escaped;
        else
            nesting->in_text = byte != '"';
        nesting->ended = !nesting->in_text && nesting->depth == 0;
        return true;
    }
    const bool closes = byte == '}' || byte == ']';
    if (nesting->depth == 0 && (closes || byte == ',' || byte == ':' || is_blank(byte))) {
        nesting->ended = true;
        return false;
    }
    nesting->in_text = byte == '"';
    if (byte == '{' || byte == '[') nesting->depth++;
    if (closes) nesting->ended = --nesting->depth == 0;
    return true;
}

/* Moves behind the next value, which is kept or let go. It is balanced; whether it is JSON, who keeps it looks. */
static bool pass_value(struct walk *walk, bool kept) {
    struct nesting nesting = {0};
    const int first = look_behind_blanks(walk);
    walk->value_bytes = 0;
    if (first == AT_END || strchr(",:}]", first) != NULL) return fail_here(walk, "a value");
    while (!nesting.ended && look(walk) != AT_END) {
        const size_t from = walk->at;
        while (walk->at < walk->filled && !nesting.ended) walk->at += step(&nesting, walk->buffer[walk->at]);
        if (kept && !keep(walk, walk->buffer + from, walk->at - from)) return false;
    }
    return nesting.ended || (!nesting.in_text && nesting.depth == 0) || fail_here(walk, "a value's end");
}

/* Into `key`, cut where it is longer than all that are looked for. Escapes stay as they are. */
static bool pass_key(struct walk *walk, char key[LONGEST_KEY]) {
    size_t length = 0;
    bool escaped = false;
    if (!expect(walk, '"', "a key, in quotes,")) return false;
    for (; look(walk) != AT_END && (escaped || look(walk) != '"'); walk->at++) {
        escaped = !escaped && look(walk) == '\\';
        if (length < LONGEST_KEY - 1) key[length++] = (char)look(walk);
    }
    key[length] = '\0';
    return expect(walk, '"', "a quote") && expect(walk, ':', "a colon");
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static bool take_event(struct walk *walk, uint64_t offset) {
    json_error_t error;
    json_t *value = json_loadb(walk->value, walk->value_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (value == NULL)
        return fail(walk, offset + (uint64_t)error.position, "event %" PRIu64 ": %s", walk->count, error.text);
    const struct json_event event = {
        .object = value, .args = json_object_get(value, "args"), .number = walk->count, .offset = offset};
    const bool taken = !json_is_object(value) || walk->take(walk->with, &event);
    json_decref(value);
    return taken;
}

/* Behind the opening bracket, up to and with the closing one. */
static bool pass_events(struct walk *walk) {
    if (look_behind_blanks(walk) == ']') return expect(walk, ']', "a bracket");
    do {
        look_behind_blanks(walk);
        const uint64_t offset = offset_of(walk);
        walk->count++;
        if (!pass_value(walk, true) || !take_event(walk, offset)) return false;
        if (look_behind_blanks(walk) == ']') return expect(walk, ']', "a bracket");
    } while (expect(walk, ',', "a comma, or the list's end,"));
    return false;
}

static bool pass_pair(struct walk *walk) {
    char key[LONGEST_KEY];
    if (!pass_key(walk, key)) return false;
    if (strcmp(key, "traceEvents") != 0 || look_behind_blanks(walk) != '[') return pass_value(walk, false);
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

static bool pass_all(struct walk *walk) {
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
    size_t at = 0;
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
