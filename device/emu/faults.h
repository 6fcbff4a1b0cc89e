/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are made to fail.
 *
 *     faults = fault [; fault]...      fault = ENTRY @ FIRST [ - LAST | + ] = CODE
 *
 * ENTRY is an entry's exported name, with or without its version ("cuMemFree"), or "*" for all that are counted;
 * FIRST and LAST count that entry's calls from 1, since the process began ("*": all calls); +: from FIRST on; CODE is
 * an error's name or number. The first fault that means a call has it. */
#ifndef WEIR_EMU_FAULTS_H
#define WEIR_EMU_FAULTS_H

#include "device/emu/entries.h"
#include "device/emu/settings.h"

/* Adds what `text` says; "" takes all back. On a complaint nothing is added. Needs the lock. */
bool emu_faults_add(const char *text, struct emu_complaint complaint);
/* Checks without adding. */
bool emu_faults_check(const char *text, struct emu_complaint complaint);
/* Counts a call of the entry; the code that it is to fail with, else CUDA_SUCCESS. Needs the lock. */
CUresult emu_faults_count(enum emu_entry entry);
/* Whether any are set. */
bool emu_faults_any(void);
/* An entry's exported name, as "cuMemFree_v2"; and found by it, with or without its version. EMU_ENTRIES: none. */
const char *emu_entry_name(enum emu_entry entry);
enum emu_entry emu_entry_find(const char *name);
/* The name, without its version, that is nearest to one that no entry has; "" when none is near. */
void emu_entry_nearest(const char *name, char *nearest, size_t room);

uint64_t emu_faults_made(void);

#endif
