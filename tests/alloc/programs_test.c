/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs of everything that a pool can be asked for, against a slow model that is obviously right (program.h,
 * model.h): four threads, six streams of which some come and go, devices that are nearly full, bad calls among the good
 * ones. A program that finds a fault is made as short as it can be, and printed.
 *
 *   programs_test                               what CI runs
 *   programs_test --seed 7                      one program
 *   programs_test --seeds 1:5000 --operations 20000 --jobs 2
 * and --streams 6, --threads 4, --turns calls|clock, --policy latency|footprint, --deterministic on|off, --movable on|off, --limit 64 (pages),
 * --capacity 4096 (pages), --watch abort|off, --twice on, --shrink off. What is not said is drawn from the seed. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"
#include "support.h"
#include "tests/sanitized.h"

enum { OPERATIONS = 20000, MOST_JOBS = 16, CPU_SECONDS = 300, SHRINK_RUNS = 4000, SHRINK_SECONDS = 60 };

struct settings {
    uint64_t first, last;
    unsigned streams, threads, jobs;
    int turns, deterministic, movable; /* -1: drawn; 1: of the clock, on */
    enum weir_policy policy;           /* DEFAULT: drawn */
    size_t limit_pages, capacity_pages, operations;
    const char *watch;
    bool twice, shrink, quiet;
};

static const struct settings standard = {.first = 1,
                                         .last = 1,
                                         .streams = 6,
                                         .threads = 4,
                                         .jobs = 2,
                                         .turns = -1,
                                         .deterministic = -1,
                                         .movable = -1,
                                         .operations = OPERATIONS,
                                         .watch = "abort",
                                         .shrink = true};

/* ---- plans ------------------------------------------------------------------------------------------------------ */

/* Half of the programs have threads of their own, half are deterministic, half repeat; a third have a pool as large as the device, and
 * of every eighth the pages must not move. */
static struct plan plan_of(const struct settings *settings, uint64_t seed) {
    uint64_t chance = seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
    draw(&chance);
    size_t limit = 24 + draw(&chance) % 120;
    size_t capacity = draw(&chance) % 3 == 0 ? limit : 4096;
    static const size_t periods[] = {0, 0, 64, 320};
    const bool by_clock = draw(&chance) % 2, deterministic = draw(&chance) % 2, footprint = draw(&chance) % 2;
    const bool movable = draw(&chance) % 8 != 0;
    const size_t period = periods[draw(&chance) % (sizeof periods / sizeof *periods)];
    if (settings->limit_pages > 0) limit = settings->limit_pages;
    if (settings->capacity_pages > 0) capacity = settings->capacity_pages;
    if (limit > capacity) limit = capacity;
    return (struct plan){
        .seed = seed,
        .streams = settings->streams,
        .threads = settings->threads,
        .real_threads = settings->turns < 0 ? by_clock : settings->turns,
        .deterministic = settings->deterministic < 0 ? deterministic : settings->deterministic,
        .movable = settings->movable < 0 ? movable : settings->movable,
        .policy = settings->policy != WEIR_POLICY_DEFAULT ? settings->policy
                  : footprint                             ? WEIR_POLICY_FOOTPRINT
                                                          : WEIR_POLICY_LATENCY,
        .limit_bytes = limit * PAGE,
        .capacity_bytes = capacity * PAGE,
        .watch = settings->watch,
        .operations = settings->operations,
        .period = period,
    };
}

/* ---- runs, each a process --------------------------------------------------------------------------------------- */

static struct journal *new_journal(size_t operations) {
    const size_t bytes = sizeof(struct journal) + (operations + PROGRAM_MOST_THREADS) * sizeof(struct operation);
    struct journal *journal = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (journal == MAP_FAILED) abort();
    return journal;
}

static void delete_journal(struct journal *journal, size_t operations) {
    munmap(journal, sizeof *journal + (operations + PROGRAM_MOST_THREADS) * sizeof(struct operation));
}

