/* SPDX-License-Identifier: Apache-2.0 */
/* Launches, and what is known of kernels. The driver orders, costs and counts a kernel, and does nothing for it. */
#include "device/emu/runtime/rt.h"

#include <limits.h>

/* ---- launches --------------------------------------------------------------------------------------------------- */

/* What the driver calls an invalid value, the runtime calls an invalid configuration. */
static cudaError_t check_shape(dim3 grid, dim3 block) {
    enum { MOST_THREADS = 1024, MOST_BLOCKS = 65535 };
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT_MAX || grid.y > MOST_BLOCKS || grid.z > MOST_BLOCKS)
        return cudaErrorInvalidConfiguration;
    if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > MOST_THREADS || block.y > MOST_THREADS)
        return cudaErrorInvalidConfiguration;
    const size_t threads = (size_t)block.x * block.y * block.z;
    return threads <= MOST_THREADS ? cudaSuccess : cudaErrorInvalidConfiguration;
}

static cudaError_t launch(const void *stub_or_kernel, const struct rt_launch_config *config, void **arguments) {
    cudaKernel_t kernel = NULL;
    cudaError_t code = rt_begin();
    if (code == cudaSuccess) code = rt_find_kernel(stub_or_kernel, &kernel);
    if (code == cudaSuccess) code = check_shape(config->grid, config->block);
    const cudaFunction_t function = (cudaFunction_t)(void *)kernel; /* a launch takes either */
    return rt_end(code == cudaSuccess ? RT_CALL(cuLaunchKernelEx, (config, function, arguments, NULL)) : code);
}

