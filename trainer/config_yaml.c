/* SPDX-License-Identifier: Apache-2.0 */
/* YAML into the options table, by libyaml's events: a mapping of sections, each a mapping of keys to one value. Nothing
 * nests deeper, so that nothing is built in memory and a hostile file ends at its first wrong event. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "trainer/config_table.h"
#include "trainer/text.h"

enum { LARGEST_FILE = 1 << 20, LONGEST_PATH_SHOWN = 200 };

struct reader {
    struct config *config;
    const char *path;
    FILE *file;
    size_t bytes; /* read so far */
    int read_errno;
    yaml_parser_t parser;
    yaml_event_t event;
    char *message;
    size_t room;
    bool seen[CONFIG_OPTIONS]; /* keys met, to find a second one */
    size_t line_of[CONFIG_OPTIONS];
};

static int read_bytes(void *data, unsigned char *buffer, size_t size, size_t *given) {
    struct reader *r = data;
    *given = fread(buffer, 1, size, r->file);
    r->bytes += *given;
    r->read_errno = ferror(r->file) ? errno : 0;
    return !r->read_errno && r->bytes <= LARGEST_FILE;
}

__attribute__((format(printf, 3, 4))) static int refuse(struct reader *r, size_t line, const char *format, ...) {
    char what[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return text_fail(2, r->message, r->room, "%.*s, line %zu: %s", LONGEST_PATH_SHOWN, r->path, line + 1, what);
}

static int refuse_syntax(struct reader *r) {
    if (r->read_errno)
        return text_fail(2, r->message, r->room, "%.*s can't be read: %s", LONGEST_PATH_SHOWN, r->path,
                         strerror(r->read_errno));
    if (r->bytes > LARGEST_FILE)
        return text_fail(2, r->message, r->room, "%.*s is larger than the %d bytes that a configuration may have",
                         LONGEST_PATH_SHOWN, r->path, LARGEST_FILE);
    size_t line = r->parser.problem_mark.line ? r->parser.problem_mark.line : r->parser.mark.line;
    return refuse(r, line, "this is not YAML: %s%s%s", r->parser.problem ? r->parser.problem : "unknown problem",
                  r->parser.context ? ", " : "", r->parser.context ? r->parser.context : "");
}

/* Replaces r->event by the next one. */
static int next(struct reader *r) {
    yaml_event_delete(&r->event);
    return yaml_parser_parse(&r->parser, &r->event) ? 0 : refuse_syntax(r);
}

static size_t line_here(const struct reader *r) { return r->event.start_mark.line; }

static const char *event_name(yaml_event_type_t type) {
    return type == YAML_SEQUENCE_START_EVENT  ? "a list"
           : type == YAML_MAPPING_START_EVENT ? "a mapping"
           : type == YAML_ALIAS_EVENT         ? "an alias"
                                              : "something else";
}

/* Copies the scalar that the event is; a name or a value never has a zero byte. */
static int take_scalar(struct reader *r, const char *what, char *out, size_t room) {
    if (r->event.type != YAML_SCALAR_EVENT)
        return refuse(r, line_here(r), "%s is %s, but one value is expected", what, event_name(r->event.type));
    size_t length = r->event.data.scalar.length;
    const char *value = (const char *)r->event.data.scalar.value;
    if (memchr(value, 0, length)) return refuse(r, line_here(r), "%s has a zero byte in it", what);
    if (length >= room)
        return refuse(r, line_here(r), "%s has %zu characters, more than the %zu that it may have", what, length,
                      room - 1);
    memcpy(out, value, length + 1);
    return 0;
}

static int unknown_section(struct reader *r, size_t line, const char *name) {
    const struct option *options = config_options();
    const char *names[CONFIG_OPTIONS];
    for (int i = 0; i < CONFIG_OPTIONS; i++) names[i] = options[i].section;
    const char *nearest = text_nearest(name, names, CONFIG_OPTIONS);
    return refuse(r, line, "unknown section \"%s\"%s%s", name,
                  nearest ? "; the nearest known one is " : "; weir-train --dump-config shows the known ones",
                  nearest ? nearest : "");
}

/* Says where a key of another section belongs, else names the nearest key of all. */
static int unknown_key(struct reader *r, size_t line, const char *section, const char *name) {
    const struct option *options = config_options();
    const char *names[CONFIG_OPTIONS];
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        names[i] = options[i].key;
        if (strcmp(name, options[i].key) == 0)
            return refuse(r, line, "key \"%s\" stands in section %s, but it belongs to %s", name, section,
                          options[i].section);
    }
    const char *nearest = text_nearest(name, names, CONFIG_OPTIONS);
    return refuse(r, line, "unknown key \"%s\" in section %s%s%s", name, section,
                  nearest ? "; the nearest known one is " : "; weir-train --help lists the known ones",
                  nearest ? nearest : "");
}

