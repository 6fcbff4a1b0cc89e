/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/replay_goals.h"

#include <stdlib.h>
#include <string.h>

#define NEAR_LIVE (48.0 * (1 << 20)) /* bytes above live that do anyway */

const char *const law_names[LAWS] = {"page", "handle", "range"};
const double goal_capacities[GOAL_POINTS] = {1.02, 1.05, 1.10, 1.25};
const char *const family_names[FAMILIES] = {"moe", "dense repeating", "others"};

/* ---- which family ------------------------------------------------------------------------------------------------ */

enum { MOST_PASSES = 4096 };

static uint64_t mixed(uint64_t sum, uint64_t value) {
    sum = (sum ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return sum ^ sum >> 29;
}

/* A request says its stream and size; what is done to a block also how many requests ago it was made. */
static uint64_t sum_of(const struct op *op, uint64_t requests, const uint64_t *made) {
    uint64_t sum = mixed(op->kind, op->stream);
    if (op->kind == OP_ALLOC) return mixed(sum, op->bytes);
    return mixed(sum, requests - made[op->block]);
}

static bool is_of_block(const struct op *op) {
    return op->kind == OP_ALLOC || op->kind == OP_FREE || op->kind == OP_FREE_ANY || op->kind == OP_FREE_AFTER ||
           op->kind == OP_NOTE;
}

/* A sum of each pass; 0 when there is no host memory. */
static size_t sum_passes(const struct trace *trace, uint64_t sums[MOST_PASSES]) {
    uint64_t requests = 0, *made = calloc((size_t)trace->block_count + 1, sizeof *made);
    size_t passes = 0;
    for (size_t i = 0; made != NULL && i < trace->op_count; i++) {
        const struct op *op = &trace->ops[i];
        if (op->kind == OP_ITERATION && passes == MOST_PASSES) break;
        if (op->kind == OP_ITERATION) sums[passes++] = 0;
        if (!is_of_block(op)) continue;
        if (op->kind == OP_ALLOC) made[op->block] = ++requests;
        if (passes > 0) sums[passes - 1] = mixed(sums[passes - 1], sum_of(op, requests, made));
    }
    free(made);
    return passes;
}

bool goal_trace_repeats(const struct trace *trace) {
    static uint64_t sums[MOST_PASSES];
    const size_t passes = sum_passes(trace, sums);
    if (passes < 4) return false;
    for (size_t i = 2; i + 1 < passes; i++)
        if (sums[i] != sums[1]) return false;
    return true;
}

size_t goal_third_of_the_same(const struct trace *trace) {
    static uint64_t sums[MOST_PASSES];
    const bool first_is_the_same = sum_passes(trace, sums) >= 2 && sums[0] == sums[1];
    return first_is_the_same ? 3 : 4;
}

enum family goal_family(const char *name, bool repeats) {
    const char *slash = strrchr(name, '/');
    if (strncmp(slash != NULL ? slash + 1 : name, "moe-", 4) == 0) return FAMILY_MOE;
    return repeats ? FAMILY_DENSE : FAMILY_OTHER;
}

/* ---- goals ------------------------------------------------------------------------------------------------------- */

struct goal goal_of_slowdown(enum family family, size_t law, size_t point) {
    static const double of_range[GOAL_POINTS] = {0.005, 0.003, 0.001, 0},
                        of_others[GOAL_POINTS] = {0.02, 0.013, 0.003, 0};
    if (family == FAMILY_DENSE) return (struct goal){0, 0};
    return (struct goal){law == LAW_RANGE ? of_range[point] : of_others[point], 0};
}

struct goal goal_of_honest(enum family family, size_t law) {
    if (family == FAMILY_DENSE) return (struct goal){1.01, 0};
    return law == LAW_RANGE ? (struct goal){1.02, NEAR_LIVE} : (struct goal){1.10, 0};
}

struct goal goal_of_smallest(void) {
    return (struct goal){1.01, NEAR_LIVE};
}

bool goal_met(struct goal goal, double value, double peak_bytes) {
    if (goal.at_most <= 0) return value < GOAL_ZERO;
    return value <= goal.at_most || (goal.or_bytes > 0 && (value - 1) * peak_bytes <= goal.or_bytes);
}
