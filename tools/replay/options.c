/* SPDX-License-Identifier: Apache-2.0 */
/* One table of options makes the parser and the help. */
#include "options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static const char *const policies[] = {"latency", "footprint", "per-stream", NULL};
static const char *const laws[] = {"measured", "page", "handle", "range", NULL};
static const char *const clocks[] = {"virtual", "none", NULL};

static bool read_choice(const char *option, const char *value, const char *const *known, const char **choice,
                        struct complaint complaint) {
    char list[80] = "";
    for (size_t i = 0; known[i] != NULL; i++) {
        if (strcmp(value, known[i]) == 0) {
            *choice = known[i];
            return true;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i == 0 ? "" : ", ", known[i]);
    }
    return complain(complaint, "--%s %.60s is not one of %s", option, value, list);
}

/* Reads "1.02" as millionths; by hand, since strtod follows the locale. Gives: the first character after it, or NULL
 * when there is no number, more than six decimals, or more than RATIO_MOST. */
static const char *read_millionths(const char *text, uint64_t *millionths) {
    uint64_t number = 0, place = RATIO_ONE;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && number <= RATIO_MOST; at++) number = number * 10 + (uint64_t)(*at - '0');
    if (at == text || number > RATIO_MOST / RATIO_ONE) return NULL;
    number *= RATIO_ONE;
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++) {
            if (place == 1) return NULL;
            number += (uint64_t)(*at - '0') * (place /= 10);
        }
    *millionths = number;
    return number <= RATIO_MOST ? at : NULL;
}

static bool read_policy(const char *value, struct options *options, struct complaint complaint) {
    return read_choice("policy", value, policies, &options->policy, complaint);
}

static bool read_law(const char *value, struct options *options, struct complaint complaint) {
    return read_choice("law", value, laws, &options->law, complaint);
}

static bool read_clock(const char *value, struct options *options, struct complaint complaint) {
    const char *choice = NULL;
    if (!read_choice("clock", value, clocks, &choice, complaint)) return false;
    options->clock = choice == clocks[0] ? CLOCK_VIRTUAL : CLOCK_NONE;
    return true;
}

static bool read_capacity(const char *value, struct options *options, struct complaint complaint) {
    const char *end = read_millionths(value, &options->capacity_ratio);
    options->capacity_given = true;
    if (end != NULL && strcmp(end, "x") == 0 && options->capacity_ratio > 0) return true;
    if (weir__parse_bytes(value, &options->capacity_bytes) && options->capacity_bytes > 0 &&
        options->capacity_bytes <= TRACE_MOST_BYTES)
        return true;
    return complain(complaint,
                    "--capacity %.60s is neither bytes (64M; at most 2^50) nor a multiple of the peak of live bytes "
                    "(1.02x; at most 1000x, six decimals)",
                    value);
}

/* It becomes a part of the emulated machine's settings. */
static bool read_profile(const char *value, struct options *options, struct complaint complaint) {
    options->profile = value;
    if (strpbrk(value, ",:") == NULL && strlen(value) < 200) return true;
    return complain(complaint, "--profile '%.60s' is no profile's name: it has ',' or ':', or 200 characters", value);
}

static bool read_honest(const char *value, struct options *options, struct complaint complaint) {
    uint64_t percents = 0;
    const char *end = read_millionths(value, &percents);
    options->honest = percents / 100;
    if (end != NULL && strcmp(end, "%") == 0 && options->honest > 0) return true;
    return complain(complaint, "--honest %.60s: expected a slowdown from 0.0001%% to 1000%%, as 1%%", value);
}

/* In its place, once. */
static bool add_to_curve(struct options *options, uint64_t ratio) {
    size_t at = options->curve_count;
    while (at > 0 && options->curve[at - 1] > ratio) at--;
    if (at > 0 && options->curve[at - 1] == ratio) return true;
    if (options->curve_count == CURVE_MOST) return false;
    memmove(&options->curve[at + 1], &options->curve[at], (options->curve_count - at) * sizeof *options->curve);
    options->curve[at] = ratio;
    options->curve_count++;
    return true;
}

/* One part of a list: RATIO or FROM:TO:STEP. Gives: what follows it, NULL: it is neither. */
static const char *read_stretch(const char *at, uint64_t part[3]) {
    size_t parts = 0;
    for (bool more = true; more && at != NULL; parts++) {
        if (parts == 3) return NULL;
        at = read_millionths(at, &part[parts]);
        if (at != NULL && *at == 'x') at++;
        more = at != NULL && *at == ':';
        at += more;
    }
    if (at == NULL || parts == 2 || part[0] == 0) return NULL;
    if (parts == 1) part[1] = part[0], part[2] = 1;
    return part[2] == 0 || part[1] < part[0] ? NULL : at;
}

