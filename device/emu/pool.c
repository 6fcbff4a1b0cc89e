/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/pool.h"

#include <assert.h>

#include "device/emu/capture.h"
#include "device/emu/memory.h"
#include "device/emu/queue.h"
#include "device/emu/settings.h"

static struct emu_slots pools = EMU_SLOTS_INITIALIZER(struct CUmemPoolHandle_st);
static CUmemoryPool defaults[EMU_MOST_DEVICES], current[EMU_MOST_DEVICES];

/* ---- pools ------------------------------------------------------------------------------------------------------ */

CUmemoryPool emu_pool_create(CUdevice device, size_t most_bytes) {
    CUmemoryPool pool = emu_slots_take(&pools);
    if (pool == NULL) return NULL;
    const struct emu_slot slot = pool->slot;
    *pool = (struct CUmemPoolHandle_st){.slot = slot, .device = device, .most_bytes = most_bytes, .reuse = {1, 1, 1}};
    pool->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return pool;
}

CUmemoryPool emu_pool_default(CUdevice device) {
    if (defaults[device] == NULL) defaults[device] = emu_pool_create(device, 0);
    if (defaults[device] != NULL) defaults[device]->is_default = true;
    return defaults[device];
}

CUmemoryPool emu_pool_current(CUdevice device) {
    return current[device] != NULL ? current[device] : emu_pool_default(device);
}

void emu_pool_set_current(CUdevice device, CUmemoryPool pool) { current[device] = pool; }

bool emu_pool_alive(CUmemoryPool pool) { return emu_slots_alive(&pools, pool) && !pool->destroyed; }

void emu_pool_trim(CUmemoryPool pool, size_t least_reserved) {
    const size_t reserved = pool->used + pool->kept;
    if (reserved > least_reserved) pool->kept -= emu_memory_trim(pool, reserved - least_reserved);
}

static void drop_if_empty(CUmemoryPool pool) {
    if (pool->destroyed && pool->used == 0) emu_slots_give(&pools, pool);
}

void emu_pool_destroy(CUmemoryPool pool) {
    if (current[pool->device] == pool) current[pool->device] = NULL;
    emu_pool_trim(pool, 0);
    pool->destroyed = true;
    drop_if_empty(pool);
}

bool emu_pool_keeps(CUmemoryPool pool, size_t bytes) {
    (void)bytes; /* they are counted as used still */
    return !pool->destroyed && pool->used + pool->kept <= pool->release_threshold;
}

void emu_pool_has_back(CUmemoryPool pool, size_t bytes, bool kept) {
    assert(pool->used >= bytes);
    pool->used -= bytes;
    if (kept) pool->kept += bytes;
    drop_if_empty(pool);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static size_t rounded(size_t bytes) {
    const size_t granule = emu_settings()->granularity_bytes;
    return (bytes + granule - 1) / granule * granule;
}

/* A pool pays for what it takes anew as a program does that takes pages itself; so does what it gives back (trim). */
static void charge_new(size_t bytes) {
    emu_charge_call(EMU_AT_cuMemCreate, bytes);
    emu_charge_call(EMU_AT_cuMemMap, bytes);
    emu_charge_call(EMU_AT_cuMemSetAccess, bytes);
}

static CUresult alloc_new(const struct emu_plain *plain, size_t bytes, uintptr_t *start) {
    CUmemoryPool pool = plain->pool;
    if (pool->most_bytes > 0) {
        if (bytes > pool->most_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
        emu_pool_trim(pool, pool->most_bytes - bytes);
        if (pool->used + pool->kept > pool->most_bytes - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult code = emu_memory_alloc_as(plain, bytes, start);
    if (code == CUDA_ERROR_OUT_OF_MEMORY && pool->kept > 0) {
        emu_pool_trim(pool, 0);
        code = emu_memory_alloc_as(plain, bytes, start);
    }
    if (code == CUDA_SUCCESS) charge_new(bytes);
    return code;
}

static CUresult alloc_once(const struct emu_plain *plain, size_t bytes, uintptr_t *start) {
    if (!emu_memory_reuse(plain, bytes, start)) return alloc_new(plain, bytes, start);
    plain->pool->kept -= bytes;
    return CUDA_SUCCESS;
}

static void account(CUmemoryPool pool, size_t bytes) {
    pool->used += bytes;
    if (pool->used > pool->most_used) pool->most_used = pool->used;
    if (pool->used + pool->kept > pool->most_reserved) pool->most_reserved = pool->used + pool->kept;
}

CUresult emu_pool_alloc(CUmemoryPool pool, struct emu_queue *queue, size_t bytes, uintptr_t *start) {
    if (queue->capture != NULL) return emu_capture_alloc(queue, pool->device, bytes, start);
    if (bytes == 0 || bytes > SIZE_MAX / 2) return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    const struct emu_plain plain = {.context = queue->context, .device = pool->device, .pool = pool};
    const size_t whole = rounded(bytes);
    CUresult code = alloc_once(&plain, whole, start);
    if (code == CUDA_ERROR_OUT_OF_MEMORY && emu_memory_frees_pending(pool->device)) {
        code = emu_device_wait(pool->device);
        if (code != CUDA_SUCCESS || !emu_pool_alive(pool)) return CUDA_ERROR_OUT_OF_MEMORY;
        code = alloc_once(&plain, whole, start);
    }
    if (code == CUDA_SUCCESS) account(pool, whole);
    return code;
}

CUresult emu_pool_free(struct emu_queue *queue, uintptr_t start) {
    CUdevice device;
    bool pooled;
    CUresult code;
    if (queue->capture != NULL) return emu_capture_free(queue, start);
    if (emu_capture_free_outside(start, &code)) return code;
    code = emu_memory_begin_free(start, &device, &pooled);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_operation operation = {
        .kind = EMU_FREE, .name = "cuMemFreeAsync", .described = true, .free = start};
    struct emu_point point;
    code = emu_queue_push(queue, &operation, &point);
    if (code != CUDA_SUCCESS) emu_memory_cancel_free(start);
    return code;
}