static void mute(void) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
}

static pid_t start(const struct plan *plan, const struct operation *given, size_t count, struct journal *journal,
                   bool quiet) {
    fflush(NULL);
    const pid_t child = fork();
    if (child != 0) return child;
    alarm(10 * CPU_SECONDS); /* a thread that waits for ever takes no time; a machine may be busy */
    setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS});
    if (quiet) mute();
    journal->count = 0;
    journal->hash = 0;
    journal->fault[0] = 0;
    program_run(plan, given, count, journal);
    _exit(0);
}

/* Gives: whether it went well. What ended it otherwise is in the journal. */
static bool finish(int status, struct journal *journal) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (WIFSIGNALED(status))
        snprintf(journal->fault, sizeof journal->fault, "ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (journal->fault[0] == 0)
        snprintf(journal->fault, sizeof journal->fault, "ended with status %d", WEXITSTATUS(status));
    return false;
}

static bool run(const struct plan *plan, const struct operation *given, size_t count, struct journal *journal,
                bool quiet) {
    int status;
    const pid_t child = start(plan, given, count, journal, quiet);
    while (waitpid(child, &status, 0) != child) continue;
    return finish(status, journal);
}

/* ---- shrinking -------------------------------------------------------------------------------------------------- */

struct shrinking {
    const struct plan *plan;
    struct journal *journal;
    struct operation *operations, *fewer;
    size_t count;
    unsigned runs;
    uint64_t until_ns;
};

static bool is_over(const struct shrinking *shrinking) {
    return shrinking->runs >= SHRINK_RUNS || now_ns() > shrinking->until_ns;
}

/* Leaves [at, at + count) out, if it fails without. */
static bool drop(struct shrinking *shrinking, size_t at, size_t count) {
    const size_t rest = shrinking->count - count;
    memcpy(shrinking->fewer, shrinking->operations, at * sizeof *shrinking->fewer);
    memcpy(shrinking->fewer + at, shrinking->operations + at + count, (rest - at) * sizeof *shrinking->fewer);
    shrinking->runs++;
    if (run(shrinking->plan, shrinking->fewer, rest, shrinking->journal, true)) return false;
    memcpy(shrinking->operations, shrinking->fewer, rest * sizeof *shrinking->fewer);
    shrinking->count = rest;
    return true;
}

static bool drop_all(struct shrinking *shrinking, size_t chunk) {
    bool dropped = false;
    for (size_t at = 0; at < shrinking->count && !is_over(shrinking);) {
        const size_t left = shrinking->count - at, count = chunk < left ? chunk : left;
        if (drop(shrinking, at, count))
            dropped = true;
        else
            at += count;
    }
    return dropped;
}

/* Halves first, then single operations until none can go. Gives: how many are left, in `operations`. */
static size_t shrink(const struct plan *plan, struct operation *operations, size_t count) {
    struct shrinking shrinking = {.plan = plan,
                                  .journal = new_journal(0),
                                  .operations = operations,
                                  .fewer = calloc(count + 1, sizeof *operations),
                                  .count = count,
                                  .until_ns = now_ns() + SHRINK_SECONDS * UINT64_C(1000000000)};
    if (shrinking.fewer == NULL) abort();
    for (size_t chunk = count / 2; chunk > 1; chunk /= 2) drop_all(&shrinking, chunk);
    while (drop_all(&shrinking, 1)) continue;
    free(shrinking.fewer);
    delete_journal(shrinking.journal, 0);
    return shrinking.count;
}

static void print_plan(const struct plan *plan) {
    printf("seed %llu: %s%s%s, %zu of %zu pages, %u streams, %u threads %s\n", (unsigned long long)plan->seed,
           plan->policy == WEIR_POLICY_LATENCY ? "latency" : "footprint", plan->deterministic ? ", deterministic" : "",
           plan->movable ? "" : ", not movable", plan->limit_bytes / PAGE, plan->capacity_bytes / PAGE, plan->streams,
           plan->threads, plan->real_threads ? "by the clock" : "a call at a time");
}

