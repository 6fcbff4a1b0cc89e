/* SPDX-License-Identifier: Apache-2.0 */
/* The books of device memory from inside: memory.c keeps them, memory_share.c adds pages of other processes, and what
 * programs ask of addresses is read from them. All functions need the lock. */
#ifndef WEIR_EMU_MEMORY_INSIDE_H
#define WEIR_EMU_MEMORY_INSIDE_H

#include "device/emu/memory.h"
#include "device/emu/ranges.h"
#include "device/emu/slots.h"

struct page {
    struct emu_slot slot;
    CUdevice device;
    size_t bytes;
    size_t offset;      /* by which the watch knows it: in the device's file, or beyond it for an imported one */
    size_t file_offset; /* in its own file */
    int descriptor;     /* an imported one's file; -1: the device's */
    unsigned held;      /* creations, imports and retentions that have not been released */
    unsigned mapped;
    bool exported;
    uint64_t id; /* never used again */
    CUmemAllocationProp properties;
    struct page *next_lent;
};

struct reservation {
    struct emu_range range;
    struct emu_plain
        plain;    /* a plain allocation's: the program can't map there. context NULL: addresses for the program */
    size_t asked; /* bytes of a plain allocation, before rounding */
    uint64_t id;
    bool freeing; /* freed by the program: on a stream that has not come to it yet, or kept by its pool */
    struct reservation *next_idle; /* of what its pool keeps */
};

struct mapping {
    struct emu_range range;
    struct page *page;
    unsigned char access[EMU_MOST_DEVICES]; /* CUmemAccess_flags a device */
};

/* A page of no bytes yet, held once. NULL: no host memory. */
struct page *emu_page_new(CUdevice device, size_t bytes);
struct page *emu_page_of(CUmemGenericAllocationHandle handle);
/* The page of this process that lies there in the device's file. */
struct page *emu_page_at_offset(CUdevice device, size_t offset);
/* One that was given up here and that a descriptor still names: it has no holder yet. */
struct page *emu_page_take_back(CUdevice device, size_t offset);
const struct mapping *emu_mapping_at(uintptr_t address);
const struct reservation *emu_reservation_at(uintptr_t address);

#endif
