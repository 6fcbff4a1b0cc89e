/* SPDX-License-Identifier: Apache-2.0 */
/* What a call costs the host, as a multiple of an uncontended mutex pair, in the same run, for weir, the policy per-stream and peers:
 * an alloc with its free, with a use on a second stream told between them, from two threads at once, and in a mix of 256 live
 * blocks. And what recording (WEIR_TRACE) adds to a call, of a per-stream pool, which calls no driver here. The device is
 * emulated and its memory addresses only: driver calls cost what they cost here. The recording goes to a file in TMPDIR,
 * else /tmp. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/figures.h"
#include "bench/pool.h"
#include "device/standard.h"
#include "tools/options/option_table.h"
#include "weir/weir.h"

enum { PROBE_STEPS = 100, MOST_STEPS = 40000, RECORDED_STEPS = 4000 };
#define ROUND_NS   3e6 /* what a round of a subject is to take */
#define PROFILE_NS 10e9

#define SUBJECT_NAME(id, name) [id] = (name),
const char *const subject_names[SUBJECT_COUNT] = {SUBJECTS(SUBJECT_NAME)};

static int fail(const char *what) {
    fprintf(stderr, "weir-bench-pool: %s: %s\n", what, weir_last_error()->message);
    return 1;
}

/* ---- the loops of weir and of the mutex -------------------------------------------------------------------------- */

struct target {
    struct weir_pool *pool;
    const weir_stream *streams; /* a thread's own; the last is the other one that uses */
};

static bool pool_take(void *self, int thread, size_t bytes, void **block) {
    const struct target *target = self;
    return weir_pool_alloc(target->pool, bytes, target->streams[thread], block) == WEIR_OK;
}

static bool pool_use(void *self, int thread, void *block) {
    const struct target *target = self;
    (void)thread;
    return weir_pool_note(target->pool, block, target->streams[LOOP_MOST_THREADS]) == WEIR_OK;
}

static bool pool_give(void *self, int thread, void *block, size_t bytes) {
    const struct target *target = self;
    (void)bytes;
    return weir_pool_free(target->pool, block, target->streams[thread]) == WEIR_OK;
}

LOOP_DEFINE(pool_thread, pool_take, pool_use, pool_give)

/* A thread's own, on a line of the cache of its own. */
static struct private_mutex {
    _Alignas(128) pthread_mutex_t mutex;
} mutexes[LOOP_MOST_THREADS] = {{PTHREAD_MUTEX_INITIALIZER}, {PTHREAD_MUTEX_INITIALIZER}};

static bool mutex_take(void *self, int thread, size_t bytes, void **block) {
    (void)bytes;
    (void)block;
    return pthread_mutex_lock(&((struct private_mutex *)self)[thread].mutex) == 0;
}

static bool mutex_use(void *self, int thread, void *block) {
    (void)self;
    (void)thread;
    (void)block;
    return true;
}

static bool mutex_give(void *self, int thread, void *block, size_t bytes) {
    (void)block;
    (void)bytes;
    return pthread_mutex_unlock(&((struct private_mutex *)self)[thread].mutex) == 0;
}

LOOP_DEFINE(mutex_thread, mutex_take, mutex_use, mutex_give)

/* ---- the machine ------------------------------------------------------------------------------------------------- */

static struct bench {
    struct weir_device *device;
    weir_stream streams[LOOP_MOST_THREADS + 1];
    struct target weir, per_stream, recorded;
    char trace_path[4096]; /* "": there is none */
    struct peer peers[PEERS];
    struct row rows[MOST_ROWS];
    size_t row_count;
} bench;

static int open_target(struct target *target, enum weir_policy policy, const char *trace_path) {
    const struct weir_pool_options options = {
        .size = sizeof options, .policy = policy, .limit_bytes = (size_t)4 << 30, .trace_path = trace_path};
    target->streams = bench.streams;
    return weir_pool_create(bench.device, &options, &target->pool) == WEIR_OK ? 0 : fail("creating a pool");
}

static void *nothing(void *self) { return self; }

/* A program that drives a GPU has threads, the driver's own at least. In one that has never had any the C library's mutex is
 * three times as cheap, as it takes no atomic operation. */
static int become_a_program_with_threads(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0) return 0;
    fprintf(stderr, "weir-bench-pool: no thread can be had\n");
    return 1;
}

