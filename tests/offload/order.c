/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's order promises, each with the work it depends on held back by a gate. The program `mutations` runs these
 * tests with one order of offload/order.h taken out at a time, and expects a failure. */
#include "device/device.h"
#include "world.h"

enum { BLOCK = 4 << 20 };

/* A pool that holds one block of BLOCK bytes, so that the next block must use the same memory. */
static const struct world_options one_block = {.capacity_bytes = BLOCK + BLOCK / 2};

static struct weir_item offload(struct world *world, void *block, weir_stream stream) {
    struct weir_item item;
    assert_ok(weir_offload_out(world->engine, block, BLOCK, stream, &item));
    return item;
}

static void *fetch(struct world *world, struct weir_item item, weir_stream stream) {
    void *block;
    assert_ok(weir_offload_fetch(world->engine, item, stream, &block));
    return block;
}

static void free_on(struct world *world, void *block, weir_stream stream) {
    assert_ok(weir_pool_free(world->pool, block, stream));
}

static void the_copy_out_starts_after_what_the_callers_stream_has_queued(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    const weir_stream callers[] = {world.compute, world.other, world.compute};
    for (uint64_t step = 0; step < 3; step++) {
        weir_stream caller = callers[step];
        void *block = device_block(&world, BLOCK, caller);
        struct gate *gate = gate_close(&world, caller);
        fill_on(&world, block, BLOCK, step, caller);
        struct weir_item item = offload(&world, block, caller);
        assert_held_back(&world, world.to_host);
        gate_open(gate);
        block = fetch(&world, item, caller);
        assert_pattern(&world, block, BLOCK, step, caller);
        free_on(&world, block, caller);
    }
    world_close(&world);
}

static void a_device_block_is_not_reused_before_its_copy_out_has_passed(void **state) {
    (void)state;
    struct world world;
    world_open(&world, one_block);
    const weir_stream callers[] = {world.compute, world.other, world.compute};
    for (uint64_t step = 0; step < 3; step++) {
        weir_stream caller = callers[step];
        void *block = device_block(&world, BLOCK, caller);
        fill_on(&world, block, BLOCK, step, caller);
        struct gate *gate = gate_close(&world, world.to_host);
        struct weir_item item = offload(&world, block, caller);
        void *next = device_block(&world, BLOCK, caller);
        fill_on(&world, next, BLOCK, 1000 + step, caller);
        assert_held_back(&world, caller);
        gate_open(gate);
        assert_pattern(&world, next, BLOCK, 1000 + step, caller);
        free_on(&world, next, caller);
        block = fetch(&world, item, caller);
        assert_pattern(&world, block, BLOCK, step, caller);
        free_on(&world, block, caller);
    }
    world_close(&world);
}

static void a_fetch_right_after_the_offload_waits_for_the_copy_out(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 7, world.compute);
    struct gate *gate = gate_close(&world, world.to_host);
    struct weir_item item = offload(&world, block, world.compute);
    block = fetch(&world, item, world.other);
    struct device_read *read = read_on(&world, block, BLOCK, world.other);
    assert_held_back(&world, world.to_device);
    gate_open(gate);
    check_read(&world, read, 7);
    free_on(&world, block, world.other);
    world_close(&world);
}

static void the_consumer_waits_for_the_copy_in(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 8, world.compute);
    struct weir_item item = offload(&world, block, world.compute);
    assert_ok(weir_stream_synchronize(world.device, world.to_host));
    struct gate *gate = gate_close(&world, world.to_device);
    assert_ok(weir_offload_prefetch(world.engine, item, world.compute));
    block = fetch(&world, item, world.other); /* on another stream than the prefetch */
    struct device_read *read = read_on(&world, block, BLOCK, world.other);
    assert_held_back(&world, world.other);
    gate_open(gate);
    check_read(&world, read, 8);
    free_on(&world, block, world.other);
    world_close(&world);
}