static void tell_failure(const struct settings *settings, const struct plan *plan, const struct journal *failed) {
    printf("after %zu operations: %s\n", failed->count, failed->fault);
    print_plan(plan);
    if (!settings->shrink) return;
    size_t count = failed->count;
    struct operation *operations = calloc(count + 1, sizeof *operations);
    struct journal *journal = new_journal(0);
    if (operations == NULL) abort();
    memcpy(operations, failed->operations, count * sizeof *operations);
    if (run(plan, operations, count, journal, true)) {
        printf("(its operations alone, given again, go well: run the seed)\n");
    } else {
        count = shrink(plan, operations, count);
        printf("the shortest program found, of %zu operations:\n", count);
        for (size_t i = 0; i < count; i++) program_print(&operations[i]);
        run(plan, operations, count, journal, false);
        printf("its fault: %s\n", journal->fault);
    }
    free(operations);
    delete_journal(journal, 0);
}

/* ---- many runs, some at a time ---------------------------------------------------------------------------------- */

struct totals {
    uint64_t programs, operations, refusals, device_waits, host_waits, pages_moved;
    bool failed;
};

struct job {
    pid_t child;
    struct plan plan;
    struct journal *journal;
};

static bool same_again(const struct job *job) {
    struct journal *again = new_journal(job->plan.operations);
    const bool well = run(&job->plan, NULL, 0, again, false);
    const bool same = well && again->hash == job->journal->hash && again->count == job->journal->count;
    if (!same) {
        size_t at = 0;
        while (at < again->count &&
               memcmp(&again->operations[at], &job->journal->operations[at], sizeof *again->operations) == 0)
            at++;
        printf("addresses or statistics differ when it is run again; the operations are the same up to number %zu of "
               "%zu: %s\n",
               at, again->count, again->fault);
        print_plan(&job->plan);
    }
    delete_journal(again, job->plan.operations);
    return same;
}

static void end_job(const struct settings *settings, struct job *job, int status, struct totals *totals) {
    if (!finish(status, job->journal)) {
        totals->failed = true;
        if (!settings->quiet) tell_failure(settings, &job->plan, job->journal);
    } else if (settings->twice && !same_again(job)) {
        totals->failed = true;
    }
    totals->programs++;
    totals->operations += job->journal->count;
    totals->refusals += job->journal->refusals;
    totals->device_waits += job->journal->device_waits;
    totals->host_waits += job->journal->host_waits;
    totals->pages_moved += job->journal->pages_moved;
    job->child = 0;
}

static void end_one(const struct settings *settings, struct job *jobs, struct totals *totals) {
    int status;
    const pid_t child = wait(&status);
    for (unsigned i = 0; i < settings->jobs; i++)
        if (child > 0 && jobs[i].child == child) end_job(settings, &jobs[i], status, totals);
}

static struct job *free_job(const struct settings *settings, struct job *jobs) {
    for (unsigned i = 0; i < settings->jobs; i++)
        if (jobs[i].child == 0) return &jobs[i];
    return NULL;
}

static bool any_runs(const struct settings *settings, const struct job *jobs) {
    for (unsigned i = 0; i < settings->jobs; i++)
        if (jobs[i].child != 0) return true;
    return false;
}

