/* SPDX-License-Identifier: Apache-2.0 */
/* Before the device pool refuses a request, the engine gives what it can: items that could not move out before, prefetches
 * that nobody has fetched yet. What it has taken over comes back whole. The order of it all is tested in order.c. */
#include <pthread.h>
#include <sched.h>

#include "alloc/pool.h"
#include "world.h"

static struct weir_item offload(struct world *world, size_t bytes, uint64_t seed) {
    struct weir_item item;
    void *block = device_block(world, bytes, world->compute);
    fill_on(world, block, bytes, seed, world->compute);
    assert_ok(weir_offload_out(world->engine, block, bytes, world->compute, &item));
    return item;
}

static void fetch_and_check(struct world *world, struct weir_item item, size_t bytes, uint64_t seed) {
    void *block;
    assert_ok(weir_offload_fetch(world->engine, item, world->compute, &block));
    assert_pattern(world, block, bytes, seed, world->compute);
    assert_ok(weir_pool_free(world->pool, block, world->compute));
}

static void as_many_prefetches_go_as_are_needed_the_latest_first(void **state) {
    (void)state;
    struct world world;
    struct weir_item items[3];
    world_open(&world, (struct world_options){.capacity_bytes = 8 * MIB});
    for (uint64_t i = 0; i < 3; i++) items[i] = offload(&world, 2 * MIB, i);
    for (uint64_t i = 0; i < 3; i++) assert_ok(weir_offload_prefetch(world.engine, items[i], world.compute));
    void *block = device_block(&world, 3 * MIB, world.other); /* of the last one's memory, and what was idle */
    assert_int_equal(pool_stats(&world).out_of_memory, 0);
    assert_int_equal(engine_stats(&world).dropped, 2); /* the pool asks for 3 MiB, whatever it has */
    fetch_and_check(&world, items[0], 2 * MIB, 0);
    assert_int_equal(engine_stats(&world).late, 0); /* it was there */
    assert_ok(weir_pool_free(world.pool, block, world.other));
    fetch_and_check(&world, items[1], 2 * MIB, 1);
    fetch_and_check(&world, items[2], 2 * MIB, 2);
    assert_int_equal(engine_stats(&world).late, 2);
    world_close(&world);
}

static void a_prefetch_takes_nothing_from_another(void **state) {
    (void)state;
    struct world world;
    struct weir_item items[2];
    world_open(&world, (struct world_options){.capacity_bytes = 3 * MIB});
    for (uint64_t i = 0; i < 2; i++) items[i] = offload(&world, 2 * MIB, i);
    assert_ok(weir_offload_prefetch(world.engine, items[0], world.compute));
    assert_int_equal(weir_offload_prefetch(world.engine, items[1], world.compute), WEIR_OUT_OF_MEMORY);
    assert_int_equal(engine_stats(&world).dropped, 0);
    for (uint64_t i = 0; i < 2; i++) fetch_and_check(&world, items[i], 2 * MIB, i);
    assert_int_equal(engine_stats(&world).late, 1);
    world_close(&world);
}

/* The fetch's own request asks the engine, inside a call of it. */
static void what_is_fetched_now_goes_before_what_was_prefetched(void **state) {
    (void)state;
    struct world world;
    struct weir_item items[2];
    world_open(&world, (struct world_options){.capacity_bytes = 3 * MIB});
    for (uint64_t i = 0; i < 2; i++) items[i] = offload(&world, 2 * MIB, i);
    assert_ok(weir_offload_prefetch(world.engine, items[0], world.compute));
    fetch_and_check(&world, items[1], 2 * MIB, 1);
    assert_int_equal(engine_stats(&world).dropped, 1);
    fetch_and_check(&world, items[0], 2 * MIB, 0);
    world_close(&world);
}

static void where_the_engine_has_nothing_to_give_the_request_is_refused(void **state) {
    (void)state;
    struct world world;
    void *none;
    world_open(&world, (struct world_options){.capacity_bytes = 3 * MIB, .host_budget_bytes = MIB});
    struct weir_item kept = offload(&world, 2 * MIB, 1); /* host memory is too small for it, then as now */
    assert_int_equal(engine_stats(&world).kept, 1);
    assert_int_equal(weir_pool_alloc(world.pool, 2 * MIB, world.other, &none), WEIR_OUT_OF_MEMORY);
    assert_int_equal(pool_stats(&world).out_of_memory, 1);
    assert_int_equal(engine_stats(&world).moved_late, 0);
    fetch_and_check(&world, kept, 2 * MIB, 1);
    assert_int_equal(engine_stats(&world).forwarded, 1);
    world_close(&world);
}

