/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trainer/ops_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void rig_open(struct rig *rig, enum wire wire) {
    *rig = (struct rig){.random = 0x9e3779b97f4a7c15u};
    assert_int_equal(weir_device_open(NULL, &rig->device), WEIR_OK);
    assert_int_equal(weir_stream_create(rig->device, &rig->stream), WEIR_OK);
    assert_int_equal(ops_open_cpu(rig->device, wire, &rig->ops), WEIR_OK);
    rig->table = rig->ops.table;
}

void rig_close(struct rig *rig) {
    for (int i = 0; i < rig->block_count; i++) assert_int_equal(weir_host_free(rig->device, rig->blocks[i]), WEIR_OK);
    assert_int_equal(weir_stream_destroy(rig->device, rig->stream), WEIR_OK);
    weir_device_close(rig->device);
}

void *rig_bytes(struct rig *rig, size_t bytes) {
    void *block = NULL;
    assert_true(rig->block_count < RIG_BLOCKS);
    assert_int_equal(weir_host_alloc(rig->device, bytes ? bytes : 1, &block), WEIR_OK);
    memset(block, 0xff, bytes);
    rig->blocks[rig->block_count++] = block;
    return block;
}

real *rig_dirty(struct rig *rig, int64_t n) { return rig_bytes(rig, (size_t)n * sizeof(real)); }

real *rig_zeros(struct rig *rig, int64_t n) {
    real *x = rig_dirty(rig, n);
    for (int64_t i = 0; i < n; i++) x[i] = 0;
    return x;
}

static double draw(struct rig *rig) {
    rig->random = rig->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(rig->random >> 40) / (double)(1 << 24);
}

real *rig_random(struct rig *rig, int64_t n) {
    real *x = rig_dirty(rig, n);
    for (int64_t i = 0; i < n; i++) x[i] = (real)(2 * draw(rig) - 1);
    return x;
}

int32_t *rig_integers(struct rig *rig, int64_t n, int32_t below) {
    int32_t *x = rig_bytes(rig, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (int32_t)(draw(rig) * below);
    return x;
}

int32_t *rig_ids(struct rig *rig, int64_t n, const int32_t *values) {
    int32_t *x = rig_bytes(rig, (size_t)n * sizeof *x);
    memcpy(x, values, (size_t)n * sizeof *x);
    return x;
}

real *rig_values(struct rig *rig, int64_t n, const double *values) {
    real *x = rig_dirty(rig, n);
    for (int64_t i = 0; i < n; i++) x[i] = (real)values[i];
    return x;
}

void rig_done(struct rig *rig, enum weir_status status) {
    assert_int_equal(status, WEIR_OK);
    assert_int_equal(weir_stream_synchronize(rig->device, rig->stream), WEIR_OK);
}

void assert_near(const char *what, const real *a, const double *b, int64_t n, double limit) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fabs(b[i]) > most ? fabs(b[i]) : most;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - b[i]) <= limit * most)) {
            print_error("%s: number %lld is %.9g, expected %.9g within %.1e of %.3g\n", what, (long long)i,
                        (double)a[i], b[i], limit, most);
            fail();
        }
}

double dot_double(const real *a, const real *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}
