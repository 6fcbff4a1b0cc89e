/* SPDX-License-Identifier: Apache-2.0 */
/* A child of fork has neither the driver's threads nor those that held a lock. Every call there says so at once, and
 * the parent's pool is as it was. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static struct weir_pool *pool;
static weir_stream stream;
static void *block;

#define REFUSED(call)                                                                                                  \
    do {                                                                                                               \
        if ((call) != WEIR_NOT_SUPPORTED || strstr(weir_last_error()->message, "fork") == NULL) _exit(__LINE__ % 256); \
    } while (0)

/* The child: ends with 0, or with the line of the first call that was not refused. */
static void try_everything(void) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    struct weir_stream_stats by_stream[4] = {{.size = sizeof *by_stream}};
    struct weir_device *device;
    size_t count;
    void *other;
    alarm(120);
    REFUSED(weir_pool_alloc(pool, 100, stream, &other));
    REFUSED(weir_pool_free(pool, block, stream));
    REFUSED(weir_pool_note(pool, block, stream));
    REFUSED(weir_pool_trim(pool, 0));
    REFUSED(weir_pool_mark_iteration(pool));
    REFUSED(weir_pool_get_stats(pool, &stats));
    REFUSED(weir_pool_snapshot(pool, "/tmp/weir-forked.pickle"));
    REFUSED(weir_pool_get_stream_stats(pool, by_stream, 4, &count));
    REFUSED(weir_pool_get_refusal(pool, &refusal));
    REFUSED(weir_pool_check(pool));
    weir_pool_name_stream(pool, stream, "child");
    if (weir_pool_report(pool, NULL, 0) != 0) _exit(1);
    REFUSED(weir_stream_synchronize(test_device(), stream));
    REFUSED(weir_set(test_device(), block, 0, 100, stream));
    REFUSED(weir_device_open(NULL, &device));
    weir_pool_destroy(pool);
    weir_device_close(test_device());
    _exit(0);
}

static int status_of_child(void) {
    pid_t child = fork();
    if (child == 0) try_everything();
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void a_child_of_fork_is_refused(void **state) {
    (void)state;
    struct weir_pool_stats before = stats_of(pool);
    assert_int_equal(status_of_child(), 0);
    struct weir_pool_stats after = stats_of(pool);
    assert_memory_equal(&before, &after, sizeof before);
    queue_check(stream, block, 100, 7);
    OK(weir_stream_synchronize(test_device(), stream));
    assert_int_equal(wrong_bytes(), 0);
}

static const struct weir__driver *real;
static int status_under_lock = -1;

/* Queries are made with the pool's lock held: so is it in the child. */
static CUresult query_and_fork(CUstream queried) {
    if (status_under_lock == -1) status_under_lock = status_of_child();
    return real->stream_query(queried);
}

static void a_child_forked_while_a_lock_is_held_does_not_hang(void **state) {
    (void)state;
    real = test_device()->driver;
    struct weir__driver forking = *real;
    forking.stream_query = query_and_fork;
    test_device()->driver = &forking;
    OK(weir_pool_free(pool, block, stream));
    OK(weir_pool_trim(pool, 0));
    test_device()->driver = real;
    assert_int_equal(status_under_lock, 0);
}

static int open_world(void **state) {
    (void)state;
    pool = open_pool(WEIR_POLICY_LATENCY, 16);
    stream = new_stream();
    block = alloc(pool, 100, stream);
    queue_fill(stream, block, 100, 7);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    close_pool(pool);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_of_fork_is_refused),
        cmocka_unit_test(a_child_forked_while_a_lock_is_held_does_not_hang),
    };
    return cmocka_run_group_tests_name("fork", tests, open_world, close_world);
}
