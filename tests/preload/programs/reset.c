/* SPDX-License-Identifier: Apache-2.0 */
/* Resets the device with blocks live, and goes on. */
#include "scenes.h"

int main(void) {
    void *block, *old = NULL;
    for (int round = 0; round < 3; round++) {
        size_t before, after, total;
        CUDA(cudaMemGetInfo(&before, &total));
        CUDA(cudaMalloc(&block, MEBI));
        fill(block, round);
        holds(block, round);
        CUDA(cudaMemGetInfo(&after, &total));
        CHECK(after <= before - MEBI && after <= total);
        CUDA(cudaDeviceReset());
        CHECK(old == NULL || cudaFree(old) == cudaErrorInvalidValue);
        CHECK(cudaGetLastError() == (old == NULL ? cudaSuccess : cudaErrorInvalidValue));
        old = block;
    }
    puts("three resets");
    return 0;
}
