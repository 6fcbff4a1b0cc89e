/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's memory entries, served from the process's pools. */
#include "alloc/pool.h"
#include "alloc/preload/pinned.h"

static void *pointer(CUdeviceptr address) { return (void *)(uintptr_t)address; }

/* ---- whose a call is ---------------------------------------------------------------------------------------------- */

struct weir_pool *weir__preload_owner(CUdeviceptr address) {
    for (int ordinal = 0; ordinal < weir__process_pools_end(); ordinal++) {
        struct weir_pool *pool = weir__process_pool_made(ordinal);
        if (pool != NULL && weir__pool_has(pool, pointer(address))) return pool;
    }
    return NULL;
}

CUresult weir__preload_code(enum weir_status status) {
    switch (status) {
    case WEIR_OK:
        return CUDA_SUCCESS;
    case WEIR_OUT_OF_MEMORY:
    case WEIR_OUT_OF_HOST_MEMORY:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case WEIR_NOT_SUPPORTED:
        return weir__forked() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_NOT_SUPPORTED;
    case WEIR_DRIVER:
        return weir_last_error()->driver_code != 0 ? (CUresult)weir_last_error()->driver_code : CUDA_ERROR_UNKNOWN;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- allocations -------------------------------------------------------------------------------------------------- */

/* Programs that fill what is there are refused often, and know what to do: the first one is told of. */
static void tell_refusal(void) {
    static bool told;
    const bool again = __atomic_exchange_n(&told, true, __ATOMIC_RELAXED);
    WEIR__COUNT(refused);
    weir__log(again ? WEIR__LOG_INFO : WEIR__LOG_WARN, "preload: %s", weir_last_error()->message);
}

static CUresult give(enum weir_status status, void *block, CUdeviceptr *address) {
    if (status == WEIR_OUT_OF_MEMORY) tell_refusal();
    if (status == WEIR_OK) *address = (CUdeviceptr)(uintptr_t)block;
    return weir__preload_code(status);
}

/* Nothing and nowhere are what the driver says they are. */
static struct weir_pool *plain_pool(const struct weir__real *driver, const CUdeviceptr *address, size_t bytes) {
    if (address == NULL || bytes == 0) return NULL;
    if (weir__preload_plain_is_drivers()) {
        WEIR__COUNT(foreign_option);
        return NULL;
    }
    return weir__preload_pool(driver, true);
}

static CUresult plain(struct weir_pool *pool, CUdeviceptr *address, size_t bytes) {
    void *block;
    const enum weir_status status = weir_pool_alloc_any(pool, bytes, &block);
    if (status == WEIR_OK) WEIR__COUNT(plain_allocs);
    return give(status, block, address);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    DRIVER_OR_FAIL(driver, cuMemAlloc_v2);
    struct weir_pool *pool = plain_pool(driver, address, bytes);
    if (pool != NULL) return plain(pool, address, bytes);
    FROM_DRIVER(driver, weir__preload_device_of(driver, NULL), bytes, cuMemAlloc_v2(address, bytes));
}

#define PITCH ((size_t)512) /* of rows, in bytes, as on every device so far */

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    DRIVER_OR_FAIL(driver, cuMemAllocPitch_v2);
    const bool good = pitch != NULL && (element == 4 || element == 8 || element == 16);
    const size_t row = width > SIZE_MAX - PITCH ? SIZE_MAX : (width + PITCH - 1) / PITCH * PITCH;
    struct weir_pool *pool = good && height > 0 ? plain_pool(driver, address, width) : NULL;
    if (pool == NULL)
        FROM_DRIVER(driver, weir__preload_device_of(driver, NULL), 0,
                    cuMemAllocPitch_v2(address, pitch, width, height, element));
    const CUresult code = plain(pool, address, row > SIZE_MAX / height ? SIZE_MAX : row * height);
    if (code == CUDA_SUCCESS) *pitch = row;
    return code;
}

static bool is_default(CUstream stream) {
    return stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/* A stream's memory is of its own device, whatever context is current. */
static struct weir_pool *pool_of_stream(const struct weir__real *driver, CUstream stream) {
    CUcontext context = NULL;
    if (is_default(stream)) return weir__preload_pool(driver, true);
    const int ordinal = weir__device_of_stream(stream);
    if (ordinal >= 0) return weir__process_pool_made(ordinal);
    if (driver->cuStreamGetCtx == NULL || driver->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) return NULL;
    struct weir_pool *pool = weir__preload_pool_of(context);
    if (pool == NULL) WEIR__COUNT(foreign_context);
    return pool;
}

static struct weir_pool *stream_pool(const struct weir__real *driver, const CUdeviceptr *address, size_t bytes,
                                     CUstream stream) {
    if (address == NULL || bytes == 0 || !weir__preload_on()) return NULL;
    bool captures;
    if (weir__preload_look(driver, stream, &captures) != CUDA_SUCCESS) return NULL; /* it says so once more */
    if (captures) { /* the allocation is to be a node of the graph */
        WEIR__COUNT(foreign_capture);
        return NULL;
    }
    return pool_of_stream(driver, stream);
}

static CUresult on_stream(struct weir_pool *pool, CUdeviceptr *address, size_t bytes, CUstream stream) {
    void *block;
    const enum weir_status status = weir_pool_alloc(pool, bytes, stream, &block);
    if (status == WEIR_OK) WEIR__COUNT(stream_allocs);
    return give(status, block, address);
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    DRIVER_OR_FAIL(driver, cuMemAllocAsync);
    struct weir_pool *pool = stream_pool(driver, address, bytes, stream);
    if (pool != NULL && weir__preload_has_own_pool(pool->device->handle)) {
        WEIR__COUNT(foreign_pool);
        pool = NULL;
    }
    if (pool != NULL) return on_stream(pool, address, bytes, stream);
    FROM_DRIVER(driver, weir__preload_device_of(driver, stream), bytes, cuMemAllocAsync(address, bytes, stream));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return cuMemAllocAsync(address, bytes, weir__preload_own(stream));
}

bool weir__preload_is_usual(const struct weir__real *driver, CUmemoryPool asked, const struct weir_pool *pool) {
    CUmemoryPool usual = NULL;
    return driver->cuDeviceGetDefaultMemPool != NULL &&
           driver->cuDeviceGetDefaultMemPool(&usual, pool->device->handle) == CUDA_SUCCESS && usual == asked;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool from, CUstream stream) {
    DRIVER_OR_FAIL(driver, cuMemAllocFromPoolAsync);
    struct weir_pool *pool = stream_pool(driver, address, bytes, stream);
    if (pool != NULL && !weir__preload_is_usual(driver, from, pool)) {
        WEIR__COUNT(foreign_pool);
        pool = NULL;
    }
    if (pool != NULL) return on_stream(pool, address, bytes, stream);
    FROM_DRIVER(driver, weir__preload_device_of(driver, stream), bytes,
                cuMemAllocFromPoolAsync(address, bytes, from, stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes, CUmemoryPool from, CUstream stream) {
    return cuMemAllocFromPoolAsync(address, bytes, from, weir__preload_own(stream));
}

/* ---- frees -------------------------------------------------------------------------------------------------------- */

/* A plain free promises nothing of streams: all work queued by now is waited for, on the device. */
CUresult cuMemFree_v2(CUdeviceptr address) {
    DRIVER_OR_FAIL(driver, cuMemFree_v2);
    struct weir_pool *pool = address == 0 ? NULL : weir__preload_owner(address);
    if (pool == NULL) {
        if (address != 0) WEIR__COUNT(foreign_frees);
        return driver->cuMemFree_v2(address);
    }
    if (weir__preload_in_host_function(driver)) return CUDA_ERROR_NOT_PERMITTED;
    const enum weir_status status = weir_pool_free_any(pool, pointer(address));
    if (status == WEIR_OK) WEIR__COUNT(plain_frees);
    return weir__preload_code(status);
}

static CUresult context_of(const struct weir__real *driver, CUstream stream, CUcontext *context) {
    if (is_default(stream)) return driver->cuCtxGetCurrent(context);
    const struct weir_device *device = weir__process_device_made(weir__device_of_stream(stream));
    if (device == NULL) return driver->cuStreamGetCtx(stream, context);
    *context = device->context;
    return CUDA_SUCCESS;
}

/* The pool can record nothing on a stream of another context: what is queued there gets an event, after which the block is free. */
static CUresult free_elsewhere(struct weir_pool *pool, CUdeviceptr address, CUcontext context, CUstream stream) {
    const struct weir__driver *driver = pool->device->driver;
    CUcontext popped;
    CUevent event;
    CUresult code = driver->context_push(context);
    if (code != CUDA_SUCCESS) return code;
    code = driver->event_create(&event, CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS) {
        code = driver->event_record(event, stream);
        if (code == CUDA_SUCCESS) code = weir__preload_code(weir_pool_free_after(pool, pointer(address), event));
        (void)driver->event_destroy(event);
    }
    (void)driver->context_pop(&popped);
    return code;
}

static CUresult free_on(const struct weir__real *driver, struct weir_pool *pool, CUdeviceptr address, CUstream stream) {
    CUcontext context = NULL;
    const CUresult code = context_of(driver, stream, &context);
    if (code != CUDA_SUCCESS) return code;
    if (context != pool->device->context) return free_elsewhere(pool, address, context, stream);
    return weir__preload_code(weir_pool_free(pool, pointer(address), stream));
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    bool captures = false;
    DRIVER_OR_FAIL(driver, cuMemFreeAsync);
    struct weir_pool *pool = address == 0 ? NULL : weir__preload_owner(address);
    CUresult code = pool == NULL ? CUDA_SUCCESS : weir__preload_look(driver, stream, &captures);
    if (code != CUDA_SUCCESS) return code;
    if (pool == NULL || captures) { /* a graph frees what it allocated, and nothing else */
        if (address != 0) WEIR__COUNT(foreign_frees);
        return driver->cuMemFreeAsync(address, stream);
    }
    code = free_on(driver, pool, address, stream);
    if (code == CUDA_SUCCESS) WEIR__COUNT(stream_frees);
    return code;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
    return cuMemFreeAsync(address, weir__preload_own(stream));
}

/* To the driver a block is a part of what weir has mapped, and could be unmapped. */
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    DRIVER_OR_FAIL(driver, cuMemUnmap);
    return weir__preload_owner(address) != NULL ? CUDA_ERROR_INVALID_VALUE : driver->cuMemUnmap(address, bytes);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    DRIVER_OR_FAIL(driver, cuMemAddressFree);
    return weir__preload_owner(address) != NULL ? CUDA_ERROR_INVALID_VALUE : driver->cuMemAddressFree(address, bytes);
}

/* ---- what a program can learn of its memory ----------------------------------------------------------------------- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* What is held and not live counts as free, and no more than the limit leaves: what a program could have from here on. In a context of
 * its own it is given no memory of weir's, and has no limit. */
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    DRIVER_OR_FAIL(driver, cuMemGetInfo_v2);
    const CUresult code = driver->cuMemGetInfo_v2(free_bytes, total_bytes);
    if (code != CUDA_SUCCESS || free_bytes == NULL || !weir__preload_on()) return code;
    struct weir_pool *served = weir__preload_pool(driver, false);
    struct weir_pool *pool = served != NULL ? served : weir__process_pool_made(weir__preload_device_of(driver, NULL));
    struct weir_pool_stats stats = {.size = sizeof stats};
    if (pool == NULL || weir_pool_get_stats(pool, &stats) != WEIR_OK) return code;
    const size_t beyond = stats.live_bytes < stats.limit_bytes ? stats.limit_bytes - stats.live_bytes : 0;
    *free_bytes = least(*free_bytes + (stats.held_bytes - stats.live_bytes), served != NULL ? beyond : SIZE_MAX);
    return code;
}

/* The live block around an address of the pool's, as it was asked for: what lies behind that is nobody's. */
static bool find(struct weir_pool *pool, CUdeviceptr address, struct weir_block *block) {
    *block = (struct weir_block){.size = sizeof *block};
    return weir_pool_find(pool, pointer(address), block) == WEIR_OK &&
           address - (CUdeviceptr)(uintptr_t)block->start < block->requested_bytes;
}

/* Pinned host memory, where it is served: a block as it was asked for; what lies in none is freed, or was never the program's. */
static bool find_pinned(const struct weir__real *driver, const struct weir_pool *pool, CUdeviceptr address,
                        struct weir__pinned_found *found) {
    return pool == NULL && weir__preload_host_is_pooled() && !weir__forked() &&
           weir__pinned_find(driver, address, found);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    DRIVER_OR_FAIL(driver, cuMemGetAddressRange_v2);
    struct weir_pool *pool = weir__preload_owner(address);
    struct weir_block block;
    struct weir__pinned_found pinned;
    if (pool == NULL) {
        const bool known = find_pinned(driver, pool, address, &pinned);
        const CUresult code =
            known && !pinned.live ? CUDA_ERROR_NOT_FOUND : driver->cuMemGetAddressRange_v2(base, bytes, address);
        if (known && code == CUDA_SUCCESS && bytes != NULL) *bytes = pinned.bytes;
        return code;
    }
    if (!find(pool, address, &block)) return CUDA_ERROR_NOT_FOUND;
    if (base != NULL) *base = (CUdeviceptr)(uintptr_t)block.start;
    if (bytes != NULL) *bytes = block.requested_bytes;
    return CUDA_SUCCESS;
}

/* Somebody is going to remember these addresses: their pages stay. */
static CUresult keep_pages(struct weir_pool *pool, const struct weir_block *block) {
    return weir__preload_code(weir_pool_register(pool, block->start, block->requested_bytes));
}

static bool remembers(CUpointer_attribute attribute) {
    return attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS || attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
           attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
}

/* To the driver the block is a part of something larger, and of no context. */
static void correct(void *data, CUpointer_attribute attribute, const struct weir_pool *pool,
                    const struct weir_block *block) {
    if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
        *(CUcontext *)data = pool->device->context;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)data = (CUdeviceptr)(uintptr_t)block->start;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)data = block->requested_bytes;
}