static bool read_curve(const char *value, struct options *options, struct complaint complaint) {
    uint64_t points = 0;
    for (const char *at = value; at != NULL;) {
        uint64_t part[3];
        const char *end = read_stretch(at, part);
        if (end == NULL || (*end != 0 && *end != ','))
            return complain(complaint,
                            "--curve %.60s: expected FROM:TO:STEP or single ones, with commas between, multiples of "
                            "the peak of live bytes, as 1.0:1.5:0.05 or 1.02,1.1",
                            value);
        points += (part[1] - part[0]) / part[2] + 1;
        for (uint64_t ratio = part[0]; points <= CURVE_MOST && ratio <= part[1]; ratio += part[2])
            add_to_curve(options, ratio);
        at = *end == ',' ? end + 1 : NULL;
    }
    if (points <= CURVE_MOST) return true;
    return complain(complaint, "--curve %.60s has %" PRIu64 " points, the limit is %d", value, points, CURVE_MOST);
}

/* A whole number from 1 to `most`; 0: it is none. */
static unsigned whole_number(const char *value, unsigned most) {
    uint64_t number = 0;
    const char *end = read_millionths(value, &number);
    const bool good = end != NULL && *end == 0 && number % RATIO_ONE == 0 && number / RATIO_ONE <= most;
    return good ? (unsigned)(number / RATIO_ONE) : 0;
}

static bool read_jobs(const char *value, struct options *options, struct complaint complaint) {
    options->jobs = whole_number(value, JOBS_MOST);
    if (options->jobs > 0) return true;
    return complain(complaint, "--jobs %.60s: expected a whole number from 1 to %d", value, JOBS_MOST);
}

static bool read_steady_from(const char *value, struct options *options, struct complaint complaint) {
    options->steady_from = whole_number(value, STEADY_FROM_MOST);
    if (options->steady_from > 0) return true;
    return complain(complaint, "--steady-from %.60s: expected a whole number from 1 to %d", value, STEADY_FROM_MOST);
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

static bool read_timeline(const char *value, struct options *options, struct complaint complaint) {
    (void)complaint;
    options->timeline_path = value;
    return true;
}

static bool read_timeline_text(const char *value, struct options *options, struct complaint complaint) {
    (void)complaint;
    options->timeline_text_path = value != NULL && strcmp(value, "-") != 0 ? value : "";
    return true;
}

/* An option that is there or not. */
#define FLAG(name)                                                                                                     \
    static bool read_##name(const char *value, struct options *options, struct complaint complaint) {                  \
        (void)value;                                                                                                   \
        (void)complaint;                                                                                               \
        return options->name = true;                                                                                   \
    }
FLAG(scan)
FLAG(coarse)
FLAG(blind)
FLAG(deterministic)
FLAG(as_recorded)
FLAG(help)
FLAG(version)

/* ---- the table -------------------------------------------------------------------------------------------------- */

enum value { NONE, NEEDED, MAYBE };
typedef bool read_function(const char *value, struct options *options, struct complaint complaint);