static int open_machine(void) {
    if (become_a_program_with_threads() != 0) return 1;
    const struct weir_device_options machine = {
        .size = sizeof machine, .machine = "emulated", .emu = "profile:gh200,memory:unbacked,clock:real,capacity:16G"};
    if (weir_device_open(&machine, &bench.device) != WEIR_OK) return fail("opening the device");
    for (size_t i = 0; i < sizeof bench.streams / sizeof *bench.streams; i++)
        if (weir_stream_create(bench.device, &bench.streams[i]) != WEIR_OK) return fail("creating a stream");
    return open_target(&bench.weir, WEIR_POLICY_LATENCY, "");
}

static int open_recorded(void) {
    const char *folder = getenv("TMPDIR");
    snprintf(bench.trace_path, sizeof bench.trace_path, "%.4000s/weir-bench-XXXXXX",
             folder != NULL && *folder ? folder : "/tmp");
    const int file = mkstemp(bench.trace_path);
    if (file < 0) {
        perror(bench.trace_path);
        bench.trace_path[0] = 0;
        return 1;
    }
    close(file);
    return open_target(&bench.recorded, WEIR_POLICY_PER_STREAM, bench.trace_path);
}

static void close_machine(void) {
    weir_pool_destroy(bench.recorded.pool);
    weir_pool_destroy(bench.per_stream.pool);
    weir_pool_destroy(bench.weir.pool);
    if (bench.trace_path[0] != 0) unlink(bench.trace_path);
    for (size_t i = 0; i < sizeof bench.streams / sizeof *bench.streams; i++)
        if (bench.streams[i] != NULL) weir_stream_destroy(bench.device, bench.streams[i]);
    if (bench.device != NULL) weir_device_close(bench.device);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void add_row(const char *kind, enum loop_kind loop, size_t bytes, int threads) {
    struct row *row = &bench.rows[bench.row_count++];
    const int unit = bytes >= 1 << 20 ? 20 : bytes >= 1 << 10 ? 10 : 0;
    *row = (struct row){.loop = {.kind = loop, .bytes = bytes, .threads = threads}, .recording_ns = (double)NAN};
    snprintf(row->name, sizeof row->name, "%s-%zu%s", kind, bytes >> unit, unit == 20 ? "M" : unit == 10 ? "K" : "");
}

static void list_rows(void) {
    static const size_t sizes[] = {512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 2 << 20, 8 << 20, 64 << 20};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int i = 0; i < SIZES; i++) add_row("pairs", LOOP_PAIRS, sizes[i], 1);
    for (int i = 0; i < SIZES; i++) add_row("uses", LOOP_USES, sizes[i], 1);
    for (int i = 0; i < SIZES; i++) add_row("threads", LOOP_PAIRS, sizes[i], 2);
    add_row("mix", LOOP_MIX, 1 << 20, 1);
    add_row("mix", LOOP_MIX, 64 << 20, 1);
}

static double subject_ns(enum subject subject, const struct loop *loop) {
    struct loop pairs = *loop;
    pairs.kind = LOOP_PAIRS; /* a mutex pair is one whatever it is compared with */
    if (subject == MUTEX) return loop_ns(&pairs, mutex_thread, CLOCK_MONOTONIC, mutexes);
    if (subject == WEIR) return loop_ns(loop, pool_thread, CLOCK_MONOTONIC, &bench.weir);
    if (subject == PER_STREAM) return loop_ns(loop, pool_thread, CLOCK_MONOTONIC, &bench.per_stream);
    if (loop->kind == LOOP_USES && !peers_take_uses(subject)) return (double)NAN;
    return peer_ns(&bench.peers[subject - FIRST_PEER], loop);
}

/* As many steps as make a round long enough to be timed, and short enough to be repeated. */
static int steps_of(enum subject subject, const struct row *row) {
    struct loop loop = row->loop;
    loop.steps = PROBE_STEPS;
    const double ns = subject_ns(subject, &loop), steps = ROUND_NS / ns;
    return steps > MOST_STEPS ? MOST_STEPS : steps > PROBE_STEPS ? (int)steps : PROBE_STEPS; /* NaN: PROBE_STEPS */
}

/* In the thread's own time: the file's pages come from the system, where others may be served first. A pair is two calls and
 * two lines. */
static double recording_round_ns(const struct row *row) {
    struct loop loop = row->loop;
    loop.steps = RECORDED_STEPS;
    const double plain = loop_ns(&loop, pool_thread, CLOCK_THREAD_CPUTIME_ID, &bench.per_stream);
    return (loop_ns(&loop, pool_thread, CLOCK_THREAD_CPUTIME_ID, &bench.recorded) - plain) / 2;
}

