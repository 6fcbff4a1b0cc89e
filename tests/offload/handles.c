/* SPDX-License-Identifier: Apache-2.0 */
/* An item is its handle: not an address, and not somebody else's place in the table. */
#include <string.h>
#include <unistd.h>

#include "world.h"

static struct weir_item offload(struct world *world, void *block, size_t bytes) {
    struct weir_item item;
    assert_ok(weir_offload_out(world->engine, block, bytes, world->compute, &item));
    return item;
}

static void fetch_and_check(struct world *world, struct weir_item item, size_t bytes, uint64_t seed) {
    void *block;
    assert_ok(weir_offload_fetch(world->engine, item, world->compute, &block));
    assert_pattern(world, block, bytes, seed, world->compute);
    assert_ok(weir_pool_free(world->pool, block, world->compute));
}

static void two_items_from_one_address_stay_apart(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.capacity_bytes = 3 * MIB});
    struct weir_item items[3];
    void *addresses[3];
    for (uint64_t i = 0; i < 3; i++) {
        addresses[i] = device_block(&world, 2 * MIB, world.compute);
        fill_on(&world, addresses[i], 2 * MIB, i, world.compute);
        items[i] = offload(&world, addresses[i], 2 * MIB);
    }
    assert_ptr_equal(addresses[0], addresses[1]); /* else this test shows nothing */
    const int orders[] = {1, 0, 2};
    for (int i = 0; i < 3; i++) fetch_and_check(&world, items[orders[i]], 2 * MIB, (uint64_t)orders[i]);
    world_close(&world);
}

static void a_stale_handle_is_an_error(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    void *block = device_block(&world, MIB, world.compute);
    fill_on(&world, block, MIB, 1, world.compute);
    struct weir_item first = offload(&world, block, MIB);
    fetch_and_check(&world, first, MIB, 1);
    block = device_block(&world, MIB, world.compute);
    fill_on(&world, block, MIB, 2, world.compute);
    struct weir_item second = offload(&world, block, MIB);
    assert_int_equal(second.index, first.index); /* the place is used again */
    assert_int_not_equal(second.generation, first.generation);

    const struct weir_item bad[] = {first, {0}, {.index = 1u << 30, .generation = 1}, {.index = second.index}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        void *out = &world;
        assert_int_equal(weir_offload_fetch(world.engine, bad[i], world.compute, &out), WEIR_INVALID);
        assert_null(out);
        assert_int_equal(weir_offload_prefetch(world.engine, bad[i], world.compute), WEIR_INVALID);
        assert_int_equal(weir_offload_release(world.engine, bad[i]), WEIR_INVALID);
    }
    fetch_and_check(&world, second, MIB, 2);
    world_close(&world);
}

static void a_second_prefetch_does_nothing(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    void *block = device_block(&world, MIB, world.compute);
    fill_on(&world, block, MIB, 3, world.compute);
    struct weir_item item = offload(&world, block, MIB);
    assert_ok(weir_offload_prefetch(world.engine, item, world.compute));
    assert_ok(weir_offload_prefetch(world.engine, item, world.other));
    assert_int_equal(engine_stats(&world).bytes_in, MIB);
    assert_int_equal(engine_stats(&world).prefetches, 1);
    fetch_and_check(&world, item, MIB, 3);
    assert_int_equal(engine_stats(&world).late, 0);
    world_close(&world);
}

static void a_released_item_leaves_nothing_in_any_state(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.host_budget_bytes = 2 * MIB});
    struct weir_item items[3];
    for (int i = 0; i < 3; i++) {
        void *block = device_block(&world, MIB, world.compute);
        fill_on(&world, block, MIB, 1, world.compute);
        items[i] = offload(&world, block, MIB);
    }
    assert_int_equal(engine_stats(&world).kept, 1); /* the third */
    assert_ok(weir_offload_prefetch(world.engine, items[0], world.compute));
    for (int i = 0; i < 3; i++) assert_ok(weir_offload_release(world.engine, items[i]));
    world_close(&world);
}

static void bad_arguments_are_refused_with_a_sentence(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    struct weir_item item;
    void *out;
    assert_int_equal(weir_offload_out(world.engine, NULL, 1, world.compute, &item), WEIR_INVALID);
    assert_int_equal(weir_offload_out(NULL, &item, 1, world.compute, &item), WEIR_INVALID);
    assert_int_equal(weir_offload_out(world.engine, &item, 1, world.compute, NULL), WEIR_INVALID);
    assert_int_equal(weir_host_pool_alloc(world.host, SIZE_MAX, &out), WEIR_OUT_OF_HOST_MEMORY);
    assert_int_equal(weir_host_pool_alloc(NULL, 1, &out), WEIR_INVALID);
    struct weir_offload *engine;
    const struct weir_offload_options wrong = {.size = 1};
    assert_int_equal(weir_offload_create(world.device, world.pool, world.host, &wrong, &engine), WEIR_INVALID);
    assert_non_null(strstr(weir_last_error()->message, "size"));
    assert_int_equal(weir_offload_create(world.device, world.pool, NULL, NULL, &engine), WEIR_INVALID);

    struct weir_host_pool *host;
    const struct weir_host_pool_options bad[] = {
        {.size = 3, .numa_node = -1},
        {.size = sizeof *bad, .ranks = -1, .numa_node = -1},
        {.size = sizeof *bad, .numa_node = -2},
        {.size = sizeof *bad, .budget_bytes = 4 * MIB, .slab_bytes = 8 * MIB, .numa_node = -1},
        {.size = sizeof *bad, .budget_bytes = 100, .numa_node = -1},
        {.size = sizeof *bad, .budget_bytes = SIZE_MAX, .numa_node = -1},
        {.size = sizeof *bad,
         .numa_node = 999}, /* last: where the machine shows no nodes, none is bound and none refused */
    };
    bool nodes_are_shown = access("/sys/devices/system/node/online", R_OK) == 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad - !nodes_are_shown; i++) {
        host = (struct weir_host_pool *)&world;
        assert_int_equal(weir_host_pool_create(world.device, &bad[i], &host), WEIR_INVALID);
        assert_null(host);
    }
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_items_from_one_address_stay_apart),
        cmocka_unit_test(a_stale_handle_is_an_error),
        cmocka_unit_test(a_second_prefetch_does_nothing),
        cmocka_unit_test(a_released_item_leaves_nothing_in_any_state),
        cmocka_unit_test(bad_arguments_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
