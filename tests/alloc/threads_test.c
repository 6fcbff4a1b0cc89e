/* SPDX-License-Identifier: Apache-2.0 */
/* Promise 6: any call may come from any thread. Four threads on streams of their own, one pool with little memory, a
 * fifth that walks; blocks are also freed by other threads than their own, and inside host functions. */
#include <pthread.h>
#include <stdlib.h>

#include "support.h"

#define THREADS 4
#define STEPS   1500
#define BLOCKS  16

struct block {
    void *at;
    size_t bytes;
    weir_stream stream;
    unsigned char value;
};

struct shared {
    struct weir_pool *pool;
    pthread_mutex_t lock;
    struct block handed; /* from one thread to the next: freed by whom it reaches */
    bool over;
    unsigned broken, failed;
};

struct worker {
    struct shared *shared;
    weir_stream stream;
    uint64_t chance;
    struct block blocks[BLOCKS];
};

struct late_free {
    struct weir_pool *pool;
    void *at;
    weir_stream stream;
};

static void free_in_host_function(void *argument) {
    struct late_free *late = argument;
    weir_pool_free(late->pool, late->at, late->stream);
}

static void allocate(struct worker *worker, struct block *block) {
    block->bytes = 1 + draw(&worker->chance) % (6 * PAGE);
    block->value = (unsigned char)(1 + draw(&worker->chance) % 255);
    block->stream = worker->stream;
    enum weir_status status = weir_pool_alloc(worker->shared->pool, block->bytes, worker->stream, &block->at);
    if (status == WEIR_OK)
        queue_fill(worker->stream, block->at, block->bytes, block->value);
    else if (status != WEIR_OUT_OF_MEMORY)
        __atomic_fetch_add(&worker->shared->failed, 1, __ATOMIC_RELAXED);
}

static void give_back(struct worker *worker, struct block *block) {
    queue_check(block->stream, block->at, block->bytes, block->value);
    if (draw(&worker->chance) % 4 == 0) {
        struct late_free late = {worker->shared->pool, block->at, block->stream};
        struct weir_work work = {
            .name = "late free", .run = free_in_host_function, .argument = &late, .argument_bytes = sizeof late};
        OK(weir_device_submit(test_device(), &work, block->stream));
    } else if (weir_pool_free(worker->shared->pool, block->at, block->stream) != WEIR_OK) {
        __atomic_fetch_add(&worker->shared->failed, 1, __ATOMIC_RELAXED);
    }
    block->at = NULL;
}

static void hand_on(struct worker *worker, struct block *block) {
    pthread_mutex_lock(&worker->shared->lock);
    struct block taken = worker->shared->handed;
    worker->shared->handed = *block;
    pthread_mutex_unlock(&worker->shared->lock);
    block->at = NULL;
    if (taken.at != NULL) give_back(worker, &taken);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    for (int i = 0; i < STEPS; i++) {
        struct block *block = &worker->blocks[draw(&worker->chance) % BLOCKS];
        if (block->at == NULL)
            allocate(worker, block);
        else if (draw(&worker->chance) % 3 == 0)
            hand_on(worker, block);
        else
            give_back(worker, block);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (worker->blocks[i].at != NULL) give_back(worker, &worker->blocks[i]);
    return NULL;
}

static void *walk(void *argument) {
    struct shared *shared = argument;
    char text[2048];
    while (!__atomic_load_n(&shared->over, __ATOMIC_ACQUIRE)) {
        if (weir_pool_check(shared->pool) != WEIR_OK) {
            print_error("%s\n", weir_last_error()->message);
            shared->broken++;
        }
        weir_pool_report(shared->pool, text, sizeof text);
        weir_pool_trim(shared->pool, 40 * PAGE);
    }
    return NULL;
}

static void run_threads(enum weir_policy policy, size_t pages) {
    struct shared shared = {.pool = open_pool(policy, pages), .lock = PTHREAD_MUTEX_INITIALIZER};
    struct worker workers[THREADS] = {0};
    pthread_t threads[THREADS], walker;
    uint64_t seed = seed_of(6);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = &shared, .stream = new_stream(), .chance = seed + (uint64_t)i * 2};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    assert_int_equal(pthread_create(&walker, NULL, walk, &shared), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    __atomic_store_n(&shared.over, true, __ATOMIC_RELEASE);
    pthread_join(walker, NULL);
    if (shared.handed.at != NULL) OK(weir_pool_free(shared.pool, shared.handed.at, shared.handed.stream));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(shared.broken, 0);
    assert_int_equal(shared.failed, 0);
    assert_int_equal(wrong_bytes(), 0);
    assert_int_equal(stats_of(shared.pool).live_bytes, 0);
    close_pool(shared.pool);
    for (int i = 0; i < THREADS; i++) OK(weir_stream_destroy(test_device(), workers[i].stream));
}

static void four_threads_share_a_pool(void **state) {
    (void)state;
    run_threads(WEIR_POLICY_LATENCY, 120);
    run_threads(WEIR_POLICY_FOOTPRINT, 120);
}

static void four_threads_share_a_per_stream_pool(void **state) {
    (void)state;
    run_threads(WEIR_POLICY_PER_STREAM, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_threads_share_a_pool),
        cmocka_unit_test(four_threads_share_a_per_stream_pool),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
