/* SPDX-License-Identifier: Apache-2.0 */
/* What the watch has found: who is at fault with whom, once a pair, in a sentence. All functions need the lock. */
#ifndef WEIR_EMU_WATCH_REPORT_H
#define WEIR_EMU_WATCH_REPORT_H

#include "device/emu/emu_abi.h"
#include "device/emu/watch_shadow.h"

/* A number that stands for a name and an act, for as long as the process lives. Names are cut at 95 bytes. 0: no host
 * memory for it. */
uint32_t emu_label(const char *name, enum emu_act act);

/* Where the bytes at fault lie. */
struct emu_at_fault {
    enum emu_fault fault;
    struct emu_access first, second;
    int device; /* -1: host memory */
    uintptr_t address;
    size_t bytes;
};

/* Between begin and end the findings of one submission or call are gathered; end tells of each pair once. */
void emu_report_begin(void);
void emu_report_add(const struct emu_at_fault *found);
void emu_report_end(void);

uint64_t emu_report_count(void);

#endif
