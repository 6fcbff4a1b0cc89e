/* SPDX-License-Identifier: Apache-2.0 */
/* From the second step on nothing grows: no registration, no new event, the same bytes, the same addresses. */
#include "device/device.h"
#include "world.h"

enum { ITEMS = 60, FETCHED = 50, STEPS = 12 };

static CUresult (*real_event_create)(CUevent *, unsigned);
static int events_created;

static CUresult counting_event_create(CUevent *event, unsigned flags) {
    events_created++;
    return real_event_create(event, flags);
}

/* Some items are never read back, as of experts that got no gradient: they are released. */
static void step(struct world *world) {
    struct weir_item items[ITEMS];
    for (uint64_t i = 0; i < ITEMS; i++) {
        void *block = device_block(world, MIB / 4, world->compute);
        fill_on(world, block, MIB / 4, i, world->compute);
        assert_ok(weir_offload_out(world->engine, block, MIB / 4, world->compute, &items[i]));
    }
    for (uint64_t i = ITEMS; i-- > 0;) {
        void *block;
        if (i >= FETCHED) {
            assert_ok(weir_offload_release(world->engine, items[i]));
            continue;
        }
        if (i > 0 && i % 2 == 0) assert_ok(weir_offload_prefetch(world->engine, items[i - 1], world->compute));
        assert_ok(weir_offload_fetch(world->engine, items[i], world->compute, &block));
        assert_pattern(world, block, MIB / 4, i, world->compute);
        assert_ok(weir_pool_free(world->pool, block, world->compute));
    }
    assert_int_equal(engine_stats(world).open_items, 0);
}

static void nothing_grows_from_the_second_step_on(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    struct weir__driver table = *world.device->driver;
    const struct weir__driver *real = world.device->driver;
    real_event_create = table.event_create;
    table.event_create = counting_event_create;
    world.device->driver = &table;
    struct weir_host_pool_stats first = {0};
    int first_events = 0;
    for (int i = 0; i < STEPS; i++) {
        const int before = events_created;
        step(&world);
        assert_ok(weir_device_synchronize(world.device));
        if (i == 1) {
            first = host_stats(&world);
            first_events = events_created;
        } else if (i > 1) {
            const struct weir_host_pool_stats now = host_stats(&world);
            assert_int_equal(now.slab_bytes, first.slab_bytes);
            assert_int_equal(now.register_calls, first.register_calls);
            assert_int_equal(now.peak_live_bytes, first.peak_live_bytes);
            assert_true(events_created - before <= 4); /* the pool's marks may still find their number */
        }
    }
    assert_true(events_created - first_events <= 16);
    world.device->driver = real;
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_grows_from_the_second_step_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
