/* SPDX-License-Identifier: Apache-2.0 */
/* What weir-replay was asked. Ratios are in millionths, so that "1.02x" means the same everywhere. */
#ifndef WEIR_REPLAY_OPTIONS_H
#define WEIR_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run.h"
#include "tools/options/option_table.h"
#include "tools/plugin/plugin.h"

#define RATIO_ONE        UINT64_C(1000000)
#define RATIO_MOST       (1000 * RATIO_ONE)
#define CURVE_MOST       1000 /* points */
#define JOBS_MOST        256
#define STEADY_FROM_MOST 1000000

struct options {
    const char *trace_path;
    const char *policy, *law; /* NULL until all is read: not given */
    const char *profile;      /* NULL: the trace's, else gh200 */
    size_t capacity_bytes;    /* 0: by ratio */
    uint64_t capacity_ratio;
    uint64_t honest;            /* the slowdown that is still good; 0: not asked */
    uint64_t curve[CURVE_MOST]; /* ratios, ascending */
    size_t curve_count;         /* 0: not asked */
    enum replay_clock clock;
    bool capacity_given, scan, coarse, blind, deterministic, as_recorded;
    const char *json_path;          /* "": standard output; NULL: no JSON */
    const char *timeline_path;      /* NULL: none */
    const char *timeline_text_path; /* "": standard output; NULL: none */
    const char *allocator;          /* as given; NULL: weir's own pool */
    struct plugin_names plugin;     /* its parts */
    unsigned jobs, steady_from;
};

extern const struct option_table replay_options;

void options_default(struct options *options);
void options_free(struct options *options); /* whatever was read */

/* Takes what --as-recorded asks for from the `# recorded` comment. False with a sentence: it does not say it. */
bool options_as_recorded(struct options *options, const struct trace *trace, char *why, size_t room);

#endif
