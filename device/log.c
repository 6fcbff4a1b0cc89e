/* SPDX-License-Identifier: Apache-2.0 */
/* WEIR_LOG=off|error|warn|info|debug[:FILE]. Read once, at the first line. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/error.h"

static const char *const level_names[] = {"off", "error", "warn", "info", "debug"};
#if !defined(WEIR__LOG_DEFAULT)
#define WEIR__LOG_DEFAULT WEIR__LOG_OFF
#endif
static enum weir__log_level wanted_level = WEIR__LOG_DEFAULT; /* when WEIR_LOG does not say */
static FILE *place;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* An unknown level is worth a word, since somebody asked for a log: "warn", and a line that says so. */
static enum weir__log_level level_of(const char *text, size_t length) {
    for (unsigned level = 0; level < sizeof level_names / sizeof *level_names; level++)
        if (strlen(level_names[level]) == length && strncmp(text, level_names[level], length) == 0)
            return (enum weir__log_level)level;
    fprintf(place, "weir[%ld] warn: WEIR_LOG=%.80s: expected off, error, warn, info or debug, then :FILE or nothing\n",
            (long)getpid(), text);
    return WEIR__LOG_WARN;
}

static void open_log(void) {
    const char *asked = getenv("WEIR_LOG");
    place = stderr;
    if (asked == NULL) return;
    const size_t length = strcspn(asked, ":");
    place = asked[length] == ':' ? fopen(asked + length + 1, "ae") : stderr;
    if (place == NULL) place = stderr;
    wanted_level = level_of(asked, length);
}

void weir__log(enum weir__log_level level, const char *format, ...) {
    pthread_once(&opened, open_log);
    if (level > wanted_level || wanted_level == WEIR__LOG_OFF) return;
    char line[512]; /* one write a line, so that lines of several ranks do not mix */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(place, "weir[%ld] %s: %s\n", (long)getpid(), level_names[level], line);
    fflush(place);
}
