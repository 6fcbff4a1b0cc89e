/* SPDX-License-Identifier: Apache-2.0 */
/* A block is freed once, by its start, at its own pool, by any thread. Everything else is an error that changes nothing:
 * no block gets two owners, and none is lost. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/alloc/cases/scene.h"

#define BYTES ((size_t)512 * 1024)

static weir_stream s0, s1;

static void expect_refusal(struct weir_pool *pool, void *address, const char *reason) {
    struct weir_pool_stats before = stats_of(pool);
    assert_int_equal(weir_pool_free(pool, address, s0), WEIR_INVALID);
    assert_non_null(strstr(weir_last_error()->message, reason));
    assert_int_equal(weir_pool_note(pool, address, s1), WEIR_INVALID);
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    OK(weir_event_record(test_device(), event, s0));
    assert_int_equal(weir_pool_free_after(pool, address, event), WEIR_INVALID);
    OK(weir_event_destroy(test_device(), event));
    struct weir_pool_stats after = stats_of(pool);
    assert_same_state(&before, &after);
    assert_int_equal(weir_last_error()->status, WEIR_INVALID);
    OK(weir_pool_check(pool));
}

static void expect_no_block(struct weir_pool *pool, void *address) {
    expect_refusal(pool, address, "not the start of a live block");
}

/* ---- twice ---------------------------------------------------------------------------------------------------------- */

static void free_twice(struct weir_pool *pool) {
    char *p = alloc(pool, BYTES, s0);
    OK(weir_pool_free(pool, p, s0));
    expect_no_block(pool, p);
    char *q = alloc(pool, BYTES, s0), *r = alloc(pool, BYTES, s0);
    assert_true(q + BYTES <= r || r + BYTES <= q);
    queue_fill(s0, q, BYTES, 1);
    queue_fill(s0, r, BYTES, 2);
    queue_check(s0, q, BYTES, 1);
    queue_check(s0, r, BYTES, 2);
    OK(weir_pool_free(pool, q, s0));
    OK(weir_pool_free(pool, r, s0));
    expect_no_block(pool, r);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(stats_of(pool).live_bytes, 0);
}

static void a_block_that_was_freed_is_none(void **state) {
    (void)state;
    with_every_pool(64 * BYTES, free_twice);
}

static void free_after_twice(struct weir_pool *pool) {
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    OK(weir_event_record(test_device(), event, s1));
    void *p = alloc(pool, BYTES, s0), *zero = alloc(pool, 0, s0);
    OK(weir_stream_synchronize(test_device(), s0));
    OK(weir_pool_free_after(pool, p, event));
    expect_no_block(pool, p);
    OK(weir_pool_free(pool, zero, s0));
    expect_no_block(pool, zero);
    OK(weir_device_synchronize(test_device()));
    OK(weir_event_destroy(test_device(), event));
}

static void one_that_is_freed_after_an_event_is_none_at_once(void **state) {
    (void)state;
    with_every_pool(64 * BYTES, free_after_twice);
}

/* A free in a host function is carried out later; which of two it was that was wrong is told in the log. */
struct freed {
    struct weir_pool *pool;
    void *block;
};

static void free_both_times(void *argument) {
    const struct freed *freed = argument;
    for (int i = 0; i < 2; i++) weir_pool_free(freed->pool, freed->block, s1);
}

static void free_twice_in_host_function(struct weir_pool *pool) {
    struct freed freed = {pool, alloc(pool, BYTES, s1)};
    struct weir_work work = {.name = "free", .run = free_both_times, .argument = &freed};
    OK(weir_device_submit(test_device(), &work, s1));
    OK(weir_stream_synchronize(test_device(), s1));
    assert_int_equal(stats_of(pool).live_bytes, 0);
    assert_int_equal(stats_of(pool).frees, stats_of(pool).allocs);
    void *a = alloc(pool, BYTES, s1), *b = alloc(pool, BYTES, s1);
    assert_ptr_not_equal(a, b);
    OK(weir_pool_free(pool, a, s1));
    OK(weir_pool_free(pool, b, s1));
}

static void a_host_function_frees_it_once(void **state) {
    (void)state;
    with_every_pool(64 * BYTES, free_twice_in_host_function);
}

/* ---- by threads -------------------------------------------------------------------------------------------------------- */

struct race {
    struct weir_pool *pool;
    void *block;
    pthread_barrier_t *both;
    enum weir_status status;
};

static void *free_with_another(void *argument) {
    struct race *race = argument;
    pthread_barrier_wait(race->both);
    race->status = weir_pool_free(race->pool, race->block, s0);
    return NULL;
}

