/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a text is JSON (RFC 8259), a byte at a time, in bounded memory: for values that nobody keeps, of any length.
 *
 * Words. depth: how many brackets are open. token: a number, or the key of an object. */
#ifndef WEIR_TRACE_JSON_TEXT_H
#define WEIR_TRACE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/options/utf8.h"

enum { JSON_DEEPEST = 2048 };

enum json_step {
    JSON_GOES_ON,
    JSON_ENDED,        /* with this byte */
    JSON_ENDED_BEFORE, /* this byte is behind the value: a number's end shows so */
    JSON_BROKEN,
};

enum json_token { JSON_NO_TOKEN, JSON_KEY, JSON_NUMBER };

struct json_text {
    uint8_t state;
    bool in_key;
    uint8_t hex_left;
    const char *rest; /* of true, false or null */
    struct utf8 utf8;
    enum json_token token; /* what the last byte ended: a key by its quote, a number by what is behind it */
    size_t token_bytes;    /* of it, or so far; without quotes */
    uint32_t depth;
    uint64_t objects[JSON_DEEPEST / 64]; /* by depth a bit: an object, else a list */
};

/* One value is to come. */
void json_text_begin(struct json_text *text);
enum json_step json_text_step(struct json_text *text, uint8_t byte);
/* The same for the first of these bytes that lie within a text and are nothing but themselves: how many. */
size_t json_text_run(struct json_text *text, const uint8_t *bytes, size_t count);
/* May the value end with the text? Only a number may. */
bool json_text_may_end(const struct json_text *text);
/* What could have come in place of the byte that broke it, or comes next. */
const char *json_text_expected(const struct json_text *text);

#endif
