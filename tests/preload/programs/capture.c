/* SPDX-License-Identifier: Apache-2.0 */
/* A graph that takes memory in its capture, beside plain memory that it uses. */
#include "scenes.h"

int main(void) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    void *block, *inside;
    CUDA(cudaMalloc(&block, MEBI));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CUDA(cudaMallocAsync(&inside, MEBI, stream));
    CUDA(cudaMemsetAsync(inside, 3, MEBI, stream));
    CUDA(cudaMemcpyAsync(block, inside, MEBI, cudaMemcpyDeviceToDevice, stream));
    CUDA(cudaFreeAsync(inside, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int round = 0; round < 3; round++) {
        fill(block, 1);
        CUDA(cudaDeviceSynchronize());
        CUDA(cudaGraphLaunch(executable, stream));
        CUDA(cudaStreamSynchronize(stream));
        holds(block, 3);
        CUDA(cudaMallocAsync(&inside, MEBI, stream));
        CUDA(cudaMemsetAsync(inside, 8, MEBI, stream));
        CUDA(cudaFreeAsync(inside, stream));
    }
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFree(block));
    puts("a graph with memory");
    return 0;
}
