/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: what the driver allocated and what the program registered. All functions need the lock. */
#ifndef WEIR_EMU_HOST_H
#define WEIR_EMU_HOST_H

#include "device/emu/emu.h"

CUresult emu_host_alloc(size_t bytes, void **address);
CUresult emu_host_free(void *address);
CUresult emu_host_register(uintptr_t start, size_t bytes);
CUresult emu_host_unregister(uintptr_t start);
/* True when the whole run lies in one piece of pinned memory. */
bool emu_host_pinned(uintptr_t start, size_t bytes);

#endif
