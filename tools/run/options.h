/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOOLS_RUN_OPTIONS_H
#define WEIR_TOOLS_RUN_OPTIONS_H

#include <stdbool.h>

#include "tools/options/option_table.h"

struct options {
    const char *limit, *policy, *pool; /* parts of WEIR_OPTIONS; NULL: not said, as the next */
    const char *plain, *host;          /* "pool" or "driver" */
    const char *trace, *timeline, *log, *device;
    const char *json_path; /* NULL: no JSON; "": to standard output */
    bool quiet;
    char **program; /* its arguments, from its name on; NULL-terminated */
};

extern const struct option_table run_options;

#endif
