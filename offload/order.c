/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/order.h"

#include "alloc/wait.h"

enum weir_status weir__offload_wait(struct weir_device *device, const char *site, weir_stream stream,
                                    weir_event event) {
    return weir__mutated(site) ? WEIR_OK : weir_stream_wait(device, stream, event);
}

enum weir_status weir__offload_free_after(struct weir_pool *pool, const char *site, void *block, weir_event event,
                                          weir_stream stream) {
    return weir__mutated(site) ? weir_pool_free(pool, block, stream) : weir_pool_free_after(pool, block, event);
}

enum weir_status weir__offload_synchronize(struct weir_device *device, const char *site, weir_stream stream) {
    return weir__mutated(site) ? WEIR_OK : weir_stream_synchronize(device, stream);
}

bool weir__offload_passed(struct weir_device *device, const char *site, weir_event event) {
    return weir__mutated(site) || weir_event_query(device, event) == WEIR_OK;
}
