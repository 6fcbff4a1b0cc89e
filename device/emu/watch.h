/* SPDX-License-Identifier: Apache-2.0 */
/* The watch: tells from the order in which work is submitted which accesses are ordered, whatever the timing was.
 *
 * Words. moment: a position in a queue, with all that is known to come before it. clock: for each queue, the position
 * up to which everything is known to come before (a vector clock); the host has one, for all its threads.
 * shadow: for each byte of a device's physical memory, and of the host memory that work names, its last write, the
 * reads since, whether it was ever written, and whether it is handed out; and for each address of device memory the uses
 * that were made through it.
 *
 *     an access at (q, p) is ordered before a moment m   iff   p <= clock(m)[q]
 *     clock(operation) = join(clock of its queue so far, the host's, those of the moments it waits for)
 *     an operation that writes must come after the last write and all reads since; one that reads, after the last write
 *     a hand-out is a write by the stream that it goes to
 *     an unmap, by itself or by a free, must come after all uses through the addresses that it takes away, and only those:
 *     a page may be in use by others. A page goes when its last address has gone, so after all its uses
 *
 * Submission order extends happens-before (an operation can only wait for what was submitted before it), so each access
 * is checked once, when it is submitted, and the answer does not depend on the clock. A gate opened by a stream's own
 * work is the one edge that is not seen (docs/emulator.md).
 *
 * All functions need the lock. When the watch is off they do nothing, and a moment is empty. */
#ifndef WEIR_EMU_WATCH_H
#define WEIR_EMU_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/emu/emu_abi.h"

struct emu_queue;
struct emu_operation;
struct emu_known; /* a clock that no one changes, shared and counted */

struct emu_moment {
    struct emu_queue *queue; /* NULL: nothing comes before it */
    uint64_t position;
    struct emu_known *known;
};

bool emu_watch_on(void);

/* ---- order ------------------------------------------------------------------------------------------------------ */

/* The moment of the queue's last operation. Gives a reference, to be dropped; copy gives another one. */
struct emu_moment emu_watch_now(struct emu_queue *queue);
struct emu_moment emu_watch_copy(struct emu_moment moment);
void emu_watch_drop(struct emu_moment *moment);

/* Later operations of the queue come after the moment; after `other`'s last operation. */
void emu_watch_join(struct emu_queue *queue, struct emu_moment moment);
void emu_watch_join_queue(struct emu_queue *queue, struct emu_queue *other);
/* The host has seen that the moment has passed. */
void emu_watch_host_saw(struct emu_moment moment);
/* True when the host knows that all of the queue has passed: only then a later stream may use it. */
bool emu_watch_host_knows(struct emu_queue *queue);
/* The queue goes away for good, or a new one came: room for its entry in clocks. False: no host memory. */
bool emu_watch_queue_made(struct emu_queue *queue);

/* ---- accesses --------------------------------------------------------------------------------------------------- */

/* An operation has been pushed and has its position; all its joins have been made. */
void emu_watch_pushed(struct emu_queue *queue, uint64_t position, const struct emu_operation *operation);

/* Physical bytes: made (never written), and given back to the device. */
void emu_watch_page_made(CUdevice device, size_t offset, size_t bytes);
void emu_watch_page_gone(CUdevice device, size_t offset, size_t bytes);
/* The driver's own pool gives the bytes to the queue's stream, in its order, by the entry's name. */
void emu_watch_hands_out(struct emu_queue *queue, uintptr_t address, size_t bytes, const char *entry);
/* The mappings in [address, ...) are about to be taken down: by the host, by the entry's name; NULL: by a stream, whose
 * part was checked when it was submitted. Whatever is mapped there next was never used through these addresses. */
void emu_watch_unmaps(uintptr_t address, size_t bytes, const char *entry);
/* The host writes there, or someone did of whom the watch can't know: contents that came from elsewhere. */
void emu_watch_host_writes(uintptr_t address, size_t bytes, const char *entry);
/* Pinned host memory is freed or unregistered. */
void emu_watch_host_memory_gone(uintptr_t address, size_t bytes, const char *entry);

/* ---- what it found ---------------------------------------------------------------------------------------------- */

uint64_t emu_watch_reports(void);
uint64_t emu_watch_unwatched(void);

#endif
