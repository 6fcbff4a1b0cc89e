/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOOLS_RUN_OPTIONS_H
#define WEIR_TOOLS_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct options {
    const char *limit, *policy, *pool; /* parts of WEIR_OPTIONS; NULL: not said, as the next */
    const char *plain, *host;          /* "pool" or "driver" */
    const char *trace, *timeline, *log, *device;
    const char *json_path; /* NULL: no JSON; "": to standard output */
    bool quiet, help, version;
    char **program; /* its arguments, from its name on; NULL-terminated */
};

/* Gives: false with one sentence in `why`. With help or version nothing else counts. */
bool options_read(struct options *options, int count, char **argument, char *why, size_t room);
void options_help(FILE *out);

#endif