static void the_copy_in_waits_until_the_consumers_stream_has_left_the_block(void **state) {
    (void)state;
    struct world world;
    world_open(&world, one_block);
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 9, world.compute);
    struct weir_item item = offload(&world, block, world.compute);
    assert_ok(weir_device_synchronize(world.device));

    void *before = device_block(&world, BLOCK, world.other);
    fill_on(&world, before, BLOCK, 10, world.other);
    struct gate *gate = gate_close(&world, world.other);
    struct device_read *read = read_on(&world, before, BLOCK, world.other);
    free_on(&world, before, world.other);
    block = fetch(&world, item, world.other); /* the same memory, free in the order of that stream */
    assert_held_back(&world, world.to_device);
    gate_open(gate);
    check_read(&world, read, 10);
    assert_pattern(&world, block, BLOCK, 9, world.other);
    free_on(&world, block, world.other);
    world_close(&world);
}

static void a_host_block_is_not_written_again_before_the_copy_in_has_read_it(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.host_budget_bytes = BLOCK});
    void *first = device_block(&world, BLOCK, world.compute);
    void *second = device_block(&world, BLOCK, world.compute);
    fill_on(&world, first, BLOCK, 11, world.compute);
    fill_on(&world, second, BLOCK, 12, world.compute);
    struct weir_item item = offload(&world, first, world.compute);
    assert_ok(weir_stream_synchronize(world.device, world.to_host));
    struct gate *gate = gate_close(&world, world.to_device);
    first = fetch(&world, item, world.compute);
    struct device_read *read = read_on(&world, first, BLOCK, world.compute);
    item = offload(&world, second, world.other); /* the only host block, that the copy in has yet to read */
    assert_int_equal(engine_stats(&world).kept, 0);
    assert_held_back(&world, world.to_host);
    gate_open(gate);
    check_read(&world, read, 11);
    second = fetch(&world, item, world.other);
    assert_pattern(&world, second, BLOCK, 12, world.other);
    free_on(&world, first, world.compute);
    free_on(&world, second, world.other);
    world_close(&world);
}

static void the_consumer_of_an_item_that_stayed_on_the_device_waits_for_its_producer(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.host_budget_bytes = BLOCK / 2});
    void *block = device_block(&world, BLOCK, world.compute);
    struct gate *gate = gate_close(&world, world.compute);
    fill_on(&world, block, BLOCK, 13, world.compute);
    struct weir_item item = offload(&world, block, world.compute);
    assert_int_equal(engine_stats(&world).kept, 1);
    void *back = fetch(&world, item, world.other);
    assert_ptr_equal(back, block);
    struct device_read *read = read_on(&world, back, BLOCK, world.other);
    assert_held_back(&world, world.other);
    gate_open(gate);
    check_read(&world, read, 13);
    free_on(&world, back, world.other);
    world_close(&world);
}

static void a_program_is_not_given_a_host_block_that_a_copy_still_reads(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.host_budget_bytes = 2 * BLOCK});
    const size_t part = BLOCK / 4;
    void *device = device_block(&world, part, world.compute);
    void *host;
    void *next;
    void *third;
    assert_ok(weir_host_pool_alloc(world.host, BLOCK, &host));
    char *inside = (char *)host + part;
    fill_host(inside, part, 14);
    struct gate *gate = gate_close(&world, world.compute);
    assert_ok(weir_copy(world.device, device, inside, part, world.compute)); /* from an inner address */
    struct device_read *read = read_on(&world, device, part, world.compute);
    assert_ok(weir_host_pool_free_on(world.host, host, world.compute));

    assert_ok(weir_host_pool_alloc(world.host, BLOCK, &next));
    assert_ptr_not_equal(next, host);
    fill_host(next, BLOCK, 15);
    assert_int_equal(weir_host_pool_alloc(world.host, BLOCK, &third), WEIR_OUT_OF_HOST_MEMORY);
    gate_open(gate);
    check_read(&world, read, 14);
    assert_ok(weir_host_pool_alloc(world.host, BLOCK, &third)); /* the copy has passed */
    assert_ptr_equal(third, host);
    weir_host_pool_free(world.host, next);
    weir_host_pool_free(world.host, third);
    free_on(&world, device, world.compute);
    world_close(&world);
}

static const struct weir__driver *real;
static struct weir__driver failing;
static int good_records; /* the record after so many fails, once */

static CUresult failing_record(CUevent event, CUstream stream) {
    return good_records-- == 0 ? CUDA_ERROR_OUT_OF_MEMORY : real->event_record(event, stream);
}

/* That one and all later ones. */
static CUresult broken_record(CUevent event, CUstream stream) {
    return good_records-- <= 0 ? CUDA_ERROR_OUT_OF_MEMORY : real->event_record(event, stream);
}

