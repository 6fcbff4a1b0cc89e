/* SPDX-License-Identifier: Apache-2.0 */
/* Device 1 reads and writes memory of device 0: taken before access was enabled, and after. */
#include "scenes.h"

int main(void) {
    void *there[2], *here;
    int can = 0;
    CUDA(cudaDeviceCanAccessPeer(&can, 1, 0));
    CHECK(can);
    CUDA(cudaSetDevice(0));
    CUDA(cudaMalloc(&there[0], MEBI));
    fill(there[0], 1);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaSetDevice(1));
    CUDA(cudaDeviceEnablePeerAccess(0, 0));
    CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
    CHECK(cudaGetLastError() == cudaErrorPeerAccessAlreadyEnabled);
    CUDA(cudaMalloc(&here, MEBI));
    CUDA(cudaMemcpy(here, there[0], MEBI, cudaMemcpyDeviceToDevice));
    holds(here, 1);
    CUDA(cudaSetDevice(0));
    CUDA(cudaMalloc(&there[1], MEBI));
    CUDA(cudaSetDevice(1));
    fill(there[1], 2);
    holds(there[1], 2);
    CUDA(cudaMemcpyPeer(here, 1, there[1], 0, MEBI));
    holds(here, 2);
    CUDA(cudaDeviceDisablePeerAccess(0));
    CUDA(cudaFree(here));
    CUDA(cudaFree(there[0]));
    CUDA(cudaFree(there[1]));
    puts("two devices, one memory");
    return 0;
}
