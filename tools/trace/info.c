/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace info: what a trace holds. */
#include "info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "output.h"
#include "tools/options/option_table.h"
#include "tools/options/outputs.h"
#include "tools/options/plain.h"

enum { EXIT_BAD_INPUT = 2 };

struct options {
    const char *path;
    const char *json_path; /* "": standard output; NULL: no JSON */
};

static const struct option table[] = {
    {"json", "FILE", "as JSON, to standard output or to a file (then the words are printed too)",
     OPTION_OUTPUT(json_path)},
    {"help", NULL, NULL, OPTION_HELP},
};

static int take_trace(char **words, struct options *options, struct complaint complaint) {
    if (options->path != NULL) return complain(complaint, "one trace at a time; '%.200s' is a second one", words[0]);
    options->path = words[0];
    return 1;
}

static bool check(struct options *options, struct complaint complaint) {
    const char *path = options->path, *json = options->json_path;
    if (path == NULL) return complain(complaint, "no trace given (--help says how)");
    if (json == NULL || json[0] == 0) return true;
    if (outputs_are_one(json, "-")) return complain(complaint, "--json and the words both go to %.200s", json);
    return !output_is_input(json, path) ||
           complain(complaint, "--json=%.200s would overwrite the trace %.200s", json, path);
}

static const struct option_table info_options = {
    .program = "weir-trace info",
    .usage =
        "usage: weir-trace info TRACE [--json[=FILE]]\n"
        "Says where the memory goes: the peak and what is live at it, by age, stream and size; streams, lifetimes,\n"
        "and whether iterations repeat. TRACE is plain, gzip or zstd; - is standard input.\n",
    .status = "Exit status: 0 done, 1 failed, 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .words = take_trace,
    .check = check,
};

static int say(int status, const char *format, const char *what) {
    fprintf(stderr, "weir-trace info: ");
    char sentence[700];
    snprintf(sentence, sizeof sentence, format, what);
    fprintf(stderr, "%s\n", plain(sentence));
    return status;
}

static int put(const struct info *info, const char *path, const char *json) {
    const bool to_file = json != NULL && json[0] != 0;
    FILE *file = to_file ? fopen(json, "we") : NULL;
    if (to_file && file == NULL) {
        char why[600];
        snprintf(why, sizeof why, "%.500s: %s", json, strerror(errno));
        return say(EXIT_BAD_INPUT, "%s", why);
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
    struct options options = {0};
    char why[600];
    struct trace trace;
    struct info info;
    int status = options_read(&info_options, &options, count, argument);
    if (status != OPTIONS_GO_ON) return status;
    if (!trace_read(options.path, &trace, why, sizeof why)) return say(EXIT_BAD_INPUT, "%s", why);
    if (info_gather(&trace, &info)) {
        status = put(&info, options.path, options.json_path);
        info_free(&info);
    } else {
        status = say(EXIT_FAILURE, "no host memory to look at %s", options.path);
    }
    trace_free(&trace);
    return status;
}
