/* SPDX-License-Identifier: Apache-2.0 */
/* Stands between weir-stress and weir's pool (linked with --wrap), and does what PLANT says:
 *
 * early: some frees name another stream than the one that uses the block, so that the pool gives it away too early.
 * double: some requests are answered with a block that is live.
 * corrupt: now and then a byte of a live block is changed.
 * refuse: now and then a request is refused. leak: now and then a block is not freed. odd: or handed out 8 bytes beyond its
 * start. fail: or a request fails. stuck: or is never answered.
 *
 * Of the extras: sub: requests of a sub-pool are answered with a block of one that is live. graph: requests of a thread after
 * its capture are answered with memory that the graph has. grow: a block that was to grow is said to have. cut: a
 * block is resized on another stream than the one that uses it. lost: an address inside a block leads to another one. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/error.h"
#include "weir/weir.h"

enum { ONCE_IN = 100 };

enum weir_status __real_weir_pool_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out);
enum weir_status __real_weir_pool_free(struct weir_pool *pool, void *block, weir_stream stream);
enum weir_status __real_weir_pool_resize(struct weir_pool *pool, void *block, size_t bytes, weir_stream stream);
enum weir_status __real_weir_pool_capture_begin(struct weir_pool *pool, struct weir_pool *graph, weir_stream stream);
void __real_weir_pool_destroy(struct weir_pool *pool);
enum weir_status __real_weir_pool_find(struct weir_pool *pool, const void *address, struct weir_block *out);
enum weir_status __wrap_weir_pool_resize(struct weir_pool *pool, void *block, size_t bytes, weir_stream stream);
enum weir_status __wrap_weir_pool_capture_begin(struct weir_pool *pool, struct weir_pool *graph, weir_stream stream);
void __wrap_weir_pool_destroy(struct weir_pool *pool);
enum weir_status __wrap_weir_pool_find(struct weir_pool *pool, const void *address, struct weir_block *out);
enum weir_status __wrap_weir_pool_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out);
enum weir_status __wrap_weir_pool_free(struct weir_pool *pool, void *block, weir_stream stream);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *kept; /* a live block */
static size_t kept_bytes;
static weir_stream other; /* the stream of a request */
static unsigned requests, frees;
static struct weir_pool *root;             /* the pool of the first request */
static _Thread_local weir_stream captured; /* in a capture of this thread's */
static _Thread_local char *of_graph;       /* given in it; until its pool is destroyed */
static _Thread_local size_t of_graph_bytes;

static int planted(const char *kind) {
    const char *plant = getenv("PLANT");
    return plant != NULL && strcmp(plant, kind) == 0;
}

static void corrupt(void) {
    static struct weir_device *device;
    const struct weir_device_options options = {.size = sizeof options, .machine = "auto"};
    if (device == NULL) weir_device_open(&options, &device);
    if (device != NULL) weir_set(device, kept + kept_bytes / 2, 0x5a, 1, NULL);
}

/* Gives: true when the request has its answer. */
static bool answer(void **out, enum weir_status *status) {
    if (planted("stuck")) pause();
    if (planted("corrupt")) corrupt();
    *status = planted("refuse") ? weir__fail(WEIR_OUT_OF_MEMORY, 0, NULL, "planted")
              : planted("fail") ? weir__fail(WEIR_SYSTEM, 0, NULL, "planted")
                                : WEIR_OK;
    if (planted("double")) *out = kept;
    return *status != WEIR_OK || planted("double");
}

/* The pool is called without the lock: what it waits for, or calls, may be a free. */
enum weir_status __wrap_weir_pool_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out) {
    pthread_mutex_lock(&lock);
    if (root == NULL) root = pool;
    if (planted("sub") && pool != root && kept_bytes >= bytes) {
        *out = kept;
        pthread_mutex_unlock(&lock);
        return WEIR_OK;
    }
    if (planted("graph") && pool == root && stream != captured && of_graph_bytes >= bytes) {
        *out = of_graph;
        pthread_mutex_unlock(&lock);
        return WEIR_OK;
    }
    const int now =
        ++requests >= ONCE_IN && (!planted("double") || kept_bytes >= bytes) && (!planted("corrupt") || kept != NULL);
    if (now) requests = 0;
    other = stream;
    enum weir_status status;
    const bool answered = now && answer(out, &status);
    pthread_mutex_unlock(&lock);
    if (answered) return status;
    status = __real_weir_pool_alloc(pool, bytes, stream, out);
    pthread_mutex_lock(&lock);
    if (status == WEIR_OK && bytes >= 4096 && captured != NULL && stream == captured)
        of_graph = *out, of_graph_bytes = bytes;
    if (status == WEIR_OK && bytes >= 4096 && (planted("sub") ? pool != root : pool == root)) {
        kept = *out;
        kept_bytes = bytes;
    }
    pthread_mutex_unlock(&lock);
    if (now && planted("odd") && status == WEIR_OK) *out = (char *)*out + 8;
    return status;
}

enum weir_status __wrap_weir_pool_free(struct weir_pool *pool, void *block, weir_stream stream) {
    pthread_mutex_lock(&lock);
    if (block == kept) kept = NULL, kept_bytes = 0;
    const weir_stream named = planted("early") ? other : stream;
    const int lost = planted("leak") && ++frees % ONCE_IN == 0;
    pthread_mutex_unlock(&lock);
    return lost ? WEIR_OK : __real_weir_pool_free(pool, block, named);
}

enum weir_status __wrap_weir_pool_resize(struct weir_pool *pool, void *block, size_t bytes, weir_stream stream) {
    pthread_mutex_lock(&lock);
    const weir_stream named = planted("cut") ? other : stream;
    pthread_mutex_unlock(&lock);
    const enum weir_status status = __real_weir_pool_resize(pool, block, bytes, named);
    return planted("grow") ? WEIR_OK : status;
}

void __wrap_weir_pool_destroy(struct weir_pool *pool) {
    pthread_mutex_lock(&lock);
    kept = of_graph = NULL, kept_bytes = of_graph_bytes = 0;
    pthread_mutex_unlock(&lock);
    __real_weir_pool_destroy(pool);
}

/* The stream is the thread's own and is destroyed after the capture. */
enum weir_status __wrap_weir_pool_capture_begin(struct weir_pool *pool, struct weir_pool *graph, weir_stream stream) {
    captured = stream;
    return __real_weir_pool_capture_begin(pool, graph, stream);
}

enum weir_status __wrap_weir_pool_find(struct weir_pool *pool, const void *address, struct weir_block *out) {
    const enum weir_status status = __real_weir_pool_find(pool, address, out);
    if (planted("lost")) out->start = (char *)out->start + 512;
    return status;
}
