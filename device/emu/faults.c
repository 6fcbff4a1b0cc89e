/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/faults.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "device/emu/quantity.h"
#include "device/error.h"

enum { MOST_FAULTS = 64, HIGHEST_CODE = CUDA_ERROR_UNKNOWN };

struct fault {
    enum emu_entry entry; /* EMU_ENTRIES: all */
    uint64_t first, last;
    CUresult code;
};

static struct fault faults[MOST_FAULTS];
static size_t fault_count;
static uint64_t calls[EMU_ENTRIES + 1]; /* the last: all */
static uint64_t made;

/* ---- names ------------------------------------------------------------------------------------------------------ */

static const char *const entry_names[EMU_ENTRIES] = {
#define NAME(member, symbol, parameters) [EMU_AT_##symbol] = #symbol,
#define NAME_2(symbol, parameters)       [EMU_AT_##symbol] = #symbol,
    WEIR__DRIVER_LIST(NAME) EMU_ENTRY_LIST(NAME_2)
#undef NAME
#undef NAME_2
};

static const struct {
    const char *name;
    CUresult code;
} codes[] = {
#define CODE(name, value, text) {#name, name},
    WEIR__CUDA_RESULT_LIST(CODE)
#undef CODE
};
enum { CODES = sizeof codes / sizeof *codes };

const char *emu_entry_name(enum emu_entry entry) { return entry < EMU_ENTRIES ? entry_names[entry] : "no entry"; }

/* Length of an exported name without its version, as in cuMemFree_v2. */
static size_t plain_length(const char *symbol) {
    const char *version = strstr(symbol, "_v");
    return version != NULL && isdigit((unsigned char)version[2]) ? (size_t)(version - symbol) : strlen(symbol);
}

enum emu_entry emu_entry_find(const char *name) {
    enum emu_entry found = EMU_ENTRIES;
    for (enum emu_entry entry = 0; entry < EMU_ENTRIES; entry++) {
        if (strcmp(entry_names[entry], name) == 0) return entry;
        const size_t length = plain_length(entry_names[entry]);
        if (strlen(name) == length && strncmp(entry_names[entry], name, length) == 0) found = entry;
    }
    return found;
}

void emu_entry_nearest(const char *name, char *nearest, size_t room) {
    char plain[EMU_ENTRIES][64];
    const char *names[EMU_ENTRIES];
    for (enum emu_entry entry = 0; entry < EMU_ENTRIES; entry++) {
        snprintf(plain[entry], sizeof plain[entry], "%.*s", (int)plain_length(entry_names[entry]), entry_names[entry]);
        names[entry] = plain[entry];
    }
    const char *found = weir__nearest(name, names, EMU_ENTRIES);
    snprintf(nearest, room, "%s", found != NULL ? found : "");
}

/* ---- one fault -------------------------------------------------------------------------------------------------- */

static bool complain_of_entry(const char *name, struct emu_complaint complaint) {
    char near[64];
    emu_entry_nearest(name, near, sizeof near);
    return emu_complain(complaint,
                        "fault: \"%.60s\" is no entry of the driver: expected a name as cuMemCreate, or *%s%s%s", name,
                        near[0] ? "; did you mean " : "", near, near[0] ? "?" : "");
}

/* Those work before cuInit and ask nothing of the machine. */
static bool can_fail(enum emu_entry entry) {
    return entry != EMU_AT_cuDriverGetVersion && entry != EMU_AT_cuGetErrorName && entry != EMU_AT_cuGetErrorString &&
           entry != EMU_AT_cuGetProcAddress && entry != EMU_AT_cuGetProcAddress_v2 && entry != EMU_AT_cuGetExportTable;
}

static bool read_entry(const char *name, enum emu_entry *entry, struct emu_complaint complaint) {
    *entry = emu_entry_find(name);
    if (!can_fail(*entry)) return emu_complain(complaint, "fault: %.60s can't be made to fail", name);
    return *entry != EMU_ENTRIES || strcmp(name, "*") == 0 || complain_of_entry(name, complaint);
}