static void race_for_it(struct weir_pool *pool) {
    pthread_barrier_t both;
    pthread_barrier_init(&both, NULL, 2);
    for (int round = 0; round < 100; round++) {
        struct race races[2];
        void *block = alloc(pool, BYTES, s0);
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            races[i] = (struct race){pool, block, &both, WEIR_OK};
            assert_int_equal(pthread_create(&threads[i], NULL, free_with_another, &races[i]), 0);
        }
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        assert_int_equal((races[0].status == WEIR_OK) + (races[1].status == WEIR_OK), 1);
        assert_int_equal((races[0].status == WEIR_INVALID) + (races[1].status == WEIR_INVALID), 1);
        assert_int_equal(stats_of(pool).live_blocks, 0);
    }
    pthread_barrier_destroy(&both);
    OK(weir_device_synchronize(test_device()));
}

static void of_two_threads_that_free_it_one_does(void **state) {
    (void)state;
    with_every_pool(64 * BYTES, race_for_it);
}

static void *free_alone(void *argument) {
    struct race *race = argument;
    race->status = weir_pool_free(race->pool, race->block, s0);
    return NULL;
}

static void free_in_a_thread(struct weir_pool *pool) {
    struct race race = {.pool = pool, .block = alloc(pool, BYTES, s0), .status = WEIR_INVALID};
    queue_fill(s0, race.block, BYTES, 3);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_alone, &race), 0);
    pthread_join(thread, NULL);
    assert_int_equal(race.status, WEIR_OK);
    assert_int_equal(stats_of(pool).live_blocks, 0);
    void *again = alloc(pool, BYTES, s0);
    queue_fill(s0, again, BYTES, 4);
    OK(weir_pool_free(pool, again, s0));
    OK(weir_device_synchronize(test_device()));
}

static void another_thread_may_free_it(void **state) {
    (void)state;
    with_every_pool(64 * BYTES, free_in_a_thread);
}

/* ---- what is no block of the pool ------------------------------------------------------------------------------------- */

static void free_inside(struct weir_pool *pool) {
    char *p = alloc(pool, BYTES, s0);
    const size_t inside[] = {1, 8, 511, 512, BYTES / 2, BYTES - 512, BYTES - 1};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) expect_no_block(pool, p + inside[i]);
    expect_no_block(pool, (char *)((uintptr_t)p + BYTES));
    expect_no_block(pool, (char *)((uintptr_t)p - 1));
    expect_no_block(pool, (void *)~(uintptr_t)0);
    expect_no_block(pool, (void *)1);
    expect_no_block(pool, &pool);
    OK(weir_pool_free(pool, p, s0));
    OK(weir_device_synchronize(test_device()));
}

static void only_the_start_names_it(void **state) {
    (void)state;
    with_every_pool(64 * BYTES, free_inside);
}

static void free_what_others_made(struct weir_pool *pool) {
    const struct weir__driver *driver = test_device()->driver;
    struct weir_pool *other = open_case(WEIR_POLICY_LATENCY, 16 * BYTES);
    void *theirs = alloc(other, BYTES, s0);
    CUdeviceptr drivers = 0;
    OK(weir__device_enter(test_device()));
    assert_int_equal(driver->memory_alloc(&drivers, BYTES), CUDA_SUCCESS);
    weir__device_leave(test_device());
    void *host = malloc(BYTES), *pinned = NULL;
    OK(weir_host_alloc(test_device(), BYTES, &pinned));
    expect_refusal(pool, theirs, "the call names another pool");
    expect_no_block(pool, (void *)(uintptr_t)drivers);
    expect_no_block(pool, host);
    expect_no_block(pool, pinned);
    /* Each is as it was, and goes back to its maker. */
    queue_fill(s0, theirs, BYTES, 5);
    queue_check(s0, theirs, BYTES, 5);
    OK(weir_pool_free(other, theirs, s0));
    OK(weir_device_synchronize(test_device()));
    OK(weir__device_enter(test_device()));
    assert_int_equal(driver->memory_free(drivers), CUDA_SUCCESS);
    weir__device_leave(test_device());
    OK(weir_host_free(test_device(), pinned));
    free(host);
    close_pool(other);
}

static void what_others_made_stays_theirs(void **state) {
    (void)state;
    with_every_pool(64 * BYTES, free_what_others_made);
}

static int open_streams(void **state) {
    (void)state;
    s0 = new_stream();
    s1 = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_was_freed_is_none),
        cmocka_unit_test(one_that_is_freed_after_an_event_is_none_at_once),
        cmocka_unit_test(a_host_function_frees_it_once),
        cmocka_unit_test(of_two_threads_that_free_it_one_does),
        cmocka_unit_test(another_thread_may_free_it),
        cmocka_unit_test(only_the_start_names_it),
        cmocka_unit_test(what_others_made_stays_theirs),
    };
    return cmocka_run_group_tests_name("a_block_has_one_owner", tests, open_streams, NULL);
}
