/* SPDX-License-Identifier: Apache-2.0 */
/* The host pool hands out what was asked for, apart from every other block, and wastes little. */
#include <numaif.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static void *host_block(struct world *world, size_t bytes) {
    void *block;
    assert_ok(weir_host_pool_alloc(world->host, bytes, &block));
    assert_int_equal((uintptr_t)block % 64, 0);
    return block;
}

static void large_requests_are_not_rounded_up_to_powers_of_two(void **state) {
    (void)state;
    const size_t sizes[] = {5 * MIB, 33 * MIB + 1, 65 * MIB, 129 * MIB};
    struct world world;
    world_open(&world, (struct world_options){.host_budget_bytes = 256 * MIB, .slab_bytes = 4 * MIB});
    void *blocks[4];
    size_t before = 0;
    size_t asked = 0;
    for (size_t i = 0; i < 4; i++) {
        blocks[i] = host_block(&world, sizes[i]);
        memset(blocks[i], 1, sizes[i]);
        asked += sizes[i];
        assert_true(host_stats(&world).registered_bytes - before <= sizes[i] + 2 * MIB);
        before = host_stats(&world).registered_bytes;
    }
    assert_int_equal(host_stats(&world).live_bytes, asked);
    assert_true(before <= 240 * MIB);
    for (size_t i = 0; i < 4; i++) weir_host_pool_free(world.host, blocks[i]);
    world_close(&world);
}

static void a_freed_block_is_not_given_for_a_larger_request(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    void *small = host_block(&world, 150 << 10);
    void *guard = host_block(&world, 150 << 10);
    fill_host(guard, 150 << 10, 1);
    weir_host_pool_free(world.host, small);
    void *large = host_block(&world, 200 << 10);
    memset(large, 0xff, 200 << 10);
    assert_host_pattern(guard, 150 << 10, 1);
    weir_host_pool_free(world.host, guard);
    weir_host_pool_free(world.host, large);
    world_close(&world);
}

static void a_block_of_the_same_size_is_the_same_block(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    void *first = host_block(&world, MIB);
    weir_host_pool_free(world.host, first);
    assert_ptr_equal(host_block(&world, MIB), first);
    weir_host_pool_free(world.host, first);
    world_close(&world);
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void random_blocks_never_overlap_and_all_memory_comes_back(void **state) {
    (void)state;
    enum { BLOCKS = 200, STEPS = 4000 };
    static struct {
        void *address;
        size_t bytes;
        uint64_t seed;
    } live[BLOCKS];
    struct world world;
    world_open(&world, (struct world_options){.host_budget_bytes = 16 * MIB, .slab_bytes = MIB});
    uint64_t random = 5;
    for (uint64_t step = 0; step < STEPS; step++) {
        size_t at = next_random(&random) % BLOCKS;
        if (live[at].address != NULL) {
            assert_host_pattern(live[at].address, live[at].bytes, live[at].seed);
            weir_host_pool_free(world.host, live[at].address);
            live[at].address = NULL;
        }
        size_t bytes = (size_t)1 << next_random(&random) % 19;
        bytes += next_random(&random) % bytes;
        if (weir_host_pool_alloc(world.host, bytes, &live[at].address) == WEIR_OK) {
            fill_host(live[at].address, bytes, step);
            live[at].bytes = bytes;
            live[at].seed = step;
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) weir_host_pool_free(world.host, live[i].address);
    assert_int_equal(host_stats(&world).live_bytes, 0);
    /* what small and idle blocks took comes together again */
    void *all = host_block(&world, 15 * MIB + MIB / 2);
    weir_host_pool_free(world.host, all);
    assert_true(host_stats(&world).slab_bytes <= 16 * MIB);
    world_close(&world);
}

static void a_wrong_free_changes_nothing(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    char *block = host_block(&world, MIB);
    weir_host_pool_free(world.host, block + 64);
    weir_host_pool_free(world.host, &world);
    assert_int_equal(host_stats(&world).live_bytes, MIB);
    weir_host_pool_free(world.host, block);
    weir_host_pool_free(world.host, block);
    weir_host_pool_free(world.host, NULL);
    assert_int_equal(host_stats(&world).live_bytes, 0);
    void *first = host_block(&world, MIB);
    void *second = host_block(&world, MIB);
    assert_ptr_not_equal(first, second); /* the second free did not put the block back twice */
    weir_host_pool_free(world.host, first);
    weir_host_pool_free(world.host, second);
    world_close(&world);
}

static void pages_lie_on_the_node_that_the_pool_says(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    char *block = host_block(&world, 8 * MIB);
    if (!host_stats(&world).bound) {
        print_message("skipped: this system refuses to bind memory\n");
        weir_host_pool_free(world.host, block);
        world_close(&world);
        skip();
    }
    for (size_t offset = 0; offset < 8 * MIB; offset += MIB) {
        int node = -1;
        assert_int_equal(get_mempolicy(&node, NULL, 0, block + offset, MPOL_F_NODE | MPOL_F_ADDR), 0);
        assert_int_equal(node, host_stats(&world).numa_node);
    }
    weir_host_pool_free(world.host, block);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_requests_are_not_rounded_up_to_powers_of_two),
        cmocka_unit_test(a_freed_block_is_not_given_for_a_larger_request),
        cmocka_unit_test(a_block_of_the_same_size_is_the_same_block),
        cmocka_unit_test(random_blocks_never_overlap_and_all_memory_comes_back),
        cmocka_unit_test(a_wrong_free_changes_nothing),
        cmocka_unit_test(pages_lie_on_the_node_that_the_pool_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
