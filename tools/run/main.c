/* SPDX-License-Identifier: Apache-2.0 */
/* weir-run: runs an unchanged program with libweir-preload.so loaded before its own libraries. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "device/standard.h"
#include "library.h"
#include "options.h"
#include "pages.h"
#include "summary.h"
#include "weir/weir.h"

enum { EXIT_BAD_INPUT = 2 };

static int say(const char *sentence, int status) {
    fprintf(stderr, "weir-run: %s\n", sentence);
    return status;
}

/* ---- the program's environment ------------------------------------------------------------------------------------ */

/* NAME=first SEPARATOR what was there. */
static bool put_before(const char *name, const char *first, char separator) {
    const char *there = getenv(name);
    char *both = NULL;
    if (there == NULL || *there == 0) return setenv(name, first, 1) == 0;
    if (asprintf(&both, "%s%c%s", first, separator, there) < 0) return false;
    const bool good = setenv(name, both, 1) == 0;
    free(both);
    return good;
}

/* Of two values of a key the later one counts: the environment's, then --pool's, then those with options of their own. */
static bool set_pool_options(const struct options *options) {
    const char *there = getenv("WEIR_OPTIONS");
    char *text = NULL;
    if (asprintf(&text, "%s%s%s%s%s%s%s", there != NULL ? there : "", options->pool != NULL ? "," : "",
                 options->pool != NULL ? options->pool : "", options->policy != NULL ? ",policy:" : "",
                 options->policy != NULL ? options->policy : "", options->limit != NULL ? ",limit:" : "",
                 options->limit != NULL ? options->limit : "") < 0)
        return false;
    const bool good = setenv("WEIR_OPTIONS", text[0] == ',' ? text + 1 : text, 1) == 0;
    free(text);
    return good;
}

/* The same: of words that contradict each other the later one counts. */
static bool set_preload(const struct options *options) {
    const char *there = getenv("WEIR_PRELOAD");
    char *text = NULL;
    if (asprintf(&text, "%s%s%s%s%s", there != NULL ? there : "", options->plain != NULL ? ",plain:" : "",
                 options->plain != NULL ? options->plain : "", options->host != NULL ? ",host:" : "",
                 options->host != NULL ? options->host : "") < 0)
        return false;
    const bool good = setenv("WEIR_PRELOAD", text[0] == ',' ? text + 1 : text, 1) == 0;
    free(text);
    return good;
}

static bool set_environment(const struct options *options, const struct library *library, const char *summary,
                            const char *trace) {
    bool good = put_before("LD_PRELOAD", library->path, ':') && setenv("WEIR_RUN_SUMMARY", summary, 1) == 0;
    if (options->pool != NULL || options->policy != NULL || options->limit != NULL)
        good = good && set_pool_options(options);
    if (options->plain != NULL || options->host != NULL) good = good && set_preload(options);
    if (trace != NULL) good = good && setenv("WEIR_TRACE", trace, 1) == 0;
    good = good && setenv("WEIR_LOG", options->log != NULL ? options->log : "warn", options->log != NULL) == 0;
    if (options->device != NULL) good = good && setenv("WEIR_DEVICE", options->device, 1) == 0;
    if (options->device != NULL && strcmp(options->device, "emulated") == 0)
        good = good && put_before("LD_LIBRARY_PATH", library->driver, ':');
    return good;
}

/* ---- the run ------------------------------------------------------------------------------------------------------ */

static void tell(const struct options *options, const char *summary, int status, FILE *json) {
    char *lines = summary_read(summary);
    if (lines == NULL) {
        say("no host memory for the summary", 0);
        return;
    }
    if (!options->quiet) summary_words(lines, stderr);
    if (json != NULL) summary_json(lines, options->program[0], status, json);
    free(lines);
}

/* What can be known to be wrong before the program starts. */
static bool good_pool_options(char *why, size_t room) {
    if (weir_pool_options_check(getenv("WEIR_OPTIONS")) == WEIR_OK) return true;
    snprintf(why, room, "%s", weir_last_error()->message);
    return false;
}

