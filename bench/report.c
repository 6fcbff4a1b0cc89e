/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators beside each other in one run: the devices that traces need under each, what it costs to do with less, and
 * what their calls cost the host. Writes the figures and a page made from them.
 *
 * Usage: weir-bench-report --json=FILE --html=FILE --pool=FILE [options] NAME=TRACE ...
 *        weir-bench-report --from=FILE --html=FILE [--json=FILE]    the page once more, of a file of figures
 * FILE of --pool: what weir-bench-pool wrote. --library=torch:VERSION:PATH and rmm:VERSION:PATH: libraries with the
 * functions of peers/peer.h; --absent=torch:WHY: there is none. --command=TEXT, again for each: what the page says made it. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/report.h"
#include "device/standard.h"
#include "tools/options/option_table.h"

enum { EXIT_BAD_INPUT = 2, MOST_TRACES = 24, MOST_COMMANDS = 32, MOST_JOBS = 64 };

static struct options {
    const char *json, *html, *pool, *from;
    const char *commands[MOST_COMMANDS];
    size_t command_count;
    struct report_trace traces[MOST_TRACES];
    char names[MOST_TRACES][64];
    char versions[REPORT_LIBRARIES][512];
    struct report_plan plan;
} settings;

static int bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int bad(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "weir-bench-report: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return EXIT_BAD_INPUT;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* KEY:VERSION:PATH, or KEY:WHY where there is no path. */
static bool name_library(const char *option, const char *value, struct options *options, bool has_path,
                         struct complaint complaint) {
    for (size_t i = 0; i < REPORT_LIBRARIES; i++) {
        const size_t length = strlen(report_libraries[i]);
        if (strncmp(value, report_libraries[i], length) != 0 || value[length] != ':') continue;
        const char *text = value + length + 1, *colon = has_path ? strchr(text, ':') : NULL;
        if (has_path && (colon == NULL || colon[1] == 0)) break;
        snprintf(options->versions[i], sizeof options->versions[i], "%.*s", has_path ? (int)(colon - text) : 511, text);
        options->plan.libraries[i] = (struct report_library){has_path ? colon + 1 : NULL, options->versions[i]};
        return true;
    }
    return complain(complaint, "--%s %.200s: expected torch: or rmm: and %s", option, value,
                    has_path ? "VERSION:PATH" : "a reason");
}

static bool read_library(const char *value, struct options *options, struct complaint complaint) {
    return name_library("library", value, options, true, complaint);
}

static bool read_absent(const char *value, struct options *options, struct complaint complaint) {
    return name_library("absent", value, options, false, complaint);
}

static bool add_command(const char *value, struct options *options, struct complaint complaint) {
    if (options->command_count == MOST_COMMANDS) return complain(complaint, "--command: more than %d", MOST_COMMANDS);
    options->commands[options->command_count++] = value;
    return true;
}

static const struct option table[] = {
    {"html", "FILE", "where the page goes", OPTION_TEXT(html)},
    {"json", "FILE", "where the figures go", OPTION_TEXT(json)},
    {"pool", "FILE", "what weir-bench-pool --json wrote", OPTION_TEXT(pool)},
    {"from", "FILE", "the page once more, of a file of figures", OPTION_TEXT(from)},
    {"library", "NAME:VERSION:PATH", "torch or rmm: a library with the functions of peers/peer.h",
     OPTION_READ(read_library), .many = true},
    {"absent", "NAME:WHY", "torch or rmm: there is none", OPTION_READ(read_absent), .many = true},
    {"command", "TEXT", "again for each: what the page says made it", OPTION_READ(add_command), .many = true},
    {"profile", "NAME", "the emulated machine (default: each trace's)", OPTION_TEXT(plan.profile)},
    {"quick", NULL, "few device sizes, and scans that bisect only", OPTION_FLAG(plan.quick)},
    {"jobs", "N", "runs made at a time (default: one a CPU that is online)", OPTION_COUNT(plan.jobs, 1, MOST_JOBS)},
    {"help", NULL, NULL, OPTION_HELP},
};

static int add_trace(char **words, struct options *options, struct complaint complaint) {
    const char *word = words[0], *equals = strchr(word, '=');
    const size_t index = options->plan.trace_count;
    if (equals == NULL || equals == word || equals[1] == 0)
        return complain(complaint, "'%.200s' is not NAME=TRACE", word);
    if (index == MOST_TRACES) return complain(complaint, "more than %d traces", MOST_TRACES);
    if ((size_t)(equals - word) >= sizeof options->names[index])
        return complain(complaint, "'%.200s': the name is too long", word);
    if (access(equals + 1, R_OK) != 0) return complain(complaint, "'%.200s' can't be read: %s", word, strerror(errno));
    snprintf(options->names[index], sizeof options->names[index], "%.*s", (int)(equals - word), word);
    options->traces[index] = (struct report_trace){options->names[index], equals + 1};
    options->plan.trace_count++;
    return 1;
}

static bool check(struct options *options, struct complaint complaint) {
    const bool traces = options->plan.trace_count > 0;
    if (options->html == NULL) return complain(complaint, "--html=FILE says where the page goes");
    if (options->from != NULL)
        return !traces || complain(complaint, "--from makes a page of what was measured before: no traces");
    if (options->json == NULL || options->pool == NULL)
        return complain(complaint, "--json=FILE and --pool=FILE are needed");
    return traces || complain(complaint, "no NAME=TRACE is given");
}

static const struct option_table report_options = {
    .program = "weir-bench-report",
    .usage =
        "usage: weir-bench-report --json=FILE --html=FILE --pool=FILE [options] NAME=TRACE ...\n"
        "       weir-bench-report --from=FILE --html=FILE [--json=FILE]\n"
        "Allocators beside each other: the devices that traces need under each, what it costs to do with less, and\n"
        "what their calls cost the host.\n",
    .status = "Exit status: 0 measured; 1 failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .words = add_trace,
    .check = check,
};

static void set_defaults(struct options *options) {
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    options->plan.traces = options->traces;
    options->plan.jobs = cpus < 1 ? 1 : cpus > MOST_JOBS ? MOST_JOBS : (unsigned)cpus;
    for (size_t i = 0; i < REPORT_LIBRARIES; i++)
        options->plan.libraries[i] = (struct report_library){NULL, "it was not asked for"};
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

static json_t *read_json(const char *path) {
    json_error_t error;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL && error.line > 0) bad("%s, line %d: %s", path, error.line, error.text);
    if (json == NULL && error.line <= 0) bad("%s", error.text); /* it names the file */
    return json;
}

static json_t *machine(void) {
    char line[512], name[256] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && *name == 0 && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (colon != NULL) snprintf(name, sizeof name, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (file != NULL) fclose(file);
    return json_pack("{s:s, s:I}", "processor", name, "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
}

static json_t *allocators(void) {
    json_t *list = json_array();
    for (size_t i = 0; i < report_allocator_count; i++) {
        const struct report_allocator *allocator = &report_allocators[i];
        const bool library = allocator->peer == REPORT_TORCH || allocator->peer == REPORT_RMM;
        const struct report_library *from = library ? &settings.plan.libraries[allocator->peer - REPORT_TORCH] : NULL;
        json_t *version = from != NULL && from->path != NULL ? json_string(from->version) : json_null();
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:b, s:n, s:n}", "key", allocator->key, "name",
                                              allocator->name, "what", allocator->what, "version", version, "replayed",
                                              allocator->peer != REPORT_HOST, "missing", "cpu_missing"));
    }
    return list;
}

