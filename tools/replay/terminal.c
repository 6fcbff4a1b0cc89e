/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST_WIDTH = 40, USUAL_WIDTH = 80, MOST_WIDTH = 400 };

static unsigned width_of(int file) {
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    char *end = NULL;
    long width = columns != NULL ? strtol(columns, &end, 10) : 0;
    if (width <= 0 || *end != '\0') width = file >= 0 && ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    if (width <= 0) width = USUAL_WIDTH;
    return (unsigned)(width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_WIDTH ? MOST_WIDTH : width);
}

/* The program itself stays in the locale "C". */
static bool is_utf8(void) {
    const locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale == (locale_t)0) return false;
    const bool utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return utf8;
}

static bool has_colour(int file) {
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (file < 0 || isatty(file) != 1 || (no != NULL && *no != '\0')) return false;
    return terminal != NULL && *terminal != '\0' && strcmp(terminal, "dumb") != 0;
}

struct timeline_look terminal_look(int file) {
    return (struct timeline_look){.width = width_of(file), .utf8 = is_utf8(), .colour = has_colour(file)};
}
