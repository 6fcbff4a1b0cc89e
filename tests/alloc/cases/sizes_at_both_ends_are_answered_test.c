/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes near the top of their range never wrap, sizes of nothing are sizes, and the last byte of a limit can be had. */
#include <time.h>

#include "tests/alloc/cases/scene.h"

#define MOST_NS UINT64_C(100000000) /* of the thread's own time, so that a busy machine does not count */

static uint64_t own_time_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static const size_t huge[] = {
    SIZE_MAX,         SIZE_MAX - 510,  SIZE_MAX - 511,      (size_t)1 << 63,  ((size_t)1 << 63) - 1,
    SIZE_MAX - 7,     SIZE_MAX - PAGE, SIZE_MAX - PAGE + 1, SIZE_MAX / 2 + 1, SIZE_MAX / 4,
    SIZE_MAX / 4 + 1, (size_t)1 << 48, (size_t)1 << 32};
enum { HUGE_SIZES = sizeof huge / sizeof *huge };

/* A pool of each kind. */
enum { KINDS = 4 };
static struct weir_pool *open_kind(int kind, size_t bytes) {
    const enum weir_policy policies[KINDS] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM,
                                              WEIR_POLICY_LATENCY};
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options,
                                        .policy = policies[kind],
                                        .limit_bytes = bytes,
                                        .wait_limit_ns = 2000000000u,
                                        .trace_path = "",
                                        .deterministic = kind == 3};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

static void huge_requests_are_refused_at_once(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct weir_pool *pool = open_kind(kind, 64 * PAGE);
        weir_stream stream = new_stream();
        char *p = alloc(pool, 512, stream);
        for (int i = 0; i < HUGE_SIZES; i++) {
            const uint64_t since_ns = own_time_ns();
            expect_refused(pool, huge[i], stream);
            assert_true(own_time_ns() - since_ns < MOST_NS);
            struct weir_pool_refusal refusal = {.size = sizeof refusal};
            OK(weir_pool_get_refusal(pool, &refusal));
            assert_int_equal(refusal.asked_bytes, huge[i]);
            char *q = alloc(pool, 512, stream);
            assert_true(q + 512 <= p || p + 512 <= q);
            OK(weir_pool_free(pool, q, stream));
        }
        OK(weir_pool_free(pool, p, stream));
        close_pool(pool);
        OK(weir_stream_destroy(test_device(), stream));
    }
}

/* All of them asked for inside a host function, where no driver call may be made. */
static void ask_for_all(void *argument) {
    struct weir_pool *pool = argument;
    for (int i = 0; i < HUGE_SIZES; i++) {
        void *none = pool;
        enum weir_status status = weir_pool_alloc(pool, huge[i], NULL, &none);
        if ((status != WEIR_OUT_OF_MEMORY && status != WEIR_NOT_SUPPORTED) || none != NULL) return;
    }
    __atomic_fetch_add(&pool->iteration, 1, __ATOMIC_RELAXED);
}

static void huge_requests_of_a_host_function_are_refused(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct weir_pool *pool = open_kind(kind, 64 * PAGE);
        struct weir_work work = {.name = "ask", .run = ask_for_all, .argument = pool};
        OK(weir_device_submit(test_device(), &work, NULL));
        OK(weir_device_synchronize(test_device()));
        assert_int_equal(pool->iteration, 1);
        close_pool(pool);
    }
}

static void the_last_byte_of_the_limit_can_be_had(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == 2) continue; /* takes segments of its own sizes */
        struct weir_pool *pool = open_kind(kind, 64 * PAGE);
        weir_stream stream = new_stream();
        expect_refused(pool, 64 * PAGE + 1, stream);
        for (size_t short_of = 0; short_of < 1024; short_of += 511) {
            void *all = alloc(pool, 64 * PAGE - short_of, stream);
            assert_true(stats_of(pool).live_bytes <= 64 * PAGE);
            if (short_of < 512) expect_refused(pool, 1, stream);
            void *nothing = alloc(pool, 0, stream); /* a full pool has room for nothing */
            OK(weir_pool_free(pool, nothing, stream));
            OK(weir_pool_free(pool, all, stream));
            OK(weir_stream_synchronize(test_device(), stream));
        }
        close_pool(pool);
        OK(weir_stream_destroy(test_device(), stream));
    }
}

