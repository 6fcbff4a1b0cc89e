/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/demo/child.h"

#define TRAIN_BAD_INPUT     2 /* exit status of weir-train */
#define TRAIN_OUT_OF_MEMORY 3
#define CHILD_LIMIT_SECONDS 900.0
#define ARGUMENTS_MOST      24

double session_seconds(const struct session *session) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9 - session->began;
}

/* The message of a failure, cut where it does not fit. */
static bool sentence(char *message, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool sentence(char *message, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(message, DEMO_MESSAGE_ROOM, format, list);
    va_end(list);
    return false;
}

/* ---- places -------------------------------------------------------------------------------------------------------- */

static bool folder_of_program(char folder[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) return false;
    folder[length] = 0;
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

static bool join(char path[PATH_MAX], const char *folder, const char *rest) {
    int length = snprintf(path, PATH_MAX, "%s%s", folder, rest);
    return length >= 0 && length < PATH_MAX;
}

/* A path below the folder where we are is shown from there. */
static void shorten(char path[PATH_MAX]) {
    char here[PATH_MAX];
    size_t length = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (length > 1 && strncmp(path, here, length) == 0 && path[length] == '/')
        memmove(path, path + length + 1, strlen(path + length));
}

static bool find_program(char path[PATH_MAX], const char *folder, const char *name, char *message) {
    if (join(path, folder, name) && access(path, X_OK) == 0) return true;
    return sentence(message, "%s: %s; weir-demo runs the program that lies beside it", path, strerror(errno));
}

/* Installed beside the program, else in the source tree that it was built from. */
static bool find_config(struct session *session, const char *folder, char *message) {
    const char *asked = session->options->config;
    bool found = asked ? join(session->config, asked, "")
                       : (join(session->config, folder, "/../share/weir/configs/demo.yaml") &&
                          access(session->config, R_OK) == 0) ||
                             join(session->config, WEIR_SOURCE_CONFIGS, "/demo.yaml");
    shorten(session->config);
    if (found && access(session->config, R_OK) == 0) return true;
    session->bad_input = asked != NULL;
    return sentence(message, "configuration %s: %s", session->config, strerror(errno));
}

/* In a build tree the reports go to its folder "demo", else to one where we are. */
static bool choose_out(struct session *session, const char *folder) {
    char cache[PATH_MAX];
    if (session->options->out) return join(session->out, session->options->out, "");
    if (!join(cache, folder, "/../CMakeCache.txt")) return false;
    if (access(cache, F_OK) != 0) return join(session->out, "weir-demo-report", "");
    char tree[PATH_MAX], resolved[PATH_MAX];
    if (!join(tree, folder, "/..") || !realpath(tree, resolved) || !join(session->out, resolved, "/demo")) return false;
    shorten(session->out);
    return true;
}

static bool make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int made = mkdir(path, 0777);
        int code = errno;
        *slash = '/';
        if (made != 0 && code != EEXIST) return false;
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

bool session_open(struct session *session, const struct options *options, char *message) {
    char folder[PATH_MAX];
    *session = (struct session){.options = options};
    session->began = session_seconds(session);
    session->say = options->json_path && !*options->json_path ? stderr : stdout;
    session->live = isatty(fileno(session->say)) == 1;
    if (!folder_of_program(folder)) {
        return sentence(message, "cannot find the folder of weir-demo: /proc/self/exe: %s", strerror(errno));
        return false;
    }
    if (!find_program(session->train, folder, "/weir-train", message)) return false;
    if (!find_program(session->replay, folder, "/weir-replay", message)) return false;
    if (!find_config(session, folder, message)) return false;
    char inside[PATH_MAX];
    if (choose_out(session, folder) && make_folders(session->out) && join(inside, session->out, "/.") &&
        access(inside, W_OK) == 0)
        return true;
    session->bad_input = session->options->out != NULL;
    return sentence(message, "cannot write to folder %s: %s", session->out, strerror(errno));
}

void session_close(struct session *session) {
    struct run *runs[] = {&session->measured, &session->per_stream, &session->weir, &session->offload,
                          &session->without,  &session->small,      &session->large};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) run_free(runs[i]);
}

void session_path(const struct session *session, const char *file, const char *suffix, char path[PATH_MAX]) {
    if (snprintf(path, PATH_MAX, "%s/%s%s", session->out, file, suffix) >= PATH_MAX) path[0] = 0;
}

/* ---- arguments ------------------------------------------------------------------------------------------------------ */

struct arguments {
    size_t count;
    char *list[ARGUMENTS_MOST + 1]; /* ends in NULL */
    bool failed;
};

static void add(struct arguments *arguments, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct arguments *arguments, const char *format, ...) {
    char *text = NULL;
    va_list list;
    va_start(list, format);
    int length = vasprintf(&text, format, list);
    va_end(list);
    if (length < 0 || arguments->count == ARGUMENTS_MOST) {
        arguments->failed = true;
        if (length >= 0) free(text);
        return;
    }
    arguments->list[arguments->count++] = text;
}

static void arguments_free(struct arguments *arguments) {
    for (size_t i = 0; i < arguments->count; i++) free(arguments->list[i]);
}

/* As one would type it: the program by its name, words that a shell would take apart in quotes. */
static void arguments_show(const struct arguments *arguments, char *text, size_t room) {
    FILE *out = fmemopen(text, room, "w");
    text[0] = 0;
    if (!out) return;
    const char *slash = strrchr(arguments->list[0], '/');
    fputs(slash ? slash + 1 : arguments->list[0], out);
    for (size_t i = 1; i < arguments->count; i++) {
        const char *word = arguments->list[i];
        bool plain =
            word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=./,:+@%")] == 0;
        fputc(' ', out);
        if (!plain) fputc('\'', out);
        for (; *word; word++) {
            if (*word == '\'') fputs("'\\'", out);
            fputc(*word, out);
        }
        if (!plain) fputc('\'', out);
    }
    fclose(out);
    text[room - 1] = 0;
}

static void note_command(struct session *session, const struct arguments *arguments) {
    struct demo *demo = &session->demo;
    if (demo->command_count == DEMO_COMMANDS_MOST) return;
    arguments_show(arguments, demo->commands[demo->command_count++], sizeof *demo->commands);
}

/* ---- running -------------------------------------------------------------------------------------------------------- */

struct progress {
    struct session *session;
    const char *what;
    int64_t steps; /* 0: not known */
};

/* weir-train prints a line a step, which starts with the word and the number. */
static void on_line(void *to, const char *line) {
    const struct progress *progress = to;
    long long step;
    if (!progress->session->live || sscanf(line, " step %lld", &step) != 1) return;
    fprintf(progress->session->say, "\r\033[K  %s: step %lld", progress->what, step);
    if (progress->steps > 0) fprintf(progress->session->say, " of %lld", (long long)progress->steps);
    fflush(progress->session->say);
}

static void clear_line(const struct session *session) {
    if (session->live) fputs("\r\033[K", session->say);
}

/* Says how a child ended that should not have ended so. */
static void say_failure(const struct session *session, const struct child *child, const struct child_result *result) {
    const char *slash = strrchr(child->argv[0], '/'), *name = slash ? slash + 1 : child->argv[0];
    clear_line(session);
    fflush(session->say);
    if (result->end == CHILD_NOT_STARTED) {
        fprintf(stderr, "weir-demo: cannot start %s: %s\n", child->argv[0], strerror(result->status));
        return;
    }
    child_log_tail(child->log_path, 12, "    ", stderr);
    if (result->end == CHILD_EXITED)
        fprintf(stderr, "weir-demo: %s ended with status %d; all it printed is in %s\n", name, result->status,
                child->log_path);
    else if (result->end == CHILD_KILLED)
        fprintf(stderr, "weir-demo: %s was ended by signal %d (%s); all it printed is in %s\n", name, result->status,
                strsignal(result->status), child->log_path);
    else
        fprintf(stderr, "weir-demo: %s was ended after %.0f s, the longest a run may take; all it printed is in %s\n",
                name, child->limit_seconds, child->log_path);
}

/* Gives: the exit status, or -1 when there is none to judge; then it has been said why. */
static int run_child(struct session *session, struct arguments *arguments, const char *file, struct progress *progress,
                     double *seconds) {
    char log[PATH_MAX];
    session_path(session, file, ".log", log);
    if (session->live) fprintf(session->say, "  %s", progress->what);
    fflush(session->say);
    struct child child = {arguments->list, log, CHILD_LIMIT_SECONDS, on_line, progress};
    struct child_result result = child_run(&child);
    clear_line(session);
    *seconds = result.seconds;
    if (result.end == CHILD_INTERRUPTED) session->signal = result.status;
    if (result.end == CHILD_EXITED && (result.status == 0 || result.status == TRAIN_OUT_OF_MEMORY))
        return result.status;
    session->bad_input = result.end == CHILD_EXITED && result.status == TRAIN_BAD_INPUT;
    if (result.end != CHILD_INTERRUPTED) say_failure(session, &child, &result);
    return -1;
}

static void say_done(const struct session *session, const char *what, const char *answer, double seconds) {
    fprintf(session->say, "  %-44s %-44s %6.1f s\n", what, answer, seconds);
    fflush(session->say);
}

/* ---- weir-train ----------------------------------------------------------------------------------------------------- */

static void train_arguments(const struct session *session, const struct train_job *job, const char *json,
                            struct arguments *arguments) {
    int64_t steps = job->steps ? job->steps : session->options->steps;
    add(arguments, "%s", session->train);
    add(arguments, "--config=%s", session->config);
    if (session->options->data) add(arguments, "--data=%s", session->options->data);
    add(arguments, "--name=%s", job->name);
    add(arguments, "--device=emulated");
    add(arguments, "--policy=%s", job->policy);
    add(arguments, "--offload=%s", job->offload ? "on" : "off");
    add(arguments, "--capacity=%zu", job->capacity_bytes);
    if (job->batch) add(arguments, "--batch=%lld", (long long)job->batch);
    if (steps) add(arguments, "--steps=%lld", (long long)steps);
    if (job->timeline) add(arguments, "--timeline");
    if (job->trace) add(arguments, "--trace=%s/%s.trace", session->out, job->file);
    add(arguments, "--json=%s", json);
}

static void train_answer(const struct run *run, char *text, size_t room) {
    struct figures figures = run_figures(run);
    if (run->outcome == RUN_COMPLETED)
        snprintf(text, room, "completed, peak %.2f MiB live", mebibytes(figures.peak_live_bytes));
    else if (run->failed_step == DEMO_UNKNOWN)
        snprintf(text, room, "out of memory, %.1f %% live", 100.0 * figures.utilisation);
    else
        snprintf(text, room, "out of memory in step %lld, %.1f %% live", (long long)run->failed_step,
                 100.0 * figures.utilisation);
}

bool session_train(struct session *session, const struct train_job *job, struct run *run) {
    char json[PATH_MAX], message[DEMO_MESSAGE_ROOM], answer[128];
    struct arguments arguments = {0};
    struct progress progress = {session, job->what, job->steps ? job->steps : session->options->steps};
    double seconds = 0.0;
    if (progress.steps == 0) progress.steps = session->measured.steps_asked;
    session_path(session, job->file, ".json", json);
    unlink(json); /* so that an old report is never read for the new one */
    train_arguments(session, job, json, &arguments);
    note_command(session, &arguments);
    int status = arguments.failed ? -1 : run_child(session, &arguments, job->file, &progress, &seconds);
    arguments_free(&arguments);
    if (status < 0) return false;
    run_free(run);
    if (!run_read_file(run, json, message)) {
        fprintf(stderr, "weir-demo: %s\n", message);
        return false;
    }
    snprintf(run->name, sizeof run->name, "%s", job->name);
    enum run_outcome told = status == 0 ? RUN_COMPLETED : RUN_OUT_OF_MEMORY;
    if (run->outcome != told) {
        fprintf(stderr, "weir-demo: weir-train ended with status %d, but %s tells another outcome\n", status, json);
        return false;
    }
    train_answer(run, answer, sizeof answer);
    say_done(session, job->what, answer, seconds);
    return true;
}

void session_drop_traces(const struct session *session, const char *file, size_t ranks) {
    char path[PATH_MAX], suffix[48];
    for (size_t rank = 0; rank < ranks && !session->options->keep; rank++) {
        snprintf(suffix, sizeof suffix, ".trace.rank%zu", rank);
        session_path(session, file, suffix, path);
        unlink(path);
    }
}

/* ---- weir-replay ----------------------------------------------------------------------------------------------------- */

bool session_replay(struct session *session, const char *trace_file, int64_t rank, const char *policy, const char *file,
                    const char *what, double *min_capacity_ratio) {
    char json[PATH_MAX], message[DEMO_MESSAGE_ROOM], answer[128];
    struct arguments arguments = {0};
    struct progress progress = {session, what, 0};
    double seconds = 0.0;
    session_path(session, file, ".json", json);
    unlink(json);
    add(&arguments, "%s", session->replay);
    add(&arguments, "%s/%s.trace.rank%lld", session->out, trace_file, (long long)rank);
    add(&arguments, "--policy=%s", policy);
    add(&arguments, "--scan");
    add(&arguments, "--clock=none"); /* the trace does not say how long work takes */
    if (session->measured.profile[0]) add(&arguments, "--profile=%s", session->measured.profile);
    add(&arguments, "--json=%s", json);
    note_command(session, &arguments);
    int status = arguments.failed ? -1 : run_child(session, &arguments, file, &progress, &seconds);
    arguments_free(&arguments);
    if (status != 0) return false;
    if (!replay_read_file(json, min_capacity_ratio, message)) {
        fprintf(stderr, "weir-demo: %s\n", message);
        return false;
    }
    snprintf(answer, sizeof answer, "%.3f x live", *min_capacity_ratio);
    say_done(session, what, answer, seconds);
    return true;
}
