/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace info: what a trace holds. */
#include "info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "device/error.h"
#include "output.h"

enum { EXIT_BAD_INPUT = 2 };

static const char usage[] =
    "usage: weir-trace info TRACE [--json[=FILE]]\n"
    "Says where the memory goes: the peak and what is live at it, by age, stream and size; streams, lifetimes, and\n"
    "whether iterations repeat. TRACE is plain, gzip or zstd; - is standard input.\n"
    "\n"
    "  --json[=FILE]   as JSON, to standard output or to a file (then the words are printed too)\n"
    "  --help\n"
    "\n"
    "Exit status: 0 done, 1 failed, 2 bad input.\n";

static int say(int status, const char *format, const char *what) {
    fprintf(stderr, "weir-trace info: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\n");
    return status;
}

static int unknown(const char *argument) {
    static const char *const names[] = {"--json", "--help"};
    const char *nearest = weir__nearest(argument, names, 2);
    if (nearest == NULL) return say(EXIT_BAD_INPUT, "unknown option %.60s (--help lists them)", argument);
    fprintf(stderr, "weir-trace info: unknown option %.60s; did you mean %s?\n", argument, nearest);
    return EXIT_BAD_INPUT;
}

/* Gives -1 to go on, else the exit status. json: "" is standard output. */
static int read_options(int count, char **argument, const char **path, const char **json) {
    for (int i = 1; i < count; i++) {
        const char *text = argument[i];
        if (strcmp(text, "--help") == 0) {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (strcmp(text, "--json") == 0)
            *json = "";
        else if (strncmp(text, "--json=", 7) == 0 && text[7] != 0)
            *json = text + 7;
        else if (text[0] == '-' && text[1] != 0)
            return unknown(text);
        else if (*path != NULL)
            return say(EXIT_BAD_INPUT, "one trace at a time; '%.200s' is a second one", text);
        else
            *path = text;
    }
    return *path != NULL ? -1 : say(EXIT_BAD_INPUT, "%s", "no trace given (--help says how)");
}

static int put(const struct info *info, const char *path, const char *json) {
    const bool to_file = json != NULL && json[0] != 0;
    FILE *file = to_file ? fopen(json, "we") : NULL;
    if (to_file && file == NULL) {
        fprintf(stderr, "weir-trace info: %s: %s\n", json, strerror(errno));
        return EXIT_BAD_INPUT;
    }
    if (json == NULL || to_file) info_put_words(stdout, path, info);
    if (json != NULL) info_put_json(to_file ? file : stdout, path, info);
    bool written = file == NULL || !ferror(file);
    if (file != NULL) written = fclose(file) == 0 && written;
    if (!written) return say(EXIT_FAILURE, "%s could not be written", json);
    if (fflush(stdout) != 0 || ferror(stdout)) return say(EXIT_FAILURE, "%s could not be written", "standard output");
    return EXIT_SUCCESS;
}

int weir_trace_info(int count, char **argument) {
    const char *path = NULL, *json = NULL;
    char why[600];
    struct trace trace;
    struct info info;
    int status = read_options(count, argument, &path, &json);
    if (status >= 0) return status;
    if (json != NULL && json[0] != 0 && output_is_input(json, path)) {
        fprintf(stderr, "weir-trace info: --json=%s would overwrite the trace %s\n", json, path);
        return EXIT_BAD_INPUT;
    }
    if (!trace_read(path, &trace, why, sizeof why)) return say(EXIT_BAD_INPUT, "%s", why);
    if (info_gather(&trace, &info)) {
        status = put(&info, path, json);
        info_free(&info);
    } else {
        status = say(EXIT_FAILURE, "no host memory to look at %s", path);
    }
    trace_free(&trace);
    return status;
}
