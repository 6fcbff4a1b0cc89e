/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: a child's end is told as it was, and nothing that it started outlives it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/demo/child.h"

static char log_path[64];

static int watch(void **state) {
    (void)state;
    snprintf(log_path, sizeof log_path, "/tmp/weir-demo-child-%ld.log", (long)getpid());
    child_watch_signals();
    return 0;
}

static int clean(void **state) {
    (void)state;
    return unlink(log_path) == 0 ? 0 : -1;
}

static struct child_result shell(const char *script, double limit_seconds, void (*on_line)(void *to, const char *line),
                                 void *to) {
    char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, strdup(script), NULL};
    struct child child = {argv, log_path, limit_seconds, on_line, to};
    struct child_result result = child_run(&child);
    free(argv[2]);
    return result;
}

static void exit_status_and_signal_are_told(void **state) {
    (void)state;
    struct child_result result = shell("exit 3", 60.0, NULL, NULL);
    assert_int_equal(result.end, CHILD_EXITED);
    assert_int_equal(result.status, 3);
    result = shell("kill -9 $$", 60.0, NULL, NULL);
    assert_int_equal(result.end, CHILD_KILLED);
    assert_int_equal(result.status, SIGKILL);
}

static void a_program_that_is_not_there_is_told(void **state) {
    (void)state;
    char *argv[] = {(char[]){"/nowhere/at-all"}, NULL};
    struct child child = {argv, log_path, 60.0, NULL, NULL};
    struct child_result result = child_run(&child);
    assert_int_equal(result.end, CHILD_NOT_STARTED);
    assert_int_equal(result.status, ENOENT);
}

static void gather(void *to, const char *line) {
    strncat(to, line, 200);
    strncat(to, "|", 2);
}

static void lines_of_both_outputs_come_whole_and_go_to_the_log(void **state) {
    (void)state;
    char lines[1024] = "", tail[256] = "";
    shell("printf 'one\\ntw'; printf 'o\\n'; echo three >&2; echo four", 60.0, gather, lines);
    assert_string_equal(lines, "one|two|three|four|");
    FILE *out = fmemopen(tail, sizeof tail, "w");
    child_log_tail(log_path, 2, "> ", out);
    fclose(out);
    assert_string_equal(tail, "> three\n> four\n");
}

static void much_output_is_not_lost(void **state) {
    (void)state;
    shell("seq 1 200000", 60.0, NULL, NULL);
    char tail[64] = "";
    FILE *out = fmemopen(tail, sizeof tail, "w");
    child_log_tail(log_path, 1, "", out);
    fclose(out);
    assert_string_equal(tail, "200000\n");
}

/* Every process that the child starts holds the writing end, so the reading end tells when the last one is gone. */
static void all_are_gone(const int held[2]) {
    char byte;
    close(held[1]);
    assert_int_equal(read(held[0], &byte, 1), 0);
    close(held[0]);
}

static void what_a_child_leaves_behind_is_ended(void **state) {
    (void)state;
    int held[2];
    assert_int_equal(pipe(held), 0);
    struct child_result result = shell("sleep 1000 & exit 0", 60.0, NULL, NULL);
    assert_int_equal(result.end, CHILD_EXITED);
    assert_int_equal(result.status, 0);
    all_are_gone(held);
}

static void a_child_that_takes_too_long_is_ended_with_all_it_started(void **state) {
    (void)state;
    int held[2];
    assert_int_equal(pipe(held), 0);
    struct child_result result = shell("sleep 1000 & sleep 1000", 0.01, NULL, NULL);
    assert_int_equal(result.end, CHILD_TOO_LONG);
    all_are_gone(held);
}

static void a_child_that_closes_its_output_is_still_waited_for(void **state) {
    (void)state;
    struct child_result result = shell("exec >/dev/null 2>&1; sleep 0.3; exit 5", 60.0, NULL, NULL);
    assert_int_equal(result.end, CHILD_EXITED);
    assert_int_equal(result.status, 5);
}

static void interrupt(void *to, const char *line) {
    (void)to;
    if (strcmp(line, "ready") == 0) kill(getpid(), SIGINT);
}

static void an_interrupt_ends_the_child_and_is_told(void **state) {
    (void)state;
    int held[2];
    assert_int_equal(pipe(held), 0);
    struct child_result result = shell("sleep 1000 & echo ready; sleep 1000", 60.0, interrupt, NULL);
    assert_int_equal(result.end, CHILD_INTERRUPTED);
    assert_int_equal(result.status, SIGINT);
    all_are_gone(held);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exit_status_and_signal_are_told, watch, clean),
        cmocka_unit_test_setup_teardown(a_program_that_is_not_there_is_told, watch, clean),
        cmocka_unit_test_setup_teardown(lines_of_both_outputs_come_whole_and_go_to_the_log, watch, clean),
        cmocka_unit_test_setup_teardown(much_output_is_not_lost, watch, clean),
        cmocka_unit_test_setup_teardown(what_a_child_leaves_behind_is_ended, watch, clean),
        cmocka_unit_test_setup_teardown(a_child_that_takes_too_long_is_ended_with_all_it_started, watch, clean),
        cmocka_unit_test_setup_teardown(a_child_that_closes_its_output_is_still_waited_for, watch, clean),
        cmocka_unit_test_setup_teardown(an_interrupt_ends_the_child_and_is_told, watch, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
