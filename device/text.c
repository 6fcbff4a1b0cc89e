/* SPDX-License-Identifier: Apache-2.0 */
/* Small readers of text that the library and the emulated driver share; libc only. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/error.h"

enum { LONGEST_NAME = 63 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Edit distance with neighbours swapped counted once is not worth its code: insert, delete, replace. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[LONGEST_NAME + 2];
    const size_t length = strlen(b);
    for (size_t j = 0; j <= length; j++) row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            const size_t replaced = diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            diagonal = row[j];
            row[j] = least(replaced, least(row[j - 1], row[j]) + 1);
        }
    }
    return row[length];
}

const char *weir__nearest(const char *given, const char *const *known, size_t count) {
    const char *best = NULL;
    const size_t length = strlen(given);
    size_t best_distance = length / 3 + 2; /* farther than this is another word */
    for (size_t i = 0; i < count; i++) {
        if (length > LONGEST_NAME || strlen(known[i]) > LONGEST_NAME) continue;
        const size_t distance = edit_distance(given, known[i]);
        if (distance < best_distance && distance < strlen(known[i])) {
            best = known[i];
            best_distance = distance;
        }
    }
    return best;
}

/* Gives the power of 1024 of "K", "KiB", "M" ... or -1; "" and "B" are 0. */
static int unit_power(const char *unit) {
    if (unit[0] == '\0' || strcmp(unit, "B") == 0) return 0;
    const char *letters = "KMGT";
    const char *found = strchr(letters, toupper((unsigned char)unit[0]));
    if (found == NULL) return -1;
    if (unit[1] != '\0' && strcmp(unit + 1, "iB") != 0) return -1;
    return (int)(found - letters) + 1;
}

/* Reads "digits" or "digits.digits" by hand: strtod follows the program's locale. Gives the end, NULL when malformed. */
static const char *read_number(const char *text, unsigned long long *whole, double *fraction) {
    if (!isdigit((unsigned char)*text)) return NULL; /* no sign */
    char *end;
    errno = 0;
    *whole = strtoull(text, &end, 10);
    *fraction = 0.0;
    if (errno != 0) return NULL;
    if (*end != '.') return end;
    double place = 0.1;
    const char *digit = end + 1;
    if (!isdigit((unsigned char)*digit)) return NULL;
    for (; isdigit((unsigned char)*digit); digit++, place /= 10.0) *fraction += place * (*digit - '0');
    return digit;
}

int weir__parse_bytes(const char *text, size_t *bytes) {
    unsigned long long whole;
    double fraction;
    while (isspace((unsigned char)*text)) text++;
    const char *unit = read_number(text, &whole, &fraction);
    if (unit == NULL) return 0;
    while (isspace((unsigned char)*unit)) unit++;
    const int power = unit_power(unit);
    if (power < 0 || whole > SIZE_MAX >> (10 * power)) return 0;
    /* the fraction is below one unit, and the whole part leaves room for it */
    *bytes = ((size_t)whole << (10 * power)) + (size_t)(fraction * (double)(1ULL << (10 * power)) + 0.5);
    return *bytes >= (size_t)whole << (10 * power);
}
