/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/quantity.h"

#include <ctype.h>
#include <string.h>

struct unit {
    const char *name;
    double value;
};

static const struct unit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const struct unit rates[] = {{"B/s", 1},        {"kB/s", 1e3},   {"MB/s", 1e6},     {"GB/s", 1e9},
                                    {"TB/s", 1e12},    {"KiB/s", 1024}, {"MiB/s", 0x1p20}, {"GiB/s", 0x1p30},
                                    {"TiB/s", 0x1p40}, {NULL, 0}};
static const struct unit flops[] = {{"FLOP/s", 1},     {"MFLOP/s", 1e6},  {"GFLOP/s", 1e9},
                                    {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {NULL, 0}};
static const struct unit fractions[] = {{"", 1}, {"%", 0.01}, {NULL, 0}};
static const struct unit sizes[] = {{"B", 1}, {"KiB", 1024}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {NULL, 0}};

/* By kind of quantity; a value past `most` is a slip of the pen, and would overflow times and sums later. */
static const struct {
    const struct unit *units;
    double most;
    bool zero, below; /* 0 is allowed; `most` itself is not */
} kinds[] = {
    [EMU_TIME] = {times, 1e15, true, false},
    [EMU_RATE] = {rates, 1e18, false, false},
    [EMU_FLOPS] = {flops, 1e21, false, false},
    [EMU_FRACTION] = {fractions, 1, true, true},
};

char *emu_trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = '\0';
    return text;
}

static const struct unit *find_unit(const struct unit *units, const char *name, size_t length) {
    for (; units->name != NULL; units++)
        if (strlen(units->name) == length && strncmp(units->name, name, length) == 0) return units;
    return NULL;
}

/* Reads "digits" or "digits.digits" and the spaces behind. Gives the end, NULL when malformed. */
static const char *read_number(const char *text, double *number) {
    double value = 0, place = 1;
    if (!isdigit((unsigned char)*text)) return NULL;
    for (; isdigit((unsigned char)*text); text++) value = value * 10 + (*text - '0');
    if (*text == '.') {
        if (!isdigit((unsigned char)*++text)) return NULL;
        for (; isdigit((unsigned char)*text); text++) value += (*text - '0') * (place /= 10);
    }
    while (isspace((unsigned char)*text)) text++;
    *number = value;
    return text;
}

/* Reads `length` characters as a number with a unit of the kind. */
static bool read_quantity(enum emu_quantity quantity, const char *text, size_t length, double *value) {
    double number;
    const char *name = read_number(text, &number);
    if (name == NULL || name > text + length) return false;
    const struct unit *unit = find_unit(kinds[quantity].units, name, (size_t)(text + length - name));
    if (unit == NULL) return false;
    number *= unit->value;
    if (!(number <= kinds[quantity].most)) return false; /* infinity too */
    if (number == 0 ? !kinds[quantity].zero : kinds[quantity].below && number >= kinds[quantity].most) return false;
    *value = number;
    return true;
}

/* Without the white space at both ends. */
static const char *trimmed(const char *text, size_t *length) {
    for (; *length > 0 && isspace((unsigned char)*text); --*length) text++;
    while (*length > 0 && isspace((unsigned char)text[*length - 1])) --*length;
    return text;
}

bool emu_quantity_read(enum emu_quantity quantity, const char *text, double *value) {
    size_t length = strlen(text);
    text = trimmed(text, &length);
    return read_quantity(quantity, text, length, value);
}

/* ---- costs ------------------------------------------------------------------------------------------------------ */

enum part { FIXED, A_HANDLE, A_BYTE, PARTS };

/* What a part is counted by: gives the kind of part, and divides *ns down to one. PARTS: unknown. */
static enum part read_per(const char *per, size_t length, size_t granularity_bytes, double *ns) {
    per = trimmed(per, &length);
    if (length == strlen("handle") && strncmp(per, "handle", length) == 0) return A_HANDLE;
    if (length == strlen("page") && strncmp(per, "page", length) == 0 && granularity_bytes > 0) {
        *ns /= (double)granularity_bytes;
        return A_BYTE;
    }
    const struct unit *size = find_unit(sizes, per, length);
    if (size == NULL) return PARTS;
    *ns /= size->value;
    return A_BYTE;
}

static enum part read_part(const char *text, size_t length, size_t granularity_bytes, double *ns) {
    const char *slash = memchr(text, '/', length);
    size_t before = slash != NULL ? (size_t)(slash - text) : length;
    const char *time = trimmed(text, &before);
    if (!read_quantity(EMU_TIME, time, before, ns)) return PARTS;
    if (slash == NULL) return FIXED;
    return read_per(slash + 1, (size_t)(text + length - slash - 1), granularity_bytes, ns);
}

bool emu_cost_read(const char *text, size_t granularity_bytes, struct emu_cost *cost) {
    double ns[PARTS] = {0};
    bool given[PARTS] = {false};
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, "+");
        double value = 0;
        const enum part part = read_part(at, length, granularity_bytes, &value);
        if (part == PARTS || given[part]) return false;
        given[part] = true;
        ns[part] = value;
        at += length;
        if (*at == '\0') break;
    }
    *cost = (struct emu_cost){ns[FIXED], ns[A_HANDLE], ns[A_BYTE]};
    return true;
}
