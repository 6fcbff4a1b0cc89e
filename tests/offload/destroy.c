/* SPDX-License-Identifier: Apache-2.0 */
/* An engine may be destroyed at any time: it waits for its copies, and what is open then is released. */
#include <pthread.h>
#include <stdatomic.h>

#include "world.h"

struct destroyer {
    struct weir_offload *engine;
    atomic_bool done;
};

static void *destroy(void *argument) {
    struct destroyer *destroyer = argument;
    weir_offload_destroy(destroyer->engine);
    atomic_store(&destroyer->done, true);
    return NULL;
}

static void destroying_waits_for_copies_in_flight(void **state) {
    (void)state;
    struct world world;
    struct weir_item items[3];
    world_open(&world, (struct world_options){.host_budget_bytes = 2 * MIB});
    for (int i = 0; i < 3; i++) { /* one on the way out, one to come back in, one kept */
        void *block = device_block(&world, MIB, world.compute);
        fill_on(&world, block, MIB, 1, world.compute);
        assert_ok(weir_offload_out(world.engine, block, MIB, world.compute, &items[i]));
    }
    struct gate *gate = gate_close(&world, world.to_device);
    assert_ok(weir_offload_prefetch(world.engine, items[1], world.compute));
    struct destroyer destroyer = {.engine = world.engine};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, destroy, &destroyer), 0);
    assert_held_back(&world, world.to_device);
    assert_false(atomic_load(&destroyer.done));
    gate_open(gate);
    pthread_join(thread, NULL);
    world.engine = NULL;
    world_close(&world); /* no block is live, on the device or on the host */
}

static void an_engine_makes_the_streams_that_it_is_not_given(void **state) {
    (void)state;
    struct world world;
    struct weir_offload *engine;
    struct weir_item item;
    world_open(&world, (struct world_options){0});
    assert_ok(weir_offload_create(world.device, world.pool, world.host, NULL, &engine));
    void *block = device_block(&world, MIB, world.compute);
    fill_on(&world, block, MIB, 1, world.compute);
    assert_ok(weir_offload_out(engine, block, MIB, world.compute, &item));
    assert_ok(weir_offload_fetch(engine, item, world.compute, &block));
    assert_pattern(&world, block, MIB, 1, world.compute);
    assert_ok(weir_pool_free(world.pool, block, world.compute));
    weir_offload_destroy(engine);
    weir_offload_destroy(NULL);
    weir_host_pool_destroy(NULL);
    world_close(&world);
}

enum { THREADS = 4, ROUNDS = 40 };

struct user {
    struct world *world;
    weir_stream stream;
    uint64_t number;
};

static void *use(void *argument) {
    const struct user *user = argument;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const size_t bytes = (user->number + 1) * 10000 + round * 64;
        const uint64_t seed = user->number * 1000 + round;
        struct weir_item item;
        void *block = device_block(user->world, bytes, user->stream);
        fill_on(user->world, block, bytes, seed, user->stream);
        assert_ok(weir_offload_out(user->world->engine, block, bytes, user->stream, &item));
        if (round % 2 == 0) assert_ok(weir_offload_prefetch(user->world->engine, item, user->stream));
        assert_ok(weir_offload_fetch(user->world->engine, item, user->stream, &block));
        assert_pattern(user->world, block, bytes, seed, user->stream);
        assert_ok(weir_pool_free(user->world->pool, block, user->stream));
    }
    return NULL;
}

static void several_threads_may_use_one_engine(void **state) {
    (void)state;
    struct world world;
    pthread_t threads[THREADS];
    struct user users[THREADS];
    world_open(&world, (struct world_options){.host_budget_bytes = MIB, .slab_bytes = 64 << 10});
    for (uint64_t i = 0; i < THREADS; i++) {
        users[i] = (struct user){.world = &world, .number = i};
        assert_ok(weir_stream_create(world.device, &users[i].stream));
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_ok(weir_stream_destroy(world.device, users[i].stream));
    }
    assert_int_equal(engine_stats(&world).fetches, THREADS * ROUNDS);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        gated_test(destroying_waits_for_copies_in_flight),
        gated_test(an_engine_makes_the_streams_that_it_is_not_given),
        gated_test(several_threads_may_use_one_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
