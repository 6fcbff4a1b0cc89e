/* SPDX-License-Identifier: Apache-2.0 */
/* WEIR_LOG=off|error|warn|info|debug[:FILE]. Read once, at the first line. */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/error.h"
#include "device/standard.h"

static const char *const level_names[] = {"off", "error", "warn", "info", "debug"};
#if !defined(WEIR__LOG_DEFAULT)
#define WEIR__LOG_DEFAULT WEIR__LOG_OFF
#endif
static enum weir__log_level wanted_level = WEIR__LOG_DEFAULT; /* when WEIR_LOG does not say */
static char *path;                                            /* absolute; NULL: standard error */
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* One write a line, so that lines of several ranks do not mix. A file is opened for each: programs close descriptors that they
 * know nothing of, and then have others by the same numbers. */
static void put_line(const char *level, const char *line) {
    char text[640];
    const int length = snprintf(text, sizeof text, "weir[%ld] %s: %s\n", (long)getpid(), level, line);
    const int file = path == NULL ? STDERR_FILENO
                                  : weir__above_standard(open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    const ssize_t written = write(file, text, (size_t)length);
    (void)written; /* there is nobody to tell */
    if (path != NULL && file >= 0) close(file);
}

/* An unknown level is worth a word, since somebody asked for a log: "warn", and a line that says so. */
static enum weir__log_level level_of(const char *text, size_t length) {
    char line[200];
    for (unsigned level = 0; level < sizeof level_names / sizeof *level_names; level++)
        if (strlen(level_names[level]) == length && strncmp(text, level_names[level], length) == 0)
            return (enum weir__log_level)level;
    snprintf(line, sizeof line, "WEIR_LOG=%.80s: expected off, error, warn, info or debug, then :FILE or nothing",
             text);
    put_line("warn", line);
    return WEIR__LOG_WARN;
}

/* The program may go to another folder later. */
static char *writable_file(const char *name) {
    const int file = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return NULL;
    close(file);
    return realpath(name, NULL);
}

static void open_log(void) {
    const char *asked = getenv("WEIR_LOG");
    if (asked == NULL) return;
    const size_t length = strcspn(asked, ":");
    if (asked[length] == ':') path = writable_file(asked + length + 1);
    wanted_level = level_of(asked, length);
}

void weir__log(enum weir__log_level level, const char *format, ...) {
    pthread_once(&opened, open_log);
    if (level > wanted_level || wanted_level == WEIR__LOG_OFF) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    put_line(level_names[level], line);
}
