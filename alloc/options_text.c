/* SPDX-License-Identifier: Apache-2.0 */
/* WEIR_OPTIONS: "policy:footprint,limit:0.9,wait_limit:500ms,file:PATH", and files of `key = value` lines. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/options.h"
#include "device/error.h"

/* Where a value stands. */
struct place {
    const char *path; /* NULL: WEIR_OPTIONS */
    unsigned line;
    const char *key, *value;
};

static const char *const keys[] = {
#define KEY(key, kind, fallback, help) #key,
    WEIR__OPTION_LIST(KEY)
#undef KEY
};
enum { KEYS = sizeof keys / sizeof *keys };

/* ---- sentences -------------------------------------------------------------------------------------------------- */

/* "WEIR_OPTIONS", or the path and the line; of a long path its end. */
static const char *where(const struct place *place, char room[static 200]) {
    if (place->path == NULL) return "WEIR_OPTIONS";
    const size_t length = strlen(place->path), most = 150;
    const bool cut = length > most;
    const int at = snprintf(room, 200, "%s%s", cut ? "..." : "", place->path + (cut ? length - most : 0));
    if (place->line > 0) snprintf(room + at, 200 - (size_t)at, ":%u", place->line);
    return room;
}

/* "<where>: <key>:<value>" */
static const char *written(const struct place *place, char room[static 300]) {
    char at[200];
    snprintf(room, 300, "%s: %s%s%.80s", where(place, at), place->key, place->path == NULL ? ":" : " = ", place->value);
    return room;
}

/* The same, and what is wrong with it. */
static enum weir_status wrong(const struct place *place, const char *what) {
    char room[300];
    return WEIR__INVALID("%s %s", written(place, room), what);
}

static enum weir_status unknown_key(const struct place *place) {
    char room[200];
    const char *nearest = weir__nearest(place->key, keys, KEYS);
    if (nearest != NULL)
        return WEIR__INVALID("%s: unknown key '%.40s'; did you mean '%s'?", where(place, room), place->key, nearest);
    char list[200] = "";
    for (size_t i = 0, length = 0; i < KEYS && length < sizeof list; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i > 0 ? ", " : "", keys[i]);
    return WEIR__INVALID("%s: unknown key '%.40s'; known are %s", where(place, room), place->key, list);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static enum weir_status read_policy(const struct place *place, enum weir_policy *policy) {
    static const struct {
        const char *name;
        enum weir_policy policy;
    } known[] = {
        {"latency", WEIR_POLICY_LATENCY}, {"footprint", WEIR_POLICY_FOOTPRINT}, {"per-stream", WEIR_POLICY_PER_STREAM}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(place->value, known[i].name) == 0) {
            *policy = known[i].policy;
            return WEIR_OK;
        }
    return wrong(place, "is not one of latency, footprint, per-stream");
}

/* Reads "digits" or "digits.digits" by hand, since strtod follows the program's locale. Gives the end, `text` itself when
 * there is no number. */
static const char *read_decimal(const char *text, double *number) {
    const char *at = text;
    double step = 1;
    *number = 0;
    for (; *at >= '0' && *at <= '9'; at++) *number = *number * 10 + (*at - '0');
    if (at == text || *at != '.') return at;
    for (at++; *at >= '0' && *at <= '9'; at++) *number += (*at - '0') * (step /= 10);
    return at;
}

/* A fraction of the capacity when it has a point or a percent sign and no unit, else bytes. */
static enum weir_status read_limit(const struct place *place, struct weir__limit *limit) {
    double number;
    const char *value = place->value, *end = read_decimal(value, &number);
    const bool percent = end != value && strcmp(end, "%") == 0;
    if (percent || (end != value && *end == 0 && strchr(value, '.') != NULL)) {
        const double fraction = percent ? number / 100 : number;
        if (!(fraction > 0 && fraction <= 1)) return wrong(place, "must be above 0 and at most 1 (or 100%)");
        *limit = (struct weir__limit){.fraction = fraction};
        written(place, limit->written); /* the capacity is not known yet */
        return WEIR_OK;
    }
    size_t bytes;
    if (!weir__parse_bytes(value, &bytes) || bytes == 0)
        return wrong(place, "is neither bytes (64M, 1.5GiB) nor a fraction (0.9, 90%)");
    *limit = (struct weir__limit){.bytes = bytes};
    written(place, limit->written);
    return WEIR_OK;
}

static enum weir_status read_time(const struct place *place, uint64_t *time_ns) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double number;
    const char *end = read_decimal(place->value, &number);
    for (size_t i = 0; end != place->value && i < sizeof units / sizeof *units; i++) {
        const double ns = number * units[i].ns;
        if (strcmp(end, units[i].unit) != 0 || !(ns >= 1 && ns < 1e18)) continue;
        *time_ns = (uint64_t)ns;
        return WEIR_OK;
    }
    return wrong(place, "is not a time above 0 with a unit (10s, 500ms, 20us)");
}

