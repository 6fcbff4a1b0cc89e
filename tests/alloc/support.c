/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void check_ok(enum weir_status status, const char *call, const char *file, int line) {
    if (status == WEIR_OK) return;
    print_error("%s gave %s: %s\n", call, weir_status_name(status), weir_last_error()->message);
    _fail(file, line);
}

/* ---- device and pool -------------------------------------------------------------------------------------------- */

static struct weir_device *device;
static void close_device(void) { weir_device_close(device); }

struct weir_device *test_device(void) {
    if (device != NULL) return device;
    struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .emu = "profile:demo"};
    OK(weir_device_open(&options, &device));
    atexit(close_device);
    return device;
}

struct weir_pool *open_pool(enum weir_policy policy, size_t pages) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options,
                                        .policy = policy,
                                        .limit_bytes = pages * PAGE,
                                        .wait_limit_ns = 2000000000u,
                                        .trace_path = ""};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

weir_stream new_stream(void) {
    weir_stream stream = NULL;
    OK(weir_stream_create(test_device(), &stream));
    return stream;
}

void *alloc(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    void *block = NULL;
    OK(weir_pool_alloc(pool, bytes, stream, &block));
    assert_non_null(block);
    return block;
}

struct weir_pool_stats stats_of(struct weir_pool *pool) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    OK(weir_pool_get_stats(pool, &stats));
    return stats;
}

void close_pool(struct weir_pool *pool) {
    OK(weir_pool_check(pool));
    weir_pool_destroy(pool);
}

void finish_pool(struct weir_pool *pool) {
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    close_pool(pool);
}

weir_stream driver_stream(unsigned flags) {
    weir_stream stream = NULL;
    OK(weir__device_enter(test_device()));
    assert_int_equal(test_device()->driver->stream_create(&stream, flags), CUDA_SUCCESS);
    weir__device_leave(test_device());
    return stream;
}

void end_driver_stream(weir_stream stream) {
    OK(weir__device_enter(test_device()));
    assert_int_equal(test_device()->driver->stream_destroy(stream), CUDA_SUCCESS);
    weir__device_leave(test_device());
}

struct halves make_halves(struct weir_pool *pool, weir_stream first, weir_stream second) {
    struct halves halves = {.first = alloc(pool, HALF_BYTES, first), .second = alloc(pool, HALF_BYTES, second)};
    halves.post = alloc(pool, PAGE, first);
    assert_ptr_equal(halves.second, halves.first + HALF_BYTES);
    assert_ptr_equal(halves.post, halves.second + HALF_BYTES);
    return halves;
}

/* ---- gates ------------------------------------------------------------------------------------------------------ */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open, passed;
    struct gate *next; /* of those that nobody has opened */
};

static pthread_mutex_t shut_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gate *shut;

static void remember(struct gate *gate) {
    pthread_mutex_lock(&shut_lock);
    gate->next = shut;
    shut = gate;
    pthread_mutex_unlock(&shut_lock);
}

static void forget(const struct gate *gate) {
    pthread_mutex_lock(&shut_lock);
    struct gate **link = &shut;
    while (*link != gate) link = &(*link)->next;
    *link = gate->next;
    pthread_mutex_unlock(&shut_lock);
}

static void let_pass(struct gate *gate) {
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
}

static void pass_gate(void *argument) {
    struct gate *gate = argument;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open) pthread_cond_wait(&gate->changed, &gate->lock);
    gate->passed = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

struct gate *put_gate(weir_stream stream) {
    struct gate *gate = calloc(1, sizeof *gate);
    assert_non_null(gate);
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
    struct weir_work work = {.name = "gate", .run = pass_gate, .argument = gate};
    OK(weir_device_submit(test_device(), &work, stream));
    remember(gate);
    return gate;
}

/* They are not freed: a thread of the test that failed may be about to open one. */
int open_gates_left_shut(void **state) {
    (void)state;
    pthread_mutex_lock(&shut_lock);
    for (struct gate *gate = shut; gate != NULL; gate = gate->next) {
        pthread_mutex_lock(&gate->lock);
        let_pass(gate);
        pthread_mutex_unlock(&gate->lock);
    }
    pthread_mutex_unlock(&shut_lock);
    return 0;
}

void open_gate(struct gate *gate) {
    forget(gate);
    pthread_mutex_lock(&gate->lock);
    let_pass(gate);
    while (!gate->passed) pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

struct span {
    unsigned char *at;
    size_t bytes;
    unsigned char value;
};

static size_t wrong;
static unsigned fills;

static void run_fill(void *argument) {
    const struct span *span = argument;
    memset(span->at, span->value, span->bytes);
    __atomic_fetch_add(&fills, 1, __ATOMIC_RELEASE);
}

static void run_check(void *argument) {
    const struct span *span = argument;
    size_t found = 0;
    for (size_t i = 0; i < span->bytes; i++) found += span->at[i] != span->value;
    if (found > 0) __atomic_fetch_add(&wrong, found, __ATOMIC_RELAXED);
}

static void queue(weir_stream stream, const char *name, void (*run)(void *), struct span span, bool write) {
    struct weir_access access = {.address = span.at, .bytes = span.bytes, .write = write};
    struct weir_work work = {.name = name,
                             .run = run,
                             .argument = &span,
                             .argument_bytes = sizeof span,
                             .accesses = &access,
                             .access_count = 1,
                             .bytes = (double)span.bytes};
    OK(weir_device_submit(test_device(), &work, stream));
}

void queue_fill(weir_stream stream, void *at, size_t bytes, unsigned char value) {
    queue(stream, "fill", run_fill, (struct span){at, bytes, value}, true);
}

void queue_check(weir_stream stream, const void *at, size_t bytes, unsigned char value) {
    queue(stream, "check", run_check, (struct span){(unsigned char *)(uintptr_t)at, bytes, value}, false);
}

size_t wrong_bytes(void) { return __atomic_load_n(&wrong, __ATOMIC_RELAXED); }
unsigned fills_run(void) { return __atomic_load_n(&fills, __ATOMIC_ACQUIRE); }
bool is_mutant(void) { return getenv("WEIR_MUTATE") != NULL; }

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void let_mutant_run(unsigned wanted) {
    if (!is_mutant()) return;
    uint64_t until_ns = now_ns() + 2000000000u;
    while (fills_run() < wanted && now_ns() < until_ns) sched_yield();
}

void pass_on(struct weir_pool *pool, void *block, size_t bytes, weir_stream stream, struct gate *gate) {
    const unsigned before = fills_run();
    void *next = alloc(pool, bytes, stream);
    assert_ptr_equal(next, block);
    queue_fill(stream, next, bytes, 0xBB);
    let_mutant_run(before + 1);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    queue_check(stream, next, bytes, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
}

/* ---- chance ----------------------------------------------------------------------------------------------------- */

uint64_t seed_of(uint64_t given) {
    const char *text = getenv("WEIR_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : given;
    print_message("seed %llu (WEIR_TEST_SEED sets it)\n", (unsigned long long)seed);
    return seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
}

uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D) >> 16;
}