static bool good_trace(const char *trace, char *why, size_t room) {
    char *folder = trace != NULL ? strdup(trace) : NULL;
    if (folder == NULL) return true;
    const char *in = dirname(folder);
    const bool good = strchr(in, '%') != NULL || access(in, W_OK | X_OK) == 0;
    if (!good) snprintf(why, room, "--trace %.200s: its folder %.200s: %s", trace, in, strerror(errno));
    free(folder);
    return good;
}

/* A shallow copy: what setenv replaces stays where it is. NULL: no host memory. */
static char **copy_environment(void) {
    size_t count = 0;
    while (environ[count] != NULL) count++;
    char **copy = malloc((count + 1) * sizeof *copy);
    if (copy != NULL) memcpy(copy, environ, (count + 1) * sizeof *copy);
    return copy;
}

/* Makes the run's file of summaries; *made: when, by the file system's clock. */
static bool make_summary(const char *path, struct timespec *made) {
    struct stat info;
    const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_EXCL, 0600);
    const bool good = file >= 0 && fstat(file, &info) == 0;
    if (good) *made = info.st_mtim;
    if (file >= 0) close(file);
    return good;
}

/* Gives: the program's status. */
static int run(const struct options *options, const struct library *library, const char *path, FILE *json) {
    char summary[300], own_traces[600], why[4400] = "";
    const bool own = options->timeline != NULL && options->trace == NULL;
    struct pages pages = {.path = options->timeline, .traces = own ? own_traces : options->trace};
    snprintf(summary, sizeof summary, "%s/summary", library->folder);
    if (!make_summary(summary, &pages.since)) return say(strerror(errno), EXIT_FAILURE);
    if (own && !pages_traces_in(library->folder, own_traces, sizeof own_traces))
        return say("the name of the run's folder is too long", EXIT_FAILURE);
    pages.quiet = options->quiet;
    pages.environment = copy_environment();
    if (pages.environment == NULL || !set_environment(options, library, summary, pages.traces))
        return say("no host memory for the environment", EXIT_FAILURE);
    int status = EXIT_BAD_INPUT;
    if (good_pool_options(why, sizeof why) && good_trace(options->trace, why, sizeof why))
        status = child_run(path, options->program, why, sizeof why);
    if (why[0] == 0) tell(options, summary, status, json);
    if (why[0] == 0 && options->timeline != NULL && !pages_make(&pages)) status = EXIT_FAILURE;
    if (own) pages_remove_traces(own_traces);
    free(pages.environment);
    return why[0] != 0 ? say(why, status) : status;
}

static int run_program(const struct options *options, FILE *json) {
    static struct library library;
    char path[4096], why[4600];
    int status = EXIT_FAILURE;
    if (!program_find(options->program[0], path, sizeof path, &status, why, sizeof why)) return say(why, status);
    const char *refuses = program_refuses(path);
    if (refuses != NULL) {
        snprintf(why, sizeof why, "%s %s: weir sees none of its calls", path, refuses);
        say(why, 0);
    }
    const bool open = library_open(&library, why, sizeof why);
    if (!open)
        say(why, 0);
    else if (options->device != NULL && strcmp(options->device, "emulated") == 0 && library.driver[0] == 0)
        say("--device emulated: the emulated driver is not installed beside the library", 0);
    else
        status = run(options, &library, path, json);
    if (library.folder[0] != 0) library_close(&library);
    return status;
}

int main(int count, char **argument) {
    struct options options = {0};
    char why[400];
    FILE *json = NULL;
    weir__take_closed_standard();
    const int answered = options_read(&run_options, &options, count, argument);
    if (answered != OPTIONS_GO_ON) return weir__end_standard("weir-run", answered);
    if (options.json_path != NULL) json = options.json_path[0] == 0 ? stdout : fopen(options.json_path, "we");
    if (options.json_path != NULL && json == NULL) {
        snprintf(why, sizeof why, "--json %.200s: %s", options.json_path, strerror(errno));
        return say(why, EXIT_BAD_INPUT);
    }
    if (options.timeline != NULL && !pages_possible(options.timeline, options.trace, why, sizeof why))
        return say(why, EXIT_BAD_INPUT);
    const int status = run_program(&options, json);
    if (json == NULL || (fflush(json) == 0 && ferror(json) == 0)) return status;
    return say("the JSON could not be written", EXIT_FAILURE);
}
