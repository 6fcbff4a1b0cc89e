/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated CUDA driver from inside: what all of its files share.
 *
 * Words. entry: a function of the driver's ABI. device, context: as in CUDA; only primary contexts exist. stream: a
 * handle; queue: the operations behind it, which outlives the handle. operation: a piece of queued work, as data, with
 * the points it must come after. point: a position in a queue. clock: what makes operations happen (clock.h).
 * page: a physical handle. mapping: a page, whole, at an address. reservation: a run of addresses.
 *
 * Layers, each calling only downwards:
 *
 *     entries_*.c   check arguments and the current context, then one or two calls down
 *     context.c     devices, contexts, who is current          stream.c event.c   handles over queues
 *     queue.c       operations and their order                 memory.c host.c    the books of addresses
 *     clock_real.c  makes operations happen                    backing.c          mmap, memfd
 *     ranges.c slots.c settings.c profile.c   plain data structures and readers
 *
 * Locks, in the order in which they may be taken: context.order, a queue's lock, an event's lock, the memory lock, a
 * slots lock. None is held while an operation runs or the host waits for one. */
#ifndef WEIR_EMU_EMU_H
#define WEIR_EMU_EMU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/cuda_abi.h"
#include "device/driver.h"
#include "device/emu/emu_abi.h"

enum { EMU_MOST_DEVICES = 16 };

#define EMU_API __attribute__((visibility("default")))

/* The entries have the types that the library's table expects, by construction. */
#define EMU_DECLARE(member, symbol, parameters) EMU_API CUresult symbol parameters;
WEIR__DRIVER_LIST(EMU_DECLARE)
WEIR__EMU_LIST(EMU_DECLARE)
#undef EMU_DECLARE
/* What programs pair with them. */
EMU_API CUresult cuCtxSetCurrent(CUcontext context);
EMU_API CUresult cuCtxGetDevice(CUdevice *device);

struct emu_queue;

struct CUctx_st {
    int ordinal;
    unsigned retained;        /* by cuDevicePrimaryCtxRetain; 0: inactive. Guarded by the machine's lock */
    pthread_mutex_t order;    /* makes "after all blocking streams" and the push one step; guards `queues` */
    struct emu_queue *queues; /* every queue that was ever used here; never freed, so that points stay valid */
    struct emu_queue *legacy;
};

/* ---- context.c -------------------------------------------------------------------------------------------------- */

extern struct CUctx_st emu_contexts[EMU_MOST_DEVICES];

/* CUDA_SUCCESS when entries may run: after cuInit, not in a host function, not while the process exits. */
CUresult emu_ready(void);
/* emu_ready, and the calling thread's current context. CUDA_ERROR_INVALID_CONTEXT when there is none. */
CUresult emu_current(CUcontext *context);
bool emu_device_exists(CUdevice device);
bool emu_exiting(void);

/* Set by the clock around a host function: entries are refused in it. */
extern _Thread_local bool emu_in_host_function;

#endif