/* One record is good: of the caller's position; not that of the end of the copy. */
static void fail_records(struct world *world, CUresult (*record)(CUevent, CUstream)) {
    real = world->device->driver;
    failing = *real;
    failing.event_record = record;
    good_records = 1;
    world->device->driver = &failing;
}

static void the_owner_of_a_block_that_failed_to_move_out_waits_for_what_was_queued(void **state) {
    (void)state;
    struct world world;
    struct weir_item item;
    world_open(&world, (struct world_options){0});
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 1, world.compute);
    struct gate *gate = gate_close(&world, world.to_host);
    fail_records(&world, failing_record);
    enum weir_status status = weir_offload_out(world.engine, block, BLOCK, world.compute, &item);
    world.device->driver = real;
    assert_int_equal(status, WEIR_DRIVER);
    assert_held_back(&world, world.compute); /* the block is its own again, but a copy still reads it */
    gate_open(gate);
    free_on(&world, block, world.compute);
    world_close(&world);
}

static void the_host_waits_for_what_was_queued_of_a_block_that_failed_to_move_out(void **state) {
    (void)state;
    struct world world;
    struct weir_item item;
    world_open(&world, (struct world_options){0});
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 1, world.compute);
    be_busy_if_lucky(&world, world.to_host);
    fail_records(&world, broken_record);
    enum weir_status status = weir_offload_out(world.engine, block, BLOCK, world.compute, &item);
    world.device->driver = real;
    assert_int_equal(status, WEIR_DRIVER);
    fill_on(&world, block, BLOCK, 2, world.compute);
    free_on(&world, block, world.compute);
    world_close(&world);
}

/* The item is on the host; its copy back in is queued, and then the fetch fails. */
static struct weir_item fail_to_fetch(struct world *world, CUresult (*record)(CUevent, CUstream), struct gate **gate) {
    void *block = device_block(world, BLOCK, world->compute);
    fill_on(world, block, BLOCK, 16, world->compute);
    struct weir_item item = offload(world, block, world->compute);
    assert_ok(weir_device_synchronize(world->device));
    if (gate != NULL)
        *gate = gate_close(world, world->to_device);
    else
        be_busy_if_lucky(world, world->to_device);
    fail_records(world, record);
    enum weir_status status = weir_offload_fetch(world->engine, item, world->other, &block);
    world->device->driver = real;
    assert_int_equal(status, WEIR_DRIVER);
    return item;
}

static void fetch_again(struct world *world, struct weir_item item) {
    void *block = fetch(world, item, world->other);
    assert_pattern(world, block, BLOCK, 16, world->other);
    free_on(world, block, world->other);
}

static void a_block_that_failed_to_come_in_is_not_reused_before_what_was_queued(void **state) {
    (void)state;
    struct world world;
    struct gate *gate;
    world_open(&world, one_block);
    struct weir_item item = fail_to_fetch(&world, failing_record, &gate);
    void *next = device_block(&world, BLOCK, world.other);
    fill_on(&world, next, BLOCK, 17, world.other);
    assert_held_back(&world, world.other);
    gate_open(gate);
    assert_pattern(&world, next, BLOCK, 17, world.other);
    free_on(&world, next, world.other);
    fetch_again(&world, item);
    world_close(&world);
}

static void the_host_waits_for_what_was_queued_of_a_block_that_failed_to_come_in(void **state) {
    (void)state;
    struct world world;
    world_open(&world, one_block);
    struct weir_item item = fail_to_fetch(&world, broken_record, NULL);
    void *next = device_block(&world, BLOCK, world.other);
    fill_on(&world, next, BLOCK, 17, world.other);
    assert_pattern(&world, next, BLOCK, 17, world.other);
    free_on(&world, next, world.other);
    fetch_again(&world, item);
    world_close(&world);
}

static void the_block_of_a_released_item_is_not_reused_before_its_copy_in_has_passed(void **state) {
    (void)state;
    struct world world;
    world_open(&world, one_block);
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 18, world.compute);
    struct weir_item item = offload(&world, block, world.compute);
    assert_ok(weir_device_synchronize(world.device));
    struct gate *gate = gate_close(&world, world.to_device);
    assert_ok(weir_offload_prefetch(world.engine, item, world.compute));
    assert_ok(weir_offload_release(world.engine, item));
    void *next = device_block(&world, BLOCK, world.other);
    fill_on(&world, next, BLOCK, 19, world.other);
    assert_held_back(&world, world.other);
    gate_open(gate);
    assert_pattern(&world, next, BLOCK, 19, world.other);
    free_on(&world, next, world.other);
    world_close(&world);
}