static void correct_pinned(void *data, CUpointer_attribute attribute, const struct weir__pinned_found *found) {
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) *(size_t *)data = found->bytes;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    DRIVER_OR_FAIL(driver, cuPointerGetAttribute);
    struct weir_pool *pool = weir__preload_owner(address);
    struct weir_block block;
    struct weir__pinned_found pinned;
    const bool host = find_pinned(driver, pool, address, &pinned);
    if ((pool != NULL && !find(pool, address, &block)) || (host && !pinned.live))
        return CUDA_ERROR_INVALID_VALUE; /* freed */
    CUresult code = pool != NULL && remembers(attribute) ? keep_pages(pool, &block) : CUDA_SUCCESS;
    if (code == CUDA_SUCCESS) code = driver->cuPointerGetAttribute(data, attribute, address);
    if (pool != NULL && code == CUDA_SUCCESS) correct(data, attribute, pool, &block);
    if (host && code == CUDA_SUCCESS) correct_pinned(data, attribute, &pinned);
    return code;
}

/* Of memory that is nobody's the driver says nothing, and does not fail: so it is asked for an address of the host's instead. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address) {
    DRIVER_OR_FAIL(driver, cuPointerGetAttributes);
    struct weir_pool *pool = weir__preload_owner(address);
    struct weir_block block;
    struct weir__pinned_found pinned;
    const bool host = find_pinned(driver, pool, address, &pinned);
    const bool freed = (pool != NULL && !find(pool, address, &block)) || (host && !pinned.live);
    CUresult code = CUDA_SUCCESS;
    for (unsigned i = 0; pool != NULL && !freed && attributes != NULL && i < count && code == CUDA_SUCCESS; i++)
        if (remembers(attributes[i])) code = keep_pages(pool, &block);
    if (code == CUDA_SUCCESS)
        code =
            driver->cuPointerGetAttributes(count, attributes, data, freed ? (CUdeviceptr)(uintptr_t)&block : address);
    for (unsigned i = 0; pool != NULL && !freed && i < count && code == CUDA_SUCCESS; i++)
        if (data[i] != NULL) correct(data[i], attributes[i], pool, &block);
    for (unsigned i = 0; host && !freed && i < count && code == CUDA_SUCCESS; i++)
        if (data[i] != NULL) correct_pinned(data[i], attributes[i], &pinned);
    return code;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    DRIVER_OR_FAIL(driver, cuPointerSetAttribute);
    struct weir_pool *pool = weir__preload_owner(address);
    struct weir_block block;
    if (pool != NULL && !find(pool, address, &block)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = pool != NULL ? keep_pages(pool, &block) : CUDA_SUCCESS;
    return code == CUDA_SUCCESS ? driver->cuPointerSetAttribute(value, attribute, address) : code;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    DRIVER_OR_FAIL(driver, cuMemRetainAllocationHandle);
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    struct weir_pool *pool = weir__preload_owner(at);
    struct weir_block block;
    if (pool != NULL && !find(pool, at, &block)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = pool != NULL ? keep_pages(pool, &block) : CUDA_SUCCESS;
    return code == CUDA_SUCCESS ? driver->cuMemRetainAllocationHandle(handle, address) : code;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                                       unsigned long long flags) {
    DRIVER_OR_FAIL(driver, cuMemGetHandleForAddressRange);
    struct weir_pool *pool = weir__preload_owner(address);
    struct weir_block block;
    if (pool != NULL && !find(pool, address, &block)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = pool != NULL ? keep_pages(pool, &block) : CUDA_SUCCESS;
    return code == CUDA_SUCCESS ? driver->cuMemGetHandleForAddressRange(handle, address, bytes, type, flags) : code;
}

/* Legacy IPC knows whole allocations of the driver alone. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    DRIVER_OR_FAIL(driver, cuIpcGetMemHandle);
    if (weir__preload_owner(address) == NULL) return driver->cuIpcGetMemHandle(handle, address);
    weir__log(WEIR__LOG_ERROR, "preload: cuIpcGetMemHandle: memory of weir's pool has no legacy IPC handle; with "
                               "WEIR_PRELOAD=plain:driver plain allocations are the driver's, and have");
    return CUDA_ERROR_NOT_SUPPORTED;
}
