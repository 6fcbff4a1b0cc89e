/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in processes of their own: each child makes one run and writes its outcome to a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

#define ANSWER_MAGIC UINT64_C(0x776572206e757221)

/* As it goes through the pipe. A library in the child can write there too, so what comes is not trusted. */
struct answer {
    uint64_t magic, bytes;
    struct outcome outcome;
};

struct child {
    pid_t process;
    int pipe;  /* its reading end */
    int ended; /* readable when the process has ended, whoever else still holds the pipe; -1: not to be had */
    struct outcome *outcome;
    struct answer answer;
    size_t got; /* bytes of the answer */
};

/* ---- in the child ----------------------------------------------------------------------------------------------- */

static bool write_all(int file, const void *bytes, size_t count) {
    const char *from = bytes;
    while (count > 0) {
        const ssize_t wrote = write(file, from, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        from += wrote;
        count -= (size_t)wrote;
    }
    return true;
}

/* A crash is this process's end, whatever the parent's handlers make of one. */
static void take_crashes_as_they_are(void) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], SIG_DFL);
}

/* What a library prints is not this program's answer. */
static void print_beside(void) {
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) close(STDOUT_FILENO);
}

/* Ends without what exit would do: buffers and handlers are the parent's. A process that a library has forked, and that
 * comes back from there, has nothing to answer. */
static _Noreturn void run_as_child(const struct setup *setup, int pipe, pid_t parent) {
    static struct answer answer = {.magic = ANSWER_MAGIC, .bytes = sizeof answer};
    const pid_t self = getpid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_FAILURE); /* it died before that */
    take_crashes_as_they_are();
    unsetenv("WEIR_OPTIONS"); /* a run is what its setup says */
    unsetenv("WEIR_EMU");
    if (setup->target == TARGET_PLUGIN) print_beside();
    run_here(setup, &answer.outcome);
    if (getpid() != self) _exit(EXIT_SUCCESS);
    _exit(write_all(pipe, &answer, sizeof answer) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- in the parent ---------------------------------------------------------------------------------------------- */

/* False, with errno set: there is no process. */
static bool start(struct child *child, const struct setup *setup, struct outcome *outcome) {
    int ends[2];
    const pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    const pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        run_as_child(setup, ends[1], parent);
    }
    const int failed = errno;
    close(ends[1]);
    if (process < 0) {
        close(ends[0]);
        errno = failed;
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *child = (struct child){.process = process, .pipe = ends[0], .outcome = outcome};
    child->ended = (int)syscall(SYS_pidfd_open, process, 0);
    return true;
}

static void fail(struct outcome *outcome, const char *why) {
    memset(outcome, 0, sizeof *outcome);
    outcome->ending = ENDED_FAILED;
    snprintf(outcome->why, sizeof outcome->why, "%s", why);
}

static void say_how_it_ended(struct outcome *outcome, int status) {
    char why[128];
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "the run was ended by SIG%s (%s)",
                 sigabbrev_np(WTERMSIG(status)) != NULL ? sigabbrev_np(WTERMSIG(status)) : "?",
                 strsignal(WTERMSIG(status)));
    else
        snprintf(why, sizeof why, "the run ended with exit status %d and no answer", WEXITSTATUS(status));
    fail(outcome, why);
}

static bool ends(const char *text, size_t room) { return memchr(text, '\0', room) != NULL; }

static bool is_whole(const struct answer *answer) {
    const struct outcome *outcome = &answer->outcome;
    return answer->magic == ANSWER_MAGIC && answer->bytes == sizeof *answer &&
           (unsigned)outcome->ending <= (unsigned)ENDED_FAILED && ends(outcome->why, sizeof outcome->why) &&
           ends(outcome->report, sizeof outcome->report) && isfinite(outcome->cpu_ns_per_op) &&
           outcome->cpu_ns_per_op >= 0;
}

static void finish(struct child *child) {
    int status = 0;
    close(child->pipe);
    if (child->ended >= 0) close(child->ended);
    while (waitpid(child->process, &status, 0) < 0 && errno == EINTR) continue;
    if (child->got != sizeof child->answer)
        say_how_it_ended(child->outcome, status);
    else if (is_whole(&child->answer))
        *child->outcome = child->answer.outcome;
    else
        fail(child->outcome,
             "the run's answer can't be read: something in its process wrote to descriptors that are not "
             "its own");
    child->process = 0;
}

/* Reads what is there. True: no more is wanted, or comes. */
static bool receive(struct child *child) {
    while (child->got < sizeof child->answer) {
        const ssize_t got = read(child->pipe, (char *)&child->answer + child->got, sizeof child->answer - child->got);
        if (got < 0) return errno != EINTR && errno != EAGAIN;
        if (got == 0) return true;
        child->got += (size_t)got;
    }
    return true;
}

/* Whoever still holds the pipe when the process has ended, nothing more comes from it: a read that was interrupted is made
 * again in the next round. */
static bool has_ended(struct child *child, const struct pollfd polled[2]) {
    if (polled[0].revents == 0 && polled[1].revents == 0) return false;
    errno = 0;
    return receive(child) || (polled[1].revents != 0 && errno != EINTR);
}

/* Waits until at least one child has ended. */
static size_t finish_some(struct child *children, struct pollfd *polled, unsigned jobs) {
    size_t finished = 0;
    while (finished == 0) {
        nfds_t count = 0;
        for (unsigned i = 0; i < jobs; i++) {
            if (children[i].process <= 0) continue;
            polled[count++] = (struct pollfd){.fd = children[i].pipe, .events = POLLIN};
            polled[count++] = (struct pollfd){.fd = children[i].ended, .events = POLLIN};
        }
        if (poll(polled, count, -1) < 0) continue; /* interrupted */
        const struct pollfd *at = polled;
        for (unsigned i = 0; i < jobs; i++) {
            if (children[i].process <= 0) continue;
            const bool ended = has_ended(&children[i], at);
            at += 2;
            if (!ended) continue;
            finish(&children[i]);
            finished++;
        }
    }
    return finished;
}

static struct child *unused(struct child *children, unsigned jobs) {
    for (unsigned i = 0; i < jobs; i++)
        if (children[i].process <= 0) return &children[i];
    return NULL;
}

/* A process that can't be made now may be later, when another one has ended. */
static bool run_all(struct child *children, struct pollfd *polled, unsigned jobs, const struct setup *setups,
                    size_t count, struct outcome *outcomes) {
    size_t begun = 0, running = 0;
    while (begun < count || running > 0) {
        struct child *child = begun < count ? unused(children, jobs) : NULL;
        if (child != NULL && start(child, &setups[begun], &outcomes[begun])) {
            begun++;
            running++;
        } else if (running == 0) {
            return false;
        } else {
            running -= finish_some(children, polled, jobs);
        }
    }
    return true;
}

bool run_many(const struct setup *setups, size_t count, unsigned jobs, struct outcome *outcomes, char *why,
              size_t room) {
    if (jobs == 0) jobs = 1;
    if (jobs > count) jobs = count > 0 ? (unsigned)count : 1;
    struct child *children = calloc(jobs, sizeof *children);
    struct pollfd *polled = calloc(jobs, 2 * sizeof *polled);
    fflush(NULL); /* nothing of it is the children's to write */
    bool done = children != NULL && polled != NULL && run_all(children, polled, jobs, setups, count, outcomes);
    if (!done) snprintf(why, room, "no process can be made for a run: %s", strerror(errno));
    free(children);
    free(polled);
    return done;
}
