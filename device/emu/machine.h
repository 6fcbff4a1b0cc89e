/* SPDX-License-Identifier: Apache-2.0 */
/* What entry.c, context.c and the clocks share about the state of the whole machine. */
#ifndef WEIR_EMU_MACHINE_H
#define WEIR_EMU_MACHINE_H

#include "device/emu/emu.h"

/* CUDA_SUCCESS when entries may run: after cuInit, not in a host function, a forked child or an exiting process. */
CUresult emu_ready(void);
/* The one lock itself, for condition variables. */
pthread_mutex_t *emu_the_lock(void);
/* Calls of entries so far, and those of three classes (struct weir_emu_counts). Need the lock. */
enum emu_class { EMU_CLASS_ANY, EMU_CLASS_MEMORY, EMU_CLASS_ORDER, EMU_CLASS_WAIT, EMU_CLASSES };
uint64_t emu_calls(void);
uint64_t emu_calls_of(enum emu_class class);
/* Operations pushed so far. Needs the lock. */
uint64_t emu_operations(void);

#endif
