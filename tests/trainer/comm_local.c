/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads of one process: collectives give what they promise under both clocks, and end when they cannot. The
 * ranks are ranks_program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spawn.h"

static struct spawned s;

static const char *const clocks[] = {"clock:real", "clock:virtual", "clock:virtual,seed:1", "clock:virtual,seed:2"};
enum { CLOCKS = sizeof clocks / sizeof *clocks, VIRTUAL = 1 };

/* What a rank finds wrong it says with the name of its source. */
static void play(const char *scene, const char *clock) {
    char machine[64];
    snprintf(machine, sizeof machine, "%s,watch:abort", clock);
    setenv("WEIR_EMU", machine, 1);
    SPAWN(&s, RANKS_PROGRAM, (char *)(uintptr_t)scene, "local");
    unsetenv("WEIR_EMU");
    if (strstr(s.err_text, "ranks_program.c")) fail_msg("%s: %s", clock, s.err_text);
}

static void play_under_all_clocks(const char *scene, int status) {
    for (int i = 0; i < CLOCKS; i++) {
        play(scene, clocks[i]);
        ASSERT_STATUS(&s, status);
    }
}

static void collectives_of_all_lanes_and_groups_at_once_give_the_plain_results(void **state) {
    (void)state;
    play_under_all_clocks("collectives", 0);
}

static void rows_arrive_when_some_parts_are_empty(void **state) {
    (void)state;
    play_under_all_clocks("empty_parts", 0);
}

static void host_collectives_and_texts_arrive(void **state) {
    (void)state;
    play_under_all_clocks("host", 0);
}

static void the_same_seed_gives_the_same_order_of_arrivals_and_another_seed_another(void **state) {
    (void)state;
    char order[3][32];
    const char *const seeds[] = {"clock:virtual,seed:11", "clock:virtual,seed:11", "clock:virtual,seed:12"};
    for (int i = 0; i < 3; i++) {
        play("collectives", seeds[i]);
        const char *at = strstr(s.out_text, "order ");
        assert_non_null(at);
        memcpy(order[i], at, 22);
        order[i][22] = 0;
    }
    assert_string_equal(order[0], order[1]);
    assert_string_not_equal(order[0], order[2]);
}

static int count_of(const char *text, const char *what) {
    int count = 0;
    for (; (text = strstr(text, what)); text++) count++;
    return count;
}

static void says_on_all_ranks(const char *scene, const char *sentence) {
    for (int i = 0; i < CLOCKS; i++) {
        play(scene, clocks[i]);
        ASSERT_STATUS(&s, 1);
        ASSERT_SAYS(&s, out, sentence);
        assert_int_equal(count_of(s.out_text, sentence), 4);
    }
}

static void a_pair_that_disagrees_about_a_size_is_named_on_every_rank(void **state) {
    (void)state;
    says_on_all_ranks("too_few", "rank 0 sends rank 1 32 bytes, but rank 1 expects 64");
    says_on_all_ranks("too_many", "rank 0 sends rank 1 64 bytes, but rank 1 expects 32");
    says_on_all_ranks("unexpected", "rank 0 sends rank 1 32 bytes, but rank 1 expects 0");
    says_on_all_ranks("missing", "rank 0 sends rank 1 0 bytes, but rank 1 expects 32");
}

static void ranks_that_are_in_different_collectives_are_told_so(void **state) {
    (void)state;
    says_on_all_ranks("other_collective", "queues a collective \"all-");
    says_on_all_ranks("other_host_collective", "collectives of the host differ: rank ");
}

static void a_failure_ends_what_every_rank_waits_for_and_texts_still_arrive(void **state) {
    (void)state;
    play_under_all_clocks("failure", 3);
}

static void under_the_virtual_clock_a_rank_that_never_comes_is_an_error_and_no_hang(void **state) {
    (void)state;
    for (int i = VIRTUAL; i < CLOCKS; i++) {
        play("leaver", clocks[i]);
        ASSERT_STATUS(&s, 1);
    }
}

static void a_mesh_that_the_world_does_not_divide_into_is_refused(void **state) {
    (void)state;
    play_under_all_clocks("uneven", 97);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_of_all_lanes_and_groups_at_once_give_the_plain_results),
        cmocka_unit_test(rows_arrive_when_some_parts_are_empty),
        cmocka_unit_test(host_collectives_and_texts_arrive),
        cmocka_unit_test(the_same_seed_gives_the_same_order_of_arrivals_and_another_seed_another),
        cmocka_unit_test(a_pair_that_disagrees_about_a_size_is_named_on_every_rank),
        cmocka_unit_test(ranks_that_are_in_different_collectives_are_told_so),
        cmocka_unit_test(a_failure_ends_what_every_rank_waits_for_and_texts_still_arrive),
        cmocka_unit_test(under_the_virtual_clock_a_rank_that_never_comes_is_an_error_and_no_hang),
        cmocka_unit_test(a_mesh_that_the_world_does_not_divide_into_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