static void an_engine_that_is_gone_is_asked_no_more(void **state) {
    (void)state;
    struct world world;
    void *none;
    world_open(&world, (struct world_options){.capacity_bytes = 3 * MIB});
    weir_offload_destroy(world.engine);
    world.engine = NULL;
    assert_null(world.pool->reclaims.first);
    void *block = device_block(&world, 2 * MIB, world.compute);
    assert_int_equal(weir_pool_alloc(world.pool, 2 * MIB, world.other, &none), WEIR_OUT_OF_MEMORY);
    assert_ok(weir_pool_free(world.pool, block, world.compute));
    world_close(&world);
}

/* ---- while another thread fetches ------------------------------------------------------------------------------------ */

/* The driver as the engine's give-up sees it: its first wait for an event does not return before the owner of the item has looked at
 * it twice, or has its answer. */
static const struct weir__driver *real;
static struct weir__driver slow;
static unsigned waits, pauses;
static bool answered;

static CUresult slow_wait(CUstream stream, CUevent event, unsigned flags) {
    if (__atomic_fetch_add(&waits, 1, __ATOMIC_SEQ_CST) == 0)
        while (__atomic_load_n(&pauses, __ATOMIC_SEQ_CST) < 2 && !__atomic_load_n(&answered, __ATOMIC_SEQ_CST))
            sched_yield();
    return real->stream_wait(stream, event, flags);
}

static CUresult counted_pause(uint64_t ns) {
    __atomic_add_fetch(&pauses, 1, __ATOMIC_SEQ_CST);
    return real->emu_pause(ns);
}

static void *take_all(void *argument) {
    struct world *world = argument;
    void *block = NULL;
    const enum weir_status status = weir_pool_alloc(world->pool, 2 * MIB, world->other, &block);
    assert_true(status == WEIR_OK || status == WEIR_OUT_OF_MEMORY);
    return block;
}

/* An item that the engine is giving up is not "in use by another call" for its owner. */
static void an_item_is_its_owners_whatever_the_engine_gives_up(void **state) {
    (void)state;
    struct world world;
    pthread_t thread;
    void *taken, *block;
    world_open(&world, (struct world_options){.capacity_bytes = 3 * MIB});
    const struct weir_item item = offload(&world, 2 * MIB, 1);
    assert_ok(weir_offload_prefetch(world.engine, item, world.compute));
    assert_ok(weir_device_synchronize(world.device));
    real = world.device->driver;
    slow = *real;
    slow.stream_wait = slow_wait;
    slow.emu_pause = counted_pause;
    waits = pauses = 0;
    world.device->driver = &slow;
    assert_int_equal(pthread_create(&thread, NULL, take_all, &world), 0);
    while (__atomic_load_n(&waits, __ATOMIC_SEQ_CST) == 0) sched_yield();
    const enum weir_status status = weir_offload_fetch(world.engine, item, world.compute, &block);
    __atomic_store_n(&answered, true, __ATOMIC_SEQ_CST);
    assert_int_equal(pthread_join(thread, &taken), 0);
    world.device->driver = real;
    /* Once it is given up, whoever comes first has its memory. The item is there in any case. */
    assert_int_equal(status, taken != NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK);
    if (taken != NULL) {
        assert_ok(weir_pool_free(world.pool, taken, world.other));
        fetch_and_check(&world, item, 2 * MIB, 1);
    } else {
        assert_pattern(&world, block, 2 * MIB, 1, world.compute);
        assert_ok(weir_pool_free(world.pool, block, world.compute));
    }
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        gated_test(as_many_prefetches_go_as_are_needed_the_latest_first),
        gated_test(a_prefetch_takes_nothing_from_another),
        gated_test(what_is_fetched_now_goes_before_what_was_prefetched),
        gated_test(where_the_engine_has_nothing_to_give_the_request_is_refused),
        gated_test(an_engine_that_is_gone_is_asked_no_more),
        gated_test(an_item_is_its_owners_whatever_the_engine_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
