/* SPDX-License-Identifier: Apache-2.0 */
/* Ends with blocks live, a stream open and work queued. */
#include "scenes.h"

int main(void) {
    void *block;
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 3; i++) {
        CUDA(cudaMalloc(&block, MEBI));
        CUDA(cudaMemsetAsync(block, i, MEBI, stream));
    }
    puts("leaves");
    return 5;
}
