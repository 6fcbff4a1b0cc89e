/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include <stdio.h>

enum { WEIR_ALIGNMENT = 512, LIBRARY_ALIGNMENT = 256 /* as from cudaMalloc */ };

static size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

static bool failed(char *why, size_t room) {
    snprintf(why, room, "%s", weir_last_error()->message);
    return false;
}

static bool open_pool(struct target *target, bool *bad_input, char *why, size_t room) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    enum weir_status status = weir_pool_create(target->device, NULL, &target->pool);
    if (status == WEIR_OK) status = weir_pool_get_stats(target->pool, &stats);
    *bad_input = status == WEIR_INVALID;
    if (status != WEIR_OK) return failed(why, room);
    target->limit_bytes = stats.limit_bytes;
    target->usable_bytes = lesser(target->usable_bytes, stats.limit_bytes);
    target->alignment = WEIR_ALIGNMENT;
    target->takes_uses = true;
    return true;
}

static bool open_library(struct target *target, const struct plugin_names *names, bool *bad_input, char *why,
                         size_t room) {
    *bad_input = !plugin_load(target->device->driver, names->library, names->alloc, names->free, names->use,
                              &target->calls, why, room);
    target->alignment = LIBRARY_ALIGNMENT;
    target->takes_uses = names->use != NULL;
    return !*bad_input;
}

bool target_open(struct target *target, struct weir_device *device, int ordinal, const struct plugin_names *names,
                 bool *bad_input, char *why, size_t room) {
    size_t total;
    *target = (struct target){.device = device, .ordinal = ordinal};
    *bad_input = false;
    if (weir_device_memory(device, &target->usable_bytes, &total) != WEIR_OK) return failed(why, room);
    if (names != NULL) return open_library(target, names, bad_input, why, room);
    return plugin_find_attribute(device->driver, &target->calls, why, room) && open_pool(target, bad_input, why, room);
}

/* A library stays: what it does when it is unloaded is not what is tested. */
void target_close(struct target *target) { weir_pool_destroy(target->pool); }

static enum weir_status alloc_from(struct weir_pool *pool, const struct target_request *request, void **out) {
    switch (request->way) {
    case TARGET_ANY:
        return weir_pool_alloc_any(pool, request->bytes, out);
    case TARGET_ALIGNED:
        return weir_pool_alloc_aligned(pool, request->bytes, request->alignment, request->stream, out);
    case TARGET_EXPORTABLE:
        return weir_pool_alloc_exportable(pool, request->bytes, request->stream, out);
    default:
        return weir_pool_alloc(pool, request->bytes, request->stream, out);
    }
}

static struct weir_pool *pool_of(const struct target *target, struct weir_pool *pool) {
    return pool != NULL ? pool : target->pool;
}

static CUcontext context_now(const struct target *target) {
    CUcontext now = NULL;
    target->device->driver->context_current(&now);
    return now;
}

/* The thread's current context is its caller's, as the current device is. */
static enum weir_status look_after(const struct target *target, CUcontext before, const char *function) {
    if (context_now(target) == before) return WEIR_OK;
    return weir__fail(WEIR_INVALID, 0, NULL,
                      "the library's %s function left another context current on its thread than it found (as "
                      "cudaSetDevice, cuCtxPushCurrent and cuCtxPopCurrent do)",
                      function);
}

enum weir_status target_alloc(const struct target *target, const struct target_request *request, void **out) {
    if (target->pool != NULL) return alloc_from(pool_of(target, request->pool), request, out);
    const CUcontext context = context_now(target);
    *out = target->calls.alloc((ssize_t)request->bytes, target->ordinal, request->stream);
    if (*out == NULL) plugin_clear_errors(&target->calls);
    const enum weir_status after = look_after(target, context, "allocation");
    return after == WEIR_OK && *out == NULL ? WEIR_OUT_OF_MEMORY : after;
}

enum weir_status target_free(const struct target *target, struct weir_pool *pool, void *block, size_t bytes,
                             weir_stream stream, enum target_way way, weir_event event) {
    pool = pool_of(target, pool);
    if (pool != NULL && way == TARGET_ANY) return weir_pool_free_any(pool, block);
    if (pool != NULL && way == TARGET_EVENT) return weir_pool_free_after(pool, block, event);
    if (pool != NULL) return weir_pool_free(pool, block, stream);
    const CUcontext context = context_now(target);
    target->calls.free(block, (ssize_t)bytes, target->ordinal, stream);
    return look_after(target, context, "free");
}

enum weir_status target_use(const struct target *target, struct weir_pool *pool, void *block, weir_stream stream) {
    pool = pool_of(target, pool);
    if (pool != NULL) return weir_pool_note(pool, block, stream);
    const CUcontext context = context_now(target);
    target->calls.use(block, stream);
    return look_after(target, context, "use");
}

enum weir_status target_trim(const struct target *target) {
    return target->pool != NULL ? weir_pool_trim(target->pool, 0) : WEIR_OK;
}

enum weir_status target_check(const struct target *target) {
    return target->pool != NULL ? weir_pool_check(target->pool) : WEIR_OK;
}
