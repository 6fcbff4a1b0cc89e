/* SPDX-License-Identifier: Apache-2.0 */
/* Whole training steps of several ranks under the virtual clock and the watch, each seed another schedule: none gives a
 * report, the same seed gives the same run, and another seed another one.
 *
 *     trainer_schedule_seeds [--seeds N] [--first SEED] [--verbose]
 *
 * With --seeds: N seeds of every scene instead of the tests; one line of JSON.
 *
 * Each run is a child of its own, forked before a device is opened, since the emulated machine's settings are those of
 * a process. The linker puts watchers around some calls of the trainer, so that a run can be told by numbers. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/emulated.h"
#include "tests/trainer/model_fixture.h"
#include "trainer/comm_local.h"
#include "trainer/train.h"

/* ---- what a run was ---------------------------------------------------------------------------------------------- */

struct told {
    int status;         /* exit status of the run; -1: it did not tell */
    uint64_t order;     /* of the streams' arrivals, of the ranks' submissions, with their times */
    uint64_t addresses; /* of all blocks, in order */
    uint64_t end_ns;
    uint64_t calls, operations, unwatched, reports;
    uint64_t moved, host_waits, device_waits; /* pages and waits of the pools */
    uint64_t peak_bytes;                      /* live, on the fullest rank */
    char report[400];                         /* the first one */
};

static struct told told; /* the child's */
static _Thread_local struct weir_device *its_device;
static _Thread_local int its_rank;

static uint64_t mixed(uint64_t digest, uint64_t value) {
    digest ^= value + 0x9e3779b97f4a7c15u + (digest << 6) + (digest >> 2);
    return digest * 0xff51afd7ed558ccdu;
}

static void note(uint64_t *digest, uint64_t value) {
    *digest = mixed(mixed(mixed(*digest, (uint64_t)its_rank), value), weir__device_now_ns(its_device));
}

enum weir_status __real_weir_pool_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out);
WEIR_API enum weir_status __wrap_weir_pool_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out);
enum weir_status __wrap_weir_pool_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out) {
    const enum weir_status status = __real_weir_pool_alloc(pool, bytes, stream, out);
    note(&told.addresses, (uint64_t)(uintptr_t)*out);
    return status;
}

enum weir_status __real_weir_device_submit(struct weir_device *device, const struct weir_work *work,
                                           weir_stream stream);
WEIR_API enum weir_status __wrap_weir_device_submit(struct weir_device *device, const struct weir_work *work,
                                                    weir_stream stream);
enum weir_status __wrap_weir_device_submit(struct weir_device *device, const struct weir_work *work,
                                           weir_stream stream) {
    note(&told.order, (uint64_t)(unsigned char)work->name[0]);
    return __real_weir_device_submit(device, work, stream);
}

/* ---- a run -------------------------------------------------------------------------------------------------------- */

struct scene {
    const char *name;
    int ranks, ep;
    size_t limit; /* of the pool: little above what the ranks need, or below */
    const char *policy, *memory;
    int answer; /* that every seed gives; 0: some seeds may run out of memory too */
};

static const struct scene scenes[] = {
    {"two ranks", 2, 2, 1392 << 10, "latency", "backed", 0},
    {"four ranks", 4, 2, 1088 << 10, "latency", "unbacked", 0},
    {"four ranks, footprint", 4, 2, 1088 << 10, "footprint", "unbacked", 0},
    {"out of memory", 2, 1, 1120 << 10, "latency", "unbacked", 3},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

static unsigned char text[4096];

static struct config config_of(const struct scene *scene, uint64_t seed) {
    struct config c = small_config();
    c.layers = 3;
    c.dim = 64;
    c.ffn = 16;
    c.batch = 1;
    c.seq = 64;
    c.steps = 2;
    c.ranks = scene->ranks;
    c.ep = scene->ep;
    c.skew = 1;
    c.seed = (int64_t)seed;
    c.offload = true;
    c.host_budget = 4 << 20;
    c.limit = scene->limit;
    strcpy(c.policy, scene->policy);
    strcpy(c.ops, "cost");
    strcpy(c.comm, "local");
    return c;
}

static enum weir_status open_pool(const struct config *c, struct weir_device *device, struct weir_pool **out) {
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = c->limit};
    options.policy = strcmp(c->policy, "footprint") ? WEIR_POLICY_LATENCY : WEIR_POLICY_FOOTPRINT;
    return weir_pool_create(device, &options, out);
}

