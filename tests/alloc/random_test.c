/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs on several streams: no byte is ever wrong, and the walk holds all along, with one pool a stream and less
 * memory than they would like, and where there is more than enough. programs_test and threads_test are about the rest. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define STREAMS 4
#define BLOCKS  48

struct block {
    void *at;
    size_t bytes;
    int stream;
    unsigned char value;
};

struct program {
    struct weir_pool *pool;
    weir_stream streams[STREAMS];
    weir_event event;
    struct block blocks[BLOCKS];
    uint64_t chance;
    size_t largest_bytes;
};

static size_t draw_below(struct program *program, size_t limit) { return (size_t)(draw(&program->chance) % limit); }

/* Sizes of all magnitudes, a few of none. */
static size_t draw_bytes(struct program *program) {
    size_t bytes = (size_t)1 << draw_below(program, 20);
    bytes += draw_below(program, bytes);
    if (draw_below(program, 50) == 0) return 0;
    return bytes < program->largest_bytes ? bytes : draw_below(program, program->largest_bytes);
}

static void allocate(struct program *program, struct block *block) {
    block->bytes = draw_bytes(program);
    block->stream = (int)draw_below(program, STREAMS);
    block->value = (unsigned char)(1 + draw_below(program, 255));
    enum weir_status status = weir_pool_alloc(program->pool, block->bytes, program->streams[block->stream], &block->at);
    if (status == WEIR_OUT_OF_MEMORY) {
        assert_null(block->at);
        return;
    }
    OK(status);
    if (block->bytes > 0) queue_fill(program->streams[block->stream], block->at, block->bytes, block->value);
}

/* Another stream reads the block too, after the fill. */
static void use_elsewhere(struct program *program, struct block *block) {
    weir_stream other = program->streams[draw_below(program, STREAMS)];
    OK(weir_event_record(test_device(), program->event, program->streams[block->stream]));
    OK(weir_stream_wait(test_device(), other, program->event));
    OK(weir_pool_note(program->pool, block->at, other));
    queue_check(other, block->at, block->bytes, block->value);
}

/* On its own stream; on another one that has waited for it; or after an event. */
static void give_back(struct program *program, struct block *block) {
    weir_stream own = program->streams[block->stream], on = own;
    queue_check(own, block->at, block->bytes, block->value);
    size_t way = draw_below(program, 8);
    if (way < 3) OK(weir_event_record(test_device(), program->event, own));
    if (way == 0) {
        on = program->streams[draw_below(program, STREAMS)];
        OK(weir_stream_wait(test_device(), on, program->event));
    }
    if (way == 1)
        OK(weir_pool_free_after(program->pool, block->at, program->event));
    else
        OK(weir_pool_free(program->pool, block->at, on));
    block->at = NULL;
}

static void step(struct program *program) {
    struct block *block = &program->blocks[draw_below(program, BLOCKS)];
    if (block->at == NULL)
        allocate(program, block);
    else if (block->bytes > 0 && draw_below(program, 4) == 0)
        use_elsewhere(program, block);
    else
        give_back(program, block);
    if (draw_below(program, 400) == 0) OK(weir_pool_trim(program->pool, 0));
    if (draw_below(program, 300) == 0) OK(weir_stream_synchronize(test_device(), program->streams[0]));
}

static struct weir_pool_stats run_program(enum weir_policy policy, size_t pages, unsigned steps, uint64_t seed) {
    struct program program = {.pool = open_pool(policy, pages), .chance = seed, .largest_bytes = pages * PAGE / 4};
    for (int i = 0; i < STREAMS; i++) program.streams[i] = new_stream();
    OK(weir_event_create(test_device(), false, &program.event));
    for (unsigned i = 0; i < steps; i++) {
        step(&program);
        if (i % 16 == 0) OK(weir_pool_check(program.pool));
    }
    for (int i = 0; i < BLOCKS; i++)
        if (program.blocks[i].at != NULL) give_back(&program, &program.blocks[i]);
    OK(weir_device_synchronize(test_device()));
    struct weir_pool_stats stats = stats_of(program.pool);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.allocs, stats.frees);
    assert_int_equal(wrong_bytes(), 0);
    OK(weir_pool_trim(program.pool, 0));
    assert_int_equal(stats_of(program.pool).held_bytes, 0);
    close_pool(program.pool);
    OK(weir_event_destroy(test_device(), program.event));
    for (int i = 0; i < STREAMS; i++) OK(weir_stream_destroy(test_device(), program.streams[i]));
    return stats;
}

static void per_stream_keeps_every_byte_and_invariant(void **state) {
    (void)state;
    struct weir_pool_stats stats = run_program(WEIR_POLICY_PER_STREAM, 96, 6000, seed_of(3));
    assert_true(stats.out_of_memory > 0);
}

static void an_ample_device_needs_no_moves(void **state) {
    (void)state;
    struct weir_pool_stats stats = run_program(WEIR_POLICY_LATENCY, 4000, 4000, seed_of(4));
    assert_int_equal(stats.out_of_memory, 0);
    assert_int_equal(stats.host_waits, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(per_stream_keeps_every_byte_and_invariant),
        cmocka_unit_test(an_ample_device_needs_no_moves),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
