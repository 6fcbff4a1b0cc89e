/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out comes back bit for bit, whatever its size and wherever its host block lies. */
#include "world.h"

static void round_trip(struct world *world, size_t bytes, uint64_t seed) {
    void *block = device_block(world, bytes, world->compute);
    struct weir_item item;
    fill_on(world, block, bytes, seed, world->compute);
    assert_ok(weir_offload_out(world->engine, block, bytes, world->compute, &item));
    assert_ok(weir_offload_prefetch(world->engine, item, world->compute));
    assert_ok(weir_offload_fetch(world->engine, item, world->compute, &block));
    assert_pattern(world, block, bytes, seed, world->compute);
    assert_ok(weir_pool_free(world->pool, block, world->compute));
}

static void any_size_comes_back_bit_for_bit(void **state) {
    (void)state;
    const size_t sizes[] = {1, 7, 64, 4096, 8 << 10, (8 << 10) + 1, 100001, 2 * MIB - 1, 5 * MIB + 3, 70 * MIB};
    struct world world;
    world_open(&world, (struct world_options){0});
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) round_trip(&world, sizes[i], i);
    world_close(&world);
}

/* Slabs of 1 MiB are registered one by one; an item of 2.5 MiB then lies across a border. */
static void an_item_across_registrations_comes_back_bit_for_bit(void **state) {
    (void)state;
    struct world world;
    void *first;
    world_open(&world, (struct world_options){.slab_bytes = MIB});
    assert_ok(weir_host_pool_alloc(world.host, MIB / 2, &first));
    assert_int_equal(weir_host_pool_span(world.host, first), MIB);
    assert_int_equal(weir_host_pool_span(world.host, (char *)first + MIB - 1), 1);
    assert_int_equal(weir_host_pool_span(world.host, (char *)first + MIB), 0);
    round_trip(&world, 2 * MIB + MIB / 2, 1);
    assert_true(host_stats(&world).register_calls >= 2);
    assert_true(host_stats(&world).slab_bytes <= 4 * MIB); /* half a slab was left, and was used */
    weir_host_pool_free(world.host, first);
    world_close(&world);
}

static void no_bytes_need_no_copy_and_no_host_memory(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    struct weir_item item;
    void *block = device_block(&world, 0, world.compute);
    assert_ok(weir_offload_out(world.engine, block, 0, world.compute, &item));
    assert_ok(weir_offload_prefetch(world.engine, item, world.compute));
    assert_ok(weir_offload_fetch(world.engine, item, world.compute, &block));
    assert_ok(weir_pool_free(world.pool, block, world.compute));
    assert_ok(weir_offload_out(world.engine, NULL, 0, world.compute, &item));
    assert_ok(weir_offload_release(world.engine, item));
    assert_int_equal(host_stats(&world).register_calls, 0);
    assert_int_equal(engine_stats(&world).bytes_out, 0);
    world_close(&world);
}

static void many_small_items_need_few_registrations(void **state) {
    (void)state;
    enum { ITEMS = 2000, BYTES = 4096 };
    static struct weir_item items[ITEMS];
    struct world world;
    world_open(&world, (struct world_options){0});
    for (uint64_t i = 0; i < ITEMS; i++) {
        void *block = device_block(&world, BYTES, world.compute);
        fill_on(&world, block, BYTES, i, world.compute);
        assert_ok(weir_offload_out(world.engine, block, BYTES, world.compute, &items[i]));
    }
    for (uint64_t i = 0; i < ITEMS; i++) {
        void *block;
        assert_ok(weir_offload_fetch(world.engine, items[i], world.compute, &block));
        assert_pattern(&world, block, BYTES, i, world.compute);
        assert_ok(weir_pool_free(world.pool, block, world.compute));
    }
    assert_true(host_stats(&world).register_calls <= 64);
    assert_int_equal(engine_stats(&world).bytes_out, engine_stats(&world).bytes_in);
    world_close(&world);
}

static void full_host_memory_keeps_the_item_on_the_device(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.host_budget_bytes = 3 * MIB});
    struct weir_item items[4];
    void *blocks[4];
    for (uint64_t i = 0; i < 4; i++) {
        blocks[i] = device_block(&world, MIB, world.compute);
        fill_on(&world, blocks[i], MIB, i, world.compute);
        assert_ok(weir_offload_out(world.engine, blocks[i], MIB, world.compute, &items[i]));
    }
    assert_int_equal(engine_stats(&world).kept, 1);
    assert_int_equal(host_stats(&world).refused, 1);
    assert_int_equal(pool_stats(&world).live_blocks, 1);
    assert_ok(weir_offload_prefetch(world.engine, items[3], world.compute));
    for (uint64_t i = 4; i-- > 0;) {
        void *block;
        assert_ok(weir_offload_fetch(world.engine, items[i], world.compute, &block));
        assert_pattern(&world, block, MIB, i, world.compute);
        assert_ok(weir_pool_free(world.pool, block, world.compute));
    }
    assert_int_equal(engine_stats(&world).forwarded, 1);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_size_comes_back_bit_for_bit),
        cmocka_unit_test(an_item_across_registrations_comes_back_bit_for_bit),
        cmocka_unit_test(no_bytes_need_no_copy_and_no_host_memory),
        cmocka_unit_test(many_small_items_need_few_registrations),
        cmocka_unit_test(full_host_memory_keeps_the_item_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
