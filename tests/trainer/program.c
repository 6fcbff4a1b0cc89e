/* SPDX-License-Identifier: Apache-2.0 */
/* weir-train refuses bad input once, before a rank is started, trains where the input is good, and ends as it says. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spawn.h"

#define SMALL "--dim=32", "--ffn=32", "--layers=2", "--seq=32", "--eval-every=0", "--loss-chunk=32"

static struct spawned s;

static void refuses(const char *sentence) {
    ASSERT_STATUS(&s, 2);
    ASSERT_SAYS(&s, err, sentence);
    assert_ptr_equal(strchr(s.err_text, '\n'), s.err_text + strlen(s.err_text) - 1); /* one line */
    assert_string_equal(s.out_text, "");
}

static void an_unknown_option_names_the_nearest(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--bach=3");
    refuses("weir-train: unknown option --bach; the nearest known one is --batch\n");
}

static void a_world_that_the_layout_does_not_divide_is_refused(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--ranks=3", "--data", spawn_text);
    refuses("weir-train: --ep is 2, which does not divide --ranks, 3\n");
}

static void a_value_out_of_range_is_refused(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--layers=513");
    refuses("weir-train: --layers is 513, outside its range 1 to 512 layers\n");
}

static void a_missing_text_is_refused(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--data=/no/such/text");
    refuses("weir-train: --data /no/such/text can't be read: No such file or directory\n");
}

static void a_report_that_could_not_be_written_is_refused_at_the_start(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--json=/no/such/folder/report.json");
    refuses("weir-train: --json /no/such/folder/report.json can't be written: No such file or directory\n");
}

static void the_answers_of_the_options_end_well(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--help");
    ASSERT_STATUS(&s, 0);
    ASSERT_SAYS(&s, out, "--kv-heads=N");
    SPAWN(&s, WEIR_TRAIN, "--man");
    ASSERT_STATUS(&s, 0);
    ASSERT_SAYS(&s, out, "\n.B \\-\\-kv\\-heads=N\n");
    SPAWN(&s, WEIR_TRAIN, "--version");
    ASSERT_STATUS(&s, 0);
    SPAWN(&s, WEIR_TRAIN, "--dump-config", "--steps=5");
    ASSERT_STATUS(&s, 0);
    ASSERT_SAYS(&s, out, "  steps: 5\n");
}

static void a_run_reports_its_steps_and_ends_with_0(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--steps=3", SMALL);
    ASSERT_STATUS(&s, 0);
    ASSERT_SAYS(&s, out, "4 ranks (ep 2 x fsdp 2)");
    ASSERT_SAYS(&s, out, "step     3  loss ");
    ASSERT_SAYS(&s, out, "completed after 3 steps");
    assert_string_equal(s.err_text, "");
}

static void one_rank_runs_without_mpirun(void **state) {
    (void)state;
    SPAWN(&s, "/usr/bin/env", "PATH=/nowhere", WEIR_TRAIN, "--ranks=1", "--ep=1", "--data", spawn_text, "--steps=2",
          SMALL);
    ASSERT_STATUS(&s, 0);
    ASSERT_SAYS(&s, out, "1 rank (ep 1 x fsdp 1)");
}

static void a_user_may_start_mpirun(void **state) {
    (void)state;
    SPAWN(&s, "/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun",
          "--oversubscribe", "-n", "2", WEIR_TRAIN, "--data", spawn_text, "--steps=2", SMALL);
    ASSERT_STATUS(&s, 0);
    ASSERT_SAYS(&s, out, "2 ranks (ep 2 x fsdp 1)");
    SPAWN(&s, "/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun",
          "--oversubscribe", "-n", "3", WEIR_TRAIN, "--data", spawn_text);
    ASSERT_STATUS(&s, 2);
    ASSERT_SAYS(&s, err, "weir-train: --ep is 2, which does not divide --ranks, 3\n");
}

static void an_interrupt_in_the_middle_of_training_ends_all_ranks(void **state) {
    (void)state;
    spawn_start(&s, (char *const[]){WEIR_TRAIN, "--data", spawn_text, "--steps=1000000", SMALL, NULL});
    spawn_read_until(&s, "step     2  loss");
    kill(s.pid, SIGINT);
    spawn_finish(&s);
    ASSERT_STATUS(&s, 130);
    assert_int_equal(spawn_count(spawn_text), 0);
}

static void kill_a_rank(void) {
    pid_t rank = spawn_find(WEIR_TRAIN, spawn_text, s.pid);
    assert_true(rank > 0);
    kill(rank, SIGKILL);
}

static void a_rank_that_dies_in_the_middle_of_training_is_named(void **state) {
    (void)state;
    spawn_start(&s, (char *const[]){WEIR_TRAIN, "--data", spawn_text, "--steps=1000000", SMALL, NULL});
    spawn_read_until(&s, "step     2  loss");
    kill_a_rank();
    spawn_finish(&s);
    ASSERT_STATUS(&s, 1);
    ASSERT_SAYS(&s, err, "was killed by signal 9 (Killed); all other ranks have ended\n");
    ASSERT_SOON(&s);
    assert_int_equal(spawn_count(spawn_text), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_option_names_the_nearest),
        cmocka_unit_test(a_world_that_the_layout_does_not_divide_is_refused),
        cmocka_unit_test(a_value_out_of_range_is_refused),
        cmocka_unit_test(a_missing_text_is_refused),
        cmocka_unit_test(a_report_that_could_not_be_written_is_refused_at_the_start),
        cmocka_unit_test(the_answers_of_the_options_end_well),
        cmocka_unit_test(a_run_reports_its_steps_and_ends_with_0),
        cmocka_unit_test(one_rank_runs_without_mpirun),
        cmocka_unit_test(a_user_may_start_mpirun),
        cmocka_unit_test(an_interrupt_in_the_middle_of_training_ends_all_ranks),
        cmocka_unit_test(a_rank_that_dies_in_the_middle_of_training_is_named),
    };
    return cmocka_run_group_tests(tests, spawn_text_write, spawn_text_remove);
}
