/* SPDX-License-Identifier: Apache-2.0 */
/* A run under the virtual clock as a page, or as text: memory over time, each stream's work, iterations, and the requests
 * that took memory, moved pages or waited.
 *
 * Room is bounded whatever the trace's length: what lies closer together than can be told apart is kept as one.
 * Nothing here costs the run's host anything. */
#ifndef WEIR_REPLAY_TIMELINE_H
#define WEIR_REPLAY_TIMELINE_H

#include "device/driver.h"
#include "target.h"

struct timeline;

/* Sets run->timeline. The device is open. False with a sentence; run->timeline is NULL then. */
bool timeline_open(struct run *run, const struct target *target, char *why, size_t room);

/* The three below do nothing where run->timeline is NULL. */

/* Before the work of an OP_WORK is submitted: sets work->function and work->argument, so that its end is noted. */
void timeline_work(struct run *run, const struct op *op, struct weir_emu_work *work);
/* After each operation, also the one that ended the run. */
void timeline_note(struct run *run, const struct target *target, const struct op *op);
/* The run is over, the device still open and all its work done: writes the page to setup->timeline_path and the text to
 * setup->timeline_text, and frees. False with a sentence; there is no page then. */
bool timeline_close(struct run *run, const struct outcome *outcome, char *why, size_t room);

#endif
