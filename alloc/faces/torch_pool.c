/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/faces/torch_pool.h"

#include <stdlib.h>

#include "alloc/faces/face.h"
#include "alloc/pool.h"

struct torch_pool {
    struct torch_pool *next;
    int device;
    struct weir_torch_pool id;
    unsigned begun;            /* and not released yet */
    struct weir_pool *graph;   /* its memory; NULL before the first capture */
    weir_torch_filter *filter; /* NULL: not open */
    void (*drop)(void *self);
    void *self;
    bool capturing;
    bool expected; /* a capture for it may be about to begin: nothing has been asked of it since it was opened */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* outside any pool's */
static struct torch_pool *first;                         /* the one that was begun last first */
unsigned weir__torch_pools_open, weir__torch_pools_left;

/* In a child after a fork the lock may be another's for ever, and nothing is to be done; nor in a host function, for which another
 * thread may wait under the lock. */
static bool may_lock(void) { return !weir__forked() && !weir__in_host_function(); }

static bool lock_pools(void) {
    if (!may_lock()) return false;
    pthread_mutex_lock(&lock);
    return true;
}

/* Needs: not the lock. */
static void expect_capture(int device, int change) { weir__capture_hear(weir__process_device_made(device), change); }

static struct torch_pool **find(int device, struct weir_torch_pool id) {
    struct torch_pool **link = &first;
    while (*link != NULL &&
           ((*link)->device != device || (*link)->id.first != id.first || (*link)->id.second != id.second))
        link = &(*link)->next;
    return link;
}

static bool is_open(const struct torch_pool *at) { return at->filter != NULL || at->capturing; }

static void count(const struct torch_pool *at, bool was) {
    const bool is = is_open(at);
    if (is != was) __atomic_fetch_add(&weir__torch_pools_open, is ? 1u : UINT32_MAX, __ATOMIC_RELEASE);
}

/* The capture has ended, unless the driver says otherwise. */
static void end_captures(void) {
    for (struct torch_pool *at = first; at != NULL; at = at->next) {
        if (!at->capturing || at->filter != NULL) continue;
        if (weir_pool_capture_end(weir__process_pool_made(at->device), at->graph) != WEIR_OK) continue;
        at->capturing = false;
        count(at, true);
    }
}

static bool has_blocks(struct weir_pool *graph) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    return weir_pool_get_stats(graph, &stats) == WEIR_OK && stats.live_blocks > 0;
}

/* Pools that are left go, where nothing of them is in use any more. */
static void sweep(void) {
    unsigned left = 0;
    end_captures();
    for (struct torch_pool **link = &first; *link != NULL;) {
        struct torch_pool *at = *link;
        const bool is_left = at->begun == 0 && at->filter == NULL;
        if (!is_left || at->capturing || (at->graph != NULL && (weir__captures_any() || has_blocks(at->graph)))) {
            left += is_left;
            link = &at->next;
            continue;
        }
        *link = at->next;
        weir_pool_destroy(at->graph);
        free(at);
    }
    __atomic_store_n(&weir__torch_pools_left, left, __ATOMIC_RELEASE);
}

void weir__torch_pools_sweep(void) {
    if (!lock_pools()) return;
    sweep();
    pthread_mutex_unlock(&lock);
}

void weir__torch_pools_forget(int device) {
    if (!lock_pools()) return;
    for (struct torch_pool *at = first; at != NULL; at = at->next) {
        if (at->device != device || at->graph == NULL) continue;
        const bool was = is_open(at);
        weir__capture_forget(at->graph);
        weir_pool_destroy(at->graph);
        at->graph = NULL;
        at->capturing = false;
        count(at, was);
    }
    sweep();
    pthread_mutex_unlock(&lock);
}

/* ---- begin, end, release ---------------------------------------------------------------------------------------- */

