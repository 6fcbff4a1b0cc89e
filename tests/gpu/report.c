/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

struct counts {
    int cases, passed, skipped, failed;
    unsigned milliseconds;
};

static void count(struct counts *counts, const struct result *result) {
    if (result->outcome == NOT_RUN) return;
    counts->cases++;
    counts->passed += result->outcome == PASSED;
    counts->skipped += result->outcome == SKIPPED;
    counts->failed += result->outcome == FAILED;
    counts->milliseconds += result->milliseconds;
}

/* Words are for people: they give way to JSON on standard output. */
static FILE *words(const struct options *options) {
    return options->json != NULL && strcmp(options->json, "-") == 0 ? stderr : stdout;
}

void report_begin(const struct machine *machine, const struct options *options) {
    const char *settings = getenv("WEIR_EMU");
    FILE *out = words(options);
    fprintf(out, "%s, %d device%s, driver %d.%d (%s)%s\n", machine->name, machine->devices,
            machine->devices == 1 ? "" : "s", machine->driver_version / 1000, machine->driver_version % 1000 / 10,
            machine->driver, machine->emulated ? ": emulated" : "");
    if (machine->emulated && settings != NULL) fprintf(out, "WEIR_EMU=%s\n", settings);
}

void report_case(const struct gpu_case *the_case, const struct result *result, const struct options *options) {
    static const char *const outcomes[] = {"not run", "passed", "skipped", "FAILED"};
    if (result->outcome == PASSED && !options->verbose) return;
    FILE *out = words(options);
    fprintf(out, "%-7s  %s: %s", outcomes[result->outcome], the_case->subject, the_case->name);
    if (options->verbose) fprintf(out, " (%u ms)", result->milliseconds);
    if (result->why[0] != '\0') fprintf(out, "\n         %s", result->why);
    if (result->outcome == FAILED) fprintf(out, "\n         see: %s", the_case->reference);
    fprintf(out, "\n");
    fflush(out);
}

static void print_row(FILE *out, const char *name, const struct counts *counts) {
    fprintf(out, "%-20s %6d %7d %8d %7d %9.2f\n", name, counts->cases, counts->passed, counts->skipped, counts->failed,
            counts->milliseconds / 1000.0);
}

static void print_table(const struct gpu_case *cases, const struct result *results, const struct counts *all,
                        FILE *out) {
    fprintf(out, "\n%-20s %6s %7s %8s %7s %9s\n", "subject", "cases", "passed", "skipped", "failed", "seconds");
    struct counts subject = {0};
    for (; cases != NULL; cases = cases->next, results++) {
        count(&subject, results);
        if (cases->next != NULL && strcmp(cases->next->subject, cases->subject) == 0) continue;
        if (subject.cases > 0) print_row(out, cases->subject, &subject);
        subject = (struct counts){0};
    }
    print_row(out, "all", all);
}

static void print_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void print_json_case(FILE *out, const struct gpu_case *the_case, const struct result *result, bool first) {
    static const char *const outcomes[] = {"not run", "passed", "skipped", "failed"};
    fprintf(out, "%s\n    {\"subject\": ", first ? "" : ",");
    print_text(out, the_case->subject);
    fprintf(out, ", \"name\": ");
    print_text(out, the_case->name);
    fprintf(out, ", \"reference\": ");
    print_text(out, the_case->reference);
    fprintf(out, ", \"outcome\": \"%s\", \"ms\": %u, \"why\": ", outcomes[result->outcome], result->milliseconds);
    print_text(out, result->why);
    fprintf(out, "}");
}

static bool print_json(const struct gpu_case *cases, const struct result *results, const struct machine *machine,
                       const struct counts *all, const struct options *options) {
    const bool to_file = strcmp(options->json, "-") != 0;
    FILE *out = to_file ? fopen(options->json, "w") : stdout;
    if (out == NULL) {
        fprintf(stderr, "conformance: --json: can't write %s\n", options->json);
        return false;
    }
    fprintf(out, "{\n  \"device\": ");
    print_text(out, machine->name);
    fprintf(out, ", \"devices\": %d, \"driver_version\": %d, \"emulated\": %s,\n", machine->devices,
            machine->driver_version, machine->emulated ? "true" : "false");
    fprintf(out, "  \"conformance_cases\": %d, \"passed\": %d, \"skipped\": %d, \"failed\": %d,\n  \"cases\": [",
            all->cases, all->passed, all->skipped, all->failed);
    bool first = true;
    for (; cases != NULL; cases = cases->next, results++) {
        if (results->outcome == NOT_RUN) continue;
        print_json_case(out, cases, results, first);
        first = false;
    }
    fprintf(out, "\n  ]\n}\n");
    return !to_file || fclose(out) == 0;
}

int report_end(const struct gpu_case *cases, const struct result *results, const struct machine *machine,
               const struct options *options, unsigned milliseconds) {
    struct counts all = {0};
    const struct result *result = results;
    for (const struct gpu_case *at = cases; at != NULL; at = at->next, result++) count(&all, result);
    all.milliseconds = milliseconds;
    print_table(cases, results, &all, words(options));
    if (options->json != NULL && !print_json(cases, results, machine, &all, options)) return 2;
    if (all.passed + all.failed == 0) fprintf(stderr, "conformance: no case was run\n");
    if (options->no_skips && all.skipped > 0)
        fprintf(stderr, "conformance: cases were skipped, and --no-skips was given\n");
    return all.failed > 0 || all.passed == 0 || (options->no_skips && all.skipped > 0);
}

void report_list(const struct gpu_case *cases, const struct options *options) {
    for (; cases != NULL; cases = cases->next) {
        if (options->only != NULL && strcmp(options->only, cases->name) != 0 &&
            strcmp(options->only, cases->subject) != 0)
            continue;
        printf("%s: %s\n    %s\n", cases->subject, cases->name, cases->reference);
    }
}
