/* SPDX-License-Identifier: Apache-2.0 */
/* weir-run: the program's own output and status, and on standard error what weir did for it. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static struct outcome outcome;

static void run(const char *const *arguments) {
    run_plain(arguments, ARGUMENTS("LD_LIBRARY_PATH", "WEIR_EMU=devices:2"), &outcome);
}

#define RUN(...)    run(ARGUMENTS(TEST_RUN, __VA_ARGS__))
#define ON_EMULATOR "--device", "emulated"

static void says(const char *text) {
    if (strstr(outcome.err, text) != NULL) return;
    print_error("not said: %s\nbut: %s\n", text, outcome.err);
    fail();
}

static void a_program_runs_and_what_weir_did_is_said(void **state) {
    (void)state;
    RUN(ON_EMULATOR, "--", PROGRAM("capture"));
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, "a graph with memory\n");
    says("weir-run: preload_capture (process ");
    says("device 0: peak live 2.00 MiB, held 2.00 MiB of 64.00 MiB\n");
    says("4 allocations and 4 frees took ");
    says("left to the driver: 1 request, in a graph's capture\n");
    says("frees of memory that is not weir's: 1\n");
}

static void a_pool_that_ended_before_the_process_is_in_it(void **state) {
    (void)state;
    RUN(ON_EMULATOR, PROGRAM("reset"));
    assert_int_equal(outcome.status, 0);
    const char *second = strstr(outcome.err, "device 0, until its reset: peak live 1.00 MiB");
    assert_non_null(second);
    assert_non_null(strstr(second + 1, "device 0, until its reset: peak live 1.00 MiB"));
}

static void the_status_is_the_programs(void **state) {
    (void)state;
    RUN("--quiet", ON_EMULATOR, PROGRAM("live"));
    assert_ended(5, &outcome);
    assert_string_equal(outcome.out, "leaves\n");
    RUN("--quiet", "sh", "-c", "kill -9 $$");
    assert_ended(128 + SIGKILL, &outcome);
    RUN("no-such-program");
    assert_int_equal(outcome.status, 127);
    says("no-such-program: no program of that name is found in PATH");
    RUN("/etc/passwd");
    assert_int_equal(outcome.status, 126);
}

static void a_status_is_learnt_whatever_becomes_of_children_and_readers(void **state) {
    (void)state;
    run(ARGUMENTS("/bin/bash", "-c", "trap '' CHLD; exec \"$0\" -- false", TEST_RUN));
    assert_int_equal(outcome.status, 1);
    run(ARGUMENTS("/bin/bash", "-c", "exec 2> >(exec 2>/dev/null; exit); wait $!; exec \"$0\" sh -c 'exit 5'",
                  TEST_RUN));
    assert_int_equal(outcome.status, 5);
}

static void json_is_alone_in_its_file(void **state) {
    char option[160], text[2000] = "";
    (void)state;
    snprintf(option, sizeof option, "--json=%s/json", scratch());
    run(ARGUMENTS("/bin/sh", "-c", "\"$0\" \"$1\" --device=emulated " PROGRAM("live") " 2>&-", TEST_RUN, option));
    assert_int_equal(outcome.status, 5);
    FILE *file = fopen(option + strlen("--json="), "re");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_int_equal(text[0], '{');
    assert_null(strstr(text, "weir-run:"));
}

static void signals_go_to_the_program(void **state) {
    (void)state;
    RUN("--quiet", "sh", "-c", "trap 'echo got it; exit 3' USR1; kill -USR1 $PPID; while :; do sleep 0.01; done");
    assert_ended(3, &outcome);
    assert_string_equal(outcome.out, "got it\n");
}

static void signals_of_any_kind_go_to_the_program(void **state) {
    (void)state;
    RUN("--quiet", "sh", "-c", "trap 'echo late; exit 4' ALRM; kill -ALRM $PPID; while :; do sleep 0.01; done");
    assert_ended(4, &outcome);
    RUN("--quiet", "bash", "-c", "trap 'echo real; exit 5' RTMIN; kill -RTMIN $PPID; while :; do sleep 0.01; done");
    assert_ended(5, &outcome);
}

static void each_process_of_a_tree_is_told_of(void **state) {
    (void)state;
    RUN(ON_EMULATOR, "--json", "sh", "-c", PROGRAM("runtime_13") "; " PROGRAM("live") "; " PROGRAM("by_lookup"));
    assert_int_equal(outcome.status, 0);
    says("weir-run: preload_runtime_13 (process ");
    says("weir-run: preload_live (process ");
    says("weir-run: preload_by_lookup (process ");
    const char *json = strstr(outcome.out, "{\"program\":\"sh\",\"status\":0,\"processes\":[");
    assert_non_null(json);
    assert_non_null(strstr(json, "\"plain_allocs\":3"));
    assert_string_equal(outcome.out + strlen(outcome.out) - 3, "]}\n");
}

static void what_tells_nothing_is_said_to(void **state) {
    (void)state;
    RUN("true");
    assert_int_equal(outcome.status, 0);
    says("no process told of device memory");
    RUN("--quiet", "true");
    assert_ended(0, &outcome);
}

static void options_reach_the_pool(void **state) {
    char trace[128], text[64] = "";
    (void)state;
    snprintf(trace, sizeof trace, "%s/trace", scratch());
    RUN(ON_EMULATOR, "--json", "--limit", "0.25", "--policy=footprint", "--pool", "wait_limit:1s", "--trace", trace,
        "--plain", "pool", PROGRAM("live"));
    assert_int_equal(outcome.status, 5);
    assert_non_null(strstr(outcome.out, "\"limit_bytes\":16777216"));
    FILE *file = fopen(trace, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "weir-trace 1\n");
    RUN(ON_EMULATOR, "--plain=driver", PROGRAM("live"));
    assert_int_equal(outcome.status, 5);
    says("left to the driver: 3 requests, plain ones, by option");
    RUN(ON_EMULATOR, "--host=pool", "--json", "--plain=driver", PROGRAM("pinned"));
    assert_int_equal(outcome.status, 0);
    says("  pinned host memory: peak live 2.00 MiB, held ");
    says("\n  6 allocations and 6 frees of it took ");
    says("left to the driver: 1 request, plain ones, by option");
    assert_non_null(strstr(outcome.out, "\"host_allocs\":6,\"host_frees\":6,"));
}

/* ---- pages -------------------------------------------------------------------------------------------------------- */

