// SPDX-License-Identifier: Apache-2.0
// RMM's resources come from weir: what one stream gives back serves another.
//
//   c++ -std=c++17 rmm.cc -o rmm -I RMM/include/rapids -I RMM/include -I CUDA/include -L RMM/lib64 -lrmm
//       -L CUDA/lib64 -lcudart $(pkg-config --cflags --libs weir)
#include <cstdio>

#include <cuda_runtime_api.h>
#include <rmm/resource_ref.hpp>
#include <weir/rmm.hpp>

int main() {
    weir::rmm_resource resource; // of the current device
    rmm::device_async_resource_ref memory{resource};
    cudaStream_t compute, copies;
    cudaStreamCreate(&compute);
    cudaStreamCreate(&copies);

    void *block = memory.allocate(copies, 64u << 20, 256);
    cudaMemsetAsync(block, 1, 64u << 20, copies);
    memory.deallocate(copies, block, 64u << 20, 256);
    block = memory.allocate(compute, 64u << 20, 256);
    memory.deallocate(compute, block, 64u << 20, 256);
    try {
        (void)memory.allocate(compute, std::size_t{1} << 50, 256);
    } catch (rmm::out_of_memory const &error) {
        std::printf("%.72s...\n", error.what());
    }

    weir_pool *pool = nullptr;
    weir_pool_stats stats{};
    stats.size = sizeof stats;
    if (weir_process_pool(0, &pool) != WEIR_OK || weir_pool_get_stats(pool, &stats) != WEIR_OK) return 1;
    std::printf("peak live %zu, peak held %zu, now live %zu\n", stats.peak_live_bytes, stats.peak_held_bytes, stats.live_bytes);
    cudaStreamDestroy(compute);
    cudaStreamDestroy(copies);
    return stats.live_bytes != 0 || stats.out_of_memory != 1;
}