/* Without a library an allocator is neither replayed nor timed, for one reason. weir-bench-pool knows only that it was given none. */
static void say_why_not_timed(const json_t *list) {
    for (size_t i = 0; i < report_allocator_count; i++) {
        const enum report_peer peer = report_allocators[i].peer;
        json_t *entry = json_array_get(list, i);
        if ((peer != REPORT_TORCH && peer != REPORT_RMM) || settings.plan.libraries[peer - REPORT_TORCH].path != NULL)
            continue;
        if (*report_text(entry, "cpu_missing") != 0)
            json_object_set_new(entry, "cpu_missing",
                                json_string(settings.plan.libraries[peer - REPORT_TORCH].version));
    }
}

static json_t *commands(void) {
    json_t *list = json_array();
    for (size_t i = 0; i < settings.command_count; i++) json_array_append_new(list, json_string(settings.commands[i]));
    return list;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static json_t *measure(json_t *pool) {
    const double began = seconds();
    const time_t now = time(NULL);
    char day[32] = "";
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL) strftime(day, sizeof day, "%Y-%m-%d", &parts);
    json_t *report =
        json_pack("{s:s, s:b, s:s, s:b, s:o, s:o, s:o}", "report", REPORT_MARK, "emulated", 1, "made", day, "quick",
                  settings.plan.quick, "machine", machine(), "commands", commands(), "allocators", allocators());
    report_add_cpu(pool, report);
    say_why_not_timed(json_object_get(report, "allocators"));
    if (!report_run(&settings.plan, settings.json, report)) {
        json_decref(report);
        return NULL;
    }
    json_object_set_new(report, "replay_seconds", json_real(seconds() - began));
    return report;
}