/* The subjects take turns, so that a slow moment of the machine meets all of them. */
static int measure(struct row *row) {
    double ns[SUBJECT_COUNT][ROUNDS], recording[ROUNDS];
    int steps[SUBJECT_COUNT];
    const bool records = row->loop.kind == LOOP_PAIRS && row->loop.threads == 1;
    for (int subject = 0; subject < SUBJECT_COUNT; subject++) steps[subject] = steps_of((enum subject)subject, row);
    for (int round = 0; round < ROUNDS; round++) {
        for (int subject = 0; subject < SUBJECT_COUNT; subject++) {
            row->loop.steps = steps[subject];
            ns[subject][round] = subject_ns((enum subject)subject, &row->loop);
        }
        recording[round] = records ? recording_round_ns(row) : (double)NAN;
    }
    for (int subject = 0; subject < SUBJECT_COUNT; subject++) {
        row->median[subject] = figures_median(ns[subject], ROUNDS);
        row->fastest[subject] = figures_least(ns[subject], ROUNDS);
    }
    row->recording_ns = figures_median(recording, ROUNDS);
    return isnan(row->median[WEIR]) || isnan(row->median[PER_STREAM]) ? fail(row->name) : 0;
}

static int measure_all(void) {
    for (size_t i = 0; i < bench.row_count; i++) {
        if (isatty(2)) fprintf(stderr, "\r\033[K%s", bench.rows[i].name);
        if (measure(&bench.rows[i])) return 1;
    }
    if (isatty(2)) fprintf(stderr, "\r\033[K");
    return 0;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

struct options {
    const char *json, *torch, *rmm, *loop;
};

static const struct option table[] = {
    {"json", "FILE", "the figures as JSON too", OPTION_TEXT(json)},
    {"torch", "LIBRARY", "peers/torch.cc, built, to measure beside", OPTION_TEXT(torch)},
    {"rmm", "LIBRARY", "peers/rmm.cc, built, to measure beside", OPTION_TEXT(rmm)},
    {"profile-loop", "NAME", "only weir alone in one loop for 10 s, for perf to look at; a wrong NAME lists them",
     OPTION_TEXT(loop)},
    {"help", NULL, NULL, OPTION_HELP},
};

static const struct option_table pool_options = {
    .program = "weir-bench-pool",
    .usage = "usage: weir-bench-pool [options]\n"
             "What a call costs the host, as a multiple of an uncontended mutex pair: weir, per-stream, and peers.\n",
    .status = "Exit status: 0 measured; 1 failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
};

/* ---- one loop for perf ------------------------------------------------------------------------------------------- */

static const struct row *row_named(const char *name) {
    for (size_t i = 0; i < bench.row_count; i++)
        if (strcmp(bench.rows[i].name, name) == 0) return &bench.rows[i];
    fprintf(stderr, "weir-bench-pool: there is no loop '%s'; there are:", name);
    for (size_t i = 0; i < bench.row_count; i++) fprintf(stderr, " %s", bench.rows[i].name);
    fprintf(stderr, "\n");
    return NULL;
}

static int profile(const struct row *row) {
    struct loop loop = row->loop;
    double ns = 0;
    loop.steps = MOST_STEPS;
    for (const double end = loop_now_ns(CLOCK_MONOTONIC) + PROFILE_NS;
         loop_now_ns(CLOCK_MONOTONIC) < end && !isnan(ns);)
        ns = subject_ns(WEIR, &loop);
    if (isnan(ns)) return fail(row->name);
    printf("%s: %.1f ns a step, the last %d of 10 s\n", row->name, ns, MOST_STEPS);
    return 0;
}

static int compare(const struct options *options) {
    if (open_target(&bench.per_stream, WEIR_POLICY_PER_STREAM, "") || open_recorded()) return 1;
    peers_open(bench.peers, options->torch, options->rmm);
    int status = measure_all();
    if (status == 0) report_print(bench.rows, bench.row_count, bench.peers);
    if (status == 0 && options->json != NULL)
        status = report_write(options->json, bench.rows, bench.row_count, bench.peers) ? 0 : 1;
    peers_close(bench.peers);
    return status;
}

int main(int count, char **argument) {
    struct options options = {0};
    weir__take_closed_standard();
    int status = options_read(&pool_options, &options, count, argument);
    if (status != OPTIONS_GO_ON) return weir__end_standard("weir-bench-pool", status);
    list_rows();
    const struct row *row = options.loop != NULL ? row_named(options.loop) : NULL;
    if (options.loop != NULL && row == NULL) return 2;
    status = open_machine();
    if (status == 0) status = row != NULL ? profile(row) : compare(&options);
    close_machine();
    return weir__end_standard("weir-bench-pool", status);
}
