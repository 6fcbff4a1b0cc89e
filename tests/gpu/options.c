/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdarg.h>

static const char usage[] =
    "usage: conformance [options]\n"
    "\n"
    "Asks a CUDA driver, case by case, whether it does what the documentation says.\n"
    "\n"
    "  --driver=PATH     the driver, as dlopen takes it (else GPU_DRIVER, else libcuda.so.1)\n"
    "  --only=NAME       one case, or the cases of one subject\n"
    "  --limit=SECONDS   how long a case may take (30)\n"
    "  --no-skips        a skipped case counts as failed\n"
    "  --verbose         a line for each case, not only for those that fail or are skipped\n"
    "  --json[=FILE]     the results as JSON, to standard output or a file\n"
    "  --list            names and references, nothing is run\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 all that were run passed, 1 some failed or none was run, 2 bad input or no driver.\n";

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "conformance: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(2);
}

int case_count(const struct gpu_case *cases) {
    int count = 0;
    for (; cases != NULL; cases = cases->next) count++;
    return count;
}

/* How many characters must change to make b of a (Levenshtein). */
static unsigned distance(const char *a, const char *b) {
    enum { LONGEST = 127 };
    unsigned row[LONGEST + 1];
    const size_t columns = strlen(b) < LONGEST ? strlen(b) : LONGEST;
    for (size_t j = 0; j <= columns; j++) row[j] = (unsigned)j;
    for (size_t i = 1; i <= strlen(a); i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= columns; j++) {
            const unsigned above = row[j];
            unsigned least = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < least) least = above + 1;
            if (row[j - 1] + 1 < least) least = row[j - 1] + 1;
            row[j] = least;
            diagonal = above;
        }
    }
    return row[columns];
}

static const char *nearer(const char *asked, const char *candidate, const char *best) {
    return best == NULL || distance(asked, candidate) < distance(asked, best) ? candidate : best;
}

static bool check_only(const char *only, const struct gpu_case *cases) {
    const char *best = NULL;
    for (; cases != NULL; cases = cases->next) {
        if (strcmp(only, cases->name) == 0 || strcmp(only, cases->subject) == 0) return true;
        best = nearer(only, cases->subject, nearer(only, cases->name, best));
    }
    fprintf(stderr, "conformance: --only: there is no case or subject '%s'; the nearest is '%s'\n", only,
            best != NULL ? best : "");
    return false;
}

static bool read_limit(const char *text, unsigned *seconds) {
    enum { MOST = 3600 };
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > MOST) {
        fprintf(stderr, "conformance: --limit: '%s' is not a number of seconds from 1 to %d\n", text, MOST);
        return false;
    }
    *seconds = (unsigned)value;
    return true;
}

/* The value of --NAME=VALUE, or NULL. */
static const char *value_of(const char *argument, const char *name) {
    const size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

static bool unknown(const char *argument) {
    static const char *const known[] = {"--driver", "--only", "--limit", "--no-skips", "--verbose",
                                        "--json",   "--list", "--help",  "--version"};
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    const char *best = NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) best = nearer(name, known[i], best);
    fprintf(stderr, "conformance: unknown option '%s'; the nearest is %s\n", argument, best);
    return false;
}

static bool read_option(const char *argument, struct options *options) {
    const char *value;
    if ((value = value_of(argument, "--driver")) != NULL)
        options->driver = value;
    else if ((value = value_of(argument, "--only")) != NULL)
        options->only = value;
    else if ((value = value_of(argument, "--json")) != NULL)
        options->json = value;
    else if ((value = value_of(argument, "--limit")) != NULL)
        return read_limit(value, &options->limit_seconds);
    else if (strcmp(argument, "--json") == 0)
        options->json = "-";
    else if (strcmp(argument, "--no-skips") == 0)
        options->no_skips = true;
    else if (strcmp(argument, "--verbose") == 0)
        options->verbose = true;
    else if (strcmp(argument, "--list") == 0)
        options->list = true;
    else
        return unknown(argument);
    return true;
}

bool options_read(int argc, char **argv, const struct gpu_case *cases, struct options *options) {
    *options = (struct options){.driver = driver_path(), .limit_seconds = 30};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--version") == 0) {
            if (strcmp(argv[i], "--help") == 0)
                fputs(usage, stdout);
            else
                printf("conformance of weir, %d cases\n", case_count(cases));
            exit(0);
        }
        if (!read_option(argv[i], options)) return false;
    }
    if (options->driver[0] == '\0') {
        fprintf(stderr, "conformance: --driver names no file\n");
        return false;
    }
    return options->only == NULL || check_only(options->only, cases);
}
