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

void with_shared_pools(size_t bytes, void (*body)(struct weir_pool *pool)) {
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT};
    for (int i = 0; i < 2; i++) {
        struct weir_pool *pool = open_case(policies[i], bytes);
        body(pool);
        assert_int_equal(wrong_bytes(), 0);
        close_pool(pool);
    }
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
