/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPTIONS_H
#define GPU_OPTIONS_H

#include "suite.h"

struct options {
    const char *driver; /* as dlopen takes it */
    const char *only;   /* a case or a subject; NULL: all */
    const char *json;   /* where to; NULL: nowhere, "-": standard output */
    unsigned limit_seconds;
    bool verbose, list, no_skips;
};

/* False: bad input, which has been said. --help and --version are answered here and end the program. */
bool options_read(int argc, char **argv, const struct gpu_case *cases, struct options *options);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
int case_count(const struct gpu_case *cases);

#endif