static bool is_page(const char *folder, const char *name) {
    char path[256], text[64] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    const bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    return read && strncmp(text, "<!DOCTYPE html>", 15) == 0;
}

static bool is_empty(const char *folder) { return rmdir(folder) == 0 && mkdir(folder, 0755) == 0; }

static void a_page_shows_each_process_and_device(void **state) {
    char folder[128], temporary[256], page[256], trace[256], setting[300];
    (void)state;
    snprintf(folder, sizeof folder, "%s/50%% of [pages]", scratch());
    snprintf(page, sizeof page, "--timeline=%s/run.html", folder);
    snprintf(setting, sizeof setting, "TMPDIR=%s/5%%p", scratch());
    assert_true(mkdir(folder, 0755) == 0 && mkdir(setting + strlen("TMPDIR="), 0755) == 0);
    const char *const settings[] = {"LD_LIBRARY_PATH", "WEIR_EMU=devices:2", setting, NULL};
    run_plain(ARGUMENTS(TEST_RUN, page, ON_EMULATOR, PROGRAM("devices")), settings, &outcome);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, "two devices\n");
    says("/run.html: process ");
    says("/run-2.html: process ");
    assert_true(is_page(folder, "run.html") && is_page(folder, "run-2.html") && !is_page(folder, "run-3.html"));
    assert_true(is_empty(setting + strlen("TMPDIR="))); /* the traces are gone */
    snprintf(trace, sizeof trace, "--trace=%s/50%%%% of [pages]/%%d.trace", scratch());
    snprintf(page, sizeof page, "--timeline=%s/again", folder);
    run_plain(ARGUMENTS(TEST_RUN, "--quiet", page, trace, ON_EMULATOR, PROGRAM("devices")), settings, &outcome);
    assert_ended(0, &outcome);
    assert_true(is_page(folder, "again") && is_page(folder, "again-2"));
    snprintf(temporary, sizeof temporary, "%s/0.trace", folder);
    assert_int_equal(access(temporary, R_OK), 0);
    /* A trace that was there before is of another run. */
    snprintf(trace, sizeof trace, "--trace=%s/50%%%% of [pages]/1%%d.trace", scratch());
    snprintf(temporary, sizeof temporary, "%s/11.trace", folder);
    FILE *old = fopen(temporary, "we");
    assert_true(old != NULL && fputs("of somebody else\n", old) >= 0 && fclose(old) == 0);
    assert_int_equal(utimensat(AT_FDCWD, temporary, (const struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    snprintf(page, sizeof page, "--timeline=%s/third.html", folder);
    run_plain(ARGUMENTS(TEST_RUN, page, trace, ON_EMULATOR, PROGRAM("live")), settings, &outcome);
    assert_int_equal(outcome.status, 5);
    assert_true(is_page(folder, "third.html") && !is_page(folder, "third-2.html"));
    RUN(page, "true");
    assert_int_equal(outcome.status, 0);
    says("no page: no process took memory of weir's");
}

/* ---- what can't be preloaded ------------------------------------------------------------------------------------- */

static void a_static_program_runs_with_a_warning(void **state) {
    (void)state;
#ifdef TEST_STATIC
    RUN(PROGRAM("static"));
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, "static\n");
    says("preload_static is linked statically, so no library is loaded before it");
#else
    print_message("skipped: nothing can be linked statically here\n");
    skip();
#endif
}

static void copy(const char *from, const char *to, mode_t mode) {
    char part[65536];
    const int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t got; (got = read(in, part, sizeof part)) > 0;) assert_int_equal(write(out, part, (size_t)got), got);
    assert_int_equal(fchmod(out, mode), 0);
    close(in);
    close(out);
}

