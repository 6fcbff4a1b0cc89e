/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators beside each other in one run: the devices that traces need under each, what it costs to do with less, and
 * what their calls cost the host. Writes the figures and a page made from them.
 *
 * Usage: weir-bench-report --json=FILE --html=FILE --pool=FILE [options] NAME=TRACE ...
 *        weir-bench-report --from=FILE --html=FILE [--json=FILE]    the page once more, of a file of figures
 * FILE of --pool: what weir-bench-pool wrote. --library=torch:VERSION:PATH and rmm:VERSION:PATH: libraries with the
 * functions of peers/peer.h; --absent=torch:WHY: there is none. --command=TEXT, again for each: what the page says made it. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/report.h"

enum { EXIT_BAD_INPUT = 2, MOST_TRACES = 24, MOST_COMMANDS = 32 };

static struct settings {
    const char *json, *html, *pool, *from;
    const char *commands[MOST_COMMANDS];
    size_t command_count;
    struct report_trace traces[MOST_TRACES];
    char names[MOST_TRACES][64];
    char versions[REPORT_LIBRARIES][256];
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
static int read_library(const char *option, const char *value, bool has_path) {
    for (size_t i = 0; i < REPORT_LIBRARIES; i++) {
        const size_t length = strlen(report_libraries[i]);
        if (strncmp(value, report_libraries[i], length) != 0 || value[length] != ':') continue;
        const char *text = value + length + 1, *colon = has_path ? strchr(text, ':') : NULL;
        if (has_path && (colon == NULL || colon[1] == 0)) break;
        snprintf(settings.versions[i], sizeof settings.versions[i], "%.*s", has_path ? (int)(colon - text) : 255, text);
        settings.plan.libraries[i] = (struct report_library){has_path ? colon + 1 : NULL, settings.versions[i]};
        return 0;
    }
    return bad("%s%s: expected torch: or rmm: and %s", option, value, has_path ? "VERSION:PATH" : "a reason");
}

static int read_jobs(const char *value) {
    char *end;
    const long jobs = strtol(value, &end, 10);
    if (*value == 0 || *end != 0 || jobs < 1 || jobs > 64) return bad("--jobs=%s: expected 1 to 64", value);
    settings.plan.jobs = (unsigned)jobs;
    return 0;
}

static int add_command(const char *value) {
    if (settings.command_count == MOST_COMMANDS) return bad("--command: more than %d", MOST_COMMANDS);
    settings.commands[settings.command_count++] = value;
    return 0;
}

static int add_trace(const char *argument) {
    const char *equals = strchr(argument, '=');
    const size_t index = settings.plan.trace_count;
    if (argument[0] == '-') return bad("unknown option %s", argument);
    if (equals == NULL || equals == argument || equals[1] == 0) return bad("'%s' is not NAME=TRACE", argument);
    if (index == MOST_TRACES) return bad("more than %d traces", MOST_TRACES);
    if ((size_t)(equals - argument) >= sizeof settings.names[index]) return bad("'%s': the name is too long", argument);
    snprintf(settings.names[index], sizeof settings.names[index], "%.*s", (int)(equals - argument), argument);
    settings.traces[index] = (struct report_trace){settings.names[index], equals + 1};
    settings.plan.trace_count++;
    return 0;
}

static int read_argument(const char *argument) {
    const struct {
        const char *name, **into;
    } values[] = {{"--json=", &settings.json},
                  {"--html=", &settings.html},
                  {"--pool=", &settings.pool},
                  {"--from=", &settings.from},
                  {"--profile=", &settings.plan.profile}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const size_t length = strlen(values[i].name);
        if (strncmp(argument, values[i].name, length) != 0) continue;
        *values[i].into = argument + length;
        return argument[length] != 0 ? 0 : bad("%s needs a value", values[i].name);
    }
    if (strcmp(argument, "--quick") == 0) return settings.plan.quick = true, 0;
    if (strncmp(argument, "--jobs=", 7) == 0) return read_jobs(argument + 7);
    if (strncmp(argument, "--command=", 10) == 0) return add_command(argument + 10);
    if (strncmp(argument, "--library=", 10) == 0) return read_library("--library=", argument + 10, true);
    if (strncmp(argument, "--absent=", 9) == 0) return read_library("--absent=", argument + 9, false);
    return add_trace(argument);
}

static int read_arguments(int count, char **argument) {
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    settings.plan.traces = settings.traces;
    settings.plan.jobs = cpus < 1 ? 1 : cpus > 64 ? 64 : (unsigned)cpus;
    for (size_t i = 0; i < REPORT_LIBRARIES; i++)
        settings.plan.libraries[i] = (struct report_library){NULL, "it was not asked for"};
    for (int i = 1; i < count; i++) {
        const int status = read_argument(argument[i]);
        if (status != 0) return status;
    }
    if (settings.html == NULL) return bad("--html=FILE says where the page goes");
    if (settings.from != NULL)
        return settings.plan.trace_count == 0 ? 0 : bad("--from makes a page of what was measured before: no traces");
    if (settings.json == NULL || settings.pool == NULL) return bad("--json=FILE and --pool=FILE are needed");
    return settings.plan.trace_count > 0 ? 0 : bad("no NAME=TRACE is given");
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

static json_t *read_json(const char *path) {
    json_error_t error;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) bad("%s, line %d: %s", path, error.line, error.text);
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

static json_t *measure(void) {
    const double began = seconds();
    const time_t now = time(NULL);
    char day[32] = "";
    struct tm parts;
    json_t *pool = read_json(settings.pool);
    if (pool == NULL) return NULL;
    if (gmtime_r(&now, &parts) != NULL) strftime(day, sizeof day, "%Y-%m-%d", &parts);
    json_t *report =
        json_pack("{s:s, s:b, s:s, s:b, s:o, s:o, s:o}", "report", REPORT_MARK, "emulated", 1, "made", day, "quick",
                  settings.plan.quick, "machine", machine(), "commands", commands(), "allocators", allocators());
    report_add_cpu(pool, report);
    json_decref(pool);
    if (!report_run(&settings.plan, settings.json, report)) {
        json_decref(report);
        return NULL;
    }
    json_object_set_new(report, "replay_seconds", json_real(seconds() - began));
    return report;
}

static json_t *read_report(void) {
    json_t *report = read_json(settings.from);
    if (report == NULL || strcmp(report_text(report, "report"), REPORT_MARK) == 0) return report;
    bad("%s is no report: \"report\" is not \"%s\"", settings.from, REPORT_MARK);
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
        if (*missing != 0) printf("%s was not replayed: %s\n", report_text(sum, "name"), missing);
        if (*cpu != 0 && strcmp(cpu, missing) != 0) printf("%s was not timed: %s\n", report_text(sum, "name"), cpu);
    }
}

int main(int count, char **argument) {
    if (count == 2 && strcmp(argument[1], "--help") == 0) {
        printf("usage: weir-bench-report --json=FILE --html=FILE --pool=FILE [--quick] [--jobs=N] "
               "[--library=NAME:VERSION:PATH]\n"
               "                         [--absent=NAME:WHY] [--command=TEXT] NAME=TRACE ...\n"
               "       weir-bench-report --from=FILE --html=FILE [--json=FILE]\n");
        return 0;
    }
    const int status = read_arguments(count, argument);
    if (status != 0) return status;
    json_t *report = settings.from != NULL ? read_report() : measure();
    if (report == NULL) return settings.from != NULL ? EXIT_BAD_INPUT : EXIT_FAILURE;
    report_sum(report);
    const bool written = write_figures(report) && write_page(report);
    if (written) print_summary(report);
    json_decref(report);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
