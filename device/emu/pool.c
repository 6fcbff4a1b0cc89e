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

static void drop_if_empty(CUmemoryPool pool) {
    if (pool->destroyed && pool->used == 0) emu_slots_give(&pools, pool);
}

void emu_pool_destroy(CUmemoryPool pool) {
    if (current[pool->device] == pool) current[pool->device] = NULL;
    pool->destroyed = true;
    drop_if_empty(pool);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static size_t rounded(size_t bytes) {
    const size_t granule = emu_settings()->granularity_bytes;
    return (bytes + granule - 1) / granule * granule;
}

static CUresult alloc_once(CUmemoryPool pool, CUcontext context, size_t bytes, uintptr_t *start) {
    if (pool->most_bytes > 0 && bytes > pool->most_bytes - pool->used) return CUDA_ERROR_OUT_OF_MEMORY;
    const struct emu_plain plain = {.context = context, .device = pool->device, .pool = pool};
    return emu_memory_alloc_as(&plain, bytes, start);
}

CUresult emu_pool_alloc(CUmemoryPool pool, struct emu_queue *queue, size_t bytes, uintptr_t *start) {
    if (queue->capture != NULL) return emu_capture_refuse(queue);
    if (bytes == 0 || bytes > SIZE_MAX / 2) return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    const size_t whole = rounded(bytes);
    CUresult code = alloc_once(pool, queue->context, whole, start);
    if (code == CUDA_ERROR_OUT_OF_MEMORY && emu_memory_frees_pending(pool->device)) {
        code = emu_device_wait(pool->device);
        if (code != CUDA_SUCCESS || !emu_pool_alive(pool)) return CUDA_ERROR_OUT_OF_MEMORY;
        code = alloc_once(pool, queue->context, whole, start);
    }
    if (code != CUDA_SUCCESS) return code;
    pool->used += whole;
    if (pool->used > pool->most_used) pool->most_used = pool->used;
    return CUDA_SUCCESS;
}

CUresult emu_pool_free(struct emu_queue *queue, uintptr_t start) {
    CUdevice device;
    bool pooled;
    if (queue->capture != NULL) return emu_capture_refuse(queue);
    CUresult code = emu_memory_begin_free(start, &device, &pooled);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_operation operation = {.kind = EMU_FREE, .name = "free", .described = true, .free = start};
    struct emu_point point;
    code = emu_queue_push(queue, &operation, &point);
    if (code != CUDA_SUCCESS) emu_memory_cancel_free(start);
    return code;
}

void emu_pool_has_back(CUmemoryPool pool, size_t bytes) {
    assert(pool->used >= bytes);
    pool->used -= bytes;
    drop_if_empty(pool);
}
