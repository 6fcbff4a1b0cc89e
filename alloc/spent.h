/* SPDX-License-Identifier: Apache-2.0 */
/* What driver calls cost, by stream. They are made deep inside a call of the pool, mostly with its lock let go; but a call
 * is made by one thread and for one stream. So a thread adds up what it spends in the driver, and a call charges that to
 * its stream before it ends: weir__pool_begin starts anew, weir__charge takes it. A call that lets the program's own code
 * run in between charges before it does. Costs nothing where no driver call is made. */
#ifndef WEIR_ALLOC_SPENT_H
#define WEIR_ALLOC_SPENT_H

#include "device/device.h"

struct weir__spent {
    uint64_t memory_calls, memory_call_ns, order_calls, order_call_ns;
};

/* Before one driver call, and behind it: one that changes memory, or one that records or waits for an event. The latter two
 * give the call's status on. */
void weir__spend(struct weir_device *device);
enum weir_status weir__spent_on_memory(struct weir_device *device, enum weir_status status);
enum weir_status weir__spent_on_order(struct weir_device *device, enum weir_status status);

extern WEIR__THREAD_LOCAL struct weir__spent weir__spent_here;
/* Gives: what this thread has spent since it was last taken. */
static inline struct weir__spent weir__spent_take(void) {
    const struct weir__spent taken = weir__spent_here;
    if (taken.memory_calls + taken.order_calls > 0) weir__spent_here = (struct weir__spent){0};
    return taken;
}

#endif
