/* SPDX-License-Identifier: Apache-2.0 */
/* The entries that the emulated driver has beyond the real one's; found by dlsym, absent on a real driver. */
#ifndef WEIR_EMU_ABI_H
#define WEIR_EMU_ABI_H

#include <stddef.h>

#include "device/cuda_abi.h"

struct weir_emu_access {
    const void *address;
    size_t bytes;
    int write;
};

/* A host function with the description of what it stands for. */
struct weir_emu_work {
    size_t size; /* sizeof(struct weir_emu_work) */
    const char *name;
    CUhostFn function; /* may be NULL: work that only takes time */
    void *argument;
    const struct weir_emu_access *accesses;
    size_t access_count;
    double flops, bytes;
};

/* weirEmuConfigure(settings, message, room): before cuInit, "profile:demo,capacity:64M,devices:2"; settings of WEIR_EMU
 * apply where it says nothing. CUDA_ERROR_INVALID_VALUE with a sentence in message when malformed. After cuInit it
 * succeeds and changes nothing.
 * weirEmuSubmit(work, stream): as cuLaunchHostFunc, with the description; it is read during the call only.
 * weirEmuProfile(name, room, granularity): the profile in force; after cuInit. */

#endif
