/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's pluggable allocator. */
#include "alloc/faces/face.h"
#include "alloc/faces/torch_pool.h"
#include "alloc/pool.h"

void *weir_torch_alloc(ssize_t bytes, int device, weir_stream stream) {
    const char *call = "weir_torch_alloc";
    void *block = NULL;
    struct weir_pool *pool = weir__face_pool(call, device);
    if (pool == NULL) return NULL;
    if (__atomic_load_n(&weir__torch_pools_open, __ATOMIC_ACQUIRE) > 0) weir__torch_pools_join(pool, device, stream);
    weir__face_ok(call, weir_pool_alloc(pool, (size_t)bytes, stream, &block));
    return block;
}

void weir_torch_free(void *block, ssize_t bytes, int device, weir_stream stream) {
    weir__face_free("weir_torch_free", weir__process_pool_made(device), block, (size_t)bytes, stream);
    if (__atomic_load_n(&weir__torch_pools_left, __ATOMIC_ACQUIRE) > 0) weir__torch_pools_sweep();
}

void weir_torch_record_stream(void *block, weir_stream stream) {
    struct weir_pool *pool = weir__face_pool_of(block);
    weir__face_block_ok("weir_torch_record_stream", pool != NULL ? weir_pool_note(pool, block, stream)
                                                                 : WEIR__INVALID("%p is no block of weir's", block));
}

void weir_torch_init(int device_count) { (void)device_count; }

static void give_all_back(struct weir_pool *pool) {
    const char *call = "weir_torch_reset";
    struct weir_pool_stats stats = {.size = sizeof stats};
    weir__face_ok(call, weir_pool_trim(pool, 0));
    weir_pool_get_stats(pool, &stats);
    /* What work still uses, or what nobody has seen end. */
    if (stats.idle_bytes == 0 || weir__captures_any()) return;
    weir__face_ok(call, weir_device_synchronize(pool->device));
    weir__face_ok(call, weir_pool_trim(pool, 0));
}

void weir_torch_reset(void) {
    for (int ordinal = 0; ordinal < WEIR__MOST_DEVICES; ordinal++) {
        struct weir_pool *pool = weir__process_pool_made(ordinal);
        if (pool != NULL) give_all_back(pool);
    }
}

void weir_torch_memory_fraction(double fraction, int device) {
    const char *call = "weir_torch_memory_fraction";
    struct weir_pool *pool = weir__face_pool(call, device);
    if (pool == NULL) return;
    weir__face_ok(call, fraction == 0 ? weir_pool_set_limit(pool, pool->granule)
                                      : weir_pool_set_limit_fraction(pool, fraction));
}

void *weir_torch_base_alloc(void *address, size_t *bytes) {
    struct weir_block block = {.size = sizeof block, .start = address};
    for (int ordinal = 0; ordinal < WEIR__MOST_DEVICES; ordinal++) {
        struct weir_pool *pool = weir__process_pool_made(ordinal);
        if (pool != NULL && weir_pool_find(pool, address, &block) == WEIR_OK) break;
    }
    if (bytes != NULL) *bytes = block.bytes;
    return block.start;
}
