/* SPDX-License-Identifier: Apache-2.0 */
/* A build without jansson. */
#include <stdio.h>

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

bool json_begins(const uint8_t *text, size_t count) { return count > 0 && (text[0] == '{' || text[0] == '['); }

bool json_each_event(const char *name, struct input *input, bool (*take)(void *with, const struct json_event *event),
                     void *with, char *why, size_t room) {
    (void)input, (void)take, (void)with;
    snprintf(why, room, "%s: it is JSON, which this build of weir can't read", name);
    return false;
}
