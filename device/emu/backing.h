/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind addresses: a memfd a device, whose pages are mapped where the program maps them, so that two
 * addresses of one page are the same bytes and a page without access faults. Needs the lock for every call. */
#ifndef WEIR_EMU_BACKING_H
#define WEIR_EMU_BACKING_H

#include "device/emu/emu.h"
#include "device/emu/ranges.h"

/* Reserved addresses start here, where the sanitizers allow mappings too; lower ones they keep for themselves. */
#define EMU_ADDRESS_BASE 0x550000000000ull

/* Addresses without memory: at `wanted` if that is not 0 and free, else the lowest run above the base that `taken`
 * leaves. 0: none, or the process has too many mappings. */
uintptr_t emu_backing_reserve(const struct emu_ranges *taken, uintptr_t wanted, size_t bytes, size_t alignment);
void emu_backing_unreserve(uintptr_t start, size_t bytes);

/* `bytes` of the device's file; gives the offset. The same bytes are zero again after they have been given back. */
bool emu_backing_take(CUdevice device, size_t bytes, size_t *offset);
void emu_backing_give(CUdevice device, size_t offset, size_t bytes);

/* Maps a part of the device's file, or of the descriptor's when that is not -1, without access. `splits`: how many sides
 * of it leave reserved addresses beside it, which is what the process's count of mappings grows by. False: too many
 * mappings; nothing has changed. */
bool emu_backing_map(uintptr_t start, size_t bytes, CUdevice device, int descriptor, size_t offset, unsigned splits);
void emu_backing_unmap(uintptr_t start, size_t bytes, unsigned splits);
void emu_backing_protect(uintptr_t start, size_t bytes, CUmemAccess_flags access);

/* A descriptor by which another process can have the page; -1: there can't be one, which has been logged. */
int emu_backing_export(CUdevice device, size_t offset, size_t bytes, bool rdma_capable);
/* True while a descriptor of the exported page, or a process that has imported it, is left. */
bool emu_backing_in_use(CUdevice device, size_t offset, size_t bytes);

struct emu_import {
    int descriptor;      /* to be closed by emu_backing_close; -1: the page is this process's own */
    CUdevice own_device; /* the device in whose file it lies here; -1: another process's */
    CUdevice device;     /* as its maker numbers it */
    size_t offset, bytes;
    bool rdma_capable;
};
/* False: the descriptor is not one that emu_backing_export gave. It stays open. */
bool emu_backing_import(int descriptor, struct emu_import *out);
void emu_backing_close(int descriptor);

#endif
