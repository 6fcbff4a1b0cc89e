/* SPDX-License-Identifier: Apache-2.0 */
/* Each order of offload/order.h is needed: with it taken out, the program `offload_order` fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *site, *test;
} orders[] = {
    {"offload.out.ready", "the_copy_out_starts_after_what_the_callers_stream_has_queued"},
    {"offload.out.slot", "a_host_block_is_not_written_again_before_the_copy_in_has_read_it"},
    {"offload.out.free", "a_device_block_is_not_reused_before_its_copy_out_has_passed"},
    {"offload.out.undo", "the_owner_of_a_block_that_failed_to_move_out_waits_for_what_was_queued"},
    {"offload.in.out", "a_fetch_right_after_the_offload_waits_for_the_copy_out"},
    {"offload.in.block", "the_copy_in_waits_until_the_consumers_stream_has_left_the_block"},
    {"offload.fetch.in", "the_consumer_waits_for_the_copy_in"},
    {"offload.fetch.kept", "the_consumer_of_an_item_that_stayed_on_the_device_waits_for_its_producer"},
    {"host.idle", "a_program_is_not_given_a_host_block_that_a_copy_still_reads"},
};

/* The exit status of one order test with one site taken out (NULL: none). */
static int run_without(const char *site, const char *test) {
    char self[PATH_MAX] = {0};
    char program[PATH_MAX + 32];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(program, sizeof program, "%s/offload_order", dirname(self));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int quiet = open("/dev/null", O_WRONLY);
        dup2(quiet, STDOUT_FILENO);
        dup2(quiet, STDERR_FILENO);
        if (site != NULL) setenv("WEIR_MUTATE", site, 1);
        execl(program, program, test, (char *)NULL);
        _exit(0); /* counts as "not noticed" */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void each_order_that_is_taken_out_is_noticed(void **state) {
    (void)state;
#if defined(NDEBUG)
    print_message("skipped: orders can be taken out only in builds with assertions\n");
    skip();
#endif
    assert_int_equal(run_without(NULL, orders[0].test), 0);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (run_without(orders[i].site, orders[i].test) == 0)
            fail_msg("%s passes without %s", orders[i].test, orders[i].site);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_order_that_is_taken_out_is_noticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
