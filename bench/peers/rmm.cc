// SPDX-License-Identifier: Apache-2.0
// RMM's resources for C++, for weir-replay: the functions of a peer library over RMM's headers as pip has them up to release
// 25.04. Later ones are a library with NVIDIA's own runtime inside, which needs NVIDIA's driver. Built by run.sh alone.
// WEIR_PEER_RMM says which: "pool" or "arena", each given the whole device at once, which is the best for what fits.
//
// RMM has no call for a use on another stream: whoever frees makes the block's stream wait first.
#include <cstdlib>
#include <cstring>
#include <rmm/mr/device/arena_memory_resource.hpp>
#include <rmm/mr/device/cuda_memory_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>

using rmm::mr::cuda_memory_resource;

static rmm::mr::device_memory_resource *make() {
    static cuda_memory_resource device;
    const std::size_t all = rmm::percent_of_free_device_memory(100);
    const char *kind = std::getenv("WEIR_PEER_RMM");
    if (kind != nullptr && std::strcmp(kind, "arena") == 0)
        return new rmm::mr::arena_memory_resource<cuda_memory_resource>(&device, all);
    return new rmm::mr::pool_memory_resource<cuda_memory_resource>(&device, all);
}

// Lives as long as the process: a run ends with its process.
static rmm::mr::device_memory_resource &resource() {
    static rmm::mr::device_memory_resource *const made = make();
    return *made;
}

#define PEER_API extern "C" __attribute__((visibility("default")))

PEER_API void *weir_peer_alloc(ssize_t bytes, int, cudaStream_t stream) try {
    return resource().allocate(static_cast<std::size_t>(bytes), rmm::cuda_stream_view{stream});
} catch (...) {
    return nullptr;
}

PEER_API void weir_peer_free(void *block, ssize_t bytes, int, cudaStream_t stream) {
    resource().deallocate(block, static_cast<std::size_t>(bytes), rmm::cuda_stream_view{stream});
}

PEER_API void *weir_peer_stream() {
    cudaStream_t stream = nullptr;
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess ? stream : nullptr;
}
