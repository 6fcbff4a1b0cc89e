/* SPDX-License-Identifier: Apache-2.0 */
/* A small block that stays does not spoil the place of a large one that comes and goes: lengths may change from step to
 * step, and as long as the bytes are there every large block is served. */
#include "tests/alloc/cases/scene.h"

enum { STEPS = 200 };

static weir_stream s0, s1;

/* A block that stays and bears a pattern, so that nothing that came and went may have been over it. */
struct kept {
    void *at;
    size_t bytes;
    weir_stream stream;
};
static struct kept kept[STEPS + 1];
static size_t kept_count;

static void keep(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    struct kept *block = &kept[kept_count++];
    *block = (struct kept){alloc(pool, bytes, stream), bytes, stream};
    queue_fill(stream, block->at, bytes, (unsigned char)kept_count);
}

static void check_and_free_kept(struct weir_pool *pool) {
    for (size_t i = 0; i < kept_count; i++) {
        queue_check(kept[i].stream, kept[i].at, kept[i].bytes, (unsigned char)(i + 1));
        OK(weir_pool_free(pool, kept[i].at, kept[i].stream));
    }
    kept_count = 0;
    OK(weir_device_synchronize(test_device()));
}

static void come_and_go(struct weir_pool *pool, size_t bytes) {
    void *work = alloc(pool, bytes, s0);
    queue_fill(s0, work, bytes, 0xEE);
    OK(weir_pool_free(pool, work, s0));
    assert_true(stats_of(pool).held_bytes <= GIB);
}

static void expect_little_is_left_over(struct weir_pool *pool) {
    OK(weir_device_synchronize(test_device())); /* trim itself waits for nothing */
    OK(weir_pool_trim(pool, 0));
    struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.out_of_memory, 0);
    assert_true(stats.held_bytes - stats.live_bytes <= GIB / 4);
}

/* ---- a small block lands where the large one was ----------------------------------------------------------------- */

static void fit_again(struct weir_pool *pool) {
    come_and_go(pool, 600 * MIB);
    keep(pool, 16 * MIB, s0);
    void *b = alloc(pool, 600 * MIB, s0);
    queue_fill(s0, b, 600 * MIB, 0xEE);
    assert_int_equal(stats_of(pool).live_bytes, 616 * MIB);
    OK(weir_pool_free(pool, b, s0));
    check_and_free_kept(pool);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
}

static void a_large_block_fits_again_after_a_small_one_took_its_place(void **state) {
    (void)state;
    with_shared_pools(GIB, fit_again);
}

/* So that the case is one: pools that keep what they have cut are refused here. */
static void a_pool_that_keeps_what_it_has_cut_is_refused(void **state) {
    (void)state;
    struct weir_pool *pool = open_case(WEIR_POLICY_PER_STREAM, GIB);
    void *none = NULL;
    come_and_go(pool, 600 * MIB);
    keep(pool, 16 * MIB, s0);
    assert_int_equal(weir_pool_alloc(pool, 600 * MIB, s0, &none), WEIR_OUT_OF_MEMORY);
    check_and_free_kept(pool);
    close_pool(pool);
}

/* ---- many steps of changing lengths ------------------------------------------------------------------------------- */

static weir_stream small_stream;
static size_t small_bytes, most_bytes;

static void train(struct weir_pool *pool) {
    uint64_t chance = seed_of(9);
    come_and_go(pool, 600 * MIB);
    keep(pool, 16 * MIB, s0);
    for (int step = 0; step < STEPS; step++) {
        come_and_go(pool, 200 * MIB + draw(&chance) % (most_bytes - 200 * MIB));
        keep(pool, small_bytes, small_stream);
    }
    expect_little_is_left_over(pool);
    check_and_free_kept(pool);
}

static void every_step_leaves_a_small_block(void **state) {
    (void)state;
    small_stream = s0, small_bytes = 1 * MIB, most_bytes = 600 * MIB;
    with_shared_pools(GIB, train);
}

