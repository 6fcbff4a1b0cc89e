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

/* Plain allocations (cuMemAlloc and what comes to it) are left to the driver. */
bool weir__preload_plain_is_drivers(void);

/* The driver has a form of a hooked entry that this library does not know: it is passed on, and said once. */
void weir__preload_unknown(const char *name, int version);

/* The pool of the device whose primary context is current. NULL: the call is the driver's business; the reason is counted, if
 * it is an allocation. */
struct weir_pool *weir__preload_pool(const struct weir__real *driver, bool allocation);
/* A pool is about to end before the process does: the summary has it as it is now. */
void weir__preload_pool_ends(int ordinal, struct weir_pool *pool);
/* The pool that an address belongs to, live or not; NULL: it is not weir's. */
struct weir_pool *weir__preload_owner(CUdeviceptr address);
/* The driver's code for a call of weir's that failed in this thread. */
CUresult weir__preload_code(enum weir_status status);

#endif