static enum weir_status read_flag(const struct place *place, bool *flag) {
    const bool on = strcmp(place->value, "on") == 0;
    if (!on && strcmp(place->value, "off") != 0) return wrong(place, "is neither on nor off");
    *flag = on;
    return WEIR_OK;
}

static enum weir_status read_count(const struct place *place, size_t *count) {
    const char *at = place->value;
    *count = 0;
    for (; *at >= '0' && *at <= '9' && *count <= WEIR__MOST_COUNT; at++) *count = *count * 10 + (size_t)(*at - '0');
    if (at != place->value && *at == 0 && *count <= WEIR__MOST_COUNT) return WEIR_OK;
    return wrong(place, "is not " WEIR__OPTION_VALUE_COUNT);
}

static const char *what_is_wrong_with_name(const char *name) {
    if (*name == 0) return "is empty";
    if (strlen(name) >= WEIR__NAME_ROOM) return "is longer than 63 characters";
    for (; *name != 0; name++)
        if ((unsigned char)*name < ' ' || *name == 127) return "has a control character";
    return NULL;
}

static enum weir_status read_name(const struct place *place, char *name) {
    const char *fault = what_is_wrong_with_name(place->value);
    if (fault != NULL) return wrong(place, fault);
    strcpy(name, place->value);
    return WEIR_OK;
}

enum weir_status weir__name_take(const char *what, const char *name, char room[static WEIR__NAME_ROOM]) {
    const char *fault = what_is_wrong_with_name(name);
    if (fault != NULL) return WEIR__INVALID("%s: the name '%.80s' %s", what, name, fault);
    strcpy(room, name);
    return WEIR_OK;
}

static enum weir_status read_file(const struct place *place, struct weir__options *options);

#define READ_POLICY(place, at) read_policy(place, at)
#define READ_LIMIT(place, at)  read_limit(place, at)
#define READ_TIME(place, at)   read_time(place, at)
#define READ_FLAG(place, at)   read_flag(place, at)
#define READ_COUNT(place, at)  read_count(place, at)
#define READ_FILE(place, at)   read_file(place, options)
#define READ_NAME(place, at)   read_name(place, *(at))

