/* SPDX-License-Identifier: Apache-2.0 */
/* A new side stream for each call leaves nothing behind: what was freed on a stream that is idle, busy or gone serves
 * every other one. */
#include "tests/alloc/cases/scene.h"

enum { CALLS = 32 };

static weir_stream s0, side[CALLS];

static void *use(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    void *block = alloc(pool, bytes, stream);
    queue_fill(stream, block, bytes, 0x5A);
    return block;
}

static void expect_room_for_half(struct weir_pool *pool) {
    void *b = use(pool, 512 * MIB, s0);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    assert_true(stats_of(pool).peak_held_bytes <= GIB);
    OK(weir_pool_free(pool, b, s0));
    OK(weir_device_synchronize(test_device()));
}

static void destroy_side_streams(void) {
    for (int i = 0; i < CALLS; i++) OK(weir_stream_destroy(test_device(), side[i]));
}

/* ---- streams that stay open --------------------------------------------------------------------------------------- */

static void call_and_wait(struct weir_pool *pool) {
    for (int i = 0; i < CALLS; i++) {
        side[i] = new_stream();
        void *a = use(pool, 64 * MIB, side[i]);
        OK(weir_pool_free(pool, a, side[i]));
        OK(weir_stream_synchronize(test_device(), side[i]));
        assert_true(stats_of(pool).held_bytes <= 128 * MIB);
    }
    expect_room_for_half(pool);
    destroy_side_streams();
}

static void idle_streams_give_their_blocks_up(void **state) {
    (void)state;
    with_shared_pools(GIB, call_and_wait);
}

/* So that the case is one: with a pool a stream the blocks are tied, and the cap is reached. */
static void a_pool_a_stream_is_tied(void **state) {
    (void)state;
    struct weir_pool *pool = open_case(WEIR_POLICY_PER_STREAM, GIB);
    for (int i = 0; i < CALLS; i++) side[i] = new_stream();
    for (int i = 0; i < 16; i++) {
        void *a = use(pool, 64 * MIB, side[i]);
        OK(weir_pool_free(pool, a, side[i]));
        OK(weir_stream_synchronize(test_device(), side[i]));
    }
    assert_int_equal(stats_of(pool).held_bytes, GIB);
    destroy_side_streams();
    close_pool(pool);
}

/* The host does not wait between the calls; all streams are held back, one gate each. */
static void call_without_waiting(struct weir_pool *pool) {
    struct gate *gates[CALLS];
    for (int i = 0; i < CALLS; i++) {
        side[i] = new_stream();
        gates[i] = put_gate(side[i]);
        void *a = use(pool, 64 * MIB, side[i]);
        OK(weir_pool_free(pool, a, side[i]));
        assert_true(stats_of(pool).held_bytes <= GIB);
    }
    void *b = use(pool, 512 * MIB, s0);
    assert_int_equal(stats_of(pool).host_waits, 0);
    for (int i = 0; i < CALLS; i++) open_gate(gates[i]);
    queue_check(s0, b, 512 * MIB, 0x5A);
    OK(weir_pool_free(pool, b, s0));
    expect_room_for_half(pool);
    destroy_side_streams();
}

static void busy_streams_hand_their_blocks_on_in_order(void **state) {
    (void)state;
    with_shared_pools(GIB, call_without_waiting);
}

/* Allocated on the side stream, freed on the main one, and the other way round, with notes. */
static void call_across(struct weir_pool *pool) {
    for (int i = 0; i < CALLS; i++) {
        side[i] = new_stream();
        weir_stream user = i % 2 == 0 ? side[i] : s0, other = i % 2 == 0 ? s0 : side[i];
        void *a = use(pool, 64 * MIB, user);
        OK(weir_pool_note(pool, a, other));
        OK(weir_stream_synchronize(test_device(), user));
        queue_check(other, a, 64 * MIB, 0x5A);
        OK(weir_stream_synchronize(test_device(), other));
        OK(weir_pool_free(pool, a, i % 4 < 2 ? user : other));
        assert_true(stats_of(pool).held_bytes <= 128 * MIB);
    }
    expect_room_for_half(pool);
    destroy_side_streams();
}

static void blocks_that_two_streams_used_are_given_up_too(void **state) {
    (void)state;
    with_shared_pools(GIB, call_across);
}

/* ---- streams that go ------------------------------------------------------------------------------------------------ */

static void come_and_go(struct weir_pool *pool) {
    size_t most = 0;
    for (int i = 0; i < 1000; i++) {
        weir_stream stream = new_stream();
        struct gate *gate = i % 50 == 0 ? put_gate(stream) : NULL;
        void *a = use(pool, 64 * MIB, stream);
        OK(weir_pool_free(pool, a, stream));
        OK(weir_stream_destroy(test_device(), stream)); /* with work on it */
        if (gate != NULL) open_gate(gate);
        if (i % 50 == 49) OK(weir_device_synchronize(test_device())); /* what still works can't be forgotten */
        size_t streams = 0;
        OK(weir_pool_get_stream_stats(pool, NULL, 0, &streams));
        if (streams > most) most = streams;
        assert_true(stats_of(pool).held_bytes <= GIB);
    }
    assert_true(most < 200); /* those of streams that are gone are forgotten */
    expect_room_for_half(pool);
}

static void a_thousand_streams_that_are_gone_are_forgotten(void **state) {
    (void)state;
    with_shared_pools(GIB, come_and_go);
}

static void come_and_go_in_order(void **state) {
    (void)state;
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options,
                                        .limit_bytes = GIB,
                                        .wait_limit_ns = 2000000000u,
                                        .trace_path = "",
                                        .deterministic = true};
    OK(weir_pool_create(test_device(), &options, &pool));
    come_and_go(pool);
    close_pool(pool);
}

static int open_stream(void **state) {
    (void)state;
    s0 = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_streams_give_their_blocks_up),
        cmocka_unit_test(a_pool_a_stream_is_tied),
        cmocka_unit_test(busy_streams_hand_their_blocks_on_in_order),
        cmocka_unit_test(blocks_that_two_streams_used_are_given_up_too),
        cmocka_unit_test(a_thousand_streams_that_are_gone_are_forgotten),
        cmocka_unit_test(come_and_go_in_order),
    };
    return cmocka_run_group_tests_name("new_side_streams_strand_nothing", tests, open_stream, NULL);
}