static void the_small_blocks_are_another_streams(void **state) {
    (void)state;
    small_stream = s1, small_bytes = 1 * MIB, most_bytes = 600 * MIB;
    with_shared_pools(GIB, train);
}

/* A page each would take 400 MiB; together they take one or two. */
static void tiny_blocks_do_not_spoil_a_page_each(void **state) {
    (void)state;
    small_stream = s0, small_bytes = 512, most_bytes = 960 * MIB;
    with_shared_pools(GIB, train);
}

static void blocks_of_a_page_and_a_bit_do_not_add_up(void **state) {
    (void)state;
    small_stream = s0, small_bytes = PAGE + 512, most_bytes = 500 * MIB;
    with_shared_pools(GIB, train);
}

/* ---- small ones that go at other times than they came -------------------------------------------------------------- */

static void train_with_late_frees(struct weir_pool *pool) {
    enum { LATE = 20 };
    uint64_t chance = seed_of(10);
    struct kept late[LATE] = {{NULL, 0, NULL}};
    for (int step = 0; step < STEPS; step++) {
        struct kept *block = &late[draw(&chance) % LATE];
        come_and_go(pool, 200 * MIB + draw(&chance) % (500 * MIB));
        if (block->at != NULL) {
            queue_check(block->stream, block->at, block->bytes, 0x77);
            OK(weir_pool_free(pool, block->at, block->stream));
        }
        block->bytes = 1 + draw(&chance) % (12 * MIB);
        block->stream = draw(&chance) % 2 == 0 ? s0 : s1;
        block->at = alloc(pool, block->bytes, block->stream);
        queue_fill(block->stream, block->at, block->bytes, 0x77);
    }
    expect_little_is_left_over(pool);
    for (int i = 0; i < LATE; i++)
        if (late[i].at != NULL) OK(weir_pool_free(pool, late[i].at, late[i].stream));
    OK(weir_device_synchronize(test_device()));
}

static void small_blocks_go_at_other_times_than_they_came(void **state) {
    (void)state;
    with_shared_pools(GIB, train_with_late_frees);
}

/* Every second one of a row of small blocks goes: none of the holes has room for the large one, all together have. */
static void fit_over_holes(struct weir_pool *pool) {
    enum { ROW = 128 };
    void *row[ROW];
    for (int i = 0; i < ROW; i++) row[i] = alloc(pool, 8 * MIB, s0);
    for (int i = 0; i < ROW; i += 2) OK(weir_pool_free(pool, row[i], s0));
    void *large = alloc(pool, 512 * MIB, s0);
    queue_fill(s0, large, 512 * MIB, 0xEE);
    assert_int_equal(stats_of(pool).live_bytes, GIB);
    OK(weir_pool_free(pool, large, s0));
    for (int i = 1; i < ROW; i += 2) OK(weir_pool_free(pool, row[i], s0));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(stats_of(pool).out_of_memory, 0);
}

static void a_large_block_is_put_together_from_holes(void **state) {
    (void)state;
    with_shared_pools(GIB, fit_over_holes);
}

static int open_streams(void **state) {
    (void)state;
    s0 = new_stream();
    s1 = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_block_fits_again_after_a_small_one_took_its_place),
        cmocka_unit_test(a_pool_that_keeps_what_it_has_cut_is_refused),
        cmocka_unit_test(every_step_leaves_a_small_block),
        cmocka_unit_test(the_small_blocks_are_another_streams),
        cmocka_unit_test(tiny_blocks_do_not_spoil_a_page_each),
        cmocka_unit_test(blocks_of_a_page_and_a_bit_do_not_add_up),
        cmocka_unit_test(small_blocks_go_at_other_times_than_they_came),
        cmocka_unit_test(a_large_block_is_put_together_from_holes),
    };
    return cmocka_run_group_tests_name("large_blocks_fit_beside_small_ones", tests, open_streams, NULL);
}
