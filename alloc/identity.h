/* SPDX-License-Identifier: Apache-2.0 */
/* Which stream a handle stands for. Most handles name one stream for as long as it lives. Three do not: 0 and 1 both name
 * the legacy stream, and 2 names another stream in each thread, its per-thread default stream.
 *
 * thread   a thread that has named its default stream; its number is never another thread's, also after its end
 *
 * Threads: any, for all functions. */
#ifndef WEIR_ALLOC_IDENTITY_H
#define WEIR_ALLOC_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/* Stands where a call names no stream. As the emulated driver has it, so that its watch understands. */
#define WEIR__ANY_STREAM WEIR_EMU_ANY_STREAM

struct weir__thread;

/* Gives: a number for tables, not 0, by which streams that exist at the same time differ; of the per-thread default stream
 * it is that of the calling thread's (weir__thread_key). */
uintptr_t weir__thread_key(void);
static inline uintptr_t weir__stream_key(weir_stream stream) {
    if (stream == CU_STREAM_PER_THREAD) return weir__thread_key();
    return stream == CU_STREAM_LEGACY ? 2
                                      : (uintptr_t)stream + 2; /* handles are addresses, and even; the others are odd */
}

/* The calling thread, with one reference more. NULL without host memory. */
struct weir__thread *weir__thread_self(void);
void weir__thread_release(struct weir__thread *thread);
bool weir__thread_is_self(const struct weir__thread *thread);
/* Its default streams are gone, or going. */
bool weir__thread_has_ended(const struct weir__thread *thread);

#endif
