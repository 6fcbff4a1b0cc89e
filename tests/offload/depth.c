/* SPDX-License-Identifier: Apache-2.0 */
/* Several items may be on their way at once, each with an order of its own; one that does not fit holds up no other. */
#include "world.h"

static void any_number_of_items_may_be_on_their_way(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    for (uint64_t depth = 1; depth <= 8; depth++) {
        struct weir_item items[8];
        void *blocks[8];
        for (uint64_t i = 0; i < depth; i++) {
            void *block = device_block(&world, MIB, world.compute);
            fill_on(&world, block, MIB, 10 * depth + i, world.compute);
            assert_ok(weir_offload_out(world.engine, block, MIB, world.compute, &items[i]));
        }
        for (uint64_t i = 0; i < depth; i++) assert_ok(weir_offload_prefetch(world.engine, items[i], world.other));
        for (uint64_t i = 0; i < depth; i++)
            assert_ok(weir_offload_fetch(world.engine, items[i], world.other, &blocks[i]));
        for (uint64_t i = 0; i < depth; i++) {
            assert_pattern(&world, blocks[i], MIB, 10 * depth + i, world.other);
            assert_ok(weir_pool_free(world.pool, blocks[i], world.other));
        }
    }
    world_close(&world);
}

/* The copy in of the first does not wait for the copy out of the second, which is held back. */
static void an_item_waits_for_its_own_copies_only(void **state) {
    (void)state;
    struct world world;
    struct weir_item items[2];
    void *block;
    world_open(&world, (struct world_options){0});
    for (uint64_t i = 0; i < 2; i++) {
        block = device_block(&world, MIB, world.compute);
        fill_on(&world, block, MIB, i, world.compute);
        struct gate *gate = i == 1 ? gate_close(&world, world.to_host) : NULL;
        assert_ok(weir_offload_out(world.engine, block, MIB, world.compute, &items[i]));
        if (gate != NULL) {
            void *first;
            assert_ok(weir_offload_fetch(world.engine, items[0], world.other, &first));
            assert_pattern(&world, first, MIB, 0, world.other); /* ends although the gate is closed */
            assert_ok(weir_pool_free(world.pool, first, world.other));
            gate_open(gate);
        }
    }
    assert_ok(weir_offload_fetch(world.engine, items[1], world.other, &block));
    assert_pattern(&world, block, MIB, 1, world.other);
    assert_ok(weir_pool_free(world.pool, block, world.other));
    world_close(&world);
}

static void an_item_that_does_not_fit_is_refused_and_others_go_on(void **state) {
    (void)state;
    struct world world;
    struct weir_item large;
    struct weir_item small[4];
    world_open(&world, (struct world_options){.capacity_bytes = 10 * MIB});
    void *block = device_block(&world, 8 * MIB, world.compute);
    fill_on(&world, block, 8 * MIB, 1, world.compute);
    assert_ok(weir_offload_out(world.engine, block, 8 * MIB, world.compute, &large));
    for (uint64_t i = 0; i < 4; i++) {
        block = device_block(&world, MIB / 2, world.compute);
        fill_on(&world, block, MIB / 2, 10 + i, world.compute);
        assert_ok(weir_offload_out(world.engine, block, MIB / 2, world.compute, &small[i]));
    }
    void *in_the_way = device_block(&world, 6 * MIB, world.compute);
    assert_int_equal(weir_offload_prefetch(world.engine, large, world.compute), WEIR_OUT_OF_MEMORY);
    assert_int_equal(weir_offload_fetch(world.engine, large, world.compute, &block), WEIR_OUT_OF_MEMORY);
    assert_null(block);
    for (uint64_t i = 0; i < 4; i++) {
        assert_ok(weir_offload_fetch(world.engine, small[i], world.compute, &block));
        assert_pattern(&world, block, MIB / 2, 10 + i, world.compute);
        assert_ok(weir_pool_free(world.pool, block, world.compute));
    }
    assert_ok(weir_pool_free(world.pool, in_the_way, world.compute));
    assert_ok(weir_offload_fetch(world.engine, large, world.compute, &block)); /* nothing was lost */
    assert_pattern(&world, block, 8 * MIB, 1, world.compute);
    assert_ok(weir_pool_free(world.pool, block, world.compute));
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        gated_test(any_number_of_items_may_be_on_their_way),
        gated_test(an_item_waits_for_its_own_copies_only),
        gated_test(an_item_that_does_not_fit_is_refused_and_others_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
