/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/alloc/cases/scene.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

struct weir_pool *open_impatient_case(enum weir_policy policy, size_t bytes, uint64_t wait_limit_ns) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options,
                                        .policy = policy,
                                        .limit_bytes = bytes,
                                        .wait_limit_ns = wait_limit_ns,
                                        .trace_path = ""};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

struct weir_pool *open_case(enum weir_policy policy, size_t bytes) {
    return open_impatient_case(policy, bytes, 20000000000u);
}

static void with_pool(enum weir_policy policy, size_t bytes, void (*body)(struct weir_pool *pool)) {
    struct weir_pool *pool = open_case(policy, bytes);
    body(pool);
    assert_int_equal(wrong_bytes(), 0);
    close_pool(pool);
}

void with_shared_pools(size_t bytes, void (*body)(struct weir_pool *pool)) {
    with_pool(WEIR_POLICY_LATENCY, bytes, body);
    with_pool(WEIR_POLICY_FOOTPRINT, bytes, body);
}

void with_every_pool(size_t bytes, void (*body)(struct weir_pool *pool)) {
    with_shared_pools(bytes, body);
    with_pool(WEIR_POLICY_PER_STREAM, bytes, body);
}

/* ---- the opener ------------------------------------------------------------------------------------------------- */

struct opener {
    struct weir_pool *pool;
    struct gate *gate;
    pthread_t thread;
    uint64_t waits; /* before it began */
    bool done;      /* nobody waits any more */
    bool waited;
};

static uint64_t waits_of(struct weir_pool *pool) {
    const struct weir_pool_stats stats = stats_of(pool);
    return stats.host_waits + stats.device_waits;
}

static void *open_when_told(void *argument) {
    struct opener *opener = argument;
    while (!opener->waited && !__atomic_load_n(&opener->done, __ATOMIC_ACQUIRE)) {
        opener->waited = waits_of(opener->pool) > opener->waits;
        sched_yield();
    }
    open_gate(opener->gate);
    return NULL;
}

struct opener *open_once_it_waits(struct weir_pool *pool, struct gate *gate) {
    struct opener *opener = calloc(1, sizeof *opener);
    assert_non_null(opener);
    opener->pool = pool;
    opener->gate = gate;
    opener->waits = waits_of(pool);
    assert_int_equal(pthread_create(&opener->thread, NULL, open_when_told, opener), 0);
    return opener;
}

bool join_opener(struct opener *opener) {
    __atomic_store_n(&opener->done, true, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(opener->thread, NULL), 0);
    const bool waited = waits_of(opener->pool) > opener->waits;
    free(opener);
    return waited;
}

/* ---- askers ----------------------------------------------------------------------------------------------------- */

struct asker {
    struct weir_pool *pool;
    size_t bytes;
    weir_stream stream;
    pthread_t thread;
    void *block;
    enum weir_status status;
    bool answered;
};

static void *ask(void *argument) {
    struct asker *asker = argument;
    asker->status = asker->stream == NULL ? weir_pool_alloc_any(asker->pool, asker->bytes, &asker->block)
                                          : weir_pool_alloc(asker->pool, asker->bytes, asker->stream, &asker->block);
    __atomic_store_n(&asker->answered, true, __ATOMIC_RELEASE);
    return NULL;
}

bool is_answered(struct asker *asker) { return __atomic_load_n(&asker->answered, __ATOMIC_ACQUIRE); }

static unsigned askers_asleep(struct weir_pool *pool) {
    unsigned asleep = 0;
    weir__pool_lock(pool);
    for (const struct weir__waiter *waiter = pool->waiters.oldest; waiter != NULL; waiter = waiter->younger)
        asleep += waiter->asleep;
    weir__pool_unlock(pool);
    return asleep;
}

struct asker *begin_asking(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    struct asker *asker = calloc(1, sizeof *asker);
    assert_non_null(asker);
    *asker = (struct asker){.pool = pool, .bytes = bytes, .stream = stream};
    assert_int_equal(pthread_create(&asker->thread, NULL, ask, asker), 0);
    return asker;
}

struct asker *start_asking(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    const unsigned asleep = askers_asleep(pool);
    struct asker *asker = begin_asking(pool, bytes, stream);
    while (askers_asleep(pool) == asleep) assert_false(is_answered(asker));
    return asker;
}

void await_one(struct asker *first, struct asker *second) {
    while (!is_answered(first) && !is_answered(second)) sched_yield();
}

bool lies_in(struct asker *asker, const void *start, size_t bytes) {
    return is_answered(asker) && (uintptr_t)asker->block >= (uintptr_t)start &&
           (uintptr_t)asker->block < (uintptr_t)start + bytes;
}

enum weir_status join_asker(struct asker *asker, void **block) {
    assert_int_equal(pthread_join(asker->thread, NULL), 0);
    const enum weir_status status = asker->status;
    *block = asker->block;
    free(asker);
    return status;
}

void expect_served(struct asker *asker) {
    struct weir_pool *pool = asker->pool;
    const weir_stream named = asker->stream, stream = named != NULL ? named : new_stream();
    const size_t bytes = asker->bytes;
    void *block;
    OK(join_asker(asker, &block));
    queue_fill(stream, block, bytes, 0xBB);
    queue_check(stream, block, bytes, 0xBB);
    OK(weir_stream_synchronize(test_device(), stream));
    OK(weir_pool_free(pool, block, stream));
    if (named == NULL) OK(weir_stream_destroy(test_device(), stream));
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

void assert_same_state(const struct weir_pool_stats *before, const struct weir_pool_stats *after) {
    assert_int_equal(before->live_bytes, after->live_bytes);
    assert_int_equal(before->requested_bytes, after->requested_bytes);
    assert_int_equal(before->live_blocks, after->live_blocks);
    assert_int_equal(before->held_bytes, after->held_bytes);
    assert_int_equal(before->idle_bytes, after->idle_bytes);
    assert_int_equal(before->moving_bytes, after->moving_bytes);
    assert_int_equal(before->unmapped_bytes, after->unmapped_bytes);
    assert_int_equal(before->limit_bytes, after->limit_bytes);
    assert_int_equal(before->allocs, after->allocs);
    assert_int_equal(before->frees, after->frees);
}

void expect_refused(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    struct weir_pool_stats before = stats_of(pool);
    void *none = pool;
    assert_int_equal(weir_pool_alloc(pool, bytes, stream, &none), WEIR_OUT_OF_MEMORY);
    assert_null(none);
    struct weir_pool_stats after = stats_of(pool);
    assert_same_state(&before, &after);
    assert_int_equal(after.out_of_memory, before.out_of_memory + 1);
    OK(weir_pool_check(pool));
}
