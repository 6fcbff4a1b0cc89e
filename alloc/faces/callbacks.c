/* SPDX-License-Identifier: Apache-2.0 */
/* CuPy's and RMM's callbacks. */
#include "alloc/faces/face.h"
#include "alloc/pool.h"

void *weir_cupy_malloc(void *param, size_t bytes, int device) {
    const char *call = "weir_cupy_malloc";
    (void)param;
    void *block = NULL;
    struct weir_pool *pool = weir__face_pool(call, device);
    if (pool != NULL) weir__face_ok(call, weir_pool_alloc_any(pool, bytes, &block));
    return block;
}

void weir_cupy_free(void *param, void *block, int device) {
    (void)param;
    struct weir_pool *pool = weir__process_pool_made(device);
    weir__face_block_ok("weir_cupy_free", pool != NULL || block == NULL
                                              ? weir_pool_free_any(pool, block)
                                              : WEIR__INVALID("%p is no block of weir's", block));
}

void *weir_rmm_alloc(size_t bytes, weir_stream stream, void *arg) {
    const char *call = "weir_rmm_alloc";
    const struct weir_face_device *device = arg;
    void *block = NULL;
    struct weir_pool *pool = weir__face_pool(call, device != NULL ? device->ordinal : weir__face_current_device());
    if (pool != NULL) weir__face_ok(call, weir_pool_alloc(pool, bytes, stream, &block));
    return block;
}

void weir_rmm_free(void *block, size_t bytes, weir_stream stream, void *arg) {
    const struct weir_face_device *device = arg;
    struct weir_pool *pool = device != NULL ? weir__process_pool_made(device->ordinal) : weir__face_pool_of(block);
    weir__face_free("weir_rmm_free", pool, block, bytes, stream);
}
