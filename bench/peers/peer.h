/* SPDX-License-Identifier: Apache-2.0 */
/* Peers to measure with: allocators as libraries with the ABI of PyTorch's pluggable allocators, over the CUDA runtime.
 * The few names of the runtime that they need are declared here, so that no CUDA Toolkit is needed to build them; they
 * link to the emulated runtime, and run on NVIDIA's too. */
#ifndef WEIR_BENCH_PEER_H
#define WEIR_BENCH_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct CUstream_st *cudaStream_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;

enum { cudaSuccess = 0, cudaMemPoolAttrReleaseThreshold = 4 };

int cudaSetDevice(int device);
int cudaMalloc(void **address, size_t bytes);
int cudaFree(void *address);
int cudaMallocAsync(void **address, size_t bytes, cudaStream_t stream);
int cudaFreeAsync(void *address, cudaStream_t stream);
int cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
int cudaMemPoolSetAttribute(cudaMemPool_t pool, int attribute, void *value);

#define PEER_API __attribute__((visibility("default")))

PEER_API void *weir_peer_alloc(ssize_t bytes, int device, cudaStream_t stream);
PEER_API void weir_peer_free(void *block, ssize_t bytes, int device, cudaStream_t stream);
PEER_API void weir_peer_use(void *block, cudaStream_t stream); /* not of the driver's pool, nor of RMM's resources */
PEER_API void *weir_peer_stream(void); /* of PyTorch's and RMM's only: a new stream; NULL: there is no device */

#endif
