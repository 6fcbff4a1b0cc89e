/* SPDX-License-Identifier: Apache-2.0 */
/* A program that knows nothing of weir, linked with the runtime's static library (run.sh runs it with and without weir): memory of each kind
 * is filled on the device, read back and freed. It says what it does, and no address, so its output is always the same. */
#include "../runtime/runtime.h"

#include <stdbool.h>
#include <string.h>

enum { MEBI = 1 << 20, ROUNDS = 10 };

static unsigned char back[MEBI];
static int allocs, frees; /* device memory */

static void fill(void *block, int value, cudaStream_t stream) {
    CUDA(cudaMemsetAsync(block, value, MEBI, stream));
    CUDA(cudaMemcpyAsync(back, block, MEBI, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < MEBI; i++) CHECK(back[i] == value);
}

static void plain(void) {
    void *block, *pitched;
    size_t pitch;
    for (int round = 0; round < ROUNDS; round++) {
        CUDA(cudaMalloc(&block, MEBI));
        CUDA(cudaMallocPitch(&pitched, &pitch, 1000, 2000));
        CHECK(pitch >= 1000 && pitch % 512 == 0);
        fill(block, round, NULL);
        fill(pitched, round + 100, NULL);
        CUDA(cudaFree(block));
        CUDA(cudaFree(pitched));
        allocs += 2, frees += 2;
    }
    puts("plain memory");
}

static void ordered(void) {
    cudaStream_t streams[2];
    void *block;
    for (int i = 0; i < 2; i++) CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    for (int round = 0; round < ROUNDS; round++) {
        CUDA(cudaMallocAsync(&block, MEBI, streams[round % 2]));
        fill(block, round, streams[round % 2]);
        CUDA(cudaFreeAsync(block, streams[round % 2]));
        allocs++, frees++;
    }
    for (int i = 0; i < 2; i++) CUDA(cudaStreamDestroy(streams[i]));
    puts("stream-ordered memory");
}

static void pinned(void) {
    void *block, *host;
    CUDA(cudaMalloc(&block, MEBI));
    for (int round = 0; round < ROUNDS; round++) {
        CUDA(cudaMallocHost(&host, MEBI));
        memset(host, round, MEBI);
        CUDA(cudaMemcpyAsync(block, host, MEBI, cudaMemcpyHostToDevice, NULL));
        CUDA(cudaFreeHost(host));
        CUDA(cudaMemcpy(back, block, MEBI, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < MEBI; i++) CHECK(back[i] == round);
    }
    CUDA(cudaFree(block));
    allocs++, frees++;
    puts("pinned memory");
}

static void mistakes(void) {
    void *block = NULL;
    size_t left, total;
    CUDA(cudaMemGetInfo(&left, &total));
    CHECK(left <= total);
    printf("more than there is: %d", (int)cudaMalloc(&block, total * 2));
    printf(", the last error %d", (int)cudaGetLastError());
    printf(", then %d\n", (int)cudaGetLastError());
    CUDA(cudaMalloc(&block, MEBI));
    printf("inside a block: %d", (int)cudaFree((char *)block + 512));
    printf(", the last error %d\n", (int)cudaGetLastError());
    CUDA(cudaFree(block));
    allocs++, frees++;
}

int main(void) {
    plain();
    ordered();
    pinned();
    mistakes();
    printf("%d allocations, %d frees, %d pinned\n", allocs, frees, ROUNDS);
    return 0;
}
