/* SPDX-License-Identifier: Apache-2.0 */
/* Graph capture. While a stream captures, nothing may be asked of it, recorded on it or waited for there that is not meant
 * for the graph, and memory that the graph names must be nobody else's for as long as the graph may run.
 *
 * graph     a sub-pool whose memory belongs to graphs: it is served from what was freed in the same capture on the same stream,
 *           and from new pages; it gives nothing back and asks the device nothing
 * captured  a stream between weir_pool_capture_begin and _end, known to all pools of the process: requests on it go to the
 *           graph, and no pool asks, records or waits for anything there; nor on the legacy stream or the whole context
 *
 * A stream that captures without begin is found out by asking the driver, where a request names it and before anything is
 * recorded or asked there. Calls that only change memory, and looks at events, are no part of a stream's work, but some
 * capture modes forbid them: weir__device_enter relaxes the thread's mode.
 *
 * heard     of other captures those that the preloaded library has seen begin, and not end; and those for which PyTorch has begun a pool
 *           of which nothing has been asked yet
 *
 * Lock. The list of captured streams has its own, taken inside any other; of the driver only whether a stream captures is
 * asked inside it. What begins a capture waits for marks of a context that are being recorded, and for questions whether a stream is
 * empty: those are the driver calls under a lock of this file's (quiet). */
#ifndef WEIR_ALLOC_CAPTURE_H
#define WEIR_ALLOC_CAPTURE_H

#include <stdbool.h>

#include "weir/device.h"
#include "weir/status.h"

struct weir_pool;

bool weir__is_captured(weir_stream stream);
/* True while any stream is. */
extern unsigned weir__captured; /* atomic: how many are */
static inline bool weir__captures_any(void) { return __atomic_load_n(&weir__captured, __ATOMIC_ACQUIRE) > 0; }

/* Captures that others begin, or are about to, and end: who hears of them adds 1, and -1. `device`: one that has a pool, NULL
 * where there is none. */
WEIR_API void weir__capture_hear(struct weir_device *device, int change);
/* True while any capture is open of those between begin and end, or heard of so. */
WEIR_API bool weir__capture_heard(void);
/* Between the two none of those begins. begin: false when one is open; end: also after false. */
WEIR_API bool weir__capture_quiet_begin(void);
WEIR_API void weir__capture_quiet_end(void);
/* As quiet_begin, with the same end; false only for those that were heard of: the streams of the others are known. */
bool weir__capture_none_comes_begin(void);

/* *pool becomes the pool that serves requests on a stream, of which `call` is one. Fails: WEIR_NOT_SUPPORTED for a stream
 * that captures without weir_pool_capture_begin, and for a graph's pool otherwise; the capture goes on. */
enum weir_status weir__capture_route(struct weir_pool **pool, const char *call, weir_stream stream);
/* Gives: the pool of the family that a block's address belongs to, `pool` itself if it is no graph's. */
struct weir_pool *weir__capture_home(struct weir_pool *pool, const void *block);
/* False: streams of the device are captured, and so the pool can't be destroyed, which is said and logged. */
bool weir__capture_may_close(const struct weir_pool *pool);
/* The graph's captures end with their context: its streams are captured no more, without a question to the driver. */
void weir__capture_forget(const struct weir_pool *graph);

#endif
