/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOOLS_DEMO_OPTIONS_H
#define WEIR_TOOLS_DEMO_OPTIONS_H

#include "tools/options/option_table.h"

struct options {
    const char *config;    /* NULL: configs/demo.yaml beside the program or in the source tree */
    const char *data;      /* NULL: the text that weir-train takes by itself */
    const char *out;       /* NULL: build/demo, or ./weir-demo-report where installed */
    int64_t steps;         /* 0: as the config says */
    const char *json_path; /* "": standard output; NULL: no JSON */
    bool keep;
};

extern const struct option_table demo_options;

#endif
