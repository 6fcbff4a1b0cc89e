/* SPDX-License-Identifier: Apache-2.0 */
/* Reads machine profiles. One table of keys makes the reader and the sentences about keys. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/emu/faults.h"
#include "device/emu/quantity.h"
#include "device/emu/settings.h"
#include "device/error.h"

enum kind { TEXT, YES_OR_NO, BYTES, TIME, RATE, FLOPS, FRACTION, CALL_TIME };

struct key {
    const char *name;
    enum kind kind;
    bool needed;
    size_t offset, room;
    const char *expected;
};

#define FIELD(member) offsetof(struct emu_profile, member), sizeof(((struct emu_profile *)0)->member)
static const struct key keys[] = {
    {"name", TEXT, true, FIELD(device_name), "the device's name, at most 63 characters"},
    {"note", TEXT, false, FIELD(note), "a remark of at most 159 characters"},
    {"integrated", YES_OR_NO, false, FIELD(integrated), "yes or no"},
    {"capacity", BYTES, true, FIELD(capacity_bytes), "bytes with a unit, as in 64 MiB"},
    {"granularity", BYTES, true, FIELD(granularity_bytes), "bytes with a unit, as in 2 MiB"},
    {"arithmetic", FLOPS, false, FIELD(arithmetic_flops), EMU_FLOPS_EXPECTED},
    {"memory_rate", RATE, false, FIELD(memory_rate), EMU_RATE_EXPECTED},
    {"to_device_rate", RATE, false, FIELD(to_device_rate), EMU_RATE_EXPECTED},
    {"to_host_rate", RATE, false, FIELD(to_host_rate), EMU_RATE_EXPECTED},
    {"to_device_together", RATE, false, FIELD(to_device_together), EMU_RATE_EXPECTED},
    {"to_host_together", RATE, false, FIELD(to_host_together), EMU_RATE_EXPECTED},
    {"peer_rate", RATE, false, FIELD(peer_rate), EMU_RATE_EXPECTED},
    {"network_rate", RATE, false, FIELD(network_rate), EMU_RATE_EXPECTED},
    {"peer_latency", TIME, false, FIELD(peer_latency_ns), EMU_TIME_EXPECTED},
    {"network_latency", TIME, false, FIELD(network_latency_ns), EMU_TIME_EXPECTED},
    {"copy_time", TIME, false, FIELD(copy_ns), EMU_TIME_EXPECTED},
    {"kernel_time", TIME, false, FIELD(kernel_ns), EMU_TIME_EXPECTED},
    {"host_function_time", TIME, false, FIELD(host_function_ns), EMU_TIME_EXPECTED},
    {"launch_time", TIME, false, FIELD(launch_ns), EMU_TIME_EXPECTED},
    {"wake_time", TIME, false, FIELD(wake_ns), EMU_TIME_EXPECTED},
    {"pool_call", TIME, false, FIELD(pool_call_ns), EMU_TIME_EXPECTED},
    {"jitter", FRACTION, false, FIELD(jitter), EMU_FRACTION_EXPECTED},
    {"call", CALL_TIME, false, 0, 0, EMU_TIME_EXPECTED},
};
enum { KEYS = sizeof keys / sizeof *keys };

const char *const emu_law_names[EMU_LAWS] = {"measured", "page", "handle", "range"};

/* The laws to compare under are the same on every machine. What they charge a page is meant for a page of 2 MiB, and
 * for the granule that stands for one in a scale model. */
static const struct {
    enum emu_law law;
    enum emu_entry entry;
    const char *cost;
} law_costs[] = {
    {EMU_LAW_PAGE, EMU_AT_cuMemMap, "40 us/page"},
    {EMU_LAW_PAGE, EMU_AT_cuMemUnmap, "30 us/handle"},
    {EMU_LAW_HANDLE, EMU_AT_cuMemMap, "40 us/handle"},
    {EMU_LAW_HANDLE, EMU_AT_cuMemUnmap, "30 us/handle"},
    {EMU_LAW_RANGE, EMU_AT_cuMemMap, "1 us/page"},
    {EMU_LAW_RANGE, EMU_AT_cuMemSetAccess, "100 us"},
    {EMU_LAW_RANGE, EMU_AT_cuMemUnmap, "100 us + 1 us/page"},
};

/* The calls whose whole cost a law says: what it does not name costs as much as any call. */
static const enum emu_entry under_law[] = {EMU_AT_cuMemCreate,      EMU_AT_cuMemRelease, EMU_AT_cuMemAddressReserve,
                                           EMU_AT_cuMemAddressFree, EMU_AT_cuMemMap,     EMU_AT_cuMemUnmap,
                                           EMU_AT_cuMemSetAccess};

