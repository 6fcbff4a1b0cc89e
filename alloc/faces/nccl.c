/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers as of ncclMemAlloc. */
#include "alloc/faces/face.h"
#include "alloc/pool.h"

enum { NCCL_SUCCESS, NCCL_DRIVER, NCCL_SYSTEM, NCCL_INTERNAL, NCCL_ARGUMENT, NCCL_USAGE }; /* ncclResult_t */

static int answer(const char *call, enum weir_status status) {
    if (weir__face_ok(call, status)) return NCCL_SUCCESS;
    switch (status) {
    case WEIR_OUT_OF_MEMORY:
    case WEIR_DRIVER:
    case WEIR_NO_DEVICE:
        return NCCL_DRIVER;
    case WEIR_OUT_OF_HOST_MEMORY:
    case WEIR_SYSTEM:
        return NCCL_SYSTEM;
    case WEIR_INVALID:
        return NCCL_ARGUMENT;
    case WEIR_NOT_SUPPORTED:
        return NCCL_USAGE;
    default:
        return NCCL_INTERNAL;
    }
}

/* Other devices that can reach the buffer may use it. */
static enum weir_status let_peers_in(struct weir_device *device, const struct weir_block *block) {
    const struct weir__driver *driver = device->driver;
    CUdevice peer;
    int count = 0, can = 0;
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    driver->device_count(&count);
    for (int ordinal = 0; ordinal < count && status == WEIR_OK; ordinal++) {
        if (driver->device_get(&peer, ordinal) != CUDA_SUCCESS || peer == device->handle) continue;
        if (driver->device_can_access_peer(&can, peer, device->handle) != CUDA_SUCCESS || can == 0) continue;
        const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer},
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        status = weir__device_check(
            device, driver->page_set_access((CUdeviceptr)(uintptr_t)block->start, block->bytes, &access, 1),
            "cuMemSetAccess");
    }
    weir__device_leave(device);
    return status;
}

/* A block that is alone has new pages, so that every stream may use it at once. */
static enum weir_status allocate(struct weir_pool *pool, size_t bytes, void **out) {
    struct weir_block block = {.size = sizeof block};
    enum weir_status status = weir_pool_alloc_exportable(pool, bytes, NULL, out);
    const bool alone = status == WEIR_OK;
    if (status == WEIR_NOT_SUPPORTED) status = weir_pool_alloc_any(pool, bytes, out);
    if (status != WEIR_OK) return status;
    status = weir_pool_find(pool, *out, &block);
    if (status == WEIR_OK && alone) status = let_peers_in(pool->device, &block);
    if (status == WEIR_OK) status = weir_pool_register(pool, block.start, block.bytes);
    if (status == WEIR_OK) return status;
    weir_pool_free_any(pool, *out);
    *out = NULL;
    return status;
}

int weir_nccl_mem_alloc(void **out, size_t bytes) {
    const char *call = "weir_nccl_mem_alloc";
    if (out == NULL) return answer(call, WEIR__INVALID("out is NULL"));
    *out = NULL;
    if (bytes == 0) return NCCL_SUCCESS;
    struct weir_pool *pool = NULL;
    enum weir_status status = weir_process_pool(weir__face_current_device(), &pool);
    if (status == WEIR_OK) status = allocate(pool, bytes, out);
    return answer(call, status);
}

int weir_nccl_mem_free(void *buffer) {
    const char *call = "weir_nccl_mem_free";
    if (buffer == NULL) return NCCL_SUCCESS;
    struct weir_block block = {.size = sizeof block};
    struct weir_pool *pool = weir__face_pool_of(buffer);
    enum weir_status status =
        pool != NULL ? weir_pool_find(pool, buffer, &block) : WEIR__INVALID("%p is no buffer of weir's", buffer);
    if (status == WEIR_OK && block.start != buffer) status = WEIR__INVALID("%p lies inside a block", buffer);
    if (status == WEIR_OK) status = weir_pool_unregister(pool, buffer, block.bytes);
    if (status == WEIR_OK) status = weir_pool_free_any(pool, buffer);
    weir__face_block_ok(call, status);
    return answer(call, status);
}
