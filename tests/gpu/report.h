/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_REPORT_H
#define GPU_REPORT_H

#include "options.h"

enum outcome { NOT_RUN, PASSED, SKIPPED, FAILED };

struct result {
    enum outcome outcome;
    unsigned milliseconds;
    char why[1000];
};

struct machine {
    const char *driver;
    char name[128];
    int driver_version, devices;
    bool emulated;
};

void report_begin(const struct machine *machine, const struct options *options);
void report_case(const struct gpu_case *the_case, const struct result *result, const struct options *options);
/* Gives the program's exit status. */
int report_end(const struct gpu_case *cases, const struct result *results, const struct machine *machine,
               const struct options *options, unsigned milliseconds);
void report_list(const struct gpu_case *cases, const struct options *options);

#endif
