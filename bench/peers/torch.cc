// SPDX-License-Identifier: Apache-2.0
// PyTorch's own caching allocator, for weir-bench-pool and weir-replay: the functions of a peer library over c10 as pip has it.
// PYTORCH_ALLOC_CONF has its settings. Built by `./run.sh bench --torch` alone, against the headers that come with it; the one file of C++ here, since that
// allocator has no interface in C. An allocation names its stream, which is what torch.empty does once it has read the current one.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/PeerToPeerAccess.h>
#include <cuda.h>
#include <c10/util/Logging.h>
#include <dlfcn.h>

namespace allocator = c10::cuda::CUDACachingAllocator;

// What the rest of PyTorch, which is not loaded here, tells c10 when it is; its headers do not have it.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*function)(DeviceIndex));
}

// By the driver call that PyTorch makes for it.
static bool has_primary_context(c10::DeviceIndex device) {
    static const auto state = reinterpret_cast<CUresult (*)(CUdevice, unsigned *, int *)>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDevicePrimaryCtxGetState"));
    unsigned flags = 0;
    int active = 0;
    return state != nullptr && state(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

#define PEER_API extern "C" __attribute__((visibility("default")))

// At the first call, whichever it is: bench-pool asks for a stream first, a replay for memory.
static void begin() {
    static const bool begun = [] {
        c10::initLogging(); // reads TORCH_CPP_LOG_LEVEL
        c10::cuda::_internal::setHasPrimaryContext(has_primary_context);
        c10::cuda::detail::init_p2p_access_cache(1); // expandable segments ask it
        allocator::init(1);
        return true;
    }();
    (void)begun;
}

// A stream of PyTorch's own; null when there is no device.
PEER_API void *weir_peer_stream() try {
    begin();
    return c10::cuda::getStreamFromPool(false, 0).stream();
} catch (...) {
    return nullptr;
}

PEER_API void *weir_peer_alloc(ssize_t bytes, int, cudaStream_t stream) try {
    begin();
    return allocator::raw_alloc_with_stream(static_cast<size_t>(bytes), stream);
} catch (...) {
    return nullptr;
}

PEER_API void weir_peer_free(void *block, ssize_t, int, cudaStream_t) { allocator::raw_delete(block); }

// What Tensor.record_stream comes to, which holds its block by such a pointer.
PEER_API void weir_peer_use(void *block, cudaStream_t stream) {
    c10::DataPtr held(block, block, allocator::get()->raw_deleter(), c10::Device(c10::kCUDA, 0));
    allocator::recordStream(held, c10::cuda::getStreamFromExternal(stream, 0));
    held.release_context();
}
