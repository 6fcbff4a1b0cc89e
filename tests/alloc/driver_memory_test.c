/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that has no memory for one more page, or for one more mapping, below the pool's limit: the pool makes do with
 * what it has and with what the driver still gives, and what it says when that is too little is true. */
#include <string.h>

#include "support.h"

enum { LIMIT = 64, BLOCKS = 20 };

static const struct weir__driver *real;
static size_t created, mapped, most_created, most_mapped; /* pages */
static bool maps_nothing;                                 /* whatever has been unmapped before */

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                       unsigned long long flags) {
    if (created == most_created) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult code = real->page_create(handle, bytes, properties, flags);
    if (code == CUDA_SUCCESS) created++;
    return code;
}

static CUresult release(CUmemGenericAllocationHandle handle) {
    created--;
    return real->page_release(handle);
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
    if (maps_nothing || mapped == most_mapped) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult code = real->page_map(address, bytes, offset, handle, flags);
    if (code == CUDA_SUCCESS) mapped++;
    return code;
}

static CUresult unmap(CUdeviceptr address, size_t bytes) {
    mapped -= bytes / PAGE;
    return real->page_unmap(address, bytes);
}

struct world {
    struct weir__driver short_of_memory;
    struct weir_pool *pool;
    weir_stream stream;
    void *blocks[BLOCKS];
};

/* A pool with `count` blocks of a page each, of which every other one is free again and complete. */
static void open_world(struct world *world, enum weir_policy policy, int count) {
    real = test_device()->driver;
    created = mapped = 0;
    most_created = most_mapped = SIZE_MAX;
    world->short_of_memory = *real;
    world->short_of_memory.page_create = create;
    world->short_of_memory.page_release = release;
    world->short_of_memory.page_map = map;
    world->short_of_memory.page_unmap = unmap;
    test_device()->driver = &world->short_of_memory;
    world->pool = open_pool(policy, LIMIT);
    world->stream = new_stream();
    for (int i = 0; i < count; i++) {
        world->blocks[i] = alloc(world->pool, PAGE, world->stream);
        queue_fill(world->stream, world->blocks[i], PAGE, (unsigned char)(i + 1));
    }
    for (int i = 1; i < count; i += 2) OK(weir_pool_free(world->pool, world->blocks[i], world->stream));
    OK(weir_stream_synchronize(test_device(), world->stream));
}

static void close_world(struct world *world, int count) {
    for (int i = 0; i < count; i += 2) {
        queue_check(world->stream, world->blocks[i], PAGE, (unsigned char)(i + 1));
        OK(weir_pool_free(world->pool, world->blocks[i], world->stream));
    }
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    close_pool(world->pool);
    OK(weir_stream_destroy(test_device(), world->stream));
    test_device()->driver = real;
}

static bool report_has(struct weir_pool *pool, const char *words) {
    char text[4096];
    assert_true(weir_pool_report(pool, text, sizeof text) < sizeof text);
    return strstr(text, words) != NULL;
}

static void what_can_not_be_mapped_anew_is_moved(void **state) {
    (void)state;
    struct world world;
    open_world(&world, WEIR_POLICY_LATENCY, BLOCKS);
    most_mapped = mapped;
    void *block = alloc(world.pool, 6 * PAGE, world.stream);
    queue_fill(world.stream, block, 6 * PAGE, 99);
    assert_true(stats_of(world.pool).pages_moved > 0);
    assert_int_equal(stats_of(world.pool).held_bytes, BLOCKS * PAGE);

    void *none;
    assert_int_equal(weir_pool_alloc(world.pool, 8 * PAGE, world.stream, &none), WEIR_OUT_OF_MEMORY);
    OK(weir_pool_check(world.pool));
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    OK(weir_pool_get_refusal(world.pool, &refusal));
    assert_int_equal(refusal.live_bytes, (BLOCKS / 2 + 6) * PAGE);
    assert_int_equal(refusal.untaken_bytes, (LIMIT - BLOCKS) * PAGE);
    assert_true(report_has(world.pool, "the driver had no more memory"));
    OK(weir_pool_free(world.pool, block, world.stream));
    close_world(&world, BLOCKS);
}

static void what_can_not_be_mapped_anew_is_waited_for(void **state) {
    (void)state;
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT};
    for (int p = 0; p < 2; p++) {
        struct world world;
        open_world(&world, policies[p], 2);
        void *busy = alloc(world.pool, 10 * PAGE, world.stream);
        struct gate *gate = put_gate(world.stream);
        OK(weir_pool_free(world.pool, busy, world.stream));
        most_mapped = mapped;
        weir_stream other = new_stream();
        void *block = alloc(world.pool, 10 * PAGE, other); /* the other stream's, after a wait on the device */
        assert_ptr_equal(block, busy);
        open_gate(gate);
        OK(weir_pool_free(world.pool, block, other));
        OK(weir_stream_destroy(test_device(), other));
        close_world(&world, 2);
    }
}

static void pages_that_the_driver_still_gives_are_taken(void **state) {
    (void)state;
    struct world world;
    open_world(&world, WEIR_POLICY_LATENCY, 6); /* three idle pages, apart */
    most_created = created + 3;
    void *block = alloc(world.pool, 6 * PAGE, world.stream);
    assert_int_equal(created, most_created);
    assert_int_equal(stats_of(world.pool).held_bytes, most_created * PAGE);
    void *none;
    assert_int_equal(weir_pool_alloc(world.pool, PAGE, world.stream, &none), WEIR_OUT_OF_MEMORY);
    assert_true(report_has(world.pool, "the driver had no more memory"));
    OK(weir_pool_free(world.pool, block, world.stream));
    close_world(&world, 6);
}

static void a_driver_that_maps_nothing_is_not_asked_for_ever(void **state) {
    (void)state;
    struct world world;
    open_world(&world, WEIR_POLICY_LATENCY, BLOCKS);
    maps_nothing = true;
    void *block;
    assert_int_equal(weir_pool_alloc(world.pool, 3 * PAGE, world.stream, &block), WEIR_OUT_OF_MEMORY);
    OK(weir_pool_check(world.pool));
    maps_nothing = false;
    block = alloc(world.pool, (LIMIT - BLOCKS / 2) * PAGE, world.stream);
    OK(weir_pool_free(world.pool, block, world.stream));
    close_world(&world, BLOCKS);
}

static void the_driver_is_not_blamed_for_the_limit(void **state) {
    (void)state;
    struct world world;
    open_world(&world, WEIR_POLICY_LATENCY, 2);
    void *none;
    assert_int_equal(weir_pool_alloc(world.pool, (LIMIT + 1) * PAGE, world.stream, &none), WEIR_OUT_OF_MEMORY);
    assert_false(report_has(world.pool, "driver had no more"));
    close_world(&world, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_not_be_mapped_anew_is_moved),
        cmocka_unit_test(what_can_not_be_mapped_anew_is_waited_for),
        cmocka_unit_test(pages_that_the_driver_still_gives_are_taken),
        cmocka_unit_test(a_driver_that_maps_nothing_is_not_asked_for_ever),
        cmocka_unit_test(the_driver_is_not_blamed_for_the_limit),
    };
    return cmocka_run_group_tests_name("driver_memory", tests, NULL, NULL);
}
