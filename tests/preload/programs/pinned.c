/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory by the runtime's entries. */
#include "scenes.h"

int main(void) {
    enum { PORTABLE = cudaHostAllocPortable | cudaHostAllocMapped };
    struct cudaPointerAttributes attributes;
    void *block, *plain, *mapped, *device;
    unsigned flags = 0;
    CUDA(cudaMalloc(&block, MEBI));
    for (int round = 1; round < 4; round++) {
        CUDA(cudaMallocHost(&plain, MEBI));
        CUDA(cudaHostAlloc(&mapped, MEBI, PORTABLE));
        CUDA(cudaHostGetFlags(&flags, mapped));
        CHECK((flags & PORTABLE) == PORTABLE);
        CUDA(cudaHostGetDevicePointer(&device, mapped, 0));
        CHECK(device == mapped);
        CUDA(cudaPointerGetAttributes(&attributes, plain));
        CHECK(attributes.type == cudaMemoryTypeHost && attributes.device == 0 && attributes.hostPointer == plain);
        memset(plain, round, MEBI);
        CUDA(cudaMemcpyAsync(block, plain, MEBI, cudaMemcpyHostToDevice, NULL));
        CUDA(cudaMemcpyAsync(mapped, block, MEBI, cudaMemcpyDeviceToHost, NULL));
        CUDA(cudaDeviceSynchronize());
        CHECK(memcmp(plain, mapped, MEBI) == 0);
        CUDA(cudaFreeHost(plain));
        CUDA(cudaFreeHost(mapped));
        CHECK(cudaFreeHost(mapped) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
        CUDA(cudaPointerGetAttributes(&attributes, plain));
        CHECK(attributes.type == cudaMemoryTypeUnregistered);
    }
    CUDA(cudaFreeHost(NULL));
    CUDA(cudaFree(block));
    puts("pinned memory");
    return 0;
}
