/* SPDX-License-Identifier: Apache-2.0 */
/* The block of an address: any inner one, whatever lies around it; and whose block it is when a call names the wrong pool. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { BLOCKS = 300, STEPS = 4000 };

static void found(struct weir_pool *pool, const void *address, const void *start, size_t requested) {
    struct weir_block block = {.size = sizeof block};
    OK(weir_pool_find(pool, address, &block));
    assert_ptr_equal(block.start, start);
    assert_int_equal(block.requested_bytes, requested);
    assert_in_range((uintptr_t)address, (uintptr_t)start, (uintptr_t)start + block.bytes - (block.bytes > 0));
}

static void not_found(struct weir_pool *pool, const void *address) {
    struct weir_block block = {.size = sizeof block, .number = 77};
    assert_int_equal(weir_pool_find(pool, address, &block), WEIR_INVALID);
    assert_int_equal(block.number, 77);
}

static size_t rounded(size_t bytes) { return (bytes + 511) / 512 * 512; }

/* Blocks from a few bytes to many pages come and go; each is found by its ends and somewhere between, and no more after. */
static void random_blocks(enum weir_policy policy) {
    struct weir_pool *pool = open_pool(policy, 2000);
    weir_stream stream = new_stream();
    char *blocks[BLOCKS] = {0};
    size_t bytes[BLOCKS];
    uint64_t chance = seed_of(5);
    for (int i = 0; i < STEPS; i++) {
        int at = (int)(draw(&chance) % BLOCKS);
        if (blocks[at] != NULL) {
            char *gone = blocks[at];
            blocks[at] = NULL;
            OK(weir_pool_free(pool, gone, stream));
            not_found(pool, gone);
            not_found(pool, gone + rounded(bytes[at]) - 1);
            continue;
        }
        bytes[at] = 1 + draw(&chance) % (draw(&chance) % 8 == 0 ? 6 * PAGE : 2000);
        blocks[at] = alloc(pool, bytes[at], stream);
        for (int k = 0; k < 4; k++) {
            int some = (int)(draw(&chance) % BLOCKS);
            if (blocks[some] == NULL) some = at;
            found(pool, blocks[some], blocks[some], bytes[some]);
            found(pool, blocks[some] + rounded(bytes[some]) - 1, blocks[some], bytes[some]);
            found(pool, blocks[some] + draw(&chance) % bytes[some], blocks[some], bytes[some]);
        }
    }
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), stream));
}

static void any_inner_address_of_a_live_block_is_found(void **state) {
    (void)state;
    random_blocks(WEIR_POLICY_LATENCY);
    random_blocks(WEIR_POLICY_PER_STREAM);
}

static void blocks_from_before_the_first_question_are_found(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    char *large = alloc(pool, 10 * PAGE + 512, NULL), *small = alloc(pool, 100, NULL);
    found(pool, large + 10 * PAGE + 511, large, 10 * PAGE + 512);
    found(pool, large + 5 * PAGE, large, 10 * PAGE + 512);
    found(pool, small + 511, small, 100);
    not_found(pool, NULL);
    not_found(pool, &pool);
    not_found(pool, large - 1);
    close_pool(pool);
}

static void it_is_told_how_it_was_asked_for(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    struct weir_block block = {.size = sizeof block};
    void *none, *any, *one = alloc(pool, 700, stream);
    OK(weir_pool_alloc_any(pool, 0, &none));
    OK(weir_pool_alloc_any(pool, 600, &any));
    OK(weir_pool_find(pool, (char *)one + 1023, &block));
    assert_int_equal(block.bytes, 1024);
    assert_ptr_equal(block.stream, stream);
    assert_false(block.any_stream);
    assert_int_equal(block.number, 1);
    OK(weir_pool_find(pool, none, &block));
    assert_int_equal(block.bytes, 0);
    OK(weir_pool_find(pool, any, &block));
    assert_true(block.any_stream);
    assert_null(block.stream);
    assert_int_equal(block.number, 3);
    assert_int_equal(weir_pool_find(pool, any, NULL), WEIR_INVALID);
    assert_int_equal(weir_pool_find(NULL, any, &block), WEIR_INVALID);
    block.size = 0;
    assert_int_equal(weir_pool_find(pool, any, &block), WEIR_INVALID);
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), stream));
}

/* ---- several devices -------------------------------------------------------------------------------------------- */

static void expect_both_named(enum weir_status status) {
    assert_int_equal(status, WEIR_INVALID);
    assert_non_null(strstr(weir_last_error()->message, "a block of a pool of device 1"));
    assert_non_null(strstr(weir_last_error()->message, "another pool, of device 0"));
}

/* Whatever device is current in the thread. */
static void another_device_s_block_is_refused_by_name(void **state) {
    (void)state;
    struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .ordinal = 1};
    struct weir_device *second;
    struct weir_pool *pool0 = open_pool(WEIR_POLICY_LATENCY, 16), *pool1;
    OK(weir_device_open(&options, &second));
    struct weir_pool_options how = {.size = sizeof how, .limit_bytes = 16 * PAGE, .trace_path = ""};
    OK(weir_pool_create(second, &how, &pool1));
    weir_stream stream;
    weir_event event;
    OK(weir_stream_create(second, &stream));
    OK(weir_event_create(test_device(), false, &event));
    OK(weir_event_record(test_device(), event, NULL));
    void *block = alloc(pool1, PAGE, stream);
    expect_both_named(weir_pool_free(pool0, block, NULL));
    expect_both_named(weir_pool_free_any(pool0, block));
    expect_both_named(weir_pool_free_after(pool0, block, event));
    expect_both_named(weir_pool_note(pool0, block, NULL));
    struct weir_block told = {.size = sizeof told};
    assert_int_equal(weir_pool_find(pool0, block, &told), WEIR_INVALID);
    OK(weir__device_enter(test_device())); /* the other device is current */
    OK(weir_pool_find(pool1, block, &told));
    OK(weir_pool_free(pool1, block, stream));
    block = alloc(pool1, 2 * PAGE, stream);
    OK(weir_pool_free_any(pool1, block));
    weir__device_leave(test_device());
    OK(weir_event_destroy(test_device(), event));
    OK(weir_stream_destroy(second, stream));
    OK(weir_device_synchronize(second));
    close_pool(pool1);
    weir_device_close(second);
    close_pool(pool0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_inner_address_of_a_live_block_is_found),
        cmocka_unit_test(blocks_from_before_the_first_question_are_found),
        cmocka_unit_test(it_is_told_how_it_was_asked_for),
        cmocka_unit_test(another_device_s_block_is_refused_by_name),
    };
    return cmocka_run_group_tests_name("find", tests, NULL, NULL);
}
