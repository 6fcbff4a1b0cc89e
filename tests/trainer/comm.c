/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over MPI on 4 ranks give what they promise, and end when they cannot. The ranks are ranks_program. */
#include <string.h>

#include "spawn.h"

static struct spawned s;

/* What a rank finds wrong it says with the name of its source. */
static void play(const char *scene) {
    SPAWN(&s, RANKS_PROGRAM, (char *)(uintptr_t)scene);
    if (strstr(s.err_text, "ranks_program.c")) fail_msg("%s", s.err_text);
}

static void collectives_of_all_lanes_and_groups_at_once_give_the_plain_results(void **state) {
    (void)state;
    play("collectives");
    ASSERT_STATUS(&s, 0);
}

static void rows_arrive_when_some_parts_are_empty(void **state) {
    (void)state;
    play("empty_parts");
    ASSERT_STATUS(&s, 0);
    ASSERT_SOON(&s);
}

static void host_collectives_and_texts_arrive(void **state) {
    (void)state;
    play("host");
    ASSERT_STATUS(&s, 0);
}

static int count_of(const char *text, const char *what) {
    int count = 0;
    for (; (text = strstr(text, what)); text++) count++;
    return count;
}

static void says_on_all_ranks(const char *scene, const char *sentence) {
    play(scene);
    ASSERT_STATUS(&s, 1);
    ASSERT_SAYS(&s, out, sentence);
    assert_int_equal(count_of(s.out_text, sentence), 4);
    ASSERT_SOON(&s);
}

static void a_pair_that_disagrees_about_a_size_is_named_on_every_rank(void **state) {
    (void)state;
    says_on_all_ranks("too_few", "rank 0 sends rank 1 32 bytes, but rank 1 expects 64");
    says_on_all_ranks("too_many", "rank 0 sends rank 1 more than the 32 bytes that rank 1 expects");
}

static void an_empty_part_that_only_one_side_sees_is_named_too(void **state) {
    (void)state;
    says_on_all_ranks("unexpected", "rank 0 sends rank 1 more than the 0 bytes that rank 1 expects");
    says_on_all_ranks("missing", "rank 0 sends rank 1 0 bytes, but rank 1 expects 32");
}

static void a_failure_ends_what_every_rank_waits_for_and_texts_still_arrive(void **state) {
    (void)state;
    play("failure");
    ASSERT_STATUS(&s, 3);
    ASSERT_SOON(&s);
}

/* It takes as long as rank 0 waits for what does not come. */
static void a_rank_that_hangs_after_a_failure_holds_nobody_up_for_long(void **state) {
    (void)state;
    play("silent");
    ASSERT_STATUS(&s, 3);
    ASSERT_SAYS(&s, out, "rank 0 has what it can have");
    ASSERT_SOON(&s);
}

static void a_mesh_that_the_world_does_not_divide_into_is_refused(void **state) {
    (void)state;
    play("uneven");
    ASSERT_STATUS(&s, 97);
    ASSERT_SAYS(&s, err, "refused");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_of_all_lanes_and_groups_at_once_give_the_plain_results),
        cmocka_unit_test(rows_arrive_when_some_parts_are_empty),
        cmocka_unit_test(host_collectives_and_texts_arrive),
        cmocka_unit_test(a_pair_that_disagrees_about_a_size_is_named_on_every_rank),
        cmocka_unit_test(an_empty_part_that_only_one_side_sees_is_named_too),
        cmocka_unit_test(a_failure_ends_what_every_rank_waits_for_and_texts_still_arrive),
        cmocka_unit_test(a_rank_that_hangs_after_a_failure_holds_nobody_up_for_long),
        cmocka_unit_test(a_mesh_that_the_world_does_not_divide_into_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
