/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a Chrome trace (JSON), one at a time: the items of the list `traceEvents` of an object, or of a list that is the
 * whole. One event at a time is kept, of JSON_LONGEST_EVENT bytes at most, so that a trace may be of any length.
 *
 * json_events.c, by jansson; no_json.c in a build without it, which refuses. */
#ifndef WEIR_TRACE_JSON_EVENTS_H
#define WEIR_TRACE_JSON_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "input.h"

enum { JSON_LONGEST_EVENT = 1 << 20 };
#define JSON_BYTE_ORDER_MARK "\xef\xbb\xbf"

/* A field of an event, or of its `args`. */
struct json_field {
    enum { FIELD_MISSING, FIELD_INTEGER, FIELD_REAL, FIELD_TEXT, FIELD_OTHER } kind;
    int64_t integer;
    double real;
    const char *text; /* lasts as long as the event; "" where it is none */
};

struct json_event;
struct json_field json_get(const struct json_event *event, const char *key);
struct json_field json_get_arg(const struct json_event *event, const char *key);
uint64_t json_number(const struct json_event *event); /* from 1, in the order of the file */
uint64_t json_offset(const struct json_event *event); /* where it begins in the text */

/* The first of these keys that the event, or its args, have twice: of which one is meant the text does not say. NULL: none. The
 * list ends with NULL. */
const char *json_doubled(const struct json_event *event, const char *const *keys);

/* The first byte of an object or a list, behind blanks or a byte order mark? */
bool json_begins(const uint8_t *text, size_t count);

/* Calls `take` for each event that is an object, until it gives false.
 *
 * Gives: false when `take` did; or with a sentence in `why` that begins with `name` and tells the byte offset and the reason. */
bool json_each_event(const char *name, struct input *input, bool (*take)(void *with, const struct json_event *event),
                     void *with, char *why, size_t room);

#endif
