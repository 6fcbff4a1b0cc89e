/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <string.h>
#include <time.h>

#include "device/emu/quantity.h"

#define MOST_OPERATIONS UINT64_C(1000000000000)
#define MOST_HOLD_NS    1e8
#define EXTRA_NAMES                                                                                                    \
    "aligned, resize, exportable, registered, host-frees, default-streams, short-streams, sub-pools,\n"                \
    "iterations, graphs, limits, reclaim, snapshots, questions"

/* ---- values ----------------------------------------------------------------------------------------------------- */

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
    static const char *const known[] = {"full", "sample", "none", NULL}; /* as enum contents_check */
    const char *choice = NULL;
    if (!option_read_choice("check", value, known, &choice, complaint)) return false;
    options->check = CONTENTS_FULL;
    while (known[options->check] != choice) options->check++;
    return true;
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

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const struct option table[] = {
    {"allocator", "LIB.so:ALLOC:FREE[:USE]",
     "a library with PyTorch's plug-in functions, in place of weir's pool; USE is its\nrecord-stream function",
     OPTION_READ(read_allocator)},
    {"threads", "N", "threads that ask, 1 to 64 (default 2)", OPTION_COUNT(threads, 1, OPTIONS_MOST_THREADS)},
    {"streams", "N", "streams that all of them use, 1 to 64 (default 4)",
     OPTION_COUNT(streams, 1, OPTIONS_MOST_STREAMS)},
    {"sizes", "LAW",
     "fixed:SIZE, log:LEAST:MOST (log-uniform) or trace:FILE (what a trace asks for, in its order);\n"
     "default log:512:MOST with an eighth of what a thread may have live",
     OPTION_READ(read_sizes)},
    {"pattern", "NAME,...", "churn, ramp, sawtooth, fragment, adversary, in turn (default: all)",
     OPTION_READ(read_pattern)},
    {"extras", "NAME,...|none|all",
     "calls that weir's pool alone has, beside the pattern (default: all, with --allocator none):\n" EXTRA_NAMES,
     OPTION_READ(read_extras)},
    {"fill", "P%", "how much of the device is to be live (default 95%)", OPTION_READ(read_fill)},
    {"duration", "TIME", "how long, as 600s (default 10s; with --operations alone: as long as they take)",
     OPTION_READ(read_duration)},
    {"operations", "N", "ends after so many steps of all threads", OPTION_COUNT(operations, 1, MOST_OPERATIONS)},
    {"seed", "N", "of all chance; with one thread the same requests (default: another one each time)",
     OPTION_COUNT(seed, 0, UINT64_MAX)},
    {"check", "HOW",
     "what of the blocks is compared: full, sample (default: of blocks above 1 MiB both ends and\n"
     "14 pieces of 64 KiB), none",
     OPTION_READ(read_check)},
    {"hold", "TIME", "longest that a stream is held back, so that its work lags (default 1ms; 0: never)",
     OPTION_READ(read_hold)},
    {"margin", "P%|none",
     "a refusal is a fault if so much of the device would have been left (default 2%, with\n"
     "--allocator none: no refusal is a fault)",
     OPTION_READ(read_margin)},
    {"stuck", "TIME", "no step of any thread for so long is a fault, and the end (default 120s)",
     OPTION_READ(read_stuck)},
    {"faults", "N", "ends after so many faults (default 10)", OPTION_COUNT(most_faults, 1, MOST_OPERATIONS)},
    {"device", "N", "which device of the driver (default 0)", OPTION_COUNT(device, 0, 63)},
    {"json", "FILE", "the answer as JSON; without FILE on standard output, in place of words",
     OPTION_OUTPUT(json_path)},
    {"quiet", NULL, "no progress, and no words unless a fault is found", OPTION_FLAG(quiet)},
    {"help", NULL, NULL, OPTION_HELP},
    {"version", NULL, NULL, OPTION_VERSION},
};

static bool check(struct options *options, struct complaint complaint) {
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

const struct option_table stress_options = {
    .program = "weir-stress",
    .usage =
        "usage: weir-stress [options]\n"
        "Asks weir's pool, or an allocator in a library, for device memory from many threads on many streams, and\n"
        "looks whether it is handed out twice, used again too early, or changed (docs/stress.md). Without a GPU the\n"
        "device is emulated, under its watch.\n",
    .status = "Exit status: 0 no fault found; 1 faults found, or the run failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .check = check,
};

void options_default(struct options *options) {
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

void options_free(struct options *options) {
    law_free(&options->law);
    plugin_names_free(&options->plugin);
}
