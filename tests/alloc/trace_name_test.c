/* SPDX-License-Identifier: Apache-2.0 */
/* Where a recording goes: one that is going on is never spoiled by another one, whoever writes it; one that has ended makes
 * room for the next. Each case is a child of its own, which opens the device for itself. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "tools/trace/trace.h"

static char folder[] = "/tmp/weir_trace_name_XXXXXX";

static const char *path_of(const char *name) {
    static char room[4][320];
    static unsigned next;
    char *path = room[next++ % 4];
    snprintf(path, sizeof room[0], "%s/%s", folder, name);
    return path;
}

static bool is_there(const char *name) { return access(path_of(name), F_OK) == 0; }

static struct weir_pool *open_recorded(const char *name) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = 64 * PAGE, .trace_path = path_of(name)};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

static size_t allocs_in(const char *name) {
    struct trace trace;
    char why[512];
    if (!trace_read(path_of(name), &trace, why, sizeof why)) fail_msg("%s", why);
    const size_t blocks = trace.block_count;
    trace_free(&trace);
    return blocks;
}

static void alloc_some(struct weir_pool *pool, int count) {
    for (int i = 0; i < count; i++) OK(weir_pool_free(pool, alloc(pool, 100, NULL), NULL));
}

/* A line of the log that holds both. */
static bool log_says(const char *first, const char *second) {
    char line[512];
    bool found = false;
    FILE *log = fopen(path_of("log"), "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log) != NULL) found |= strstr(line, first) != NULL && strstr(line, second) != NULL;
    fclose(log);
    return found;
}

/* Runs a test in a child, whose failures the log of the test shows. */
static void in_child(void (*test)(void)) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        test();
        exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* ---- who has the name -------------------------------------------------------------------------------------------- */

static void record_again(void) {
    struct weir_pool *pool = open_recorded("same");
    alloc_some(pool, 5);
    close_pool(pool);
    assert_int_equal(allocs_in("same"), 5);
    assert_int_equal(unlink(path_of("same")), 0); /* removed: the name is free */
    close_pool(open_recorded("same"));
    assert_int_equal(allocs_in("same"), 0);
}

static void record_thrice(void) {
    struct weir_pool *first = open_recorded("same"), *second = open_recorded("same"), *third = open_recorded("same");
    assert_true(log_says("same is being recorded", "same.2"));
    assert_true(log_says("same is being recorded", "same.3"));
    alloc_some(first, 1);
    alloc_some(second, 2);
    alloc_some(third, 3);
    close_pool(first);
    struct weir_pool *again = open_recorded("same");
    alloc_some(again, 4);
    close_pool(again);
    close_pool(second);
    close_pool(third);
    assert_true(log_says("same is being recorded", "same.4")); /* what the first one wrote stays */
    assert_int_equal(allocs_in("same.4"), 4);
    assert_int_equal(allocs_in("same"), 1);
    assert_int_equal(allocs_in("same.2"), 2);
    assert_int_equal(allocs_in("same.3"), 3);
}

static void pools_with_one_name_write_files_of_their_own_and_another_process_replaces_them(void **state) {
    (void)state;
    in_child(record_thrice);
    in_child(record_again);
}

static void record_packed(void) {
    struct weir_pool *pool = open_recorded("name.zst");
    alloc_some(pool, 2);
    close_pool(pool);
    assert_true(log_says("name.zst is recorded as plain text", "weir-trace pack"));
    assert_int_equal(allocs_in("name.zst"), 2);
}

static void a_name_that_promises_compressed_text_is_told_of(void **state) {
    (void)state;
    in_child(record_packed);
}

static void record_beside(void) {
    struct weir_pool *pool = open_recorded("shared");
    alloc_some(pool, 2);
    close_pool(pool);
}

/* Two processes: the first records until the second has. */
static void processes_with_one_name_write_two_files(void **state) {
    (void)state;
    int to_parent[2], to_child[2];
    char byte;
    assert_int_equal(pipe(to_parent), 0);
    assert_int_equal(pipe(to_child), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct weir_pool *pool = open_recorded("shared");
        alloc_some(pool, 1);
        assert_int_equal(write(to_parent[1], "", 1), 1);
        assert_int_equal(read(to_child[0], &byte, 1), 1);
        close_pool(pool);
        exit(0);
    }
    assert_int_equal(read(to_parent[0], &byte, 1), 1);
    in_child(record_beside);
    assert_int_equal(write(to_child[1], "", 1), 1);
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(allocs_in("shared"), 1);
    assert_int_equal(allocs_in("shared.2"), 2);
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

static struct weir_pool *forked_pool;

static void use_what_the_parent_opened(void) {
    void *block;
    assert_int_equal(weir_pool_alloc(forked_pool, 100, NULL, &block), WEIR_NOT_SUPPORTED);
    weir_pool_name_stream(forked_pool, NULL, "child");
    assert_int_equal(weir_pool_mark_iteration(forked_pool), WEIR_NOT_SUPPORTED);
    weir_pool_destroy(forked_pool);
}

static void record_and_fork(void) {
    forked_pool = open_recorded("forked");
    alloc_some(forked_pool, 1);
    in_child(use_what_the_parent_opened); /* ends by exit: the parent's file is not cut */
    alloc_some(forked_pool, 100);
    close_pool(forked_pool);
    assert_int_equal(allocs_in("forked"), 101);
}

static void a_child_of_fork_does_not_write_into_its_parents_recording(void **state) {
    (void)state;
    in_child(record_and_fork);
}

/* The child that outlives it says that it is there, and goes when the pipe is closed. */
static void record_and_leave_a_child(int held, int told) {
    char byte;
    struct weir_pool *pool = open_recorded("orphan");
    alloc_some(pool, 1);
    if (fork() == 0) {
        if (write(told, "", 1) != 1) _exit(1);
        while (read(held, &byte, 1) > 0) {
        }
    }
    _exit(0); /* as if killed: nothing is closed in order */
}

static void a_child_that_outlives_the_recording_process_does_not_hold_the_name(void **state) {
    (void)state;
    int held[2], told[2];
    char byte;
    assert_int_equal(pipe(held), 0);
    assert_int_equal(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(held[1]);
        record_and_leave_a_child(held[0], told[1]);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(read(told[0], &byte, 1), 1);
    struct weir_pool *pool = open_recorded("orphan");
    alloc_some(pool, 2);
    close_pool(pool);
    close(held[1]);
    close(held[0]);
    close(told[0]);
    close(told[1]);
    assert_false(is_there("orphan.2"));
    assert_int_equal(allocs_in("orphan"), 2);
}

/* ---- what a name may be ------------------------------------------------------------------------------------------ */

static void record_under_a_pattern(void) {
    char name[64];
    close_pool(open_recorded("run-%p-%d-100%%.trace"));
    snprintf(name, sizeof name, "run-%ld-0-100%%.trace", (long)getpid());
    assert_int_equal(allocs_in(name), 0);
    unlink(path_of(name));
}

static void the_process_and_the_device_can_stand_in_the_name(void **state) {
    (void)state;
    in_child(record_under_a_pattern);
}

static void refused(const char *path, enum weir_status status, const char *words) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = 64 * PAGE, .trace_path = path};
    assert_int_equal(weir_pool_create(test_device(), &options, &pool), status);
    assert_null(pool);
    if (strstr(weir_last_error()->message, words) == NULL)
        fail_msg("'%s' does not say '%s'", weir_last_error()->message, words);
}

static void open_badly_named(void) {
    refused("/nowhere/at/all.trace", WEIR_SYSTEM, "/nowhere/at/all.trace: No such file");
    refused(folder, WEIR_SYSTEM, "Is a directory");
    refused("/dev/null", WEIR_SYSTEM, "/dev/null: it is no regular file");
    refused("/tmp/%q.trace", WEIR_INVALID, "not 'q'");
    refused("/tmp/100%", WEIR_INVALID, "not ''");
    struct weir_pool *pool = open_recorded("after"); /* nothing of a refused one is left */
    alloc_some(pool, 1);
    close_pool(pool);
}

static void a_name_that_can_not_be_is_refused_with_the_reason(void **state) {
    (void)state;
    in_child(open_badly_named);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int make_folder(void **state) {
    (void)state;
    char log[300];
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(log, sizeof log, "warn:%s", path_of("log"));
    return setenv("WEIR_LOG", log, 1);
}

static int remove_folder(void **state) {
    (void)state;
    DIR *files = opendir(folder);
    if (files == NULL) return -1;
    for (struct dirent *file; (file = readdir(files)) != NULL;) unlink(path_of(file->d_name));
    closedir(files);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_with_one_name_write_files_of_their_own_and_another_process_replaces_them),
        cmocka_unit_test(a_name_that_promises_compressed_text_is_told_of),
        cmocka_unit_test(processes_with_one_name_write_two_files),
        cmocka_unit_test(a_child_of_fork_does_not_write_into_its_parents_recording),
        cmocka_unit_test(the_process_and_the_device_can_stand_in_the_name),
        cmocka_unit_test(a_name_that_can_not_be_is_refused_with_the_reason),
        cmocka_unit_test(
            a_child_that_outlives_the_recording_process_does_not_hold_the_name), /* opens the device here */
    };
    return cmocka_run_group_tests_name("trace name", tests, make_folder, remove_folder);
}
