/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/spent.h"

#include "device/emulated.h"

static _Thread_local struct weir__spent spent;
static _Thread_local uint64_t since_ns; /* of the call that is being made */

void weir__spend(struct weir_device *device) { since_ns = weir__device_now_ns(device); }

enum weir_status weir__spent_on_memory(struct weir_device *device, enum weir_status status) {
    spent.memory_calls++;
    spent.memory_call_ns += weir__device_now_ns(device) - since_ns;
    return status;
}

enum weir_status weir__spent_on_order(struct weir_device *device, enum weir_status status) {
    spent.order_calls++;
    spent.order_call_ns += weir__device_now_ns(device) - since_ns;
    return status;
}

struct weir__spent weir__spent_take(void) {
    const struct weir__spent taken = spent;
    spent = (struct weir__spent){0};
    return taken;
}
