/* SPDX-License-Identifier: Apache-2.0 */
/* The pool tells the emulated device's watch who has which bytes, in the step under the lock in which that changes. Not of a
 * graph's memory: who has it when is a matter of launches, of which the pool knows nothing. */
#include "alloc/pool.h"
#include "device/watched.h"

enum { MOST_NAMED = 16 };

void weir__tell_handed_out(struct weir_pool *pool, const struct weir__extent *block, weir_stream stream) {
    if (pool->is_graph) return;
    weir__device_hand_out(pool->device, (const void *)block->address, block->bytes, stream);
}

void weir__tell_taken_back(struct weir_pool *pool, const struct weir__extent *block, uint32_t slot, weir_event event) {
    if (pool->is_graph) return;
    weir_stream named[MOST_NAMED];
    size_t count = 0;
    for (uint32_t i = 0; i < block->tag_count && count < MOST_NAMED - 2; i++)
        named[count++] = weir__order_handle(&pool->order, block->tags[i].slot, false);
    if (count < block->tag_count) named[count++] = WEIR_EMU_ANY_STREAM;
    if (event == NULL) named[count++] = weir__order_handle(&pool->order, slot, true);
    weir__device_take_back(pool->device, (const void *)block->address, block->bytes, named, count, event);
}
