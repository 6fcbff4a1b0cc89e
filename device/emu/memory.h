/* SPDX-License-Identifier: Apache-2.0 */
/* The books of device memory: which addresses are reserved, which pages exist, what is mapped where.
 *
 *     used of a device == sum of the bytes of its pages; a page lives while it is held or mapped
 *     every mapping lies in one reservation; mappings do not overlap */
#ifndef WEIR_EMU_MEMORY_H
#define WEIR_EMU_MEMORY_H

#include "device/emu/emu.h"

enum emu_place { EMU_PLACE_DEVICE, EMU_PLACE_PINNED, EMU_PLACE_PAGEABLE, EMU_PLACE_INVALID };

CUresult emu_memory_reserve(uintptr_t wanted, size_t bytes, size_t alignment, uintptr_t *start);
CUresult emu_memory_unreserve(uintptr_t start, size_t bytes);
CUresult emu_memory_create(CUdevice device, size_t bytes, CUmemGenericAllocationHandle *handle);
CUresult emu_memory_release(CUmemGenericAllocationHandle handle);
CUresult emu_memory_map(uintptr_t start, size_t bytes, CUmemGenericAllocationHandle handle);
CUresult emu_memory_unmap(uintptr_t start, size_t bytes);
CUresult emu_memory_set_access(uintptr_t start, size_t bytes, CUdevice device, CUmemAccess_flags access);

/* Plain allocation: addresses, a page and access in one. */
CUresult emu_memory_alloc(CUdevice device, size_t bytes, uintptr_t *start);
/* The device of a plain allocation that starts there; CUDA_ERROR_INVALID_VALUE when there is none. From then on it is
 * being freed: a second call fails. */
CUresult emu_memory_begin_free(uintptr_t start, CUdevice *device);
void emu_memory_finish_free(uintptr_t start);
/* The context is gone: its plain allocations are freed. */
void emu_memory_forget(CUdevice device);

size_t emu_memory_used(CUdevice device);
/* What lies at an address run. Device memory must be mapped, all of it, with the access that is needed. */
enum emu_place emu_memory_place(uintptr_t start, size_t bytes, bool write);

#endif
