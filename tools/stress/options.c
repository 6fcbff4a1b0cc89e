/* SPDX-License-Identifier: Apache-2.0 */
/* One table of options makes the parser and the help. */
#include "options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/emu/quantity.h"
#include "device/error.h"

#define MOST_OPERATIONS UINT64_C(1000000000000)
#define MOST_HOLD_NS    1e8
#define EXTRA_NAMES                                                                                                    \
    "aligned, resize, exportable, registered, host-frees, default-streams, short-streams, sub-pools,\n"                \
    "iterations, graphs, limits, reclaim, snapshots, questions"

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

static bool read_whole(const char *text, uint64_t most, uint64_t *number) {
    uint64_t value = 0;
    if (*text == 0) return false;
    for (; *text != 0; text++) {
        if (*text < '0' || *text > '9' || value > (UINT64_MAX - 9) / 10) return false;
        value = 10 * value + (uint64_t)(*text - '0');
    }
    *number = value;
    return value <= most;
}

static bool read_count(const char *name, const char *value, uint64_t least, uint64_t most, uint64_t *count,
                       struct complaint complaint) {
    if (read_whole(value, most, count) && *count >= least) return true;
    return complain(complaint, "--%s %.60s: expected a whole number from %llu to %llu", name, value,
                    (unsigned long long)least, (unsigned long long)most);
}

/* A reader of a whole number into a member of another type. */
#define COUNT(name, member, type, least, most)                                                                         \
    static bool read_##member(const char *value, struct options *options, struct complaint complaint) {                \
        uint64_t count = 0;                                                                                            \
        const bool good = read_count(name, value, least, most, &count, complaint);                                     \
        options->member = (type)count;                                                                                 \
        return good;                                                                                                   \
    }
COUNT("threads", threads, unsigned, 1, OPTIONS_MOST_THREADS)
COUNT("streams", streams, unsigned, 1, OPTIONS_MOST_STREAMS)
COUNT("operations", operations, uint64_t, 1, MOST_OPERATIONS)
COUNT("seed", seed, uint64_t, 0, UINT64_MAX)
COUNT("faults", most_faults, uint64_t, 1, MOST_OPERATIONS)
COUNT("device", device, int, 0, 63)

static bool read_duration(const char *value, struct options *options, struct complaint complaint) {
    double ns = 0;
    const bool good = emu_quantity_read(EMU_TIME, value, &ns) && ns >= 1;
    options->duration_ns = (uint64_t)ns;
    return good || complain(complaint,
                            "--duration %.60s: expected a time above 0 and at most 1000000s, as 600s or 500ms", value);
}

static bool read_hold(const char *value, struct options *options, struct complaint complaint) {
    double ns = 0;
    const bool good = strcmp(value, "0") == 0 || (emu_quantity_read(EMU_TIME, value, &ns) && ns <= MOST_HOLD_NS);
    options->hold_ns = (uint64_t)ns;
    return good || complain(complaint, "--hold %.60s: expected a time of at most 100ms, as 1ms, or 0", value);
}

static bool read_stuck(const char *value, struct options *options, struct complaint complaint) {
    double ns = 0;
    const bool good = emu_quantity_read(EMU_TIME, value, &ns) && ns >= 1e9;
    options->stuck_seconds = (uint64_t)(ns / 1e9);
    return good || complain(complaint, "--stuck %.60s: expected a time from 1s to 1000000s", value);
}

static bool read_fill(const char *value, struct options *options, struct complaint complaint) {
    const bool good =
        strcmp(value, "100%") == 0 || (emu_quantity_read(EMU_FRACTION, value, &options->fill) && options->fill > 0);
    if (strcmp(value, "100%") == 0) options->fill = 1;
    return good ||
           complain(complaint, "--fill %.60s: expected a part of the device above 0 and at most 100%%, as 95%%", value);
}

