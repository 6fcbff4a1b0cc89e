/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher lets through of the ranks' output: all but mpirun's own talk, from which it learns who died. */
#ifndef WEIR_TRAINER_LAUNCH_OUTPUT_H
#define WEIR_TRAINER_LAUNCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "trainer/bar.h"

/* One stream, cut into lines. */
struct lines {
    int from, to;  /* file descriptors; from -1: closed */
    bool filtered; /* mpirun writes here too */
    char text[8192];
    size_t used;
};

struct output {
    struct lines out, err;
    struct bar bar;
    bool in_block;
    char block[4096]; /* mpirun's text between two lines of dashes */
    size_t block_used;
    int dead_rank, dead_signal; /* -1 and 0: nobody known */
    bool told;                  /* something has been passed on to standard error */
    bool lost;                  /* something could not be passed on to standard output */
};

void output_open(struct output *output, int out, int err, bool progress);
/* Reads what there is and passes it on; at the end of the stream sets lines->from to -1. */
void output_pass(struct output *output, struct lines *lines);

#endif