/* A profile while it is read. Costs stay text until the granularity is known. */
struct reading {
    const char *path;
    int line;
    struct emu_complaint complaint;
    unsigned seen; /* bit k: keys[k] */
    double call_ns;
    struct {
        unsigned length; /* of the name that gives it, as far as a '*'; 0: not given */
        char cost[96];
    } costs[EMU_LAWS][EMU_ENTRIES];
};

static bool complain_of(const struct reading *reading, const char *key, const char *value, const char *expected) {
    return emu_complain(reading->complaint, "%s:%d: %.48s = \"%.60s\": expected %s", reading->path, reading->line, key,
                        value, expected);
}

/* ---- one line --------------------------------------------------------------------------------------------------- */

static bool unknown_key(const struct reading *reading, const char *given) {
    const char *names[KEYS];
    char list[400] = "";
    for (size_t i = 0; i < KEYS; i++) {
        names[i] = keys[i].name;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s, ", keys[i].name);
    }
    const char *near = weir__nearest(given, names, KEYS);
    if (near != NULL)
        return emu_complain(reading->complaint, "%s:%d: unknown key \"%.40s\"; did you mean %s?", reading->path,
                            reading->line, given, near);
    return emu_complain(reading->complaint, "%s:%d: unknown key \"%.40s\": expected one of %scall.ENTRY, law.LAW.ENTRY",
                        reading->path, reading->line, given, list);
}

static bool given_twice(const struct reading *reading, const char *key) {
    return emu_complain(reading->complaint, "%s:%d: %.60s is given twice", reading->path, reading->line, key);
}

static bool set_key(struct reading *reading, const struct key *key, const char *value, struct emu_profile *profile) {
    static const enum emu_quantity quantities[] = {
        [TIME] = EMU_TIME, [RATE] = EMU_RATE, [FLOPS] = EMU_FLOPS, [FRACTION] = EMU_FRACTION, [CALL_TIME] = EMU_TIME};
    char *field = (char *)profile + key->offset;
    size_t bytes;
    double number;
    switch (key->kind) {
    case TEXT:
        if (value[0] == '\0' || strlen(value) >= key->room) break;
        memcpy(field, value, strlen(value) + 1);
        return true;
    case YES_OR_NO:
        if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0) break;
        *(bool *)field = value[0] == 'y';
        return true;
    case BYTES:
        if (!weir__parse_bytes(value, &bytes) || bytes == 0) break;
        memcpy(field, &bytes, sizeof bytes);
        return true;
    default:
        if (!emu_quantity_read(quantities[key->kind], value, &number)) break;
        memcpy(key->kind == CALL_TIME ? (char *)&reading->call_ns : field, &number, sizeof number);
        return true;
    }
    return complain_of(reading, key->name, value, key->expected);
}

static bool unknown_entry(const struct reading *reading, const char *key, const char *name) {
    char near[64];
    emu_entry_nearest(name, near, sizeof near);
    return emu_complain(reading->complaint, "%s:%d: %.60s: expected an entry of the driver, as cuMemMap%s%s%s",
                        reading->path, reading->line, key, near[0] ? "; did you mean " : "", near, near[0] ? "?" : "");
}

/* Sets the cost of an entry, unless a longer name has said it: false when one as long has. */
static bool keep_cost(struct reading *reading, enum emu_law law, enum emu_entry entry, unsigned length,
                      const char *cost) {
    if (reading->costs[law][entry].length == length) return false;
    if (reading->costs[law][entry].length > length) return true;
    reading->costs[law][entry].length = length;
    strcpy(reading->costs[law][entry].cost, cost);
    return true;
}

/* "cuMemcpy*": all whose names begin so, and that no longer name means. */
static bool set_costs(struct reading *reading, const char *key, enum emu_law law, const char *name, const char *cost) {
    const unsigned length = (unsigned)strlen(name) - 1;
    bool found = false, kept = true;
    for (enum emu_entry entry = 0; entry < EMU_ENTRIES; entry++) {
        if (strncmp(emu_entry_name(entry), name, length) != 0) continue;
        found = true;
        kept = keep_cost(reading, law, entry, length, cost) && kept;
    }
    if (!found)
        return emu_complain(reading->complaint, "%s:%d: %.60s: no entry of the driver begins so", reading->path,
                            reading->line, key);
    return kept || given_twice(reading, key);
}

