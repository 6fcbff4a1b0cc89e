/* SPDX-License-Identifier: Apache-2.0 */
/* The pool that all faces of a process share. */
#ifndef WEIR_ALLOC_FACES_PROCESS_H
#define WEIR_ALLOC_FACES_PROCESS_H

#include "weir/faces.h"

#define WEIR__MOST_DEVICES 64

/* Gives: the pool if it has been made, without making it; else NULL. */
WEIR_API struct weir_pool *weir__process_pool_made(int ordinal);
/* All that have been made have smaller numbers. */
WEIR_API int weir__process_pools_end(void);
/* The device that it is on, when it has been made. */
WEIR_API struct weir_device *weir__process_device_made(int ordinal);
/* The program is about to reset the device: its pool is no more, nor the memory of PyTorch's graphs, and the next use makes another
 * one. What can't be given back, since a stream captures still or the program has sub-pools of its own there, is left to the
 * driver's reset, which the log says. */
WEIR_API void weir__process_pool_forget(int ordinal);

#endif
