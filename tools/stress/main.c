/* SPDX-License-Identifier: Apache-2.0 */
/* weir-stress: does an allocator of device memory keep its promises? */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "device/emulated.h"
#include "device/standard.h"
#include "ending.h"
#include "report.h"

enum { EXIT_BAD_INPUT = 2, TICKS = 10 /* a second */, MOST_WIDE = 200, END_SECONDS = 15 };
#define AGAIN_NS UINT64_C(1000000000)

static atomic_uint_fast64_t interrupted_ns; /* 0: it has not been; any thread may be the one that takes a signal */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Who asks again ends the program; but a signal may come twice at once, as to a process and to its group. */
static void interrupt(int number) {
    const uint64_t ns = now_ns();
    uint_fast64_t first = 0;
    if (atomic_compare_exchange_strong(&interrupted_ns, &first, ns) || ns < first + AGAIN_NS) return;
    signal(number, SIG_DFL);
    raise(number);
}

static bool is_interrupted(void) { return atomic_load(&interrupted_ns) != 0; }

static void heed(int number) {
    if (signal(number, interrupt) == SIG_IGN) signal(number, SIG_IGN); /* as a shell's jobs in the background are */
}

static int say(const char *sentence, int status) {
    fprintf(stderr, "weir-stress: %s\n", sentence);
    return status;
}

/* ---- the device ------------------------------------------------------------------------------------------------- */

/* An emulated device is watched unless WEIR_EMU says otherwise. */
static enum weir_status open_device(struct stress *stress, struct answer *answer) {
    const char *settings = getenv("WEIR_EMU"), *machine = getenv("WEIR_DEVICE");
    const bool watch = settings == NULL || strstr(settings, "watch:") == NULL;
    const struct weir_device_options options = {.size = sizeof options,
                                                .machine = machine != NULL && *machine != 0 ? machine : "auto",
                                                .ordinal = stress->options->device,
                                                .emu = watch ? "watch:on" : NULL};
    struct weir_emu_machine emulated = {.size = sizeof emulated};
    answer->info.size = sizeof answer->info;
    answer->backed = true;
    enum weir_status status = weir_device_open(&options, &stress->device);
    if (status == WEIR_OK) status = weir_device_get_info(stress->device, &answer->info);
    if (status != WEIR_OK || !answer->info.emulated) return status;
    status = weir__device_machine(stress->device, &emulated);
    stress->watched = emulated.watched != 0;
    answer->backed = emulated.backed != 0;
    stress->takes_turns = emulated.virtual_clock != 0;
    return status;
}

/* Under the virtual clock host functions take no time, and arithmetic does. */
static enum weir_status weigh_work(struct stress *stress) {
    const double flops = 1e12;
    const struct weir_emu_work work = {.size = sizeof work, .flops = flops};
    double ns = 0;
    if (!stress->takes_turns) return WEIR_OK;
    const CUresult code = stress->device->driver->emu_work_time(&work, &ns);
    if (ns > 0) stress->held_flops = flops / ns;
    if (code == CUDA_SUCCESS) return WEIR_OK;
    return weir__fail(WEIR_DRIVER, (int)code, "weirEmuWorkTime", "weirEmuWorkTime failed with %d", (int)code);
}

static enum weir_status open_rest(struct stress *stress, const struct answer *answer) {
    char why[200];
    const struct options *options = stress->options;
    enum weir_status status = weigh_work(stress);
    for (unsigned i = 0; i < options->streams && status == WEIR_OK; i++)
        status = weir_stream_create(stress->device, &stress->streams[i]);
    if (status != WEIR_OK) return status;
    if ((options->extras >> EXTRA_GRAPHS & 1) != 0 &&
        !extras_find_graphs(stress->device->driver->path, why, sizeof why))
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s", why);
    stress->contents = (struct contents){.device = stress->device,
                                         .faults = &stress->faults,
                                         .live = stress->live,
                                         .told = stress->watched && stress->target.pool == NULL,
                                         .check = answer->backed ? options->check : CONTENTS_NONE};
    return contents_open(&stress->contents, options->seed) ? WEIR_OK : weir_last_error()->status;
}

