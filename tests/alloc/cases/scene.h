/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases share: pools that are sized in the scenarios' MiB, and a thread that opens a gate once the pool waits. */
#ifndef WEIR_TESTS_ALLOC_CASES_SCENE_H
#define WEIR_TESTS_ALLOC_CASES_SCENE_H

#include "tests/alloc/support.h"

/* Of the scenarios, over 128: the demo profile's page of 16 KiB stands for a real device's 2 MiB. */
#define MIB ((size_t)8192)
#define GIB (1024 * MIB)

/* A pool of `bytes` that gives a wait up after 20 s, or the given time. */
struct weir_pool *open_case(enum weir_policy policy, size_t bytes);
struct weir_pool *open_impatient_case(enum weir_policy policy, size_t bytes, uint64_t wait_limit_ns);

/* Runs `body` with a pool of each policy that shares idle memory. */
void with_shared_pools(size_t bytes, void (*body)(struct weir_pool *pool));

/* A thread that opens the gate once the pool has begun a wait (of the host, or of a stream) after this call. */
struct opener;
struct opener *open_once_it_waits(struct weir_pool *pool, struct gate *gate);
/* The gate is open afterwards, waited or not. Gives: whether the pool had waited. */
bool join_opener(struct opener *opener);

/* Asks, expects out of memory, and the pool as it was. */
void expect_refused(struct weir_pool *pool, size_t bytes, weir_stream stream);
/* Nothing that a caller can see is different. */
void assert_same_state(const struct weir_pool_stats *before, const struct weir_pool_stats *after);

#endif
