/* SPDX-License-Identifier: Apache-2.0 */
/* What the pool's tests share: a device and a pool on it, gates that hold a stream back, and work that writes and checks
 * patterns in the order of a stream. Every failure of a call ends the test with the library's sentence. */
#ifndef WEIR_TESTS_ALLOC_SUPPORT_H
#define WEIR_TESTS_ALLOC_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc/pool.h"
#include "weir/weir.h"

#define OK(call) check_ok((call), #call, __FILE__, __LINE__)
void check_ok(enum weir_status status, const char *call, const char *file, int line);

#define PAGE ((size_t)16384) /* of the demo profile */

/* The device of this process: opened once, as "profile:demo". */
struct weir_device *test_device(void);
/* A pool of `pages` pages with short waits (2 s) and no trace. */
struct weir_pool *open_pool(enum weir_policy policy, size_t pages);
weir_stream new_stream(void);
void *alloc(struct weir_pool *pool, size_t bytes, weir_stream stream);
struct weir_pool_stats stats_of(struct weir_pool *pool);
/* The walk, then destroy. */
void close_pool(struct weir_pool *pool);
/* The same, once all work has ended; no byte was wrong. */
void finish_pool(struct weir_pool *pool);

/* A stream that weir does not hear of, nor of its end. */
weir_stream driver_stream(unsigned flags);
void end_driver_stream(weir_stream stream);

/* Two idle neighbours of a page and a half that two streams gave back: the page across them is no one's to move until both
 * are complete. That is what the host still has to wait for. Between them and what comes later lies a block in use. */
struct halves {
    unsigned char *first, *second;
    void *post;
};
#define HALF_BYTES (PAGE * 3 / 2)
enum { HALVES_PAGES = 7, HALVES_ASKED = 6 }; /* of a pool with nothing else, and what can only be had with that page */
/* They are in use still. Needs: a pool of HALVES_PAGES without blocks. */
struct halves make_halves(struct weir_pool *pool, weir_stream first, weir_stream second);

/* A gate holds back what is queued on a stream after it until it is opened. */
struct gate;
struct gate *put_gate(weir_stream stream);
void open_gate(struct gate *gate); /* and frees it; the stream needs it no longer */

/* After every test: one that failed leaves no gate shut, at which the next ones would hang. */
int open_gates_left_shut(void **state);
#undef cmocka_unit_test
#define cmocka_unit_test(test) cmocka_unit_test_teardown(test, open_gates_left_shut)

/* Work in the order of a stream: every byte becomes `value`; and the same checked, failures are counted. */
void queue_fill(weir_stream stream, void *at, size_t bytes, unsigned char value);
void queue_check(weir_stream stream, const void *at, size_t bytes, unsigned char value);
/* Wrong bytes found by queued checks so far, in all. */
size_t wrong_bytes(void);
/* Fills that have run so far, in all. */
unsigned fills_run(void);
/* When a mutation is on: gives the other streams up to 2 s to run `fills` fills in all, so that what a missing wait lets
 * happen does happen. Otherwise returns at once. */
void let_mutant_run(unsigned fills);
bool is_mutant(void);

/* A request on a stream gets a block, all of the pool, whose user stands at the gate still. It writes, too early if nobody made it wait;
 * the gate opens, and what it has written is there. */
void pass_on(struct weir_pool *pool, void *block, size_t bytes, weir_stream stream, struct gate *gate);

/* Of the system's monotonic clock. */
uint64_t now_ns(void);

/* A small generator; the seed is WEIR_TEST_SEED, else the given one, and is printed. */
uint64_t seed_of(uint64_t given);
uint64_t draw(uint64_t *state);

#endif
