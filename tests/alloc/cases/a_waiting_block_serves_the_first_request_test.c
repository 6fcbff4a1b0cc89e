/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that only waits for another stream is no reason to refuse: the first request waits for it. One that waits for
 * ever is given up after the wait limit, never given away. */
#include "tests/alloc/cases/scene.h"

static weir_stream s0, s1, s2;

#define LIMIT_NS UINT64_C(50000000) /* of the pools that give a wait up */

static void fill_and_check(weir_stream stream, void *at, size_t bytes) {
    queue_fill(stream, at, bytes, 0xBB);
    OK(weir_device_synchronize(test_device()));
    queue_check(stream, at, bytes, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
}

/* ---- the gate opens once the pool waits --------------------------------------------------------------------------- */

/* A block of `bytes` of s0 that s1, behind a gate, still uses; freed. */
static struct gate *free_while_used(struct weir_pool *pool, size_t bytes, weir_event event) {
    void *a = alloc(pool, bytes, s0);
    queue_fill(s0, a, bytes, 0x11);
    OK(weir_stream_synchronize(test_device(), s0));
    struct gate *gate = put_gate(s1);
    if (event == NULL) OK(weir_pool_note(pool, a, s1));
    queue_fill(s1, a, bytes, 0xAA);
    if (event != NULL) {
        OK(weir_event_record(test_device(), event, s1));
        OK(weir_pool_free_after(pool, a, event));
    } else {
        OK(weir_pool_free(pool, a, s0));
    }
    return gate;
}

static void serve(struct weir_pool *pool, weir_stream asker, weir_event event) {
    struct opener *opener = open_once_it_waits(pool, free_while_used(pool, 192 * MIB, event));
    void *b = alloc(pool, 160 * MIB, asker);
    queue_fill(asker, b, 160 * MIB, 0xBB);
    queue_check(asker, b, 160 * MIB, 0xBB);
    assert_true(join_opener(opener));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    OK(weir_pool_free(pool, b, asker));
    OK(weir_device_synchronize(test_device()));
}

static void serve_the_same_stream(struct weir_pool *pool) { serve(pool, s0, NULL); }
static void serve_a_third_stream(struct weir_pool *pool) { serve(pool, s2, NULL); }
static void serve_after_an_event(struct weir_pool *pool) {
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    serve(pool, s0, event);
    OK(weir_event_destroy(test_device(), event));
}

static void the_stream_that_freed_is_served_after_the_noted_one(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_the_same_stream);
}

static void a_third_stream_is_served_after_both(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_a_third_stream);
}

static void a_block_freed_after_an_event_serves(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_after_an_event);
}

/* With a pool a stream, the host waits for the noted use before it gives up. */
static void a_pool_a_stream_waits_for_noted_uses_too(void **state) {
    (void)state;
    struct weir_pool *pool = open_case(WEIR_POLICY_PER_STREAM, 256 * MIB);
    serve_the_same_stream(pool);
    close_pool(pool);
}

/* Two halves wait for two streams; the request needs both. */
static void wait_for_both(struct weir_pool *pool) {
    void *a = alloc(pool, 96 * MIB, s1), *b = alloc(pool, 96 * MIB, s2);
    struct gate *first = put_gate(s1), *second = put_gate(s2);
    queue_fill(s1, a, 96 * MIB, 0xAA);
    queue_fill(s2, b, 96 * MIB, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    OK(weir_pool_free(pool, b, s2));
    struct opener *openers[2] = {open_once_it_waits(pool, first), open_once_it_waits(pool, second)};
    void *c = alloc(pool, 250 * MIB, s0);
    for (int i = 0; i < 2; i++) assert_true(join_opener(openers[i]));
    fill_and_check(s0, c, 250 * MIB);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    OK(weir_pool_free(pool, c, s0));
    OK(weir_device_synchronize(test_device()));
}

static void a_request_waits_for_as_many_as_it_needs(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, wait_for_both);
}

/* ---- the gate never opens ------------------------------------------------------------------------------------------ */

/* The page across what s1, behind the gate, and s2 gave back is no one's until both are complete: the host must wait. */
static struct gate *free_halves(struct weir_pool *pool, struct halves *halves) {
    *halves = make_halves(pool, s1, s2);
    OK(weir_stream_synchronize(test_device(), s1));
    struct gate *gate = put_gate(s1);
    queue_fill(s1, halves->first, HALF_BYTES, 0xAA);
    OK(weir_pool_free(pool, halves->first, s1));
    OK(weir_pool_free(pool, halves->second, s2));
    return gate;
}

static void free_post(struct weir_pool *pool, const struct halves *halves) {
    OK(weir_pool_free(pool, halves->post, s1));
    OK(weir_device_synchronize(test_device()));
}

