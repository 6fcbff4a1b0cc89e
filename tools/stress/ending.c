/* SPDX-License-Identifier: Apache-2.0 */
#include "ending.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool guarded;
static pid_t process; /* one that a library has forked may end */

/* Whether the end is one that nobody awaits. Each thread that comes here tells it, in one piece: another may end all at once. */
static bool tell(const char *what) {
    char line[128] = "weir-stress: ";
    if (!atomic_load(&guarded) || getpid() != process) return false;
    strcat(strcat(line, what), " while the run went on: there is no answer\n");
    const ssize_t wrote = write(STDERR_FILENO, line, strlen(line));
    (void)wrote; /* there is nowhere else to say it */
    return true;
}

static _Noreturn void end_process(int status) {
    for (;;) syscall(SYS_exit_group, status);
}

static void ended_from_within(void) {
    if (tell("the process was ended")) end_process(EXIT_FAILURE);
}

/* The program's symbols come before the C library's: a library's calls come here. */
__attribute__((visibility("default"))) void _exit(int status) {
    ended_from_within();
    end_process(status);
}

__attribute__((visibility("default"))) void _Exit(int status) { _exit(status); }

static void crashed(int number) {
    const char *name = sigabbrev_np(number);
    char what[32] = "SIG";
    if (name != NULL) tell(strncat(what, name, sizeof what - sizeof "SIG"));
    signal(number, SIG_DFL);
    raise(number);
}

/* What a sanitizer wants to know of stays its own. */
static void heed(int number) {
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_DFL) signal(number, crashed);
}

/* Once for each thread that may end the process: of two that do so at once, the second goes on behind the handlers that the
 * first has begun. */
static bool hear_of_the_end(unsigned threads) {
    bool heard = true;
    for (unsigned i = 0; i <= threads && heard; i++)
        heard = atexit(ended_from_within) == 0 && at_quick_exit(ended_from_within) == 0;
    return heard;
}

void ending_guard(unsigned threads) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    process = getpid();
    atomic_store(&guarded, hear_of_the_end(threads));
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) heed(crashes[i]);
}

void ending_allow(void) { atomic_store(&guarded, false); }

void ending_now(int status) {
    ending_allow();
    _exit(status);
}
