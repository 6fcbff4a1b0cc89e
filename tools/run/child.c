/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not SIGTSTP, SIGTTIN and SIGTTOU, which stop; nor SIGPIPE, which is about what weir-run writes. */
static bool is_passed_on(int signal) {
    static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGABRT,
                                    SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        if (signal == passed_on[i]) return true;
    return signal >= SIGRTMIN && signal <= SIGRTMAX;
}

static volatile pid_t child;

/* What a terminal sends goes to all its processes, the program among them. */
static void pass_on(int signal, siginfo_t *info, void *context) {
    (void)context;
    const int kept = errno;
    if (info->si_code <= 0 && child > 0) kill(child, signal);
    errno = kept;
}

static void watch_signals(void) {
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART}, before;
    sigfillset(&action.sa_mask);
    for (int signal = 1; signal <= SIGRTMAX;
         signal++) /* what is ignored, as under nohup, stays so for the program too */
        if (is_passed_on(signal) && sigaction(signal, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signal, &action, NULL);
}

/* As this process got it. */
static struct sigaction of_children;

static void become(const char *path, char **arguments, const sigset_t *mask, int trouble) {
    sigaction(SIGCHLD, &of_children, NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(path, arguments); /* which starts a script without its first line by a shell */
    const int code = errno;
    const ssize_t told = write(trouble, &code, sizeof code);
    _exit(told == (ssize_t)sizeof code ? 126 : 127);
}

/* Ends when the program has taken over. Gives: 0, or why it could not. */
static int wait_for_start(int trouble) {
    int code = 0;
    ssize_t told;
    do told = read(trouble, &code, sizeof code);
    while (told < 0 && errno == EINTR);
    return told == (ssize_t)sizeof code ? code : 0;
}

int child_run(const char *path, char **arguments, char *why, size_t room) {
    int trouble[2], status = 0;
    sigset_t all, mask;
    sigfillset(&all);
    if (pipe2(trouble, O_CLOEXEC) != 0) {
        snprintf(why, room, "a pipe: %s", strerror(errno));
        return 126;
    }
    sigprocmask(SIG_SETMASK, &all, &mask); /* none is lost before there is somebody to pass it on to */
    watch_signals();
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL},
              &of_children); /* who ignores it learns of no status */
    child = fork();
    if (child == 0) become(path, arguments, &mask, trouble[1]);
    signal(SIGPIPE, SIG_IGN); /* the program's status counts, whoever has stopped reading what is said of it */
    int code = child < 0 ? errno : 0;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    close(trouble[1]);
    if (child > 0) code = wait_for_start(trouble[0]);
    close(trouble[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (code != 0) {
        snprintf(why, room, "%.200s: %s", path, strerror(code));
        return 126;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
