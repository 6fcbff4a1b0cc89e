/* SPDX-License-Identifier: Apache-2.0 */
/* What operations take when nothing else runs, by the profile; nanoseconds. */
#ifndef WEIR_EMU_COST_H
#define WEIR_EMU_COST_H

#include "device/emu/memory.h"
#include "device/emu/queue.h"

double emu_cost_kernel(double flops, double bytes);
/* Sets operation->engine and alone_ns of a copy or set from the places and the bytes. */
void emu_cost_copy(struct emu_operation *copy, enum emu_place to, enum emu_place from, bool peers);
void emu_cost_set(struct emu_operation *set);

#endif
