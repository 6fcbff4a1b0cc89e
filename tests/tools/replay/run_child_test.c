/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in processes of their own: what one does, or how it ends, is its own affair. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runs.h"

enum { RUNS = 8 };

static const char lines[] = "m 1 1000 0\nf 1\n";

/* A run whose allocator does what `what` says (allocator_that_ends.c). */
static struct setup ending_setup(const struct trace *trace, const char *what) {
    struct setup setup = setup_of(trace, TARGET_PLUGIN, 4);
    setup.library = TEST_ALLOCATOR;
    setup.alloc_symbol = what;
    setup.free_symbol = "nothing_to_free";
    return setup;
}

static void assert_no_child_is_left(void) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void a_run_that_dies_is_one_ending(void **state) {
    (void)state;
    struct trace trace = trace_of(lines);
    const struct setup setups[] = {setup_of(&trace, TARGET_POOL, 4), ending_setup(&trace, "alloc_that_aborts"),
                                   ending_setup(&trace, "alloc_that_exits"),
                                   ending_setup(&trace, "alloc_that_is_killed"), setup_of(&trace, TARGET_FREE, 4)};
    struct outcome outcomes[5];
    char why[512];
    assert_true(run_many(setups, 5, 2, outcomes, why, sizeof why));
    assert_int_equal(outcomes[0].ending, ENDED_COMPLETED);
    assert_int_equal(outcomes[1].ending, ENDED_FAILED);
    assert_string_equal(outcomes[1].why, "the run was ended by SIGABRT (Aborted)");
    assert_int_equal(outcomes[2].ending, ENDED_FAILED);
    assert_string_equal(outcomes[2].why, "the run ended with exit status 7 and no answer");
    assert_string_equal(outcomes[3].why, "the run was ended by SIGKILL (Killed)");
    assert_int_equal(outcomes[4].ending, ENDED_COMPLETED);
    assert_no_child_is_left();
    trace_free(&trace);
}

static void the_same_run_has_the_same_outcome_however_many_at_once(void **state) {
    (void)state;
    struct trace trace = drawn_trace(7, 4000);
    struct setup setups[RUNS];
    struct outcome alone[RUNS], again[RUNS], together[RUNS];
    char why[512];
    static const char *const policies[] = {"latency", "footprint", "per-stream"};
    const size_t pages = trace.peak_rounded_bytes / PAGE;
    for (int i = 0; i < RUNS; i++) {
        setups[i] = setup_of(&trace, TARGET_POOL, pages + pages / 8);
        setups[i].policy = policies[i % 3];
        setups[i].deterministic = i == 3;
        setups[i].blind = i == 4;
        setups[i].clock = i == 5 ? CLOCK_NONE : CLOCK_VIRTUAL;
        if (i == 6) setups[i].target = TARGET_FLUID;
        if (i == 7) setups[i].target = TARGET_FREE;
    }
    assert_true(run_many(setups, RUNS, 1, alone, why, sizeof why));
    assert_true(run_many(setups, RUNS, 1, again, why, sizeof why));
    assert_true(run_many(setups, RUNS, 2, together, why, sizeof why));
    for (int i = 0; i < RUNS; i++) {
        if (alone[i].ending == ENDED_FAILED) fail_msg("run %d: %s", i, alone[i].why);
        assert_same(&alone[i], &again[i]);
        assert_same(&alone[i], &together[i]);
    }
    trace_free(&trace);
}

static void hundreds_of_runs_leave_nothing_behind(void **state) {
    (void)state;
    enum { MANY = 150 };
    struct trace trace = trace_of(lines);
    static struct setup setups[MANY];
    static struct outcome outcomes[MANY];
    char why[512];
    for (int i = 0; i < MANY; i++) setups[i] = setup_of(&trace, TARGET_FREE, 1);
    const int before = dup(0);
    assert_true(run_many(setups, MANY, 16, outcomes, why, sizeof why));
    for (int i = 0; i < MANY; i++) assert_int_equal(outcomes[i].ending, ENDED_COMPLETED);
    const int after = dup(0);
    assert_int_equal(after, before + 1); /* no file was left open */
    close(before);
    close(after);
    assert_no_child_is_left();
    assert_true(run_many(setups, 0, 4, outcomes, why, sizeof why));
    assert_true(run_many(setups, 1, 0, outcomes, why, sizeof why));
    trace_free(&trace);
}

