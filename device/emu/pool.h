/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own stream-ordered pools: memory that a stream asks for and gives back. Each allocation is a plain one.
 * When its stream has reached the free, it is kept as long as the pool then has no more than its release threshold, and
 * handed out again for a request of the same size; else it is gone.
 *
 *     used of a pool == sum of the bytes of its allocations, those that are being freed included
 *     kept of a pool == sum of the bytes of its idle ones;   reserved == used + kept
 *
 * All functions need the lock. */
#ifndef WEIR_EMU_POOL_H
#define WEIR_EMU_POOL_H

#include "device/emu/emu.h"
#include "device/emu/slots.h"

struct emu_queue;
struct reservation;

struct CUmemPoolHandle_st {
    struct emu_slot slot;
    CUdevice device;
    bool is_default;
    bool destroyed;    /* goes with its last allocation */
    size_t most_bytes; /* 0: the device's */
    size_t used, most_used;
    size_t kept, most_reserved;
    struct reservation *idle;
    uint64_t release_threshold;
    int reuse[3]; /* as the attributes 1 to 3 */
    unsigned char access[EMU_MOST_DEVICES];
};

/* The device's own. NULL: no host memory. */
CUmemoryPool emu_pool_default(CUdevice device);
/* The one that cuMemAllocAsync uses. */
CUmemoryPool emu_pool_current(CUdevice device);
void emu_pool_set_current(CUdevice device, CUmemoryPool pool);
bool emu_pool_alive(CUmemoryPool pool);
CUmemoryPool emu_pool_create(CUdevice device, size_t most_bytes);
void emu_pool_destroy(CUmemoryPool pool);

/* Memory for the stream. When there is none while streams are still to give some back, the host waits for the
 * device. */
CUresult emu_pool_alloc(CUmemoryPool pool, struct emu_queue *queue, size_t bytes, uintptr_t *start);
/* The stream gives back what it reaches next: memory of a pool, or of cuMemAlloc. */
CUresult emu_pool_free(struct emu_queue *queue, uintptr_t start);
/* Gives back what it keeps, but for so many bytes reserved in all. */
void emu_pool_trim(CUmemoryPool pool, size_t least_reserved);
/* Called by the books: may the pool keep an allocation that is freed now? and: it is gone, or kept. */
bool emu_pool_keeps(CUmemoryPool pool, size_t bytes);
void emu_pool_has_back(CUmemoryPool pool, size_t bytes, bool kept);

#endif
