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

static const char *const sites[] = {
    "offload.out.ready", "offload.out.slot", "offload.out.free",   "offload.in.out",
    "offload.in.block",  "offload.fetch.in", "offload.fetch.kept", "host.idle",
};

/* The exit status of the order tests with one site taken out ("": none). */
static int run_without(const char *site) {
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
        if (site[0] != '\0') {
            setenv("WEIR_MUTATE", site, 1);
        }
        execl(program, program, (char *)NULL);
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
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        if (run_without(sites[i]) == 0) {
            fail_msg("nothing fails without %s", sites[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_order_that_is_taken_out_is_noticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
