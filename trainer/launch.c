/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trainer/launch_leftovers.h"
#include "trainer/launch_output.h"

enum {
    GRACE_MS = 5000, /* from the first signal until everything is killed */
    LARGEST_COMMAND = 4096,
};

struct launcher {
    pid_t child;
    int signals; /* signalfd */
    int child_status;
    bool child_ended;
    int ended_by; /* the signal that ends the run, 0: none */
    int64_t kill_at_ms;
    struct output output;
};

static int number_of(const char *variable, int fallback) {
    const char *text = getenv(variable);
    return text && *text ? atoi(text) : fallback;
}

bool launch_joined(void) { return number_of("OMPI_COMM_WORLD_SIZE", 0) > 0; }
int launch_world(void) { return number_of("OMPI_COMM_WORLD_SIZE", 1); }
int launch_local_rank(void) { return number_of("OMPI_COMM_WORLD_LOCAL_RANK", 0); }

/* Open MPI looks at the machine through hwloc, whose gl part asks every X display of "localhost" that there could be: where
 * that name has no entry in /etc/hosts each start waits for name servers. Without /sys hwloc complains and goes on. */
static void keep_hwloc_short(void) {
    setenv("HWLOC_COMPONENTS", "-gl", 0);
    setenv("HWLOC_HIDE_ERRORS", "2", 0);
}

void launch_alone(void) {
    keep_hwloc_short();
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0); /* else Open MPI starts a daemon beside one process */
    setenv("OMPI_MCA_btl", "self,vader", 0);
    setenv("OMPI_MCA_pml", "ob1", 0);
}

int launch_refuse(const char *sentence) {
    int rank = number_of("OMPI_COMM_WORLD_RANK", 0);
    if (rank == 0) fprintf(stderr, "weir-train: %s\n", sentence);
    if (!launch_joined()) return 2;
    MPI_Init(NULL, NULL); /* mpirun kills the others when one ends before it has said its sentence */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 2;
}

/* ---- the child ---------------------------------------------------------------------------------------------------- */

/* mpirun's command line: quiet shared memory on one host, more ranks than cores allowed, nothing bound. */
static void build_command(int64_t ranks, char **argv, char *program, char *count, char **command) {
    static char *const fixed[] = {
        "--oversubscribe", "--bind-to",           "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader",
        "--mca",           "mpi_yield_when_idle", "1"};
    int at = 0;
    sprintf(count, "%lld", (long long)ranks);
    command[at++] = "mpirun";
    command[at++] = "-n";
    command[at++] = count;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) command[at++] = fixed[i];
    command[at++] = program;
    for (int i = 1; argv[i] && at < LARGEST_COMMAND; i++) command[at++] = argv[i];
    command[at] = NULL;
}

static void set_environment(bool bar) {
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    keep_hwloc_short();
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    if (bar)
        setenv(BAR_VARIABLE, "1", 1);
    else
        unsetenv(BAR_VARIABLE);
}

/* After the fork: becomes mpirun in a process group of its own, so that the terminal's Ctrl-C reaches the launcher
 * alone, which ends mpirun in order. */
static _Noreturn void become_mpirun(char **command, int out, int err, const sigset_t *mask) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(command[0], command);
    fprintf(stderr, "weir-train: mpirun can't be started: %s; it comes with Open MPI (Debian: openmpi-bin)\n",
            strerror(errno));
    _exit(1);
}

static int start_child(struct launcher *l, int64_t ranks, bool progress, char **argv, const sigset_t *mask) {
    static char program[4096], count[24], *command[LARGEST_COMMAND + 32];
    int out[2], err[2];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0 || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) return -1;
    program[length] = 0;
    build_command(ranks, argv, program, count, command);
    output_open(&l->output, out[0], err[0], progress);
    set_environment(l->output.bar.draws);
    fflush(NULL);
    l->child = fork();
    if (l->child == 0) become_mpirun(command, out[1], err[1], mask);
    close(out[1]);
    close(err[1]);
    return l->child < 0 ? -1 : 0;
}

