/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/faces/face.h"

#include <string.h>

#include "alloc/pool.h"

static uint64_t odd_sizes, strangers; /* atomic */

enum weir_status weir_face_get_counts(struct weir_face_counts *counts) {
    if (counts == NULL || counts->size < sizeof counts->size)
        return WEIR__INVALID("weir_face_get_counts: counts->size must be sizeof(struct weir_face_counts)");
    const struct weir_face_counts now = {.size = counts->size < sizeof now ? counts->size : sizeof now,
                                         .odd_sizes = __atomic_load_n(&odd_sizes, __ATOMIC_RELAXED),
                                         .strangers = __atomic_load_n(&strangers, __ATOMIC_RELAXED)};
    memcpy(counts, &now, now.size);
    return WEIR_OK;
}

bool weir__face_ok(const char *call, enum weir_status status) {
    if (status == WEIR_OK) return true;
    /* Out of memory is an answer, which the caller deals with. */
    weir__log(status == WEIR_OUT_OF_MEMORY ? WEIR__LOG_INFO : WEIR__LOG_ERROR, "%s: %s", call,
              weir_last_error()->message);
    return false;
}

bool weir__face_block_ok(const char *call, enum weir_status status) {
    if (status == WEIR_INVALID) __atomic_fetch_add(&strangers, 1, __ATOMIC_RELAXED);
    return weir__face_ok(call, status);
}

struct weir_pool *weir__face_pool(const char *call, int ordinal) {
    struct weir_pool *pool = weir__process_pool_made(ordinal);
    if (pool == NULL) weir__face_ok(call, weir_process_pool(ordinal, &pool));
    return pool;
}

static bool has_block(struct weir_pool *pool, const void *block) {
    pool = weir__capture_home(pool, block);
    pthread_mutex_lock(&pool->lock);
    const bool has = weir__table_get(&pool->blocks, (uintptr_t)block) != NULL;
    pthread_mutex_unlock(&pool->lock);
    return has;
}

struct weir_pool *weir__face_pool_of(const void *block) {
    struct weir_pool *first = NULL;
    if (weir__forked()) return NULL; /* their locks may be held for ever */
    for (int ordinal = 0; ordinal < WEIR__MOST_DEVICES; ordinal++) {
        struct weir_pool *pool = weir__process_pool_made(ordinal);
        if (pool == NULL) continue;
        if (has_block(pool, block)) return pool;
        if (first == NULL) first = pool;
    }
    return first;
}

static void note_odd_size(const char *call, const void *block, size_t bytes, size_t requested_bytes) {
    if (__atomic_fetch_add(&odd_sizes, 1, __ATOMIC_RELAXED) > 0) return;
    weir__log(WEIR__LOG_WARN,
              "%s: %p was asked for with %zu bytes and is freed as one of %zu; further ones are counted only", call,
              block, requested_bytes, bytes);
}

void weir__face_free(const char *call, struct weir_pool *pool, void *block, size_t bytes, weir_stream stream) {
    if (block == NULL) return;
    size_t requested_bytes = bytes;
    const enum weir_status status =
        pool != NULL ? weir__pool_free(pool, block, stream, &requested_bytes)
                     : WEIR__INVALID("%p is no block of weir's: no memory has been given yet", block);
    if (weir__face_block_ok(call, status) && requested_bytes != bytes)
        note_odd_size(call, block, bytes, requested_bytes);
}

int weir__face_current_device(void) {
    const struct weir__driver *driver;
    CUdevice device, at;
    int count = 0;
    if (weir__driver_load(NULL, NULL, &driver) != WEIR_OK || driver->context_device(&device) != CUDA_SUCCESS) return 0;
    driver->device_count(&count);
    for (int ordinal = 0; ordinal < count; ordinal++)
        if (driver->device_get(&at, ordinal) == CUDA_SUCCESS && at == device) return ordinal;
    return 0;
}