static volatile sig_atomic_t interruptions;
static void interrupted(int signal) {
    (void)signal;
    interruptions++;
}

static void signals_do_not_disturb(void **state) {
    (void)state;
    struct trace trace = drawn_trace(3, 3000);
    const struct setup setups[] = {setup_of(&trace, TARGET_FLUID, 4000), setup_of(&trace, TARGET_FLUID, 4000)};
    struct outcome outcomes[2];
    char why[512];
    struct sigaction action = {.sa_handler = interrupted}, kept; /* without SA_RESTART */
    sigaction(SIGALRM, &action, &kept);
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 10; i++) {
        assert_true(run_many(setups, 2, 2, outcomes, why, sizeof why));
        assert_int_equal(outcomes[0].ending, ENDED_COMPLETED);
        assert_same(&outcomes[0], &outcomes[1]);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &kept, NULL);
    assert_true(interruptions > 0);
    assert_no_child_is_left();
    trace_free(&trace);
}

/* What the parent had not written yet stays the parent's alone. */
static void what_is_buffered_is_written_once(void **state) {
    (void)state;
    char path[] = "/tmp/weir-runs-XXXXXX", text[64] = "";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    const pid_t process = fork();
    if (process == 0) {
        if (dup2(file, STDOUT_FILENO) < 0) _exit(1);
        struct trace trace = trace_of(lines);
        const struct setup setups[] = {setup_of(&trace, TARGET_FREE, 1), setup_of(&trace, TARGET_FREE, 1)};
        struct outcome outcomes[2];
        char why[512];
        printf("before\n");
        exit(run_many(setups, 2, 2, outcomes, why, sizeof why) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    const char *first = strstr(text, "before\n");
    assert_non_null(first);
    assert_null(strstr(first + 1, "before\n"));
    close(file);
    unlink(path);
}

/* The allocator says that it is there, and then never comes back. When all who could write to the pipe are gone, there
 * is nothing more to read. */
static void runs_end_with_the_process_that_wants_them(void **state) {
    (void)state;
    int ends[2];
    char there, number[16];
    assert_int_equal(pipe(ends), 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv("TEST_ALLOCATOR_SAYS", number, 1);
    const pid_t process = fork();
    if (process == 0) {
        struct trace trace = trace_of(lines);
        const struct setup setup = ending_setup(&trace, "alloc_that_hangs");
        struct outcome outcome;
        char why[512];
        close(ends[0]);
        run_many(&setup, 1, 1, &outcome, why, sizeof why);
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &there, 1), 1);
    kill(process, SIGKILL);
    assert_int_equal(waitpid(process, NULL, 0), process);
    struct pollfd gone = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&gone, 1, 10000), 1);
    assert_int_equal(read(ends[0], &there, 1), 0);
    close(ends[0]);
    unsetenv("TEST_ALLOCATOR_SAYS");
}

/* What a library leaves behind may hold all that the run held: the parent waits for its own child alone. It is there until
 * this process closes `ends[1]`. */
static void a_process_left_behind_is_not_waited_for(void **state) {
    (void)state;
    static const char *const leaving[] = {"alloc_that_leaves_a_process", "alloc_that_leaves_a_process_and_exits"};
    static const char *const why_failed[] = {"", "the run ended with exit status 7 and no answer"};
    struct trace trace = trace_of(lines);
    int ends[2];
    char numbers[32];
    assert_int_equal(pipe(ends), 0);
    snprintf(numbers, sizeof numbers, "%d %d", ends[0], ends[1]);
    setenv("TEST_ALLOCATOR_LEAVES", numbers, 1);
    for (int i = 0; i < 2; i++) {
        const struct setup setup = ending_setup(&trace, leaving[i]);
        const struct outcome outcome = run_one(&setup); /* hangs otherwise */
        assert_int_equal(outcome.ending, i == 0 ? ENDED_OUT_OF_MEMORY : ENDED_FAILED);
        assert_string_equal(outcome.why, why_failed[i]);
    }
    close(ends[1]);
    close(ends[0]);
    const struct setup twice = ending_setup(&trace, "alloc_that_returns_twice");
    assert_int_equal(run_one(&twice).ending, ENDED_OUT_OF_MEMORY);
    trace_free(&trace);
}

