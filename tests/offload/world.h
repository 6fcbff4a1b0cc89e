/* SPDX-License-Identifier: Apache-2.0 */
/* What the offload tests share: a device with a pool, a host pool and an engine on it; gates that hold a stream back;
 * patterns in device memory. Each call checks what it does, and ends the test when it fails. */
#ifndef WEIR_TESTS_OFFLOAD_WORLD_H
#define WEIR_TESTS_OFFLOAD_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "weir/offload.h"

#define MIB ((size_t)1 << 20)

#define assert_ok(call) assert_ok_at((call), #call, __FILE__, __LINE__)
void assert_ok_at(enum weir_status status, const char *call, const char *file, int line);

struct world {
    struct weir_device *device;
    struct weir_pool *pool;
    struct weir_host_pool *host;
    struct weir_offload *engine;
    weir_stream compute, other, to_host, to_device;
    void *pinned; /* for reads */
    size_t pinned_used;
};

struct world_options {
    size_t capacity_bytes;    /* of the device's pool; 0: 256 MiB */
    size_t host_budget_bytes; /* 0: 256 MiB */
    size_t slab_bytes;        /* 0: the default */
};

/* An engine on streams of the world's own, so that a test can hold them back. */
void world_open(struct world *world, struct world_options options);
/* Also checks that nothing is left: no live block, no open item, and both pools sound. */
void world_close(struct world *world);
/* Only the device, its pool and streams. */
void world_open_device(struct world *world, size_t capacity_bytes);

/* ---- gates: work that does not end before the test opens it; with WEIR_TEST_LUCKY set it takes a while, and
 * ends by itself ---- */

struct gate;
/* Queues a gate on a stream. */
struct gate *gate_close(struct world *world, weir_stream stream);
/* Opens it; the gate is gone. */
void gate_open(struct gate *gate);
/* Where the host itself waits no gate can hold a stream back; with WEIR_TEST_LUCKY set what follows on it takes a while. */
void be_busy_if_lucky(struct world *world, weir_stream stream);
/* A test's teardown: after a failure nothing may hang at a gate. */
int open_all_gates(void **state);
#define gated_test(name) cmocka_unit_test_teardown(name, open_all_gates)

/* Fails when what `stream` has queued so far passes although a gate should hold it back. A wrong order is given some time
 * to show; in a run that takes an order out on purpose, much more. */
void assert_held_back(struct world *world, weir_stream stream);

/* ---- patterns: each 8 bytes depend on the seed and on their place ---- */

void *device_block(struct world *world, size_t bytes, weir_stream stream);
void fill_on(struct world *world, void *block, size_t bytes, uint64_t seed, weir_stream stream);
/* Queues a read of a block into ordinary memory; check_read waits for it and compares. */
struct device_read;
struct device_read *read_on(struct world *world, const void *block, size_t bytes, weir_stream stream);
void check_read(struct world *world, struct device_read *read, uint64_t seed);
/* Both at once. */
void assert_pattern(struct world *world, const void *block, size_t bytes, uint64_t seed, weir_stream stream);
void fill_host(void *at, size_t bytes, uint64_t seed);
void assert_host_pattern(const void *at, size_t bytes, uint64_t seed);

struct weir_host_pool_stats host_stats(struct world *world);
struct weir_offload_stats engine_stats(struct world *world);
struct weir_pool_stats pool_stats(struct world *world);

#endif
