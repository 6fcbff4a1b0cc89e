/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPLAY "weir-replay"

/* ---- names -------------------------------------------------------------------------------------------------------- */

static bool find_replay(char *path, size_t room) {
    char *self = realpath("/proc/self/exe", NULL);
    const bool found =
        self != NULL && snprintf(path, room, "%s/" REPLAY, dirname(self)) < (int)room && access(path, X_OK) == 0;
    free(self);
    return found;
}

static bool can_write(const char *path) {
    char folder[4096];
    if (access(path, F_OK) == 0) return access(path, W_OK) == 0;
    snprintf(folder, sizeof folder, "%s", path);
    return strlen(path) < sizeof folder && access(dirname(folder), W_OK) == 0;
}

bool pages_possible(const char *path, const char *trace, char *why, size_t room) {
    char replay[4096];
    if (trace != NULL && strcmp(path, trace) == 0)
        snprintf(why, room, "--timeline %.200s would overwrite the trace", path);
    else if (!can_write(path))
        snprintf(why, room, "--timeline %.200s: %s", path, strerror(errno));
    else if (!find_replay(replay, sizeof replay))
        snprintf(why, room, "--timeline: there is no " REPLAY " beside weir-run, which makes the page");
    else
        return true;
    return false;
}

/* Grows a name by one character; what does not fit is left out, and seen by its end. */
static void put(char *text, size_t *length, size_t room, char character) {
    if (*length + 1 < room) text[*length] = character;
    if (*length + 1 < room) text[*length + 1] = 0;
    ++*length;
}

bool pages_traces_in(const char *folder, char *traces, size_t room) {
    size_t length = 0;
    for (const char *at = folder; *at != 0; at++) {
        if (*at == '%') put(traces, &length, room, '%');
        put(traces, &length, room, *at);
    }
    for (const char *at = "/trace.%p.%d"; *at != 0; at++) put(traces, &length, room, *at);
    return length < room;
}

/* What matches all names that a trace's may become. */
static bool pattern_of(const char *traces, char *pattern, size_t room) {
    size_t length = 0;
    for (const char *at = traces; *at != 0; at++) {
        const bool some = at[0] == '%' && (at[1] == 'p' || at[1] == 'd'), percent = at[0] == '%' && at[1] == '%';
        if (!some && strchr("*?[\\", *at) != NULL) put(pattern, &length, room, '\\');
        put(pattern, &length, room, some ? '*' : *at);
        at += some || percent;
    }
    return length < room;
}

static bool find_traces(const char *traces, glob_t *found) {
    char pattern[8200];
    return pattern_of(traces, pattern, sizeof pattern) && glob(pattern, 0, NULL, found) == 0;
}

void pages_remove_traces(const char *traces) {
    glob_t found = {0};
    if (find_traces(traces, &found))
        for (size_t i = 0; i < found.gl_pathc; i++) unlink(found.gl_pathv[i]);
    globfree(&found);
}

/* "run.html", then "run-2.html". */
static bool name_page(const char *path, unsigned number, char *name, size_t room) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash != NULL ? slash : path, '.');
    const int stem = (int)(dot != NULL ? (size_t)(dot - path) : strlen(path));
    const int length = number == 1 ? snprintf(name, room, "%s", path)
                                   : snprintf(name, room, "%.*s-%u%s", stem, path, number, path + stem);
    return length < (int)room;
}

/* ---- one page ------------------------------------------------------------------------------------------------------ */

/* What weir-replay says of the trace in words is not asked for; why it fails is. */
static bool replay(const struct pages *pages, const char *trace, const char *page) {
    char path[4096], timeline[4200], recorded[] = "--as-recorded", name[] = REPLAY, same[4096];
    pid_t child;
    int status = 0;
    if (!find_replay(path, sizeof path)) return false;
    snprintf(timeline, sizeof timeline, "--timeline=%s", page);
    snprintf(same, sizeof same, "%s%s", trace[0] == '-' ? "./" : "", trace);
    char *arguments[] = {name, same, recorded, timeline, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    bool good = posix_spawn(&child, path, &actions, NULL, arguments, pages->environment) == 0;
    while (good && waitpid(child, &status, 0) < 0) good = errno == EINTR;
    posix_spawn_file_actions_destroy(&actions);
    return good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* In a trace of the run's own the name says what it is of. */
static void tell(const struct pages *pages, const char *trace, const char *page) {
    const char *slash = strrchr(trace, '/');
    unsigned process, device;
    if (pages->quiet) return;
    if (sscanf(slash != NULL ? slash + 1 : trace, "trace.%u.%u", &process, &device) == 2)
        fprintf(stderr, "weir-run: %s: process %u, device %u\n", page, process, device);
    else
        fprintf(stderr, "weir-run: %s: from %s\n", page, trace);
}

static bool is_of_this_run(const struct pages *pages, const char *trace) {
    struct stat file;
    if (stat(trace, &file) != 0) return false;
    return file.st_mtim.tv_sec > pages->since.tv_sec ||
           (file.st_mtim.tv_sec == pages->since.tv_sec && file.st_mtim.tv_nsec >= pages->since.tv_nsec);
}

bool pages_make(const struct pages *pages) {
    unsigned made = 0;
    bool good = true;
    glob_t found = {0};
    if (find_traces(pages->traces, &found))
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char page[4096];
            if (!is_of_this_run(pages, found.gl_pathv[i])) continue;
            if (name_page(pages->path, ++made, page, sizeof page) && replay(pages, found.gl_pathv[i], page)) {
                tell(pages, found.gl_pathv[i], page);
            } else {
                fprintf(stderr, "weir-run: the page of %s could not be made\n", found.gl_pathv[i]);
                good = false;
            }
        }
    globfree(&found);
    if (made == 0) fprintf(stderr, "weir-run: no page: no process took memory of weir's\n");
    return good;
}
