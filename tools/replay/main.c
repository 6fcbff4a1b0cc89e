/* SPDX-License-Identifier: Apache-2.0 */
/* weir-replay: would weir have saved this run? Replays a recorded trace through a pool on the emulated device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/error.h"
#include "replay.h"

#define MOST_TIMES 4 /* the scan gives up at this multiple of the trace's peak */

enum { EXIT_BAD_INPUT = 2 };

struct options {
    const char *trace_path, *profile, *json_path; /* json_path "": standard output; NULL: no JSON */
    enum weir_policy policy;
    const char *policy_name;
    double capacity_ratio;
    size_t capacity_bytes; /* 0: by ratio */
    bool capacity_given, scan;
};

struct answer {
    const struct options *options;
    struct trace trace;
    struct outcome outcome;
    size_t capacity_bytes, min_capacity_bytes;
};

static const char usage[] =
    "usage: weir-replay TRACE [options]\n"
    "Replays a trace (weir-trace 1, recorded with WEIR_TRACE=FILE) through a pool on the emulated device,\n"
    "without a clock: work takes no time, so what was queued is done at the next operation, and the same\n"
    "trace gets the same answer. A host that runs ahead of its device can need more.\n"
    "\n"
    "  --policy NAME       latency (default), footprint or per-stream\n"
    "  --capacity SIZE     of the device: bytes (64M), or a multiple of the trace's peak live bytes (default 1.02x);\n"
    "                      with --scan the default is what the scan finds\n"
    "  --scan              find the smallest sufficient device, to 0.2 % or one page, up to 4x\n"
    "  --profile NAME      the emulated machine (else WEIR_EMU's, else demo): its pages and, scaled to the trace, its "
    "memory\n"
    "  --json[=FILE]       the answer as JSON\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 answered, also when the answer is out of memory; 1 failed; 2 bad input.\n";

/* ---- options ---------------------------------------------------------------------------------------------------- */

static const char *const names[] = {"--policy", "--capacity", "--scan", "--profile", "--json", "--help", "--version"};
enum { POLICY, CAPACITY, SCAN, PROFILE, JSON, HELP, VERSION, NAME_COUNT };

static int bad(const char *format, const char *what) {
    fprintf(stderr, "weir-replay: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\n");
    return EXIT_BAD_INPUT;
}

static int read_policy(const char *value, struct options *options) {
    static const char *const policies[] = {"latency", "footprint", "per-stream"};
    static const enum weir_policy values[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
    for (int i = 0; i < 3; i++)
        if (strcmp(value, policies[i]) == 0) {
            options->policy = values[i];
            options->policy_name = policies[i];
            return 0;
        }
    return bad("--policy %s is not one of latency, footprint, per-stream", value);
}

/* "1.02x" by hand: strtod follows the locale. */
static bool read_ratio(const char *value, double *ratio) {
    double number = 0, place = 1;
    const char *at = value;
    for (; *at >= '0' && *at <= '9'; at++) number = number * 10 + (*at - '0');
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++) number += (*at - '0') * (place /= 10);
    *ratio = number;
    return at != value && strcmp(at, "x") == 0 && number > 0 && number <= 1000;
}

static int read_capacity(const char *value, struct options *options) {
    options->capacity_given = true;
    if (read_ratio(value, &options->capacity_ratio)) return 0;
    if (weir__parse_bytes(value, &options->capacity_bytes) && options->capacity_bytes > 0) return 0;
    return bad("--capacity %s is neither bytes (64M) nor a multiple of the peak (1.02x, at most 1000x)", value);
}

/* A profile's name becomes a part of the emulated machine's settings. */
static int read_profile(const char *value, struct options *options) {
    options->profile = value;
    return *value == 0 || strpbrk(value, ",:") != NULL ? bad("--profile '%s' is no profile's name", value) : 0;
}

static int find_name(const char *argument, size_t length) {
    for (int i = 0; i < NAME_COUNT; i++)
        if (strlen(names[i]) == length && strncmp(argument, names[i], length) == 0) return i;
    return NAME_COUNT;
}