static void blocks_of_nothing_are_blocks(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct weir_pool *pool = open_kind(kind, 64 * PAGE);
        weir_stream stream = new_stream();
        void *a = alloc(pool, 0, stream), *b = alloc(pool, 0, stream);
        assert_ptr_not_equal(a, b);
        struct weir_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.live_blocks, 2);
        assert_int_equal(stats.live_bytes, 0);
        assert_int_equal(stats.requested_bytes, 0);
        assert_int_equal(stats.held_bytes, 0);
        OK(weir_pool_free(pool, NULL, stream));
        OK(weir_pool_free(pool, a, stream));
        OK(weir_pool_free(pool, b, NULL));
        assert_int_equal(stats_of(pool).live_blocks, 0);
        close_pool(pool);
        OK(weir_stream_destroy(test_device(), stream));
    }
}

/* They can run out too: as an answer, and one that is freed can be had again. */
static void more_blocks_of_nothing_than_there_are_addresses_are_refused(void **state) {
    (void)state;
    enum { MOST = 1 << 16 };
    struct weir_pool *pool = open_kind(0, 64 * PAGE);
    static void *blocks[MOST];
    size_t count = 0;
    while (count < MOST && weir_pool_alloc(pool, 0, NULL, &blocks[count]) == WEIR_OK) count++;
    void *none = pool;
    assert_int_equal(weir_pool_alloc(pool, 0, NULL, &none), WEIR_OUT_OF_MEMORY);
    assert_null(none);
    OK(weir_pool_free(pool, blocks[count / 2], NULL));
    blocks[count / 2] = alloc(pool, 0, NULL);
    void *other = alloc(pool, PAGE, NULL); /* what has a size is not concerned */
    OK(weir_pool_free(pool, other, NULL));
    for (size_t i = 0; i < count; i++) OK(weir_pool_free(pool, blocks[i], NULL));
    assert_int_equal(stats_of(pool).live_blocks, 0);
    close_pool(pool);
}

/* ---- sizes that are no requests --------------------------------------------------------------------------------------- */

static void huge_sizes_elsewhere_are_errors(void **state) {
    (void)state;
    struct weir_pool *pool = NULL;
    char host[512];
    void *out = host;
    for (int i = 0; i < HUGE_SIZES; i++) {
        struct weir_pool_options options = {.size = sizeof options, .limit_bytes = huge[i], .trace_path = ""};
        assert_int_equal(weir_pool_create(test_device(), &options, &pool), WEIR_INVALID);
        assert_null(pool);
        out = host;
        assert_int_not_equal(weir_host_alloc(test_device(), huge[i] | (size_t)1 << 62, &out), WEIR_OK);
        assert_int_not_equal(weir_host_register(test_device(), host, huge[i] | (size_t)1 << 62), WEIR_OK);
    }
    pool = open_kind(0, 64 * PAGE);
    void *p = alloc(pool, PAGE, NULL);
    for (int i = 0; i < HUGE_SIZES; i++) {
        assert_int_not_equal(weir_set(test_device(), p, 1, huge[i], NULL), WEIR_OK);
        assert_int_not_equal(weir_copy(test_device(), p, p, huge[i], NULL), WEIR_OK);
        OK(weir_pool_trim(pool, huge[i])); /* there is nothing above it to give back */
    }
    assert_int_equal(stats_of(pool).held_bytes, PAGE);
    queue_fill(NULL, p, PAGE, 3);
    queue_check(NULL, p, PAGE, 3);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    OK(weir_pool_free(pool, p, NULL));
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(huge_requests_are_refused_at_once),
        cmocka_unit_test(huge_requests_of_a_host_function_are_refused),
        cmocka_unit_test(the_last_byte_of_the_limit_can_be_had),
        cmocka_unit_test(blocks_of_nothing_are_blocks),
        cmocka_unit_test(more_blocks_of_nothing_than_there_are_addresses_are_refused),
        cmocka_unit_test(huge_sizes_elsewhere_are_errors),
    };
    return cmocka_run_group_tests_name("sizes_at_both_ends_are_answered", tests, NULL, NULL);
}