#define OPTIONS(X)                                                                                                     \
    X(POLICY, policy, NEEDED, "policy", "NAME", "latency (default), footprint or per-stream")                          \
    X(CAPACITY, capacity, NEEDED, "capacity", "SIZE",                                                                  \
      "of the device: bytes (64M), or a multiple of the trace's peak of live bytes, rounded up to\n"                   \
      "whole pages (default 1.02x; with --scan what the scan finds)")                                                  \
    X(CLOCK, clock, NEEDED, "clock", "KIND",                                                                           \
      "virtual (default): calls and work take the time that the profile and the trace say; none:\n"                    \
      "nothing takes time, so what was queued is done")                                                                \
    X(PROFILE, profile, NEEDED, "profile", "NAME",                                                                     \
      "the emulated machine, a name or a path with '/' (default: the trace's, else gh200)")                            \
    X(LAW, law, NEEDED, "law", "NAME",                                                                                 \
      "what the driver's memory calls cost: measured (default: the profile's), page, handle, range")                   \
    X(SCAN, scan, NONE, "scan", "", "finds the smallest sufficient device, to 0.2 % of the peak or one page")          \
    X(HONEST, honest, NEEDED, "honest", "P%",                                                                          \
      "finds the smallest device tried that, as every larger one tried, is at most P% slower than a\n"                 \
      "free allocator")                                                                                                \
    X(COARSE, coarse, NONE, "coarse", "",                                                                              \
      "--scan and --honest bisect only, and do not look whether a larger device says otherwise")                       \
    X(CURVE, curve, NEEDED, "curve", "LIST",                                                                           \
      "runs at each of these multiples of the peak: FROM:TO:STEP or single ones, as 1.0:1.5:0.05,1.02")                \
    X(BLIND, blind, NONE, "blind", "", "hides events and waits from the pool: what a plug-in face sees")               \
    X(DETERMINISTIC, deterministic, NONE, "deterministic", "",                                                         \
      "the pool's addresses depend on the order of calls alone")                                                       \
    X(AS_RECORDED, as_recorded, NONE, "as-recorded", "",                                                               \
      "policy, capacity, profile and --deterministic as the trace says that it was recorded")                          \
    X(JSON, json, MAYBE, "json", "FILE", "the answer as JSON; without FILE on standard output, in place of words")     \
    X(TIMELINE, timeline, NEEDED, "timeline", "FILE.html", "a page that shows memory over time in the run answered")   \
    X(TIMELINE_TEXT, timeline_text, MAYBE, "timeline-text", "FILE",                                                    \
      "the same as text, as wide as the terminal or COLUMNS; without FILE on standard output")                         \
    X(ALLOCATOR, allocator, NEEDED, "allocator", "LIB.so:ALLOC:FREE[:USE]",                                            \
      "replays through a library with PyTorch's plug-in functions instead of weir's pool; USE is\n"                    \
      "its record-stream function")                                                                                    \
    X(STEADY_FROM, steady_from, NEEDED, "steady-from", "N",                                                            \
      "the iteration from which on the run counts as steady: slowdown, calls (default 3)")                             \
    X(JOBS, jobs, NEEDED, "jobs", "N", "runs made at a time (default: one a CPU that is online)")                      \
    X(HELP, help, NONE, "help", "", "")                                                                                \
    X(VERSION, version, NONE, "version", "", "")

#define MEMBER(id, function, value, name, shown, help) id,
#define ROW(id, function, value, name, shown, help)    {name, value, shown, help, read_##function},
enum option_id { OPTIONS(MEMBER) OPTION_COUNT };
static const struct option {
    const char *name;
    enum value value;
    const char *shown, *help;
    read_function *read;
} table[OPTION_COUNT] = {OPTIONS(ROW)};

/* What would be left without meaning if both were taken. */
static const struct {
    enum option_id one, other;
    const char *why;
} exclusive[] = {
    {ALLOCATOR, POLICY, "the library has no policies of weir's"},
    {ALLOCATOR, DETERMINISTIC, "it is weir's pool that has this mode"},
    {ALLOCATOR, AS_RECORDED, "it is weir's pool that recorded"},
    {AS_RECORDED, POLICY, "the trace says it"},
    {AS_RECORDED, CAPACITY, "the trace says it"},
    {AS_RECORDED, PROFILE, "the trace says it"},
    {AS_RECORDED, DETERMINISTIC, "the trace says it"},
};

#define HELP_COLUMN 23

static void put_option(const struct option *option, FILE *out) {
    char left[64];
    const char *before = option->value == MAYBE ? "[=" : option->value == NEEDED ? " " : "";
    int length = snprintf(left, sizeof left, "  --%s%s%s%s", option->name, before, option->shown,
                          option->value == MAYBE ? "]" : "");
    fputs(left, out);
    if (length >= HELP_COLUMN && option->help[0] != 0) fprintf(out, "\n%*s", HELP_COLUMN, "");
    if (length < HELP_COLUMN && option->help[0] != 0) fprintf(out, "%*s", HELP_COLUMN - length, "");
    for (const char *at = option->help; *at != 0; at++)
        *at == '\n' ? (void)fprintf(out, "\n%*s", HELP_COLUMN, "") : (void)fputc(*at, out);
    fputc('\n', out);
}

void options_help(FILE *out) {
    fputs("usage: weir-replay TRACE [options]\n"
          "Would weir have saved this run, and at what cost? Replays a trace (weir-trace 1: recorded with\n"
          "WEIR_TRACE=FILE, or made by weir-trace) on an emulated device. TRACE is plain, gzip or zstd; - is standard\n"
          "input.\n\n",
          out);
    for (size_t i = 0; i < OPTION_COUNT; i++) put_option(&table[i], out);
    fputs("\nExit status: 0 answered, also when the answer is out of memory; 1 failed; 2 bad input.\n", out);
}

/* ---- the command line ------------------------------------------------------------------------------------------- */

static enum option_id find_option(const char *name) {
    enum option_id id = 0;
    while (id < OPTION_COUNT && strcmp(table[id].name, name) != 0) id++;
    return id;
}

static bool unknown(const char *name, struct complaint complaint) {
    const char *names[OPTION_COUNT];
    for (size_t i = 0; i < OPTION_COUNT; i++) names[i] = table[i].name;
    const char *nearest = weir__nearest(name, names, OPTION_COUNT);
    if (nearest == NULL) return complain(complaint, "unknown option --%.60s (--help lists them)", name);
    return complain(complaint, "unknown option --%.60s; did you mean --%s?", name, nearest);
}

