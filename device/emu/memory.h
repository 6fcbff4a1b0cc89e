/* SPDX-License-Identifier: Apache-2.0 */
/* The books of device memory: which addresses are reserved, which pages exist, what is mapped where.
 *
 *     used of a device == sum of the bytes of its pages; a page lives while it is held or mapped
 *     every mapping lies in one reservation; mappings do not overlap
 *
 * All functions need the lock. */
#ifndef WEIR_EMU_MEMORY_H
#define WEIR_EMU_MEMORY_H

#include "device/emu/emu.h"

enum emu_place { EMU_PLACE_DEVICE, EMU_PLACE_PINNED, EMU_PLACE_PAGEABLE, EMU_PLACE_INVALID };

CUresult emu_memory_reserve(uintptr_t wanted, size_t bytes, size_t alignment, uintptr_t *start);
CUresult emu_memory_unreserve(uintptr_t start, size_t bytes);
/* Needs: properties of a device that exists, which have been checked. */
CUresult emu_memory_create(const CUmemAllocationProp *properties, size_t bytes, CUmemGenericAllocationHandle *handle);
CUresult emu_memory_release(CUmemGenericAllocationHandle handle);
CUresult emu_memory_map(uintptr_t start, size_t bytes, CUmemGenericAllocationHandle handle);
/* *handles: how many mappings it took down; set_access adds how many it changed. */
CUresult emu_memory_unmap(uintptr_t start, size_t bytes, size_t *handles);
CUresult emu_memory_set_access(uintptr_t start, size_t bytes, CUdevice device, CUmemAccess_flags access,
                               size_t *handles);

/* Plain allocation: addresses, a page and access in one. It goes with its context. */
CUresult emu_memory_alloc(CUcontext context, size_t bytes, uintptr_t *start);
/* And as: on a device that is not the context's, from a pool, or to be told as managed. */
struct emu_plain {
    CUcontext context;
    CUdevice device;
    CUmemoryPool pool;
    bool managed;
};
CUresult emu_memory_alloc_as(const struct emu_plain *plain, size_t bytes, uintptr_t *start);
/* The device of a plain allocation that starts there; CUDA_ERROR_INVALID_VALUE when there is none. From then on it is
 * being freed: a second call fails. *pooled: it is of a pool. */
CUresult emu_memory_begin_free(uintptr_t start, CUdevice *device, bool *pooled);
void emu_memory_cancel_free(uintptr_t start);
/* `entry`: the host's call that ends it, for the watch; NULL when a stream's work ended it. */
void emu_memory_finish_free(uintptr_t start, const char *entry);
/* The context is gone: its plain allocations are freed. */
void emu_memory_forget(CUcontext context);
/* The context's first plain allocation that starts at an address or behind it; 0: there is none. */
uintptr_t emu_memory_next_plain(CUcontext context, uintptr_t from, size_t *bytes);

/* What its pool keeps of exactly that size is handed out again: false when there is none. */
bool emu_memory_reuse(const struct emu_plain *plain, size_t bytes, uintptr_t *start);
/* Gives back up to so many bytes that the pool keeps; how many. */
size_t emu_memory_trim(CUmemoryPool pool, size_t bytes);
/* True when memory of the device is being freed: a stream will give it back. */
bool emu_memory_frees_pending(CUdevice device);

/* A file descriptor by which another process, or this one, can import the page. Both fail with
 * CUDA_ERROR_INVALID_VALUE for what is no such page or descriptor. */
CUresult emu_memory_export(CUmemGenericAllocationHandle handle, int *descriptor);
CUresult emu_memory_import(int descriptor, CUmemGenericAllocationHandle *handle);

/* Other processes hold so many bytes of the device from now on. False: more than is free. */
bool emu_memory_others(CUdevice device, size_t bytes);
/* What the device says is free: what neither this process nor others hold. */
size_t emu_memory_free(CUdevice device);
/* What this process holds of it, and the most that it ever did. */
size_t emu_memory_held(CUdevice device);
size_t emu_memory_most_held(CUdevice device);

/* The device whose memory is mapped there. Needs: something is. */
CUdevice emu_memory_device(uintptr_t address);
/* What lies at an address run. Device memory must be mapped, all of it, with the access that is needed. */
enum emu_place emu_memory_place(uintptr_t start, size_t bytes, bool write);
/* What rows of so many bytes lie in, `pitch` apart; between them there may be anything, or nothing. */
enum emu_place emu_memory_place_rows(uintptr_t start, size_t bytes, size_t rows, size_t pitch, bool write);

/* A run of addresses, and the bytes of the device's file that are mapped there; device -1: nothing is. */
struct emu_piece {
    uintptr_t start;
    size_t bytes;
    CUdevice device;
    size_t offset;
};
/* Visits the pieces of a run in order; what lies together is one piece. False, without a visit: no byte of it is
 * reserved, so that it is no device memory. */
bool emu_memory_pieces(uintptr_t start, size_t bytes, void (*visit)(void *self, const struct emu_piece *piece),
                       void *self);
/* A number for an allocation of whatever kind, never used again. */
uint64_t emu_memory_new_id(void);
/* The size of the plain allocation that starts there; 0: there is none. */
size_t emu_memory_plain_bytes(uintptr_t start);

#endif