/* To whoever starts it, the program is another user's who lends it rights. */
static void a_program_with_more_rights_is_left_alone(void **state) {
    enum { SOMEBODY = 12345 };
    char path[128];
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can give a program to another user\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/lent", scratch());
    copy("/bin/true", path, 0755);
    assert_int_equal(chown(path, SOMEBODY, SOMEBODY), 0);
    assert_int_equal(chmod(path, 04755), 0);
    RUN(path);
    assert_int_equal(outcome.status, 0);
    says("gets more rights than its user has");
    says("no process told of device memory");
}

/* ---- odd places --------------------------------------------------------------------------------------------------- */

static void make_folder(char *path, size_t room, const char *in, const char *name) {
    snprintf(path, room, "%s/%s", in, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void a_folder_with_spaces_and_colons_will_do(void **state) {
    static const char *const files[][2] = {{TEST_LIBRARY, "lib/libweir-preload.so.0"},
                                           {TEST_WEIR, "lib/libweir.so.0"},
                                           {TEST_DRIVER "/libcuda.so.1", "lib/emu/libcuda.so.1"},
                                           {TEST_RUN, "bin/weir-run"}};
    char odd[256], path[512];
    (void)state;
    make_folder(odd, sizeof odd, scratch(), "a b:c;d $HOME");
    make_folder(path, sizeof path, odd, "bin");
    make_folder(path, sizeof path, odd, "lib");
    make_folder(path, sizeof path, odd, "lib/emu");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", odd, files[i][1]);
        copy(files[i][0], path, 0755);
    }
    run_plain(ARGUMENTS(path, ON_EMULATOR, "--", PROGRAM("by_dlsym")),
              ARGUMENTS("LD_LIBRARY_PATH", "WEIR_EMU=profile:" TEST_PROFILE), &outcome);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, "program: three blocks\n");
    says("3 allocations and 3 frees took ");
}

static void a_program_may_have_any_name(void **state) {
    char path[256];
    (void)state;
    snprintf(path, sizeof path, "%s/a\"b\\c\xff", scratch());
    copy(PROGRAM("by_dlsym"), path, 0755);
    RUN(ON_EMULATOR, "--json", path);
    assert_int_equal(outcome.status, 0);
    says("weir-run: a\"b\\c\xef\xbf\xbd (process ");
    assert_non_null(strstr(outcome.out, "a\\u0022b\\u005cc\\ufffd\""));
}

/* ---- others beside it --------------------------------------------------------------------------------------------- */

static void a_process_that_is_killed_holds_no_other_up(void **state) {
    (void)state;
    RUN(ON_EMULATOR, "sh", "-c",
        "for i in 1 2 3; do " PROGRAM("threads") " & done; " PROGRAM(
            "forever") " & for i in 1 2 3 4 5; do kill -9 $!; "
                       "wait $!; [ $? = 137 ] || exit 1; " PROGRAM(
                           "forever") " & done; kill -9 $!; wait $!; wait; exit 0");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, "all threads\nall threads\nall threads\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_runs_and_what_weir_did_is_said),
        cmocka_unit_test(a_pool_that_ended_before_the_process_is_in_it),
        cmocka_unit_test(the_status_is_the_programs),
        cmocka_unit_test(a_status_is_learnt_whatever_becomes_of_children_and_readers),
        cmocka_unit_test(json_is_alone_in_its_file),
        cmocka_unit_test(signals_go_to_the_program),
        cmocka_unit_test(signals_of_any_kind_go_to_the_program),
        cmocka_unit_test(each_process_of_a_tree_is_told_of),
        cmocka_unit_test(what_tells_nothing_is_said_to),
        cmocka_unit_test(options_reach_the_pool),
        cmocka_unit_test(a_page_shows_each_process_and_device),
        cmocka_unit_test(a_static_program_runs_with_a_warning),
        cmocka_unit_test(a_program_with_more_rights_is_left_alone),
        cmocka_unit_test(a_folder_with_spaces_and_colons_will_do),
        cmocka_unit_test(a_program_may_have_any_name),
        cmocka_unit_test(a_process_that_is_killed_holds_no_other_up),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
