/* SPDX-License-Identifier: Apache-2.0 */
/* A build without jansson. */
#include <stdio.h>
#include <string.h>

#include "json_events.h"

struct json_field json_get(const struct json_event *event, const char *key) {
    (void)event, (void)key;
    return (struct json_field){.text = ""};
}

struct json_field json_get_arg(const struct json_event *event, const char *key) {
    return json_get(event, key);
}

uint64_t json_number(const struct json_event *event) {
    (void)event;
    return 0;
}

uint64_t json_offset(const struct json_event *event) {
    (void)event;
    return 0;
}

const char *json_doubled(const struct json_event *event, const char *const *keys) {
    (void)event, (void)keys;
    return NULL;
}

bool json_begins(const uint8_t *text, size_t count) {
    const size_t at = count >= 3 && memcmp(text, JSON_BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    return count > at && (text[at] == '{' || text[at] == '[');
}

bool json_each_event(const char *name, struct input *input, bool (*take)(void *with, const struct json_event *event),
                     void *with, char *why, size_t room) {
    (void)input, (void)take, (void)with;
    snprintf(why, room, "%s: it is JSON, which this build of weir can't read", name);
    return false;
}