static void close_rest(struct stress *stress) {
    contents_close(&stress->contents);
    for (unsigned i = 0; i < stress->options->streams; i++)
        if (stress->streams[i] != NULL) weir_stream_destroy(stress->device, stress->streams[i]);
}

/* ---- while it runs ---------------------------------------------------------------------------------------------- */

/* No wider than the terminal: a second line would stay. */
static void put_progress(const struct stress *stress, unsigned ticks) {
    const double usable = (double)stress->target.usable_bytes, live = (double)live_bytes(stress->live);
    struct winsize size = {0};
    char end[32] = "", line[MOST_WIDE];
    if (stress->options->duration_ns > 0)
        snprintf(end, sizeof end, " of %.0f", (double)stress->options->duration_ns / 1e9);
    snprintf(line, sizeof line, "%u%s s: %" PRIu64 " operations, %.0f %% live, %" PRIu64 " faults", ticks / TICKS, end,
             (uint64_t)atomic_load(&stress->operations), 100 * live / usable,
             (uint64_t)atomic_load(&stress->faults.count));
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_col <= strlen(line))
        line[size.ws_col - 1] = 0;
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
}

static void tick(void) {
    const struct timespec time = {.tv_nsec = 1000000000 / TICKS};
    nanosleep(&time, NULL);
}

