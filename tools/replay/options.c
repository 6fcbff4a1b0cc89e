/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/error.h"
#include "tools/options/outputs.h"

/* ---- values ----------------------------------------------------------------------------------------------------- */

static const char *const policies[] = {"latency", "footprint", "per-stream", NULL};
static const char *const laws[] = {"measured", "page", "handle", "range", NULL};
static const char *const clocks[] = {"virtual", "none", NULL};

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

static bool read_clock(const char *value, struct options *options, struct complaint complaint) {
    const char *choice = NULL;
    if (!option_read_choice("clock", value, clocks, &choice, complaint)) return false;
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

static bool read_allocator(const char *value, struct options *options, struct complaint complaint) {
    options->allocator = value;
    return plugin_names_read(value, &options->plugin, complaint.text, complaint.room);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const struct option table[] = {
    {"policy", "NAME", "latency (default), footprint or per-stream", OPTION_CHOICE(policy, policies)},
    {"capacity", "SIZE",
     "of the device: bytes (64M), or a multiple of the trace's peak of live bytes, rounded up to\n"
     "whole pages (default 1.02x; with --scan what the scan finds)",
     OPTION_READ(read_capacity)},
    {"clock", "KIND",
     "virtual (default): calls and work take the time that the profile and the trace say; none:\n"
     "nothing takes time, so what was queued is done",
     OPTION_READ(read_clock)},
    {"profile", "NAME", "the emulated machine, a name or a path with '/' (default: the trace's, else gh200)",
     OPTION_READ(read_profile)},
    {"law", "NAME", "what the driver's memory calls cost: measured (default: the profile's), page, handle, range",
     OPTION_CHOICE(law, laws)},
    {"scan", NULL, "finds the smallest sufficient device, to 0.2 % of the peak or one page", OPTION_FLAG(scan)},
    {"honest", "P%",
     "finds the smallest device tried that, as every larger one tried, is at most P% slower than a\n"
     "free allocator",
     OPTION_READ(read_honest)},
    {"coarse", NULL, "--scan and --honest bisect only, and do not look whether a larger device says otherwise",
     OPTION_FLAG(coarse)},
    {"curve", "LIST", "runs at each of these multiples of the peak: FROM:TO:STEP or single ones, as 1.0:1.5:0.05,1.02",
     OPTION_READ(read_curve)},
    {"blind", NULL, "hides events and waits from the pool: what a plug-in face sees", OPTION_FLAG(blind)},
    {"deterministic", NULL, "the pool's addresses depend on the order of calls alone", OPTION_FLAG(deterministic)},
    {"as-recorded", NULL, "policy, capacity, profile and --deterministic as the trace says that it was recorded",
     OPTION_FLAG(as_recorded)},
    {"json", "FILE", "the answer as JSON; without FILE on standard output, in place of words",
     OPTION_OUTPUT(json_path)},
    {"timeline", "FILE.html", "a page that shows memory over time in the run answered", OPTION_TEXT(timeline_path)},
    {"timeline-text", "FILE", "the same as text, as wide as the terminal or COLUMNS; without FILE on standard output",
     OPTION_OUTPUT(timeline_text_path)},
    {"allocator", "LIB.so:ALLOC:FREE[:USE]",
     "replays through a library with PyTorch's plug-in functions instead of weir's pool; USE is\n"
     "its record-stream function",
     OPTION_READ(read_allocator)},
    {"steady-from", "N", "the iteration from which on the run counts as steady: slowdown, calls (default 3)",
     OPTION_COUNT(steady_from, 1, STEADY_FROM_MOST)},
    {"jobs", "N", "runs made at a time (default: one a CPU that is online)", OPTION_COUNT(jobs, 1, JOBS_MOST)},
    {"help", NULL, NULL, OPTION_HELP},
    {"version", NULL, NULL, OPTION_VERSION},
};

static int take_trace(char **words, struct options *options, struct complaint complaint) {
    if (options->trace_path != NULL)
        return complain(complaint, "one trace at a time; '%.100s' is a second one", words[0]);
    options->trace_path = words[0];
    return 1;
}

/* ---- what is asked together ------------------------------------------------------------------------------------- */

/* What would be left without meaning if both were taken. */
static bool check_contradictions(const struct options *options, struct complaint complaint) {
    const bool library = options->allocator != NULL, recorded = options->as_recorded;
    const struct {
        bool both;
        const char *one, *other, *why;
    } pairs[] = {
        {library && options->policy != NULL, "allocator", "policy", "the library has no policies of weir's"},
        {library && options->deterministic, "allocator", "deterministic", "it is weir's pool that has this mode"},
        {library && recorded, "allocator", "as-recorded", "it is weir's pool that recorded"},
        {recorded && options->policy != NULL, "as-recorded", "policy", "the trace says it"},
        {recorded && options->capacity_given, "as-recorded", "capacity", "the trace says it"},
        {recorded && options->profile != NULL, "as-recorded", "profile", "the trace says it"},
        {recorded && options->deterministic, "as-recorded", "deterministic", "the trace says it"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].both)
            return complain(complaint, "--%s and --%s contradict each other: %s", pairs[i].one, pairs[i].other,
                            pairs[i].why);
    return true;
}

static bool check_clock(const struct options *options, struct complaint complaint) {
    if (options->clock != CLOCK_NONE) return true;
    if (options->law != NULL) return complain(complaint, "--law says nothing without a clock");
    if (options->honest != 0) return complain(complaint, "--honest compares times, and --clock none has none");
    if (options->timeline_path == NULL && options->timeline_text_path == NULL) return true;
    return complain(complaint, "--timeline%s shows times, and --clock none has none",
                    options->timeline_path != NULL ? "" : "-text");
}

static bool check_page(const struct options *options, struct complaint complaint) {
    return options->timeline_path == NULL || strcmp(options->timeline_path, "-") != 0 ||
           complain(complaint, "--timeline needs a FILE: a page does not go to standard output");
}

static bool is_standard_output(const char *path) { return path != NULL && *path == '\0'; }

/* The words go to standard output, unless JSON does. */
static bool check_outputs(const struct options *options, struct complaint complaint) {
    const struct named_output outputs[] = {
        {"--timeline", options->timeline_path},
        {"--timeline-text", options->timeline_text_path},
        {"--json", options->json_path},
        {"the answer in words", is_standard_output(options->json_path) ? NULL : ""},
    };
    const size_t count = sizeof outputs / sizeof *outputs - is_standard_output(options->timeline_text_path);
    return outputs_differ(outputs, count, complaint);
}

static bool check(struct options *options, struct complaint complaint) {
    if (!check_contradictions(options, complaint) || !check_clock(options, complaint) ||
        !check_page(options, complaint))
        return false;
    if (is_standard_output(options->json_path) && is_standard_output(options->timeline_text_path))
        return complain(complaint, "--json and --timeline-text both go to standard output: one needs a FILE");
    if (!check_outputs(options, complaint)) return false;
    if (options->trace_path == NULL) return complain(complaint, "no trace given (--help says how)");
    if (options->policy == NULL) options->policy = policies[0];
    if (options->law == NULL) options->law = laws[0];
    return true;
}

const struct option_table replay_options = {
    .program = "weir-replay",
    .usage =
        "usage: weir-replay TRACE [options]\n"
        "Would weir have saved this run, and at what cost? Replays a trace (weir-trace 1: recorded with\n"
        "WEIR_TRACE=FILE, or made by weir-trace) on an emulated device. TRACE is plain, gzip or zstd; - is standard\n"
        "input.\n",
    .status = "Exit status: 0 answered, also when the answer is out of memory; 1 failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .words = take_trace,
    .check = check,
};

static unsigned online_cpus(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > JOBS_MOST ? JOBS_MOST : (unsigned)count;
}

void options_default(struct options *options) {
    *options = (struct options){
        .clock = CLOCK_VIRTUAL, .capacity_ratio = RATIO_ONE + RATIO_ONE / 50, .jobs = online_cpus(), .steady_from = 3};
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
    if (!option_read_choice("policy", origin->policy, policies, &options->policy, complaint))
        return complain(complaint, "--as-recorded: %.200s was recorded under policy '%.15s', which is not known here",
                        options->trace_path, origin->policy);
    options->capacity_bytes = origin->limit_bytes;
    options->capacity_given = true;
    options->deterministic = origin->deterministic;
    return true;
}