static void the_block_of_a_released_item_that_stayed_on_the_device_is_not_reused_before_its_producer(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){.capacity_bytes = BLOCK + BLOCK / 2, .host_budget_bytes = BLOCK / 2});
    void *block = device_block(&world, BLOCK, world.compute);
    struct gate *gate = gate_close(&world, world.compute);
    fill_on(&world, block, BLOCK, 22, world.compute);
    struct weir_item item = offload(&world, block, world.compute);
    assert_int_equal(engine_stats(&world).kept, 1);
    assert_ok(weir_offload_release(world.engine, item));
    void *next = device_block(&world, BLOCK, world.other);
    fill_on(&world, next, BLOCK, 23, world.other);
    assert_held_back(&world, world.other);
    gate_open(gate);
    assert_pattern(&world, next, BLOCK, 23, world.other);
    free_on(&world, next, world.other);
    world_close(&world);
}

/* ---- what the engine gives up when the pool is short ------------------------------------------------------------------- */

static void the_block_of_a_prefetch_that_is_given_up_is_not_reused_before_its_copy_in(void **state) {
    (void)state;
    struct world world;
    world_open(&world, one_block);
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 24, world.compute);
    struct weir_item item = offload(&world, block, world.compute);
    assert_ok(weir_device_synchronize(world.device));
    struct gate *gate = gate_close(&world, world.to_device);
    assert_ok(weir_offload_prefetch(world.engine, item, world.compute));
    void *next = device_block(&world, BLOCK, world.other); /* there is room for one block: the prefetch's goes */
    assert_int_equal(engine_stats(&world).dropped, 1);
    fill_on(&world, next, BLOCK, 25, world.other);
    assert_held_back(&world, world.other);
    gate_open(gate);
    assert_pattern(&world, next, BLOCK, 25, world.other);
    free_on(&world, next, world.other);
    block = fetch(&world, item, world.compute);
    assert_pattern(&world, block, BLOCK, 24, world.compute);
    free_on(&world, block, world.compute);
    world_close(&world);
}

/* An item that stays on the device; then there is host memory for it. */
static struct weir_item keep_one(struct world *world, uint64_t seed) {
    void *host;
    assert_ok(weir_host_pool_alloc(world->host, BLOCK, &host));
    void *block = device_block(world, BLOCK, world->compute);
    fill_on(world, block, BLOCK, seed, world->compute);
    struct weir_item item = offload(world, block, world->compute);
    assert_int_equal(engine_stats(world).kept, 1);
    weir_host_pool_free(world->host, host);
    return item;
}

static const struct world_options one_block_each = {.capacity_bytes = BLOCK + BLOCK / 2,
                                                    .host_budget_bytes = BLOCK + BLOCK / 2};

static void expect_moved(struct world *world, struct weir_item item, void *next, uint64_t seed, uint64_t next_seed) {
    assert_int_equal(engine_stats(world).moved_late, 1);
    assert_pattern(world, next, BLOCK, next_seed, world->other);
    free_on(world, next, world->other);
    void *block = fetch(world, item, world->other);
    assert_pattern(world, block, BLOCK, seed, world->other);
    free_on(world, block, world->other);
}

static void an_item_that_moves_out_late_waits_for_its_producer(void **state) {
    (void)state;
    struct world world;
    world_open(&world, one_block_each);
    struct gate *gate = gate_close(&world, world.compute);
    struct weir_item item = keep_one(&world, 26);
    void *next = device_block(&world, BLOCK, world.other);
    assert_held_back(&world, world.to_host);
    fill_on(&world, next, BLOCK, 27, world.other);
    gate_open(gate);
    expect_moved(&world, item, next, 26, 27);
    world_close(&world);
}

