/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PINNED_BYTES (96 * MIB)

void assert_ok_at(enum weir_status status, const char *call, const char *file, int line) {
    if (status != WEIR_OK) {
        print_error("%s: %s: %s\n", call, weir_status_name(status), weir_last_error()->message);
        _fail(file, line);
    }
}

/* ---- the world -------------------------------------------------------------------------------------------------- */

void world_open_device(struct world *world, size_t capacity_bytes) {
    *world = (struct world){0};
    const struct weir_device_options device = {
        .size = sizeof device, .machine = "emulated", .emu = "profile:demo,capacity:1G"};
    const struct weir_pool_options pool = {
        .size = sizeof pool, .limit_bytes = capacity_bytes, .wait_limit_ns = 2000000000u};
    assert_ok(weir_device_open(&device, &world->device));
    assert_ok(weir_pool_create(world->device, &pool, &world->pool));
    weir_stream *const streams[] = {&world->compute, &world->other, &world->to_host, &world->to_device};
    for (size_t i = 0; i < 4; i++) assert_ok(weir_stream_create(world->device, streams[i]));
}

void world_open(struct world *world, struct world_options options) {
    world_open_device(world, options.capacity_bytes != 0 ? options.capacity_bytes : 256 * MIB);
    const struct weir_host_pool_options host = {
        .size = sizeof host,
        .budget_bytes = options.host_budget_bytes != 0 ? options.host_budget_bytes : 256 * MIB,
        .slab_bytes = options.slab_bytes,
        .numa_node = -1,
    };
    assert_ok(weir_host_pool_create(world->device, &host, &world->host));
    const struct weir_offload_options engine = {
        .size = sizeof engine, .to_host = world->to_host, .to_device = world->to_device};
    assert_ok(weir_offload_create(world->device, world->pool, world->host, &engine, &world->engine));
}

void world_close(struct world *world) {
    assert_ok(weir_device_synchronize(world->device));
    if (world->engine != NULL) {
        assert_int_equal(engine_stats(world).open_items, 0);
        assert_int_equal(engine_stats(world).host_live_bytes, 0);
        weir_offload_destroy(world->engine);
    }
    assert_ok(weir_pool_check(world->pool));
    assert_int_equal(pool_stats(world).live_bytes, 0);
    if (world->host != NULL) {
        assert_int_equal(host_stats(world).live_bytes, 0);
        weir_host_pool_destroy(world->host);
    }
    weir_pool_destroy(world->pool);
    assert_ok(weir_host_free(world->device, world->pinned));
    const weir_stream streams[] = {world->compute, world->other, world->to_host, world->to_device};
    for (size_t i = 0; i < 4; i++) assert_ok(weir_stream_destroy(world->device, streams[i]));
    weir_device_close(world->device);
}

/* ---- gates ------------------------------------------------------------------------------------------------------ */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open, passed;
    struct gate *next;
};

static struct gate *closed_gates; /* of the test's own thread */

static void stand_at_gate(void *argument) {
    struct gate *gate = argument;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open) pthread_cond_wait(&gate->changed, &gate->lock);
    gate->passed = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* The timing is lucky: nothing is held back, and yet all comes in the right order. */
static bool is_lucky(void) { return getenv("WEIR_TEST_LUCKY") != NULL; }

static void nothing(void *argument) { (void)argument; }

/* Something that takes a while of virtual time, so that the host does not see the end of what is behind it. */
static void be_busy(struct world *world, weir_stream stream) {
    static const struct weir_access none;
    const struct weir_work work = {.name = "busy", .run = nothing, .accesses = &none, .bytes = 1e12};
    assert_ok(weir_device_submit(world->device, &work, stream));
}

void be_busy_if_lucky(struct world *world, weir_stream stream) {
    if (is_lucky()) be_busy(world, stream);
}

struct gate *gate_close(struct world *world, weir_stream stream) {
    struct gate *gate = calloc(1, sizeof *gate);
    assert_non_null(gate);
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
    const struct weir_work work = {.name = "gate", .run = stand_at_gate, .argument = gate};
    gate->passed = is_lucky();
    if (is_lucky())
        be_busy(world, stream);
    else
        assert_ok(weir_device_submit(world->device, &work, stream));
    gate->next = closed_gates;
    closed_gates = gate;
    return gate;
}

void gate_open(struct gate *gate) {
    struct gate **at = &closed_gates;
    while (*at != gate) at = &(*at)->next;
    *at = gate->next;
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->passed) /* nobody may use the gate after it is freed */
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}

int open_all_gates(void **state) {
    (void)state;
    while (closed_gates != NULL) gate_open(closed_gates);
    return 0;
}

