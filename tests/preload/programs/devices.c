/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices in turn; each block is freed while the other device is current. */
#include "scenes.h"

int main(void) {
    void *block[2], *ordered;
    cudaStream_t stream[2];
    for (int device = 0; device < 2; device++) {
        CUDA(cudaSetDevice(device));
        CUDA(cudaStreamCreate(&stream[device]));
        CUDA(cudaMalloc(&block[device], MEBI));
        fill(block[device], device + 1);
        CUDA(cudaMallocAsync(&ordered, MEBI, stream[device]));
        CUDA(cudaMemsetAsync(ordered, 9, MEBI, stream[device]));
        CUDA(cudaFreeAsync(ordered, stream[device]));
        CUDA(cudaDeviceSynchronize());
    }
    for (int device = 0; device < 2; device++) {
        struct cudaPointerAttributes attributes;
        CUDA(cudaSetDevice(1 - device));
        CUDA(cudaPointerGetAttributes(&attributes, block[device]));
        CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == device);
        holds(block[device], device + 1);
        CUDA(cudaFree(block[device]));
        CUDA(cudaStreamDestroy(stream[device]));
    }
    puts("two devices");
    return 0;
}
