/* SPDX-License-Identifier: Apache-2.0 */
/* How large a device must be, and what it costs to do with less: weir-replay over many traces, the policy per-stream
 * beside weir's own, under each law of what the driver's memory calls cost. Prints a table beside what PyTorch's
 * allocator needed (baseline.tsv), what weir's own policy reaches of its goals, and how fast the replay itself is.
 * Blind runs are made beside those with a law. A trace that does not say how long work takes is replayed without a clock,
 * once. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/beside.h"
#include "bench/figures.h"
#include "bench/replay.h"
#include "device/standard.h"
#include "tools/options/option_table.h"
#include "tools/trace/trace.h"

enum { EXIT_BAD_INPUT = 2, SPEED_RUNS = 5, MOST_JOBS = 64 };

#define SPEED_GOAL_CLOCK    0.5e6 /* operations a second */
#define SPEED_GOAL_NO_CLOCK 2e6
#define NEAR_BASELINE       0.05

static struct bench {
    char replay[PATH_MAX];
    struct subject subjects[MOST_TRACES];
    size_t subject_count;
    struct row rows[MOST_ROWS];
    size_t row_count, calls;
    struct baseline {
        char name[64];
        double default_min;
    } baseline[64];
    size_t baseline_count;
} bench;

static int bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int bad(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "weir-bench-replay: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return EXIT_BAD_INPUT;
}

/* ---- what to do ------------------------------------------------------------------------------------------------- */

static struct options {
    const char *json_path, *baseline_path;
    unsigned jobs;
    bool laws[LAWS]; /* of the traces that follow, as the next */
    const char *blind;
} settings;

static bool read_laws(const char *list, struct options *options, struct complaint complaint) {
    bool *laws = options->laws;
    memset(laws, 0, LAWS * sizeof *laws);
    for (const char *at = list; *at != 0;) {
        size_t length = strcspn(at, ","), law = 0;
        while (law < LAWS && (strlen(law_names[law]) != length || strncmp(at, law_names[law], length) != 0)) law++;
        if (law == LAWS) return complain(complaint, "--laws %.60s: expected some of page, handle, range", list);
        laws[law] = true;
        at += length + (at[length] == ',');
    }
    return true;
}

static const char *const blind_choices[] = {"yes", "no", NULL};

static const struct option table[] = {
    {"json", "FILE", "where the figures go", OPTION_TEXT(json_path)},
    {"baseline", "FILE", "what PyTorch's allocator needed (bench/baseline.tsv), to compare with",
     OPTION_TEXT(baseline_path)},
    {"jobs", "N", "runs made at a time (default: one a CPU that is online)", OPTION_COUNT(jobs, 1, MOST_JOBS)},
    {"laws", "LIST", "of the traces that follow: some of page, handle, range (default: all)", OPTION_READ(read_laws),
     .many = true},
    {"blind", "yes|no", "of the traces that follow: runs without events too (default yes)",
     OPTION_CHOICE(blind, blind_choices), .many = true},
    {"help", NULL, NULL, OPTION_HELP},
};

static int add_subject(char **words, struct options *options, struct complaint complaint) {
    const char *word = words[0], *equals = strchr(word, '=');
    struct subject *subject = &bench.subjects[bench.subject_count];
    struct trace trace;
    if (equals == NULL || equals == word || equals[1] == 0)
        return complain(complaint, "'%.200s' is not NAME=TRACE", word);
    if (bench.subject_count == MOST_TRACES) return complain(complaint, "more than %d traces", MOST_TRACES);
    if ((size_t)(equals - word) >= sizeof subject->name)
        return complain(complaint, "'%.200s': the name is too long", word);
    if (!trace_read(equals + 1, &trace, complaint.text, complaint.room)) return 0;
    snprintf(subject->name, sizeof subject->name, "%.*s", (int)(equals - word), word);
    subject->path = equals + 1;
    subject->live_bytes = (double)trace.peak_live_bytes;
    subject->operations = trace.op_count;
    for (size_t i = 0; i < LAWS; i++) subject->laws[i] = trace.has_work && options->laws[i];
    subject->blind = trace.has_work && strcmp(options->blind, "yes") == 0;
    subject->repeats = goal_trace_repeats(&trace);
    subject->steady_from = subject->repeats ? goal_third_of_the_same(&trace) : 3;
    subject->family = goal_family(subject->name, subject->repeats);
    trace_free(&trace);
    bench.subject_count++;
    return 1;
}

