/* SPDX-License-Identifier: Apache-2.0 */
/* Entries for stream-ordered memory and its pools. */
#include "device/emu/enter.h"
#include "device/emu/memory.h"
#include "device/emu/pool.h"

/* ---- pools ------------------------------------------------------------------------------------------------------ */

static CUresult enter_pool(enum emu_entry entry, CUmemoryPool pool, const void *place) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    return emu_pool_alive(pool) && place != NULL ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_VALUE);
}

static bool is_device(const CUmemLocation *location) {
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && emu_device_exists(location->id);
}

static CUresult create(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    if (pool == NULL || properties == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (!emu_device_exists(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    CUmemoryPool made = emu_pool_create(properties->location.id, properties->maxSize);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = made;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    const CUresult code = emu_enter(EMU_AT_cuMemPoolCreate, NULL);
    return code != CUDA_SUCCESS ? code : emu_leave(create(pool, properties));
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    const CUresult code = enter_pool(EMU_AT_cuMemPoolDestroy, pool, pool);
    if (code != CUDA_SUCCESS) return code;
    if (pool->is_default) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_pool_destroy(pool);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
    const CUresult code = enter_pool(EMU_AT_cuMemPoolTrimTo, pool, pool);
    if (code != CUDA_SUCCESS) return code;
    emu_pool_trim(pool, bytes);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    const CUresult code = enter_pool(EMU_AT_cuMemPoolGetAttribute, pool, value);
    if (code != CUDA_SUCCESS) return code;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return emu_leave(CUDA_SUCCESS);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(uint64_t *)value = pool->release_threshold;
        return emu_leave(CUDA_SUCCESS);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(uint64_t *)value = pool->used + pool->kept;
        return emu_leave(CUDA_SUCCESS);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(uint64_t *)value = pool->most_reserved;
        return emu_leave(CUDA_SUCCESS);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(uint64_t *)value = pool->used;
        return emu_leave(CUDA_SUCCESS);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(uint64_t *)value = pool->most_used;
        return emu_leave(CUDA_SUCCESS);
    }
    return emu_leave(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    const CUresult code = enter_pool(EMU_AT_cuMemPoolSetAttribute, pool, value);
    if (code != CUDA_SUCCESS) return code;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value != 0;
        return emu_leave(CUDA_SUCCESS);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->release_threshold = *(uint64_t *)value;
        return emu_leave(CUDA_SUCCESS);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: /* can only be set back */
        if (*(uint64_t *)value != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
        if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool->most_used = pool->used;
        if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool->most_reserved = pool->used + pool->kept;
        return emu_leave(CUDA_SUCCESS);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        break;
    }
    return emu_leave(CUDA_ERROR_INVALID_VALUE);
}

/* Kept and told: the process's addresses are the same for all devices. */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count) {
    const CUresult code = enter_pool(EMU_AT_cuMemPoolSetAccess, pool, access);
    if (code != CUDA_SUCCESS) return code;
    for (size_t i = 0; i < count; i++) {
        if (!is_device(&access[i].location)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
        if (access[i].location.id == pool->device && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return emu_leave(CUDA_ERROR_INVALID_VALUE); /* its own device's access stays */
    }
    for (size_t i = 0; i < count; i++) pool->access[access[i].location.id] = (unsigned char)access[i].flags;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location) {
    const CUresult code = enter_pool(EMU_AT_cuMemPoolGetAccess, pool, flags);
    if (code != CUDA_SUCCESS) return code;
    if (location == NULL || !is_device(location)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = (CUmemAccess_flags)pool->access[location->id];
    return emu_leave(CUDA_SUCCESS);
}

/* ---- pools of devices ------------------------------------------------------------------------------------------- */

static CUresult give_pool(CUmemoryPool *place, CUmemoryPool pool) {
    *place = pool;
    return emu_leave(pool != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetDefaultMemPool, device, pool);
    return code != CUDA_SUCCESS ? code : give_pool(pool, emu_pool_default(device));
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetMemPool, device, pool);
    return code != CUDA_SUCCESS ? code : give_pool(pool, emu_pool_current(device));
}

static CUresult set_current(CUdevice device, CUmemoryPool pool) {
    if (!emu_pool_alive(pool) || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
    emu_pool_set_current(device, pool);
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceSetMemPool, device, pool);
    return code != CUDA_SUCCESS ? code : emu_leave(set_current(device, pool));
}

/* CUDA 13's, by location: devices have pools, and only for pinned memory. */
static CUresult check_place(const CUmemLocation *location, CUmemAllocationType type) {
    if (location == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    return emu_device_exists(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult enter_place(enum emu_entry entry, const CUmemLocation *location, CUmemAllocationType type,
                            const void *pool) {
    CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    code = pool == NULL ? CUDA_ERROR_INVALID_VALUE : check_place(location, type);
    return code == CUDA_SUCCESS ? CUDA_SUCCESS : emu_leave(code);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
    const CUresult code = enter_place(EMU_AT_cuMemGetDefaultMemPool, location, type, pool);
    return code != CUDA_SUCCESS ? code : give_pool(pool, emu_pool_default(location->id));
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
    const CUresult code = enter_place(EMU_AT_cuMemGetMemPool, location, type, pool);
    return code != CUDA_SUCCESS ? code : give_pool(pool, emu_pool_current(location->id));
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
    const CUresult code = enter_place(EMU_AT_cuMemSetMemPool, location, type, pool);
    return code != CUDA_SUCCESS ? code : emu_leave(set_current(location->id, pool));
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static CUresult alloc(enum emu_entry entry, CUdeviceptr *address, size_t bytes, CUmemoryPool pool, bool own_pool,
                      CUstream stream) {
    struct emu_queue *queue;
    CUresult code = emu_enter_stream(entry, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (!own_pool) pool = emu_pool_current(queue->context->device);
    if (address == NULL || !emu_pool_alive(pool)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    uintptr_t start = 0;
    code = emu_pool_alloc(pool, queue, bytes, &start);
    if (code == CUDA_SUCCESS) *address = start;
    if (code == CUDA_SUCCESS) emu_watch_hands_out(queue, start, bytes, "cuMemAllocAsync");
    emu_charge(entry, 1, bytes);
    return emu_leave(code);
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return alloc(EMU_AT_cuMemAllocAsync, address, bytes, NULL, false, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return alloc(EMU_AT_cuMemAllocFromPoolAsync, address, bytes, pool, true, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuMemFreeAsync, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(address == 0 ? CUDA_SUCCESS : emu_pool_free(queue, (uintptr_t)address));
}
