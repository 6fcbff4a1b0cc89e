/* SPDX-License-Identifier: Apache-2.0 */
/* A demo while it is being made: where its programs and files are, the runs made so far, and what to say meanwhile. */
#ifndef WEIR_TOOLS_DEMO_SESSION_H
#define WEIR_TOOLS_DEMO_SESSION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/demo/demo.h"
#include "tools/demo/options.h"

struct session {
    const struct options *options;
    char train[PATH_MAX], replay[PATH_MAX], config[PATH_MAX], out[PATH_MAX];
    FILE *say; /* where progress goes: standard output, or error when the JSON goes to the former */
    bool live; /* `say` is a terminal: a line is written again and again */
    double began;
    struct demo demo;
    struct run measured, per_stream, weir, offload, without, small, large;
    int signal;     /* that ended it; 0: none */
    bool bad_input; /* what was asked for is why there is no answer */
};

/* Finds programs and configuration, makes the folder. Gives false with a sentence. */
bool session_open(struct session *session, const struct options *options, char *message);
void session_close(struct session *session);
double session_seconds(const struct session *session);

struct train_job {
    const char *name; /* of the run */
    const char *file; /* its files in the folder: FILE.json, FILE.log, FILE.trace.rankN */
    const char *what; /* said while it runs */
    const char *policy;
    bool offload, trace, timeline;
    size_t capacity_bytes;
    int64_t batch; /* 0: as the config says */
    int64_t steps; /* 0: as the options or the config say */
};
/* Runs weir-train and reads its report; out of memory is an answer. Gives false when there is none: it has said why. */
bool session_train(struct session *session, const struct train_job *job, struct run *run);
/* Replays a rank's trace of a run to find the smallest device. */
bool session_replay(struct session *session, const char *trace_file, int64_t rank, const char *policy, const char *file,
                    const char *what, double *min_capacity_ratio);
/* Removes the traces of all ranks of a run, unless they are to be kept. */
void session_drop_traces(const struct session *session, const char *file, size_t ranks);
/* "DIR/FILE.SUFFIX" */
void session_path(const struct session *session, const char *file, const char *suffix, char path[PATH_MAX]);

#endif
