/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA leaf of the operations: ops_cuda.c (which operations there are, products by cuBLAS), ops_cuda.cu (layers,
 * elementwise, optimizer), ops_cuda_route.cu (routing). A launcher queues its kernels on the stream and gives the
 * runtime's error, whose numbers are the driver's.
 *
 * What holds. Sums have a fixed order: no atomics; what is summed over rows is summed by one thread a column. */
#ifndef WEIR_TRAINER_OPS_CUDA_H
#define WEIR_TRAINER_OPS_CUDA_H

#include "trainer/ops_work.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define CUDA_PROTOTYPE(op) int cuda_##op(void *arguments, weir_stream stream);
OPS_LIST(CUDA_PROTOTYPE)
#undef CUDA_PROTOTYPE

/* out = in as float, `n` numbers */
int cuda_widen(float *out, const void *in, enum wire type, int64_t n, weir_stream stream);
/* each of `count` matrices of `size` numbers is divided by its norm + 1e-7 */
int cuda_normalize(float *u, int64_t count, int64_t size, weir_stream stream);

#if defined(__cplusplus)
}
#endif
#endif
