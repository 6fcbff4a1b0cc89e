/* SPDX-License-Identifier: Apache-2.0 */
/* Under the preloaded library programs end with their own status and say nothing, whatever they leave behind. */
#include "support.h"
#include "tests/sanitized.h"

enum { RUNS = SANITIZED ? 4 : 34 };

static const struct end {
    const char *program, *scene;
    int status;
} ends[] = {
    {PROGRAM("live"), NULL, 5},         /* blocks live, work queued */
    {PROGRAM("corners"), "ends", 0},    /* threads that allocate, a function at exit that frees */
    {PROGRAM("corners"), "frees", 0},   /* nothing */
    {PROGRAM("corners"), "handler", 0}, /* a call that a signal's handler ends the program in */
    {PROGRAM("reset"), NULL, 0},        /* pools that ended before */
    {PROGRAM("host"), "ends", 0},       /* pinned memory, live and idle, a copy queued, a function at exit that frees */
};
enum { ENDS = sizeof ends / sizeof *ends };

static void two_hundred_of_two_hundred_runs_end_as_they_should(void **state) {
    static struct outcome outcome;
    (void)state;
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < ENDS; i++) {
            run_preloaded(ARGUMENTS(ends[i].program, ends[i].scene),
                          ARGUMENTS("WEIR_EMU=devices:2", "WEIR_PRELOAD=host:pool"), &outcome);
            assert_ended(ends[i].status, &outcome);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_hundred_of_two_hundred_runs_end_as_they_should)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
