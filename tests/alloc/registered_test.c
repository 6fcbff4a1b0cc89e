/* SPDX-License-Identifier: Apache-2.0 */
/* Registered addresses keep their pages, after the free of their block too, until they are unregistered; and no address changes
 * its page in a pool whose pages must not move. Both under pressure: all other memory moves, is given back and asked for. */
#include <string.h>

#include "support.h"

enum { PAGES = 32 };

/* ---- what the driver is asked to map ---------------------------------------------------------------------------- */

static const struct weir__driver *real;
static uintptr_t kept, kept_end; /* addresses whose pages are to stay */
static unsigned lost;            /* unmaps of them */
static CUmemGenericAllocationHandle seen[4096];
static size_t seen_count;
static unsigned mapped_again; /* handles that were mapped at a second address */

static CUresult page_unmap(CUdeviceptr address, size_t bytes) {
    lost += address < kept_end && kept < address + bytes;
    return real->page_unmap(address, bytes);
}

static CUresult page_map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
    for (size_t i = 0; i < seen_count; i++) mapped_again += seen[i] == handle;
    if (seen_count < sizeof seen / sizeof *seen) seen[seen_count++] = handle;
    return real->page_map(address, bytes, offset, handle, flags);
}

static CUresult page_release(CUmemGenericAllocationHandle handle) {
    for (size_t i = 0; i < seen_count; i++)
        if (seen[i] == handle) seen[i] = seen[--seen_count];
    return real->page_release(handle);
}

static void listen(void) {
    static struct weir__driver heard;
    heard = *(real = test_device()->driver);
    heard.page_unmap = page_unmap;
    heard.page_map = page_map;
    heard.page_release = page_release;
    test_device()->driver = &heard;
    lost = mapped_again = 0;
    seen_count = 0;
    kept = kept_end = 0;
}

static void stop_listening(void) { test_device()->driver = real; }

/* ---- pressure --------------------------------------------------------------------------------------------------- */

/* Blocks of all sizes on two streams, all memory in one block, trims. `pages`: that can be had. */
static void press(struct weir_pool *pool, weir_stream a, weir_stream b, size_t pages) {
    for (size_t size = 1; size <= pages; size *= 2) {
        void *blocks[PAGES];
        const size_t count = pages / size > 1 ? pages / size - 1 : 1;
        for (size_t i = 0; i < count; i++) blocks[i] = alloc(pool, size * PAGE, i % 2 == 0 ? a : b);
        for (size_t i = 0; i < count; i += 2) OK(weir_pool_free(pool, blocks[i], a));
        for (size_t i = 1; i < count; i += 2) OK(weir_pool_free(pool, blocks[i], b));
        OK(weir_pool_check(pool));
    }
    OK(weir_pool_free(pool, alloc(pool, pages * PAGE, b), b));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    OK(weir_pool_check(pool));
}

static void keep_pages(enum weir_policy policy) {
    listen();
    struct weir_pool *pool = open_pool(policy, PAGES);
    weir_stream a = new_stream(), b = new_stream();
    void *before = alloc(pool, PAGE / 2, a);
    unsigned char *block = alloc(pool, 8 * PAGE, a);
    OK(weir_pool_free(pool, before, a));
    unsigned char *range = block + 2 * PAGE + PAGE / 2; /* touches 4 pages, wherever the block begins */
    OK(weir_pool_register(pool, range, 3 * PAGE));
    OK(weir_pool_register(pool, range, 3 * PAGE));
    kept = (uintptr_t)range;
    kept_end = kept + 3 * PAGE;
    press(pool, a, b, PAGES - 10);
    OK(weir_pool_free(pool, block, a));
    press(pool, a, b, PAGES - 5); /* with what is not registered of the block */
    assert_int_equal(lost, 0);
    assert_true(stats_of(pool).held_bytes >= 4 * PAGE && stats_of(pool).held_bytes <= 5 * PAGE);
    OK(weir_pool_unregister(pool, range, 3 * PAGE));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(lost, 0);
    OK(weir_pool_unregister(pool, range, 3 * PAGE));
    assert_int_equal(weir_pool_unregister(pool, range, 3 * PAGE), WEIR_INVALID);
    OK(weir_pool_check(pool));
    press(pool, a, b, PAGES);
    assert_int_equal(stats_of(pool).held_bytes, 0);
    assert_true(lost > 0);
    close_pool(pool);
    stop_listening();
    OK(weir_stream_destroy(test_device(), a));
    OK(weir_stream_destroy(test_device(), b));
}