static json_t *read_report(void) {
    json_t *report = read_json(settings.from);
    char why[320];
    if (report == NULL) return NULL;
    if (strcmp(report_text(report, "report"), REPORT_MARK) != 0)
        bad("%s is no report: \"report\" is not \"%s\"", settings.from, REPORT_MARK);
    else if (!report_check(report, why, sizeof why))
        bad("%s is no report: %s", settings.from, why);
    else
        return report;
    json_decref(report);
    return NULL;
}

static bool write_page(const json_t *report) {
    FILE *out = fopen(settings.html, "we");
    if (out != NULL) report_page(report, out);
    const bool written = out != NULL && !ferror(out);
    if (out != NULL && fclose(out) == 0 && written) return true;
    perror(settings.html);
    return false;
}

static bool write_figures(const json_t *report) {
    if (settings.json == NULL || json_dump_file(report, settings.json, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) == 0)
        return true;
    bad("%s can't be written", settings.json);
    return false;
}

/* ---- in words ---------------------------------------------------------------------------------------------------- */

static void put_ratio(double ratio, double beyond) {
    if (isfinite(ratio))
        printf(" %9.3f", ratio);
    else
        printf(" %9s", beyond > 0 ? "none" : "-");
}

static void print_summary(const json_t *report) {
    const json_t *sum;
    size_t index;
    printf("\nMedians over %zu traces, devices as multiples of the peak of live bytes; emulated, profile %s.\n"
           "%-24s %9s %9s %9s %9s %9s\n%-24s %9s %9s %9s %9s %9s\n",
           json_array_size(json_object_get(report, "traces")),
           report_text(json_object_get(report, "device"), "profile"), "", "smallest", "at most", "smallest",
           "held with", "CPU time", "", "device", "1 % slow", "of weir's", "plenty", "of weir's");
    json_array_foreach(json_object_get(report, "summary"), index, sum) {
        printf("%-24s", report_name(report_text(sum, "allocator")));
        put_ratio(report_number(sum, "min_median"), report_number(sum, "min_beyond"));
        put_ratio(report_number(sum, "honest_median"), report_number(sum, "honest_beyond"));
        put_ratio(report_number(sum, "min_of_weir"), 0);
        put_ratio(report_number(sum, "held_median"), 0);
        put_ratio(report_number(sum, "cpu_of_weir"), 0);
        printf("\n");
    }
    json_array_foreach(json_object_get(report, "allocators"), index, sum) {
        const char *missing = report_text(sum, "missing"), *cpu = report_text(sum, "cpu_missing");
        const bool same = strcmp(cpu, missing) == 0;
        if (*missing != 0) printf("%s was not %s: %s\n", report_text(sum, "name"), same ? "run" : "replayed", missing);
        if (*cpu != 0 && !same) printf("%s was not timed: %s\n", report_text(sum, "name"), cpu);
    }
}

int main(int count, char **argument) {
    weir__take_closed_standard();
    set_defaults(&settings);
    const int status = options_read(&report_options, &settings, count, argument);
    if (status != OPTIONS_GO_ON) return weir__end_standard("weir-bench-report", status);
    json_t *pool = settings.from == NULL ? read_json(settings.pool) : NULL;
    if (settings.from == NULL && pool == NULL) return EXIT_BAD_INPUT;
    json_t *report = settings.from != NULL ? read_report() : measure(pool);
    json_decref(pool);
    if (report == NULL) return settings.from != NULL ? EXIT_BAD_INPUT : EXIT_FAILURE;
    report_sum(report);
    const bool written = write_figures(report) && write_page(report);
    if (written) print_summary(report);
    json_decref(report);
    return weir__end_standard("weir-bench-report", written ? EXIT_SUCCESS : EXIT_FAILURE);
}
