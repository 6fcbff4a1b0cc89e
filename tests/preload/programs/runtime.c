/* SPDX-License-Identifier: Apache-2.0 */
#include "scenes.h"

int main(void) {
    void *block[3];
    CUDA(cudaFree(NULL)); /* the first call of many programs */
    for (int i = 0; i < 3; i++) {
        CUDA(cudaMalloc(&block[i], MEBI));
        fill(block[i], i);
    }
    for (int i = 0; i < 3; i++) {
        holds(block[i], i);
        CUDA(cudaFree(block[i]));
    }
    puts("three blocks");
    return 0;
}