static bool check(struct options *options, struct complaint complaint) {
    if (options->json_path == NULL) return complain(complaint, "--json=FILE says where the figures go");
    return bench.subject_count > 0 || complain(complaint, "no NAME=TRACE is given");
}

static const struct option_table replay_options = {
    .program = "weir-bench-replay",
    .usage = "usage: weir-bench-replay --json=FILE [options] NAME=TRACE ...\n"
             "How large a device must be, and what it costs to do with less: weir-replay over many traces, the policy\n"
             "per-stream beside weir's own, under each law of what the driver's memory calls cost.\n",
    .status = "Exit status: 0 measured; 1 failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .words = add_subject,
    .check = check,
};

static void set_defaults(void) {
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    settings = (struct options){.laws = {true, true, true},
                                .blind = "yes",
                                .jobs = cpus < 1           ? 1
                                        : cpus > MOST_JOBS ? MOST_JOBS
                                                           : (unsigned)cpus};
}

static int read_baseline(void) {
    char line[512];
    FILE *file = settings.baseline_path != NULL ? fopen(settings.baseline_path, "re") : NULL;
    if (settings.baseline_path == NULL) return 0;
    if (file == NULL) return bad("%s: %s", settings.baseline_path, strerror(errno));
    while (fgets(line, sizeof line, file) != NULL && bench.baseline_count < 64) {
        struct baseline *entry = &bench.baseline[bench.baseline_count];
        double live;
        if (sscanf(line, "%63s %lf %lf", entry->name, &live, &entry->default_min) == 3) bench.baseline_count++;
    }
    fclose(file);
    return 0;
}

static struct row *add_row(const struct subject *subject, const char *allocator, const char *law, bool blind) {
    struct row *row = &bench.rows[bench.row_count];
    *row = (struct row){.subject = subject, .allocator = allocator, .law = law, .blind = blind};
    snprintf(row->json_path, sizeof row->json_path, "%.4000s.%zu", settings.json_path, bench.row_count);
    bench.row_count++;
    return row;
}

static void follow(struct row *row, const struct row *leader) {
    row->leader = leader;
    row->probes = leader != NULL;
}

/* The laws say what mapping costs, and per-stream maps nothing: one run stands for all of them. Law handle is law page as long
 * as a handle is a page; and the pool may make nothing of what it sees of the program. Runs repeat exactly, so where a
 * whole curve is the same the rest is too, and is not searched for again. */
