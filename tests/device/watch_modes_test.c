/* SPDX-License-Identifier: Apache-2.0 */
/* What the watch does with what it finds: nothing when it is off, a line of the log when it is on, the end of the
 * process under abort, said on standard error whatever the log's level is. */
#include "tests/device/machine.h"

#include <signal.h>
#include <sys/wait.h>

/* The program itself, as it is run again. */
static const char *program;

static int plant_a_race(void) {
    void *state = NULL;
    if (open_device(&state) != 0) return 9;
    struct weir_device *device = state;
    const struct weir__driver *driver = enter(device);
    CUdeviceptr block;
    CUstream streams[2];
    if (driver->memory_alloc(&block, 4096) != CUDA_SUCCESS) return 9;
    for (int i = 0; i < 2; i++) {
        if (driver->stream_create(&streams[i], CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return 9;
        if (driver->set_bytes(block, 1, 4096, streams[i]) != CUDA_SUCCESS) return 9;
    }
    struct weir_emu_counts counts = {.size = sizeof counts};
    if (driver->emu_counts(&counts) != CUDA_SUCCESS) return 9;
    struct weir_emu_report report = {.size = sizeof report};
    const CUresult kept = driver->emu_watch_report(0, &report);
    weir__device_leave(device);
    weir_device_close(device);
    if (kept != (counts.reports > 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND)) return 8;
    return (int)counts.reports; /* 0 or 1 */
}

/* Runs the race, in memory of addresses only, under settings and a level of the log; gives the status that the process
 * ended with, and what it said in `said`. */
static int run(const char *settings, const char *log, char *said, size_t room) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("WEIR_EMU", settings, 1);
        setenv("WEIR_LOG", log, 1);
        execl(program, program, "plant", (char *)NULL);
        _exit(7);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t more; got + 1 < room && (more = read(ends[0], said + got, room - 1 - got)) > 0;) got += (size_t)more;
    said[got] = '\0';
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void off_finds_nothing(void **state) {
    (void)state;
    char said[2000];
    const int status = run("watch:off,memory:unbacked", "debug", said, sizeof said);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_null(strstr(said, "race"));
}

static void on_writes_a_warning_and_goes_on(void **state) {
    (void)state;
    char said[2000];
    int status = run("watch:on,memory:unbacked", "warn", said, sizeof said);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_non_null(strstr(said, "warn: watch: race: \"set\" (stream"));
    status = run("watch:on,memory:unbacked", "error", said, sizeof said);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_string_equal(said, "");
}

static void abort_ends_the_process_and_says_why_whatever_the_log_says(void **state) {
    (void)state;
    char said[2000];
    const int status = run("watch:abort,memory:unbacked", "off", said, sizeof said);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(said, "watch:abort: race: \"set\" (stream"));
}

int main(int count, char **words) {
    if (count > 1) return plant_a_race();
    program = words[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off_finds_nothing),
        cmocka_unit_test(on_writes_a_warning_and_goes_on),
        cmocka_unit_test(abort_ends_the_process_and_says_why_whatever_the_log_says),
    };
    return cmocka_run_group_tests_name("watch_modes", tests, NULL, NULL);
}