static int unknown(const char *argument) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    const char *nearest = weir__nearest(name, names, NAME_COUNT);
    if (nearest == NULL) return bad("unknown option %s (--help lists them)", argument);
    fprintf(stderr, "weir-replay: unknown option %s; did you mean %s?\n", name, nearest);
    return EXIT_BAD_INPUT;
}

/* Reads one option; *at moves past a value of its own. -1: go on; else the exit status. */
static int read_option(char **argument, int *at, struct options *options) {
    const char *text = argument[*at];
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    int name = find_name(text, length);
    if (name == NAME_COUNT) return unknown(text);
    bool takes_value = name == POLICY || name == CAPACITY || name == PROFILE;
    if (takes_value && value == NULL && (value = argument[*at + 1]) != NULL) ++*at;
    if (takes_value && value == NULL) return bad("%s needs a value", names[name]);
    if (!takes_value && name != JSON && value != NULL) return bad("%s takes no value", names[name]);
    int status = 0;
    switch (name) {
    case POLICY:
        status = read_policy(value, options);
        break;
    case CAPACITY:
        status = read_capacity(value, options);
        break;
    case PROFILE:
        status = read_profile(value, options);
        break;
    case SCAN:
        options->scan = true;
        break;
    case JSON:
        options->json_path = value != NULL ? value : "";
        break;
    case HELP:
        fputs(usage, stdout);
        return 0;
    default:
        printf("weir-replay %s\n", weir_version());
        return 0;
    }
    return status == 0 ? -1 : status;
}