static void list_rows(void) {
    for (size_t i = 0; i < bench.subject_count; i++) {
        const struct subject *subject = &bench.subjects[i];
        const struct row *open[LAWS] = {NULL};
        const char *first = NULL;
        for (size_t law = LAWS; law-- > 0;)
            if (subject->laws[law]) first = law_names[law];
        add_row(subject, "per-stream", first, false);
        if (first == NULL) add_row(subject, "weir", NULL, false);
        for (size_t law = 0; law < LAWS; law++) {
            if (!subject->laws[law]) continue;
            struct row *row = add_row(subject, "weir", law_names[law], false);
            if (law == LAW_HANDLE) follow(row, open[LAW_PAGE]);
            open[law] = row;
        }
        for (size_t law = 0; subject->blind && law < LAWS; law++)
            if (subject->laws[law]) follow(add_row(subject, "weir", law_names[law], true), open[law]);
    }
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void become_replay(char *const *arguments) {
    int none = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (none >= 0) dup2(none, 1);
    execv(arguments[0], arguments);
    _exit(127);
}

/* execv changes none of them. */
static char *as_argument(const char *text) { return (char *)(uintptr_t)text; }

static bool begin(struct row *row) {
    char policy[32], json[PATH_MAX + 16];
    snprintf(policy, sizeof policy, "--policy=%s", strcmp(row->allocator, "weir") == 0 ? "latency" : row->allocator);
    snprintf(json, sizeof json, "--json=%s", row->json_path);
    char law[32] = "--clock=none";
    if (row->law != NULL) snprintf(law, sizeof law, "--law=%s", row->law);
    const bool coarse = row->blind && !row->probes;
    char steady[32];
    snprintf(steady, sizeof steady, "--steady-from=%zu", row->subject->steady_from);
    char *arguments[13] = {bench.replay, as_argument(row->subject->path), policy, as_argument("--jobs=1"), json, law,
                           steady};
    size_t count = 7;
    if (!row->probes) arguments[count++] = as_argument("--scan");
    if (!row->probes && row->law != NULL) arguments[count++] = as_argument("--honest=1%");
    if (row->blind) arguments[count++] = as_argument("--blind");
    if (coarse) arguments[count++] = as_argument("--coarse");
    arguments[count] = as_argument(coarse ? "--curve=1.02,1.05,1.1,1.25" : "--curve=1.0:1.5:0.05,1.02");
    row->process = fork();
    if (row->process == 0) become_replay(arguments);
    return row->process > 0;
}

static bool finish(struct row *row, int status) {
    json_error_t error;
    row->process = 0;
    row->report = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? json_load_file(row->json_path, 0, &error) : NULL;
    unlink(row->json_path);
    if (row->report != NULL) return true;
    fprintf(stderr, "weir-bench-replay: weir-replay %s (%s, %s) ended with %d and gave no answer\n", row->subject->path,
            row->allocator, row->law != NULL ? row->law : "no clock",
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return false;
}

static struct row *row_of(pid_t process) {
    for (size_t i = 0; i < bench.row_count; i++)
        if (bench.rows[i].process == process) return &bench.rows[i];
    return NULL;
}

static struct row *next_row(size_t *at) {
    while (*at < bench.row_count && bench.rows[*at].report != NULL) ++*at;
    return *at < bench.row_count ? &bench.rows[(*at)++] : NULL;
}

/* Makes the calls of all rows that have no answer. */
static bool run_missing(void) {
    size_t at = 0, running = 0, done = 0;
    bool good = true;
    struct row *next = next_row(&at);
    while ((good && next != NULL) || running > 0) {
        while (good && next != NULL && running < settings.jobs) {
            good = begin(next);
            running += good;
            next = next_row(&at);
        }
        int status;
        pid_t process = running > 0 ? waitpid(-1, &status, 0) : -1;
        struct row *row = process > 0 ? row_of(process) : NULL;
        if (row == NULL) continue;
        running--;
        bench.calls++;
        good = finish(row, status) && good;
        if (isatty(2)) fprintf(stderr, "\r\033[K%zu of %zu %s", ++done, bench.row_count, row->subject->name);
    }
    if (isatty(2)) fprintf(stderr, "\r\033[K");
    return good;
}

static bool same_curve(const struct row *one, const struct row *other) {
    return json_equal(json_object_get(one->report, "curve"), json_object_get(other->report, "curve"));
}

/* First all curves; then what is searched for by those rows whose curve is another one than their leader's. */
static bool run_rows(void) {
    if (!run_missing()) return false;
    for (size_t i = bench.row_count; i-- > 0;) { /* those behind compare with curves that are still there */
        struct row *row = &bench.rows[i];
        row->probes = false;
        if (row->leader == NULL || same_curve(row, row->leader)) continue;
        json_decref(row->report);
        row->report = NULL;
        row->leader = NULL;
    }
    if (!run_missing()) return false;
    for (size_t i = 0; i < bench.row_count; i++) { /* leaders come before those that follow them */
        struct row *row = &bench.rows[i];
        if (row->leader == NULL) continue;
        json_decref(row->report);
        row->report = json_incref(row->leader->report);
    }
    return true;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static struct results all_results(void) {
    return (struct results){bench.subjects, bench.subject_count, bench.rows, bench.row_count};
}

size_t group_length(const struct subject *subject) { return strcspn(subject->name, "/"); }

bool same_group(const struct subject *one, const struct subject *other) {
    return group_length(one) == group_length(other) && strncmp(one->name, other->name, group_length(one)) == 0;
}

const struct row *find_row(const struct results *results, const struct subject *subject, const char *allocator,
                           const char *law, bool blind) {
    for (size_t i = 0; i < results->row_count; i++) {
        const struct row *row = &results->rows[i];
        if (row->subject == subject && row->blind == blind && strcmp(row->allocator, allocator) == 0 &&
            (law == NULL || (row->law != NULL && strcmp(row->law, law) == 0)))
            return row;
    }
    return NULL;
}

/* With the program's events and waits in sight. */
static const struct row *row_of_subject(const struct subject *subject, const char *allocator, const char *law) {
    const struct results results = all_results();
    return find_row(&results, subject, allocator, law, false);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static json_t *copy_of(const json_t *from, const char *const *keys) {
    json_t *to = json_object();
    for (; *keys != NULL; keys++) json_object_set(to, *keys, json_object_get(from, *keys));
    return to;
}

static json_t *entry_of(const struct row *row, const char *law) {
    static const char *const kept[] = {
        "min_capacity_ratio", "honest_capacity_ratio", "fails_above", "peak_live_bytes", "operations", NULL};
    static const char *const of_point[] = {"capacity_ratio",      "outcome",    "slowdown",
                                           "memory_calls_steady", "page_moves", "fluid_slowdown",
                                           "host_waits_steady",   NULL};
    json_t *entry = copy_of(row->report, kept), *curve = json_array(), *point;
    size_t index;
    json_object_set_new(entry, "trace", json_string(row->subject->name));
    json_object_set_new(entry, "allocator", json_string(row->allocator));
    json_object_set_new(entry, "law", law != NULL ? json_string(law) : json_null());
    json_array_foreach(json_object_get(row->report, "curve"), index, point)
        json_array_append_new(curve, copy_of(point, of_point));
    json_object_set_new(entry, "curve", curve);
    return entry;
}

static json_t *entries(bool blind) {
    json_t *list = json_array();
    for (size_t i = 0; i < bench.row_count; i++) {
        const struct row *row = &bench.rows[i];
        if (row->blind != blind) continue;
        if (row->law == NULL || strcmp(row->allocator, "weir") == 0)
            json_array_append_new(list, entry_of(row, row->law));
        else
            for (size_t law = 0; law < LAWS; law++)
                if (row->subject->laws[law]) json_array_append_new(list, entry_of(row, law_names[law]));
    }
    return list;
}

static bool write_json(double clock_speed, double bare_speed) {
    const struct results results = all_results();
    json_t *json = json_pack("{s:b, s:f, s:f, s:o, s:o, s:o, s:o}", "emulated", 1, "operations_per_s_virtual_clock",
                             clock_speed, "operations_per_s_no_clock", bare_speed, "traces", entries(false), "blind",
                             entries(true), "goals", goals_json(&results), "steady", steady_json(&results));
    bool written =
        json != NULL && json_dump_file(json, settings.json_path, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) == 0;
    json_decref(json);
    if (!written) fprintf(stderr, "weir-bench-replay: %s can't be written\n", settings.json_path);
    return written;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static double number_of(const struct row *row, const char *key) {
    const json_t *value = row != NULL ? json_object_get(row->report, key) : NULL;
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Of the trace of that name, whatever its group is. */
static double baseline_of(const struct subject *subject) {
    const char *slash = strrchr(subject->name, '/'), *name = slash != NULL ? slash + 1 : subject->name;
    for (size_t i = 0; i < bench.baseline_count; i++)
        if (strcmp(bench.baseline[i].name, name) == 0) return bench.baseline[i].default_min;
    return (double)NAN;
}

static void put_ratio(double ratio, bool asked) {
    if (isfinite(ratio))
        printf(" %8.3f", ratio);
    else
        printf(" %8s", asked ? "none" : "-");
}

static void put_subject(const struct subject *subject) {
    const struct row *per_stream = row_of_subject(subject, "per-stream", NULL),
                     *weir = row_of_subject(subject, "weir", NULL);
    size_t again = json_array_size(json_object_get(per_stream->report, "fails_above"));
    bool timed = per_stream->law != NULL;
    printf("%-40s %7.2f", subject->name, subject->live_bytes / (1 << 30));
    put_ratio(baseline_of(subject), false);
    put_ratio(number_of(per_stream, "min_capacity_ratio"), true);
    printf(" %6zu", again);
    put_ratio(number_of(per_stream, "honest_capacity_ratio"), timed);
    put_ratio(number_of(weir, "min_capacity_ratio"), true);
    for (size_t law = 0; law < LAWS; law++)
        put_ratio(number_of(row_of_subject(subject, "weir", law_names[law]), "honest_capacity_ratio"),
                  subject->laws[law]);
    printf("\n");
}

/* Per-stream beside the default allocator, over the traces of a group that both have. */
static void put_medians(const struct subject *first) {
    double ours[MOST_TRACES], theirs[MOST_TRACES], weir[MOST_TRACES];
    size_t count = 0;
    for (size_t i = 0; i < bench.subject_count; i++) {
        const struct subject *subject = &bench.subjects[i];
        double ratio = number_of(row_of_subject(subject, "per-stream", NULL), "min_capacity_ratio");
        if (!same_group(subject, first) || isnan(baseline_of(subject)) || isnan(ratio)) continue;
        ours[count] = ratio;
        weir[count] = number_of(row_of_subject(subject, "weir", NULL), "min_capacity_ratio");
        theirs[count++] = baseline_of(subject);
    }
    if (count == 0) return;
    double one = figures_median(ours, count), other = figures_median(theirs, count), apart = one / other - 1;
    printf("%.*s: medians of the smallest devices of %zu traces: per-stream %.3f, PyTorch's default %.3f (%+.1f %%, "
           "within %.0f %%: %s), weir %.3f\n",
           (int)group_length(first), first->name, count, one, other, 100 * apart, 100 * NEAR_BASELINE,
           fabs(apart) <= NEAR_BASELINE ? "yes" : "no", figures_median(weir, count));
}

static void put_table(void) {
    printf(
        "\nSmallest and honest (1 %% slower) devices, multiples of the peak of live bytes; emulated, profile gh200.\n"
        "again: devices tried above the smallest on which per-stream fails.\n"
        "%-40s %7s %8s %24s %35s\n%-40s %7s %8s %8s %6s %8s %8s %26s\n",
        "", "peak", "default", "per-stream", "weir", "", "GiB", "min", "min", "again", "honest", "min",
        "honest: page handle range");
    for (size_t i = 0; i < bench.subject_count; i++) put_subject(&bench.subjects[i]);
    for (size_t i = 0; i < bench.subject_count; i++) {
        const struct subject *subject = &bench.subjects[i];
        bool first = i == 0 || !same_group(subject, subject - 1);
        if (first) put_medians(subject);
    }
}

/* ---- speed ------------------------------------------------------------------------------------------------------ */

/* Operations a second of CPU time: reading is not in it, the pool and the emulated driver are. The median of several
 * runs. */
static double speed(const struct subject *subject, const char *clock) {
    double found[SPEED_RUNS];
    size_t count = 0;
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command, "'%s' '%s' --capacity=1.5x --jobs=1 --clock=%s --json", bench.replay,
             subject->path, clock);
    for (int i = 0; i < SPEED_RUNS; i++) {
        FILE *pipe = popen(command, "re");
        json_t *json = pipe != NULL ? json_loadf(pipe, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
        const json_t *value = json_object_get(json, "ns_per_op");
        if (json_is_number(value) && json_number_value(value) > 0) found[count++] = 1e9 / json_number_value(value);
        json_decref(json);
        if (pipe != NULL) pclose(pipe);
    }
    return figures_median(found, count);
}

static void put_speed(const char *what, double speed_now, double goal) {
    printf("%s: %.2f million operations a second (goal: %.1f)\n", what, speed_now / 1e6, goal / 1e6);
}

/* The longest trace that has work: what a process takes to begin and end weighs least there. */
static const struct subject *longest(void) {
    const struct subject *found = &bench.subjects[0];
    for (size_t i = 1; i < bench.subject_count; i++) {
        const struct subject *subject = &bench.subjects[i];
        bool timed = subject->laws[0] || subject->laws[1] || subject->laws[2];
        if (timed && subject->operations > found->operations) found = subject;
    }
    return found;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **argument) {
    double began = seconds();
    weir__take_closed_standard();
    set_defaults();
    int status = options_read(&replay_options, &settings, count, argument);
    if (status != OPTIONS_GO_ON) return weir__end_standard("weir-bench-replay", status);
    if ((status = read_baseline()) != 0) return status;
    if (!beside_path("weir-replay", bench.replay) || access(bench.replay, X_OK) != 0)
        return bad("there is no weir-replay beside this program"), EXIT_FAILURE;
    const struct subject *subject = longest();
    double clock_speed = speed(subject, "virtual"), bare_speed = speed(subject, "none");
    list_rows();
    if (!run_rows() || !write_json(clock_speed, bare_speed)) return EXIT_FAILURE;
    const struct results results = all_results();
    put_table();
    put_goals(&results);
    put_steady(&results);
    printf("replaying %s under the policy latency on 1.5 x the peak:\n", subject->name);
    put_speed("  with the virtual clock", clock_speed, SPEED_GOAL_CLOCK);
    put_speed("  without a clock", bare_speed, SPEED_GOAL_NO_CLOCK);
    printf("%zu calls of weir-replay, %.0f s; %s\n", bench.calls, seconds() - began, settings.json_path);
    for (size_t i = 0; i < bench.row_count; i++) json_decref(bench.rows[i].report);
    return weir__end_standard("weir-bench-replay", EXIT_SUCCESS);
}
