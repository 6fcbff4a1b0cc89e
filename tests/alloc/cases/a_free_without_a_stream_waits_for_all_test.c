/* SPDX-License-Identifier: Apache-2.0 */
/* Programs free with the plain call while work that uses the block is still queued, and rely on nobody getting it before.
 * A free that names no stream keeps the block until all that was queued then, on any stream, has passed. */
#include "tests/alloc/cases/scene.h"

#define BYTES (64 * MIB)

static weir_stream s1, s2;

/* One user behind a gate, which writes 0xAA at its end. */
static struct gate *use_behind_a_gate(weir_stream stream, void *block) {
    struct gate *gate = put_gate(stream);
    queue_fill(stream, block, BYTES, 0xAA);
    return gate;
}

static void *alloc_any(struct weir_pool *pool, size_t bytes) {
    void *block = NULL;
    OK(weir_pool_alloc_any(pool, bytes, &block));
    assert_non_null(block);
    return block;
}

/* The new owner keeps its bytes, on a stream that knows nothing of the old one. */
static void keep(struct weir_pool *pool, void *block, weir_stream stream) {
    queue_fill(stream, block, BYTES, 0xBB);
    queue_check(stream, block, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    queue_check(stream, block, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    OK(weir_pool_free_any(pool, block));
    OK(weir_device_synchronize(test_device()));
}

/* ---- where the old work is -------------------------------------------------------------------------------------------- */

/* The pool has room for one block only: the second one is the first, or must wait for it. */
static void hand_on(struct weir_pool *pool, weir_stream user, bool names_a_stream) {
    void *p = alloc_any(pool, BYTES);
    struct gate *gate = use_behind_a_gate(user, p);
    OK(weir_pool_free_any(pool, p)); /* the host does not wait: the gate is shut */
    struct opener *opener = open_once_it_waits(pool, gate);
    void *q = names_a_stream ? alloc(pool, BYTES, s2) : alloc_any(pool, BYTES);
    assert_ptr_equal(p, q);
    assert_true(join_opener(opener));
    keep(pool, q, s2);
}

static void hand_on_to_any(struct weir_pool *pool) { hand_on(pool, s1, false); }
static void hand_on_to_a_stream(struct weir_pool *pool) { hand_on(pool, s1, true); }
static void hand_on_from_the_default_stream(struct weir_pool *pool) {
    hand_on(pool, NULL, false);
    hand_on(pool, NULL, true);
}

static void work_of_a_stream_that_was_never_named(void **state) {
    (void)state;
    with_shared_pools(BYTES, hand_on_to_any);
    with_shared_pools(BYTES, hand_on_to_a_stream);
}

static void work_of_the_default_stream(void **state) {
    (void)state;
    with_shared_pools(BYTES, hand_on_from_the_default_stream);
}

/* A stream that is gone by then, with its work still queued. */
static void hand_on_from_a_dead_stream(struct weir_pool *pool) {
    weir_stream gone = new_stream();
    void *p = alloc_any(pool, BYTES);
    struct gate *gate = use_behind_a_gate(gone, p);
    OK(weir_pool_free_any(pool, p));
    OK(weir_stream_destroy(test_device(), gone));
    struct opener *opener = open_once_it_waits(pool, gate);
    void *q = alloc(pool, BYTES, s2);
    join_opener(opener);
    keep(pool, q, s2);
}

static void work_of_a_stream_that_is_gone(void **state) {
    (void)state;
    with_shared_pools(BYTES, hand_on_from_a_dead_stream);
}

/* Two users, of which the one that ends last is the one that was queued first. */
static void hand_on_from_two(struct weir_pool *pool) {
    void *p = alloc_any(pool, BYTES);
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    struct gate *first = use_behind_a_gate(s1, p);
    OK(weir_event_record(test_device(), event, s1));
    OK(weir_stream_wait(test_device(), NULL, event));
    queue_fill(NULL, p, BYTES, 0xAC);
    OK(weir_pool_free_any(pool, p));
    struct opener *opener = open_once_it_waits(pool, first);
    void *q = alloc(pool, BYTES, s2);
    join_opener(opener);
    keep(pool, q, s2);
    OK(weir_event_destroy(test_device(), event));
}

static void work_of_several_streams(void **state) {
    (void)state;
    with_shared_pools(BYTES, hand_on_from_two);
}

/* ---- where there is room ------------------------------------------------------------------------------------------------ */

/* Nobody has to wait then; the old block is simply not the new one. */
static void take_another(struct weir_pool *pool) {
    void *p = alloc_any(pool, BYTES);
    struct gate *gate = use_behind_a_gate(s1, p);
    OK(weir_pool_free_any(pool, p));
    void *q = alloc_any(pool, BYTES);
    queue_fill(s2, q, BYTES, 0xBB);
    queue_check(s2, q, BYTES, 0xBB);
    OK(weir_stream_synchronize(test_device(), s2)); /* s1 stands still */
    OK(weir_pool_trim(pool, 0));                    /* and its block stays mapped */
    open_gate(gate);
    keep(pool, q, s2);
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
}

static void a_block_that_is_still_in_use_is_passed_over(void **state) {
    (void)state;
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_PER_STREAM};
    for (int i = 0; i < 2; i++) {
        struct weir_pool *pool = open_case(policies[i], 4 * BYTES);
        take_another(pool);
        close_pool(pool);
    }
}

/* A block of a stream, freed by the plain call, and the other way round. */
static void mix(struct weir_pool *pool) {
    void *p = alloc(pool, BYTES, s1);
    struct gate *gate = use_behind_a_gate(s1, p);
    OK(weir_pool_free_any(pool, p));
    struct opener *opener = open_once_it_waits(pool, gate);
    void *q = alloc_any(pool, BYTES);
    join_opener(opener);
    queue_fill(s2, q, BYTES, 0xBB);
    queue_check(s2, q, BYTES, 0xBB);
    OK(weir_pool_free(pool, q, s2));
    void *r = alloc(pool, BYTES, s1);
    queue_fill(s1, r, BYTES, 0xCC);
    queue_check(s1, r, BYTES, 0xCC);
    keep(pool, r, s1);
}

static void frees_of_both_kinds_mix(void **state) {
    (void)state;
    with_shared_pools(BYTES, mix);
}

static int open_streams(void **state) {
    (void)state;
    s1 = new_stream();
    s2 = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_a_stream_that_was_never_named),
        cmocka_unit_test(work_of_the_default_stream),
        cmocka_unit_test(work_of_a_stream_that_is_gone),
        cmocka_unit_test(work_of_several_streams),
        cmocka_unit_test(a_block_that_is_still_in_use_is_passed_over),
        cmocka_unit_test(frees_of_both_kinds_mix),
    };
    return cmocka_run_group_tests_name("a_free_without_a_stream_waits_for_all", tests, open_streams, NULL);
}
