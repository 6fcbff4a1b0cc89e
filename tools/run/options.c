/* SPDX-License-Identifier: Apache-2.0 */
/* One table of options makes the parser and the help. */
#include "options.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/error.h"

/* Where a sentence about what is wrong goes. */
struct complaint {
    char *text;
    size_t room;
};

static bool complain(struct complaint complaint, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool complain(struct complaint complaint, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(complaint.text, complaint.room, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static bool is_one_of(const char *value, const char *const *known) {
    for (; *known != NULL; known++)
        if (strcmp(value, *known) == 0) return true;
    return false;
}

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

static bool read_policy(const char *value, struct options *options, struct complaint complaint) {
    options->policy = value;
    return is_one_of(value, (const char *const[]){"latency", "footprint", "per-stream", NULL}) ||
           complain(complaint, "--policy %.60s is not one of latency, footprint, per-stream", value);
}

static bool read_plain(const char *value, struct options *options, struct complaint complaint) {
    options->plain = value;
    return is_one_of(value, (const char *const[]){"pool", "driver", NULL}) ||
           complain(complaint, "--plain %.60s is not one of pool, driver", value);
}

static bool read_host(const char *value, struct options *options, struct complaint complaint) {
    options->host = value;
    return is_one_of(value, (const char *const[]){"pool", "driver", NULL}) ||
           complain(complaint, "--host %.60s is not one of pool, driver", value);
}

static bool read_device(const char *value, struct options *options, struct complaint complaint) {
    options->device = value;
    return is_one_of(value, (const char *const[]){"cuda", "emulated", NULL}) ||
           complain(complaint, "--device %.60s is not one of cuda, emulated", value);
}

static bool read_log(const char *value, struct options *options, struct complaint complaint) {
    char level[16];
    options->log = value;
    snprintf(level, sizeof level, "%.*s", (int)strcspn(value, ":"), value);
    return is_one_of(level, (const char *const[]){"off", "error", "warn", "info", "debug", NULL}) ||
           complain(complaint, "--log %.60s is not off, error, warn, info or debug, then :FILE or nothing", value);
}

/* Taken as it is. */
#define TEXT(name, member)                                                                                             \
    static bool read_##name(const char *value, struct options *options, struct complaint complaint) {                  \
        (void)complaint;                                                                                               \
        options->member = value;                                                                                       \
        return true;                                                                                                   \
    }
TEXT(pool, pool)
TEXT(trace, trace)
TEXT(timeline, timeline)

static bool read_json(const char *value, struct options *options, struct complaint complaint) {
    (void)complaint;
    options->json_path = value != NULL ? value : "";
    return true;
}

/* An option that is there or not. */
#define FLAG(name)                                                                                                     \
    static bool read_##name(const char *value, struct options *options, struct complaint complaint) {                  \
        (void)value;                                                                                                   \
        (void)complaint;                                                                                               \
        return options->name = true;                                                                                   \
    }
FLAG(quiet)
FLAG(help)
FLAG(version)

/* ---- the table -------------------------------------------------------------------------------------------------- */

enum value { NONE, NEEDED, MAYBE };
typedef bool read_function(const char *value, struct options *options, struct complaint complaint);

static const struct option {
    const char *name;
    enum value value;
    const char *shown, *help;
    read_function *read;
} table[] = {
    {"limit", NEEDED, "SIZE", "most that weir takes of a device: bytes (64M, 1.5GiB) or a fraction (0.9, 90%)",
     read_limit},
    {"policy", NEEDED, "NAME", "latency (default), footprint or per-stream (docs/options.md)", read_policy},
    {"pool", NEEDED, "KEY:VALUE,...", "any options of the pool, as in WEIR_OPTIONS", read_pool},
    {"plain", NEEDED, "WHOSE",
     "what cudaMalloc and its like are served from: pool (default), or driver, for programs\n"
     "that share such memory with other processes (cudaIpcGetMemHandle)",
     read_plain},
    {"host", NEEDED, "WHOSE",
     "what cudaMallocHost and its like are served from: driver (default), or pool, which keeps\n"
     "memory pinned for the next request",
     read_host},
    {"trace", NEEDED, "FILE",
     "record all requests (docs/trace.md); %p in the name: the process, %d: the device, without\n"
     "which the last of several remains",
     read_trace},
    {"timeline", NEEDED, "FILE.html",
     "a page that shows memory over time, made by weir-replay when the program has ended; of more\n"
     "processes and devices more (FILE-2.html). Without --trace the trace is a temporary file",
     read_timeline},
    {"log", NEEDED, "LEVEL[:FILE]", "what weir logs: off, error, warn (default), info, debug", read_log},
    {"device", NEEDED, "KIND", "cuda (default): the driver that the program finds; emulated: weir's emulated one",
     read_device},
    {"json", MAYBE, "FILE", "what weir did as JSON; without FILE on standard output, after the program's own",
     read_json},
    {"quiet", NONE, "", "no summary", read_quiet},
    {"help", NONE, "", "", read_help},
    {"version", NONE, "", "", read_version},
};
enum { OPTIONS = sizeof table / sizeof *table, HELP_COLUMN = 23 };

static void put_option(const struct option *option, FILE *out) {
    char left[64];
    const char *before = option->value == MAYBE ? "[=" : option->value == NEEDED ? " " : "";
    const int length = snprintf(left, sizeof left, "  --%s%s%s%s", option->name, before, option->shown,
                                option->value == MAYBE ? "]" : "");
    fputs(left, out);
    if (length >= HELP_COLUMN && option->help[0] != 0) fprintf(out, "\n%*s", HELP_COLUMN, "");
    if (length < HELP_COLUMN && option->help[0] != 0) fprintf(out, "%*s", HELP_COLUMN - length, "");
    for (const char *at = option->help; *at != 0; at++)
        *at == '\n' ? (void)fprintf(out, "\n%*s", HELP_COLUMN, "") : (void)fputc(*at, out);
    fputc('\n', out);
}

void options_help(FILE *out) {
    fputs("usage: weir-run [options] [--] PROGRAM [ARGUMENTS]\n"
          "Runs a CUDA program, unchanged, on weir's pool in place of the driver's allocators, and says on standard\n"
          "error what that did, for each process that the program starts (docs/preload.md).\n\n",
          out);
    for (size_t i = 0; i < OPTIONS; i++) put_option(&table[i], out);
    fputs("\nExit status: the program's, 128 + n when signal n ended it; 127 or 126 when it could not be started;\n"
          "1 weir-run failed; 2 bad input.\n",
          out);
}

/* ---- the command line ------------------------------------------------------------------------------------------- */

static bool unknown(const char *name, struct complaint complaint) {
    const char *names[OPTIONS];
    for (size_t i = 0; i < OPTIONS; i++) names[i] = table[i].name;
    const char *nearest = weir__nearest(name, names, OPTIONS);
    if (nearest == NULL) return complain(complaint, "unknown option --%.60s (--help lists them)", name);
    return complain(complaint, "unknown option --%.60s; did you mean --%s?", name, nearest);
}

/* Reads one option; *at moves past a value of its own. `given` has a bit for each that was there. */
static bool read_option(char **argument, int *at, struct options *options, uint32_t *given,
                        struct complaint complaint) {
    char name[64];
    const char *text = argument[*at] + 2, *equals = strchr(text, '='), *value = equals != NULL ? equals + 1 : NULL;
    if (strncmp(argument[*at], "--", 2) != 0)
        return complain(complaint, "unknown option %.60s (--help lists them)", argument[*at]);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    size_t id = 0;
    while (id < OPTIONS && strcmp(table[id].name, name) != 0) id++;
    if (id == OPTIONS) return unknown(name, complaint);
    const struct option *option = &table[id];
    if (option->value == NONE && value != NULL) return complain(complaint, "--%s takes no value", option->name);
    if (option->value == NEEDED && value == NULL && (value = argument[*at + 1]) != NULL) ++*at;
    if ((option->value == NEEDED && value == NULL) || (value != NULL && *value == 0))
        return complain(complaint, "--%s needs a value: %s", option->name, option->shown);
    if (*given & UINT32_C(1) << id) return complain(complaint, "--%s is given twice", option->name);
    *given |= UINT32_C(1) << id;
    return option->read(value, options, complaint);
}

/* The program begins at the first argument that is no option, or behind "--". */
bool options_read(struct options *options, int count, char **argument, char *why, size_t room) {
    const struct complaint complaint = {why, room};
    uint32_t given = 0;
    int at = 1;
    *options = (struct options){0};
    for (; at < count && argument[at][0] == '-' && strcmp(argument[at], "--") != 0; at++) {
        if (!read_option(argument, &at, options, &given, complaint)) return false;
        if (options->help || options->version) return true;
    }
    if (at < count && strcmp(argument[at], "--") == 0) at++;
    options->program = &argument[at];
    if (at < count) return true;
    return complain(complaint, "no program given (--help says how)");
}
