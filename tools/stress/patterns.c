/* SPDX-License-Identifier: Apache-2.0 */
#include "patterns.h"

enum { CHURN_STEPS = 1024, ADVERSARY_ROUNDS = 64, SMALLEST = 512 };

const char *const pattern_names[PATTERNS] = {
#define PATTERN_NAME(name, text) text,
    PATTERN_LIST(PATTERN_NAME)
#undef PATTERN_NAME
};

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static uint32_t any_stream(const struct view *view, struct draw *draw) {
    return (uint32_t)random_below(&draw->random, view->streams);
}

/* Another one than this, where there is one. */
static uint32_t other_stream(const struct view *view, struct draw *draw, uint32_t stream) {
    if (view->streams == 1) return stream;
    return (stream + 1 + (uint32_t)random_below(&draw->random, view->streams - 1)) % view->streams;
}

static struct step ask(size_t bytes, uint32_t stream) { return (struct step){STEP_ALLOC, bytes, 0, stream}; }

static struct step ask_by_law(const struct view *view, struct draw *draw) {
    const size_t bytes = law_size(draw->law, &draw->random, &draw->cursor, view->level_bytes);
    return ask(bytes, any_stream(view, draw));
}

static struct step give_up(uint32_t block) { return (struct step){STEP_FREE, 0, block, 0}; }

static struct step give_up_any(const struct view *view, struct draw *draw) {
    return give_up((uint32_t)random_below(&draw->random, view->blocks));
}

static bool full(const struct view *view) {
    return view->refused || view->live_bytes >= view->level_bytes || view->blocks >= view->most_blocks;
}

/* ---- patterns --------------------------------------------------------------------------------------------------- */

static struct step churn(struct pattern *pattern, const struct view *view, struct draw *draw) {
    const bool low = view->live_bytes < view->level_bytes / 4 * 3;
    const bool up = low ? !random_once_in(&draw->random, 4) : random_once_in(&draw->random, 2);
    pattern->over = ++pattern->rounds >= CHURN_STEPS;
    return view->blocks == 0 || (up && !full(view)) ? ask_by_law(view, draw) : give_up_any(view, draw);
}

static struct step ramp(struct pattern *pattern, const struct view *view, struct draw *draw) {
    if (pattern->phase == 0 && (view->blocks == 0 || !full(view))) return ask_by_law(view, draw);
    if (pattern->phase == 0) pattern->order = (unsigned)random_below(&draw->random, 3);
    pattern->phase = 1;
    pattern->over = view->blocks <= 1;
    if (pattern->order == 0) return give_up(view->blocks - 1);
    return pattern->order == 1 ? give_up(0) : give_up_any(view, draw);
}

static struct step sawtooth(struct pattern *pattern, const struct view *view, struct draw *draw) {
    if (pattern->bytes == 0) pattern->bytes = view->level_bytes >> (2 + random_below(&draw->random, 8));
    if (pattern->phase == 0 && (view->blocks == 0 || !full(view))) {
        const size_t bytes = law_size(draw->law, &draw->random, &draw->cursor, pattern->bytes);
        return ask(bytes, any_stream(view, draw));
    }
    pattern->phase = 1;
    pattern->over = view->blocks <= 1 || view->live_bytes < view->level_bytes / 4;
    return give_up_any(view, draw);
}

static struct step fragment_fill(struct pattern *pattern, const struct view *view, struct draw *draw) {
    return ask(pattern->bytes, any_stream(view, draw));
}

/* Small blocks; holes; large blocks; nothing. */
static struct step fragment(struct pattern *pattern, const struct view *view, struct draw *draw) {
    if (pattern->bytes == 0) {
        pattern->bytes = view->level_bytes >> (8 + random_below(&draw->random, 5));
        if (pattern->bytes < SMALLEST) pattern->bytes = SMALLEST;
    }
    if (pattern->phase == 0) {
        if (view->blocks == 0 || !full(view)) return fragment_fill(pattern, view, draw);
        pattern->phase = 1;
        pattern->cursor = view->blocks;
        pattern->bytes *= 4 + random_below(&draw->random, 28);
    }
    if (pattern->phase == 1 && pattern->cursor >= 2 && pattern->cursor <= view->blocks + 1) {
        pattern->cursor -= 2; /* the last block, one that is kept, takes its place */
        return give_up(pattern->cursor);
    }
    if (pattern->phase <= 2) {
        pattern->phase = 2;
        if (view->blocks == 0 || !full(view)) return fragment_fill(pattern, view, draw);
    }
    pattern->phase = 3;
    pattern->over = view->blocks <= 1;
    return give_up_any(view, draw);
}

/* Full first, so that nothing else is there to give. Then in rounds: room is made for a block; a stream is held back; the
 * block is one of that stream's, or used by it; it is freed; another stream asks for as much. */
static struct step adversary(struct pattern *pattern, const struct view *view, struct draw *draw) {
    if (pattern->phase == 0) {
        if (view->blocks == 0 || !full(view)) return ask_by_law(view, draw);
        pattern->phase = 1;
    }
    if (pattern->bytes == 0) {
        pattern->bytes = law_size(draw->law, &draw->random, &draw->cursor, view->level_bytes / 4 + 1);
        pattern->stream = any_stream(view, draw);
        pattern->order = (unsigned)random_below(&draw->random, 2);
    }
    if (pattern->phase == 1) {
        if (view->blocks > 0 && (full(view) || view->live_bytes + pattern->bytes > view->level_bytes))
            return give_up_any(view, draw);
        pattern->phase = 2;
        return (struct step){STEP_HOLD, 0, 0, pattern->stream};
    }
    const uint32_t held = pattern->stream;
    pattern->phase++;
    if (pattern->phase == 3) return ask(pattern->bytes, pattern->order == 0 ? held : other_stream(view, draw, held));
    const bool there = view->blocks > 0 && !view->refused; /* the block that was asked for */
    if (pattern->phase == 4 && there) return (struct step){STEP_USE, 0, view->blocks - 1, held};
    if (pattern->phase == 5 && there) return give_up(view->blocks - 1);
    const size_t bytes = pattern->bytes;
    pattern->bytes = 0;
    pattern->phase = 1;
    pattern->over = ++pattern->rounds >= ADVERSARY_ROUNDS;
    return ask(bytes, other_stream(view, draw, held));
}

void pattern_begin(struct pattern *pattern, enum pattern_kind kind) { *pattern = (struct pattern){.kind = kind}; }

struct step pattern_next(struct pattern *pattern, const struct view *view, struct draw *draw) {
    static struct step (*const next[PATTERNS])(struct pattern *, const struct view *, struct draw *) = {
        [PATTERN_CHURN] = churn,       [PATTERN_RAMP] = ramp,           [PATTERN_SAWTOOTH] = sawtooth,
        [PATTERN_FRAGMENT] = fragment, [PATTERN_ADVERSARY] = adversary,
    };
    /* what was to be freed has gone to other threads: from the beginning */
    if (view->blocks == 0 && pattern->phase > 0 && pattern->kind != PATTERN_ADVERSARY)
        pattern_begin(pattern, pattern->kind);
    return next[pattern->kind](pattern, view, draw);
}
