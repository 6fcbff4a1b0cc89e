/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/settings.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/emu.h"
#include "device/error.h"

/* What a text of settings may say; an empty value was not given. */
struct given {
    char profile[256], capacity[64], devices[16];
};

static const char *const key_names[] = {"profile", "capacity", "devices"};
enum { KEYS = sizeof key_names / sizeof *key_names };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_settings settled;
static bool is_settled, in_use;

bool emu_complain(struct emu_complaint complaint, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (complaint.text != NULL && complaint.room > 0) vsnprintf(complaint.text, complaint.room, format, arguments);
    va_end(arguments);
    return false;
}

const struct emu_settings *emu_settings(void) { return &settled; }

/* ---- the text --------------------------------------------------------------------------------------------------- */

static char *field_of(struct given *given, size_t key, size_t *room) {
    static const size_t rooms[KEYS] = {sizeof given->profile, sizeof given->capacity, sizeof given->devices};
    char *const fields[KEYS] = {given->profile, given->capacity, given->devices};
    *room = rooms[key];
    return fields[key];
}

static bool set(const char *where, const char *key, const char *value, struct given *given,
                struct emu_complaint complaint) {
    for (size_t i = 0; i < KEYS; i++) {
        if (strcmp(key, key_names[i]) != 0) continue;
        size_t room;
        char *field = field_of(given, i, &room);
        if (field[0] != '\0') return emu_complain(complaint, "%s: %s is given twice", where, key);
        if (value[0] == '\0' || strlen(value) >= room)
            return emu_complain(complaint, "%s: %s:%.80s: expected a value of 1 to %zu characters", where, key, value,
                                room - 1);
        memcpy(field, value, strlen(value) + 1);
        return true;
    }
    const char *near = weir__nearest(key, key_names, KEYS);
    return emu_complain(complaint, "%s: unknown key \"%.40s\": expected profile, capacity or devices%s%s%s", where, key,
                        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool parse(const char *where, const char *text, struct given *given, struct emu_complaint complaint) {
    char copy[1024];
    if (strlen(text) >= sizeof copy)
        return emu_complain(complaint, "%s: longer than %zu characters", where, sizeof copy - 1);
    strcpy(copy, text);
    char *rest = copy;
    for (char *item = strsep(&rest, ","); item != NULL; item = strsep(&rest, ",")) {
        if (*item == '\0') continue;
        char *colon = strchr(item, ':');
        if (colon == NULL)
            return emu_complain(
                complaint, "%s: \"%.60s\": expected key:value, with the keys profile, capacity, devices", where, item);
        *colon = '\0';
        if (!set(where, item, colon + 1, given, complaint)) return false;
    }
    return true;
}

/* ---- what it means ---------------------------------------------------------------------------------------------- */

static bool settle_capacity(const struct given *given, struct emu_settings *settings, struct emu_complaint complaint) {
    settings->granularity_bytes = settings->profile.granularity_bytes;
    settings->capacity_bytes = settings->profile.capacity_bytes;
    if (given->capacity[0] != '\0' && !weir__parse_bytes(given->capacity, &settings->capacity_bytes))
        return emu_complain(complaint, "capacity:%s: expected bytes, as 64M or 67108864", given->capacity);
    if (settings->capacity_bytes < settings->granularity_bytes)
        return emu_complain(complaint, "capacity:%s is %zu bytes: expected at least one granule of profile %s, %zu",
                            given->capacity, settings->capacity_bytes, settings->profile.name,
                            settings->granularity_bytes);
    return true;
}

static bool settle_devices(const struct given *given, struct emu_settings *settings, struct emu_complaint complaint) {
    settings->devices = 1;
    if (given->devices[0] == '\0') return true;
    char *end;
    const long devices = strtol(given->devices, &end, 10);
    if (*end != '\0' || devices < 1 || devices > EMU_MOST_DEVICES)
        return emu_complain(complaint, "devices:%s: expected a number from 1 to %d", given->devices, EMU_MOST_DEVICES);
    settings->devices = (int)devices;
    return true;
}

static void fill_in(struct given *given, const struct given *otherwise) {
    for (size_t i = 0; i < KEYS; i++) {
        size_t room;
        char *field = field_of(given, i, &room);
        if (field[0] == '\0') memcpy(field, field_of((struct given *)otherwise, i, &room), room);
    }
}

static bool settle(const char *text, struct emu_complaint complaint) {
    struct given given = {0}, environment = {0};
    const char *variable = getenv("WEIR_EMU");
    if (text != NULL && !parse("emulated machine", text, &given, complaint)) return false;
    if (variable != NULL && !parse("WEIR_EMU", variable, &environment, complaint)) return false;
    fill_in(&given, &environment);
    struct emu_settings settings;
    if (!emu_profile_read(given.profile[0] != '\0' ? given.profile : "demo", &settings.profile, complaint))
        return false;
    if (!settle_capacity(&given, &settings, complaint) || !settle_devices(&given, &settings, complaint)) return false;
    settled = settings;
    return true;
}

bool emu_settings_settle(const char *given, struct emu_complaint complaint) {
    pthread_mutex_lock(&lock);
    if (!in_use) is_settled = settle(given, complaint);
    const bool good = is_settled;
    pthread_mutex_unlock(&lock);
    return good;
}

bool emu_settings_use(struct emu_complaint complaint) {
    pthread_mutex_lock(&lock);
    if (!is_settled) is_settled = settle(NULL, complaint);
    in_use = is_settled;
    const bool good = in_use;
    pthread_mutex_unlock(&lock);
    return good;
}
