/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels share. */
#ifndef WEIR_TRAINER_OPS_CUDA_DEVICE_H
#define WEIR_TRAINER_OPS_CUDA_DEVICE_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "trainer/ops_cuda.h"

static_assert(sizeof(real) == sizeof(float), "the CUDA leaf computes in float");

enum { THREADS = 256, MOST_BLOCKS = 65535 };

/* Every thread of a grid takes i, i + threads of the grid, ...; grids are capped, so that any n will do. */
#define EACH(i, n)                                                                                                     \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)
/* Every block takes rows; every thread of a block takes columns. */
#define EACH_ROW(row, rows) for (int64_t row = blockIdx.x; row < (rows); row += gridDim.x)
#define EACH_COLUMN(i, n)   for (int64_t i = threadIdx.x; i < (n); i += blockDim.x)

static inline unsigned blocks_for(int64_t n) {
    return n < 1 ? 1 : n < MOST_BLOCKS ? (unsigned)n : (unsigned)MOST_BLOCKS;
}
/* an element a thread */
static inline unsigned grid_for(int64_t n) { return blocks_for((n + THREADS - 1) / THREADS); }

__device__ inline float load(const void *in, enum wire type, int64_t i) {
    return type == WIRE_BF16 ? __bfloat162float(((const __nv_bfloat16 *)in)[i]) : ((const float *)in)[i];
}

__device__ inline void store(void *out, enum wire type, int64_t i, float x) {
    if (type == WIRE_BF16)
        ((__nv_bfloat16 *)out)[i] = __float2bfloat16_rn(x);
    else
        ((float *)out)[i] = x;
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/* The block's values folded in halves, always in the same order; every thread gets the result. The number of threads is
 * a power of two, at most 1024. */
template <typename number, typename fold> __device__ number fold_block(number mine, fold folded) {
    __shared__ number kept[1024];
    __syncthreads(); /* an earlier call may still be read */
    kept[threadIdx.x] = mine;
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) kept[threadIdx.x] = folded(kept[threadIdx.x], kept[threadIdx.x + half]);
    }
    __syncthreads();
    return kept[0];
}

struct sum_of {
    template <typename number> __device__ number operator()(number a, number b) const { return a + b; }
};
struct most_of { /* NaN is passed over, as on the CPU */
    __device__ float operator()(float a, float b) const { return b > a ? b : a; }
};

#endif