static cudaError_t launch_plain(const void *stub_or_kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                cudaStream_t stream) {
    if (shared > UINT_MAX) return rt_end(cudaErrorInvalidValue);
    const struct rt_launch_config config = {
        .grid = grid, .block = block, .shared_bytes = (unsigned)shared, .stream = stream};
    return launch(stub_or_kernel, &config, arguments);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream) {
    return launch_plain(kernel, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernel_ptsz(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                  cudaStream_t stream) {
    return launch_plain(kernel, grid, block, arguments, shared, rt_per_thread(stream));
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream) {
    return launch_plain(kernel, grid, block, arguments, shared, stream);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                    cudaStream_t stream) {
    return launch_plain(kernel, grid, block, arguments, shared, rt_per_thread(stream));
}

static cudaError_t launch_cooperative(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                      cudaStream_t stream) {
    if (shared > UINT_MAX) return rt_end(cudaErrorInvalidValue);
    cudaLaunchAttribute cooperative = {.id = cudaLaunchAttributeCooperative, .val = {.cooperative = 1}};
    const struct rt_launch_config config = {.grid = grid,
                                            .block = block,
                                            .shared_bytes = (unsigned)shared,
                                            .stream = stream,
                                            .attributes = &cooperative,
                                            .attribute_count = 1};
    return launch(kernel, &config, arguments);
}

cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                        cudaStream_t stream) {
    return launch_cooperative(kernel, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                             cudaStream_t stream) {
    return launch_cooperative(kernel, grid, block, arguments, shared, rt_per_thread(stream));
}

static cudaError_t driver_config(const cudaLaunchConfig_t *config, struct rt_launch_config *out) {
    if (config == NULL || config->dynamicSmemBytes > UINT_MAX) return cudaErrorInvalidValue;
    *out = (struct rt_launch_config){
        .grid = config->gridDim,
        .block = config->blockDim,
        .shared_bytes = (unsigned)config->dynamicSmemBytes,
        .stream = config->stream,
        .attributes = config->attrs,
        .attribute_count = config->numAttrs,
    };
    return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments) {
    struct rt_launch_config same;
    const cudaError_t code = driver_config(config, &same);
    return code == cudaSuccess ? launch(kernel, &same, arguments) : rt_end(code);
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *kernel, void **arguments) {
    struct rt_launch_config same;
    const cudaError_t code = driver_config(config, &same);
    if (code != cudaSuccess) return rt_end(code);
    same.stream = rt_per_thread(same.stream);
    return launch(kernel, &same, arguments);
}

/* ---- kernel<<<...>>>(...) ----------------------------------------------------------------------------------------- */

/* The shape is pushed, the arguments are evaluated (which may launch other kernels), the stub pops it. */
enum { DEEPEST = 64 };
static _Thread_local struct {
    unsigned depth;
    struct shape {
        dim3 grid, block;
        size_t shared;
        cudaStream_t stream;
    } shapes[DEEPEST];
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    if (pushed.depth == DEEPEST) return (unsigned)rt_end(cudaErrorLaunchMaxDepthExceeded);
    pushed.shapes[pushed.depth++] = (struct shape){.grid = grid, .block = block, .shared = shared, .stream = stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    if (pushed.depth == 0) return rt_end(cudaErrorMissingConfiguration);
    const struct shape *shape = &pushed.shapes[--pushed.depth];
    *grid = shape->grid;
    *block = shape->block;
    *shared = shape->shared;
    *(cudaStream_t *)stream = shape->stream;
    return cudaSuccess;
}

/* ---- what is known of a kernel ---------------------------------------------------------------------------------- */

static cudaError_t begin_function(const void *stub_or_kernel, cudaFunction_t *function) {
    const cudaError_t code = rt_begin();
    return code == cudaSuccess ? rt_find_function(stub_or_kernel, function) : code;
}

/* An entry about a kernel. */
#define PASS_KERNEL(name, parameters, symbol, arguments)                                                               \
    cudaError_t name parameters {                                                                                      \
        cudaFunction_t function = NULL;                                                                                \
        const cudaError_t begun = begin_function(kernel, &function);                                                   \
        return rt_end(begun == cudaSuccess ? RT_CALL(symbol, arguments) : begun);                                      \
    }

/* CUfunction_attribute; those from cudaFuncAttribute on have the same numbers. */
enum {
    FUNC_THREADS,
    FUNC_SHARED,
    FUNC_CONSTANT,
    FUNC_LOCAL,
    FUNC_REGISTERS,
    FUNC_PTX,
    FUNC_BINARY,
    FUNC_CACHE,
    FUNC_MOST = 16
};

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel) {
    cudaFunction_t function = NULL;
    int values[FUNC_MOST] = {0};
    if (attributes == NULL) return rt_end(cudaErrorInvalidValue);
    cudaError_t code = begin_function(kernel, &function);
    for (int i = 0; code == cudaSuccess && i < FUNC_MOST; i++)
        code = RT_CALL(cuFuncGetAttribute, (&values[i], i, function));
    if (code != cudaSuccess) return rt_end(code);
    *attributes = (struct cudaFuncAttributes){
        .sharedSizeBytes = (size_t)values[FUNC_SHARED],
        .constSizeBytes = (size_t)values[FUNC_CONSTANT],
        .localSizeBytes = (size_t)values[FUNC_LOCAL],
        .maxThreadsPerBlock = values[FUNC_THREADS],
        .numRegs = values[FUNC_REGISTERS],
        .ptxVersion = values[FUNC_PTX],
        .binaryVersion = values[FUNC_BINARY],
        .cacheModeCA = values[FUNC_CACHE],
        .maxDynamicSharedSizeBytes = values[cudaFuncAttributeMaxDynamicSharedMemorySize],
        .preferredShmemCarveout = values[cudaFuncAttributePreferredSharedMemoryCarveout],
        .clusterDimMustBeSet = values[cudaFuncAttributeClusterDimMustBeSet],
        .requiredClusterWidth = values[cudaFuncAttributeRequiredClusterWidth],
        .requiredClusterHeight = values[cudaFuncAttributeRequiredClusterHeight],
        .requiredClusterDepth = values[cudaFuncAttributeRequiredClusterDepth],
        .clusterSchedulingPolicyPreference = values[cudaFuncAttributeClusterSchedulingPolicyPreference],
        .nonPortableClusterSizeAllowed = values[cudaFuncAttributeNonPortableClusterSizeAllowed],
    };
    return cudaSuccess;
}

PASS_KERNEL(cudaFuncSetAttribute, (const void *kernel, enum cudaFuncAttribute attribute, int value), cuFuncSetAttribute,
            (function, (int)attribute, value))
PASS_KERNEL(cudaFuncSetCacheConfig, (const void *kernel, enum cudaFuncCache config), cuFuncSetCacheConfig,
            (function, config))
PASS_KERNEL(cudaFuncGetName, (const char **name, const void *kernel), cuFuncGetName, (name, function))
PASS_KERNEL(cudaFuncGetParamInfo, (const void *kernel, size_t index, size_t *offset, size_t *bytes), cuFuncGetParamInfo,
            (function, index, offset, bytes))

/* A preference without a meaning on any device of today. */
cudaError_t cudaFuncSetSharedMemConfig(const void *kernel, enum cudaSharedMemConfig config) {
    cudaFunction_t function = NULL;
    if ((unsigned)config > cudaSharedMemBankSizeEightByte) return rt_end(cudaErrorInvalidValue);
    return rt_end(begin_function(kernel, &function));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *kernel) {
    return rt_end(function != NULL ? begin_function(kernel, function) : cudaErrorInvalidValue);
}

/* ---- occupancy -------------------------------------------------------------------------------------------------- */

PASS_KERNEL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
            (int *blocks, const void *kernel, int threads, size_t shared_bytes, unsigned flags),
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (blocks, function, threads, shared_bytes, flags))
PASS_KERNEL(cudaOccupancyAvailableDynamicSMemPerBlock,
            (size_t * shared_bytes, const void *kernel, int blocks, int threads),
            cuOccupancyAvailableDynamicSMemPerBlock, (shared_bytes, function, blocks, threads))

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
                                                          size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared_bytes, 0);
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *kernel, const cudaLaunchConfig_t *config) {
    cudaFunction_t function = NULL;
    struct rt_launch_config same;
    cudaError_t code = driver_config(config, &same);
    if (code == cudaSuccess) code = begin_function(kernel, &function);
    return rt_end(code == cudaSuccess ? RT_CALL(cuOccupancyMaxPotentialClusterSize, (size, function, &same)) : code);
}

cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *kernel, const cudaLaunchConfig_t *config) {
    cudaFunction_t function = NULL;
    struct rt_launch_config same;
    cudaError_t code = driver_config(config, &same);
    if (code == cudaSuccess) code = begin_function(kernel, &function);
    return rt_end(code == cudaSuccess ? RT_CALL(cuOccupancyMaxActiveClusters, (count, function, &same)) : code);
}
