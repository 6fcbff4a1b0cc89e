/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps what it finds in variables that are named like the driver's entries, and that other objects can see. */
#include "driver.h"

#define VARIABLE(name, parameters) __attribute__((visibility("default"))) extern CUresult(*name) parameters;
#define FIND(name)                                                                                                     \
    do {                                                                                                               \
        void *found = symbol_of(open_driver(), #name);                                                                 \
        memcpy(&name, &found, sizeof found);                                                                           \
    } while (0)

VARIABLE(cuMemAlloc_v2, (CUdeviceptr *, size_t))
VARIABLE(cuMemFree_v2, (CUdeviceptr))
VARIABLE(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))
VARIABLE(cuMemAllocAsync_ptsz, (CUdeviceptr *, size_t, CUstream))
VARIABLE(cuMemFreeAsync, (CUdeviceptr, CUstream))
VARIABLE(cuStreamDestroy_v2, (CUstream))
CUresult (*cuMemAlloc_v2)(CUdeviceptr *, size_t);
CUresult (*cuMemFree_v2)(CUdeviceptr);
CUresult (*cuMemAllocAsync)(CUdeviceptr *, size_t, CUstream);
CUresult (*cuMemAllocAsync_ptsz)(CUdeviceptr *, size_t, CUstream);
CUresult (*cuMemFreeAsync)(CUdeviceptr, CUstream);
CUresult (*cuStreamDestroy_v2)(CUstream);

int main(void) {
    CUdeviceptr block;
    CUstream stream;
    FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2);
    FIND(cuMemAllocAsync);
    FIND(cuMemAllocAsync_ptsz);
    FIND(cuMemFreeAsync);
    FIND(cuStreamDestroy_v2);
    find_all(12000, 0);
    use_device(0);
    CHECK(cuMemAlloc_v2(&block, MEBI) == CUDA_SUCCESS && cuMemFree_v2(block) == CUDA_SUCCESS);
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&block, MEBI, stream) == CUDA_SUCCESS && cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
    CHECK(cuMemAllocAsync_ptsz(&block, MEBI, NULL) == CUDA_SUCCESS && cuMemFree_v2(block) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
    puts("in variables");
    return 0;
}
