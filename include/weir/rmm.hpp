// SPDX-License-Identifier: Apache-2.0
// A resource for rmm::mr: memory of a device from weir's pool, in stream order on both sides. Header only; link with libweir.so.
//
//   rmm::mr::set_current_device_resource(weir::rmm_resource{});    // of the current device
//
// For RMM whose resources are cuda::mr::resource (tried with 26.10). All objects of one device are the same resource; copying one costs nothing.
// Fails as RMM's own: rmm::out_of_memory with weir's report, else rmm::bad_alloc. Threads: any.
#ifndef WEIR_RMM_HPP
#define WEIR_RMM_HPP

#include <cstddef>
#include <string>

#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <cuda_runtime_api.h>
#include <rmm/error.hpp>

#include "weir/faces.h"

namespace weir {

class rmm_resource {
  public:
    rmm_resource() : rmm_resource(current()) {}
    explicit rmm_resource(int device) : device_{sizeof(weir_face_device), device} {}

    void *allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = 256) {
        void *block = nullptr;
        weir_pool *pool = pool_of();
        check(weir_pool_alloc_aligned(pool, bytes, alignment, stream.get(), &block), pool);
        return block;
    }

    void deallocate(cuda::stream_ref stream, void *block, std::size_t bytes, std::size_t = 256) noexcept {
        weir_rmm_free(block, bytes, stream.get(), &device_);
    }

    // Of no stream: ready for every one at once, unused once all that is queued in the device's context has passed.
    void *allocate_sync(std::size_t bytes, std::size_t alignment = 256) {
        void *block = nullptr;
        weir_pool *pool = pool_of();
        if (alignment > 512) throw rmm::bad_alloc{"weir: an alignment above 512 needs a stream"};
        check(weir_pool_alloc_any(pool, bytes, &block), pool);
        return block;
    }

    void deallocate_sync(void *block, std::size_t, std::size_t = 256) noexcept {
        weir_cupy_free(nullptr, block, device_.ordinal);
    }

    friend void get_property(rmm_resource const &, cuda::mr::device_accessible) noexcept {}
    bool operator==(rmm_resource const &other) const noexcept { return device_.ordinal == other.device_.ordinal; }
    bool operator!=(rmm_resource const &other) const noexcept { return !(*this == other); }

  private:
    static int current() {
        int device = 0;
        if (cudaGetDevice(&device) != cudaSuccess) throw rmm::bad_alloc{"weir: no current device"};
        return device;
    }

    weir_pool *pool_of() const {
        weir_pool *pool = nullptr;
        check(weir_process_pool(device_.ordinal, &pool), nullptr);
        return pool;
    }

    static void check(weir_status status, weir_pool *pool) {
        if (status == WEIR_OK) return;
        std::string text = std::string("weir: ") + weir_last_error()->message;
        if (status != WEIR_OUT_OF_MEMORY) throw rmm::bad_alloc{text};
        std::string report(weir_pool_report(pool, nullptr, 0) + 256, '\0');
        weir_pool_report(pool, report.data(), report.size());
        throw rmm::out_of_memory{text + "\n" + report.c_str()};
    }

    weir_face_device device_;
};

static_assert(cuda::mr::resource_with<rmm_resource, cuda::mr::device_accessible>);

} // namespace weir

#endif