static void registered_addresses_keep_their_pages(void **state) {
    (void)state;
    keep_pages(WEIR_POLICY_LATENCY);
    keep_pages(WEIR_POLICY_FOOTPRINT);
}

/* The segment with them stays; the others go. */
static void a_pool_of_a_stream_keeps_them_too(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 64);
    weir_stream a = new_stream();
    unsigned char *block = alloc(pool, 20 * PAGE, a), *other = alloc(pool, 20 * PAGE, a);
    OK(weir_pool_register(pool, block + PAGE, PAGE));
    OK(weir_pool_free(pool, block, a));
    OK(weir_pool_free(pool, other, a));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 20 * PAGE);
    OK(weir_pool_free(pool, alloc(pool, 40 * PAGE, a), a)); /* all that can be given back is */
    OK(weir_pool_unregister(pool, block + PAGE, PAGE));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
    close_pool(pool);
}

/* Its pages were elsewhere before, where they are still mapped: they don't go back. */
static void what_has_come_does_not_go_back(void **state) {
    (void)state;
    enum { HALF = PAGES / 2 };
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream a = new_stream();
    void *holes[HALF], *walls[HALF], *parts[HALF], *none;
    weir__page pages[HALF];
    for (int i = 0; i < HALF; i++) {
        holes[i] = alloc(pool, PAGE, a);
        walls[i] = alloc(pool, PAGE, a);
    }
    for (int i = 0; i < HALF; i++) OK(weir_pool_free(pool, holes[i], a));
    unsigned char *block = alloc(pool, HALF * PAGE, a);
    assert_true(stats_of(pool).pages_moved >= HALF);
    OK(weir_pool_register(pool, block, HALF * PAGE));
    const uint32_t place = weir__place_of(&pool->pages, (uintptr_t)block);
    for (uint32_t i = 0; i < HALF; i++) pages[i] = weir__page_at(&pool->pages, place + i);
    OK(weir_pool_free(pool, block, a));
    for (int i = 0; i < HALF; i++) parts[i] = alloc(pool, PAGE, a); /* in the block's place */
    for (int i = 0; i < HALF; i += 2) OK(weir_pool_free(pool, parts[i], a));
    OK(weir_pool_free(pool, walls[3], a));
    assert_int_equal(weir_pool_alloc(pool, 2 * PAGE, a, &none), WEIR_OUT_OF_MEMORY); /* one page of all may move */
    for (uint32_t i = 0; i < HALF; i++) assert_int_equal(pool->pages.home[pages[i]], place + i);
    OK(weir_pool_unregister(pool, block, HALF * PAGE));
    OK(weir_pool_free(pool, alloc(pool, 2 * PAGE, a), a));
    close_pool(pool);
}

/* A block takes registered memory in place, and pages from elsewhere beside it. */
static void fixed_memory_is_part_of_a_larger_block(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 7);
    weir_stream a = new_stream();
    void *donor = alloc(pool, 2 * PAGE, a), *wall = alloc(pool, PAGE, a), *block = alloc(pool, 4 * PAGE, a);
    assert_true(donor < wall && wall < block);
    OK(weir_pool_register(pool, block, 4 * PAGE));
    OK(weir_pool_free(pool, block, a));
    OK(weir_pool_free(pool, donor, a));
    assert_ptr_equal(alloc(pool, 6 * PAGE, a), block);
    OK(weir_pool_unregister(pool, block, 4 * PAGE));
    close_pool(pool);
}

