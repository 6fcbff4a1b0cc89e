/* SPDX-License-Identifier: Apache-2.0 */
/* What entry.c, context.c and the clocks share about the state of the whole machine. */
#ifndef WEIR_EMU_MACHINE_H
#define WEIR_EMU_MACHINE_H

#include "device/emu/emu.h"

/* CUDA_SUCCESS when entries may run: after cuInit, not in a host function, a forked child or an exiting process. */
CUresult emu_ready(void);
/* The one lock itself, for condition variables. */
pthread_mutex_t *emu_the_lock(void);
/* Calls of entries so far. Needs the lock. */
uint64_t emu_calls(void);
/* Operations pushed so far. Needs the lock. */
uint64_t emu_operations(void);

#endif
