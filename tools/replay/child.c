/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in processes of their own: each child makes one run and writes its outcome to a pipe. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

struct child {
    pid_t process;
    int answer; /* the pipe's reading end */
    struct outcome *outcome;
    size_t got; /* bytes of the outcome */
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

/* Ends without what exit would do: buffers and handlers are the parent's. */
static _Noreturn void run_as_child(const struct setup *setup, int answer, pid_t parent) {
    static struct outcome outcome;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_FAILURE); /* it died before that */
    take_crashes_as_they_are();
    unsetenv("WEIR_OPTIONS"); /* a run is what its setup says */
    run_here(setup, &outcome);
    _exit(write_all(answer, &outcome, sizeof outcome) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- in the parent ---------------------------------------------------------------------------------------------- */

/* False, with errno set: there is no process. */
static bool start(struct child *child, const struct setup *setup, struct outcome *outcome) {
    int ends[2];
    const pid_t parent = getpid();
    if (pipe(ends) != 0) return false;
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
    *child = (struct child){.process = process, .answer = ends[0], .outcome = outcome};
    return true;
}

static void say_how_it_ended(struct outcome *outcome, int status) {
    memset(outcome, 0, sizeof *outcome);
    outcome->ending = ENDED_FAILED;
    if (WIFSIGNALED(status))
        snprintf(outcome->why, sizeof outcome->why, "the run was ended by SIG%s (%s)",
                 sigabbrev_np(WTERMSIG(status)) != NULL ? sigabbrev_np(WTERMSIG(status)) : "?",
                 strsignal(WTERMSIG(status)));
    else
        snprintf(outcome->why, sizeof outcome->why, "the run ended with exit status %d and no answer",
                 WEXITSTATUS(status));
}

static void finish(struct child *child) {
    int status = 0;
    close(child->answer);
    while (waitpid(child->process, &status, 0) < 0 && errno == EINTR) continue;
    if (child->got != sizeof *child->outcome) say_how_it_ended(child->outcome, status);
    child->process = 0;
}

/* Reads what is there. True: it has ended. */
static bool receive(struct child *child) {
    char *to = (char *)child->outcome + child->got;
    char beyond;
    const size_t room = sizeof *child->outcome - child->got;
    const ssize_t got = room > 0 ? read(child->answer, to, room) : read(child->answer, &beyond, 1);
    if (got < 0) return errno != EINTR && errno != EAGAIN;
    if (room > 0) child->got += (size_t)got;
    return got == 0;
}

/* Waits until at least one child has ended. */
static size_t finish_some(struct child *children, struct pollfd *polled, unsigned jobs) {
    size_t finished = 0;
    while (finished == 0) {
        nfds_t count = 0;
        for (unsigned i = 0; i < jobs; i++)
            if (children[i].process > 0) polled[count++] = (struct pollfd){.fd = children[i].answer, .events = POLLIN};
        if (poll(polled, count, -1) < 0) continue; /* interrupted */
        nfds_t at = 0;
        for (unsigned i = 0; i < jobs; i++) {
            if (children[i].process <= 0) continue;
            if (polled[at++].revents == 0 || !receive(&children[i])) continue;
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
    struct pollfd *polled = calloc(jobs, sizeof *polled);
    fflush(NULL); /* nothing of it is the children's to write */
    bool done = children != NULL && polled != NULL && run_all(children, polled, jobs, setups, count, outcomes);
    if (!done) snprintf(why, room, "no process can be made for a run: %s", strerror(errno));
    free(children);
    free(polled);
    return done;
}
