/* SPDX-License-Identifier: Apache-2.0 */
/* Children are forked while other threads are inside the pool: whatever a child does, it ends at once, the pool is
 * refused to it in words, and the parent does not notice. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/alloc/cases/scene.h"
#include "tests/sanitized.h"

enum { THREADS = 4, CHILDREN = 100, MOST_SECONDS = 120 };

static struct weir_pool *pool;
static weir_stream stream;
static void *block; /* of the parent, all 7 */
#define BLOCK_BYTES (4 * MIB)

/* ---- threads that are inside the pool all the time ------------------------------------------------------------------ */

static bool stop;
static uint64_t rounds[THREADS];

static void *alloc_and_free(void *argument) {
    uint64_t *done = argument, chance = (uint64_t)(done - rounds) + 1;
    weir_stream own = new_stream();
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        size_t bytes = 1 + draw(&chance) % (4 * MIB);
        void *at = alloc(pool, bytes, own);
        queue_fill(own, at, bytes, 0x33);
        queue_check(own, at, bytes, 0x33);
        OK(weir_pool_free(pool, at, own));
        __atomic_fetch_add(done, 1, __ATOMIC_RELAXED);
    }
    OK(weir_stream_synchronize(test_device(), own));
    OK(weir_stream_destroy(test_device(), own));
    return NULL;
}

/* ---- what children do -------------------------------------------------------------------------------------------------- */

static bool is_refused(enum weir_status status) {
    return status == WEIR_NOT_SUPPORTED && strstr(weir_last_error()->message, "after fork") != NULL;
}

static void run_a_program(void) {
    execlp("true", "true", (char *)NULL);
    _exit(1);
}
static void leave_at_once(void) { _exit(0); }
static void try_to_allocate(void) {
    void *none = &none;
    bool refused = is_refused(weir_pool_alloc(pool, 100, stream, &none)) && none == NULL;
    refused = refused && is_refused(weir_pool_free(pool, block, stream));
    _exit(refused ? 0 : 1);
}
/* The handlers close the device, and a pool may be destroyed in one. */
static void leave_by_the_handlers(void) {
    weir_pool_destroy(pool);
    exit(0);
}
static void fork_again(void) {
    pid_t child = fork();
    if (child == 0) try_to_allocate();
    int status = -1;
    _exit(child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
}
static void open_a_device(void) {
    struct weir_device *device = NULL;
    _exit(is_refused(weir_device_open(NULL, &device)) && device == NULL ? 0 : 1);
}

/* The leak checker takes what only the missing threads point to for lost. */
static void leave(void) {
    if (SANITIZED) leave_at_once();
    leave_by_the_handlers();
}

static void (*const acts[])(void) = {run_a_program, leave_at_once, try_to_allocate, leave, fork_again, open_a_device};
enum { ACTS = sizeof acts / sizeof *acts };

static pid_t start(int act) {
    pid_t child = fork();
    if (child != 0) return child;
    alarm(MOST_SECONDS); /* also in what it becomes */
    acts[act % ACTS]();
    _exit(1);
}

static void expect_it_ends_well(pid_t child, int act) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) fail_msg("a child that does %d ended with status %#x", act % ACTS, (unsigned)status);
}

/* ---- tests ---------------------------------------------------------------------------------------------------------------- */

static void expect_the_parent_is_as_it_was(void) {
    queue_check(stream, block, BLOCK_BYTES, 7);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(stats.live_bytes, BLOCK_BYTES);
    assert_int_equal(stats.allocs, stats.frees + 1);
    assert_int_equal(stats.out_of_memory, 0);
    OK(weir_pool_check(pool));
}

static void children_forked_while_others_allocate(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    fflush(NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, alloc_and_free, &rounds[i]), 0);
    for (int i = 0; i < THREADS; i++)
        while (__atomic_load_n(&rounds[i], __ATOMIC_RELAXED) == 0) {
        }
    for (int act = 0; act < CHILDREN; act++) expect_it_ends_well(start(act), act);
    pid_t at_once[ACTS];
    for (int act = 0; act < ACTS; act++) at_once[act] = start(act);
    uint64_t before[THREADS];
    for (int i = 0; i < THREADS; i++) before[i] = __atomic_load_n(&rounds[i], __ATOMIC_RELAXED);
    for (int act = 0; act < ACTS; act++) expect_it_ends_well(at_once[act], act);
    for (int i = 0; i < THREADS; i++) /* none has stopped */
        while (__atomic_load_n(&rounds[i], __ATOMIC_RELAXED) == before[i]) {
        }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    expect_the_parent_is_as_it_was();
}

/* What is left but for the live block and the one beside the halves: it can be had with the page across them alone. */
static void *wait_for_pages(void *argument) {
    void **at = argument;
    const struct weir_pool_stats stats = stats_of(pool);
    const size_t block_pages = (BLOCK_BYTES + PAGE - 1) / PAGE;
    *at = alloc(pool, stats.limit_bytes - (block_pages + 1) * PAGE, stream);
    return NULL;
}

/* The pool waits on the host for a stream that stands, in a thread that a child does not have. */
static void children_forked_while_the_pool_waits(void **state) {
    (void)state;
    weir_stream other = new_stream(), third = new_stream();
    void *waited_for = NULL;
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    struct halves halves = make_halves(pool, other, third);
    struct gate *gate = put_gate(other);
    OK(weir_pool_free(pool, halves.first, other));
    OK(weir_pool_free(pool, halves.second, third));
    const uint64_t waits = stats_of(pool).host_waits;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_pages, &waited_for), 0);
    while (stats_of(pool).host_waits == waits) {
    }
    fflush(NULL);
    for (int act = 0; act < ACTS; act++) expect_it_ends_well(start(act), act);
    open_gate(gate);
    assert_int_equal(pthread_join(thread, NULL), 0);
    OK(weir_pool_free(pool, waited_for, stream));
    OK(weir_pool_free(pool, halves.post, other));
    OK(weir_device_synchronize(test_device()));
    OK(weir_stream_destroy(test_device(), other));
    OK(weir_stream_destroy(test_device(), third));
    expect_the_parent_is_as_it_was();
}

/* A host function runs in a thread of the driver. */
static int ended_in_host_function[ACTS];

static void fork_in_host_function(void *argument) {
    (void)argument;
    for (int act = 0; act < ACTS; act++) {
        pid_t child = start(act);
        waitpid(child, &ended_in_host_function[act], 0);
    }
}

static void children_forked_in_a_host_function(void **state) {
    (void)state;
    fflush(NULL);
    for (int act = 0; act < ACTS; act++) ended_in_host_function[act] = -1;
    struct weir_work work = {.name = "fork", .run = fork_in_host_function};
    OK(weir_device_submit(test_device(), &work, stream));
    OK(weir_stream_synchronize(test_device(), stream));
    for (int act = 0; act < ACTS; act++) assert_int_equal(ended_in_host_function[act], 0);
    expect_the_parent_is_as_it_was();
}

static int open_world(void **state) {
    (void)state;
    pool = open_case(WEIR_POLICY_LATENCY, 256 * MIB);
    stream = new_stream();
    block = alloc(pool, BLOCK_BYTES, stream);
    queue_fill(stream, block, BLOCK_BYTES, 7);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    close_pool(pool);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_forked_while_others_allocate),
        cmocka_unit_test(children_forked_while_the_pool_waits),
        cmocka_unit_test(children_forked_in_a_host_function),
    };
    return cmocka_run_group_tests_name("forked_children_end_and_the_parent_goes_on", tests, open_world, close_world);
}
