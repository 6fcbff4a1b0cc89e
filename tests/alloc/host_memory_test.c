/* SPDX-License-Identifier: Apache-2.0 */
/* When the host has no memory for the pool's own tables, a call fails as if it had not been made, and the order promise
 * holds afterwards. The linker sends the pool's calls of the C allocator through here. */
#include <stdlib.h>

#include "support.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

static long good_calls = -1; /* the call after so many fails, once; below 0: none */

static bool fails(void) { return good_calls >= 0 && good_calls-- == 0; }
void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return fails() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *old, size_t bytes) { return fails() ? NULL : __real_realloc(old, bytes); }

#define BLOCKS 32 /* that the table of blocks has room for before it grows for the first time */

/* A pool with one block less, of no bytes each. */
static struct weir_pool *open_almost_full_table(size_t pages) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, pages);
    for (int i = 0; i < BLOCKS - 1; i++) alloc(pool, 0, NULL);
    return pool;
}

static void a_block_that_has_no_place_in_the_table_keeps_its_order(void **state) {
    (void)state;
    const size_t bytes = (WEIR__FRONT_LARGEST + 1) * PAGE; /* else it would keep its place */
    weir_stream s0 = new_stream(), s1 = new_stream();
    struct weir_pool *pool = open_almost_full_table(bytes / PAGE);
    void *a = alloc(pool, bytes, s1), *b = NULL;
    struct gate *gate = put_gate(s1);
    queue_fill(s1, a, bytes, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    alloc(pool, 0, NULL);
    good_calls = 0;
    assert_int_equal(weir_pool_alloc(pool, bytes, s1, &b), WEIR_OUT_OF_HOST_MEMORY);
    assert_null(b);
    OK(weir_pool_check(pool));
    OK(weir_pool_alloc(pool, bytes, s0, &b)); /* the fill is not done */
    assert_int_equal(stats_of(pool).device_waits, 1);
    queue_fill(s0, b, bytes, 0xBB);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    queue_check(s0, b, bytes, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    close_pool(pool);
}

static void a_block_of_no_bytes_that_has_no_place_in_the_table_is_spare_again(void **state) {
    (void)state;
    struct weir_pool *pool = open_almost_full_table(1);
    void *a = NULL;
    alloc(pool, 0, NULL);
    good_calls = 0;
    assert_int_equal(weir_pool_alloc(pool, 0, NULL, &a), WEIR_OUT_OF_HOST_MEMORY);
    assert_int_equal(stats_of(pool).live_blocks, BLOCKS);
    OK(weir_pool_check(pool));
    OK(weir_pool_free(pool, alloc(pool, 0, NULL), NULL));
    close_pool(pool);
}

/* One page each of two streams in turn, then a request on a third that takes moves: what fails, fails whole. */
static enum weir_status try_moves(struct weir_pool *pool, long good, bool *failed) {
    void *blocks[8], *large = NULL;
    weir_stream streams[3] = {new_stream(), new_stream(), new_stream()};
    for (int i = 0; i < 8; i++) blocks[i] = alloc(pool, PAGE, streams[i % 2]);
    for (int i = 1; i < 8; i += 2) OK(weir_pool_free(pool, blocks[i], streams[1]));
    good_calls = good;
    enum weir_status status = weir_pool_alloc(pool, 4 * PAGE, streams[2], &large);
    *failed = good_calls < 0;
    good_calls = -1;
    OK(weir_pool_check(pool));
    OK(weir_pool_free(pool, large, streams[2]));
    for (int i = 0; i < 8; i += 2) OK(weir_pool_free(pool, blocks[i], streams[0]));
    for (int i = 0; i < 3; i++) OK(weir_stream_destroy(test_device(), streams[i]));
    return status;
}

static void each_failure_of_the_host_allocator_leaves_the_pool_whole(void **state) {
    (void)state;
    bool failed = true;
    for (long good = 0; failed; good++) {
        struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
        enum weir_status status = try_moves(pool, good, &failed);
        assert_true(status == WEIR_OK || (failed && status == WEIR_OUT_OF_HOST_MEMORY));
        assert_int_equal(try_moves(pool, -1, &(bool){false}), WEIR_OK);
        close_pool(pool);
    }
}

/* ---- a program that uses every way -------------------------------------------------------------------------------- */

enum { PAGES = 8, KEPT = 6 };

struct program {
    struct weir_pool *pool;
    weir_stream streams[2];
    weir_event event;
    void *blocks[KEPT];
};

/* What a call of the pool may say when the host has no memory; then nothing has changed, and it is made again. */
static bool done(struct program *program, enum weir_status status) {
    const long good = good_calls;
    good_calls = -1;
    if (status != WEIR_OK && status != WEIR_OUT_OF_HOST_MEMORY)
        fail_msg("%s: %s", weir_status_name(status), weir_last_error()->message);
    OK(weir_pool_check(program->pool));
    good_calls = good;
    return status == WEIR_OK;
}
#define UNTIL_DONE(program, call)                                                                                      \
    while (!done((program), (call))) continue

static void nothing(void *argument) { (void)argument; }

static void take_time(struct program *program, int stream) {
    const struct weir_access none = {0};
    const struct weir_work work = {.name = "time", .run = nothing, .accesses = &none, .flops = 1e9};
    UNTIL_DONE(program, weir_device_submit(test_device(), &work, program->streams[stream]));
}

static void allocate(struct program *program, int block, size_t bytes, int stream) {
    void **at = &program->blocks[block];
    UNTIL_DONE(program, weir_pool_alloc(program->pool, bytes, program->streams[stream], at));
}

static void give_back(struct program *program, int block, int stream) {
    UNTIL_DONE(program, weir_pool_free(program->pool, program->blocks[block], program->streams[stream]));
    program->blocks[block] = NULL;
}

static void order(struct program *program, int from, int to) {
    UNTIL_DONE(program, weir_event_record(test_device(), program->event, program->streams[from]));
    UNTIL_DONE(program, weir_stream_wait(test_device(), program->streams[to], program->event));
}

/* The other one goes on after all that it has done. */
static void replace_stream(struct program *program, int stream) {
    order(program, stream, 1 - stream);
    UNTIL_DONE(program, weir_stream_destroy(test_device(), program->streams[stream]));
    UNTIL_DONE(program, weir_stream_create(test_device(), &program->streams[stream]));
}

static void use_everything(struct program *program) {
    for (int i = 0; i < 4; i++) allocate(program, i, PAGE, i % 2); /* a page each of two streams, in turn */
    order(program, 0, 1);
    UNTIL_DONE(program, weir_pool_note(program->pool, program->blocks[0], program->streams[1]));
    take_time(program, 1);
    give_back(program, 1, 1);
    UNTIL_DONE(program, weir_event_record(test_device(), program->event, program->streams[1]));
    UNTIL_DONE(program, weir_pool_free_after(program->pool, program->blocks[3], program->event));
    allocate(program, 4, 5 * PAGE, 0); /* new pages, and moved ones */
    allocate(program, 5, 0, 1);
    give_back(program, 0, 0);
    give_back(program, 5, 1);
    take_time(program, 0);
    give_back(program, 4, 0);
    allocate(program, 0, 4 * PAGE, 1); /* another stream's */
    replace_stream(program, 1);
    allocate(program, 1, 3 * PAGE, 1); /* the host waits */
    UNTIL_DONE(program, weir_pool_trim(program->pool, 0));
    give_back(program, 2, 0);
    order(program, 0, 1);
    give_back(program, 0, 1);
    give_back(program, 1, 1);
}

/* Gives: whether a call of the host's allocator failed. */
static bool run_with_failure(enum weir_policy policy, bool deterministic, long good) {
    struct program program = {.streams = {new_stream(), new_stream()}};
    const struct weir_pool_options options = {.size = sizeof options,
                                              .policy = policy,
                                              .limit_bytes = (policy == WEIR_POLICY_PER_STREAM ? 64 : PAGES) * PAGE,
                                              .trace_path = "",
                                              .deterministic = deterministic};
    OK(weir_event_create(test_device(), false, &program.event));
    good_calls = good;
    enum weir_status status = weir_pool_create(test_device(), &options, &program.pool);
    if (status == WEIR_OUT_OF_HOST_MEMORY) {
        assert_null(program.pool);
        status = weir_pool_create(test_device(), &options, &program.pool);
    }
    OK(status);
    use_everything(&program);
    const bool failed = good_calls < 0;
    good_calls = -1;
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(stats_of(program.pool).live_blocks, 0);
    if (policy != WEIR_POLICY_PER_STREAM) { /* all of it is there */
        allocate(&program, 0, PAGES * PAGE, 0);
        give_back(&program, 0, 0);
    }
    close_pool(program.pool);
    OK(weir_event_destroy(test_device(), program.event));
    for (int i = 0; i < 2; i++) OK(weir_stream_destroy(test_device(), program.streams[i]));
    return failed;
}

static void each_call_of_the_host_allocator_fails_once(void **state) {
    (void)state;
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
    for (int p = 0; p < 3; p++)
        for (int deterministic = 0; deterministic < 2; deterministic++) {
            long good = 0;
            while (run_with_failure(policies[p], deterministic, good)) good++;
            assert_true(good > 20);
            print_message("%ld calls\n", good);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_has_no_place_in_the_table_keeps_its_order),
        cmocka_unit_test(a_block_of_no_bytes_that_has_no_place_in_the_table_is_spare_again),
        cmocka_unit_test(each_failure_of_the_host_allocator_leaves_the_pool_whole),
        cmocka_unit_test(each_call_of_the_host_allocator_fails_once),
    };
    return cmocka_run_group_tests_name("host_memory", tests, NULL, NULL);
}
