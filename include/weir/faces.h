/* SPDX-License-Identifier: Apache-2.0 */
/* Faces: one pool a device for the whole process, and C functions of the shapes that other programs' allocators take.
 *
 * Every face of a process, the preloaded library too, uses the same pool of a device, so that what one frees serves the others.
 * It is made at first use, with what WEIR_OPTIONS says, and never destroyed: the system takes its memory back at exit.
 *
 * Errors: functions that can't answer with a status answer as their caller expects it: NULL, or nothing. weir_last_error() has
 * the sentence, and WEIR_LOG (error by default in no library) writes it.
 * Threads: any. After a fork the child has no pool: allocations answer NULL. */
#ifndef WEIR_FACES_H
#define WEIR_FACES_H

#include <stddef.h>

#include "weir/pool.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Gives: the pool of the driver's device `ordinal`, which the faces use. Where WEIR_OPTIONS does not say `movable`, pages stay
 * where they are in it (off): programs behind a face may register addresses with a network, unseen. Not to be destroyed.
 * Fails: WEIR_INVALID for a number below 0 or above 63; as weir_device_open and weir_pool_create; *out is NULL, and the next
 * call tries again. */
WEIR_API enum weir_status weir_process_pool(int ordinal, struct weir_pool **out);

#if defined(__cplusplus)
}
#endif
#endif
