/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/text.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 64 };

/* strtoll and strtod skip blanks and take "0x", "inf" and "nan"; a number here starts with a digit, a sign or a dot. */
static bool starts_as_number(const char *text) {
    const char *digits = text + (*text == '-' || *text == '+');
    return isdigit((unsigned char)digits[0]) || (digits[0] == '.' && isdigit((unsigned char)digits[1]));
}

bool text_integer(const char *text, int64_t *out) {
    if (!starts_as_number(text)) return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end) return false;
    *out = value;
    return true;
}

/* The locale stays "C" in weir's programs, so the point is a point. */
static bool real_prefix(const char *text, double *out, char **end) {
    if (!starts_as_number(text) || strpbrk(text, "xX")) return false;
    double value = strtod(text, end);
    if (*end == text || !isfinite(value)) return false;
    *out = value;
    return true;
}

bool text_real(const char *text, double *out) {
    char *end;
    double value;
    if (!real_prefix(text, &value, &end) || *end) return false;
    *out = value;
    return true;
}

bool text_bytes(const char *text, size_t *out) {
    static const char units[] = "KMGT";
    char *end;
    double value;
    int64_t whole;
    if (text_integer(text, &whole) && whole >= 0) { /* past 2^53 a double would lose digits */
        *out = (size_t)whole;
        return true;
    }
    if (!real_prefix(text, &value, &end) || value < 0) return false;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (!unit) return false;
    end++;
    if (*end && strcmp(end, "B") && strcmp(end, "iB")) return false;
    value = ldexp(value, 10 * (int)(unit - units + 1));
    if (value >= 0x1p63 || value != floor(value)) return false;
    *out = (size_t)value;
    return true;
}

bool text_switch(const char *text, bool *out) {
    static const char *const words[2][3] = {{"off", "false", "no"}, {"on", "true", "yes"}};
    for (int value = 0; value < 2; value++)
        for (int i = 0; i < 3; i++)
            if (strcmp(text, words[value][i]) == 0) {
                *out = value;
                return true;
            }
    return false;
}

/* Bytes that the sequence starting with `lead` has, 0 when none may start so. */
static int utf8_length(unsigned char lead) {
    return lead < 0x80                   ? 1
           : lead >= 0xC2 && lead < 0xE0 ? 2
           : lead >= 0xE0 && lead < 0xF0 ? 3
           : lead >= 0xF0 && lead < 0xF5 ? 4
                                         : 0;
}

bool text_is_utf8(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int length = utf8_length(*at);
        if (!length) return false;
        for (int i = 1; i < length; i++)
            if ((at[i] & 0xC0) != 0x80) return false;
        bool overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
        bool surrogate = at[0] == 0xED && at[1] >= 0xA0, beyond = at[0] == 0xF4 && at[1] >= 0x90;
        if (length > 1 && (overlong || surrogate || beyond)) return false;
        at += length;
    }
    return true;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Levenshtein; both at most LONGEST_NAME long. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[LONGEST_NAME + 1], length = strlen(b);
    for (size_t j = 0; j <= length; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[length];
}

const char *text_nearest(const char *given, const char *const *names, size_t count) {
    const char *best = NULL;
    size_t best_distance = SIZE_MAX, length = strlen(given);
    if (length > LONGEST_NAME) return NULL;
    for (size_t i = 0; i < count; i++) {
        assert(strlen(names[i]) <= LONGEST_NAME);
        size_t distance = edit_distance(given, names[i]);
        if (distance < best_distance) best_distance = distance, best = names[i];
    }
    return best && best_distance <= 1 + length / 3 ? best : NULL;
}

char *text_of_bytes(size_t bytes, char *out) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 999.95 && unit < 6; unit++) value /= 1024;
    snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

char *text_of_count(uint64_t count, char *out) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

char *text_of_real(double value, char *out) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    return out;
}

int text_fail(int status, char *message, size_t room, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, room, format, arguments);
    va_end(arguments);
    for (char *at = message; room && *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7F) *at = '?'; /* quoted input must not break the line */
    return status;
}
