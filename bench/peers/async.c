/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own stream-ordered pool, which keeps all that it has ever taken. It is not told of uses on other
 * streams: whoever frees makes the block's stream wait for them first. */
#include <stdatomic.h>

#include "peer.h"

enum { MOST_DEVICES = 64 };

/* Once a device. A pool that can't be set goes on giving its memory back at each synchronisation. */
static void keep_memory(int device) {
    static atomic_bool done[MOST_DEVICES];
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    if (device < 0 || device >= MOST_DEVICES || atomic_exchange(&done[device], 1)) return;
    if (cudaDeviceGetDefaultMemPool(&pool, device) == cudaSuccess)
        (void)cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
}

void *weir_peer_alloc(ssize_t bytes, int device, cudaStream_t stream) {
    void *block = NULL;
    if (cudaSetDevice(device) != cudaSuccess) return NULL;
    keep_memory(device);
    return cudaMallocAsync(&block, (size_t)bytes, stream) == cudaSuccess ? block : NULL;
}

void weir_peer_free(void *block, ssize_t bytes, int device, cudaStream_t stream) {
    (void)bytes;
    (void)device;
    (void)cudaFreeAsync(block, stream); /* what fails here fails at the next call again, which can say so */
}
