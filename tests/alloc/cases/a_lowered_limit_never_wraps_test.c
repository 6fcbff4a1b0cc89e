/* SPDX-License-Identifier: Apache-2.0 */
/* A limit below what is live reads as nothing left, never as a huge number; what is above it goes as it becomes idle, also
 * when the device is behind; and what was refused under it is served when it is raised. */
#include "tests/alloc/cases/scene.h"

static weir_stream s0, s1;

static void expect_nothing_is_left(struct weir_pool *pool, size_t bytes) {
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    struct weir_pool_stats stats = stats_of(pool);
    expect_refused(pool, bytes, s0);
    OK(weir_pool_get_refusal(pool, &refusal));
    assert_int_equal(refusal.untaken_bytes, 0);
    const size_t parts[] = {refusal.live_bytes,        refusal.idle_asker_bytes, refusal.idle_others_bytes,
                            refusal.moving_bytes,      refusal.unmapped_bytes,   refusal.untaken_bytes,
                            refusal.largest_idle_bytes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_true(parts[i] <= stats.capacity_bytes);
    assert_true(stats.limit_bytes <= stats.capacity_bytes && stats.held_bytes <= stats.capacity_bytes);
}

static void lower_below_live(struct weir_pool *pool) {
    void *a = alloc(pool, 512 * MIB, s0);
    OK(weir_pool_free(pool, a, s0));
    void *b = alloc(pool, 768 * MIB, s0);
    queue_fill(s0, b, 768 * MIB, 5);
    const size_t held = stats_of(pool).held_bytes;
    OK(weir_pool_set_limit(pool, 256 * MIB));
    assert_true(stats_of(pool).held_bytes <= held); /* what is live stays */
    expect_nothing_is_left(pool, 1 * MIB);
    expect_nothing_is_left(pool, 512 * MIB);
    queue_check(s0, b, 768 * MIB, 5);
    OK(weir_pool_free(pool, b, s0));
    OK(weir_device_synchronize(test_device()));
    void *c = alloc(pool, 128 * MIB, s0); /* within the lower limit */
    assert_true(stats_of(pool).held_bytes <= 256 * MIB);
    expect_refused(pool, 192 * MIB, s0);
    OK(weir_pool_set_limit(pool, GIB));
    void *d = alloc(pool, 192 * MIB, s0); /* the same request */
    OK(weir_pool_free(pool, c, s0));
    OK(weir_pool_free(pool, d, s0));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
    assert_int_equal(stats_of(pool).live_bytes, 0);
}

static void a_limit_below_live_leaves_nothing(void **state) {
    (void)state;
    with_every_pool(GIB, lower_below_live);
}

/* Lowered again and again while blocks of a stream that stands are on their way back: nothing is given back before it is
 * unused, and everything is afterwards. */
static void lower_while_busy(struct weir_pool *pool) {
    void *blocks[8];
    for (int i = 0; i < 8; i++) blocks[i] = alloc(pool, 64 * MIB, s1);
    struct gate *gate = put_gate(s1);
    for (int i = 0; i < 8; i++) {
        queue_fill(s1, blocks[i], 64 * MIB, (unsigned char)(i + 1));
        queue_check(s1, blocks[i], 64 * MIB, (unsigned char)(i + 1));
        OK(weir_pool_free(pool, blocks[i], s1));
        OK(weir_pool_set_limit(pool, (size_t)(512 - 60 * i) * MIB));
        struct weir_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.held_bytes, 512 * MIB);
        assert_int_equal(stats.live_bytes, (size_t)(7 - i) * 64 * MIB);
        OK(weir_pool_check(pool));
    }
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_set_limit(pool, 90 * MIB));
    assert_true(stats_of(pool).held_bytes <= 90 * MIB);
    void *last = alloc(pool, 80 * MIB, s0);
    assert_true(stats_of(pool).held_bytes <= 90 * MIB);
    OK(weir_pool_free(pool, last, s0));
    OK(weir_device_synchronize(test_device()));
}

static void nothing_is_given_back_before_it_is_unused(void **state) {
    (void)state;
    with_shared_pools(GIB, lower_while_busy);
}

/* While one thread waits for pages, another one takes the limit from under it. */
static void lower_under_a_wait(struct weir_pool *pool) {
    weir_stream s2 = new_stream();
    OK(weir_pool_set_limit(pool, HALVES_PAGES * PAGE));
    struct halves halves = make_halves(pool, s1, s2);
    struct gate *gate = put_gate(s1);
    OK(weir_pool_free(pool, halves.first, s1));
    OK(weir_pool_free(pool, halves.second, s2));
    struct asker *asker = start_asking(pool, HALVES_ASKED * PAGE, s0);
    OK(weir_pool_set_limit(pool, HALVES_ASKED * PAGE)); /* and a page is live */
    open_gate(gate);
    void *block;
    assert_int_equal(join_asker(asker, &block), WEIR_OUT_OF_MEMORY);
    assert_null(block);
    OK(weir_pool_check(pool));
    OK(weir_pool_set_limit(pool, HALVES_PAGES * PAGE));
    block = alloc(pool, HALVES_ASKED * PAGE, s0);
    OK(weir_pool_free(pool, block, s0));
    OK(weir_pool_free(pool, halves.post, s1));
    OK(weir_device_synchronize(test_device()));
    OK(weir_stream_destroy(test_device(), s2));
}

static void a_waiting_request_heeds_the_new_limit(void **state) {
    (void)state;
    with_shared_pools(GIB, lower_under_a_wait);
}

static int open_streams(void **state) {
    (void)state;
    s0 = new_stream();
    s1 = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_below_live_leaves_nothing),
        cmocka_unit_test(nothing_is_given_back_before_it_is_unused),
        cmocka_unit_test(a_waiting_request_heeds_the_new_limit),
    };
    return cmocka_run_group_tests_name("a_lowered_limit_never_wraps", tests, open_streams, NULL);
}
