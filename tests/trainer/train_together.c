/* SPDX-License-Identifier: Apache-2.0 */
/* When one rank of a real run can't go on, all end, with its exit status and its sentence; and where memory is kept
 * otherwise, the program says the same losses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spawn.h"

#define SMALL                                                                                                          \
    "--dim=32", "--ffn=32", "--layers=3", "--seq=32", "--eval-every=0", "--loss-chunk=32", "--no-progress", "--steps=4"

static struct spawned s;

static void out_of_memory_on_a_rank_ends_all_with_3(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, SMALL, "--limit=640K");
    ASSERT_STATUS(&s, 3);
    ASSERT_SAYS(&s, err, "weir-train: rank ");
    ASSERT_SAYS(&s, err, "in step 1: ");
    ASSERT_SOON(&s);
}

static void a_device_too_small_for_the_state_ends_all_with_2(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, SMALL, "--capacity=256K");
    ASSERT_STATUS(&s, 2);
    ASSERT_SAYS(&s, err, "weir-train: the device is too small: ");
    ASSERT_SAYS(&s, err, " and 262144 are available");
    ASSERT_SOON(&s);
}

/* Gives the last line with a loss, up to the figures of memory, which differ. */
static void last_loss(char *out, size_t room) {
    const char *at = s.out_text, *last = NULL;
    while ((at = strstr(at, "\nstep ")) != NULL) last = ++at;
    assert_non_null(last);
    snprintf(out, room, "%.*s", (int)strcspn(last, "m"), last);
}

static void memory_options_change_no_loss(void **state) {
    (void)state;
    static char *const options[] = {"--policy=footprint", "--policy=per-stream", "--offload", "--ranks=4"};
    char want[256], got[256];
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, SMALL);
    ASSERT_STATUS(&s, 0);
    last_loss(want, sizeof want);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, SMALL, options[i]);
        ASSERT_STATUS(&s, 0);
        last_loss(got, sizeof got);
        assert_string_equal(got, want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_memory_on_a_rank_ends_all_with_3),
        cmocka_unit_test(a_device_too_small_for_the_state_ends_all_with_2),
        cmocka_unit_test(memory_options_change_no_loss),
    };
    return cmocka_run_group_tests(tests, spawn_text_write, spawn_text_remove);
}
