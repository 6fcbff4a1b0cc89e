/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <string.h>

#include "device/error.h"
#include "tools/options/option_table.h"

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* A fraction of the device, as 0.9 or 90%. By hand, since strtod follows the locale. */
static bool is_fraction(const char *value) {
    const size_t whole = strspn(value, "0123456789"), dot = value[whole] == '.',
                 rest = dot ? strspn(value + whole + 1, "0123456789") : 0;
    const char *end = value + whole + dot + rest;
    return whole + rest > 0 && (strcmp(end, "%") == 0 || (dot && *end == 0));
}

enum { LEAST_LIMIT = 4096 };

static bool read_limit(const char *value, struct options *options, struct complaint complaint) {
    size_t bytes;
    options->limit = value;
    if (is_fraction(value)) return true; /* from 0 to 1: the pool's own reader says so (main.c) */
    if (!weir__parse_bytes(value, &bytes))
        return complain(complaint,
                        "--limit %.60s is neither bytes (64M, 1.5GiB) nor a fraction of the device (0.9, 90%%)", value);
    return bytes >= LEAST_LIMIT ||
           complain(complaint,
                    "--limit %.60s is a number of bytes, below %d: no device has pages so small (a "
                    "fraction has a point or a percent sign: 0.9, 90%%)",
                    value, LEAST_LIMIT);
}

static bool read_log(const char *value, struct options *options, struct complaint complaint) {
    static const char *const levels[] = {"off", "error", "warn", "info", "debug"};
    const size_t length = strcspn(value, ":");
    options->log = value;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strlen(levels[i]) == length && strncmp(value, levels[i], length) == 0) return true;
    return complain(complaint, "--log %.60s is not off, error, warn, info or debug, then :FILE or nothing", value);
}

static const char *const policies[] = {"latency", "footprint", "per-stream", NULL};
static const char *const whose[] = {"pool", "driver", NULL};
static const char *const devices[] = {"cuda", "emulated", NULL};

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const struct option table[] = {
    {"limit", "SIZE", "most that weir takes of a device: bytes (64M, 1.5GiB) or a fraction (0.9, 90%)",
     OPTION_READ(read_limit)},
    {"policy", "NAME", "latency (default), footprint or per-stream (docs/options.md)", OPTION_CHOICE(policy, policies)},
    {"pool", "KEY:VALUE,...", "any options of the pool, as in WEIR_OPTIONS", OPTION_TEXT(pool)},
    {"plain", "WHOSE",
     "what cudaMalloc and its like are served from: pool (default), or driver, for programs\n"
     "that share such memory with other processes (cudaIpcGetMemHandle)",
     OPTION_CHOICE(plain, whose)},
    {"host", "WHOSE",
     "what cudaMallocHost and its like are served from: driver (default), or pool, which keeps\n"
     "memory pinned for the next request",
     OPTION_CHOICE(host, whose)},
    {"trace", "FILE",
     "record all requests (docs/trace.md); %p in the name: the process, %d: the device, without\n"
     "which the last of several remains",
     OPTION_TEXT(trace)},
    {"timeline", "FILE.html",
     "a page that shows memory over time, made by weir-replay when the program has ended; of more\n"
     "processes and devices more (FILE-2.html). Without --trace the trace is a temporary file",
     OPTION_TEXT(timeline)},
    {"log", "LEVEL[:FILE]", "what weir logs: off, error, warn (default), info, debug", OPTION_READ(read_log)},
    {"device", "KIND", "cuda (default): the driver that the program finds; emulated: weir's emulated one",
     OPTION_CHOICE(device, devices)},
    {"json", "FILE", "what weir did as JSON; without FILE on standard output, after the program's own",
     OPTION_OUTPUT(json_path)},
    {"quiet", NULL, "no summary", OPTION_FLAG(quiet)},
    {"help", NULL, NULL, OPTION_HELP},
    {"version", NULL, NULL, OPTION_VERSION},
};

/* The program begins at the first argument that is no option, and has all that follows. */
static int take_program(char **words, struct options *options, struct complaint complaint) {
    int count = 0;
    (void)complaint;
    options->program = words;
    while (words[count] != NULL) count++;
    return count;
}

static bool check(struct options *options, struct complaint complaint) {
    return options->program != NULL || complain(complaint, "no program given (--help says how)");
}

const struct option_table run_options = {
    .program = "weir-run",
    .usage =
        "usage: weir-run [options] [--] PROGRAM [ARGUMENTS]\n"
        "Runs a CUDA program, unchanged, on weir's pool in place of the driver's allocators, and says on standard\n"
        "error what that did, for each process that the program starts (docs/preload.md).\n",
    .status = "Exit status: the program's, 128 + n when signal n ended it; 127 or 126 when it could not be started;\n"
              "1 weir-run failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .words = take_program,
    .check = check,
};
