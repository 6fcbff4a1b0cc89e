/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/spent.h"

#include "device/emulated.h"

WEIR__THREAD_LOCAL struct weir__spent weir__spent_here;
static WEIR__THREAD_LOCAL uint64_t since_ns; /* of the call that is being made */

void weir__spend(struct weir_device *device) { since_ns = weir__device_now_ns(device); }

enum weir_status weir__spent_on_memory(struct weir_device *device, enum weir_status status) {
    weir__spent_here.memory_calls++;
    weir__spent_here.memory_call_ns += weir__device_now_ns(device) - since_ns;
    return status;
}

enum weir_status weir__spent_on_order(struct weir_device *device, enum weir_status status) {
    weir__spent_here.order_calls++;
    weir__spent_here.order_call_ns += weir__device_now_ns(device) - since_ns;
    return status;
}
