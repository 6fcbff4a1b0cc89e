/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_SECONDS 10.0 /* from the polite signal to the other one; mpirun needs a few to end its ranks */
#define POLL_MS       200

static volatile sig_atomic_t interrupted;
static sigset_t mask_outside; /* without the watched signals: what the child gets, and what holds while we wait */

static void on_signal(int signal) { interrupted = signal; }

/* The signals stay blocked except inside ppoll, so none is missed between the look at the flag and the wait. */
void child_watch_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], &action, NULL);
        sigaddset(&blocked, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, &mask_outside);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigdelset(&mask_outside, signals[i]);
    interrupted = 0;
}

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- the child's side --------------------------------------------------------------------------------------------- */

static void become(const struct child *child, int output, int trouble, pid_t parent) {
    int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    bool orphan = getppid() != parent; /* the parent ended before it could be watched */
    if (!orphan && none >= 0 && dup2(none, 0) >= 0 && dup2(output, 1) >= 0 && dup2(output, 2) >= 0) {
        sigprocmask(SIG_SETMASK, &mask_outside, NULL);
        execv(child->argv[0], child->argv);
    }
    int code = errno;
    ssize_t told = write(trouble, &code, sizeof code);
    _exit(told == (ssize_t)sizeof code ? 127 : 126);
}

/* ---- our side ------------------------------------------------------------------------------------------------------- */

struct lines {
    const struct child *child;
    FILE *log;
    char line[1024];
    size_t length;
};

static void lines_take(struct lines *lines, const char *text, size_t length) {
    fwrite(text, 1, length, lines->log);
    for (size_t i = 0; i < length; i++) {
        bool end = text[i] == '\n' || text[i] == '\r';
        if (!end && lines->length + 1 < sizeof lines->line) lines->line[lines->length++] = text[i];
        if (!end) continue;
        lines->line[lines->length] = 0;
        lines->length = 0;
        if (lines->child->on_line) lines->child->on_line(lines->child->to, lines->line);
    }
}

/* Gives: false when nothing more can come. */
static bool pump(struct lines *lines, int input) {
    char text[4096];
    struct pollfd wait = {.fd = input, .events = POLLIN};
    const struct timespec while_ = {.tv_nsec = POLL_MS * 1000000L};
    if (ppoll(&wait, 1, &while_, &mask_outside) <= 0) return true;
    ssize_t got = read(input, text, sizeof text);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    lines_take(lines, text, (size_t)got);
    return got > 0;
}

static bool has_ended(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

/* Asks first, then insists. The group is named while its leader is not reaped, so its number can't be another's. */
static void end_group(pid_t pid, double *asked_at) {
    double now = now_seconds();
    if (*asked_at == 0.0) {
        kill(-pid, SIGINT);
        *asked_at = now;
    } else if (now - *asked_at > GRACE_SECONDS) {
        kill(-pid, SIGKILL);
    }
}

/* Passes the output on until the leader has ended, and ends it where that is due. Gives: whether more output may come. */
static bool attend(const struct child *child, pid_t pid, struct lines *lines, int input, bool *too_long) {
    double began = now_seconds(), asked_at = 0.0;
    bool open = true;
    while (!has_ended(pid)) {
        const struct timespec while_ = {.tv_nsec = POLL_MS * 1000000L};
        if (open)
            open = pump(lines, input);
        else
            ppoll(NULL, 0, &while_, &mask_outside); /* it closed its output and goes on */
        *too_long = *too_long || now_seconds() - began > child->limit_seconds;
        if (interrupted || *too_long) end_group(pid, &asked_at);
    }
    return open;
}

/* What is left of the group, what is left of the output, and how it ended. */
static struct child_result conclude(pid_t pid, struct lines *lines, int input, bool open, bool too_long) {
    struct child_result result = {.end = CHILD_KILLED};
    int status = 0;
    kill(-pid, SIGKILL); /* what it may have left behind; it has ended itself, and is not reaped yet */
    while (open && poll(&(struct pollfd){.fd = input, .events = POLLIN}, 1, 0) > 0) open = pump(lines, input);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) result.end = CHILD_EXITED;
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    if (too_long) result.end = CHILD_TOO_LONG;
    if (interrupted) result = (struct child_result){.end = CHILD_INTERRUPTED, .status = interrupted};
    return result;
}

static struct child_result not_started(int code) { return (struct child_result){CHILD_NOT_STARTED, code, 0.0}; }

static struct child_result run_with_pipes(const struct child *child, struct lines *lines, int output[2],
                                          int trouble[2]) {
    int code = 0;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(child, output[1], trouble[1], parent);
    if (pid < 0) return not_started(errno);
    close(output[1]);
    close(trouble[1]);
    output[1] = trouble[1] = -1;
    setpgid(pid, pid); /* the child does it too: whoever comes first */
    ssize_t told;
    do told = read(trouble[0], &code, sizeof code); /* ends when the program has taken over */
    while (told < 0 && errno == EINTR);
    double began = now_seconds();
    bool too_long = false, open = attend(child, pid, lines, output[0], &too_long);
    struct child_result result = conclude(pid, lines, output[0], open, too_long);
    result.seconds = now_seconds() - began;
    return told == (ssize_t)sizeof code ? not_started(code) : result;
}

struct child_result child_run(const struct child *child) {
    int output[2] = {-1, -1}, trouble[2] = {-1, -1};
    struct lines lines = {.child = child, .log = fopen(child->log_path, "we")};
    bool ready = lines.log && pipe2(output, O_CLOEXEC) == 0 && pipe2(trouble, O_CLOEXEC) == 0;
    struct child_result result = ready ? run_with_pipes(child, &lines, output, trouble) : not_started(errno);
    for (size_t i = 0; i < 2; i++) {
        if (output[i] >= 0) close(output[i]);
        if (trouble[i] >= 0) close(trouble[i]);
    }
    if (lines.log) fclose(lines.log);
    return result;
}

void child_log_tail(const char *log_path, size_t lines, const char *prefix, FILE *out) {
    char text[8192];
    FILE *log = fopen(log_path, "re");
    if (!log) return;
    if (fseek(log, -(long)(sizeof text - 1), SEEK_END) != 0) rewind(log);
    size_t length = fread(text, 1, sizeof text - 1, log);
    fclose(log);
    while (length > 0 && text[length - 1] == '\n') length--;
    text[length] = 0;
    size_t start = length, seen = 0;
    while (start > 0 && (text[start - 1] != '\n' || ++seen < lines)) start--;
    char *rest = text + start;
    for (char *line = strsep(&rest, "\n"); line && length > 0; line = strsep(&rest, "\n"))
        fprintf(out, "%s%s\n", prefix, line);
}