/* Reads one option; *at moves past a value of its own. `given` has a bit for each that was there. */
static bool read_option(char **argument, int *at, struct options *options, uint32_t *given,
                        struct complaint complaint) {
    char name[64];
    const char *text = argument[*at] + 2, *equals = strchr(text, '='), *value = equals != NULL ? equals + 1 : NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    enum option_id id = find_option(name);
    if (strncmp(argument[*at], "--", 2) != 0 || *text == 0)
        return complain(complaint, "unknown option %.60s (--help lists them)", argument[*at]);
    if (id == OPTION_COUNT) return unknown(name, complaint);
    const struct option *option = &table[id];
    if (option->value == NONE && value != NULL) return complain(complaint, "--%s takes no value", option->name);
    if (option->value == NEEDED && value == NULL && (value = argument[*at + 1]) != NULL) ++*at;
    if ((option->value == NEEDED && value == NULL) || (value != NULL && *value == 0))
        return complain(complaint, "--%s needs a value: %s", option->name, option->shown);
    if (*given & UINT32_C(1) << id) return complain(complaint, "--%s is given twice", option->name);
    *given |= UINT32_C(1) << id;
    return option->read(value, options, complaint);
}

static bool is_standard_output(const char *path) { return path != NULL && *path == '\0'; }

static bool check_together(const struct options *options, uint32_t given, struct complaint complaint) {
    for (size_t i = 0; i < sizeof exclusive / sizeof *exclusive; i++)
        if ((given & UINT32_C(1) << exclusive[i].one) && (given & UINT32_C(1) << exclusive[i].other))
            return complain(complaint, "--%s and --%s contradict each other: %s", table[exclusive[i].one].name,
                            table[exclusive[i].other].name, exclusive[i].why);
    bool no_clock = options->clock == CLOCK_NONE;
    if (no_clock && (given & UINT32_C(1) << LAW)) return complain(complaint, "--law says nothing without a clock");
    if (no_clock && options->honest != 0)
        return complain(complaint, "--honest compares times, and --clock none has none");
    if (no_clock && (options->timeline_path != NULL || options->timeline_text_path != NULL))
        return complain(complaint, "--timeline%s shows times, and --clock none has none",
                        options->timeline_path != NULL ? "" : "-text");
    if (is_standard_output(options->json_path) && is_standard_output(options->timeline_text_path))
        return complain(complaint, "--json and --timeline-text both go to standard output: one needs a FILE");
    if (options->trace_path == NULL) return complain(complaint, "no trace given (--help says how)");
    return true;
}

static unsigned online_cpus(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > JOBS_MOST ? JOBS_MOST : (unsigned)count;
}

bool options_read(struct options *options, int count, char **argument, char *why, size_t room) {
    struct complaint complaint = {why, room};
    uint32_t given = 0;
    *options = (struct options){.policy = policies[0],
                                .law = laws[0],
                                .clock = CLOCK_VIRTUAL,
                                .capacity_ratio = RATIO_ONE + RATIO_ONE / 50,
                                .jobs = online_cpus(),
                                .steady_from = 3};
    for (int i = 1; i < count; i++) {
        if (argument[i][0] == '-' && argument[i][1] != 0) {
            if (!read_option(argument, &i, options, &given, complaint)) return false;
            if (options->help || options->version) return true;
        } else if (options->trace_path != NULL) {
            return complain(complaint, "one trace at a time; '%.100s' is a second one", argument[i]);
        } else {
            options->trace_path = argument[i];
        }
    }
    return check_together(options, given, complaint);
}

void options_free(struct options *options) { plugin_names_free(&options->plugin); }

/* ---- as recorded ------------------------------------------------------------------------------------------------ */

bool options_as_recorded(struct options *options, const struct trace *trace, char *why, size_t room) {
    const struct trace_origin *origin = &trace->origin;
    struct complaint complaint = {why, room};
    if (origin->policy[0] == 0 || origin->limit_bytes == 0)
        return complain(complaint,
                        "--as-recorded: %.200s does not say how it was recorded (a comment '# recorded policy=NAME "
                        "limit=BYTES ...')",
                        options->trace_path);
    if (!read_choice("policy", origin->policy, policies, &options->policy, complaint))
        return complain(complaint, "--as-recorded: %.200s was recorded under policy '%.15s', which is not known here",
                        options->trace_path, origin->policy);
    options->capacity_bytes = origin->limit_bytes;
    options->capacity_given = true;
    options->deterministic = origin->deterministic;
    return true;
}
