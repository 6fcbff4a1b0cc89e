/* SPDX-License-Identifier: Apache-2.0 */
/* One table of keys makes the reader, its sentences and the lists in them. */
#include "device/emu/settings.h"

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/emu.h"
#include "device/emu/faults.h"
#include "device/emu/quantity.h"
#include "device/error.h"

enum key {
    PROFILE,
    CAPACITY,
    DEVICES,
    CLOCK,
    SEED,
    JITTER,
    WATCH,
    MEMORY,
    LAW,
    OTHERS,
    CACHED,
    REFUSE,
    DELAY,
    FAULT,
    KEYS
};

/* What the texts say, as written; an empty value was not given. */
struct given {
    char value[KEYS][sizeof((struct emu_settings *)0)->faults];
};

/* How a key's value becomes a setting. `value` is "" when it was not given; profile and capacity come first. */
typedef bool settle_key(const char *value, struct emu_settings *settings, struct emu_complaint complaint);
static settle_key settle_profile, settle_capacity, settle_devices, settle_clock, settle_seed, settle_jitter,
    settle_watch, settle_memory, settle_law, settle_others, settle_cached, settle_refuse, settle_delay, settle_fault;

static const struct {
    const char *name;
    settle_key *settle;
} keys[KEYS] = {
    [PROFILE] = {"profile", settle_profile},
    [CAPACITY] = {"capacity", settle_capacity},
    [DEVICES] = {"devices", settle_devices},
    [CLOCK] = {"clock", settle_clock},
    [SEED] = {"seed", settle_seed},
    [JITTER] = {"jitter", settle_jitter},
    [WATCH] = {"watch", settle_watch},
    [MEMORY] = {"memory", settle_memory},
    [LAW] = {"law", settle_law},
    [OTHERS] = {"others", settle_others},
    [CACHED] = {"cached", settle_cached},
    [REFUSE] = {"refuse", settle_refuse},
    [DELAY] = {"delay", settle_delay},
    [FAULT] = {"fault", settle_fault},
};

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

/* Writes "a, b or c". */
static const char *list_words(const char *const *words, size_t count, char *list, size_t room) {
    list[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(list);
        snprintf(list + length, room - length, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", words[i]);
    }
    return list;
}

static const char *list_keys(const char *names[KEYS], char *list, size_t room) {
    for (size_t i = 0; i < KEYS; i++) names[i] = keys[i].name;
    return list_words(names, KEYS, list, room);
}

static bool set(const char *where, const char *key, const char *value, struct given *given,
                struct emu_complaint complaint) {
    for (size_t i = 0; i < KEYS; i++) {
        if (strcmp(key, keys[i].name) != 0) continue;
        if (given->value[i][0] != '\0') return emu_complain(complaint, "%s: %s is given twice", where, key);
        if (value[0] == '\0' || strlen(value) >= sizeof given->value[i])
            return emu_complain(complaint, "%s: %s:%.80s: expected a value of 1 to %zu characters", where, key, value,
                                sizeof given->value[i] - 1);
        memcpy(given->value[i], value, strlen(value) + 1);
        return true;
    }
    const char *names[KEYS];
    char list[200];
    list_keys(names, list, sizeof list);
    const char *near = weir__nearest(key, names, KEYS);
    return emu_complain(complaint, "%s: unknown key \"%.40s\": expected %s%s%s%s", where, key, list,
                        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool parse_item(const char *where, char *item, struct given *given, struct emu_complaint complaint) {
    const char *names[KEYS];
    char list[200];
    char *colon = strchr(item, ':');
    if (colon == NULL)
        return emu_complain(complaint, "%s: \"%.60s\": expected key:value, with the keys %s", where, item,
                            list_keys(names, list, sizeof list));
    *colon = '\0';
    return set(where, emu_trim(item), emu_trim(colon + 1), given, complaint);
}

static bool parse(const char *where, const char *text, struct given *given, struct emu_complaint complaint) {
    char copy[2048];
    if (strlen(text) >= sizeof copy)
        return emu_complain(complaint, "%s: longer than %zu characters", where, sizeof copy - 1);
    strcpy(copy, text);
    if (*emu_trim(copy) == '\0') return true;
    char *rest = copy;
    for (char *item = strsep(&rest, ","); item != NULL; item = strsep(&rest, ","))
        if (!parse_item(where, item, given, complaint)) return false;
    return true;
}

/* ---- what it means ---------------------------------------------------------------------------------------------- */

static bool expected(const char *key, const char *value, const char *what, struct emu_complaint complaint) {
    return emu_complain(complaint, "%s:%.80s: expected %s", key, value, what);
}

/* Finds the value among the words; *choice stays when it was not given. */
static bool choose(const char *key, const char *value, const char *const *words, size_t count, size_t *choice,
                   struct emu_complaint complaint) {
    if (value[0] == '\0') return true;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, words[i]) != 0) continue;
        *choice = i;
        return true;
    }
    char list[120];
    const char *near = weir__nearest(value, words, count);
    return emu_complain(complaint, "%s:%.80s: expected %s%s%s%s", key, value,
                        list_words(words, count, list, sizeof list), near ? "; did you mean " : "", near ? near : "",
                        near ? "?" : "");
}
#define CHOOSE(key, words, choice) choose(key, value, words, sizeof(words) / sizeof *(words), choice, complaint)