static void a_wait_that_does_not_end_is_given_up_once(void **state) {
    (void)state;
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT};
    for (int i = 0; i < 2; i++) {
        struct weir_pool *pool = open_impatient_case(policies[i], HALVES_PAGES * PAGE, LIMIT_NS);
        struct halves halves;
        struct gate *gate = free_halves(pool, &halves);
        const uint64_t since_ns = now_ns();
        expect_refused(pool, HALVES_ASKED * PAGE, s0);
        assert_true(now_ns() - since_ns >= LIMIT_NS); /* in vain, but for so long */
        assert_int_equal(stats_of(pool).host_waits, 1);
        assert_true(stats_of(pool).host_wait_ns < 400 * LIMIT_NS);
        open_gate(gate);
        void *b = alloc(pool, HALVES_ASKED * PAGE, s0); /* the very same request, now that it can be served */
        fill_and_check(s0, b, HALVES_ASKED * PAGE);
        OK(weir_pool_free(pool, b, s0));
        free_post(pool, &halves);
        close_pool(pool);
    }
}

/* A limit so large that a deadline would wrap is no limit, not one of nothing. */
static void a_wait_without_a_limit_is_not_given_up(void **state) {
    (void)state;
    struct weir_pool *pool = open_impatient_case(WEIR_POLICY_LATENCY, HALVES_PAGES * PAGE, UINT64_MAX);
    struct halves halves;
    struct opener *opener = open_once_it_waits(pool, free_halves(pool, &halves));
    void *b = alloc(pool, HALVES_ASKED * PAGE, s0);
    assert_true(join_opener(opener));
    fill_and_check(s0, b, HALVES_ASKED * PAGE);
    OK(weir_pool_free(pool, b, s0));
    free_post(pool, &halves);
    close_pool(pool);
}

/* The block itself can be had by making the asking stream wait, which lets the host go on: it is s0 that stands then. */
static void a_block_in_use_is_handed_over_only_in_order(void **state) {
    (void)state;
    struct weir_pool *pool = open_impatient_case(WEIR_POLICY_LATENCY, 256 * MIB, LIMIT_NS);
    struct gate *gate = free_while_used(pool, 192 * MIB, NULL);
    const unsigned fills = fills_run();
    void *b = alloc(pool, 160 * MIB, s0);
    queue_fill(s0, b, 160 * MIB, 0xBB);
    weir_event done;
    OK(weir_event_create(test_device(), false, &done));
    OK(weir_event_record(test_device(), done, s0));
    OK(weir_stream_synchronize(test_device(), s2));
    assert_int_equal(weir_event_query(test_device(), done), WEIR_NOT_READY);
    assert_int_equal(fills_run(), fills);
    open_gate(gate);
    OK(weir_event_synchronize(test_device(), done));
    queue_check(s0, b, 160 * MIB, 0xBB);
    OK(weir_event_destroy(test_device(), done));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    OK(weir_pool_free(pool, b, s0));
    close_pool(pool);
}

/* ---- while one waits ------------------------------------------------------------------------------------------------ */

/* One thread waits for pages; another one, whose request needs none of them, is served meanwhile. */
static void serve_others_meanwhile(struct weir_pool *pool) {
    struct halves halves;
    struct gate *gate = free_halves(pool, &halves);
    struct asker *asker = start_asking(pool, HALVES_ASKED * PAGE, s0);
    void *mine = alloc(pool, PAGE, s1); /* of what is s1's own */
    OK(weir_pool_free(pool, mine, s1));
    OK(weir_pool_check(pool));
    open_gate(gate);
    expect_served(asker);
    free_post(pool, &halves);
}

static void other_requests_are_served_meanwhile(void **state) {
    (void)state;
    with_shared_pools(HALVES_PAGES * PAGE, serve_others_meanwhile);
}

static int open_streams(void **state) {
    (void)state;
    s0 = new_stream();
    s1 = new_stream();
    s2 = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stream_that_freed_is_served_after_the_noted_one),
        cmocka_unit_test(a_third_stream_is_served_after_both),
        cmocka_unit_test(a_block_freed_after_an_event_serves),
        cmocka_unit_test(a_pool_a_stream_waits_for_noted_uses_too),
        cmocka_unit_test(a_request_waits_for_as_many_as_it_needs),
        cmocka_unit_test(a_wait_that_does_not_end_is_given_up_once),
        cmocka_unit_test(a_wait_without_a_limit_is_not_given_up),
        cmocka_unit_test(a_block_in_use_is_handed_over_only_in_order),
        cmocka_unit_test(other_requests_are_served_meanwhile),
    };
    return cmocka_run_group_tests_name("a_waiting_block_serves_the_first_request", tests, open_streams, NULL);
}
