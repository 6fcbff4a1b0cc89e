/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the emulated driver is: stream operations a second under the virtual clock (unbacked memory, CPU time of the
 * one thread), under the real clock (wall time), and what the watch costs as a multiple, in the same run.
 *
 * The mix is a training step's: on each of four streams in turn two kernels that read two buffers and write a third, an event's
 * record, and a wait of the next stream for it. Each measurement is a process of its own, since a process has one machine.
 * Usage: weir-bench-emulator [--json=FILE] [KEY=NUMBER]...   further numbers go to the JSON as they are */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/driver.h"
#include "device/standard.h"
#include "weir/weir.h"

enum { ROUNDS = 7, STREAMS = 4, OPERATIONS = 400000, REAL_OPERATIONS = 60000 };

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const CUresult must_code = (call);                                                                             \
        if (must_code != CUDA_SUCCESS) {                                                                               \
            fprintf(stderr, "weir-bench-emulator: %s gives %d\n", #call, (int)must_code);                              \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one machine ------------------------------------------------------------------------------------------------ */

struct step {
    const struct weir__driver *driver;
    CUdeviceptr memory;
    size_t granule;
    CUstream streams[STREAMS];
    CUevent events[STREAMS];
};

static struct step open_step(const char *settings) {
    struct step step = {0};
    CUcontext context;
    if (weir__driver_load("emulated", settings, &step.driver) != WEIR_OK) {
        fprintf(stderr, "weir-bench-emulator: %s\n", weir_last_error()->message);
        _exit(1);
    }
    MUST(step.driver->primary_context_retain(&context, 0));
    MUST(step.driver->context_push(context));
    MUST(step.driver->emu_profile(NULL, 0, &step.granule));
    MUST(step.driver->memory_alloc(&step.memory, 64 * step.granule));
    MUST(step.driver->set_bytes(step.memory, 0, 64 * step.granule, NULL));
    MUST(step.driver->context_synchronize());
    for (int i = 0; i < STREAMS; i++) {
        MUST(step.driver->stream_create(&step.streams[i], CU_STREAM_NON_BLOCKING));
        MUST(step.driver->event_create(&step.events[i], CU_EVENT_DISABLE_TIMING));
    }
    return step;
}

/* Four operations on a stream; the buffers are its own, but for one that the stream before has written. */
static void submit_four(const struct step *step, int at, int before) {
    const uintptr_t own = (uintptr_t)step->memory + (size_t)at * 16 * step->granule;
    const uintptr_t other = (uintptr_t)step->memory + (size_t)before * 16 * step->granule;
    const struct weir_emu_access accesses[] = {{(void *)own, step->granule, 0},
                                               {(void *)(other + 8 * step->granule), step->granule, 0},
                                               {(void *)(own + 4 * step->granule), step->granule, 1}};
    const struct weir_emu_access last[] = {{(void *)(own + 4 * step->granule), step->granule, 0},
                                           {(void *)(own + 8 * step->granule), step->granule, 1}};
    struct weir_emu_work work = {
        .size = sizeof work, .name = "kernel", .accesses = accesses, .access_count = 3, .flops = 1e9, .bytes = 3e6};
    const CUstream stream = step->streams[at];
    MUST(step->driver->emu_submit(&work, stream));
    work.accesses = last;
    work.access_count = 2;
    MUST(step->driver->emu_submit(&work, stream));
    MUST(step->driver->event_record(step->events[at], stream));
    MUST(step->driver->stream_wait(step->streams[(at + 1) % STREAMS], step->events[at], 0));
}

static double operations_per_second(const char *settings, int operations, clockid_t clock) {
    const struct step step = open_step(settings);
    const double begin = seconds(clock);
    for (int i = 0; i < operations / 4; i++) submit_four(&step, i % STREAMS, (i + STREAMS - 1) % STREAMS);
    MUST(step.driver->context_synchronize());
    const double rate = operations / (seconds(clock) - begin);
    struct weir_emu_counts counts = {.size = sizeof counts};
    MUST(step.driver->emu_counts(&counts));
    if (counts.reports != 0) {
        fprintf(stderr, "weir-bench-emulator: the watch reports %llu races\n", (unsigned long long)counts.reports);
        _exit(1);
    }
    return rate;
}

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

static double in_process(const char *settings, int operations, clockid_t clock) {
    int ends[2];
    double rate = -1;
    if (pipe(ends) != 0) return -1;
    const pid_t child = fork();
    if (child == 0) {
        rate = operations_per_second(settings, operations, clock);
        _exit(write(ends[1], &rate, sizeof rate) == (ssize_t)sizeof rate ? 0 : 1);
    }
    close(ends[1]);
    const bool got = child > 0 && read(ends[0], &rate, sizeof rate) == (ssize_t)sizeof rate;
    close(ends[0]);
    int status = 1;
    if (child > 0) waitpid(child, &status, 0);
    return got && status == 0 ? rate : -1;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static const char usage[] = "usage: weir-bench-emulator [--json=FILE] [KEY=NUMBER]...\n"
                            "\n"
                            "How fast the emulated driver is here; further numbers go to the JSON as they are.\n";

static bool is_number_for_key(const char *argument) {
    const size_t key = strspn(argument, "abcdefghijklmnopqrstuvwxyz_0123456789");
    char *end = NULL;
    if (key == 0 || argument[key] != '=') return false;
    const char *value = argument + key + 1;
    const double number = strtod(value, &end);
    return end != value && *end == '\0' && isfinite(number);
}

/* Ends the program with 2 when something is wrong, with 0 when the usage was asked for. */
static const char *read_options(char **arguments) {
    const char *path = NULL;
    for (; *arguments != NULL; arguments++) {
        if (strcmp(*arguments, "--help") == 0) {
            fputs(usage, stdout);
            exit(weir__end_standard("weir-bench-emulator", 0));
        } else if (strncmp(*arguments, "--json=", 7) == 0 && (*arguments)[7] != '\0') {
            path = *arguments + 7;
        } else if (!is_number_for_key(*arguments)) {
            fprintf(stderr,
                    "weir-bench-emulator: \"%s\": expected --json=FILE, or KEY=NUMBER as in seeds_clean=1000\n%s",
                    *arguments, usage);
            exit(2);
        }
    }
    return path;
}

static int run(int count, char **arguments) {
    const char *path = read_options(arguments + 1);
    double free_rates[ROUNDS], watched_rates[ROUNDS], real_rates[ROUNDS], factors[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) { /* in turn, so that a slow moment of the machine meets all of them */
        free_rates[i] =
            in_process("profile:gh200,memory:unbacked,clock:virtual,watch:off", OPERATIONS, CLOCK_PROCESS_CPUTIME_ID);
        watched_rates[i] =
            in_process("profile:gh200,memory:unbacked,clock:virtual,watch:on", OPERATIONS, CLOCK_PROCESS_CPUTIME_ID);
        real_rates[i] =
            in_process("profile:gh200,memory:unbacked,clock:real,watch:off", REAL_OPERATIONS, CLOCK_MONOTONIC);
        if (free_rates[i] < 0 || watched_rates[i] < 0 || real_rates[i] < 0) return 1;
        factors[i] = free_rates[i] / watched_rates[i];
    }
    const double free_rate = median(free_rates, ROUNDS), real_rate = median(real_rates, ROUNDS);
    const double factor = median(factors, ROUNDS);
    printf("virtual clock  %.2f million operations/s (of CPU time, one thread)\n", 1e-6 * free_rate);
    printf("real clock     %.2f million operations/s (of wall time)\n", 1e-6 * real_rate);
    printf("the watch      %.2f x the time\n", factor);

    if (path == NULL) return 0;
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    fprintf(file,
            "{\"emulated\": true, \"ops_per_s_virtual\": %.0f, \"ops_per_s_real\": %.0f, \"watch_cost_factor\": %.3f",
            free_rate, real_rate, factor);
    for (int i = 1; i < count; i++) {
        const char *equals = strchr(arguments[i], '=');
        if (equals == NULL || strncmp(arguments[i], "--", 2) == 0) continue;
        fprintf(file, ", \"%.*s\": %.0f", (int)(equals - arguments[i]), arguments[i], strtod(equals + 1, NULL));
    }
    fprintf(file, "}\n");
    return fclose(file) == 0 ? 0 : 1;
}

int main(int count, char **arguments) {
    weir__take_closed_standard();
    return weir__end_standard("weir-bench-emulator", run(count, arguments));
}