/* ---- ending ------------------------------------------------------------------------------------------------------- */

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Kills every child, orphans that came to this process included, until there is none. */
static void kill_children(void) {
    char path[64], list[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (;;) {
        FILE *file = fopen(path, "r");
        size_t got = file ? fread(list, 1, sizeof list - 1, file) : 0;
        if (!file) return; /* a kernel without the list: mpirun has ended its ranks */
        fclose(file);
        list[got] = 0;
        int pid, used;
        for (char *at = list; sscanf(at, "%d%n", &pid, &used) == 1; at += used) kill(pid, SIGKILL);
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD) return;
    }
}

static void reap(struct launcher *l) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == l->child) l->child_ended = true, l->child_status = status;
}

static void take_signal(struct launcher *l) {
    struct signalfd_siginfo signal;
    if (read(l->signals, &signal, sizeof signal) != sizeof signal) return;
    if (signal.ssi_signo == SIGCHLD) {
        reap(l);
        return;
    }
    bool again = l->ended_by != 0;
    if (!again) l->ended_by = (int)signal.ssi_signo;
    l->kill_at_ms = again ? now_ms() : now_ms() + GRACE_MS;
    if (!again) kill(l->child, SIGTERM);
}

static void wait_for_events(struct launcher *l) {
    struct pollfd files[] = {{l->signals, POLLIN, 0}, {l->output.out.from, POLLIN, 0}, {l->output.err.from, POLLIN, 0}};
    int64_t left = l->kill_at_ms ? l->kill_at_ms - now_ms() : -1;
    poll(files, 3, !l->kill_at_ms ? -1 : left > 0 ? (int)left : 0);
    if (files[1].revents) output_pass(&l->output, &l->output.out);
    if (files[2].revents) output_pass(&l->output, &l->output.err);
    if (files[0].revents) take_signal(l);
}

static int tell_outcome(const struct launcher *l) {
    int status = l->child_status;
    if (l->ended_by) {
        fprintf(stderr, "weir-train: ended by signal %d (%s); all ranks have ended\n", l->ended_by,
                strsignal(l->ended_by));
        return 128 + l->ended_by;
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "weir-train: mpirun was killed by signal %d (%s); all ranks have ended\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        return 1;
    }
    if (l->output.dead_signal > 0) {
        fprintf(stderr, "weir-train: rank %d was killed by signal %d (%s); all other ranks have ended\n",
                l->output.dead_rank, l->output.dead_signal, strsignal(l->output.dead_signal));
        return 1;
    }
    if (WEXITSTATUS(status) && !l->output.told)
        fprintf(stderr,
                "weir-train: mpirun ended with status %d and no word why, as when it is asked to end; all ranks have "
                "ended\n",
                WEXITSTATUS(status));
    if (!status && l->output.lost) {
        fprintf(stderr, "weir-train: standard output can't be written\n");
        return 1;
    }
    return WEXITSTATUS(status) > 128 ? 1 : WEXITSTATUS(status);
}

int launch_run(int64_t ranks, bool progress, char **argv) {
    static struct launcher l;
    sigset_t caught, before;
    sigemptyset(&caught);
    sigaddset(&caught, SIGINT);
    sigaddset(&caught, SIGTERM);
    sigaddset(&caught, SIGHUP);
    sigaddset(&caught, SIGCHLD);
    sigprocmask(SIG_BLOCK, &caught, &before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    l.signals = signalfd(-1, &caught, SFD_CLOEXEC);
    if (l.signals < 0 || start_child(&l, ranks, progress, argv, &before)) {
        fprintf(stderr, "weir-train: the ranks can't be started: %s\n", strerror(errno));
        return 1;
    }
    while (!l.child_ended && !(l.kill_at_ms && now_ms() >= l.kill_at_ms)) wait_for_events(&l);
    kill_children();
    if (!l.child_ended || WIFSIGNALED(l.child_status)) launch_remove_leftovers(l.child);
    while (l.output.out.from >= 0) output_pass(&l.output, &l.output.out);
    while (l.output.err.from >= 0) output_pass(&l.output, &l.output.err);
    return tell_outcome(&l);
}