static void what_a_library_writes_is_no_answer(void **state) {
    (void)state;
    struct trace trace = trace_of(lines);
    const struct setup setup = ending_setup(&trace, "alloc_that_writes_everywhere");
    const struct outcome outcome = run_one(&setup);
    assert_int_equal(outcome.ending, ENDED_FAILED);
    assert_non_null(strstr(outcome.why, "the run's answer can't be read"));
    trace_free(&trace);
}

static void what_a_library_prints_goes_to_standard_error(void **state) {
    (void)state;
    struct trace trace = trace_of(lines);
    const struct setup setup = ending_setup(&trace, "alloc_that_prints");
    char text[64] = "";
    FILE *out = tmpfile(), *err = tmpfile();
    assert_true(out != NULL && err != NULL);
    fflush(NULL);
    const int kept_out = dup(STDOUT_FILENO), kept_err = dup(STDERR_FILENO);
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    const struct outcome outcome = run_one(&setup);
    dup2(kept_out, STDOUT_FILENO);
    dup2(kept_err, STDERR_FILENO);
    close(kept_out);
    close(kept_err);
    assert_int_equal(outcome.ending, ENDED_OUT_OF_MEMORY);
    assert_int_equal(pread(fileno(out), text, sizeof text - 1, 0), 0);
    assert_true(pread(fileno(err), text, sizeof text - 1, 0) > 0);
    assert_non_null(strstr(text, "a word from the library"));
    fclose(out);
    fclose(err);
    trace_free(&trace);
}

static void the_environment_does_not_reach_a_run(void **state) {
    (void)state;
    struct trace trace = trace_of(lines);
    const struct setup setup = setup_of(&trace, TARGET_POOL, 4);
    char *kept = getenv("WEIR_EMU") != NULL ? strdup(getenv("WEIR_EMU")) : NULL;
    setenv("WEIR_EMU", "nonsense:1", 1);
    const struct outcome outcome = run_one(&setup);
    if (kept != NULL) setenv("WEIR_EMU", kept, 1);
    if (kept == NULL) unsetenv("WEIR_EMU");
    free(kept);
    assert_int_equal(outcome.ending, ENDED_COMPLETED);
    trace_free(&trace);
}

static void what_the_machine_refuses_is_said(void **state) {
    (void)state;
    struct trace trace = trace_of(lines);
    struct setup setup = setup_of(&trace, TARGET_POOL, 4);
    setup.profile = "no-such-profile";
    struct outcome outcome = run_one(&setup);
    assert_int_equal(outcome.ending, ENDED_FAILED);
    assert_non_null(strstr(outcome.why, "no-such-profile"));
    setup = setup_of(&trace, TARGET_POOL, 4);
    setup.law = "murphy";
    outcome = run_one(&setup);
    assert_int_equal(outcome.ending, ENDED_FAILED);
    assert_non_null(strstr(outcome.why, "murphy"));
    setup = setup_of(&trace, TARGET_POOL, 4);
    setup.policy = "first-come";
    outcome = run_one(&setup);
    assert_string_equal(outcome.why, "policy first-come is not one of latency, footprint, per-stream");
    trace_free(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_dies_is_one_ending),
        cmocka_unit_test(the_same_run_has_the_same_outcome_however_many_at_once),
        cmocka_unit_test(hundreds_of_runs_leave_nothing_behind),
        cmocka_unit_test(signals_do_not_disturb),
        cmocka_unit_test(what_is_buffered_is_written_once),
        cmocka_unit_test(runs_end_with_the_process_that_wants_them),
        cmocka_unit_test(a_process_left_behind_is_not_waited_for),
        cmocka_unit_test(what_a_library_writes_is_no_answer),
        cmocka_unit_test(what_a_library_prints_goes_to_standard_error),
        cmocka_unit_test(the_environment_does_not_reach_a_run),
        cmocka_unit_test(what_the_machine_refuses_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
