/* SPDX-License-Identifier: Apache-2.0 */
/* Of the tests' own support: a test that fails leaves no gate shut at which the next ones of its program would hang. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static const char *program;

/* ---- the program that is run: its first test fails beside two shut gates ------------------------------------------------ */

static void fails(void **state) {
    (void)state;
    const weir_stream streams[] = {new_stream(), new_stream()};
    put_gate(streams[0]);
    put_gate(streams[1]);
    open_gate(put_gate(new_stream()));
    fail();
}

static void needs_the_whole_device(void **state) {
    (void)state;
    OK(weir_device_synchronize(test_device()));
}

static int run_inner(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fails), cmocka_unit_test(needs_the_whole_device)};
    alarm(120);
    return cmocka_run_group_tests_name("inner", tests, NULL, NULL);
}

/* ---- the test --------------------------------------------------------------------------------------------------------- */

static void the_next_test_goes_on(void **state) {
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL) _exit(90);
        execl(program, program, "inner", (char *)NULL);
        _exit(91);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1); /* tests that failed */
}

int main(int count, char **argument) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_test_goes_on)};
    program = argument[0];
    if (count > 1 && strcmp(argument[1], "inner") == 0) return run_inner();
    return cmocka_run_group_tests_name("gates_left_shut", tests, NULL, NULL);
}
