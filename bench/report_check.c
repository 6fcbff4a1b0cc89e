/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a file of figures is as a report is written, so that a page made of it says what was measured. */
#include <stdarg.h>
#include <string.h>

#include "bench/report.h"

/* What a value may be, added up. */
enum { TEXT = 1, NUMBER = 2, FLAG = 4, NOTHING = 8, OBJECT = 16, LIST = 32, OPTIONAL = 64 };

struct field {
    const char *key;
    unsigned kinds;
    const struct field *inside; /* of the object, or of each entry of the list; the last one has no key */
    unsigned entries;           /* of a list without `inside` */
};

static const struct field machine[] = {{"processor", TEXT, NULL, 0}, {"cores", NUMBER, NULL, 0}, {0}};
static const struct field allocator[] = {{"key", TEXT, NULL, 0},
                                         {"name", TEXT, NULL, 0},
                                         {"what", TEXT, NULL, 0},
                                         {"version", TEXT | NOTHING, NULL, 0},
                                         {"replayed", FLAG, NULL, 0},
                                         {"missing", TEXT | NOTHING, NULL, 0},
                                         {"cpu_missing", TEXT | NOTHING, NULL, 0},
                                         {0}};
static const struct field time_of[] = {
    {"allocator", TEXT, NULL, 0}, {"median_ns", NUMBER, NULL, 0}, {"fastest_ns", NUMBER, NULL, 0}, {0}};
static const struct field loop[] = {{"loop", TEXT, NULL, 0},
                                    {"bytes", NUMBER, NULL, 0},
                                    {"threads", NUMBER, NULL, 0},
                                    {"record_use", FLAG, NULL, 0},
                                    {"mix", FLAG, NULL, 0},
                                    {"results", LIST, time_of, 0},
                                    {0}};
static const struct field cpu[] = {{"mutex_ns", NUMBER | NOTHING, NULL, 0}, {"loops", LIST, loop, 0}, {0}};
static const struct field point[] = {
    {"capacity_ratio", NUMBER, NULL, 0}, {"outcome", TEXT, NULL, 0}, {"slowdown", NUMBER | NOTHING, NULL, 0}, {0}};
static const struct field result[] = {{"allocator", TEXT, NULL, 0},
                                      {"missing", TEXT | NOTHING, NULL, 0},
                                      {"min_capacity_ratio", NUMBER | NOTHING | OPTIONAL, NULL, 0},
                                      {"honest_capacity_ratio", NUMBER | NOTHING | OPTIONAL, NULL, 0},
                                      {"fails_above", LIST | NOTHING | OPTIONAL, NULL, NUMBER},
                                      {"curve", LIST | OPTIONAL, point, 0},
                                      {"held_ratio", NUMBER | NOTHING | OPTIONAL, NULL, 0},
                                      {0}};
static const struct field trace[] = {{"name", TEXT, NULL, 0},         {"operations", NUMBER, NULL, 0},
                                     {"iterations", NUMBER, NULL, 0}, {"peak_live_bytes", NUMBER, NULL, 0},
                                     {"results", LIST, result, 0},    {0}};
static const struct field device[] = {
    {"profile", TEXT, NULL, 0}, {"law", TEXT, NULL, 0}, {"clock", TEXT, NULL, 0}, {0}};
/* The summary is made anew from these. */
static const struct field report_fields[] = {{"made", TEXT, NULL, 0},
                                             {"emulated", FLAG, NULL, 0},
                                             {"quick", FLAG, NULL, 0},
                                             {"machine", OBJECT, machine, 0},
                                             {"commands", LIST, NULL, TEXT},
                                             {"allocators", LIST, allocator, 0},
                                             {"cpu", OBJECT, cpu, 0},
                                             {"traces", LIST, trace, 0},
                                             {"device", OBJECT, device, 0},
                                             {"replay_seconds", NUMBER, NULL, 0},
                                             {0}};

struct check {
    char *why;
    size_t room;
    char place[256];
};

static unsigned kind_of(const json_t *value) {
    if (json_is_string(value)) return TEXT;
    if (json_is_number(value)) return json_number_value(value) >= 0 ? NUMBER : 0;
    if (json_is_boolean(value)) return FLAG;
    if (json_is_null(value)) return NOTHING;
    return json_is_object(value) ? OBJECT : json_is_array(value) ? LIST : 0;
}

static const char *words_for(unsigned kinds) {
    if ((kinds & TEXT) != 0) return (kinds & NOTHING) != 0 ? "a text or null" : "a text";
    if ((kinds & NUMBER) != 0)
        return (kinds & NOTHING) != 0 ? "a number of 0 or more, or null" : "a number of 0 or more";
    return (kinds & FLAG) != 0 ? "true or false" : (kinds & OBJECT) != 0 ? "an object" : "a list";
}

static bool complain(struct check *check, const json_t *value, unsigned kinds) {
    snprintf(check->why, check->room, "%s is %s%s", check->place[0] != 0 ? check->place : "the report",
             value == NULL ? "missing: it should be " : "not ", words_for(kinds));
    return false;
}

static bool check_object(struct check *check, const json_t *object, const struct field *fields);

static bool check_value(struct check *check, const json_t *value, unsigned kinds, const struct field *inside,
                        unsigned entries) {
    if (value == NULL && (kinds & OPTIONAL) != 0) return true;
    if (value == NULL || (kind_of(value) & kinds) == 0) return complain(check, value, kinds);
    if (json_is_object(value) && inside != NULL) return check_object(check, value, inside);
    const size_t length = strlen(check->place);
    for (size_t i = 0; i < json_array_size(value); i++) {
        snprintf(check->place + length, sizeof check->place - length, "[%zu]", i);
        if (!check_value(check, json_array_get(value, i), inside != NULL ? OBJECT : entries, inside, 0)) return false;
    }
    check->place[length] = 0;
    return true;
}

static bool check_object(struct check *check, const json_t *object, const struct field *fields) {
    const size_t length = strlen(check->place);
    for (const struct field *field = fields; field->key != NULL; field++) {
        snprintf(check->place + length, sizeof check->place - length, "%s%s", length > 0 ? "." : "", field->key);
        if (!check_value(check, json_object_get(object, field->key), field->kinds, field->inside, field->entries))
            return false;
    }
    check->place[length] = 0;
    return true;
}

bool report_check(const json_t *report, char *why, size_t room) {
    struct check check = {.why = why, .room = room};
    return check_value(&check, report, OBJECT, report_fields, 0);
}
