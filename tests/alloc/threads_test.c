/* SPDX-License-Identifier: Apache-2.0 */
/* Promise 6: any call may come from any thread. Four threads run freely on six streams, two of which they share; each
 * destroys its own now and then and makes it anew. One pool with little memory, patterns that queued work writes and checks,
 * a fifth thread that walks; blocks are also freed by other threads than their own, after events, on other streams, and
 * inside host functions. */
#include <pthread.h>
#include <stdlib.h>

#include "support.h"
#include "tests/sanitized.h"

enum { STEPS = SANITIZED ? 1000 : 2000 };
enum { THREADS = 4, STREAMS = 3, OWN = 0, BLOCKS = 16 }; /* of a thread: its own stream, then the two that all share */

struct block {
    void *at;
    size_t bytes;
    int stream; /* of the thread's */
    unsigned char value;
};

struct shared {
    struct weir_pool *pool;
    weir_stream streams[STREAMS]; /* but OWN */
    pthread_mutex_t lock;
    struct block handed; /* from one thread to the next: freed by whom it reaches; on a stream that all have */
    bool over;
    unsigned broken, failed;
};

struct worker {
    struct shared *shared;
    weir_stream streams[STREAMS];
    weir_event event;
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

static size_t below(struct worker *worker, size_t limit) { return (size_t)(draw(&worker->chance) % limit); }

static void expect(struct worker *worker, enum weir_status status, enum weir_status also) {
    if (status == WEIR_OK || status == also) return;
    print_error("%s: %s\n", weir_status_name(status), weir_last_error()->message);
    __atomic_fetch_add(&worker->shared->failed, 1, __ATOMIC_RELAXED);
}

static void allocate(struct worker *worker, struct block *block) {
    block->bytes = below(worker, 40) == 0 ? 0 : 1 + below(worker, 6 * PAGE);
    block->value = (unsigned char)(1 + below(worker, 255));
    block->stream = (int)below(worker, STREAMS);
    weir_stream stream = worker->streams[block->stream];
    expect(worker, weir_pool_alloc(worker->shared->pool, block->bytes, stream, &block->at), WEIR_OUT_OF_MEMORY);
    if (block->at != NULL && block->bytes > 0) queue_fill(stream, block->at, block->bytes, block->value);
}

/* What is queued on `to` later runs after what is queued on `from` now. */
static void order(struct worker *worker, int from, int to) {
    if (from == to) return;
    OK(weir_event_record(test_device(), worker->event, worker->streams[from]));
    OK(weir_stream_wait(test_device(), worker->streams[to], worker->event));
}

static void read_elsewhere(struct worker *worker, struct block *block) {
    const int other = (int)below(worker, STREAMS);
    order(worker, block->stream, other);
    expect(worker, weir_pool_note(worker->shared->pool, block->at, worker->streams[other]), WEIR_OK);
    queue_check(worker->streams[other], block->at, block->bytes, block->value);
}

static void free_late(struct worker *worker, const struct block *block) {
    struct late_free late = {worker->shared->pool, block->at, worker->streams[block->stream]};
    struct weir_work work = {
        .name = "late free", .run = free_in_host_function, .argument = &late, .argument_bytes = sizeof late};
    OK(weir_device_submit(test_device(), &work, late.stream));
}

static void free_after(struct worker *worker, const struct block *block) {
    OK(weir_event_record(test_device(), worker->event, worker->streams[block->stream]));
    expect(worker, weir_pool_free_after(worker->shared->pool, block->at, worker->event), WEIR_OK);
}

static void give_back(struct worker *worker, struct block *block) {
    int on = block->stream;
    const size_t way = below(worker, 8);
    queue_check(worker->streams[on], block->at, block->bytes, block->value);
    if (way == 0) on = (int)below(worker, STREAMS);
    order(worker, block->stream, on);
    if (way < 3 && way > 0)
        free_late(worker, block);
    else if (way == 3)
        free_after(worker, block);
    else
        expect(worker, weir_pool_free(worker->shared->pool, block->at, worker->streams[on]), WEIR_OK);
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

/* A free in a host function must not name a stream that is gone, so those are waited for. */
static void replace_stream(struct worker *worker) {
    for (int i = 0; i < BLOCKS; i++)
        if (worker->blocks[i].at != NULL && worker->blocks[i].stream == OWN) give_back(worker, &worker->blocks[i]);
    OK(weir_stream_synchronize(test_device(), worker->streams[OWN]));
    OK(weir_stream_destroy(test_device(), worker->streams[OWN]));
    worker->streams[OWN] = new_stream();
}

static void step(struct worker *worker) {
    struct block *block = &worker->blocks[below(worker, BLOCKS)];
    if (below(worker, 200) == 0) replace_stream(worker);
    if (block->at == NULL)
        allocate(worker, block);
    else if (below(worker, 4) == 0)
        read_elsewhere(worker, block);
    else if (block->stream != OWN && below(worker, 2) == 0)
        hand_on(worker, block);
    else
        give_back(worker, block);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    OK(weir_event_create(test_device(), false, &worker->event));
    for (int i = 0; i < STEPS; i++) step(worker);
    for (int i = 0; i < BLOCKS; i++)
        if (worker->blocks[i].at != NULL) give_back(worker, &worker->blocks[i]);
    OK(weir_event_destroy(test_device(), worker->event));
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
    for (int i = OWN + 1; i < STREAMS; i++) shared.streams[i] = new_stream();
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = &shared, .chance = seed + (uint64_t)i * 2};
        for (int j = 0; j < STREAMS; j++) workers[i].streams[j] = j == OWN ? new_stream() : shared.streams[j];
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    assert_int_equal(pthread_create(&walker, NULL, walk, &shared), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    __atomic_store_n(&shared.over, true, __ATOMIC_RELEASE);
    pthread_join(walker, NULL);
    if (shared.handed.at != NULL)
        OK(weir_pool_free(shared.pool, shared.handed.at, shared.streams[shared.handed.stream]));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(shared.broken, 0);
    assert_int_equal(shared.failed, 0);
    assert_int_equal(wrong_bytes(), 0);
    assert_int_equal(stats_of(shared.pool).live_bytes, 0);
    close_pool(shared.pool);
    for (int i = 0; i < THREADS; i++) OK(weir_stream_destroy(test_device(), workers[i].streams[OWN]));
    for (int i = OWN + 1; i < STREAMS; i++) OK(weir_stream_destroy(test_device(), shared.streams[i]));
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
