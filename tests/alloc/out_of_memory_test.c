/* SPDX-License-Identifier: Apache-2.0 */
/* Promise 3: out of memory is an answer only when the pages that hold a live byte, plus the pages asked for, exceed the
 * limit. After it the pool is as it was, and what it says adds up. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

/* Pages that a used extent touches: none of them can serve a whole page elsewhere. */
static size_t live_pages(const struct weir_pool *pool) {
    size_t pages = 0;
    uintptr_t counted_to = 0;
    for (const struct weir__extent *extent = pool->first; extent != NULL; extent = extent->next) {
        if (extent->state != WEIR__USED) continue;
        uintptr_t from = extent->address / PAGE, to = (weir__extent_end(extent) + PAGE - 1) / PAGE;
        if (from < counted_to) from = counted_to;
        if (to > from) pages += to - from;
        counted_to = to;
    }
    return pages;
}

static void check_refusal(struct weir_pool *pool, size_t asked, weir_stream stream) {
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    OK(weir_pool_get_refusal(pool, &refusal));
    assert_int_equal(refusal.asked_bytes, asked);
    assert_ptr_equal(refusal.stream, stream);
    assert_int_equal(refusal.live_bytes + refusal.idle_asker_bytes + refusal.idle_others_bytes + refusal.moving_bytes +
                         refusal.unmapped_bytes + refusal.untaken_bytes + refusal.others_bytes +
                         refusal.above_limit_bytes,
                     refusal.capacity_bytes);
}

static void check_same(const struct weir_pool_stats *a, const struct weir_pool_stats *b) {
    assert_int_equal(a->live_bytes, b->live_bytes);
    assert_int_equal(a->requested_bytes, b->requested_bytes);
    assert_int_equal(a->held_bytes, b->held_bytes);
    assert_int_equal(a->idle_bytes, b->idle_bytes);
    assert_int_equal(a->unmapped_bytes, b->unmapped_bytes);
    assert_int_equal(a->live_blocks, b->live_blocks);
    assert_int_equal(a->memory_calls, b->memory_calls);
    assert_int_equal(a->pages_moved, b->pages_moved);
}

static void a_request_is_refused_only_when_live_pages_leave_no_room(void **state) {
    (void)state;
    enum { PAGES = 200, BLOCKS = 400 };
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream streams[3] = {new_stream(), new_stream(), new_stream()};
    void *blocks[BLOCKS] = {0};
    uint64_t chance = seed_of(5);
    unsigned refused = 0;
    for (int i = 0; i < 20000; i++) {
        void **block = &blocks[draw(&chance) % BLOCKS];
        weir_stream stream = streams[draw(&chance) % 3];
        if (*block != NULL) {
            OK(weir_pool_free(pool, *block, stream));
            *block = NULL;
            continue;
        }
        size_t bytes = 1 + draw(&chance) % ((size_t)512 << draw(&chance) % 11);
        struct weir_pool_stats before = stats_of(pool);
        enum weir_status status = weir_pool_alloc(pool, bytes, stream, block);
        if (status == WEIR_OK) continue;
        assert_int_equal(status, WEIR_OUT_OF_MEMORY);
        refused++;
        assert_true(live_pages(pool) + (bytes + PAGE - 1) / PAGE > PAGES);
        struct weir_pool_stats after = stats_of(pool);
        check_same(&before, &after);
        check_refusal(pool, bytes, stream);
        OK(weir_pool_check(pool));
    }
    assert_true(refused > 100);
    assert_int_equal(stats_of(pool).out_of_memory, refused);
    close_pool(pool);
}

static void sizes_near_the_top_of_the_range_are_refused_at_once(void **state) {
    (void)state;
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
    const size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 510,  SIZE_MAX - 511, (size_t)1 << 63, ((size_t)1 << 63) - 1,
                            SIZE_MAX - 7, (size_t)1 << 62, (size_t)1 << 60};
    for (size_t p = 0; p < 3; p++) {
        struct weir_pool *pool = open_pool(policies[p], 64);
        weir_stream stream = new_stream();
        void *first = alloc(pool, 512, stream);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct weir_pool_stats before = stats_of(pool);
            void *none = pool;
            uint64_t since_ns = now_ns();
            assert_int_equal(weir_pool_alloc(pool, sizes[i], stream, &none), WEIR_OUT_OF_MEMORY);
            assert_true(now_ns() - since_ns < 100000000u);
            assert_null(none);
            struct weir_pool_stats after = stats_of(pool);
            check_same(&before, &after);
            check_refusal(pool, sizes[i], stream);
            void *next = alloc(pool, 512, stream);
            assert_ptr_not_equal(next, first);
            OK(weir_pool_free(pool, next, stream));
        }
        close_pool(pool);
    }
}

static void the_report_says_what_fills_the_device_and_what_to_try(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 64);
    weir_stream compute = new_stream(), comm = new_stream();
    weir_pool_name_stream(pool, compute, "compute");
    weir_pool_name_stream(pool, comm, "ep-comm");
    OK(weir_pool_mark_iteration(pool));
    void *buffer = alloc(pool, 40 * PAGE, comm), *handle = NULL;
    OK(weir_pool_free(pool, buffer, comm));
    handle = alloc(pool, PAGE, comm); /* keeps the segment split */
    assert_int_equal(weir_pool_alloc(pool, 40 * PAGE, compute, &buffer), WEIR_OUT_OF_MEMORY);
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    OK(weir_pool_get_refusal(pool, &refusal));
    assert_int_equal(refusal.idle_others_bytes, 39 * PAGE);
    assert_int_equal(refusal.idle_asker_bytes, 0);
    assert_int_equal(refusal.iteration, 1);
    check_refusal(pool, 40 * PAGE, compute);
    char text[4096], cut[16];
    size_t length = weir_pool_report(pool, text, sizeof text);
    assert_true(length < sizeof text && length == strlen(text));
    assert_non_null(strstr(text, "out of memory: 640.00 KiB for compute, in iteration 1"));
    assert_non_null(strstr(text, "ep-comm"));
    assert_non_null(strstr(text, "policy:latency"));
    assert_int_equal(weir_pool_report(pool, cut, sizeof cut), length);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_int_equal(weir_pool_report(pool, NULL, 0), length);
    assert_null(strstr(text, "served since"));
    void *later = alloc(pool, PAGE, compute);
    weir_pool_report(pool, text, sizeof text);
    assert_non_null(strstr(text, "out of memory: 640.00 KiB for compute, in iteration 1"));
    assert_non_null(strstr(text, "served since then: 1 requests; now\n"));
    OK(weir_pool_free(pool, later, compute));
    OK(weir_pool_free(pool, handle, comm));
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_refused_only_when_live_pages_leave_no_room),
        cmocka_unit_test(sizes_near_the_top_of_the_range_are_refused_at_once),
        cmocka_unit_test(the_report_says_what_fills_the_device_and_what_to_try),
    };
    return cmocka_run_group_tests_name("out_of_memory", tests, NULL, NULL);
}
