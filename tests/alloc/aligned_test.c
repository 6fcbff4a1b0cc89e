/* SPDX-License-Identifier: Apache-2.0 */
/* An aligned request gets an address that is a multiple of the alignment, wherever idle memory lies, and costs no more memory
 * than another one; a bad alignment is said, and changes nothing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

enum { PAGES = 64, BLOCKS = 24 };

static bool is_aligned(const void *at, size_t alignment) { return (uintptr_t)at % alignment == 0; }

static void *alloc_aligned(struct weir_pool *pool, size_t bytes, size_t alignment, weir_stream stream) {
    void *block = NULL;
    OK(weir_pool_alloc_aligned(pool, bytes, alignment, stream, &block));
    if (!is_aligned(block, alignment)) fail_msg("%p is not aligned to %zu", block, alignment);
    return block;
}

/* With a neighbour, so that no block begins where everything begins. */
static void ask_for_all(enum weir_policy policy, size_t most) {
    struct weir_pool *pool = open_pool(policy, PAGES);
    weir_stream stream = new_stream();
    void *first = alloc(pool, 512, stream);
    for (size_t alignment = 1; alignment <= most; alignment *= 2) {
        unsigned char *block = alloc_aligned(pool, 3 * PAGE + 100, alignment, stream);
        const bool rare =
            alignment > ((size_t)1 << 26); /* this device's addresses have few places that are aligned so */
        void *small = rare ? NULL : alloc_aligned(pool, 1, alignment, stream);
        void *empty = rare ? NULL : alloc_aligned(pool, 0, alignment, stream);
        assert_true(small != block && (rare || empty != small) && empty != block);
        queue_fill(stream, block, 3 * PAGE + 100, 7);
        queue_check(stream, block, 3 * PAGE + 100, 7);
        OK(weir_pool_free(pool, small, stream));
        OK(weir_pool_free(pool, empty, stream));
        OK(weir_pool_free(pool, block, stream));
        OK(weir_pool_check(pool));
    }
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    OK(weir_pool_free(pool, first, stream));
    const struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.requested_bytes, 0);
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), stream));
}

static void every_alignment_is_kept(void **state) {
    (void)state;
    ask_for_all(WEIR_POLICY_LATENCY, (size_t)1 << 30);
    ask_for_all(WEIR_POLICY_FOOTPRINT, (size_t)1 << 30);
    ask_for_all(WEIR_POLICY_PER_STREAM, 4 * PAGE);
}

/* All memory is idle, in pieces between blocks in use, used by two streams: it serves all the same. */
static void idle_memory_serves(enum weir_policy policy) {
    struct weir_pool *pool = open_pool(policy, PAGES);
    weir_stream streams[] = {new_stream(), new_stream()};
    void *blocks[BLOCKS], *walls[BLOCKS / 3];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = alloc(pool, 3 * PAGE / 2, streams[i % 2]);
        if (i % 3 == 0) walls[i / 3] = alloc(pool, PAGE, streams[1]);
    }
    for (int i = 0; i < BLOCKS; i++) OK(weir_pool_free(pool, blocks[i], streams[i % 2]));
    void *block = alloc_aligned(pool, 20 * PAGE, 16 * PAGE, streams[0]);
    queue_fill(streams[0], block, 20 * PAGE, 9);
    queue_check(streams[0], block, 20 * PAGE, 9);
    OK(weir_pool_free(pool, block, streams[0]));
    for (int i = 0; i < BLOCKS / 3; i++) OK(weir_pool_free(pool, walls[i], streams[1]));
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    finish_pool(pool);
}

static void fragments_serve_an_aligned_request(void **state) {
    (void)state;
    idle_memory_serves(WEIR_POLICY_LATENCY);
    idle_memory_serves(WEIR_POLICY_FOOTPRINT);
}

/* The whole of the limit, aligned, while nothing else lives. */
static void an_alignment_takes_no_more_memory(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream stream = new_stream(), other = new_stream();
    for (size_t alignment = 512; alignment <= 64 * PAGE; alignment *= 2) {
        void *block = alloc_aligned(pool, PAGES * PAGE, alignment, stream);
        OK(weir_pool_free(pool, block, stream));
        block = alloc_aligned(pool, PAGES * PAGE, alignment, other);
        OK(weir_pool_free(pool, block, other));
    }
    assert_int_equal(stats_of(pool).peak_held_bytes, PAGES * PAGE);
    close_pool(pool);
}

static void a_bad_alignment_is_said(void **state) {
    (void)state;
    const size_t bad[] = {0, 3, 513, 1000, ((size_t)1 << 30) + 1, (size_t)1 << 31, SIZE_MAX, (SIZE_MAX >> 1) + 1};
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        void *none = pool;
        char number[32];
        snprintf(number, sizeof number, "%zu", bad[i]);
        assert_int_equal(weir_pool_alloc_aligned(pool, PAGE, bad[i], NULL, &none), WEIR_INVALID);
        assert_null(none);
        assert_non_null(strstr(weir_last_error()->message, number));
        assert_non_null(strstr(weir_last_error()->message, "1073741824"));
    }
    void *none = pool;
    assert_int_equal(weir_pool_alloc_aligned(pool, SIZE_MAX - 511, PAGE, NULL, &none), WEIR_OUT_OF_MEMORY);
    assert_int_equal(weir_pool_alloc_aligned(pool, pool->pages.arena_bytes - PAGE, (size_t)1 << 30, NULL, &none),
                     WEIR_NOT_SUPPORTED);
    assert_null(none);
    assert_int_equal(stats_of(pool).allocs, 0);
    OK(weir_pool_free(pool, alloc(pool, PAGE, NULL), NULL));
    close_pool(pool);
}

static void a_trace_has_the_alignment(void **state) {
    (void)state;
    char path[64], text[4096] = "";
    snprintf(path, sizeof path, "/tmp/weir-aligned-%d.trace", (int)getpid());
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .trace_path = path};
    OK(weir_pool_create(test_device(), &options, &pool));
    alloc_aligned(pool, PAGE, 256, NULL);
    alloc_aligned(pool, PAGE, 8 * PAGE, NULL);
    close_pool(pool);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    unlink(path);
    assert_null(strstr(text, "\na 1 "));
    assert_non_null(strstr(text, "\na 2 131072\n"));
}

/* Of the two places that this device's addresses have. What lies there is small beside the block. */
static void a_rare_place_is_found_whatever_lies_there(void **state) {
    (void)state;
    const size_t alignment = (size_t)1 << 30;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream stream = new_stream();
    void *first = alloc_aligned(pool, PAGE, alignment, stream), *second = alloc_aligned(pool, PAGE, alignment, stream);
    OK(weir_pool_free(pool, first, stream));
    assert_ptr_equal(alloc_aligned(pool, 16 * PAGE, alignment, stream), first);
    OK(weir_pool_free(pool, second, stream));
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), stream));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_alignment_is_kept),
        cmocka_unit_test(fragments_serve_an_aligned_request),
        cmocka_unit_test(an_alignment_takes_no_more_memory),
        cmocka_unit_test(a_bad_alignment_is_said),
        cmocka_unit_test(a_trace_has_the_alignment),
        cmocka_unit_test(a_rare_place_is_found_whatever_lies_there),
    };
    return cmocka_run_group_tests_name("aligned", tests, NULL, NULL);
}
