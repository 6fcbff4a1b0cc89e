/* SPDX-License-Identifier: Apache-2.0 */
/* When the host has no memory for the pool's own tables, a call fails as if it had not been made, and the order promise
 * holds afterwards. The linker sends the pool's calls of the C allocator through here. */
#include <stdlib.h>

#include "support.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

static long good_calls = -1; /* the call after so many fails, once; below 0: none */

static bool fails(void) { return good_calls >= 0 && good_calls-- == 0; }
void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return fails() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *old, size_t bytes) { return fails() ? NULL : __real_realloc(old, bytes); }

#define BLOCKS 32 /* that the table of blocks has room for before it grows for the first time */

/* A pool with one block less, of no bytes each. */
static struct weir_pool *open_almost_full_table(size_t pages) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, pages);
    for (int i = 0; i < BLOCKS - 1; i++) alloc(pool, 0, NULL);
    return pool;
}

static void a_block_that_has_no_place_in_the_table_keeps_its_order(void **state) {
    (void)state;
    const size_t bytes = 4 * PAGE;
    weir_stream s0 = new_stream(), s1 = new_stream();
    struct weir_pool *pool = open_almost_full_table(4);
    void *a = alloc(pool, bytes, s1), *b = NULL;
    struct gate *gate = put_gate(s1);
    queue_fill(s1, a, bytes, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    alloc(pool, 0, NULL);
    good_calls = 0;
    assert_int_equal(weir_pool_alloc(pool, bytes, s1, &b), WEIR_OUT_OF_HOST_MEMORY);
    assert_null(b);
    OK(weir_pool_check(pool));
    OK(weir_pool_alloc(pool, bytes, s0, &b)); /* the fill is not done */
    assert_int_equal(stats_of(pool).device_waits, 1);
    queue_fill(s0, b, bytes, 0xBB);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    queue_check(s0, b, bytes, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    close_pool(pool);
}

static void a_block_of_no_bytes_that_has_no_place_in_the_table_is_spare_again(void **state) {
    (void)state;
    struct weir_pool *pool = open_almost_full_table(1);
    void *a = NULL;
    alloc(pool, 0, NULL);
    good_calls = 0;
    assert_int_equal(weir_pool_alloc(pool, 0, NULL, &a), WEIR_OUT_OF_HOST_MEMORY);
    assert_int_equal(stats_of(pool).live_blocks, BLOCKS);
    OK(weir_pool_check(pool));
    OK(weir_pool_free(pool, alloc(pool, 0, NULL), NULL));
    close_pool(pool);
}

/* One page each of two streams in turn, then a request on a third that takes moves: what fails, fails whole. */
static enum weir_status try_moves(struct weir_pool *pool, long good, bool *failed) {
    void *blocks[8], *large = NULL;
    weir_stream streams[3] = {new_stream(), new_stream(), new_stream()};
    for (int i = 0; i < 8; i++) blocks[i] = alloc(pool, PAGE, streams[i % 2]);
    for (int i = 1; i < 8; i += 2) OK(weir_pool_free(pool, blocks[i], streams[1]));
    good_calls = good;
    enum weir_status status = weir_pool_alloc(pool, 4 * PAGE, streams[2], &large);
    *failed = good_calls < 0;
    good_calls = -1;
    OK(weir_pool_check(pool));
    OK(weir_pool_free(pool, large, streams[2]));
    for (int i = 0; i < 8; i += 2) OK(weir_pool_free(pool, blocks[i], streams[0]));
    for (int i = 0; i < 3; i++) OK(weir_stream_destroy(test_device(), streams[i]));
    return status;
}

static void each_failure_of_the_host_allocator_leaves_the_pool_whole(void **state) {
    (void)state;
    bool failed = true;
    for (long good = 0; failed; good++) {
        struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
        enum weir_status status = try_moves(pool, good, &failed);
        assert_true(status == WEIR_OK || (failed && status == WEIR_OUT_OF_HOST_MEMORY));
        assert_int_equal(try_moves(pool, -1, &(bool){false}), WEIR_OK);
        close_pool(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_has_no_place_in_the_table_keeps_its_order),
        cmocka_unit_test(a_block_of_no_bytes_that_has_no_place_in_the_table_is_spare_again),
        cmocka_unit_test(each_failure_of_the_host_allocator_leaves_the_pool_whole),
    };
    return cmocka_run_group_tests_name("host_memory", tests, NULL, NULL);
}