static void the_block_of_an_item_that_moves_out_late_is_not_reused_before_its_copy(void **state) {
    (void)state;
    struct world world;
    world_open(&world, one_block_each);
    struct weir_item item = keep_one(&world, 28);
    struct gate *gate = gate_close(&world, world.to_host);
    void *next = device_block(&world, BLOCK, world.other);
    fill_on(&world, next, BLOCK, 29, world.other);
    assert_held_back(&world, world.other);
    gate_open(gate);
    expect_moved(&world, item, next, 28, 29);
    world_close(&world);
}

static void the_host_waits_for_what_was_queued_of_an_item_that_failed_to_move_out_late(void **state) {
    (void)state;
    struct world world;
    world_open(&world, one_block_each);
    struct weir_item item = keep_one(&world, 30);
    void *next;
    assert_ok(weir_device_synchronize(world.device));
    be_busy_if_lucky(&world, world.to_host);
    fail_records(&world, broken_record);
    good_records = 0;
    enum weir_status status = weir_pool_alloc(world.pool, BLOCK, world.other, &next);
    world.device->driver = real;
    assert_int_equal(status, WEIR_OUT_OF_MEMORY);
    assert_int_equal(engine_stats(&world).moved_late, 0);
    void *block = fetch(&world, item, world.other);
    fill_on(&world, block, BLOCK, 31, world.other);
    free_on(&world, block, world.other);
    world_close(&world);
}

static void destroy_engine_and_host_pool(struct world *world) {
    weir_offload_destroy(world->engine);
    weir_host_pool_destroy(world->host);
    world->engine = NULL;
    world->host = NULL;
}

static void an_engine_leaves_no_copy_out_when_it_is_destroyed(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 20, world.compute);
    be_busy_if_lucky(&world, world.to_host);
    offload(&world, block, world.compute);
    destroy_engine_and_host_pool(&world);
    world_close(&world);
}

static void an_engine_leaves_no_copy_in_when_it_is_destroyed(void **state) {
    (void)state;
    struct world world;
    world_open(&world, (struct world_options){0});
    void *block = device_block(&world, BLOCK, world.compute);
    fill_on(&world, block, BLOCK, 21, world.compute);
    struct weir_item item = offload(&world, block, world.compute);
    assert_ok(weir_device_synchronize(world.device));
    be_busy_if_lucky(&world, world.to_device);
    assert_ok(weir_offload_prefetch(world.engine, item, world.compute));
    destroy_engine_and_host_pool(&world);
    world_close(&world);
}

/* usage: offload_order [TEST] */
int main(int count, char **words) {
    if (count > 1) cmocka_set_test_filter(words[1]);
    const struct CMUnitTest tests[] = {
        gated_test(the_copy_out_starts_after_what_the_callers_stream_has_queued),
        gated_test(a_device_block_is_not_reused_before_its_copy_out_has_passed),
        gated_test(a_fetch_right_after_the_offload_waits_for_the_copy_out),
        gated_test(the_consumer_waits_for_the_copy_in),
        gated_test(the_copy_in_waits_until_the_consumers_stream_has_left_the_block),
        gated_test(a_host_block_is_not_written_again_before_the_copy_in_has_read_it),
        gated_test(the_consumer_of_an_item_that_stayed_on_the_device_waits_for_its_producer),
        gated_test(a_program_is_not_given_a_host_block_that_a_copy_still_reads),
        gated_test(the_owner_of_a_block_that_failed_to_move_out_waits_for_what_was_queued),
        gated_test(the_host_waits_for_what_was_queued_of_a_block_that_failed_to_move_out),
        gated_test(a_block_that_failed_to_come_in_is_not_reused_before_what_was_queued),
        gated_test(the_host_waits_for_what_was_queued_of_a_block_that_failed_to_come_in),
        gated_test(the_block_of_a_released_item_is_not_reused_before_its_copy_in_has_passed),
        gated_test(the_block_of_a_released_item_that_stayed_on_the_device_is_not_reused_before_its_producer),
        gated_test(the_block_of_a_prefetch_that_is_given_up_is_not_reused_before_its_copy_in),
        gated_test(an_item_that_moves_out_late_waits_for_its_producer),
        gated_test(the_block_of_an_item_that_moves_out_late_is_not_reused_before_its_copy),
        gated_test(the_host_waits_for_what_was_queued_of_an_item_that_failed_to_move_out_late),
        gated_test(an_engine_leaves_no_copy_out_when_it_is_destroyed),
        gated_test(an_engine_leaves_no_copy_in_when_it_is_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
