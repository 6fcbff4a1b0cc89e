/* SPDX-License-Identifier: Apache-2.0 */
/* What weir-stress was asked. */
#ifndef WEIR_STRESS_OPTIONS_H
#define WEIR_STRESS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "contents.h"
#include "extras.h"
#include "laws.h"
#include "patterns.h"
#include "tools/options/option_table.h"
#include "tools/plugin/plugin.h"

enum { OPTIONS_MOST_THREADS = 64, OPTIONS_MOST_STREAMS = 64 };

struct options {
    unsigned threads, streams;
    enum pattern_kind patterns[PATTERNS]; /* in turn */
    unsigned pattern_count;
    uint32_t extras; /* a bit for each that is made */
    bool extras_given;
    const char *sizes; /* as given */
    struct law law;
    uint64_t duration_ns; /* 0: as long as the operations take */
    uint64_t operations;  /* 0: as many as the time allows */
    uint64_t seed;
    double fill;   /* of what is usable, is to be live */
    double margin; /* of what is usable, may be missing to a refusal; below 0: refusals are no faults */
    bool margin_given;
    uint64_t hold_ns; /* longest that a stream is held back; 0: never */
    uint64_t stuck_seconds, most_faults;
    enum contents_check check;
    int device;
    const char *allocator; /* as given; NULL: weir's pool */
    struct plugin_names plugin;
    const char *json_path; /* "": standard output; NULL: no JSON */
    bool quiet;
};

extern const struct option_table stress_options;

void options_default(struct options *options);
void options_free(struct options *options); /* whatever was read */

#endif
