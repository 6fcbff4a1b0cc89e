/* SPDX-License-Identifier: Apache-2.0 */
/* Out of memory is an answer that a program can catch and go on from: what is idle goes before it is given, the counts
 * are those of the calls made, and what was given back can be had again. */
#include <string.h>

#include "tests/alloc/cases/scene.h"

static weir_stream s0, s1;

static void free_and_settle(struct weir_pool *pool, void *block) {
    OK(weir_pool_free(pool, block, s0));
    OK(weir_device_synchronize(test_device())); /* trim itself waits for nothing */
}

/* ---- what is idle goes first -------------------------------------------------------------------------------------------- */

static void ask_for_more(struct weir_pool *pool) {
    struct weir_pool_stats before = stats_of(pool);
    const size_t asked[][2] = {{512, 768}, {600, 700}, {700, 1024}};
    for (int i = 0; i < 3; i++) {
        void *a = alloc(pool, asked[i][0] * MIB, s0);
        queue_fill(s0, a, asked[i][0] * MIB, 1);
        OK(weir_pool_free(pool, a, s0));
        void *b = alloc(pool, asked[i][1] * MIB, s0);
        queue_fill(s0, b, asked[i][1] * MIB, 2);
        free_and_settle(pool, b);
    }
    OK(weir_pool_trim(pool, 0));
    struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.held_bytes, 0);
    assert_int_equal(stats.idle_bytes, 0);
    assert_int_equal(stats.out_of_memory, before.out_of_memory);
    assert_int_equal(stats.allocs, before.allocs + 6);
    assert_int_equal(stats.frees, before.frees + 6);
    assert_int_equal(stats.peak_live_bytes, GIB);
    assert_int_equal(stats.peak_requested_bytes, GIB);
    assert_true(stats.peak_held_bytes <= GIB);
}

static void idle_memory_goes_before_a_refusal(void **state) {
    (void)state;
    with_every_pool(GIB, ask_for_more);
}

/* Idle memory of another stream, which is still busy, goes too. */
static void ask_beside_a_busy_stream(struct weir_pool *pool) {
    void *a = alloc(pool, 600 * MIB, s1);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, a, 600 * MIB, 1);
    OK(weir_pool_free(pool, a, s1));
    struct opener *opener = open_once_it_waits(pool, gate);
    void *b = alloc(pool, 700 * MIB, s0);
    queue_fill(s0, b, 700 * MIB, 2);
    join_opener(opener);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    free_and_settle(pool, b);
}

static void idle_memory_of_a_busy_stream_goes_too(void **state) {
    (void)state;
    with_every_pool(GIB, ask_beside_a_busy_stream);
}

/* ---- the answer ------------------------------------------------------------------------------------------------------------ */

static void refuse_and_go_on(struct weir_pool *pool) {
    void *kept = alloc(pool, 600 * MIB, s0);
    queue_fill(s0, kept, 600 * MIB, 7);
    for (int i = 1; i <= 3; i++) {
        expect_refused(pool, 425 * MIB, s0);
        assert_int_equal(weir_last_error()->status, WEIR_OUT_OF_MEMORY);
        assert_non_null(strstr(weir_last_error()->message, "3481600 bytes")); /* what was asked for */
        assert_int_equal(stats_of(pool).out_of_memory, i);
    }
    expect_refused(pool, GIB + 1, s0);
    assert_int_equal(weir_device_synchronize(test_device()), WEIR_OK); /* no error is left on the device */
    void *b = alloc(pool, 400 * MIB, s0);
    queue_fill(s0, b, 400 * MIB, 8);
    queue_check(s0, kept, 600 * MIB, 7);
    free_and_settle(pool, b);
    struct weir_pool_stats full = stats_of(pool);
    OK(weir_pool_trim(pool, 0));
    struct weir_pool_stats trimmed = stats_of(pool);
    assert_true(trimmed.held_bytes < full.held_bytes);
    assert_int_equal(trimmed.held_bytes, trimmed.live_bytes);
    assert_int_equal(trimmed.idle_bytes, 0);
    b = alloc(pool, 400 * MIB, s0); /* and again after the trim */
    OK(weir_pool_free(pool, b, s0));
    queue_check(s0, kept, 600 * MIB, 7);
    free_and_settle(pool, kept);
    assert_int_equal(stats_of(pool).live_bytes, 0);
}

static void the_program_goes_on_after_a_refusal(void **state) {
    (void)state;
    with_every_pool(GIB, refuse_and_go_on);
}

/* A request that others' memory stands in the way of is refused, and served once they let go. */
static void refuse_while_others_hold(struct weir_pool *pool) {
    const struct weir__driver *driver = test_device()->driver;
    size_t left, total;
    OK(weir_device_memory(test_device(), &left, &total));
    assert_int_equal(driver->emu_others(0, left - 200 * MIB), CUDA_SUCCESS);
    expect_refused(pool, 700 * MIB, s0);
    void *small = alloc(pool, 100 * MIB, s0);
    assert_int_equal(driver->emu_others(0, 0), CUDA_SUCCESS);
    void *large = alloc(pool, 700 * MIB, s0); /* the same request */
    OK(weir_pool_free(pool, small, s0));
    free_and_settle(pool, large);
}

static void others_memory_is_no_lasting_reason(void **state) {
    (void)state;
    with_every_pool(GIB, refuse_while_others_hold);
}

/* ---- the driver has back what the pool had ------------------------------------------------------------------------------------ */

static void a_pool_that_is_gone_holds_nothing(void **state) {
    (void)state;
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
    size_t before, after, total;
    OK(weir_device_memory(test_device(), &before, &total));
    for (int i = 0; i < 3; i++) {
        struct weir_pool *pool = open_case(policies[i], GIB);
        alloc(pool, 300 * MIB, s0); /* stays live */
        void *b = alloc(pool, 300 * MIB, s0);
        OK(weir_pool_free(pool, b, s0));
        close_pool(pool);
        OK(weir_device_memory(test_device(), &after, &total));
        assert_int_equal(before, after);
    }
}

static int open_streams(void **state) {
    (void)state;
    s0 = new_stream();
    s1 = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_memory_goes_before_a_refusal),   cmocka_unit_test(idle_memory_of_a_busy_stream_goes_too),
        cmocka_unit_test(the_program_goes_on_after_a_refusal), cmocka_unit_test(others_memory_is_no_lasting_reason),
        cmocka_unit_test(a_pool_that_is_gone_holds_nothing),
    };
    return cmocka_run_group_tests_name("a_refusal_is_an_answer", tests, open_streams, NULL);
}