/* A whole number from 1; false when there is none, or too large a one. */
static bool read_count(const char *text, uint64_t *count) {
    uint64_t value = 0;
    if (*text == '\0' || strspn(text, "0123456789") != strlen(text)) return false;
    for (; *text != '\0'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *count = value;
    return value > 0;
}

/* "3", "3-5", "3+" */
static bool read_range(char *text, struct fault *fault) {
    const size_t length = strlen(text);
    char *dash = strchr(text, '-');
    fault->last = 0;
    if (length > 1 && text[length - 1] == '+') {
        text[length - 1] = '\0';
        fault->last = UINT64_MAX;
        return read_count(emu_trim(text), &fault->first);
    }
    if (dash != NULL) *dash = '\0';
    if (!read_count(emu_trim(text), &fault->first)) return false;
    if (dash == NULL) fault->last = fault->first;
    return dash == NULL || (read_count(emu_trim(dash + 1), &fault->last) && fault->last >= fault->first);
}

static bool complain_of_code(const char *text, struct emu_complaint complaint) {
    const char *names[CODES];
    for (size_t i = 1; i < CODES; i++) names[i - 1] = codes[i].name; /* all but success */
    char with_prefix[64];
    snprintf(with_prefix, sizeof with_prefix, "%s%.48s", strncmp(text, "CUDA_", 5) == 0 ? "" : "CUDA_ERROR_", text);
    const char *near = weir__nearest(with_prefix, names, CODES - 1);
    return emu_complain(complaint,
                        "fault: \"%.60s\" is no error: expected a result's name as CUDA_ERROR_OUT_OF_MEMORY, or its "
                        "number from 1 to %d%s%s%s",
                        text, HIGHEST_CODE, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool read_code(const char *text, CUresult *code, struct emu_complaint complaint) {
    uint64_t number = 0;
    if (read_count(text, &number) && number <= HIGHEST_CODE) {
        *code = (CUresult)number;
        return true;
    }
    for (size_t i = 1; i < CODES; i++) {
        if (strcmp(codes[i].name, text) != 0) continue;
        *code = codes[i].code;
        return true;
    }
    return complain_of_code(text, complaint);
}

static bool read_fault(char *text, struct fault *fault, struct emu_complaint complaint) {
    char *at = strchr(text, '@'), *equals = strchr(text, '=');
    if (at == NULL || equals == NULL || equals < at)
        return emu_complain(complaint, "fault: \"%.60s\": expected ENTRY@CALL=CODE, as cuMemCreate@3=2",
                            emu_trim(text));
    *at = '\0';
    *equals = '\0';
    if (!read_entry(emu_trim(text), &fault->entry, complaint)) return false;
    char range[64];
    snprintf(range, sizeof range, "%s", emu_trim(at + 1));
    if (!read_range(emu_trim(at + 1), fault))
        return emu_complain(complaint, "fault: \"%s\": expected which calls, counted from 1, as 3, 3-5 or 3+", range);
    return read_code(emu_trim(equals + 1), &fault->code, complaint);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* Reads faults behind those that are there; `all` has room for MOST_FAULTS. */
static bool read_faults(const char *text, struct fault *all, size_t *count, struct emu_complaint complaint) {
    char copy[sizeof((struct emu_settings *)0)->faults];
    if (strlen(text) >= sizeof copy)
        return emu_complain(complaint, "fault: longer than %zu characters", sizeof copy - 1);
    strcpy(copy, text);
    char *rest = copy;
    for (char *item = strsep(&rest, ";"); item != NULL; item = strsep(&rest, ";")) {
        if (*count == MOST_FAULTS) return emu_complain(complaint, "fault: more than %d faults", MOST_FAULTS);
        if (!read_fault(item, &all[*count], complaint)) return false;
        ++*count;
    }
    return true;
}

bool emu_faults_check(const char *text, struct emu_complaint complaint) {
    struct fault read[MOST_FAULTS];
    size_t count = 0;
    return text[0] == '\0' || read_faults(text, read, &count, complaint);
}

bool emu_faults_add(const char *text, struct emu_complaint complaint) {
    if (text[0] == '\0') {
        __atomic_store_n(&fault_count, 0, __ATOMIC_RELAXED);
        return true;
    }
    size_t count = fault_count; /* stays as it is on a complaint: what was read behind it does not count */
    if (!read_faults(text, faults, &count, complaint)) return false;
    __atomic_store_n(&fault_count, count, __ATOMIC_RELAXED);
    return true;
}

bool emu_faults_any(void) { return __atomic_load_n(&fault_count, __ATOMIC_RELAXED) > 0; }

CUresult emu_faults_count(enum emu_entry entry) {
    const uint64_t of_entry = ++calls[entry], of_all = entry != EMU_AT_cuInit ? ++calls[EMU_ENTRIES] : 0;
    for (const struct fault *fault = faults; fault < faults + fault_count; fault++) {
        if (fault->entry != entry && fault->entry != EMU_ENTRIES) continue;
        const uint64_t call = fault->entry == EMU_ENTRIES ? of_all : of_entry;
        if (call < fault->first || call > fault->last) continue;
        made++;
        return fault->code;
    }
    return CUDA_SUCCESS;
}

uint64_t emu_faults_made(void) { return made; }
