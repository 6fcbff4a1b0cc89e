/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOOLS_DEMO_OPTIONS_H
#define WEIR_TOOLS_DEMO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct demo_options {
    const char *config; /* NULL: configs/demo.yaml beside the program or in the source tree */
    const char *data;   /* NULL: the text that weir-train takes by itself */
    const char *out;    /* NULL: build/demo, or ./weir-demo-report where installed */
    int64_t steps;      /* 0: as the config says */
    bool json;
    const char *json_path; /* NULL with json: standard output */
    bool keep, help, version;
};

/* Gives: 0, or 2 with one sentence in `message` (the nearest option when one is unknown). */
int demo_options_parse(struct demo_options *options, int argc, char **argv, char *message, size_t room);
void demo_options_help(FILE *out);

#endif
