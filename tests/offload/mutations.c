/* SPDX-License-Identifier: Apache-2.0 */
/* Each order of offload/order.h is needed: with it taken out, the program `offload_order` fails; and also where its gates
 * hold nothing back, so that no byte comes out wrong, the watch ends it. Where the host itself waits no gate can hold it
 * back, and the watch alone notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum waiter { STREAM, HOST };

static const struct {
    const char *site, *test;
    enum waiter waiter;
} orders[] = {
    {"offload.out.ready", "the_copy_out_starts_after_what_the_callers_stream_has_queued", STREAM},
    {"offload.out.slot", "a_host_block_is_not_written_again_before_the_copy_in_has_read_it", STREAM},
    {"offload.out.free", "a_device_block_is_not_reused_before_its_copy_out_has_passed", STREAM},
    {"offload.out.undo", "the_owner_of_a_block_that_failed_to_move_out_waits_for_what_was_queued", STREAM},
    {"offload.in.out", "a_fetch_right_after_the_offload_waits_for_the_copy_out", STREAM},
    {"offload.in.block", "the_copy_in_waits_until_the_consumers_stream_has_left_the_block", STREAM},
    {"offload.fetch.in", "the_consumer_waits_for_the_copy_in", STREAM},
    {"offload.fetch.kept", "the_consumer_of_an_item_that_stayed_on_the_device_waits_for_its_producer", STREAM},
    {"host.idle", "a_program_is_not_given_a_host_block_that_a_copy_still_reads", STREAM},
    {"offload.out.undo.host", "the_host_waits_for_what_was_queued_of_a_block_that_failed_to_move_out", HOST},
    {"offload.in.undo", "a_block_that_failed_to_come_in_is_not_reused_before_what_was_queued", STREAM},
    {"offload.in.undo.host", "the_host_waits_for_what_was_queued_of_a_block_that_failed_to_come_in", HOST},
    {"offload.release", "the_block_of_a_released_item_is_not_reused_before_its_copy_in_has_passed", STREAM},
    {"offload.release", "the_block_of_a_released_item_that_stayed_on_the_device_is_not_reused_before_its_producer",
     STREAM},
    {"offload.dropped", "the_block_of_a_prefetch_that_is_given_up_is_not_reused_before_its_copy_in", STREAM},
    {"offload.kept.ready", "an_item_that_moves_out_late_waits_for_its_producer", STREAM},
    {"offload.kept.free", "the_block_of_an_item_that_moves_out_late_is_not_reused_before_its_copy", STREAM},
    {"offload.kept.undo", "the_host_waits_for_what_was_queued_of_an_item_that_failed_to_move_out_late", HOST},
    {"offload.destroy.out", "an_engine_leaves_no_copy_out_when_it_is_destroyed", HOST},
    {"offload.destroy.in", "an_engine_leaves_no_copy_in_when_it_is_destroyed", HOST},
};

enum timing { HELD_BACK, LUCKY };

/* The status of one order test with one site taken out (NULL: none), and the end of what it says on standard error. */
static int run_without(const char *site, const char *test, enum timing timing, char *said, size_t room) {
    char self[PATH_MAX] = {0};
    char program[PATH_MAX + 32];
    int ends[2];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(program, sizeof program, "%s/offload_order", dirname(self));
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        if (site != NULL) setenv("WEIR_MUTATE", site, 1);
        if (timing == LUCKY) setenv("WEIR_TEST_LUCKY", "1", 1);
        setenv("WEIR_EMU", timing == LUCKY ? "watch:abort,clock:virtual" : "watch:off", 1);
        execl(program, program, test, (char *)NULL);
        _exit(0); /* counts as "not noticed" */
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t more; got + 1 < room && (more = read(ends[0], said + got, room - 1 - got)) > 0;) got += (size_t)more;
    said[got] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void need_mutations(void) {
#if defined(NDEBUG)
    print_message("skipped: orders can be taken out only in builds with assertions\n");
    skip();
#endif
}

static void each_order_that_is_taken_out_is_noticed(void **state) {
    (void)state;
    char said[4096];
    need_mutations();
    assert_int_equal(run_without(NULL, orders[0].test, HELD_BACK, said, sizeof said), 0);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i].waiter == STREAM &&
            run_without(orders[i].site, orders[i].test, HELD_BACK, said, sizeof said) == 0)
            fail_msg("%s passes without %s", orders[i].test, orders[i].site);
}

static void the_watch_catches_each_order_that_is_taken_out_where_nothing_is_held_back(void **state) {
    (void)state;
    char said[4096];
    need_mutations();
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        int status = run_without(NULL, orders[i].test, LUCKY, said, sizeof said);
        if (status != 0) fail_msg("%s: status %d; %s", orders[i].test, status, said);
        status = run_without(orders[i].site, orders[i].test, LUCKY, said, sizeof said);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(said, "watch:abort: ") == NULL)
            fail_msg("%s without %s: status %d; %s", orders[i].test, orders[i].site, status, said);
    }
    int caught = 0; /* sites, each once */
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        caught += i == 0 || strcmp(orders[i - 1].site, orders[i].site) != 0;
    print_message("mutations: %d caught, 0 redundant\n", caught);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_order_that_is_taken_out_is_noticed),
        cmocka_unit_test(the_watch_catches_each_order_that_is_taken_out_where_nothing_is_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