static enum weir_status read_value(const struct place *place, struct weir__options *options) {
#define READ(name, kind, fallback, help)                                                                               \
    if (strcmp(place->key, #name) == 0) return READ_##kind(place, &options->name);
    WEIR__OPTION_LIST(READ)
#undef READ
    return unknown_key(place);
}

/* ---- a file ----------------------------------------------------------------------------------------------------- */

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = 0;
    return text;
}

/* What stands before a comment. */
static enum weir_status read_line(const char *path, unsigned number, char *line, struct weir__options *options) {
    struct place place = {.path = path, .line = number};
    char room[200];
    line[strcspn(line, "#")] = 0;
    line = trim(line);
    if (*line == 0) return WEIR_OK;
    char *equals = strchr(line, '=');
    if (equals == NULL) return WEIR__INVALID("%s: '%.60s' is not key = value", where(&place, room), line);
    *equals = 0;
    place.key = trim(line);
    place.value = trim(equals + 1);
    return read_value(&place, options);
}

enum weir_status weir__options_parse_lines(const char *path, char *text, size_t bytes, struct weir__options *options) {
    char room[200];
    enum weir_status status = WEIR_OK;
    unsigned number = 0;
    for (char *line = text, *next; line < text + bytes && status == WEIR_OK; line = next) {
        const struct place place = {.path = path, .line = ++number};
        char *end = memchr(line, '\n', (size_t)(text + bytes - line));
        if (end == NULL) end = text + bytes;
        next = end + 1;
        *end = 0;
        if ((size_t)(end - line) > WEIR__LONGEST_VALUE)
            return WEIR__INVALID("%s: the line is %zu characters long, the limit is %u", where(&place, room),
                                 (size_t)(end - line), WEIR__LONGEST_VALUE);
        if (strlen(line) != (size_t)(end - line))
            return WEIR__INVALID("%s: the line has a zero byte; this is no file of options", where(&place, room));
        status = read_line(path, number, line, options);
    }
    return status;
}

/* Reads to the end, at most `room` bytes; -1: errno. */
static ssize_t read_all(int file, char *to, size_t room) {
    size_t length = 0;
    while (length < room) {
        const ssize_t got = read(file, to + length, room - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        length += (size_t)got;
    }
    return (ssize_t)length;
}

/* Some editors put a byte-order mark, which nobody sees, before the first line. */
static enum weir_status parse_without_mark(const char *path, char *text, size_t length, struct weir__options *options) {
    const size_t mark = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    return weir__options_parse_lines(path, text + mark, length - mark, options);
}

static enum weir_status read_open_file(const struct place *place, int file, struct weir__options *options) {
    struct stat about;
    char room[200];
    if (fstat(file, &about) != 0)
        return weir__fail(WEIR_SYSTEM, 0, "fstat", "%s: file:%.200s: %s", where(place, room), place->value,
                          strerror(errno));
    if (S_ISDIR(about.st_mode)) return wrong(place, "is a directory");
    if (!S_ISREG(about.st_mode)) return wrong(place, "is not an ordinary file");
    char *text = malloc(WEIR__LARGEST_FILE + 2);
    if (text == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory to read a file of options");
    enum weir_status status = WEIR_OK;
    const ssize_t length = read_all(file, text, WEIR__LARGEST_FILE + 1);
    if (length < 0)
        status = weir__fail(WEIR_SYSTEM, 0, "read", "%s: file:%.200s can't be read: %s", where(place, room),
                            place->value, strerror(errno));
    else if ((size_t)length > WEIR__LARGEST_FILE)
        status = wrong(place, "is larger than 65536 bytes");
    else
        status = parse_without_mark(place->value, text, (size_t)length, options);
    free(text);
    return status;
}

static enum weir_status read_file(const struct place *place, struct weir__options *options) {
    char room[200];
    if (place->path != NULL) return wrong(place, "can't stand in a file: a file can't name another one");
    if (*place->value == 0) return wrong(place, "names no file");
    const int file = open(place->value, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not hold us up */
    if (file < 0)
        return weir__fail(WEIR_SYSTEM, 0, "open", "%s: file:%.200s can't be opened: %s", where(place, room),
                          place->value, strerror(errno));
    const enum weir_status status = read_open_file(place, file, options);
    close(file);
    return status;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static enum weir_status read_item(const char *item, size_t length, struct weir__options *options) {
    char text[WEIR__LONGEST_VALUE + 1];
    if (length >= sizeof text)
        return WEIR__INVALID("WEIR_OPTIONS: '%.32s...' is %zu characters long, the limit is %u", item, length,
                             WEIR__LONGEST_VALUE);
    memcpy(text, item, length);
    text[length] = 0;
    char *key = trim(text), *colon = strchr(key, ':');
    if (*key == 0) return WEIR_OK;
    if (colon == NULL) return WEIR__INVALID("WEIR_OPTIONS: '%.80s' is not key:value", key);
    *colon = 0;
    const struct place place = {.key = trim(key), .value = trim(colon + 1)};
    return read_value(&place, options);
}

enum weir_status weir__options_parse(const char *text, struct weir__options *options) {
    enum weir_status status = WEIR_OK;
    while (text != NULL && *text != 0 && status == WEIR_OK) {
        const size_t length = strcspn(text, ",");
        status = read_item(text, length, options);
        text += length + (text[length] == ',');
    }
    return status;
}

struct weir__options weir__options_default(void) {
    struct weir__options options = {0};
    static const char *const fallbacks[] = {
#define FALLBACK(key, kind, fallback, help) fallback,
        WEIR__OPTION_LIST(FALLBACK)
#undef FALLBACK
    };
    for (size_t i = 0; i < KEYS; i++) {
        const struct place place = {.key = keys[i], .value = fallbacks[i]};
        if (*fallbacks[i] != 0) (void)read_value(&place, &options); /* the test of the list sees that all are good */
    }
    options.limit.written[0] = 0;
    return options;
}

enum weir_status weir_pool_options_check(const char *text) {
    struct weir__options options = weir__options_default();
    return weir__options_parse(text, &options);
}

const char *weir_pool_options_help(void) {
    return "WEIR_OPTIONS=key:value,... holds options of weir's pools; of two values of a key the later one counts:\n"
#define HELP(key, kind, fallback, help)                                                                                \
    "  " #key ": " WEIR__OPTION_VALUE_##kind "; default: " fallback "\n"                                               \
                                             "      " help "\n"
        WEIR__OPTION_LIST(HELP)
#undef HELP
            "A file has lines `key = value`; # starts a comment.\n";
}