/* call.ENTRY or law.LAW.ENTRY. The cost is checked now, and read when the granularity is known. */
static bool set_cost(struct reading *reading, const char *key, enum emu_law law, const char *name, const char *value) {
    struct emu_cost cost;
    const size_t length = strlen(name);
    const bool many = length > 1 && name[length - 1] == '*';
    const enum emu_entry entry = many ? EMU_ENTRIES : emu_entry_find(name);
    if (!many && entry == EMU_ENTRIES) return unknown_entry(reading, key, name);
    if (strlen(value) >= sizeof reading->costs[law][0].cost || !emu_cost_read(value, 1, &cost))
        return complain_of(reading, key, value, EMU_COST_EXPECTED);
    if (many) return set_costs(reading, key, law, name, value);
    return keep_cost(reading, law, entry, UINT_MAX, value) || given_twice(reading, key);
}

static bool set_law(struct reading *reading, const char *key, const char *value) {
    const char *name = key + strlen("law.");
    for (enum emu_law law = EMU_LAW_PAGE; law < EMU_LAWS; law++) {
        const size_t length = strlen(emu_law_names[law]);
        if (strncmp(name, emu_law_names[law], length) == 0 && name[length] == '.')
            return set_cost(reading, key, law, name + length + 1, value);
    }
    char given[32];
    snprintf(given, sizeof given, "%.*s", (int)strcspn(name, "."), name);
    const char *near = weir__nearest(given, emu_law_names + 1, EMU_LAWS - 1);
    return emu_complain(reading->complaint,
                        "%s:%d: %.60s: expected law.page.ENTRY, law.handle.ENTRY or "
                        "law.range.ENTRY%s%s%s",
                        reading->path, reading->line, key, near ? "; did you mean law." : "", near ? near : "",
                        near ? "?" : "");
}

static bool read_line(struct reading *reading, char *line, struct emu_profile *profile) {
    line[strcspn(line, "#\n")] = '\0';
    char *name = emu_trim(line);
    if (*name == '\0') return true;
    char *equals = strchr(name, '=');
    if (equals == NULL)
        return emu_complain(reading->complaint, "%s:%d: \"%.60s\": expected key = value", reading->path, reading->line,
                            name);
    *equals = '\0';
    name = emu_trim(name);
    const char *value = emu_trim(equals + 1);
    for (unsigned i = 0; i < KEYS; i++) {
        if (strcmp(name, keys[i].name) != 0) continue;
        if (reading->seen & 1u << i) return given_twice(reading, name);
        reading->seen |= 1u << i;
        return set_key(reading, &keys[i], value, profile);
    }
    if (strncmp(name, "call.", 5) == 0) return set_cost(reading, name, EMU_LAW_MEASURED, name + 5, value);
    if (strncmp(name, "law.", 4) == 0) return set_law(reading, name, value);
    return unknown_key(reading, name);
}

/* ---- one file --------------------------------------------------------------------------------------------------- */

static bool check_sizes(const struct reading *reading, const struct emu_profile *profile) {
    for (unsigned i = 0; i < KEYS; i++)
        if (!(reading->seen & 1u << i) && keys[i].needed)
            return emu_complain(reading->complaint, "%s: %s is missing: expected %s", reading->path, keys[i].name,
                                keys[i].expected);
    const size_t granule = profile->granularity_bytes, page = (size_t)sysconf(_SC_PAGESIZE);
    if ((granule & (granule - 1)) != 0 || granule % page != 0)
        return emu_complain(
            reading->complaint,
            "%s: granularity is %zu bytes: expected a power of two of at least this machine's page, %zu", reading->path,
            granule, page);
    if (profile->capacity_bytes < granule)
        return emu_complain(reading->complaint, "%s: capacity is %zu bytes: expected at least the granularity, %zu",
                            reading->path, profile->capacity_bytes, granule);
    return true;
}

/* Copies both ways don't go faster than copies one way; what is not given is as fast. */
static bool settle_together(const struct reading *reading, const char *direction, double alone, double *together) {
    if (*together == 0) *together = alone;
    if (*together <= alone) return true;
    return emu_complain(reading->complaint, "%s: %s_together is %g B/s: expected at most %s_rate, %g B/s",
                        reading->path, direction, *together, direction, alone);
}

static void settle_measured(const struct reading *reading, struct emu_profile *profile) {
    for (enum emu_entry entry = 0; entry < EMU_ENTRIES; entry++) {
        profile->calls[EMU_LAW_MEASURED][entry] = (struct emu_cost){.fixed_ns = reading->call_ns};
        if (reading->costs[EMU_LAW_MEASURED][entry].length != 0)
            emu_cost_read(reading->costs[EMU_LAW_MEASURED][entry].cost, profile->granularity_bytes,
                          &profile->calls[EMU_LAW_MEASURED][entry]);
    }
}