static void count_pool(struct weir_pool *pool) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    if (weir_pool_get_stats(pool, &stats) != WEIR_OK) return;
    told.moved += stats.pages_moved;
    told.host_waits += stats.host_waits;
    told.device_waits += stats.device_waits;
    if (stats.peak_live_bytes > told.peak_bytes) told.peak_bytes = stats.peak_live_bytes;
}

static int run_rank(struct comm *comm, struct weir_device *device, void *argument) {
    const struct config *c = argument;
    const struct data data = {.text = text, .bytes = sizeof text, .train_bytes = sizeof text, .seq = c->seq};
    struct weir_pool *pool;
    char sentence[400] = "";
    its_device = device;
    its_rank = comm->rank;
    if (comm->table->attach(comm, device) != WEIR_OK || open_pool(c, device, &pool) != WEIR_OK) return 90;
    struct report *report = report_open(c, comm, device, pool, data.bytes, train_parameters(c));
    if (!report) return 91;
    const int status = train_run(c, comm, device, pool, &data, report);
    comm->table->failure(comm, sentence, sizeof sentence);
    if (status && !*told.report) memcpy(told.report, sentence, sizeof told.report);
    report_close(report, status ? "failed" : "completed", 0, sentence);
    comm->table->close(comm);
    count_pool(pool);
    if (weir_pool_check(pool) != WEIR_OK) return 92;
    weir_pool_destroy(pool);
    return status;
}

static void tell_counts(struct weir_device *device) {
    struct weir_emu_counts counts;
    struct weir_emu_report report;
    told.end_ns = weir__device_now_ns(device);
    if (weir__device_counts(device, &counts) != WEIR_OK) return;
    told.calls = counts.calls;
    told.operations = counts.operations;
    told.unwatched = counts.unwatched;
    told.reports = counts.reports;
    if (counts.reports && weir__device_report(device, 0, &report) == WEIR_OK)
        memcpy(told.report, report.text, sizeof told.report);
}

static void run(const struct scene *scene, uint64_t seed) {
    struct weir_device *device[COMM_LOCAL_MOST];
    struct config c = config_of(scene, 1);
    struct comm_local *local;
    char emu[128];
    snprintf(emu, sizeof emu, "profile:demo,devices:%d,clock:virtual,watch:on,memory:%s,seed:%" PRIu64, scene->ranks,
             scene->memory, seed);
    struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .emu = emu};
    for (; options.ordinal < scene->ranks; options.ordinal++)
        if (weir_device_open(&options, &device[options.ordinal]) != WEIR_OK) {
            snprintf(told.report, sizeof told.report, "%.390s", weir_last_error()->message);
            return;
        }
    if (comm_local_create(scene->ranks, scene->ep, false, &local) != WEIR_OK) return;
    told.status = comm_local_run(local, device, run_rank, &c);
    told.order = mixed(told.order, comm_local_digest(local));
    comm_local_destroy(local);
    tell_counts(device[0]);
    for (int rank = 0; rank < scene->ranks; rank++) weir_device_close(device[rank]);
}

/* ---- a child ----------------------------------------------------------------------------------------------------- */

