/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers by groups of rows: one gemm a group that has rows. */
#include "trainer/ops_cpu.h"

struct linear {
    real *result;
    const real *left;  /* x, dy, dy */
    const void *right; /* w, w, x */
    int64_t in, out;
    enum wire wire;
    bool add;
    int count;
    int64_t offsets[]; /* (count + 1) */
};

static int64_t rows_of(struct row_groups groups) { return groups.offsets[groups.count]; }

static void check_groups(struct row_groups groups) {
    assert(groups.count > 0 && groups.offsets[0] == 0);
    for (int g = 0; g < groups.count; g++) assert(groups.offsets[g] <= groups.offsets[g + 1]);
}

/* The offsets ride behind the arguments, since the caller's may be gone when the runner runs. */
static enum weir_status submit_linear(const struct ops *ops, struct cpu_work work, const struct linear *linear,
                                      struct row_groups groups, const struct weir_access *accesses, size_t access_count,
                                      weir_stream stream) {
    check_groups(groups);
    size_t offsets_bytes = (size_t)(groups.count + 1) * sizeof *groups.offsets;
    struct linear *whole = malloc(sizeof *whole + offsets_bytes);
    if (!whole) return WEIR_OUT_OF_HOST_MEMORY;
    *whole = *linear;
    whole->count = groups.count;
    memcpy(whole->offsets, groups.offsets, offsets_bytes);
    work.argument = whole;
    work.argument_bytes = sizeof *whole + offsets_bytes;
    work.flops = 2.0 * (double)rows_of(groups) * (double)linear->in * (double)linear->out;
    enum weir_status status = cpu_submit(ops, &work, accesses, access_count, stream);
    free(whole);
    return status;
}

static const real *group_weight(const struct linear *l, int group) {
    const char *w = l->right;
    return cpu_weights(w + (size_t)(group * l->in * l->out) * wire_bytes(l->wire), l->wire, l->in * l->out);
}

/* y = x W^T */
static void run_forward(void *argument) {
    const struct linear *l = argument;
    for (int g = 0; g < l->count; g++) {
        int64_t first = l->offsets[g], rows = l->offsets[g + 1] - first;
        if (!rows) continue;
        gemm(CblasNoTrans, CblasTrans, rows, l->out, l->in, 1, l->left + first * l->in, l->in, group_weight(l, g),
             l->in, l->add, l->result + first * l->out, l->out);
    }
}

/* dx = dy W */
static void run_backward_input(void *argument) {
    const struct linear *l = argument;
    for (int g = 0; g < l->count; g++) {
        int64_t first = l->offsets[g], rows = l->offsets[g + 1] - first;
        if (!rows) continue;
        gemm(CblasNoTrans, CblasNoTrans, rows, l->in, l->out, 1, l->left + first * l->out, l->out, group_weight(l, g),
             l->in, l->add, l->result + first * l->in, l->in);
    }
}

/* dW = dy^T x; a group without rows has no product, its zeros are written here */
static void run_backward_weight(void *argument) {
    const struct linear *l = argument;
    const real *x = l->right;
    for (int g = 0; g < l->count; g++) {
        int64_t first = l->offsets[g], rows = l->offsets[g + 1] - first, size = l->out * l->in;
        real *dw = l->result + g * size;
        if (rows)
            gemm(CblasTrans, CblasNoTrans, l->out, l->in, rows, 1, l->left + first * l->out, l->out, x + first * l->in,
                 l->in, l->add, dw, l->in);
        else if (!l->add)
            memset(dw, 0, (size_t)size * sizeof *dw);
    }
}

enum weir_status cpu_linear_forward(const struct ops *ops, real *y, bool add, const real *x, const void *w,
                                    struct row_groups groups, int64_t in, int64_t out, weir_stream stream) {
    struct linear l = {.result = y, .left = x, .right = w, .in = in, .out = out, .wire = ops->wire, .add = add};
    int64_t rows = rows_of(groups);
    const struct weir_access accesses[] = {WRITES(y, rows * out), READS_IF(add, y, rows * out), READS(x, rows * in),
                                           READS_WIRE(w, ops->wire, rows ? groups.count * in * out : 0)};
    return submit_linear(ops, (struct cpu_work){.name = "linear_forward", .run = run_forward}, &l, groups, accesses, 4,
                         stream);
}

enum weir_status cpu_linear_backward_input(const struct ops *ops, real *dx, bool add, const real *dy, const void *w,
                                           struct row_groups groups, int64_t in, int64_t out, weir_stream stream) {
    struct linear l = {.result = dx, .left = dy, .right = w, .in = in, .out = out, .wire = ops->wire, .add = add};
    int64_t rows = rows_of(groups);
    const struct weir_access accesses[] = {WRITES(dx, rows * in), READS_IF(add, dx, rows * in), READS(dy, rows * out),
                                           READS_WIRE(w, ops->wire, rows ? groups.count * in * out : 0)};
    return submit_linear(ops, (struct cpu_work){.name = "linear_backward_input", .run = run_backward_input}, &l, groups,
                         accesses, 4, stream);
}

enum weir_status cpu_linear_backward_weight(const struct ops *ops, real *dw, bool add, const real *dy, const real *x,
                                            struct row_groups groups, int64_t in, int64_t out, weir_stream stream) {
    struct linear l = {.result = dw, .left = dy, .right = x, .in = in, .out = out, .wire = WIRE_REAL, .add = add};
    int64_t rows = rows_of(groups);
    const struct weir_access accesses[] = {WRITES(dw, groups.count * in * out),
                                           READS_IF(add, dw, groups.count * in * out), READS(dy, rows * out),
                                           READS(x, rows * in)};
    return submit_linear(ops, (struct cpu_work){.name = "linear_backward_weight", .run = run_backward_weight}, &l,
                         groups, accesses, 4, stream);
}
