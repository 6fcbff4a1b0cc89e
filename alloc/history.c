/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/history.h"

#include <stdlib.h>
#include <string.h>

#include "device/emulated.h"

enum weir_status weir__history_open(size_t room, struct weir__history **out) {
    *out = NULL;
    if (room == 0) return WEIR_OK;
    *out = calloc(1, sizeof **out + room * sizeof *(*out)->events);
    if (*out == NULL)
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a history of %zu events", room);
    (*out)->room = room;
    return WEIR_OK;
}

void weir__history_close(struct weir__history *history) { free(history); }

void weir__history_put(struct weir_pool *pool, enum weir__past kind, uintptr_t address, size_t bytes, uint32_t slot) {
    struct weir__history *history = pool->history;
    history->events[history->count++ % history->room] =
        (struct weir__past_event){.address = address,
                                  .bytes = bytes,
                                  .stream = slot != WEIR__SLOT_NONE ? weir__slot_stream(pool->order.slots[slot]) : NULL,
                                  .ns = weir__device_now_ns(pool->device),
                                  .kind = kind};
}

size_t weir__history_copy(const struct weir__history *history, struct weir__past_event *to) {
    const size_t oldest = history->count > history->room ? (size_t)(history->count % history->room) : 0;
    const size_t kept = history->count > history->room ? history->room : (size_t)history->count;
    memcpy(to, history->events + oldest, (kept - oldest) * sizeof *to);
    memcpy(to + (kept - oldest), history->events, oldest * sizeof *to);
    return kept;
}