static void settle_law(const struct reading *reading, enum emu_law law, struct emu_profile *profile) {
    struct emu_cost *costs = profile->calls[law];
    memcpy(costs, profile->calls[EMU_LAW_MEASURED], sizeof profile->calls[law]);
    for (size_t i = 0; i < sizeof under_law / sizeof *under_law; i++)
        costs[under_law[i]] = (struct emu_cost){.fixed_ns = reading->call_ns};
    for (size_t i = 0; i < sizeof law_costs / sizeof *law_costs; i++)
        if (law_costs[i].law == law)
            emu_cost_read(law_costs[i].cost, profile->granularity_bytes, &costs[law_costs[i].entry]);
    for (enum emu_entry entry = 0; entry < EMU_ENTRIES; entry++)
        if (reading->costs[law][entry].length != 0)
            emu_cost_read(reading->costs[law][entry].cost, profile->granularity_bytes, &costs[entry]);
}

static bool settle_profile(const struct reading *reading, struct emu_profile *profile) {
    if (!check_sizes(reading, profile) ||
        !settle_together(reading, "to_device", profile->to_device_rate, &profile->to_device_together) ||
        !settle_together(reading, "to_host", profile->to_host_rate, &profile->to_host_together))
        return false;
    const double in = profile->to_device_rate, out = profile->to_host_rate;
    if (profile->peer_rate == 0) profile->peer_rate = in < out ? in : out; /* through the host */
    settle_measured(reading, profile);
    for (enum emu_law law = EMU_LAW_PAGE; law < EMU_LAWS; law++) settle_law(reading, law, profile);
    return true;
}

static bool read_file(FILE *file, struct reading *reading, struct emu_profile *profile) {
    char line[512];
    while (fgets(line, sizeof line, file) != NULL) {
        reading->line++;
        if (strchr(line, '\n') == NULL && !feof(file)) /* zero bytes count too: /dev/zero has one line without end */
            return emu_complain(reading->complaint, "%s:%d: the line is longer than %zu characters", reading->path,
                                reading->line, sizeof line - 2);
        if (!read_line(reading, line, profile)) return false;
    }
    if (ferror(file)) return emu_complain(reading->complaint, "%s: can't be read: %s", reading->path, strerror(errno));
    return settle_profile(reading, profile);
}

bool emu_profile_parse(FILE *file, const char *path, struct emu_profile *profile, struct emu_complaint complaint) {
    memset(profile, 0, sizeof *profile);
    struct reading *reading = calloc(1, sizeof *reading); /* large: not for a stack of a thread */
    if (reading == NULL) return emu_complain(complaint, "%s: no host memory", path);
    reading->path = path;
    reading->complaint = complaint;
    const bool read = read_file(file, reading, profile);
    free(reading);
    return read;
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

/* The profile of the folder whose name is nearest to one that is not there; "" when none is near. */
static void find_nearest(const char *folder, const char *name, char *nearest, size_t room) {
    enum { MOST = 64 };
    char names[MOST][64];
    const char *known[MOST];
    size_t count = 0;
    nearest[0] = '\0';
    DIR *entries = opendir(folder);
    if (entries == NULL) return;
    for (struct dirent *entry = readdir(entries); entry != NULL && count < MOST; entry = readdir(entries)) {
        const size_t length = strcspn(entry->d_name, ".");
        if (strcmp(entry->d_name + length, ".profile") != 0 || length >= sizeof names[count]) continue;
        snprintf(names[count], sizeof names[count], "%.*s", (int)length, entry->d_name);
        known[count] = names[count];
        count++;
    }
    closedir(entries);
    const char *found = weir__nearest(name, known, count);
    snprintf(nearest, room, "%s", found != NULL ? found : "");
}

static FILE *open_named(const char *name, char *path, size_t room, struct emu_complaint complaint) {
    char own[3500], folder[4000], near[64] = "";
    find_own_folder(own, sizeof own);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(folder, sizeof folder, "%s/%s", own, folders[i]);
        snprintf(path, room, "%s/%s.profile", folder, name);
        FILE *file = fopen(path, "re");
        if (file != NULL) return file;
        if (near[0] == '\0') find_nearest(folder, name, near, sizeof near);
    }
    emu_complain(
        complaint,
        "profile:%.60s is unknown: no %.60s.profile in the folder share/weir/profiles that belongs to the driver "
        "in %.120s; a path must have a '/'%s%s%s",
        name, name, own, near[0] ? "; did you mean " : "", near, near[0] ? "?" : "");
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
    const bool read = emu_profile_parse(file, path, profile, complaint);
    fclose(file);
    const char *base = strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name;
    snprintf(profile->name, sizeof profile->name, "%.*s", (int)strcspn(base, "."), base);
    return read;
}
