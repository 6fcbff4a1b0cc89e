/* SPDX-License-Identifier: Apache-2.0 */
/* Small made-up reports: run_completed.json (97 of 100 MiB live at the peak, on rank 1) and run_out_of_memory.json (refused
 * on rank 1 in step 2: 71 of 100 MiB live, 8 idle on the asker, 16 on the other stream). */
#ifndef WEIR_TESTS_DEMO_FIXTURE_H
#define WEIR_TESTS_DEMO_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/demo/demo.h"

#define MIB ((size_t)1 << 20)

json_t *fixture_json(const char *name);
/* A run by the name that the demo would give it; the test fails when it can't be read. */
struct run fixture_run(const char *file, const char *name);

/* A demo whose runs are the fixtures: per-stream out of memory, weir completed, weir+offload completed at batch 10 and weir
 * out of memory there. */
struct fixture_demo {
    struct run measured, per_stream, weir, offload, without;
    struct demo demo;
};
void fixture_demo_make(struct fixture_demo *fixture);
void fixture_demo_free(struct fixture_demo *fixture);

/* What a writer writes; the caller frees it. */
char *fixture_written(const struct demo *demo, void (*write)(const struct demo *demo, FILE *out));
/* All words, a sentence a line. */
char *fixture_words(const struct demo *demo);

#endif
