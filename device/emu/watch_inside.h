/* SPDX-License-Identifier: Apache-2.0 */
/* What the watch's own files share. All functions need the lock, and the watch on. */
#ifndef WEIR_EMU_WATCH_INSIDE_H
#define WEIR_EMU_WATCH_INSIDE_H

#include "device/emu/watch.h"
#include "device/emu/watch_shadow.h"

/* What the host knows to have passed. */
struct emu_known *emu_watch_host(void);
/* The queue's clock comes to have what the host knows now: whatever is pushed later comes after it anyway. */
void emu_watch_refresh(struct emu_queue *queue);

/* Checks and notes an access to addresses, wherever they lie; at_fault and self are set here. To be called between
 * emu_report_begin and _end. */
void emu_watch_access(uintptr_t start, size_t bytes, struct emu_visit visit);

/* There is no host memory for the books: the watch ends, and says so. */
void emu_watch_give_up(void);

#endif
