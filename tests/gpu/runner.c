/* SPDX-License-Identifier: Apache-2.0 */
/* The runner. It calls nothing of the driver itself: each subject's cases run in a process that it starts from its own
 * program file, and tells it over a pipe what comes of them, a line each: ready, start N, pass N, skip N WHY, fail N
 * WHY. */
#include "suite.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "report.h"

enum { SECONDS_TO_BEGIN = 120 }; /* a driver may take long to start */

/* ---- the cases -------------------------------------------------------------------------------------------------- */

static struct gpu_case *first_case, **place_of_next = &first_case;

void gpu_case_add(struct gpu_case *added) {
    *place_of_next = added;
    place_of_next = &added->next;
}

static const struct gpu_case *case_number(int number) {
    const struct gpu_case *found = first_case;
    while (found != NULL && number-- > 0) found = found->next;
    return found;
}

/* ---- in the process that runs cases ------------------------------------------------------------------------------ */

static int report_to = -1;
static int running = -1; /* the case's number */

static void tell(const char *word, int number, const char *why) {
    char line[1200];
    int length = snprintf(line, sizeof line, "%s %d %s", word, number, why);
    if (length >= (int)sizeof line) length = (int)sizeof line - 1;
    for (int i = 0; i < length; i++)
        if (line[i] == '\n') line[i] = ' ';
    line[length] = '\n';
    if (write(report_to, line, (size_t)length + 1) != length + 1) _exit(3);
}

void gpu_fail(const char *file, int line, const char *format, ...) {
    char what[800], why[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const char *name = strrchr(file, '/');
    snprintf(why, sizeof why, "%s:%d: %s", name != NULL ? name + 1 : file, line, what);
    tell("fail", running, why);
    _exit(1);
}

void gpu_skip(const char *format, ...) {
    char why[800];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    tell("skip", running, why);
    _exit(0);
}

static const char *code_name(CUresult code) {
    static char texts[4][48];
    static unsigned next;
    const char *name = NULL;
    if (cu.GetErrorName(code, &name) == CUDA_SUCCESS && name != NULL) return name;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "code %d", (int)code);
    return text;
}

/* "cuMemAlloc" of "cu.MemAlloc(&block, 0)". */
static void entry_name(const char *call, char name[64]) {
    const char *begin = strncmp(call, "cu.", 3) == 0 ? call + 3 : call;
    const size_t length = strcspn(begin, "( ");
    snprintf(name, 64, "%s%.*s", begin != call ? "cu" : "", (int)(length < 60 ? length : 60), begin);
}

void gpu_expect(const char *file, int line, const char *call, CUresult actual, int count, const CUresult *allowed) {
    char expected[200] = "";
    for (int i = 0; i < count; i++) {
        if (actual == allowed[i]) return;
        const size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", i > 0 ? " or " : "", code_name(allowed[i]));
    }
    char name[64];
    entry_name(call, name);
    if (actual == CUDA_ERROR_NOT_SUPPORTED) gpu_skip("%s gives CUDA_ERROR_NOT_SUPPORTED", name);
    gpu_fail(file, line, "%s gives %s, expected %s", call, code_name(actual), expected);
}

void gpu_refused(const char *file, int line, const char *call, CUresult actual) {
    char name[64];
    entry_name(call, name);
    if (actual == CUDA_ERROR_NOT_SUPPORTED) gpu_skip("%s gives CUDA_ERROR_NOT_SUPPORTED", name);
    if (actual == CUDA_SUCCESS) gpu_fail(file, line, "%s gives CUDA_SUCCESS, expected an error", call);
}

static void run_case(int number) {
    const struct gpu_case *the_case = case_number(number);
    running = number;
    tell("start", number, "");
    the_case->run();
    if (the_case->process == GPU_SHARED) machine_check();
    tell("pass", number, "");
}

static int serve(int count, char **numbers) {
    const char *wrong = driver_load();
    running = atoi(numbers[0]); /* what goes wrong at the start is the first case's */
    if (wrong != NULL) gpu_fail(__FILE__, __LINE__, "%s", wrong);
    if (case_number(running)->process != GPU_BARE) machine_begin();
    tell("ready", 0, "");
    for (int i = 0; i < count; i++) run_case(atoi(numbers[i]));
    _exit(0);
}