/* One thread runs at a time, so a turn is handed over fastest where the last one was. */
static void stay_on_one_cpu(void) {
    const int cpu = sched_getcpu();
    cpu_set_t one;
    if (cpu < 0) return;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static struct told play(const struct scene *scene, uint64_t seed) {
    struct told heard = {.status = -1};
    int ends[2], status;
    if (pipe(ends)) return heard;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(97);
        stay_on_one_cpu();
        told.status = -1;
        run(scene, seed);
        _exit(write(ends[1], &told, sizeof told) == sizeof told ? 0 : 96);
    }
    close(ends[1]);
    const ssize_t got = child > 0 ? read(ends[0], &heard, sizeof heard) : 0;
    close(ends[0]);
    if (child > 0) waitpid(child, &status, 0);
    if (got != sizeof heard) {
        heard = (struct told){.status = -1};
        snprintf(heard.report, sizeof heard.report, "the run ended without telling, wait status %d", status);
    }
    return heard;
}

static void say_more(const struct scene *scene, uint64_t seed, const struct told *t) {
    printf("%s, seed %" PRIu64 ": status %d, %" PRIu64 " reports, order %016" PRIx64 ", addresses %016" PRIx64
           ", %" PRIu64 " ns, %" PRIu64 " calls, %" PRIu64 " operations, %" PRIu64 " pages moved, %" PRIu64
           " host and %" PRIu64 " device waits of the pools, peak %" PRIu64 " bytes\n",
           scene->name, seed, t->status, t->reports, t->order, t->addresses, t->end_ns, t->calls, t->operations,
           t->moved, t->host_waits, t->device_waits, t->peak_bytes);
}

static bool clean(const struct scene *scene, const struct told *t) {
    const bool answered = scene->answer ? t->status == scene->answer : t->status == 0 || t->status == 3;
    return answered && t->reports == 0 && t->unwatched == 0;
}

struct totals {
    uint64_t runs, clean, refused; /* refused: ended out of memory */
    uint64_t clean_seeds;          /* in all scenes */
    uint64_t moved, host_waits, device_waits;
};

static void add(struct totals *totals, const struct scene *scene, uint64_t seed, const struct told *t) {
    totals->runs++;
    totals->clean += clean(scene, t);
    totals->refused += t->status == 3;
    totals->moved += t->moved;
    totals->host_waits += t->host_waits;
    totals->device_waits += t->device_waits;
    if (clean(scene, t)) return;
    fprintf(stderr, "%s, seed %" PRIu64 ": status %d, %" PRIu64 " reports, %" PRIu64 " unwatched: %.400s\n",
            scene->name, seed, t->status, t->reports, t->unwatched, t->report);
}

static bool verbose;

static struct totals play_all(uint64_t first, uint64_t count) {
    struct totals totals = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        const uint64_t found = totals.runs - totals.clean;
        for (int i = 0; i < SCENES; i++) {
            const struct told t = play(&scenes[i], seed);
            if (verbose) say_more(&scenes[i], seed, &t);
            add(&totals, &scenes[i], seed, &t);
        }
        totals.clean_seeds += totals.runs - totals.clean == found;
    }
    return totals;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static uint64_t first_seed = 1;

static void no_seed_gives_a_report_though_the_pools_are_so_full_that_they_wait_and_move(void **state) {
    (void)state;
    const uint64_t seeds = getenv("WEIR_SEEDS") ? strtoull(getenv("WEIR_SEEDS"), NULL, 10) : 8;
    print_message("seeds %" PRIu64 " to %" PRIu64 " (WEIR_SEED sets the first, WEIR_SEEDS how many)\n", first_seed,
                  first_seed + seeds - 1);
    const struct totals totals = play_all(first_seed, seeds);
    assert_int_equal(totals.clean, totals.runs);
    assert_true(totals.device_waits > 0 && totals.moved > 0);
    assert_true(totals.refused < totals.runs / 2);
}

static void the_same_seed_gives_the_same_order_times_and_addresses(void **state) {
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        const struct told a = play(&scenes[i], 5), b = play(&scenes[i], 5);
        assert_true(clean(&scenes[i], &a) && a.operations > 100);
        assert_int_equal(memcmp(&a, &b, sizeof a), 0);
    }
}