/* Gives: false when the threads do not come to an end. */
static bool watch_over(struct stress *stress) {
    const bool shown = isatty(STDERR_FILENO) == 1 && !stress->options->quiet;
    uint64_t before = 0, still = 0, patience = TICKS * stress->options->stuck_seconds;
    for (unsigned ticks = 0; atomic_load(&stress->ended) < stress->options->threads; ticks++) {
        const uint64_t made = atomic_load(&stress->operations);
        still = made == before ? still + 1 : 0;
        before = made;
        if (is_interrupted()) atomic_store(&stress->over, true);
        if (is_interrupted() && patience > TICKS * END_SECONDS) patience = TICKS * END_SECONDS;
        if (shown && ticks % (TICKS / 2) == 0) put_progress(stress, ticks);
        if (still >= patience) return false;
        tick();
    }
    if (shown) fputs("\r\033[K", stderr);
    return true;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static void join_counts(struct counts *all, const struct counts *one) {
    if (one->refused > 0 && (all->refused == 0 || one->least_refused_bytes < all->least_refused_bytes))
        all->least_refused_bytes = one->least_refused_bytes;
    all->allocs += one->allocs;
    all->frees += one->frees;
    all->uses += one->uses;
    all->looks += one->looks;
    all->holds += one->holds;
    all->gifts += one->gifts;
    all->refused += one->refused;
    for (unsigned i = 0; i < EXTRAS; i++) all->extras[i] += one->extras[i];
    histogram_join(&all->alloc_ns, &one->alloc_ns);
    histogram_join(&all->free_ns, &one->free_ns);
}

static void gather(struct answer *answer, const struct worker *workers) {
    const struct stress *stress = answer->stress;
    for (unsigned i = 0; i < stress->options->threads; i++) {
        join_counts(&answer->counts, &workers[i].counts);
        answer->compared_bytes += workers[i].checker.compared_bytes;
        answer->digest ^= workers[i].digest;
    }
    answer->operations = atomic_load(&stress->operations);
    answer->peak_bytes = live_peak_bytes(stress->live);
    answer->interrupted = is_interrupted();
}

/* The file of another run's answer must not stand for this one, however it ends. */
static bool begin_answer(const struct options *options) {
    const char *path = options->json_path;
    FILE *out = path != NULL && *path != 0 ? fopen(path, "we") : NULL;
    if (path == NULL || *path == 0) return true;
    if (out == NULL) fprintf(stderr, "weir-stress: can't write %s: %s\n", path, strerror(errno));
    return out != NULL && fclose(out) == 0;
}

static bool put_answer(const struct answer *answer) {
    const struct options *options = answer->stress->options;
    const char *path = options->json_path;
    const bool words = (path == NULL || *path != 0) && (!options->quiet || answer->stress->faults.count > 0);
    if (words) report_words(answer, stdout);
    if (path == NULL) return true;
    FILE *out = *path == 0 ? stdout : fopen(path, "we");
    if (out == NULL) {
        fprintf(stderr, "weir-stress: can't write %s: %s\n", path, strerror(errno));
        return false;
    }
    report_json(answer, out);
    bool written = fflush(out) == 0 && !ferror(out);
    if (out != stdout) written = fclose(out) == 0 && written;
    if (!written)
        fprintf(stderr, "weir-stress: can't write %s: %s\n", *path == 0 ? "standard output" : path, strerror(errno));
    return written;
}

/* What the watch and the pool itself have to say at the end. */
static void look_back(struct stress *stress, struct answer *answer) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    if (answer->counts.allocs == 0 && answer->counts.refused > 0)
        faults_add(&stress->faults, FAULT_REFUSED, "no request was served: nothing has been tested");
    stress_ask_watch(stress);
    if (stress->target.pool == NULL || weir_pool_get_stats(stress->target.pool, &stats) != WEIR_OK) return;
    answer->peak_held_bytes = stats.peak_held_bytes;
    if (target_check(&stress->target) != WEIR_OK)
        faults_add(&stress->faults, FAULT_BROKEN, "%s", weir_last_error()->message);
    if (stats.live_blocks > 0 && atomic_load(&stress->faults.count) == 0)
        faults_add(&stress->faults, FAULT_BROKEN, "all is freed, and the pool has %" PRIu64 " live blocks",
                   stats.live_blocks);
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static unsigned in_call(const struct stress *stress, const struct worker *workers, enum call call) {
    unsigned threads = 0;
    for (unsigned i = 0; i < stress->options->threads; i++) threads += atomic_load(&workers[i].call) == (int)call;
    return threads;
}

/* The threads can't be ended: what is known is told, and the process ends. */
static _Noreturn void give_up(struct stress *stress, struct answer *answer, const struct worker *workers) {
    const uint64_t most = is_interrupted() ? END_SECONDS : UINT64_MAX, seconds = stress->options->stuck_seconds;
    faults_add(&stress->faults, FAULT_STUCK,
               "no operation has ended for %" PRIu64
               " s; of %u threads %u are in an allocation, %u in a free, %u in a use",
               seconds < most ? seconds : most, stress->options->threads, in_call(stress, workers, CALL_ALLOC),
               in_call(stress, workers, CALL_FREE), in_call(stress, workers, CALL_USE));
    gather(answer, workers);
    put_answer(answer);
    fflush(stdout);
    ending_now(EXIT_FAILURE);
}

static bool start(struct stress *stress, struct worker *workers) {
    for (unsigned i = 0; i < stress->options->threads; i++) {
        const int error = pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
        if (error == 0) continue;
        faults_add(&stress->faults, FAULT_FAILED, "no thread: %s", strerror(error));
        return false; /* those that run wait for it under the virtual clock: the caller ends the process */
    }
    return true;
}

static void run_threads(struct stress *stress, struct answer *answer, struct worker *workers) {
    const uint64_t begin = weir__device_now_ns(stress->device);
    if (stress->options->duration_ns > 0) stress->end_ns = begin + stress->options->duration_ns;
    if (stress->takes_turns) weir__thread_end(stress->device); /* this thread waits by other means */
    if (!start(stress, workers)) ending_now(EXIT_FAILURE);
    const bool ended = watch_over(stress);
    answer->seconds = (double)(weir__device_now_ns(stress->device) - begin) / 1e9;
    if (!ended) give_up(stress, answer, workers);
    for (unsigned i = 0; i < stress->options->threads; i++) pthread_join(workers[i].thread, NULL);
    if (stress->takes_turns) weir__thread_begin(stress->device, "main", 1);
}

static bool open_workers(struct stress *stress, struct worker *workers) {
    bool open = true;
    for (unsigned i = 0; i < stress->options->threads && open; i++) open = worker_open(&workers[i], stress, i);
    return open;
}

static int run(struct stress *stress, struct answer *answer) {
    const unsigned threads = stress->options->threads;
    struct worker *workers = calloc(threads, sizeof *workers);
    int status = EXIT_FAILURE;
    if (workers == NULL) return say("no host memory", EXIT_FAILURE);
    if (open_rest(stress, answer) == WEIR_OK && open_workers(stress, workers)) {
        if (!stress->options->quiet) report_begin(answer, stderr);
        run_threads(stress, answer, workers);
        gather(answer, workers);
        look_back(stress, answer);
        status = put_answer(answer) && atomic_load(&stress->faults.count) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
        /* what a library does, or waits for, when all ends is not what is tested */
        if (stress->target.pool == NULL) ending_now(weir__end_standard("weir-stress", status));
    } else {
        say(weir_last_error()->message, EXIT_FAILURE);
    }
    for (unsigned i = 0; i < threads && workers[i].stress != NULL; i++) worker_close(&workers[i]);
    free(workers);
    close_rest(stress);
    return status;
}

/* What hangs on what the allocator may use. */
static bool set_levels(struct stress *stress, struct options *options, char *why, size_t room) {
    struct law *law = &options->law;
    stress->level_bytes = (size_t)((double)stress->target.usable_bytes * options->fill / options->threads);
    if (law->kind == LAW_LOG && law->most == 0) law->most = stress->level_bytes / 8;
    if (law->most < law->least && law->kind == LAW_LOG) law->most = law->least;
    if (law->kind == LAW_TRACE || law->least <= stress->level_bytes) return true;
    snprintf(why, room, "--sizes: blocks of %zu bytes do not fit in %zu, a thread's part of the device", law->least,
             stress->level_bytes);
    return false;
}

static int stress_device(struct options *options) {
    struct stress stress = {.options = options};
    struct answer answer = {.stress = &stress};
    char why[512];
    bool bad_input = false;
    faults_open(&stress.faults, options->most_faults);
    ending_guard(options->threads);
    const enum weir_status opened = open_device(&stress, &answer);
    int status = EXIT_FAILURE;
    if (opened != WEIR_OK) {
        status = say(weir_last_error()->message,
                     opened == WEIR_INVALID || opened == WEIR_NO_DEVICE ? EXIT_BAD_INPUT : EXIT_FAILURE);
    } else if ((stress.live = live_open(answer.info.granularity_bytes)) == NULL) {
        say("no host memory", EXIT_FAILURE);
    } else if (!target_open(&stress.target, stress.device, options->device,
                            options->allocator != NULL ? &options->plugin : NULL, &bad_input, why, sizeof why) ||
               (bad_input = !set_levels(&stress, options, why, sizeof why))) {
        status = say(why, bad_input ? EXIT_BAD_INPUT : EXIT_FAILURE);
    } else {
        answer.usable_bytes = stress.target.usable_bytes;
        status = run(&stress, &answer);
    }
    ending_allow();
    target_close(&stress.target);
    live_close(stress.live);
    weir_device_close(stress.device);
    return status;
}

int main(int count, char **argument) {
    struct options options;
    weir__take_closed_standard();
    signal(SIGXFSZ, SIG_IGN); /* a file that would grow too large is an error, to be told */
    options_default(&options);
    int status = options_read(&stress_options, &options, count, argument);
    if (status == OPTIONS_GO_ON) {
        setenv("WEIR_LOG", "error", 0); /* what the watch finds is told here */
        heed(SIGINT);
        heed(SIGTERM);
        heed(SIGHUP);
        status = begin_answer(&options) ? stress_device(&options) : EXIT_FAILURE;
    }
    options_free(&options);
    return weir__end_standard("weir-stress", status);
}
