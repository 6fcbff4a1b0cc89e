/* SPDX-License-Identifier: Apache-2.0 */
/* Each wait of the trainer is needed: with it taken out, the watch ends a run that nothing held back and in which, for
 * all that is known, nothing went wrong. Those that order no memory are listed in trainer/streams.h with the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spawn.h"

static const char *const caught[] = {
    "train.plan",          "train.rows",          "train.forward.came", "train.forward.back",
    "train.backward.came", "train.backward.back", "train.weights",      "train.cast",
    "train.reduced",       "train.counts",        "train.sums",
};
static const char *const redundant[] = {"train.released", "train.summed", "train.step", "train.updated"};
/* Each of the two is redundant while there is the other. */
static const char each_for_the_other[] = "train.updated,train.step";

static struct spawned s;

/* A step and a validation of two ranks; with Muon, with saved inputs sent away. */
static void train_without(const char *sites) {
    char machine[] = "watch:abort,clock:virtual";
    if (sites)
        setenv("WEIR_MUTATE", sites, 1);
    else
        unsetenv("WEIR_MUTATE");
    setenv("WEIR_EMU", machine, 1);
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--dim=32", "--ffn=32", "--layers=3", "--seq=32", "--eval-every=1",
          "--eval-batches=2", "--loss-chunk=32", "--steps=2", "--no-progress", "--host-budget=8M", "--offload",
          "--comm=local", "--ranks=2");
    unsetenv("WEIR_MUTATE");
}

static void need_mutations(void) {
#if defined(NDEBUG)
    print_message("skipped: waits can be taken out only in builds with assertions\n");
    skip();
#endif
}

static void a_run_with_all_its_waits_is_clean(void **state) {
    (void)state;
    train_without(NULL);
    ASSERT_STATUS(&s, 0);
}

static void expect_caught(const char *sites) {
    enum { ABORTED = 128 + 6 };
    train_without(sites);
    if (s.status != ABORTED || !strstr(s.err_text, "watch:abort: "))
        fail_msg("without %s: status %d; %s", sites, s.status, s.err_text);
}

static void the_watch_catches_every_wait_that_is_taken_out(void **state) {
    (void)state;
    need_mutations();
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) expect_caught(caught[i]);
    expect_caught(each_for_the_other);
    print_message("mutations: %zu caught, %zu redundant\n", sizeof caught / sizeof *caught,
                  sizeof redundant / sizeof *redundant);
}

static void waits_that_order_no_memory_are_not_missed(void **state) {
    (void)state;
    need_mutations();
    for (size_t i = 0; i < sizeof redundant / sizeof *redundant; i++) {
        train_without(redundant[i]);
        if (s.status != 0) fail_msg("without %s: status %d; %s", redundant[i], s.status, s.err_text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_all_its_waits_is_clean),
        cmocka_unit_test(the_watch_catches_every_wait_that_is_taken_out),
        cmocka_unit_test(waits_that_order_no_memory_are_not_missed),
    };
    return cmocka_run_group_tests_name("trainer_mutations", tests, spawn_text_write, spawn_text_remove);
}