static void another_seed_gives_another_order_and_other_times(void **state) {
    (void)state;
    for (int i = 0; i < SCENES; i++) {
        const struct told a = play(&scenes[i], 5), b = play(&scenes[i], 6);
        assert_true(clean(&scenes[i], &a) && clean(&scenes[i], &b));
        assert_true(a.order != b.order && a.end_ns != b.end_ns && a.addresses != b.addresses);
    }
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int explore(uint64_t count) {
    const double begin = now_s();
    const struct totals t = play_all(first_seed, count);
    printf("{\"seeds\":%" PRIu64 ",\"seeds_clean\":%" PRIu64 ",\"scenes\":%d,\"runs\":%" PRIu64
           ",\"runs_clean\":%" PRIu64 ",\"out_of_memory\":%" PRIu64 ",\"pages_moved\":%" PRIu64
           ",\"host_waits\":%" PRIu64 ",\"device_waits\":%" PRIu64 ",\"ms_a_run\":%.1f}\n",
           count, t.clean_seeds, SCENES, t.runs, t.clean, t.refused, t.moved, t.host_waits, t.device_waits,
           (now_s() - begin) * 1e3 / (double)t.runs);
    return t.clean == t.runs ? 0 : 1;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static const char usage[] = "usage: trainer_schedule_seeds [--seeds N] [--first SEED] [--verbose]\n"
                            "\n"
                            "Training steps of several ranks under the virtual clock and the watch.\n"
                            "\n"
                            "  --seeds N     plays N seeds (1 to 1000000) of every scene instead of the tests\n"
                            "  --first SEED  the first of them (WEIR_SEED, else 1)\n"
                            "  --verbose     says what each run was\n"
                            "  --help        this text\n"
                            "\n"
                            "Exit status: 0 all runs were clean, 1 some were not, 2 bad input.\n";

static const uint64_t most_seeds = 1000000, last_seed = UINT32_MAX;

static uint64_t number(const char *name, const char *given, uint64_t least, uint64_t most) {
    char *end = NULL;
    errno = 0;
    const uint64_t value = given ? strtoull(given, &end, 10) : 0;
    if (given && *given >= '0' && *given <= '9' && !*end && !errno && value >= least && value <= most) return value;
    fprintf(stderr, "trainer_schedule_seeds: %s needs a number from %" PRIu64 " to %" PRIu64 ", not \"%s\"\n", name,
            least, most, given ? given : "");
    exit(2);
}

/* How many seeds to play; 0: the tests are to run. */
static uint64_t read_options(char **argument) {
    uint64_t seeds = 0;
    if (getenv("WEIR_SEED")) first_seed = number("WEIR_SEED", getenv("WEIR_SEED"), 0, last_seed);
    if (getenv("WEIR_SEEDS")) number("WEIR_SEEDS", getenv("WEIR_SEEDS"), 1, most_seeds);
    while (*argument) {
        const char *name = *argument++;
        if (strcmp(name, "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        } else if (strcmp(name, "--verbose") == 0) {
            verbose = true;
        } else if (strcmp(name, "--seeds") == 0) {
            seeds = number(name, *argument, 1, most_seeds);
            argument++;
        } else if (strcmp(name, "--first") == 0) {
            first_seed = number(name, *argument, 0, last_seed);
            argument++;
        } else {
            fprintf(stderr,
                    "trainer_schedule_seeds: unknown option \"%s\": expected --seeds N, --first SEED, "
                    "--verbose or --help\n",
                    name);
            exit(2);
        }
    }
    return seeds;
}

int main(int argc, char **argv) {
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_seed_gives_a_report_though_the_pools_are_so_full_that_they_wait_and_move),
        cmocka_unit_test(the_same_seed_gives_the_same_order_times_and_addresses),
        cmocka_unit_test(another_seed_gives_another_order_and_other_times),
    };
    const uint64_t seeds = read_options(argv + 1);
    for (size_t i = 0; i < sizeof text; i++) text[i] = (unsigned char)('a' + i * i % 26);
    return seeds ? explore(seeds) : cmocka_run_group_tests(tests, NULL, NULL);
}
