/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of the order promise notice when a wait is missing: each is run again, in a process of its own, with the
 * waits of one site skipped, and must fail or die. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static const char *program;

/* The exit status of the order tests that match `filter` under a mutation; -1 when a signal ended them. */
static int run_mutant(const char *site, const char *filter) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (site != NULL) setenv("WEIR_MUTATE", site, 1);
        setenv("WEIR_TEST_FILTER", filter, 1);
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL) _exit(0);
        execl(program, program, (char *)NULL);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_noticed(const char *site, const char *filter) {
#ifdef NDEBUG
    (void)site;
    (void)filter;
    print_message("skipped: a build without assertions has no mutations\n");
    skip();
#endif
    assert_int_equal(run_mutant(NULL, filter), 0);
    assert_int_not_equal(run_mutant(site, filter), 0);
}

static void a_missing_device_wait_is_noticed(void **state) {
    (void)state;
    expect_noticed(WEIR__SITE_DEVICE_WAIT, "another_stream_waits_for_the_stream_that_freed");
    expect_noticed(WEIR__SITE_DEVICE_WAIT, "a_new_stream_with_the_handle_of_a_destroyed_one_waits_for_it");
    expect_noticed(WEIR__SITE_DEVICE_WAIT, "the_allocating_stream_waits_for_the_stream_named_in_the_free");
    expect_noticed(WEIR__SITE_DEVICE_WAIT, "moved_pages_are_used_only_after_their_last_use");
}

static void a_missing_wait_for_a_noted_use_is_noticed(void **state) {
    (void)state;
    expect_noticed(WEIR__SITE_DEVICE_WAIT, "the_allocating_stream_waits_for_a_noted_one");
}

static void a_missing_wait_of_free_after_is_noticed(void **state) {
    (void)state;
    expect_noticed(WEIR__SITE_FREE_AFTER, "a_block_freed_after_an_event_waits_for_it");
}

static void a_missing_host_wait_is_noticed(void **state) {
    (void)state;
    expect_noticed(WEIR__SITE_HOST_WAIT, "a_page_across_two_idle_blocks_is_moved_only_once_both_are_complete");
}

static void an_unmap_of_a_place_in_use_is_noticed(void **state) {
    (void)state;
    expect_noticed(WEIR__SITE_PAGE_MOVE, "an_old_place_is_unmapped_only_once_its_work_is_complete");
}

int main(int count, char **argument) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_device_wait_is_noticed),
        cmocka_unit_test(a_missing_wait_for_a_noted_use_is_noticed),
        cmocka_unit_test(a_missing_wait_of_free_after_is_noticed),
        cmocka_unit_test(a_missing_host_wait_is_noticed),
        cmocka_unit_test(an_unmap_of_a_place_in_use_is_noticed),
    };
    program = count > 1 ? argument[1] : getenv("WEIR_ORDER_TEST");
    if (program == NULL) {
        fprintf(stderr, "mutation_test: WEIR_ORDER_TEST must name the program order_promise_test\n");
        return 1;
    }
    return cmocka_run_group_tests_name("mutation", tests, NULL, NULL);
}
