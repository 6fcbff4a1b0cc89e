/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/order.h"

#include <stdlib.h>
#include <string.h>

/* In builds with assertions WEIR_MUTATE=SITE takes that order out. */
static bool taken_out(const char *site) {
#if defined(NDEBUG)
    (void)site;
    return false;
#else
    const char *mutated = getenv("WEIR_MUTATE");
    return mutated != NULL && strcmp(mutated, site) == 0;
#endif
}

enum weir_status weir__offload_wait(struct weir_device *device, const char *site, weir_stream stream,
                                    weir_event event) {
    return taken_out(site) ? WEIR_OK : weir_stream_wait(device, stream, event);
}

enum weir_status weir__offload_free_after(struct weir_pool *pool, const char *site, void *block, weir_event event,
                                          weir_stream stream) {
    return taken_out(site) ? weir_pool_free(pool, block, stream) : weir_pool_free_after(pool, block, event);
}

bool weir__offload_passed(struct weir_device *device, const char *site, weir_event event) {
    return taken_out(site) || weir_event_query(device, event) == WEIR_OK;
}
