/* SPDX-License-Identifier: Apache-2.0 */
/* Any driver call that an offload or a fetch makes may fail, once: the call says so, the bytes are where they were, and
 * later work succeeds. */
#include "device/device.h"
#include "world.h"

static struct weir__driver table;
static const struct weir__driver *real;
static int calls, fail_at; /* 0: none */

static bool fails(void) { return ++calls == fail_at; }

static CUresult failing_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : real->copy(to, from, bytes, stream);
}

static CUresult failing_record(CUevent event, CUstream stream) {
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : real->event_record(event, stream);
}

static CUresult failing_wait(CUstream stream, CUevent event, unsigned flags) {
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : real->stream_wait(stream, event, flags);
}

static CUresult failing_create(CUevent *event, unsigned flags) {
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : real->event_create(event, flags);
}

static void fail_from_now(struct world *world, int at) {
    calls = 0;
    fail_at = at;
    world->device->driver = at > 0 ? &table : real;
}

/* One offload and fetch in which the nth driver call fails; false when there was no nth call. */
static bool survive(struct world *world, int at, size_t bytes) {
    const uint64_t seed = (uint64_t)at;
    struct weir_item item;
    void *block = device_block(world, bytes, world->compute);
    fill_on(world, block, bytes, seed, world->compute);
    fail_from_now(world, at);
    enum weir_status status = weir_offload_out(world->engine, block, bytes, world->compute, &item);
    weir_stream owner = status == WEIR_OK ? world->other : world->compute;
    if (status == WEIR_OK) {
        block = NULL;
        status = weir_offload_prefetch(world->engine, item, world->other);
        if (status == WEIR_OK) status = weir_offload_fetch(world->engine, item, world->other, &block);
    }
    const bool reached = calls >= at;
    fail_from_now(world, 0);
    if (status != WEIR_OK) assert_int_equal(status, WEIR_DRIVER);
    if (block == NULL) assert_ok(weir_offload_fetch(world->engine, item, world->other, &block));
    assert_pattern(world, block, bytes, seed, owner);
    assert_ok(weir_pool_free(world->pool, block, owner));
    assert_ok(weir_device_synchronize(world->device));
    assert_ok(weir_pool_check(world->pool));
    return reached;
}

static void a_failing_driver_call_loses_nothing(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.slab_bytes = MIB});
    real = world.device->driver;
    table = *real;
    table.copy = failing_copy;
    table.event_record = failing_record;
    table.stream_wait = failing_wait;
    table.event_create = failing_create;
    const size_t bytes = 2 * MIB + 100; /* across registrations: several copies */
    assert_true(survive(&world, 1, bytes));
    int at = 2;
    while (survive(&world, at, bytes)) at++;
    assert_true(at > 10);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_failing_driver_call_loses_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