static int probe(void) {
    const char *wrong = driver_load();
    if (wrong != NULL) gpu_fail(__FILE__, __LINE__, "%s", wrong);
    char name[100] = "", text[400], profile[64] = "";
    int version = 0;
    size_t granularity = 0;
    OK(cu.Init(0));
    OK(cu.DriverGetVersion(&version));
    const int devices = device_count();
    if (devices == 0) gpu_fail(__FILE__, __LINE__, "the driver finds no device");
    OK(cu.DeviceGetName(name, sizeof name, DEVICE));
    if (machine_is_emulated()) OK(cu.EmuProfile(profile, sizeof profile, &granularity));
    snprintf(text, sizeof text, "%d %d %d %s", version, devices, machine_is_emulated(), name);
    tell("ready", 0, text);
    _exit(0);
}

/* ---- in the runner ---------------------------------------------------------------------------------------------- */

struct worker {
    pid_t process;
    int pipe;
    char buffer[4096];
    size_t filled;
};

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void begin_worker(struct worker *worker, const char *what, int count, const int *numbers) {
    int ends[2];
    if (pipe(ends) != 0) die("no pipe: %s", strerror(errno));
    char **arguments = calloc((size_t)count + 4, sizeof *arguments);
    char *texts = calloc((size_t)count + 1, 12);
    if (arguments == NULL || texts == NULL) die("no memory");
    static char self[] = "conformance";
    snprintf(texts, 12, "%d", ends[1]);
    arguments[0] = self;
    arguments[1] = strdup(what);
    arguments[2] = texts;
    for (int i = 0; i < count; i++) {
        snprintf(texts + 12 * (i + 1), 12, "%d", numbers[i]);
        arguments[i + 3] = texts + 12 * (i + 1);
    }
    fflush(NULL);
    *worker = (struct worker){.process = fork(), .pipe = ends[0]};
    if (worker->process < 0) die("no process: %s", strerror(errno));
    if (worker->process == 0) {
        close(ends[0]);
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    close(ends[1]);
    free(arguments[1]);
    free(arguments);
    free(texts);
}

/* The next line, without its end. False: the process has ended, or `until` has come (then *late). */
static bool read_line(struct worker *worker, uint64_t until, char *line, size_t room, bool *late) {
    *late = false;
    for (;;) {
        char *end = memchr(worker->buffer, '\n', worker->filled);
        if (end != NULL) {
            const size_t length = (size_t)(end - worker->buffer);
            snprintf(line, room, "%.*s", (int)length, worker->buffer);
            worker->filled -= length + 1;
            memmove(worker->buffer, end + 1, worker->filled);
            return true;
        }
        const uint64_t now = now_ms();
        struct pollfd poll_for = {.fd = worker->pipe, .events = POLLIN};
        const int ready = now >= until ? 0 : poll(&poll_for, 1, (int)(until - now));
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) {
            *late = true;
            return false;
        }
        const ssize_t got = read(worker->pipe, worker->buffer + worker->filled, sizeof worker->buffer - worker->filled);
        if (got <= 0) return false;
        worker->filled += (size_t)got;
    }
}