static struct torch_pool *find_or_add(int device, struct weir_torch_pool id) {
    struct torch_pool **link = find(device, id);
    struct torch_pool *at = *link;
    if (at != NULL)
        *link = at->next;
    else
        at = calloc(1, sizeof *at);
    if (at == NULL) return NULL;
    at->device = device;
    at->id = id;
    at->next = first;
    first = at;
    return at;
}

/* What is dropped once the lock is let go: it is the program's, and may free blocks. */
struct dropped {
    void (*drop)(void *self);
    void *self;
    int device;
    bool expected;
};

static struct dropped close_pool(struct torch_pool *at) {
    const bool was = is_open(at);
    const struct dropped dropped = {at->filter != NULL ? at->drop : NULL, at->self, at->device, at->expected};
    at->filter = NULL;
    at->expected = false;
    count(at, was);
    return dropped;
}

static void unlock_and_drop(struct dropped dropped) {
    pthread_mutex_unlock(&lock);
    if (dropped.expected) expect_capture(dropped.device, -1);
    if (dropped.drop != NULL) dropped.drop(dropped.self);
}

void weir_torch_begin_pool(int device, struct weir_torch_pool id, weir_torch_filter *filter, void (*drop)(void *self),
                           void *self) {
    if (!may_lock()) {
        if (drop != NULL) drop(self);
        return;
    }
    expect_capture(device, 1);
    pthread_mutex_lock(&lock);
    sweep();
    struct dropped dropped = {drop, self, device, true};
    struct torch_pool *at = filter == NULL ? NULL : find_or_add(device, id);
    if (at != NULL) {
        dropped = close_pool(at);
        const bool was = at->capturing;
        at->begun++;
        at->filter = filter;
        at->drop = drop;
        at->self = self;
        at->expected = true;
        count(at, was);
    } else {
        weir__log(WEIR__LOG_ERROR, "weir_torch_begin_pool: no filter, or no host memory: a capture will be refused");
    }
    unlock_and_drop(dropped);
}

void weir_torch_end_pool(int device, struct weir_torch_pool id) {
    if (!lock_pools()) return;
    struct dropped dropped = {0};
    struct torch_pool *at = *find(device, id);
    if (at != NULL) dropped = close_pool(at);
    sweep();
    unlock_and_drop(dropped);
}

void weir_torch_release_pool(int device, struct weir_torch_pool id) {
    if (!lock_pools()) return;
    struct torch_pool *at = *find(device, id);
    if (at != NULL && at->begun > 0) at->begun--;
    sweep();
    pthread_mutex_unlock(&lock);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static bool captures(struct weir_pool *pool, weir_stream stream) {
    const struct weir__driver *driver = pool->device->driver;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver->stream_is_capturing != NULL && driver->stream_is_capturing(stream, &state) == CUDA_SUCCESS &&
           state == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static enum weir_status join(struct torch_pool *at, struct weir_pool *pool, weir_stream stream) {
    const struct weir_sub_pool_options options = {.size = sizeof options, .name = "PyTorch's graphs", .graph = true};
    enum weir_status status = at->graph != NULL ? WEIR_OK : weir_pool_create_sub(pool, &options, &at->graph);
    if (status == WEIR_OK) status = weir_pool_capture_begin(pool, at->graph, stream);
    at->capturing = at->capturing || status == WEIR_OK;
    return status;
}

void weir__torch_pools_join(struct weir_pool *pool, int device, weir_stream stream) {
    if (stream == NULL || !lock_pools()) return; /* the legacy stream never captures */
    struct torch_pool *at = first;
    end_captures();
    while (at != NULL && (at->filter == NULL || at->device != device || !at->filter(at->self, stream))) at = at->next;
    if (at != NULL && !weir__is_captured(stream) && captures(pool, stream))
        weir__face_ok("weir_torch_alloc", join(at, pool, stream));
    const bool expected = at != NULL && at->expected;
    if (expected) at->expected = false;
    pthread_mutex_unlock(&lock);
    if (expected) expect_capture(device, -1);
}