static bool read_margin(const char *value, struct options *options, struct complaint complaint) {
    options->margin_given = true;
    if (strcmp(value, "none") == 0) return true;
    return emu_quantity_read(EMU_FRACTION, value, &options->margin) ||
           complain(complaint, "--margin %.60s: expected a part of the device from 0 to below 100%%, as 2%%, or none",
                    value);
}

static bool read_sizes(const char *value, struct options *options, struct complaint complaint) {
    options->sizes = value;
    return law_read(value, &options->law, complaint.text, complaint.room);
}

static bool read_check(const char *value, struct options *options, struct complaint complaint) {
    static const char *const known[] = {"full", "sample", "none"};
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(value, known[i]) != 0) continue;
        options->check = (enum contents_check)i;
        return true;
    }
    return complain(complaint, "--check %.60s is not one of full, sample, none", value);
}

static bool add_pattern(struct options *options, const char *name, size_t length) {
    for (unsigned i = 0; i < PATTERNS; i++) {
        if (strlen(pattern_names[i]) != length || strncmp(pattern_names[i], name, length) != 0) continue;
        if (options->pattern_count == PATTERNS) return false;
        options->patterns[options->pattern_count++] = (enum pattern_kind)i;
        return true;
    }
    return false;
}

static bool read_pattern(const char *value, struct options *options, struct complaint complaint) {
    options->pattern_count = 0;
    for (const char *at = value;; at++) {
        const size_t length = strcspn(at, ",");
        if (!add_pattern(options, at, length))
            return complain(
                complaint,
                "--pattern %.60s: expected up to %d of churn, ramp, sawtooth, fragment, adversary, with commas "
                "between",
                value, PATTERNS);
        at += length;
        if (*at == 0) return true;
    }
}

static bool add_extra(struct options *options, const char *name, size_t length) {
    for (unsigned i = 0; i < EXTRAS; i++) {
        if (strlen(extra_names[i]) != length || strncmp(extra_names[i], name, length) != 0) continue;
        options->extras |= UINT32_C(1) << i;
        return true;
    }
    return false;
}

static bool read_extras(const char *value, struct options *options, struct complaint complaint) {
    options->extras_given = true;
    options->extras = strcmp(value, "all") == 0 ? EXTRAS_ALL : 0;
    if (strcmp(value, "all") == 0 || strcmp(value, "none") == 0) return true;
    for (const char *at = value;; at++) {
        const size_t length = strcspn(at, ",");
        if (!add_extra(options, at, length))
            return complain(complaint, "--extras %.60s: expected all, none, or names with commas between: " EXTRA_NAMES,
                            value);
        at += length;
        if (*at == 0) return true;
    }
}

