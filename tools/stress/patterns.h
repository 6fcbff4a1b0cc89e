/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread does next, as a function of what it has live and of chance; no device is touched here.
 *
 * churn: allocations and frees in turn, near the level that was asked for.
 * ramp: up to the level, then all is freed: the newest first, the oldest first, or in any order.
 * sawtooth: up to the level in blocks of another size each time, then down to a quarter of it in any order.
 * fragment: many small blocks, every other one freed, then large ones, for which memory must be put together.
 * adversary: memory that a stream held back still uses is freed, and as much is asked for at once on another one. */
#ifndef WEIR_STRESS_PATTERNS_H
#define WEIR_STRESS_PATTERNS_H

#include "laws.h"

/* X(name, text) */
#define PATTERN_LIST(X)                                                                                                \
    X(CHURN, "churn") X(RAMP, "ramp") X(SAWTOOTH, "sawtooth") X(FRAGMENT, "fragment") X(ADVERSARY, "adversary")

enum pattern_kind {
#define PATTERN_ENUM(name, text) PATTERN_##name,
    PATTERN_LIST(PATTERN_ENUM)
#undef PATTERN_ENUM
        PATTERNS
};
extern const char *const pattern_names[PATTERNS];

enum step_kind { STEP_ALLOC, STEP_FREE, STEP_USE, STEP_HOLD };

struct step {
    enum step_kind kind;
    size_t bytes;    /* STEP_ALLOC */
    uint32_t block;  /* STEP_FREE, STEP_USE: which of the thread's blocks, the newest is the last */
    uint32_t stream; /* STEP_ALLOC, STEP_USE, STEP_HOLD */
};

/* What a thread has. A block that is freed leaves its place to the last one. */
struct view {
    size_t live_bytes, level_bytes;
    uint32_t blocks, most_blocks, streams;
    bool refused; /* the last request, and nothing has been freed since */
};

struct pattern {
    enum pattern_kind kind;
    unsigned phase, rounds; /* of this cycle */
    size_t bytes;           /* of the blocks in hand */
    uint32_t cursor, stream;
    unsigned order;
    bool over; /* the cycle is; another one may begin */
};

/* Chance and sizes of one thread. */
struct draw {
    struct random random;
    const struct law *law;
    size_t cursor;
};

void pattern_begin(struct pattern *pattern, enum pattern_kind kind);
/* Needs: the cycle is not over, streams > 0. Gives: a step that can be made with what the view says; its last one sets
 * `over`. */
struct step pattern_next(struct pattern *pattern, const struct view *view, struct draw *draw);

#endif
