/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: what the driver allocated and what the program registered. All functions need the lock. */
#ifndef WEIR_EMU_HOST_H
#define WEIR_EMU_HOST_H

#include "device/emu/emu.h"

struct emu_pinned {
    bool own; /* allocated here, not registered */
    unsigned flags;
    CUcontext context;
    uintptr_t start;
    size_t bytes;
    uint64_t id;
};

CUresult emu_host_alloc(CUcontext context, size_t bytes, unsigned flags, void **address);
CUresult emu_host_free(void *address);
CUresult emu_host_register(CUcontext context, uintptr_t start, size_t bytes, unsigned flags);
CUresult emu_host_unregister(uintptr_t start);
/* True when something is mapped there, all of it. */
bool emu_host_exists(uintptr_t start, size_t bytes);
/* True when the whole run lies in one piece of pinned memory. */
bool emu_host_pinned(uintptr_t start, size_t bytes);
/* The piece that holds the address, or NULL. */
const struct emu_pinned *emu_host_find(uintptr_t address);

#endif
