/* SPDX-License-Identifier: Apache-2.0 */
/* A registration that fails leaves nothing behind, is counted and said, and the pool goes on with what it has. The driver
 * table is replaced by one that counts registrations and fails the one that a test chooses. */
#include <string.h>

#include "device/device.h"
#include "offload/slabs.h"
#include "world.h"

static struct {
    CUresult (*host_register)(void *, size_t, unsigned);
    CUresult (*host_unregister)(void *);
    int calls, fail_at; /* the call that fails, from 1; 0: none */
    size_t largest, pinned, sizes[4096];
    void *addresses[4096];
    int count, undone_twice;
} fake;

static CUresult counting_register(void *address, size_t bytes, unsigned flags) {
    if (bytes > fake.largest) fake.largest = bytes;
    if (++fake.calls == fake.fail_at) return CUDA_ERROR_OUT_OF_MEMORY;
    fake.addresses[fake.count] = address;
    fake.sizes[fake.count++] = bytes;
    fake.pinned += bytes;
    return fake.host_register(address, bytes, flags);
}

static CUresult counting_unregister(void *address) {
    int i = 0;
    while (i < fake.count && fake.addresses[i] != address) i++;
    if (i == fake.count) {
        fake.undone_twice++;
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake.pinned -= fake.sizes[i];
    fake.count--;
    fake.addresses[i] = fake.addresses[fake.count];
    fake.sizes[i] = fake.sizes[fake.count];
    return fake.host_unregister(address);
}

static struct weir__driver table;
static const struct weir__driver *real_table;

static void fake_driver(struct world *world, int fail_at) {
    memset(&fake, 0, sizeof fake);
    real_table = world->device->driver;
    table = *real_table;
    fake.host_register = table.host_register;
    fake.host_unregister = table.host_unregister;
    fake.fail_at = fail_at;
    table.host_register = counting_register;
    table.host_unregister = counting_unregister;
    world->device->driver = &table;
}

static void close_and_check(struct world *world) {
    weir_offload_destroy(world->engine);
    world->engine = NULL;
    weir_host_pool_destroy(world->host);
    world->host = NULL;
    assert_int_equal(fake.pinned, 0);
    assert_int_equal(fake.undone_twice, 0);
    world->device->driver = real_table;
    world_close(world);
}

static void a_chunk_that_cannot_be_pinned_takes_the_earlier_ones_back(void **state) {
    (void)state;
    struct world world;
    struct weir__slabs slabs;
    struct weir__growth growth;
    world_open_device(&world, 64 * MIB);
    fake_driver(&world, 0);
    assert_ok(weir__slabs_init(&slabs, world.device, 32 * MIB, MIB, -1));
    assert_true(weir__slabs_reserve(&slabs, 2 * MIB));
    assert_ok(weir__slabs_prepare(&slabs, 2 * MIB, &growth));
    weir__slabs_commit(&slabs, &growth);
    fake.fail_at = fake.calls + 3;
    assert_int_equal(weir__slabs_prepare(&slabs, 8 * MIB, &growth), WEIR_DRIVER);
    assert_int_equal(weir_last_error()->driver_code, CUDA_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(weir_last_error()->message, "8388608"));
    assert_int_equal(growth.register_failures, 1);
    assert_int_equal(fake.pinned, 2 * MIB);
    assert_int_equal(slabs.taken_bytes, 2 * MIB);
    assert_ok(weir__slabs_prepare(&slabs, 8 * MIB, &growth)); /* the addresses can be used again */
    assert_int_equal(slabs.base[2 * MIB], 0);
    assert_int_equal(fake.largest, MIB);
    assert_true(weir__slabs_reserve(&slabs, 8 * MIB));
    weir__slabs_commit(&slabs, &growth);
    weir__slabs_destroy(&slabs);
    assert_int_equal(fake.pinned, 0);
    assert_int_equal(fake.undone_twice, 0);
    world.device->driver = real_table;
    world_close(&world);
}

static void the_pool_goes_on_with_what_it_has_pinned(void **state) {
    (void)state;
    struct world world;
    struct weir_item items[8];
    world_open(&world, (struct world_options){.host_budget_bytes = 16 * MIB, .slab_bytes = 2 * MIB});
    fake_driver(&world, 3);
    for (uint64_t i = 0; i < 8; i++) {
        void *block = device_block(&world, MIB, world.compute);
        fill_on(&world, block, MIB, i, world.compute);
        assert_ok(weir_offload_out(world.engine, block, MIB, world.compute, &items[i]));
    }
    assert_int_equal(engine_stats(&world).kept, 4);
    assert_int_equal(host_stats(&world).register_failures, 1);
    assert_int_equal(host_stats(&world).registered_bytes, fake.pinned);
    assert_int_equal(fake.pinned, 4 * MIB);
    assert_int_equal(fake.calls, 3); /* it does not try again at each request */
    void *block;
    assert_int_equal(weir_host_pool_alloc(world.host, MIB, &block), WEIR_OUT_OF_HOST_MEMORY);
    assert_non_null(strstr(weir_last_error()->message, "registration failed"));
    for (uint64_t i = 0; i < 8; i++) {
        assert_ok(weir_offload_fetch(world.engine, items[i], world.compute, &block));
        assert_pattern(&world, block, MIB, i, world.compute);
        assert_ok(weir_pool_free(world.pool, block, world.compute));
    }
    close_and_check(&world);
}

static void each_registration_is_undone_once(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.host_budget_bytes = 64 * MIB});
    fake_driver(&world, 0);
    const size_t sizes[] = {17 * MIB, 24 * MIB, 33 * MIB};
    for (int i = 0; i < 60; i++) {
        void *block;
        assert_ok(weir_host_pool_alloc(world.host, sizes[i % 3], &block));
        assert_true(fake.pinned <= 64 * MIB);
        weir_host_pool_free(world.host, block);
    }
    assert_int_equal(host_stats(&world).register_calls, fake.calls);
    assert_true(fake.calls <= 16);
    close_and_check(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_that_cannot_be_pinned_takes_the_earlier_ones_back),
        cmocka_unit_test(the_pool_goes_on_with_what_it_has_pinned),
        cmocka_unit_test(each_registration_is_undone_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
