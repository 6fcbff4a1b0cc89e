/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases share: pools that are sized in the scenarios' MiB, a thread that opens a gate once the pool waits, and requests in
 * threads of their own. */
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
/* And with one pool a stream as well. */
void with_every_pool(size_t bytes, void (*body)(struct weir_pool *pool));

/* A thread that opens the gate once the pool has begun a wait (of the host, or of a stream) after this call. */
struct opener;
struct opener *open_once_it_waits(struct weir_pool *pool, struct gate *gate);
/* The gate is open afterwards, waited or not. Gives: whether the pool had waited. */
bool join_opener(struct opener *opener);

/* A request in a thread of its own. */
struct asker;
/* Comes back once the request waits on the host, and looks at every change from then on. No stream (NULL): it names none. Needs: a pool
 * that shares idle memory and is not deterministic. */
struct asker *start_asking(struct weir_pool *pool, size_t bytes, weir_stream stream);
/* The same, without waiting for that. */
struct asker *begin_asking(struct weir_pool *pool, size_t bytes, weir_stream stream);
bool is_answered(struct asker *asker);
/* Until one of the two is answered, which may be the same. */
void await_one(struct asker *first, struct asker *second);
/* True when it has been given a block that begins in [start, start + bytes). */
bool lies_in(struct asker *asker, const void *start, size_t bytes);
/* Ends it. Gives: its answer, and its block or NULL. */
enum weir_status join_asker(struct asker *asker, void **block);
/* Ends it: it was served, its block is written to, checked and given back. */
void expect_served(struct asker *asker);

/* Asks, expects out of memory, and the pool as it was. */
void expect_refused(struct weir_pool *pool, size_t bytes, weir_stream stream);
/* Nothing that a caller can see is different. */
void assert_same_state(const struct weir_pool_stats *before, const struct weir_pool_stats *after);

#endif