/* Ends with the first failure. */
static struct totals run_all(const struct settings *settings) {
    struct job jobs[MOST_JOBS] = {0};
    struct totals totals = {0};
    for (unsigned i = 0; i < settings->jobs; i++) jobs[i].journal = new_journal(settings->operations);
    for (uint64_t seed = settings->first; seed <= settings->last && !totals.failed; seed++) {
        struct job *job;
        while ((job = free_job(settings, jobs)) == NULL) end_one(settings, jobs, &totals);
        if (totals.failed) break;
        job->plan = plan_of(settings, seed);
        job->child = start(&job->plan, NULL, 0, job->journal, settings->quiet);
    }
    while (any_runs(settings, jobs)) end_one(settings, jobs, &totals);
    for (unsigned i = 0; i < settings->jobs; i++) delete_journal(jobs[i].journal, settings->operations);
    return totals;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static struct totals run_and_tell(const struct settings *settings) {
    const uint64_t since_ns = now_ns();
    const double cpu = cpu_seconds();
    const struct totals totals = run_all(settings);
    const double seconds = 1e-9 * (double)(now_ns() - since_ns);
    printf("%llu programs, %llu operations, %llu refusals, %llu device waits, %llu host waits, %llu pages moved in "
           "%.1f s, "
           "%.1f s of CPU: %.0f operations a second of CPU\n",
           (unsigned long long)totals.programs, (unsigned long long)totals.operations,
           (unsigned long long)totals.refusals, (unsigned long long)totals.device_waits,
           (unsigned long long)totals.host_waits, (unsigned long long)totals.pages_moved, seconds, cpu_seconds() - cpu,
           (double)totals.operations / (cpu_seconds() - cpu));
    return totals;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void programs_keep_every_promise(void **state) {
    (void)state;
    struct settings settings = standard;
    settings.last = SANITIZED ? 10 : 100;
    settings.operations = SANITIZED ? 10000 : OPERATIONS;
    const struct totals totals = run_and_tell(&settings);
    assert_false(totals.failed);
    assert_true(totals.device_waits > 0 && totals.host_waits > 0 && totals.pages_moved > 0 && totals.refusals > 0);
}

static void a_seed_gives_the_same_addresses_and_statistics_each_time(void **state) {
    (void)state;
    struct settings settings = standard;
    settings.first = 1001;
    settings.last = 1016;
    settings.operations = 2000;
    settings.twice = true;
    assert_false(run_all(&settings).failed);
}

/* The model alone finds each wait that is left out, with the watch off. */
__attribute__((unused)) static bool is_found(const char *site, const struct settings *settings) {
    setenv("WEIR_MUTATE", site, 1);
    const bool found = run_all(settings).failed;
    unsetenv("WEIR_MUTATE");
    return found;
}

static void the_model_finds_each_wait_that_is_left_out(void **state) {
    (void)state;
#ifndef NDEBUG
    static const char *const sites[] = {"device_wait", "free_after",    "host_wait", "page_move",
                                        "mark_passed", "stream_passed", "stream_end"};
    struct settings settings = standard;
    settings.last = 40;
    settings.operations = 3000;
    settings.watch = "off";
    settings.quiet = true;
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
        if (!is_found(sites[i], &settings)) fail_msg("without %s all goes well", sites[i]);
#else
    skip();
#endif
}

/* Gives: how many operations are left of a program that fails without waits on the device. */
__attribute__((unused)) static size_t shortest(const struct settings *settings, uint64_t seed) {
    struct plan plan = plan_of(settings, seed);
    plan.period = 0;
    struct journal *journal = new_journal(plan.operations);
    assert_false(run(&plan, NULL, 0, journal, true));
    const size_t count = shrink(&plan, journal->operations, journal->count);
    assert_false(run(&plan, journal->operations, count, journal, true));
    delete_journal(journal, plan.operations);
    return count;
}

/* To use, to free and to allocate on another stream; where the blocks happen to have other sizes, also what makes them fit. */
static void programs_that_fail_are_made_short(void **state) {
    (void)state;
#ifndef NDEBUG
    enum { PROGRAMS = 9 };
    struct settings settings = standard;
    unsigned short_ones = 0;
    settings.operations = 3000;
    settings.watch = "off";
    settings.policy = WEIR_POLICY_FOOTPRINT;
    settings.turns = settings.deterministic = 0;
    setenv("WEIR_MUTATE", "device_wait", 1);
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        const size_t count = shortest(&settings, seed);
        print_message("%zu operations are left\n", count);
        assert_true(count >= 2 && count <= 20);
        short_ones += count <= 6;
    }
    unsetenv("WEIR_MUTATE");
    assert_true(short_ones > PROGRAMS / 2);
#else
    skip();
#endif
}

/* ---- by hand ---------------------------------------------------------------------------------------------------- */

static void refuse_option(const char *name, const char *value) {
    fprintf(stderr, "programs_test: %s %s is not understood; see the head of programs_test.c\n", name, value);
    exit(2);
}

static uint64_t number_of(const char *name, const char *text, uint64_t least, uint64_t most) {
    char *end;
    const uint64_t number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != 0 || number < least || number > most) refuse_option(name, text);
    return number;
}

