/* SPDX-License-Identifier: Apache-2.0 */
/* Each wait of the trainer is needed: with it taken out, the watch ends a run that nothing held back and in which, for all
 * that is known, nothing went wrong. Those that order no memory are listed in trainer/streams.h with the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spawn.h"

static struct spawned s;

/* ---- what is run ------------------------------------------------------------------------------------------------- */

/* Two ranks; with Muon, with saved inputs sent away. */
#define TRAIN(...)                                                                                                     \
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--dim=32", "--ffn=32", "--layers=3", "--seq=32", "--loss-chunk=32",   \
          "--steps=2", "--no-progress", "--host-budget=8M", "--offload", "--comm=local", "--ranks=2", __VA_ARGS__)

/* Two steps, a validation after each. */
static void train(void) { TRAIN("--eval-every=1", "--eval-batches=2"); }
/* Two steps, after which the host waits for nothing more. */
static void train_only(void) { TRAIN("--eval-every=0"); }
/* Local ranks that close with collectives in flight. */
static void leave(void) { SPAWN(&s, RANKS_PROGRAM, "left", "local"); }

static const struct {
    const char *site;
    void (*run)(void);
} caught[] = {
    {"train.plan", train},         {"train.rows", train},          {"train.forward.came", train},
    {"train.forward.back", train}, {"train.backward.came", train}, {"train.backward.back", train},
    {"train.weights", train},      {"train.cast", train},          {"train.reduced", train},
    {"train.counts", train},       {"train.sums", train},          {"train.load", train},
    {"train.close", train_only},   {"comm.close", leave},
};
static const char *const redundant[] = {"train.released", "train.summed", "train.step", "train.times", "train.updated"};
/* Two of them are redundant while there is the third. */
static const char one_of_three[] = "train.step,train.times,train.updated";

enum { CAUGHT = sizeof caught / sizeof *caught, REDUNDANT = sizeof redundant / sizeof *redundant };

static void run_without(const char *sites, void (*run)(void)) {
    char machine[] = "watch:abort,clock:virtual";
    if (sites)
        setenv("WEIR_MUTATE", sites, 1);
    else
        unsetenv("WEIR_MUTATE");
    setenv("WEIR_EMU", machine, 1);
    run();
    unsetenv("WEIR_MUTATE");
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void need_mutations(void) {
#if defined(NDEBUG)
    print_message("skipped: waits can be taken out only in builds with assertions\n");
    skip();
#endif
}

static void a_run_with_all_its_waits_is_clean(void **state) {
    (void)state;
    void (*const all[])(void) = {train, train_only, leave};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        run_without(NULL, all[i]);
        ASSERT_STATUS(&s, 0);
    }
}

static void expect_caught(const char *sites, void (*run)(void)) {
    enum { ABORTED = 128 + 6 };
    run_without(sites, run);
    if (s.status != ABORTED || !strstr(s.err_text, "watch:abort: "))
        fail_msg("without %s: status %d; %s", sites, s.status, s.err_text);
}

static void the_watch_catches_every_wait_that_is_taken_out(void **state) {
    (void)state;
    need_mutations();
    for (size_t i = 0; i < CAUGHT; i++) expect_caught(caught[i].site, caught[i].run);
    expect_caught(one_of_three, train);
}

static void waits_that_order_no_memory_are_not_missed(void **state) {
    (void)state;
    need_mutations();
    for (size_t i = 0; i < REDUNDANT; i++) {
        run_without(redundant[i], train);
        if (s.status != 0) fail_msg("without %s: status %d; %s", redundant[i], s.status, s.err_text);
    }
    print_message("mutations: %d caught, %d redundant\n", CAUGHT, REDUNDANT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_all_its_waits_is_clean),
        cmocka_unit_test(the_watch_catches_every_wait_that_is_taken_out),
        cmocka_unit_test(waits_that_order_no_memory_are_not_missed),
    };
    return cmocka_run_group_tests_name("trainer_mutations", tests, spawn_text_write, spawn_text_remove);
}
