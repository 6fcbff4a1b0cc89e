/* SPDX-License-Identifier: Apache-2.0 */
/* Threads whose first calls come at once; some blocks are freed by another thread than the one that took them. */
#include <pthread.h>

#include "scenes.h"

enum { THREADS = 8, ROUNDS = 50 };

static pthread_barrier_t together;
static void *left[THREADS];

static void *work(void *number) {
    const int me = *(int *)number;
    cudaStream_t stream;
    void *plain, *ordered;
    pthread_barrier_wait(&together);
    CUDA(cudaMalloc(&left[me], MEBI));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < ROUNDS; round++) {
        CUDA(cudaMalloc(&plain, MEBI));
        fill(plain, me);
        CUDA(cudaMallocAsync(&ordered, MEBI, stream));
        CUDA(cudaMemsetAsync(ordered, me + 100, MEBI, stream));
        CUDA(cudaFreeAsync(ordered, stream));
        holds(plain, me);
        CUDA(cudaFree(plain));
    }
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamDestroy(stream));
    pthread_barrier_wait(&together);
    CUDA(cudaFree(left[(me + 1) % THREADS]));
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    int number[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        CHECK(pthread_create(&thread[i], NULL, work, &number[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    puts("all threads");
    return 0;
}
