/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of operations share: a device with the CPU table, numbers that both sides can reach, comparisons.
 * Memory is pinned host memory, which the host reads and writes without copies once the stream has been waited for. */
#ifndef WEIR_TESTS_TRAINER_OPS_FIXTURE_H
#define WEIR_TESTS_TRAINER_OPS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trainer/ops.h"

enum { RIG_BLOCKS = 64 };

struct rig {
    struct weir_device *device;
    weir_stream stream;
    struct ops ops;
    const struct ops_table *table;
    void *blocks[RIG_BLOCKS];
    int block_count;
    uint64_t random;
};

void rig_open(struct rig *rig, enum wire wire);
void rig_close(struct rig *rig);
/* Everything asked for is freed by rig_close. Filled with 0xff bytes (NaN, -1): what an operation must not read. */
void *rig_bytes(struct rig *rig, size_t bytes);
real *rig_dirty(struct rig *rig, int64_t n);
real *rig_zeros(struct rig *rig, int64_t n);
/* uniform in [-1, 1), a fixed sequence */
real *rig_random(struct rig *rig, int64_t n);
int32_t *rig_integers(struct rig *rig, int64_t n, int32_t below);
int32_t *rig_ids(struct rig *rig, int64_t n, const int32_t *values);
real *rig_values(struct rig *rig, int64_t n, const double *values);
/* Checks that the call was accepted, then waits for it. */
void rig_done(struct rig *rig, enum weir_status status);

/* |a - b| <= limit * (largest |b|), every number; says where not */
void assert_near(const char *what, const real *a, const double *b, int64_t n, double limit);
double dot_double(const real *a, const real *b, int64_t n);

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

#endif
