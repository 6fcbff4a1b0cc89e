/* SPDX-License-Identifier: Apache-2.0 */
/* Idle memory serves every stream: the cases that people reported of pools that keep it by stream. Sizes are those of
 * the reports over 128, as the demo profile's pages are of a real device's. */
#include <pthread.h>

#include "support.h"

#define MIB ((size_t)8192) /* a MiB of the reports */

static void buffers_of_streams_that_come_and_go_are_used_again(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 1024 * MIB / PAGE);
    weir_stream streams[32], s0 = new_stream();
    for (int i = 0; i < 32; i++) {
        streams[i] = new_stream();
        void *a = alloc(pool, 64 * MIB, streams[i]);
        queue_fill(streams[i], a, 64 * MIB, 1);
        OK(weir_pool_free(pool, a, streams[i]));
        OK(weir_stream_synchronize(test_device(), streams[i]));
    }
    assert_true(stats_of(pool).held_bytes <= 128 * MIB);
    void *b = alloc(pool, 512 * MIB, s0);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    OK(weir_pool_free(pool, b, s0));
    close_pool(pool);
    for (int i = 0; i < 32; i++) OK(weir_stream_destroy(test_device(), streams[i]));
    OK(weir_stream_destroy(test_device(), s0));
}

struct delayed {
    struct weir_pool *pool;
    struct gate *gate;
};

static void *open_when_blocked(void *argument) {
    struct delayed *delayed = argument;
    struct weir_pool_stats stats;
    uint64_t until_ns = now_ns() + 1000000000u;
    do stats = stats_of(delayed->pool);
    while (stats.host_waits + stats.device_waits == 0 && now_ns() < until_ns);
    open_gate(delayed->gate);
    return NULL;
}

static void a_block_that_waits_for_another_stream_serves_the_first_request(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 256 * MIB / PAGE);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *a = alloc(pool, 192 * MIB, s0);
    OK(weir_pool_note(pool, a, s1));
    struct delayed delayed = {.pool = pool, .gate = put_gate(s1)};
    queue_fill(s1, a, 192 * MIB, 0xAA);
    OK(weir_pool_free(pool, a, s0));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_when_blocked, &delayed), 0);
    void *b = alloc(pool, 160 * MIB, s0);
    queue_fill(s0, b, 160 * MIB, 0xBB);
    queue_check(s0, b, 160 * MIB, 0xBB);
    pthread_join(thread, NULL);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    close_pool(pool);
}

/* What can only be had by a host wait that never ends is refused after the wait limit. */
static void a_wait_that_does_not_end_is_given_up(void **state) {
    (void)state;
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = 8 * PAGE, .wait_limit_ns = 20000000u, .trace_path = ""};
    struct weir_pool *pool = NULL;
    OK(weir_pool_create(test_device(), &options, &pool));
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *holes[4], *posts[4], *b = pool;
    for (int i = 0; i < 4; i++) {
        holes[i] = alloc(pool, PAGE, s1);
        posts[i] = alloc(pool, PAGE, s1);
    }
    struct gate *gate = put_gate(s1);
    for (int i = 0; i < 4; i++) OK(weir_pool_free(pool, holes[i], s1));
    struct weir_pool_stats before = stats_of(pool);
    assert_int_equal(weir_pool_alloc(pool, 4 * PAGE, s0, &b), WEIR_OUT_OF_MEMORY);
    assert_null(b);
    struct weir_pool_stats after = stats_of(pool);
    assert_int_equal(after.held_bytes, before.held_bytes);
    assert_int_equal(after.idle_bytes, before.idle_bytes);
    assert_int_equal(after.host_waits, before.host_waits + 1);
    open_gate(gate);
    OK(weir_pool_alloc(pool, 4 * PAGE, s0, &b)); /* now that it has ended, the same request is served */
    (void)posts;
    close_pool(pool);
}

static void gather_buffers_noted_by_compute_do_not_pile_up(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_FOOTPRINT, 256 * MIB / PAGE);
    weir_stream s0 = new_stream(), sc = new_stream();
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    struct gate *gate = put_gate(s0);
    uint64_t calls_before = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) calls_before = stats_of(pool).memory_calls;
        for (int layer = 0; layer < 16; layer++) {
            unsigned char value = (unsigned char)(pass * 16 + layer + 1);
            void *g = alloc(pool, 64 * MIB, sc);
            queue_fill(sc, g, 64 * MIB, value);
            OK(weir_event_record(test_device(), event, sc));
            OK(weir_stream_wait(test_device(), s0, event));
            OK(weir_pool_note(pool, g, s0));
            queue_check(s0, g, 64 * MIB, value);
            OK(weir_pool_free(pool, g, sc));
        }
        if (pass == 0) open_gate(gate);
    }
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.out_of_memory, 0);
    assert_int_equal(stats.host_waits, 0);
    assert_true(stats.peak_held_bytes <= 3 * 64 * MIB);
    assert_int_equal(stats.memory_calls, calls_before);
    close_pool(pool);
    OK(weir_event_destroy(test_device(), event));
}

static void small_long_lived_blocks_do_not_break_large_ones_up(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 1024 * MIB / PAGE);
    weir_stream s0 = new_stream();
    uint64_t chance = seed_of(9);
    void *a = alloc(pool, 600 * MIB, s0);
    OK(weir_pool_free(pool, a, s0));
    alloc(pool, 16 * MIB, s0);
    void *b = alloc(pool, 600 * MIB, s0);
    OK(weir_pool_free(pool, b, s0));
    for (int step = 0; step < 200; step++) {
        void *work = alloc(pool, 200 * MIB + draw(&chance) % (400 * MIB), s0);
        alloc(pool, 1 * MIB, s0);
        OK(weir_pool_free(pool, work, s0));
    }
    OK(weir_stream_synchronize(test_device(), s0));
    OK(weir_pool_trim(pool, 0));
    struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.out_of_memory, 0);
    assert_true(stats.held_bytes - stats.live_bytes <= 256 * MIB);
    close_pool(pool);
}

static void idle_memory_is_given_up_before_a_request_is_refused(void **state) {
    (void)state;
    enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
    for (int i = 0; i < 3; i++) {
        struct weir_pool *pool = open_pool(policies[i], 1024 * MIB / PAGE);
        weir_stream s0 = new_stream();
        void *a = alloc(pool, 512 * MIB, s0);
        OK(weir_pool_free(pool, a, s0));
        void *b = alloc(pool, 768 * MIB, s0);
        OK(weir_pool_free(pool, b, s0));
        OK(weir_stream_synchronize(test_device(), s0)); /* trim itself waits for nothing */
        OK(weir_pool_trim(pool, 0));
        struct weir_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.live_bytes, 0);
        assert_int_equal(stats.held_bytes, 0);
        assert_int_equal(stats.out_of_memory, 0);
        assert_true(stats.peak_held_bytes <= stats.limit_bytes);
        close_pool(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_streams_that_come_and_go_are_used_again),
        cmocka_unit_test(a_block_that_waits_for_another_stream_serves_the_first_request),
        cmocka_unit_test(a_wait_that_does_not_end_is_given_up),
        cmocka_unit_test(gather_buffers_noted_by_compute_do_not_pile_up),
        cmocka_unit_test(small_long_lived_blocks_do_not_break_large_ones_up),
        cmocka_unit_test(idle_memory_is_given_up_before_a_request_is_refused),
    };
    return cmocka_run_group_tests_name("nothing_stranded", tests, NULL, NULL);
}