static int one_of(const char *name, const char *text, const char *first, const char *second) {
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0) refuse_option(name, text);
    return strcmp(text, second) == 0;
}

static void read_seeds(const char *text, struct settings *settings) {
    char first[24];
    const char *colon = strchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof first) refuse_option("--seeds", text);
    snprintf(first, sizeof first, "%.*s", (int)(colon - text), text);
    settings->first = number_of("--seeds", first, 0, UINT32_MAX);
    settings->last = number_of("--seeds", colon + 1, settings->first, UINT32_MAX);
}

static void read_option(const char *name, const char *value, struct settings *settings) {
    if (strcmp(name, "--seed") == 0)
        settings->first = settings->last = number_of(name, value, 0, UINT32_MAX);
    else if (strcmp(name, "--seeds") == 0)
        read_seeds(value, settings);
    else if (strcmp(name, "--operations") == 0)
        settings->operations = number_of(name, value, 1, 1000000000);
    else if (strcmp(name, "--streams") == 0)
        settings->streams = (unsigned)number_of(name, value, 1, PROGRAM_MOST_STREAMS);
    else if (strcmp(name, "--threads") == 0)
        settings->threads = (unsigned)number_of(name, value, 1, PROGRAM_MOST_THREADS);
    else if (strcmp(name, "--jobs") == 0)
        settings->jobs = (unsigned)number_of(name, value, 1, MOST_JOBS);
    else if (strcmp(name, "--limit") == 0)
        settings->limit_pages = number_of(name, value, 1, 65536);
    else if (strcmp(name, "--capacity") == 0)
        settings->capacity_pages = number_of(name, value, 1, 65536);
    else if (strcmp(name, "--turns") == 0)
        settings->turns = one_of(name, value, "calls", "clock");
    else if (strcmp(name, "--deterministic") == 0)
        settings->deterministic = one_of(name, value, "off", "on");
    else if (strcmp(name, "--movable") == 0)
        settings->movable = one_of(name, value, "off", "on");
    else if (strcmp(name, "--policy") == 0)
        settings->policy = one_of(name, value, "latency", "footprint") ? WEIR_POLICY_FOOTPRINT : WEIR_POLICY_LATENCY;
    else if (strcmp(name, "--watch") == 0)
        settings->watch = one_of(name, value, "abort", "off") ? "off" : "abort";
    else if (strcmp(name, "--twice") == 0)
        settings->twice = one_of(name, value, "off", "on");
    else if (strcmp(name, "--shrink") == 0)
        settings->shrink = one_of(name, value, "off", "on");
    else
        refuse_option(name, value);
}

static int by_hand(int count, char **arguments) {
    struct settings settings = standard;
    if (count % 2 == 0) refuse_option(arguments[count - 1], "");
    for (int i = 1; i + 1 < count; i += 2) read_option(arguments[i], arguments[i + 1], &settings);
    return run_and_tell(&settings).failed;
}

int main(int count, char **arguments) {
    if (count > 1) return by_hand(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_keep_every_promise),
        cmocka_unit_test(a_seed_gives_the_same_addresses_and_statistics_each_time),
        cmocka_unit_test(the_model_finds_each_wait_that_is_left_out),
        cmocka_unit_test(programs_that_fail_are_made_short),
    };
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
