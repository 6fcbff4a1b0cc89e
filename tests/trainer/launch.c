/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher passes on what the ranks say and how they end, and leaves nothing behind. */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spawn.h"

static struct spawned s;

static void what_ranks_say_passes_and_mpiruns_own_talk_does_not(void **state) {
    (void)state;
    SPAWN(&s, RANKS_PROGRAM, "talk");
    ASSERT_STATUS(&s, 0);
    ASSERT_SAYS(&s, out, "rank 3 on standard output\n");
    ASSERT_SAYS(&s, err, "rank 3 on standard error\n");
    ASSERT_SAYS(&s, err, "no line's end");
    assert_null(strstr(s.err_text, "bar 3 4"));
    assert_null(strstr(s.err_text, "-----"));
}

static void a_rank_that_is_killed_is_named_and_the_others_end(void **state) {
    (void)state;
    SPAWN(&s, RANKS_PROGRAM, "killed");
    ASSERT_STATUS(&s, 1);
    ASSERT_SAYS(&s, err, "weir-train: rank 2 was killed by signal 9 (Killed); all other ranks have ended\n");
    assert_null(strstr(s.err_text, "-----"));
    ASSERT_SOON(&s);
    assert_int_equal(spawn_count(RANKS_PROGRAM), 0);
}

static void ends_by(int signal, int status) {
    spawn_start(&s, (char *const[]){RANKS_PROGRAM, "wait", NULL});
    spawn_read_until(&s, "all ranks wait");
    assert_true(spawn_count(RANKS_PROGRAM) >= 5);
    kill(s.pid, signal);
    spawn_finish(&s);
    ASSERT_STATUS(&s, status);
    assert_null(strstr(s.err_text, "-----"));
    assert_int_equal(spawn_count(RANKS_PROGRAM), 0);
}

static void an_interrupt_ends_all_ranks(void **state) {
    (void)state;
    ends_by(SIGINT, 130);
    ASSERT_SAYS(&s, err, "ended by signal 2 (Interrupt); all ranks have ended");
}

static void a_request_to_end_ends_all_ranks(void **state) {
    (void)state;
    ends_by(SIGTERM, 143);
}

/* The shared memory of Open MPI that a process has mapped. */
static void find_segment(pid_t pid, char *out, size_t room) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "r");
    assert_non_null(maps);
    out[0] = 0;
    while (!out[0] && fgets(line, sizeof line, maps)) {
        const char *name = strstr(line, "/dev/shm/vader_segment.");
        if (name) snprintf(out, room, "%.*s", (int)strcspn(name, " \n"), name);
    }
    fclose(maps);
}

static void nothing_is_left_when_mpirun_is_killed(void **state) {
    (void)state;
    char segment[512], folder[32] = "/tmp/weir-launch-XXXXXX", sessions[64];
    assert_non_null(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    spawn_start(&s, (char *const[]){RANKS_PROGRAM, "wait", NULL});
    spawn_read_until(&s, "all ranks wait");
    pid_t mpirun = spawn_find("mpirun", RANKS_PROGRAM, s.pid), rank = spawn_find(RANKS_PROGRAM, RANKS_PROGRAM, s.pid);
    assert_true(mpirun > 0 && rank > 0);
    find_segment(rank, segment, sizeof segment);
    kill(mpirun, SIGKILL);
    spawn_finish(&s);
    unsetenv("TMPDIR");
    ASSERT_STATUS(&s, 1);
    if (segment[0]) assert_int_not_equal(access(segment, F_OK), 0);
    glob_t found;
    snprintf(sessions, sizeof sessions, "%s/ompi.*/pid.*", folder);
    assert_int_equal(glob(sessions, 0, NULL, &found), GLOB_NOMATCH);
    snprintf(sessions, sizeof sessions, "%s/ompi.*", folder);
    assert_int_equal(glob(sessions, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) rmdir(found.gl_pathv[i]);
    globfree(&found);
    assert_int_equal(rmdir(folder), 0);
}

static void mpirun_does_not_end_without_a_word(void **state) {
    (void)state;
    spawn_start(&s, (char *const[]){RANKS_PROGRAM, "wait", NULL});
    spawn_read_until(&s, "all ranks wait");
    pid_t mpirun = spawn_find("mpirun", RANKS_PROGRAM, s.pid);
    assert_true(mpirun > 0);
    kill(mpirun, SIGTERM);
    spawn_finish(&s);
    ASSERT_STATUS(&s, 1);
    ASSERT_SAYS(
        &s, err,
        "weir-train: mpirun ended with status 1 and no word why, as when it is asked to end; all ranks have ended\n");
    assert_int_equal(spawn_count(RANKS_PROGRAM), 0);
}

static void ranks_end_when_mpirun_is_killed(void **state) {
    (void)state;
    spawn_start(&s, (char *const[]){RANKS_PROGRAM, "wait", NULL});
    spawn_read_until(&s, "all ranks wait");
    pid_t mpirun = spawn_find("mpirun", RANKS_PROGRAM, s.pid);
    assert_true(mpirun > 0);
    kill(mpirun, SIGKILL);
    spawn_finish(&s);
    ASSERT_STATUS(&s, 1);
    ASSERT_SAYS(&s, err, "weir-train: mpirun was killed by signal 9 (Killed); all ranks have ended\n");
    assert_int_equal(spawn_count(RANKS_PROGRAM), 0);
}

static void a_failing_ranks_status_is_the_status_of_the_run(void **state) {
    (void)state;
    SPAWN(&s, RANKS_PROGRAM, "failure");
    ASSERT_STATUS(&s, 3);
    assert_null(strstr(s.err_text, "-----"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ranks_say_passes_and_mpiruns_own_talk_does_not),
        cmocka_unit_test(a_rank_that_is_killed_is_named_and_the_others_end),
        cmocka_unit_test(an_interrupt_ends_all_ranks),
        cmocka_unit_test(a_request_to_end_ends_all_ranks),
        cmocka_unit_test(ranks_end_when_mpirun_is_killed),
        cmocka_unit_test(nothing_is_left_when_mpirun_is_killed),
        cmocka_unit_test(mpirun_does_not_end_without_a_word),
        cmocka_unit_test(a_failing_ranks_status_is_the_status_of_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