/* Two neighbours, which the asking stream comes after, are as good as one; waiting for another stream is worse. */
static void fixed_neighbours_serve_before_a_wait(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_FOOTPRINT, PAGES);
    weir_stream a = new_stream(), b = new_stream(), c = new_stream();
    void *first = alloc(pool, 6 * PAGE, a), *second = alloc(pool, 6 * PAGE, b), *wall = alloc(pool, PAGE, a);
    void *small = alloc(pool, 2 * PAGE, b), *other = alloc(pool, 12 * PAGE, c);
    void *shrinks = alloc(pool, PAGE, a);
    OK(weir_pool_register(pool, first, 6 * PAGE));
    OK(weir_pool_register(pool, second, 6 * PAGE));
    struct gate *gates[2] = {put_gate(b), put_gate(c)};
    OK(weir_pool_free(pool, small, b));
    OK(weir_pool_free(pool, second, b));
    OK(weir_pool_free(pool, other, c));
    for (size_t i = 1; i < 20; i++)
        OK(weir_pool_resize(pool, shrinks, PAGE - i * 512, a)); /* later frees than the other's */
    assert_ptr_equal(alloc(pool, 2 * PAGE, a), small);          /* so a waits for what b has done */
    OK(weir_pool_free(pool, first, a));
    assert_ptr_equal(alloc(pool, 12 * PAGE, a), first);
    assert_int_equal(stats_of(pool).device_waits, 1);
    for (int i = 0; i < 2; i++) open_gate(gates[i]);
    OK(weir_pool_free(pool, wall, a));
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

/* Idle neighbours of registered memory are one again when it is registered no more. */
static void what_is_left_is_whole_again(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream a = new_stream();
    unsigned char *block = alloc(pool, PAGES * PAGE, a);
    for (size_t i = 1; i < PAGES; i += 4) OK(weir_pool_register(pool, block + i * PAGE, 512));
    OK(weir_pool_free(pool, block, a));
    OK(weir_pool_check(pool));
    void *same = alloc(pool, PAGES * PAGE, a); /* in place it can be had */
    assert_ptr_equal(same, block);
    OK(weir_pool_free(pool, same, a));
    for (size_t i = 1; i < PAGES; i += 4) {
        OK(weir_pool_unregister(pool, block + i * PAGE, 512));
        OK(weir_pool_check(pool));
    }
    assert_ptr_equal(pool->first->next->next, NULL);
    close_pool(pool);
}

static void a_bad_range_is_said(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    unsigned char *block = alloc(pool, PAGE, NULL), *behind = alloc(pool, PAGE, NULL);
    OK(weir_pool_free(pool, behind, NULL));
    assert_int_equal(weir_pool_register(pool, block, 0), WEIR_INVALID);
    assert_int_equal(weir_pool_register(pool, block, PAGE + 1), WEIR_INVALID);
    assert_int_equal(weir_pool_register(pool, block + 1, SIZE_MAX), WEIR_INVALID);
    assert_int_equal(weir_pool_register(pool, behind, 1), WEIR_INVALID);
    assert_int_equal(weir_pool_register(pool, &pool, 1), WEIR_INVALID);
    assert_int_equal(weir_pool_unregister(pool, block, PAGE), WEIR_INVALID);
    OK(weir_pool_register(pool, block, PAGE));
    assert_int_equal(weir_pool_unregister(pool, block, PAGE - 1), WEIR_INVALID);
    assert_non_null(strstr(weir_last_error()->message, "not registered"));
    OK(weir_pool_unregister(pool, block, PAGE));
    close_pool(pool);
}

/* ---- pages that must not move ----------------------------------------------------------------------------------- */

static struct weir_pool *open_unmovable(enum weir_policy policy) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options,
                                        .policy = policy,
                                        .limit_bytes = PAGES * PAGE,
                                        .wait_limit_ns = 2000000000u,
                                        .trace_path = "",
                                        .movable = WEIR_MOVABLE_OFF};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

