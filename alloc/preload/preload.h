/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the preloaded library share. */
#ifndef WEIR_ALLOC_PRELOAD_PRELOAD_H
#define WEIR_ALLOC_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/faces/process.h"
#include "alloc/preload/counts.h"
#include "alloc/preload/hooks.h"
#include "device/device.h"

/* False: every call goes to the driver (WEIR_PRELOAD=off, or a program with more rights than its user). */
bool weir__preload_on(void);

/* What happened, for the summary; each counted by any thread. */
struct weir__preload_counts {
#define WEIR__PRELOAD_COUNT(name, text) uint64_t name;
    WEIR__PRELOAD_COUNTS(WEIR__PRELOAD_COUNT)
#undef WEIR__PRELOAD_COUNT
};
extern struct weir__preload_counts weir__preload_counts;
#define WEIR__COUNT(name) (void)__atomic_add_fetch(&weir__preload_counts.name, 1, __ATOMIC_RELAXED)

/* The program has given the device another pool than its default one for cuMemAllocAsync, or the default one back. */
bool weir__preload_has_own_pool(CUdevice device);

/* Plain allocations (cuMemAlloc and what comes to it) are left to the driver. */
bool weir__preload_plain_is_drivers(void);
/* Pinned host memory is served from a cache. */
bool weir__preload_host_is_pooled(void);
/* Pools hear of the program's events. */
bool weir__preload_events_are_heard(void);

/* The driver has a form of a hooked entry that this library does not know: it is passed on, and said once. */
void weir__preload_unknown(const char *name, int version);

/* The driver says so of a thread in which none of its calls is permitted; not every driver does. */
bool weir__preload_in_host_function(const struct weir__real *driver);
/* Around what a call does with a pool, so that none ends meanwhile; calls may be nested. In the middle of a reset it waits.
 * Gives: false, and there is nothing to leave, in a host function then. */
bool weir__preload_enter(const struct weir__real *driver);
void weir__preload_leave(const int *unused);
/* Whether this thread is in the middle of a call: a signal's handler came upon it. */
bool weir__preload_inside(void);
/* For all that follows in the block: the driver, or the end of the call without one. */
#define DRIVER_OR_FAIL(driver, symbol)                                                                                 \
    const struct weir__real *driver = weir__real_needed();                                                             \
    if ((driver) == NULL || (driver)->symbol == NULL) return CUDA_ERROR_NOT_INITIALIZED;                               \
    if (!weir__preload_enter(driver)) return CUDA_ERROR_NOT_PERMITTED;                                                 \
    __attribute__((cleanup(weir__preload_leave))) const int entered = 1;                                               \
    (void)entered
/* Alone, once the calls that are in the middle of something have left. Needs: this thread has not entered, or once. */
void weir__preload_alone_begin(void);
void weir__preload_alone_end(void);

/* The pool of the device whose primary context is current. NULL: the call is the driver's business; the reason is counted, if
 * it is an allocation. */
struct weir_pool *weir__preload_pool(const struct weir__real *driver, bool allocation);
/* The pool of a primary context that it has been made for; NULL: there is none. */
struct weir_pool *weir__preload_pool_of(CUcontext context);
/* Gives: false when a device is in use, but weir has no pool for it. *device: NULL where its primary context is not active. */
bool weir__preload_device(const struct weir__real *driver, int ordinal, struct weir_device **device);
/* The program may set peaks back: raises what the pool counts to what they were in the whole run; that is of no use once it ends. */
void weir__preload_whole_peaks(int ordinal, struct weir_pool_stats *stats);
void weir__preload_forget_peaks(int ordinal);
/* A pool is about to end before the process does: the summary has it as it is now. */
void weir__preload_pool_ends(int ordinal, struct weir_pool *pool);
/* The pool that an address belongs to, live or not; NULL: it is not weir's. */
struct weir_pool *weir__preload_owner(CUdeviceptr address);
/* The device of the stream's context, or of the current one for the default streams; -1: there is none. */
int weir__preload_device_of(const struct weir__real *driver, CUstream stream);
/* The driver has no memory left on the device: what weir holds idle there is given back to it; where work uses all of that still, the
 * host waits for some. Gives: false when nothing was given back. */
struct weir__room;
bool weir__preload_make_room(int ordinal, struct weir__room *room);
/* Ends a call with the driver's answer, which takes memory of a device (looked for when there is none left), or can't before weir has
 * given back what it holds idle. size: that is asked for, 0 where it can't be told. Needs: alloc/pool.h. */
#define FROM_DRIVER(driver, device, size, call)                                                                        \
    do {                                                                                                               \
        struct weir__room room_ = {.bytes = (size)};                                                                   \
        CUresult code_;                                                                                                \
        do code_ = (driver)->call;                                                                                     \
        while (code_ == CUDA_ERROR_OUT_OF_MEMORY && weir__preload_make_room(device, &room_));                          \
        return code_;                                                                                                  \
    } while (0)
/* What the program had asked of the device's default memory pool by now is so of weir's, which has just been made. */
void weir__preload_new_pool(const struct weir__real *driver, struct weir_pool *pool);
/* Whether a memory pool of the driver's is the default one of that pool's device: weir serves in its place. Others have
 * properties of their own. */
bool weir__preload_is_usual(const struct weir__real *driver, CUmemoryPool asked, const struct weir_pool *pool);
/* While what is queued in all contexts can be marked: no stream is captured, and no context is the program's own. In between none
 * begins to be. end: also after false. */
bool weir__preload_quiet_begin(void);
void weir__preload_quiet_end(void);
/* Captures that began on a stream, or on any of a device, end with it. */
void weir__preload_stream_captures_no_more(CUstream stream);
void weir__preload_device_captures_no_more(int ordinal);
/* The driver's code when there is no such stream, or it can't be named here. captures: it must be asked nothing that is not meant
 * for the graph. */
CUresult weir__preload_look(const struct weir__real *driver, CUstream stream, bool *captures);
/* The thread's own stream is meant by 0 where a program was built so. */
static inline CUstream weir__preload_own(CUstream stream) { return stream == NULL ? CU_STREAM_PER_THREAD : stream; }
/* The driver's code for a call of weir's that failed in this thread. */
CUresult weir__preload_code(enum weir_status status);

#endif