/* Ends it if need be. Gives how it ended, in words. */
static void end_worker(struct worker *worker, bool kill_it, char words[80]) {
    int status = 0;
    if (kill_it) kill(worker->process, SIGKILL);
    while (waitpid(worker->process, &status, 0) < 0 && errno == EINTR) {
    }
    close(worker->pipe);
    if (WIFSIGNALED(status))
        snprintf(words, 80, "the process was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(words, 80, "the process ended with status %d", WEXITSTATUS(status));
}

static struct result *results; /* of all cases, by number */

static void settle(int number, enum outcome outcome, const char *why) {
    struct result *result = &results[number];
    if (result->outcome != NOT_RUN) return; /* the first word counts: a forked process may have spoken */
    result->outcome = outcome;
    snprintf(result->why, sizeof result->why, "%s", why);
}

static void take_line(const char *line, int *current, uint64_t *began) {
    char word[16] = "";
    int number = -1, used = 0;
    if (sscanf(line, "%15s %d%n", word, &number, &used) != 2) return;
    const char *why = line[used] == ' ' ? line + used + 1 : line + used;
    if (strcmp(word, "start") == 0) {
        *current = number;
        *began = now_ms();
        return;
    }
    const enum outcome outcome = strcmp(word, "pass") == 0   ? PASSED
                                 : strcmp(word, "skip") == 0 ? SKIPPED
                                 : strcmp(word, "fail") == 0 ? FAILED
                                                             : NOT_RUN;
    if (outcome == NOT_RUN) return;
    settle(number, outcome, why);
    results[number].milliseconds = (unsigned)(now_ms() - *began);
}

/* Runs the cases in one process. Each has an outcome then, up to where the process ended. */
static void run_in_one_process(int count, const int *numbers, unsigned limit_seconds) {
    struct worker worker;
    char line[1300], words[80], why[200];
    int current = -1;
    bool late;
    begin_worker(&worker, "--serve", count, numbers);
    uint64_t began = now_ms();
    for (;;) {
        const unsigned seconds = current < 0 ? SECONDS_TO_BEGIN : limit_seconds;
        if (!read_line(&worker, began + (uint64_t)seconds * 1000, line, sizeof line, &late)) break;
        take_line(line, &current, &began);
    }
    end_worker(&worker, late, words);
    const int culprit = current < 0 ? numbers[0] : current;
    if (late)
        snprintf(why, sizeof why, "not over within its time limit");
    else
        snprintf(why, sizeof why, "%s in the middle of the case", words);
    settle(culprit, FAILED, why);
}

/* Starts processes until each case has an outcome. */
static void run_batch(int count, const int *numbers, const struct options *options) {
    for (int done = 0; done < count;) {
        run_in_one_process(count - done, numbers + done, options->limit_seconds);
        while (done < count && results[numbers[done]].outcome != NOT_RUN) {
            report_case(case_number(numbers[done]), &results[numbers[done]], options);
            done++;
        }
    }
}

static bool together(const struct gpu_case *a, const struct gpu_case *b) {
    return a->process == GPU_SHARED && b->process == GPU_SHARED && strcmp(a->subject, b->subject) == 0;
}

static bool chosen(const struct gpu_case *the_case, const struct options *options) {
    return options->only == NULL || strcmp(options->only, the_case->name) == 0 ||
           strcmp(options->only, the_case->subject) == 0;
}

/* Cases of a subject that may share a process follow one another there. */
static void run_all(const struct options *options) {
    int count = 0, number = 0;
    int *batch = calloc((size_t)case_count(first_case) + 1, sizeof *batch);
    if (batch == NULL) die("no memory");
    const struct gpu_case *last = NULL;
    for (const struct gpu_case *at = first_case; at != NULL; at = at->next, number++) {
        if (!chosen(at, options)) continue;
        if (count > 0 && !together(last, at)) {
            run_batch(count, batch, options);
            count = 0;
        }
        batch[count++] = number;
        last = at;
    }
    if (count > 0) run_batch(count, batch, options);
    free(batch);
}

/* What is under test. False, with the reason, when there is nothing to test. */
static bool probe_machine(struct machine *machine, char *why, size_t room) {
    struct worker worker;
    char line[1300], words[80];
    bool late;
    int emulated = 0, used = 0;
    begin_worker(&worker, "--probe", 0, NULL);
    const bool got = read_line(&worker, now_ms() + (uint64_t)SECONDS_TO_BEGIN * 1000, line, sizeof line, &late);
    end_worker(&worker, late, words);
    if (got &&
        sscanf(line, "ready 0 %d %d %d %n", &machine->driver_version, &machine->devices, &emulated, &used) == 3) {
        machine->emulated = emulated != 0;
        snprintf(machine->name, sizeof machine->name, "%s", line + used);
        return true;
    }
    /* "fail -1 runner.c:99: what" */
    const char *what = got ? strstr(line, ": ") : NULL;
    snprintf(why, room, "%s", what != NULL ? what + 2 : got ? line : words);
    return false;
}

int main(int argc, char **argv) {
    if (argc >= 3 && (strcmp(argv[1], "--serve") == 0 || strcmp(argv[1], "--probe") == 0)) {
        report_to = atoi(argv[2]);
        return strcmp(argv[1], "--probe") == 0 || argc < 4 ? probe() : serve(argc - 3, argv + 3);
    }
    struct options options;
    if (!options_read(argc, argv, first_case, &options)) return 2;
    if (options.list) {
        report_list(first_case, &options);
        return 0;
    }
    setenv("GPU_DRIVER", options.driver, 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* few streams share a hardware queue then, and hold one another */
    struct machine machine = {.driver = options.driver};
    char why[1300];
    if (!probe_machine(&machine, why, sizeof why)) {
        fprintf(stderr, "conformance: no driver to test at %s: %s\n", options.driver, why);
        return 2;
    }
    results = calloc((size_t)case_count(first_case) + 1, sizeof *results);
    if (results == NULL) die("no memory");
    report_begin(&machine, &options);
    const uint64_t began = now_ms();
    run_all(&options);
    const int status = report_end(first_case, results, &machine, &options, (unsigned)(now_ms() - began));
    free(results);
    return status;
}