static int find_option(const char *section, const char *key) {
    const struct option *options = config_options();
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        if (strcmp(options[i].key, key) == 0 && strcmp(options[i].section, section) == 0) return i;
    return -1;
}

/* `key: value` of a section; the event is the key. */
static int read_key(struct reader *r, const char *section) {
    char key[128], value[2048], name[260];
    size_t line = line_here(r);
    int status = take_scalar(r, "a key", key, sizeof key);
    if (status) return status;
    int index = find_option(section, key);
    if (index < 0) return unknown_key(r, line, section, key);
    if (r->seen[index])
        return refuse(r, line, "key %s.%s is given twice; first in line %zu", section, key, r->line_of[index] + 1);
    r->seen[index] = true;
    r->line_of[index] = line;
    snprintf(name, sizeof name, "%s.%s", section, key);
    if ((status = next(r)) || (status = take_scalar(r, name, value, sizeof value))) return status;
    char what[256];
    if (config_set(r->config, &config_options()[index], name, value, what, sizeof what))
        return refuse(r, line_here(r), "%s", what);
    return 0;
}

/* `section: { ... }` of the document; the event is the section's name. An empty section is allowed. */
static int read_section(struct reader *r) {
    const struct option *options = config_options();
    char section[128];
    size_t line = line_here(r);
    int status = take_scalar(r, "a section's name", section, sizeof section), known = 0;
    if (status) return status;
    for (int i = 0; i < CONFIG_OPTIONS; i++) known |= strcmp(options[i].section, section) == 0;
    if (!known) return unknown_section(r, line, section);
    if ((status = next(r))) return status;
    if (r->event.type == YAML_SCALAR_EVENT && !r->event.data.scalar.length) return 0;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, line_here(r), "section %s is %s, but a mapping of keys is expected", section,
                      r->event.type == YAML_SCALAR_EVENT ? "one value" : event_name(r->event.type));
    while (!(status = next(r)) && r->event.type != YAML_MAPPING_END_EVENT)
        if ((status = read_key(r, section))) return status;
    return status;
}

static int read_document(struct reader *r) {
    int status = next(r);
    if (status) return status;
    if (r->event.type == YAML_SCALAR_EVENT && !r->event.data.scalar.length)
        ; /* nothing but comments */
    else if (r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, line_here(r), "sections are expected, as `train: { steps: 100 }`");
    else
        while (!(status = next(r)) && r->event.type != YAML_MAPPING_END_EVENT)
            if ((status = read_section(r))) return status;
    return status ? status : next(r); /* the document's end */
}

static int read_stream(struct reader *r) {
    int status = next(r); /* the stream's start */
    if (status || (status = next(r)) || r->event.type == YAML_STREAM_END_EVENT) return status;
    if ((status = read_document(r)) || (status = next(r))) return status;
    if (r->event.type == YAML_STREAM_END_EVENT) return 0;
    return refuse(r, line_here(r), "a second document starts; a configuration is one");
}

/* An ordinary file only: the launcher and every rank read it, and what flows through a pipe is there for the first. */
static FILE *open_ordinary(const char *path, char *message, size_t room) {
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hold us */
    if (fd < 0 || fstat(fd, &file))
        text_fail(2, message, room, "%.*s can't be read: %s", LONGEST_PATH_SHOWN, path, strerror(errno));
    else if (!S_ISREG(file.st_mode))
        text_fail(2, message, room, "%.*s is not an ordinary file, which a configuration has to be", LONGEST_PATH_SHOWN,
                  path);
    else
        return fdopen(fd, "rb");
    if (fd >= 0) close(fd);
    return NULL;
}

int config_read_yaml(struct config *config, const char *path, char *message, size_t room) {
    struct reader r = {.config = config, .path = path, .message = message, .room = room};
    if (!(r.file = open_ordinary(path, message, room))) return 2;
    int status = 2;
    if (yaml_parser_initialize(&r.parser)) {
        yaml_parser_set_input(&r.parser, read_bytes, &r);
        status = read_stream(&r);
        yaml_event_delete(&r.event);
        yaml_parser_delete(&r.parser);
    } else {
        text_fail(2, message, room, "%.*s can't be read: no memory", LONGEST_PATH_SHOWN, path);
    }
    fclose(r.file);
    return status;
}
