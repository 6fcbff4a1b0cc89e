/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of runs share: traces from text, and runs of them, each in a process of its own. The machine is
 * run.profile unless it is said otherwise: every call costs 1 us, a launch 10 us, work may begin 5 us later, a host that
 * waited goes on 3 us later, a pool's call costs 2 us; a page is 2 MiB. */
#ifndef WEIR_TESTS_TOOLS_REPLAY_RUNS_H
#define WEIR_TESTS_TOOLS_REPLAY_RUNS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/replay/run.h"

#define PAGE ((size_t)2 << 20)
#define US   UINT64_C(1000)

/* A trace of these lines; the header is put before them, so the first is line 2. To be freed with trace_free. */
struct trace trace_of(const char *lines);

/* A run under the virtual clock on a device of so many pages. */
struct setup setup_of(const struct trace *trace, enum target_kind target, size_t pages);
struct outcome run_one(const struct setup *setup);
/* trace_of, setup_of, run_one; the run must complete. */
struct outcome play(const char *lines, enum target_kind target, size_t pages);

/* All but the time of this machine's CPUs. */
void assert_same(const struct outcome *a, const struct outcome *b);

/* A trace of several streams, many sizes and hand-overs, drawn from a seed; its peak is some hundred pages. */
struct trace drawn_trace(uint64_t seed, unsigned operations);

#endif