static bool read_allocator(const char *value, struct options *options, struct complaint complaint) {
    options->allocator = value;
    return plugin_names_read(value, &options->plugin, complaint.text, complaint.room);
}

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
    {"allocator", NEEDED, "LIB.so:ALLOC:FREE[:USE]",
     "a library with PyTorch's plug-in functions, in place of weir's pool; USE is its\nrecord-stream function",
     read_allocator},
    {"threads", NEEDED, "N", "threads that ask, 1 to 64 (default 2)", read_threads},
    {"streams", NEEDED, "N", "streams that all of them use, 1 to 64 (default 4)", read_streams},
    {"sizes", NEEDED, "LAW",
     "fixed:SIZE, log:LEAST:MOST (log-uniform) or trace:FILE (what a trace asks for, in its order);\n"
     "default log:512:MOST with an eighth of what a thread may have live",
     read_sizes},
    {"pattern", NEEDED, "NAME,...", "churn, ramp, sawtooth, fragment, adversary, in turn (default: all)", read_pattern},
    {"extras", NEEDED, "NAME,...|none|all",
     "calls that weir's pool alone has, beside the pattern (default: all, with --allocator none):\n" EXTRA_NAMES,
     read_extras},
    {"fill", NEEDED, "P%", "how much of the device is to be live (default 95%)", read_fill},
    {"duration", NEEDED, "TIME", "how long, as 600s (default 10s; with --operations alone: as long as they take)",
     read_duration},
    {"operations", NEEDED, "N", "ends after so many steps of all threads", read_operations},
    {"seed", NEEDED, "N", "of all chance; with one thread the same requests (default: another one each time)",
     read_seed},
    {"check", NEEDED, "HOW",
     "what of the blocks is compared: full, sample (default: of blocks above 1 MiB both ends and\n"
     "14 pieces of 64 KiB), none",
     read_check},
    {"hold", NEEDED, "TIME", "longest that a stream is held back, so that its work lags (default 1ms; 0: never)",
     read_hold},
    {"margin", NEEDED, "P%|none",
     "a refusal is a fault if so much of the device would have been left (default 2%, with\n"
     "--allocator none: no refusal is a fault)",
     read_margin},
    {"stuck", NEEDED, "TIME", "no step of any thread for so long is a fault, and the end (default 120s)", read_stuck},
    {"faults", NEEDED, "N", "ends after so many faults (default 10)", read_most_faults},
    {"device", NEEDED, "N", "which device of the driver (default 0)", read_device},
    {"json", MAYBE, "FILE", "the answer as JSON; without FILE on standard output, in place of words", read_json},
    {"quiet", NONE, "", "no progress, and no words unless a fault is found", read_quiet},
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
    fputs("usage: weir-stress [options]\n"
          "Asks weir's pool, or an allocator in a library, for device memory from many threads on many streams, and "
          "looks\n"
          "whether it is handed out twice, used again too early, or changed (docs/stress.md). Without a GPU the device "
          "is\n"
          "emulated, under its watch.\n\n",
          out);
    for (size_t i = 0; i < OPTIONS; i++) put_option(&table[i], out);
    fputs("\nExit status: 0 no fault found; 1 faults found, or the run failed; 2 bad input.\n", out);
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
    const char *text = argument[*at] + 2, *equals = strchr(argument[*at], '='),
               *value = equals != NULL ? equals + 1 : NULL;
    if (strncmp(argument[*at], "--", 2) != 0 || argument[*at][2] == 0)
        return complain(complaint, "'%.60s' is not an option (--help lists them)", argument[*at]);
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

static void set_defaults(struct options *options) {
    static char all[] = "churn,ramp,sawtooth,fragment,adversary";
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *options = (struct options){.threads = 2,
                                .streams = 4,
                                .law = {.kind = LAW_LOG, .least = 512},
                                .extras = EXTRAS_ALL,
                                .seed = (uint64_t)(now.tv_sec ^ now.tv_nsec) & UINT32_MAX,
                                .fill = 0.95,
                                .margin = -1,
                                .hold_ns = 1000000,
                                .stuck_seconds = 120,
                                .most_faults = 10,
                                .check = CONTENTS_SAMPLE};
    read_pattern(all, options, (struct complaint){NULL, 0});
}

bool options_read(struct options *options, int count, char **argument, char *why, size_t room) {
    const struct complaint complaint = {why, room};
    uint32_t given = 0;
    set_defaults(options);
    for (int at = 1; at < count; at++) {
        if (!read_option(argument, &at, options, &given, complaint)) return false;
        if (options->help || options->version) return true;
    }
    if (options->duration_ns == 0 && options->operations == 0) options->duration_ns = UINT64_C(10000000000);
    if (!options->margin_given && options->allocator == NULL) options->margin = 0.02;
    if (options->allocator != NULL && options->extras_given && options->extras != 0)
        return complain(complaint, "--extras is of weir's pool: a library of --allocator has no such calls");
    if (options->allocator != NULL) options->extras = 0;
    if (options->law.kind == LAW_TRACE && options->law.count < options->threads)
        return complain(complaint, "--sizes %.60s: a trace of %zu requests is not enough for %u threads",
                        options->sizes, options->law.count, options->threads);
    return true;
}

void options_free(struct options *options) {
    law_free(&options->law);
    plugin_names_free(&options->plugin);
}
