/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that launch kernels, and tell how many fit. */
#include "device/emu/emu.h"
#include "device/emu/event.h"
#include "device/emu/figures.h"
#include "device/emu/kernel.h"
#include "device/emu/stream.h"
#include "device/emu/submit.h"

/* ---- launches --------------------------------------------------------------------------------------------------- */

static bool valid_grid(const CUlaunchConfig *config) {
    return config->gridDimX >= 1 && config->gridDimX <= EMU_GRID_WIDTH && config->gridDimY >= 1 &&
           config->gridDimY <= EMU_GRID_HEIGHT && config->gridDimZ >= 1 && config->gridDimZ <= EMU_GRID_HEIGHT;
}

static bool valid_block(const CUlaunchConfig *config) {
    return config->blockDimX >= 1 && config->blockDimX <= EMU_BLOCK_WIDTH && config->blockDimY >= 1 &&
           config->blockDimY <= EMU_BLOCK_WIDTH && config->blockDimZ >= 1 && config->blockDimZ <= EMU_BLOCK_DEPTH &&
           config->blockDimX * config->blockDimY * config->blockDimZ <= EMU_BLOCK_THREADS;
}

static bool cooperative(const CUlaunchConfig *config) {
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && config->attrs[i].value.cooperative) return true;
    return false;
}

static int blocks_of_processor(const struct emu_kernel *kernel, int threads, size_t shared_bytes);

/* All blocks of a cooperative launch must be resident at once. */
static CUresult check_cooperative(const CUlaunchConfig *config, const struct emu_kernel *kernel) {
    const double blocks = (double)config->gridDimX * config->gridDimY * config->gridDimZ;
    const int threads = (int)(config->blockDimX * config->blockDimY * config->blockDimZ);
    const int fit = blocks_of_processor(kernel, threads, config->sharedMemBytes) * EMU_PROCESSORS;
    return blocks > fit ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

/* An event that a launch is to record is recorded when the kernel has ended, which is never too early. */
static CUresult record_events(struct emu_queue *queue, const CUlaunchConfig *config) {
    CUresult code = CUDA_SUCCESS;
    for (unsigned i = 0; i < config->numAttrs && code == CUDA_SUCCESS; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
            attribute->id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            continue;
        CUevent event = attribute->value.launchCompletionEvent.event; /* first member of both */
        code = emu_event_alive(event) ? emu_submit_record(queue, event) : CUDA_ERROR_INVALID_HANDLE;
    }
    return code;
}

static CUresult launch_on(CUcontext context, const CUlaunchConfig *config, CUfunction function) {
    const struct emu_kernel *kernel = emu_kernel_of(function);
    if (kernel == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (config->sharedMemBytes > (unsigned)kernel->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])
        return CUDA_ERROR_INVALID_VALUE;
    if (kernel->image->context != NULL && kernel->image->context != context) return CUDA_ERROR_INVALID_HANDLE;
    CUresult code = cooperative(config) ? check_cooperative(config, kernel) : CUDA_SUCCESS;
    struct emu_queue *queue;
    if (code == CUDA_SUCCESS) code = emu_stream_queue(context, config->hStream, &queue);
    if (code == CUDA_SUCCESS) code = emu_kernel_launch(queue, kernel);
    if (code == CUDA_SUCCESS) code = record_events(queue, config);
    return code;
}

static CUresult launch(enum emu_entry entry, const CUlaunchConfig *config, CUfunction function, bool valid) {
    CUcontext context;
    const CUresult code = emu_enter(entry, &context);
    if (code != CUDA_SUCCESS) return code;
    if (!valid || !valid_grid(config) || !valid_block(config)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(launch_on(context, config, function));
}

/* Parameters come one way or the other; what they are is the kernel's business. */
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra) {
    const CUlaunchConfig config = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, NULL, 0};
    return launch(EMU_AT_cuLaunchKernel, &config, function, parameters == NULL || extra == NULL);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    const bool valid =
        config != NULL && (parameters == NULL || extra == NULL) && (config->numAttrs == 0 || config->attrs != NULL);
    return launch(EMU_AT_cuLaunchKernelEx, config, function, valid);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void **parameters) {
    (void)parameters;
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    const CUlaunchConfig config = {grid_x,  grid_y,       grid_z, block_x,    block_y,
                                   block_z, shared_bytes, stream, &attribute, 1};
    return launch(EMU_AT_cuLaunchCooperativeKernel, &config, function, true);
}

/* ---- occupancy -------------------------------------------------------------------------------------------------- */

static int least(int a, int b) { return a < b ? a : b; }

static int blocks_of_processor(const struct emu_kernel *kernel, int threads, size_t shared_bytes) {
    const int whole_warps = (threads + EMU_WARP_THREADS - 1) / EMU_WARP_THREADS * EMU_WARP_THREADS;
    const int registers = kernel->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] * whole_warps;
    if (shared_bytes > EMU_BLOCK_SHARED_MOST_BYTES || threads > EMU_BLOCK_THREADS) return 0;
    const int shared = (int)shared_bytes + EMU_BLOCK_SHARED_RESERVED_BYTES;
    const int by_threads = least(EMU_PROCESSOR_THREADS / whole_warps, EMU_REGISTERS / registers);
    return least(least(by_threads, EMU_PROCESSOR_SHARED_BYTES / shared), EMU_PROCESSOR_BLOCKS);
}

