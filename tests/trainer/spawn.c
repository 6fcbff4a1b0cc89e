/* SPDX-License-Identifier: Apache-2.0 */
#include "spawn.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void spawn_start(struct spawned *s, char *const *argv) {
    int out[2], err[2];
    memset(s, 0, sizeof *s);
    s->begin = now();
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    s->pid = fork();
    if (s->pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        execv(argv[0], argv);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    s->out = out[0];
    s->err = err[0];
}

/* False at the end of the stream. What does not fit is read and dropped. */
static bool take(int from, char *text, size_t room) {
    char rest[4096];
    size_t used = strlen(text);
    bool fits = used + 1 < room;
    ssize_t got = read(from, fits ? text + used : rest, fits ? room - 1 - used : sizeof rest);
    if (got > 0 && fits) text[used + (size_t)got] = 0;
    return got > 0 || (got < 0 && errno == EINTR);
}

static bool take_both(struct spawned *s) {
    struct pollfd files[] = {{s->out, POLLIN, 0}, {s->err, POLLIN, 0}};
    poll(files, 2, -1);
    if (files[0].revents && !take(s->out, s->out_text, sizeof s->out_text)) close(s->out), s->out = -1;
    if (files[1].revents && !take(s->err, s->err_text, sizeof s->err_text)) close(s->err), s->err = -1;
    return s->out >= 0 || s->err >= 0;
}

void spawn_read_until(struct spawned *s, const char *text) {
    while (!strstr(s->out_text, text))
        if (!take_both(s)) fail_msg("\"%s\" was never said; standard error: %s", text, s->err_text);
}

void spawn_finish(struct spawned *s) {
    int status;
    while (take_both(s))
        ;
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    s->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    s->seconds = now() - s->begin;
}

/* The command line of the next process in /proc, empty for a zombie; its pid, 0 after the last. */
static pid_t next_process(DIR *proc, char *line, size_t room, size_t *length) {
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        char path[300];
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ssize_t got = read(fd, line, room - 1);
        close(fd);
        *length = got > 0 ? (size_t)got : 0;
        line[*length] = 0;
        return atoi(entry->d_name);
    }
    return 0;
}

int spawn_count(const char *word) {
    DIR *proc = opendir("/proc");
    char line[4096];
    size_t length;
    int count = 0;
    for (pid_t pid; (pid = next_process(proc, line, sizeof line, &length));)
        count += pid != getpid() && memmem(line, length, word, strlen(word)) != NULL;
    if (proc) closedir(proc);
    return count;
}

pid_t spawn_find(const char *program, const char *word, pid_t except) {
    DIR *proc = opendir("/proc");
    char line[4096];
    size_t length;
    pid_t found = 0;
    for (pid_t pid; !found && (pid = next_process(proc, line, sizeof line, &length));)
        if (pid != except && !strcmp(line, program) && memmem(line, length, word, strlen(word))) found = pid;
    if (proc) closedir(proc);
    return found;
}

void spawn_assert(const struct spawned *s, const char *where, const char *text, const char *file, int line) {
    if (strstr(where, text)) return;
    print_error("%s:%d: \"%s\" is not said\nstatus %d\nout: %s\nerr: %s\n", file, line, text, s->status, s->out_text,
                s->err_text);
    fail();
}

void spawn_assert_status(const struct spawned *s, int wanted, const char *file, int line) {
    if (s->status == wanted) return;
    print_error("%s:%d: exit status %d, wanted %d\nout: %s\nerr: %s\n", file, line, s->status, wanted, s->out_text,
                s->err_text);
    fail();
}

char spawn_text[64];

int spawn_text_write(void **state) {
    (void)state;
    strcpy(spawn_text, "/tmp/weir-text-XXXXXX");
    int fd = mkstemp(spawn_text);
    for (int i = 0; i < 400; i++) dprintf(fd, "In the beginning was line %d, and after it another line.\n", i);
    return close(fd);
}

int spawn_text_remove(void **state) {
    (void)state;
    return unlink(spawn_text);
}