void assert_held_back(struct world *world, weir_stream stream) {
    const long pause_ns = 1000000;
    const int tries = getenv("WEIR_MUTATE") != NULL ? 5000 : 20;
    weir_event position;
    if (is_lucky()) return;
    assert_ok(weir_event_create(world->device, false, &position));
    assert_ok(weir_event_record(world->device, position, stream));
    for (int i = 0; i < tries; i++) {
        assert_int_equal(weir_event_query(world->device, position), WEIR_NOT_READY);
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
    }
    assert_ok(weir_event_destroy(world->device, position));
}

/* ---- patterns --------------------------------------------------------------------------------------------------- */

static uint64_t word(uint64_t seed, size_t place) {
    uint64_t x = (seed + 1) * 0x9E3779B97F4A7C15u ^ (uint64_t)place * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 29;
}

void fill_host(void *at, size_t bytes, uint64_t seed) {
    for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
        const uint64_t value = word(seed, done);
        memcpy((char *)at + done, &value, bytes - done < sizeof value ? bytes - done : sizeof value);
    }
}

void assert_host_pattern(const void *at, size_t bytes, uint64_t seed) {
    for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
        const uint64_t value = word(seed, done);
        if (memcmp((const char *)at + done, &value, bytes - done < sizeof value ? bytes - done : sizeof value) != 0)
            fail_msg("byte %zu of %zu is not of pattern %llu", done, bytes, (unsigned long long)seed);
    }
}

void *device_block(struct world *world, size_t bytes, weir_stream stream) {
    void *block;
    assert_ok(weir_pool_alloc(world->pool, bytes, stream, &block));
    return block;
}

struct fill {
    void *block;
    size_t bytes;
    uint64_t seed;
};

static void run_fill(void *argument) {
    const struct fill *fill = argument;
    fill_host(fill->block, fill->bytes, fill->seed);
}

void fill_on(struct world *world, void *block, size_t bytes, uint64_t seed, weir_stream stream) {
    struct fill fill = {.block = block, .bytes = bytes, .seed = seed};
    const struct weir_access access = {.address = block, .bytes = bytes, .write = true};
    const struct weir_work work = {.name = "fill",
                                   .run = run_fill,
                                   .argument = &fill,
                                   .argument_bytes = sizeof fill,
                                   .accesses = &access,
                                   .access_count = 1};
    assert_ok(weir_device_submit(world->device, &work, stream));
}

struct device_read {
    size_t bytes;
    weir_stream stream;
    char *copy;
};

/* Cut from one pinned piece, which is freed with the world: a free waits for the whole device, closed gates included. */
static char *pinned_for_read(struct world *world, size_t bytes) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (world->pinned == NULL) assert_ok(weir_host_alloc(world->device, PINNED_BYTES, &world->pinned));
    if (world->pinned_used + bytes > PINNED_BYTES) /* earlier reads have been checked by now */
        world->pinned_used = 0;
    char *at = (char *)world->pinned + world->pinned_used;
    world->pinned_used += bytes;
    pthread_mutex_unlock(&lock);
    return at;
}

struct device_read *read_on(struct world *world, const void *block, size_t bytes, weir_stream stream) {
    struct device_read *read = calloc(1, sizeof *read);
    assert_non_null(read);
    read->bytes = bytes;
    read->stream = stream;
    read->copy = pinned_for_read(world, bytes);
    assert_ok(weir_copy(world->device, read->copy, block, bytes, stream));
    return read;
}

void check_read(struct world *world, struct device_read *read, uint64_t seed) {
    assert_ok(weir_stream_synchronize(world->device, read->stream));
    assert_host_pattern(read->copy, read->bytes, seed);
    free(read);
}

void assert_pattern(struct world *world, const void *block, size_t bytes, uint64_t seed, weir_stream stream) {
    check_read(world, read_on(world, block, bytes, stream), seed);
}

/* ---- counters --------------------------------------------------------------------------------------------------- */

struct weir_host_pool_stats host_stats(struct world *world) {
    struct weir_host_pool_stats stats = {.size = sizeof stats};
    assert_ok(weir_host_pool_get_stats(world->host, &stats));
    return stats;
}

struct weir_offload_stats engine_stats(struct world *world) {
    struct weir_offload_stats stats = {.size = sizeof stats};
    assert_ok(weir_offload_get_stats(world->engine, &stats));
    return stats;
}

struct weir_pool_stats pool_stats(struct world *world) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    assert_ok(weir_pool_get_stats(world->pool, &stats));
    return stats;
}