static CUresult enter_kernel(enum emu_entry entry, CUfunction function, const struct emu_kernel **kernel) {
    CUcontext context;
    const CUresult code = emu_enter(entry, &context);
    if (code != CUDA_SUCCESS) return code;
    *kernel = emu_kernel_of(function);
    return *kernel != NULL ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_HANDLE);
}

static CUresult count_blocks(enum emu_entry entry, int *blocks, CUfunction function, int threads, size_t shared_bytes) {
    const struct emu_kernel *kernel;
    const CUresult code = enter_kernel(entry, function, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (blocks == NULL || threads <= 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *blocks = blocks_of_processor(kernel, threads, shared_bytes);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes) {
    return count_blocks(EMU_AT_cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks, function, threads, shared_bytes);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                              size_t shared_bytes, unsigned flags) {
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    return count_blocks(EMU_AT_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, function, threads,
                        shared_bytes);
}

/* The block size that fills a processor best; the largest of those that do it equally well. */
static CUresult best_block(enum emu_entry entry, int *least_grid, int *block, CUfunction function,
                           CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit) {
    const struct emu_kernel *kernel;
    const CUresult code = enter_kernel(entry, function, &kernel);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_kernel copy = *kernel; /* the program's function below runs without the lock */
    emu_leave(CUDA_SUCCESS);
    if (least_grid == NULL || block == NULL || limit < 0) return CUDA_ERROR_INVALID_VALUE;
    const int most = limit == 0 ? EMU_BLOCK_THREADS : least(limit, EMU_BLOCK_THREADS);
    int best_threads = 0, best_blocks = 0;
    for (int threads = most; threads > 0; threads = (threads - 1) / EMU_WARP_THREADS * EMU_WARP_THREADS) {
        const size_t shared = shared_of != NULL ? shared_of(threads) : shared_bytes;
        const int blocks = blocks_of_processor(&copy, threads, shared);
        if (blocks * threads <= best_blocks * best_threads) continue;
        best_threads = threads;
        best_blocks = blocks;
    }
    *block = best_threads;
    *least_grid = best_blocks * EMU_PROCESSORS;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *least_grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit) {
    return best_block(EMU_AT_cuOccupancyMaxPotentialBlockSize, least_grid, block, function, shared_of, shared_bytes,
                      limit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *least_grid, int *block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
                                                   unsigned flags) {
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    return best_block(EMU_AT_cuOccupancyMaxPotentialBlockSizeWithFlags, least_grid, block, function, shared_of,
                      shared_bytes, limit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *shared_bytes, CUfunction function, int blocks, int threads) {
    const struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuOccupancyAvailableDynamicSMemPerBlock, function, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (shared_bytes == NULL || blocks <= 0 || threads <= 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (blocks > blocks_of_processor(kernel, threads, 0)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    const int each = EMU_PROCESSOR_SHARED_BYTES / blocks - EMU_BLOCK_SHARED_RESERVED_BYTES;
    *shared_bytes = (size_t)least(each, EMU_BLOCK_SHARED_MOST_BYTES);
    return emu_leave(CUDA_SUCCESS);
}

/* ---- clusters --------------------------------------------------------------------------------------------------- */

enum { MOST_PORTABLE_CLUSTER = 8, MOST_CLUSTER = 16 };

static int cluster_of(const CUlaunchConfig *config) {
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            return (int)(config->attrs[i].value.clusterDim.x * config->attrs[i].value.clusterDim.y *
                         config->attrs[i].value.clusterDim.z);
    return 1;
}

static bool valid_config(const CUlaunchConfig *config) {
    return config != NULL && (config->numAttrs == 0 || config->attrs != NULL) && valid_grid(config) &&
           valid_block(config);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *blocks, CUfunction function, const CUlaunchConfig *config) {
    const struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuOccupancyMaxPotentialClusterSize, function, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (blocks == NULL || !valid_config(config)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *blocks =
        kernel->attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] ? MOST_CLUSTER : MOST_PORTABLE_CLUSTER;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config) {
    const struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuOccupancyMaxActiveClusters, function, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (clusters == NULL || !valid_config(config)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    const int cluster = cluster_of(config);
    if (cluster < 1 || cluster > MOST_CLUSTER) return emu_leave(CUDA_ERROR_INVALID_CLUSTER_SIZE);
    const int threads = (int)(config->blockDimX * config->blockDimY * config->blockDimZ);
    *clusters = blocks_of_processor(kernel, threads, config->sharedMemBytes) * EMU_PROCESSORS / cluster;
    return emu_leave(CUDA_SUCCESS);
}