static void stay_in_place(enum weir_policy policy, bool any) {
    listen();
    struct weir_pool *pool = open_unmovable(policy);
    weir_stream a = new_stream(), b = new_stream();
    void *holes[PAGES / 2], *walls[PAGES / 2];
    for (int i = 0; i < PAGES / 2; i++) {
        holes[i] = alloc(pool, PAGE, a);
        walls[i] = alloc(pool, PAGE, a);
    }
    struct gate *gate = put_gate(a); /* what is freed behind it is in use for a while */
    for (int i = 0; i < PAGES / 2; i++) OK(weir_pool_free(pool, holes[i], a));
    void *none = pool;
    open_gate(gate);
    void *block = NULL; /* the pages of the holes are given back, and new ones taken */
    OK(any ? weir_pool_alloc_any(pool, PAGES / 2 * PAGE, &block) : weir_pool_alloc(pool, PAGES / 2 * PAGE, b, &block));
    queue_fill(b, block, PAGES / 2 * PAGE, 3);
    queue_check(b, block, PAGES / 2 * PAGE, 3);
    assert_int_equal(weir_pool_alloc(pool, 512, b, &none), WEIR_OUT_OF_MEMORY);
    OK(weir_pool_free(pool, block, b));
    for (int i = 0; i < PAGES / 2; i++) OK(weir_pool_free(pool, walls[i], a));
    press(pool, a, b, PAGES);
    assert_int_equal(mapped_again, 0);
    assert_int_equal(stats_of(pool).pages_moved, 0);
    assert_int_equal(wrong_bytes(), 0);
    close_pool(pool);
    stop_listening();
    OK(weir_stream_destroy(test_device(), a));
    OK(weir_stream_destroy(test_device(), b));
}

static void pages_that_must_not_move_are_given_back_instead(void **state) {
    (void)state;
    stay_in_place(WEIR_POLICY_LATENCY, false);
    stay_in_place(WEIR_POLICY_FOOTPRINT, false);
    stay_in_place(WEIR_POLICY_LATENCY, true);
}

/* Moving pages would save the wait for memory that another stream used just before. */
static void a_wait_is_no_reason_to_move_them(void **state) {
    (void)state;
    listen();
    struct weir_pool *pool = open_unmovable(WEIR_POLICY_LATENCY);
    weir_stream a = new_stream(), b = new_stream();
    void *holes[PAGES / 4], *walls[PAGES / 4], *other = alloc(pool, PAGES / 2 * PAGE, a);
    for (int i = 0; i < PAGES / 4; i++) {
        holes[i] = alloc(pool, PAGE, b);
        walls[i] = alloc(pool, PAGE, b);
    }
    struct gate *gate = put_gate(a);
    for (int i = 0; i < PAGES / 4; i++) OK(weir_pool_free(pool, holes[i], b));
    OK(weir_pool_free(pool, other, a));
    OK(weir_pool_free(pool, alloc(pool, PAGES / 4 * PAGE, b), b));
    assert_int_equal(stats_of(pool).device_waits, 1);
    assert_int_equal(mapped_again, 0);
    open_gate(gate);
    for (int i = 0; i < PAGES / 4; i++) OK(weir_pool_free(pool, walls[i], b));
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
    stop_listening();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registered_addresses_keep_their_pages),
        cmocka_unit_test(a_pool_of_a_stream_keeps_them_too),
        cmocka_unit_test(what_has_come_does_not_go_back),
        cmocka_unit_test(fixed_memory_is_part_of_a_larger_block),
        cmocka_unit_test(fixed_neighbours_serve_before_a_wait),
        cmocka_unit_test(what_is_left_is_whole_again),
        cmocka_unit_test(a_bad_range_is_said),
        cmocka_unit_test(pages_that_must_not_move_are_given_back_instead),
        cmocka_unit_test(a_wait_is_no_reason_to_move_them),
    };
    return cmocka_run_group_tests_name("registered", tests, NULL, NULL);
}