static bool settle_profile(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    if (!emu_profile_read(value[0] != '\0' ? value : "demo", &settings->profile, complaint)) return false;
    settings->granularity_bytes = settings->profile.granularity_bytes;
    settings->capacity_bytes = settings->profile.capacity_bytes;
    return true;
}

static bool settle_capacity(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    if (value[0] == '\0') return true;
    if (!weir__parse_bytes(value, &settings->capacity_bytes))
        return expected("capacity", value, "bytes, as 64M or 67108864", complaint);
    if (settings->capacity_bytes < settings->granularity_bytes)
        return emu_complain(complaint, "capacity:%.80s is %zu bytes: expected at least one granule of profile %s, %zu",
                            value, settings->capacity_bytes, settings->profile.name, settings->granularity_bytes);
    return true;
}

/* A whole number; false when there is none, or one past `most`. */
static bool read_whole(const char *text, uint64_t most, uint64_t *number) {
    uint64_t value = 0;
    if (*text == '\0') return false;
    for (; isdigit((unsigned char)*text); text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (digit > most || value > (most - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *number = value;
    return *text == '\0';
}

static bool settle_devices(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    uint64_t devices = 1;
    if (value[0] != '\0' && (!read_whole(value, EMU_MOST_DEVICES, &devices) || devices == 0))
        return emu_complain(complaint, "devices:%.80s: expected a number from 1 to %d", value, EMU_MOST_DEVICES);
    settings->devices = (int)devices;
    return true;
}

/* The virtual clock takes every time from the profile: what has no sensible value of itself must be there. */
static bool check_rates(const struct emu_profile *profile, struct emu_complaint complaint) {
    const struct {
        const char *key;
        double value;
    } needed[] = {{"arithmetic", profile->arithmetic_flops},
                  {"memory_rate", profile->memory_rate},
                  {"to_device_rate", profile->to_device_rate},
                  {"to_host_rate", profile->to_host_rate}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].value == 0)
            return emu_complain(complaint, "clock:virtual needs %s, which profile %s does not say", needed[i].key,
                                profile->name);
    return true;
}

static bool settle_clock(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    static const char *const words[] = {[EMU_CLOCK_REAL] = "real", [EMU_CLOCK_VIRTUAL] = "virtual"};
    size_t choice = EMU_CLOCK_REAL;
    if (!CHOOSE("clock", words, &choice)) return false;
    settings->clock = (enum emu_clock_kind)choice;
    return choice == EMU_CLOCK_REAL || check_rates(&settings->profile, complaint);
}

static bool settle_seed(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    return value[0] == '\0' || read_whole(value, UINT64_MAX, &settings->seed) ||
           expected("seed", value, "a whole number below 2^64; 0 is none", complaint);
}

static bool settle_jitter(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    settings->jitter = settings->seed != 0 ? settings->profile.jitter : 0;
    if (value[0] == '\0') return true;
    if (!emu_quantity_read(EMU_FRACTION, value, &settings->jitter))
        return expected("jitter", value, EMU_FRACTION_EXPECTED, complaint);
    return true;
}

static bool settle_watch(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    static const char *const words[] = {[EMU_WATCH_OFF] = "off", [EMU_WATCH_ON] = "on", [EMU_WATCH_ABORT] = "abort"};
    size_t choice = EMU_WATCH_OFF;
    if (!CHOOSE("watch", words, &choice)) return false;
    settings->watch = (enum emu_watch_mode)choice;
    return true;
}

static bool settle_memory(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    static const char *const words[] = {"backed", "unbacked"};
    size_t choice = 0;
    if (!CHOOSE("memory", words, &choice)) return false;
    settings->backed = choice == 0;
    return true;
}

static bool settle_law(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    size_t choice = EMU_LAW_MEASURED;
    if (!choose("law", value, emu_law_names, EMU_LAWS, &choice, complaint)) return false;
    settings->law = (enum emu_law)choice;
    return true;
}

static bool settle_others(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    if (value[0] == '\0') return true;
    if (!weir__parse_bytes(value, &settings->others_bytes))
        return expected("others", value, "bytes, as 64M or 67108864", complaint);
    if (settings->others_bytes > settings->capacity_bytes)
        return emu_complain(complaint, "others:%.80s is %zu bytes: expected at most the device's capacity, %zu", value,
                            settings->others_bytes, settings->capacity_bytes);
    return true;
}

static bool settle_cached(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    if (value[0] == '\0') return true;
    if (!weir__parse_bytes(value, &settings->cached_bytes))
        return expected("cached", value, "bytes, as 64M or 67108864", complaint);
    if (!settings->profile.integrated)
        return emu_complain(
            complaint,
            "cached:%.80s: profile %.30s is of no integrated device, which would share the host's page cache", value,
            settings->profile.name);
    return true;
}

static bool settle_refuse(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    static const char *const words[] = {"full", "never"};
    size_t choice = 0;
    if (!CHOOSE("refuse", words, &choice)) return false;
    settings->never_refuses = choice == 1;
    return true;
}

static bool settle_delay(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    double ns = 0;
    if (value[0] != '\0' && !emu_quantity_read(EMU_TIME, value, &ns))
        return expected("delay", value, EMU_TIME_EXPECTED, complaint);
    settings->delay_ns = (uint64_t)(ns + 0.5);
    return true;
}

static bool settle_fault(const char *value, struct emu_settings *settings, struct emu_complaint complaint) {
    strcpy(settings->faults, value);
    return emu_faults_check(value, complaint);
}

/* ---- together --------------------------------------------------------------------------------------------------- */

/* A setting without effect was meant otherwise. It is refused when the text that gives it could have known: when the
 * other text chose the clock, this one may be there for several programs. */
static bool check_text(const char *where, const struct given *text, const struct given *all,
                       const struct emu_settings *settings, struct emu_complaint complaint) {
    const bool could_know = all->value[CLOCK][0] == '\0' || strcmp(text->value[CLOCK], "real") == 0;
    const struct {
        enum key key;
        bool set;
    } of_virtual[] = {{SEED, settings->seed != 0}, {LAW, settings->law != EMU_LAW_MEASURED}};
    for (size_t i = 0; settings->clock == EMU_CLOCK_REAL && could_know && i < 2; i++)
        if (of_virtual[i].set && text->value[of_virtual[i].key][0] != '\0')
            return emu_complain(complaint,
                                "%s: %s:%.60s has no effect with clock:real: expected clock:virtual beside it", where,
                                keys[of_virtual[i].key].name, text->value[of_virtual[i].key]);
    if (text->value[JITTER][0] != '\0' && settings->jitter > 0 && settings->seed == 0)
        return emu_complain(complaint,
                            "%s: jitter:%.60s has no effect without a seed: expected seed:N beside it, from 1", where,
                            text->value[JITTER]);
    return true;
}

static bool settle(const char *text, struct emu_complaint complaint) {
    static struct given given, environment, all; /* under the lock */
    static struct emu_settings settings;
    memset(&given, 0, sizeof given);
    memset(&environment, 0, sizeof environment);
    memset(&settings, 0, sizeof settings);
    const char *variable = getenv("WEIR_EMU");
    if (text != NULL && !parse("emulated machine", text, &given, complaint)) return false;
    if (variable != NULL && !parse("WEIR_EMU", variable, &environment, complaint)) return false;
    for (size_t i = 0; i < KEYS; i++)
        strcpy(all.value[i], given.value[i][0] != '\0' ? given.value[i] : environment.value[i]);
    for (size_t i = 0; i < KEYS; i++) {
        static struct emu_settings aside; /* a value that does not count must be one all the same */
        aside = settings;
        if (given.value[i][0] != '\0' && !keys[i].settle(environment.value[i], &aside, complaint)) return false;
        if (!keys[i].settle(all.value[i], &settings, complaint)) return false;
    }
    if (!check_text("emulated machine", &given, &all, &settings, complaint) ||
        !check_text("WEIR_EMU", &environment, &all, &settings, complaint))
        return false;
    settled = settings;
    settled.calls = settled.profile.calls[settled.law];
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
