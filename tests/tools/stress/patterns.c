/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns give steps that can be made, come to an end, and do what they are named for. A thread is played here: each
 * request is granted, but where the test refuses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/stress/patterns.h"

enum { MOST_BLOCKS = 4096, LEVEL = 1 << 22, STREAMS = 4 };

static const struct law small = {.kind = LAW_LOG, .least = 512, .most = LEVEL / 8};

struct played {
    struct view view;
    struct draw draw;
    struct pattern pattern;
    size_t bytes[MOST_BLOCKS];
    uint32_t home[MOST_BLOCKS];
    size_t peak_bytes;
};

static struct played play(enum pattern_kind kind, uint64_t seed) {
    struct played played = {
        .view = {.level_bytes = LEVEL, .most_blocks = MOST_BLOCKS, .streams = STREAMS},
        .draw = {.random = {seed}, .law = &small},
    };
    pattern_begin(&played.pattern, kind);
    return played;
}

static struct step step_of(struct played *played) {
    const struct step step = pattern_next(&played->pattern, &played->view, &played->draw);
    if (step.kind == STEP_FREE || step.kind == STEP_USE) assert_true(step.block < played->view.blocks);
    if (step.kind == STEP_ALLOC) assert_true(step.bytes >= 1 && played->view.blocks < MOST_BLOCKS);
    if (step.kind != STEP_FREE) assert_true(step.stream < played->view.streams);
    return step;
}

static void make(struct played *played, const struct step *step, bool refuse) {
    struct view *view = &played->view;
    if (step->kind == STEP_FREE) {
        view->live_bytes -= played->bytes[step->block];
        played->bytes[step->block] = played->bytes[--view->blocks];
        played->home[step->block] = played->home[view->blocks];
        view->refused = false;
    } else if (step->kind == STEP_ALLOC && refuse) {
        view->refused = true;
    } else if (step->kind == STEP_ALLOC) {
        played->bytes[view->blocks] = step->bytes;
        played->home[view->blocks++] = step->stream;
        view->live_bytes += step->bytes;
        view->refused = false;
        if (view->live_bytes > played->peak_bytes) played->peak_bytes = view->live_bytes;
    }
}

static void play_cycle(struct played *played, size_t most_steps, unsigned refused_once_in) {
    for (size_t steps = 0; !played->pattern.over; steps++) {
        const struct step step = step_of(played);
        assert_true(steps < most_steps);
        make(played, &step, refused_once_in > 0 && random_once_in(&played->draw.random, refused_once_in));
    }
}

static void each_cycle_ends_whatever_is_refused(void **state) {
    (void)state;
    for (int kind = 0; kind < PATTERNS; kind++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct played played = play((enum pattern_kind)kind, seed);
            played.view.streams = seed % 2 == 0 ? STREAMS : 1;
            for (int cycle = 0; cycle < 3; cycle++) {
                play_cycle(&played, 100000, seed % 4 == 0 ? 0 : (unsigned)seed % 8 + 1 + (seed % 8 == 0));
                pattern_begin(&played.pattern, (enum pattern_kind)kind);
            }
        }
}

static void the_level_is_reached_and_not_left_behind(void **state) {
    (void)state;
    for (int kind = 0; kind < PATTERNS; kind++) {
        struct played played = play((enum pattern_kind)kind, 1);
        for (int cycle = 0; cycle < 8; cycle++) {
            pattern_begin(&played.pattern, (enum pattern_kind)kind);
            play_cycle(&played, 100000, 0);
        }
        assert_true(played.peak_bytes >= LEVEL);
        assert_true(played.peak_bytes < LEVEL + LEVEL / 2);
    }
}

static void blocks_that_others_took_are_not_missed(void **state) {
    (void)state;
    for (int kind = 0; kind < PATTERNS; kind++) {
        struct played played = play((enum pattern_kind)kind, 7);
        for (int steps = 0; steps < 20000; steps++) {
            if (played.pattern.over) pattern_begin(&played.pattern, (enum pattern_kind)kind);
            const struct step step = step_of(&played);
            make(&played, &step, false);
            if (steps % 500 == 499) played.view.blocks = 0, played.view.live_bytes = 0;
        }
    }
}

static void a_ramp_frees_all(void **state) {
    (void)state;
    struct played played = play(PATTERN_RAMP, 2);
    play_cycle(&played, 100000, 0);
    assert_int_equal(played.view.blocks, 0);
    assert_int_equal(played.view.live_bytes, 0);
}

static void a_sawtooth_keeps_a_part(void **state) {
    (void)state;
    struct played played = play(PATTERN_SAWTOOTH, 3);
    play_cycle(&played, 100000, 0);
    assert_in_range(played.view.live_bytes, 1, LEVEL / 4);
}

/* Blocks are marked by their order in `bytes` having the same size: which ones went is told by their streams. */
static void fragment_frees_every_other_small_block_and_asks_for_larger_ones(void **state) {
    (void)state;
    struct played played = play(PATTERN_FRAGMENT, 4);
    struct step step = step_of(&played);
    const size_t bytes = step.bytes;
    while (step.kind == STEP_ALLOC) {
        make(&played, &step, false);
        step = step_of(&played);
    }
    const uint32_t all = played.view.blocks;
    for (uint32_t i = 0; i < all; i++) played.home[i] = i; /* a name for each */
    while (step.kind == STEP_FREE) {
        assert_int_equal(played.home[step.block] % 2, all % 2);
        make(&played, &step, false);
        step = step_of(&played);
    }
    assert_int_equal(played.view.blocks, all - all / 2);
    assert_true(step.bytes >= 4 * bytes);
}

static void the_adversary_asks_for_what_a_held_stream_has_just_freed(void **state) {
    (void)state;
    struct played played = play(PATTERN_ADVERSARY, 5);
    unsigned rounds = 0;
    struct step before[4] = {0}; /* hold, alloc, use, free */
    while (!played.pattern.over) {
        const struct step step = step_of(&played);
        const bool round = before[0].kind == STEP_HOLD && before[1].kind == STEP_ALLOC && before[2].kind == STEP_USE;
        if (step.kind == STEP_ALLOC && round && before[3].kind == STEP_FREE) {
            assert_int_equal(step.bytes, before[1].bytes);
            assert_int_equal(before[2].stream, before[0].stream);
            assert_int_not_equal(step.stream, before[0].stream);
            rounds++;
        }
        make(&played, &step, false);
        memmove(before, before + 1, 3 * sizeof *before);
        before[3] = step;
    }
    assert_int_equal(rounds, 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cycle_ends_whatever_is_refused),
        cmocka_unit_test(the_level_is_reached_and_not_left_behind),
        cmocka_unit_test(blocks_that_others_took_are_not_missed),
        cmocka_unit_test(a_ramp_frees_all),
        cmocka_unit_test(a_sawtooth_keeps_a_part),
        cmocka_unit_test(fragment_frees_every_other_small_block_and_asks_for_larger_ones),
        cmocka_unit_test(the_adversary_asks_for_what_a_held_stream_has_just_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
