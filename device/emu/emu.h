/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated CUDA driver from inside: what all of its files share.
 *
 * Words. entry: a function of the driver's ABI. device, context: as in CUDA. stream: a handle; queue: the operations
 * behind it, which outlives the handle. operation: a piece of queued work, as data, with the points it must come after.
 * point: a position in a queue. clock: what makes operations happen (clock.h). watch: what checks their order (watch.h).
 * page: a physical handle. mapping: a page, whole, at an address. reservation: a run of addresses. gate: what holds
 * streams until it is opened.
 *
 * Rooms, from what programs call down to plain data:
 *
 *     entries_*.c variants.c    the driver's entries: check arguments, then one or two calls down; entry.c: what every
 *                               call begins with; faults.c: calls that are made to fail; names.c: entries by name only
 *     context.c                 devices, contexts, who is current
 *     stream.c event.c gate.c   handles over queues; submit.c: copies, sets, waits and records on their way to a queue
 *     capture.c graph*.c        streams in capture, graphs, their launches and their memory
 *     kernel.c pool.c           images and kernels, which do nothing; the driver's own memory pools
 *     queue.c cost.c            operations, their order, and what they take
 *     clock_real.c              makes them happen: a thread a stream
 *     clock_virtual.c virtual_*.c   or discrete events
 *     memory*.c host.c          the books of addresses; backing.c: mmap and memfd
 *     watch*.c                  the order of accesses
 *     settings.c profile.c quantity.c attributes.c ranges.c slots.c     plain data and readers
 *     abi/ runtime/ profiles/   the driver's names and versions; libcudart over it; machines
 *
 * One lock guards everything. It is held for the books only: not while an operation runs, nor while the host waits. */
#ifndef WEIR_EMU_EMU_H
#define WEIR_EMU_EMU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/cuda_abi.h"
#include "device/driver.h"
#include "device/emu/emu_abi.h"
#include "device/emu/entries.h"

enum { EMU_MOST_DEVICES = 64, EMU_LIMITS = 10 /* of CUlimit */ };

#define EMU_API __attribute__((visibility("default")))

/* The entries have the types that the library's table expects, by construction. */
#define EMU_DECLARE(member, symbol, parameters) EMU_API CUresult symbol parameters;
#define EMU_DECLARE_2(symbol, parameters)       EMU_API CUresult symbol parameters;
WEIR__DRIVER_LIST(EMU_DECLARE)
WEIR__EMU_LIST(EMU_DECLARE)
EMU_ENTRY_LIST(EMU_DECLARE_2)
#undef EMU_DECLARE
#undef EMU_DECLARE_2

struct emu_queue;

void emu_lock(void);
void emu_unlock(void);

/* ---- entry.c ---------------------------------------------------------------------------------------------------- */

/* Begins a call: CUDA_SUCCESS when it may go on (after cuInit; not in a host function, a forked child, an exiting
 * process or a thread that the clock does not admit; no fault asked for), and then the lock is held until emu_leave.
 * Counts the call, and charges its fixed cost. `context`: gets the calling thread's current one, and the call fails
 * without; NULL: it needs none. */
CUresult emu_enter(enum emu_entry entry, CUcontext *context);
/* True for a call that only looks at a flag, which may be answered without the lock, uncounted: on the real clock, with no
 * faults set. Allocators ask such things at each request, and a real driver is as quick. */
bool emu_may_answer_at_once(void);
/* Ends it: gives the lock up, and the code on. */
CUresult emu_leave(CUresult code);
/* Charges what depends on the amounts. Needs the lock. */
void emu_charge(enum emu_entry entry, size_t handles, size_t bytes);
/* The call in hand does by itself what a call of `entry` does for one handle: charges all of that. Needs the lock. */
void emu_charge_call(enum emu_entry entry, size_t bytes);

/* ---- context.c -------------------------------------------------------------------------------------------------- */

struct CUctx_st {
    bool alive;
    bool primary;
    CUresult broken; /* what calls answer since its work met an error, and does nothing any more; 0: none has */
    CUdevice device;
    unsigned retained; /* a primary one: by cuDevicePrimaryCtxRetain; a reset keeps it */
    unsigned flags;
    struct emu_queue *queues; /* every queue that was ever used here; never freed, so that points stay valid */
    struct emu_queue *legacy;
    struct CUctx_st *next; /* of the device */
    uint64_t peers;        /* bit d: access to device d's memory is enabled */
    uint64_t id;           /* never used again, as a handle is */
    size_t limits[EMU_LIMITS];
    unsigned cache_config;
};

/* The device's contexts, alive or not. These need the lock. */
CUcontext emu_contexts(CUdevice device);
bool emu_context_alive(CUcontext context);
/* A new context, current in the calling thread; what all versions of cuCtxCreate come to. Needs the lock. */
CUresult emu_context_create(CUcontext *context, unsigned flags, CUdevice device);
bool emu_context_flags_valid(unsigned flags);
bool emu_device_exists(CUdevice device);
bool emu_exiting(void);
/* The calling thread's current context, or NULL. */
CUcontext emu_current(void);
/* True after a context was taken down, until one is made usable again. Needs no lock. */
bool emu_context_is_gone(void);

/* Set by the clock around a host function: entries are refused in it. */
extern _Thread_local bool emu_in_host_function __attribute__((tls_model("initial-exec")));
extern _Thread_local bool emu_uncharged; /* its calls cost the thread nothing */

#endif
