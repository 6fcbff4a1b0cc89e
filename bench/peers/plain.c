/* SPDX-License-Identifier: Apache-2.0 */
/* No caching: each block is the driver's own, and each free waits for all of the device's work. */
#include "peer.h"

void *weir_peer_alloc(ssize_t bytes, int device, cudaStream_t stream) {
    void *block = NULL;
    (void)stream;
    return cudaSetDevice(device) == cudaSuccess && cudaMalloc(&block, (size_t)bytes) == cudaSuccess ? block : NULL;
}

void weir_peer_free(void *block, ssize_t bytes, int device, cudaStream_t stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    (void)cudaFree(block); /* what fails here fails at the next call again, which can say so */
}

/* cudaFree waits for every stream. */
void weir_peer_use(void *block, cudaStream_t stream) {
    (void)block;
    (void)stream;
}
