/* SPDX-License-Identifier: Apache-2.0 */
/* Beside runs.h, for tests that look at one run after another. */
#ifndef WEIR_TESTS_TOOLS_REPLAY_SUPPORT_H
#define WEIR_TESTS_TOOLS_REPLAY_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runs.h"

enum { MIB = 1 << 20 };

/* To be looked at before the next. */
static inline const struct outcome *run_it(const struct setup *setup) {
    static struct outcome outcome;
    outcome = run_one(setup);
    return &outcome;
}

static inline void assert_completed(const struct outcome *outcome) {
    if (outcome->ending == ENDED_OUT_OF_MEMORY)
        fail_msg("line %u: out of memory: %s", outcome->failed_line, outcome->report);
    if (outcome->ending != ENDED_COMPLETED) fail_msg("%s", outcome->why);
}

#endif
