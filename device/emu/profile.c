/* SPDX-License-Identifier: Apache-2.0 */
/* Reads machine profiles. One table of keys makes the reader and the list of known keys. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/emu/settings.h"
#include "device/error.h"

enum kind { TEXT, BYTES };

struct key {
    const char *name;
    enum kind kind;
    size_t offset, room;
    const char *expected;
};

#define FIELD(member) offsetof(struct emu_profile, member), sizeof(((struct emu_profile *)0)->member)
static const struct key keys[] = {
    {"name", TEXT, FIELD(device_name), "the device's name, at most 63 characters"},
    {"note", TEXT, FIELD(note), "a remark of at most 159 characters"},
    {"capacity", BYTES, FIELD(capacity_bytes), "bytes with a unit, as in 64 MiB"},
    {"granularity", BYTES, FIELD(granularity_bytes), "bytes with a unit, as in 2 MiB"},
};
enum { KEYS = sizeof keys / sizeof *keys };

/* ---- one line --------------------------------------------------------------------------------------------------- */

/* Where a line comes from, for sentences. */
struct place {
    const char *path;
    int line;
    struct emu_complaint complaint;
};

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = '\0';
    return text;
}

static bool unknown_key(const struct place *place, const char *given) {
    const char *names[KEYS];
    for (size_t i = 0; i < KEYS; i++) names[i] = keys[i].name;
    const char *near = weir__nearest(given, names, KEYS);
    return emu_complain(place->complaint,
                        "%s:%d: unknown key \"%.40s\": expected name, note, capacity or granularity%s%s%s", place->path,
                        place->line, given, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool set_key(const struct place *place, const struct key *key, const char *value, struct emu_profile *profile) {
    char *field = (char *)profile + key->offset;
    size_t bytes;
    if (key->kind == TEXT && value[0] != '\0' && strlen(value) < key->room) {
        memcpy(field, value, strlen(value) + 1);
        return true;
    }
    if (key->kind == BYTES && weir__parse_bytes(value, &bytes) && bytes > 0) {
        memcpy(field, &bytes, sizeof bytes);
        return true;
    }
    return emu_complain(place->complaint, "%s:%d: %s = \"%.60s\": expected %s", place->path, place->line, key->name,
                        value, key->expected);
}

static bool read_line(const struct place *place, char *line, unsigned *seen, struct emu_profile *profile) {
    line[strcspn(line, "#\n")] = '\0';
    char *name = trim(line);
    if (*name == '\0') return true;
    char *equals = strchr(name, '=');
    if (equals == NULL)
        return emu_complain(place->complaint, "%s:%d: \"%.60s\": expected key = value", place->path, place->line, name);
    *equals = '\0';
    name = trim(name);
    for (unsigned i = 0; i < KEYS; i++) {
        if (strcmp(name, keys[i].name) != 0) continue;
        if (*seen & 1u << i)
            return emu_complain(place->complaint, "%s:%d: %s is given twice", place->path, place->line, name);
        *seen |= 1u << i;
        return set_key(place, &keys[i], trim(equals + 1), profile);
    }
    return unknown_key(place, name);
}

/* ---- one file --------------------------------------------------------------------------------------------------- */

static bool check_profile(const struct place *place, unsigned seen, const struct emu_profile *profile) {
    for (unsigned i = 0; i < KEYS; i++)
        if (!(seen & 1u << i) && strcmp(keys[i].name, "note") != 0)
            return emu_complain(place->complaint, "%s: %s is missing: expected %s", place->path, keys[i].name,
                                keys[i].expected);
    const size_t granule = profile->granularity_bytes, page = (size_t)sysconf(_SC_PAGESIZE);
    if ((granule & (granule - 1)) != 0 || granule % page != 0)
        return emu_complain(
            place->complaint,
            "%s: granularity is %zu bytes: expected a power of two of at least this machine's page, %zu", place->path,
            granule, page);
    return true;
}

static bool read_file(const char *path, FILE *file, struct emu_profile *profile, struct emu_complaint complaint) {
    struct place place = {path, 0, complaint};
    unsigned seen = 0;
    char line[512];
    while (fgets(line, sizeof line, file) != NULL) {
        place.line++;
        if (strchr(line, '\n') == NULL && !feof(file)) /* zero bytes count too: /dev/zero has one line without end */
            return emu_complain(complaint, "%s:%d: the line is longer than %zu characters", path, place.line,
                                sizeof line - 2);
        if (!read_line(&place, line, &seen, profile)) return false;
    }
    return check_profile(&place, seen, profile);
}

/* ---- finding it ------------------------------------------------------------------------------------------------- */

/* Folders of profiles, seen from the folder of this driver: in the build tree (lib/emu), installed under lib/weir/emu,
 * and under lib/TRIPLET/weir/emu. */
static const char *const folders[] = {"../../share/weir/profiles", "../../../share/weir/profiles",
                                      "../../../../share/weir/profiles"};

static void find_own_folder(char *folder, size_t room) {
    Dl_info here;
    char *real = dladdr((const void *)keys, &here) != 0 ? realpath(here.dli_fname, NULL) : NULL;
    snprintf(folder, room, "%s", real != NULL ? dirname(real) : ".");
    free(real);
}

static FILE *open_named(const char *name, char *path, size_t room, struct emu_complaint complaint) {
    char own[3500];
    find_own_folder(own, sizeof own);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, room, "%s/%s/%s.profile", own, folders[i], name);
        FILE *file = fopen(path, "re");
        if (file != NULL) return file;
    }
    emu_complain(
        complaint,
        "profile:%.60s is unknown: no %.60s.profile in the folder share/weir/profiles that belongs to the driver "
        "in %.200s; a path must have a '/'",
        name, name, own);
    return NULL;
}

static FILE *open_path(const char *path, struct emu_complaint complaint) {
    FILE *file = fopen(path, "re");
    if (file == NULL) emu_complain(complaint, "profile: can't open %.200s: %s", path, strerror(errno));
    return file;
}

bool emu_profile_read(const char *name, struct emu_profile *profile, struct emu_complaint complaint) {
    char path[4200];
    snprintf(path, sizeof path, "%s", name);
    FILE *file =
        strchr(name, '/') != NULL ? open_path(path, complaint) : open_named(name, path, sizeof path, complaint);
    if (file == NULL) return false;
    memset(profile, 0, sizeof *profile);
    const bool read = read_file(path, file, profile, complaint);
    fclose(file);
    const char *base = strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name;
    snprintf(profile->name, sizeof profile->name, "%.*s", (int)strcspn(base, "."), base);
    return read;
}