static int read_options(int count, char **argument, struct options *options) {
    for (int i = 1; i < count; i++) {
        if (argument[i][0] == '-' && argument[i][1] != 0) {
            int status = read_option(argument, &i, options);
            if (status >= 0) return status;
        } else if (options->trace_path != NULL) {
            return bad("one trace at a time; '%s' is a second one", argument[i]);
        } else {
            options->trace_path = argument[i];
        }
    }
    if (options->trace_path == NULL) return bad("%s", "no trace given (--help says how)");
    return -1;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text != 0; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static double ratio_to_peak(const struct answer *answer, size_t bytes) {
    size_t peak = answer->trace.peak_rounded_bytes;
    return peak == 0 ? 0 : (double)bytes / (double)peak;
}

static void put_json(FILE *out, const struct answer *answer) {
    const struct outcome *outcome = &answer->outcome;
    fprintf(out, "{\"trace\":");
    put_text(out, answer->options->trace_path);
    fprintf(out, ", \"policy\":\"%s\", \"outcome\":\"%s\", \"failed_line\":", answer->options->policy_name,
            outcome->completed ? "completed" : "out_of_memory");
    fprintf(out, outcome->completed ? "null" : "%u", outcome->failed_line);
    fprintf(out, ",\n \"capacity_bytes\":%zu, \"capacity_ratio\":%.6f,", answer->capacity_bytes,
            ratio_to_peak(answer, answer->capacity_bytes));
    fprintf(out, "\n \"peak_live_bytes\":%zu, \"peak_requested_bytes\":%zu, \"peak_held_bytes\":%zu,\n",
            answer->trace.peak_rounded_bytes, answer->trace.peak_live_bytes, outcome->peak_held_bytes);
    if (answer->min_capacity_bytes > 0)
        fprintf(out, " \"min_capacity_bytes\":%zu, \"min_capacity_ratio\":%.6f,", answer->min_capacity_bytes,
                ratio_to_peak(answer, answer->min_capacity_bytes));
    else
        fprintf(out, " \"min_capacity_bytes\":null, \"min_capacity_ratio\":null,");
    fprintf(out, " \"operations\":%zu}\n", answer->trace.op_count);
}

static void put_words(const struct answer *answer) {
    const struct outcome *outcome = &answer->outcome;
    printf("%s: %zu operations, peak live %zu bytes, policy %s\n", answer->options->trace_path, answer->trace.op_count,
           answer->trace.peak_rounded_bytes, answer->options->policy_name);
    if (answer->options->scan && answer->min_capacity_bytes > 0)
        printf("smallest sufficient device: %zu bytes, %.4f x peak live\n", answer->min_capacity_bytes,
               ratio_to_peak(answer, answer->min_capacity_bytes));
    else if (answer->options->scan)
        printf("no device up to %d x peak live is sufficient\n", MOST_TIMES);
    printf("on %zu bytes, %.4f x peak live: ", answer->capacity_bytes, ratio_to_peak(answer, answer->capacity_bytes));
    if (outcome->completed)
        printf("completed, at most %zu bytes held\n", outcome->peak_held_bytes);
    else
        printf("out of memory at line %u\n", outcome->failed_line);
}

static int put_answer(const struct answer *answer) {
    const char *path = answer->options->json_path;
    if (path == NULL || *path != 0) put_words(answer);
    FILE *out = path == NULL || *path == 0 ? stdout : fopen(path, "we");
    if (out == NULL) {
        perror(path);
        return EXIT_FAILURE;
    }
    if (path != NULL) put_json(out, answer);
    bool written = fflush(out) == 0 && !ferror(out);
    if (out != stdout) written = fclose(out) == 0 && written;
    if (!written) perror(out == stdout ? "standard output" : path);
    return written ? 0 : EXIT_FAILURE;
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static size_t capacity_of(const struct answer *answer, size_t page) {
    const struct options *options = answer->options;
    size_t bytes = options->capacity_bytes;
    if (bytes == 0) bytes = (size_t)(options->capacity_ratio * (double)answer->trace.peak_rounded_bytes);
    if (options->scan && !options->capacity_given && answer->min_capacity_bytes > 0) bytes = answer->min_capacity_bytes;
    bytes -= bytes % page;
    return bytes > 0 ? bytes : page;
}

/* The emulated device is larger than anything that is tried on it: pools limit themselves. */
static enum weir_status open_device(const struct answer *answer, struct weir_device **device) {
    const struct options *options = answer->options;
    char settings[200];
    size_t most = answer->trace.peak_rounded_bytes * MOST_TIMES, wanted = capacity_of(answer, 1);
    if (wanted > most) most = wanted;
    most = (most / (64u << 20) + 2) * (64u << 20);
    int length = snprintf(settings, sizeof settings, "capacity:%zu", most);
    if (options->profile != NULL)
        snprintf(settings + length, sizeof settings - (size_t)length, ",profile:%.100s", options->profile);
    struct weir_device_options device_options = {.size = sizeof device_options, .machine = "emulated", .emu = settings};
    return weir_device_open(&device_options, device);
}

static int run(struct answer *answer, struct weir_device *device) {
    char why[512];
    struct weir_device_info info = {.size = sizeof info};
    if (weir_device_get_info(device, &info) != WEIR_OK) return bad("%s", weir_last_error()->message);
    size_t page = info.granularity_bytes;
    const struct options *options = answer->options;
    if (options->scan &&
        !replay_scan(device, &answer->trace, options->policy, answer->trace.peak_rounded_bytes * MOST_TIMES + page,
                     &answer->min_capacity_bytes, &answer->outcome, why, sizeof why)) {
        bad("%s", why);
        return EXIT_FAILURE;
    }
    answer->capacity_bytes = capacity_of(answer, page);
    /* The scan has made that run already. */
    bool answered = answer->min_capacity_bytes > 0 && answer->capacity_bytes == answer->min_capacity_bytes;
    if (!answered &&
        !replay(device, &answer->trace, options->policy, answer->capacity_bytes, &answer->outcome, why, sizeof why)) {
        bad("%s", why);
        return EXIT_FAILURE;
    }
    return put_answer(answer);
}

int main(int count, char **argument) {
    struct options options = {.policy = WEIR_POLICY_LATENCY, .policy_name = "latency", .capacity_ratio = 1.02};
    struct answer answer = {.options = &options};
    char why[512];
    int status = read_options(count, argument, &options);
    if (status >= 0) return status;
    if (!trace_read(options.trace_path, &answer.trace, why, sizeof why)) return bad("%s", why);
    struct weir_device *device = NULL;
    enum weir_status opened = open_device(&answer, &device);
    if (opened == WEIR_OK) {
        status = run(&answer, device);
        weir_device_close(device);
    } else {
        bad("%s", weir_last_error()->message);
        status = opened == WEIR_INVALID ? EXIT_BAD_INPUT : EXIT_FAILURE;
    }
    trace_free(&answer.trace);
    return status;
}
