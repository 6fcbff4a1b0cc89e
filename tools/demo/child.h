/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one program at a time, in a process group of its own, and ends it with all that it started when this process is
 * interrupted, ends, or the program takes too long. What the program prints goes to a log, and line by line to the
 * caller. */
#ifndef WEIR_TOOLS_DEMO_CHILD_H
#define WEIR_TOOLS_DEMO_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct child {
    char *const *argv; /* argv[0]: path of the program */
    const char *log_path;
    double limit_seconds;
    void (*on_line)(void *to, const char *line); /* may be NULL; without the line's end, long lines are cut */
    void *to;
};

enum child_end {
    CHILD_EXITED,      /* status: its exit status */
    CHILD_KILLED,      /* status: the signal that ended it */
    CHILD_TOO_LONG,    /* ended by us after limit_seconds */
    CHILD_INTERRUPTED, /* ended by us since this process got SIGINT, SIGTERM or SIGHUP; status: which */
    CHILD_NOT_STARTED, /* status: errno */
};

struct child_result {
    enum child_end end;
    int status;
    double seconds;
};

/* Call before any thread starts: from here on SIGINT, SIGTERM and SIGHUP end the running child, then are told. */
void child_watch_signals(void);
struct child_result child_run(const struct child *child);
/* Copies the last lines of a log, each behind `prefix`. */
void child_log_tail(const char *log_path, size_t lines, const char *prefix, FILE *out);

#endif
