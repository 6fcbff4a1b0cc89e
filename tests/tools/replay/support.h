/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of runs share: traces from text, runs in processes of their own. */
#ifndef WEIR_TESTS_REPLAY_SUPPORT_H
#define WEIR_TESTS_REPLAY_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/replay/run.h"

enum { MIB = 1 << 20 };

static inline void read_text(const char *text, struct trace *trace) {
    char path[] = "/tmp/weir_replay_test_XXXXXX", why[600];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    const bool read = trace_read(path, trace, why, sizeof why);
    unlink(path);
    if (!read) fail_msg("%s", why);
}

/* A run of its own process; its outcome is to be looked at before the next. */
static inline const struct outcome *run_it(const struct setup *setup) {
    static struct outcome outcome;
    char why[300];
    if (!run_many(setup, 1, 1, &outcome, why, sizeof why)) fail_msg("%s", why);
    return &outcome;
}

static inline void assert_completed(const struct outcome *outcome) {
    if (outcome->ending == ENDED_OUT_OF_MEMORY)
        fail_msg("line %u: out of memory: %s", outcome->failed_line, outcome->report);
    if (outcome->ending != ENDED_COMPLETED) fail_msg("%s", outcome->why);
}

#endif
