/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/capture.h"

#include <stdlib.h>

#include "alloc/pool.h"
#include "device/over.h"

struct captured {
    struct captured *next;
    weir_stream stream;
    struct weir_pool *graph;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct captured *first;
unsigned weir__captured;

static bool is_legacy(weir_stream stream) { return stream == NULL || stream == CU_STREAM_LEGACY; }

/* Gives: the graph of a captured stream, or NULL. */
static struct weir_pool *graph_of(weir_stream stream) {
    if (!weir__captures_any()) return NULL;
    pthread_mutex_lock(&lock);
    const struct captured *captured = first;
    while (captured != NULL && captured->stream != stream) captured = captured->next;
    struct weir_pool *graph = captured == NULL ? NULL : captured->graph;
    pthread_mutex_unlock(&lock);
    return graph;
}

/* ---- quiet ------------------------------------------------------------------------------------------------------ */

static pthread_rwlock_t beginning = PTHREAD_RWLOCK_INITIALIZER; /* to be written: a capture begins */
static unsigned heard;                                          /* atomic */

/* Where threads take turns, one that is in a call of the driver goes on only when others make one. */
static void wait_for_quiet(struct weir_device *device) {
    if (device == NULL || !weir__device_takes_turns(device)) {
        pthread_rwlock_wrlock(&beginning);
        return;
    }
    while (pthread_rwlock_trywrlock(&beginning) != 0) weir__device_pause(device, WEIR__TURN_NS);
}

void weir__capture_hear(struct weir_device *device, int change) {
    wait_for_quiet(device);
    (void)__atomic_add_fetch(&heard, (unsigned)change, __ATOMIC_RELEASE);
    pthread_rwlock_unlock(&beginning);
}

bool weir__capture_heard(void) { return weir__captures_any() || __atomic_load_n(&heard, __ATOMIC_ACQUIRE) > 0; }

bool weir__capture_quiet_begin(void) {
    pthread_rwlock_rdlock(&beginning);
    return !weir__capture_heard();
}

bool weir__capture_none_comes_begin(void) {
    pthread_rwlock_rdlock(&beginning);
    return __atomic_load_n(&heard, __ATOMIC_ACQUIRE) == 0;
}

void weir__capture_quiet_end(void) { pthread_rwlock_unlock(&beginning); }

/* ---- what is captured ------------------------------------------------------------------------------------------- */

bool weir__is_captured(weir_stream stream) {
    return weir__captures_any() && (is_legacy(stream) || graph_of(stream) != NULL);
}

bool weir__capture_may_close(const struct weir_pool *pool) {
    bool any = false;
    pthread_mutex_lock(&lock);
    for (const struct captured *captured = first; captured != NULL; captured = captured->next)
        any = any || captured->graph->device == pool->device;
    pthread_mutex_unlock(&lock);
    if (!any) return true;
    weir__fail(
        WEIR_INVALID, 0, NULL,
        "weir_pool_destroy: '%s' can't be destroyed while a stream is captured: weir_pool_capture_end comes first",
        pool->name);
    weir__log(WEIR__LOG_ERROR, "pool: %s", weir_last_error()->message);
    return false;
}

/* ---- routes ----------------------------------------------------------------------------------------------------- */

/* Asked as the program asks it, which harms no capture; the legacy stream never captures. A thread that names a stream has a
 * context as a rule, so that one call will do. Fails: WEIR_DRIVER when the driver is over. */
static enum weir_status ask_whether_captures(const struct weir_pool *pool, weir_stream stream, bool *captures) {
    const struct weir__driver *driver = pool->device->driver;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    *captures = false;
    if (driver->stream_is_capturing == NULL || is_legacy(stream) || weir__in_host_function()) return WEIR_OK;
    CUresult code = driver->stream_is_capturing(stream, &state);
    if (code != CUDA_SUCCESS) { /* of a context that is gone it may say that there is no such stream */
        const enum weir_status status = weir__device_enter(pool->device);
        if (status != WEIR_OK) return weir__is_over(status) ? status : WEIR_OK;
        code = driver->stream_is_capturing(stream, &state);
        weir__device_leave(pool->device);
    }
    *captures = code == CUDA_SUCCESS && state != CU_STREAM_CAPTURE_STATUS_NONE;
    return WEIR_OK;
}

static bool captures_now(const struct weir_pool *pool, weir_stream stream) {
    bool captures;
    return ask_whether_captures(pool, stream, &captures) == WEIR_OK && captures;
}

enum weir_status weir__capture_route(struct weir_pool **pool, const char *call, weir_stream stream) {
    const bool named = stream != WEIR__ANY_STREAM;
    struct weir_pool *graph = named ? graph_of(stream) : NULL;
    if (graph != NULL && graph->family == (*pool)->family) {
        *pool = graph;
        return WEIR_OK;
    }
    if (graph != NULL)
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                          "%s: the stream is captured with memory of '%s', which is no sub-pool of '%s' or its parent",
                          call, graph->name, (*pool)->name);
    if ((*pool)->is_graph)
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                          "%s: '%s' is for graphs, and no stream that is captured is named (weir_pool_capture_begin)",
                          call, (*pool)->name);
    bool captures = false;
    const enum weir_status status = named ? ask_whether_captures(*pool, stream, &captures) : WEIR_OK;
    if (!captures) return status;
    return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                      "%s: the stream captures a graph, whose memory must come from a sub-pool for graphs: call "
                      "weir_pool_capture_begin first",
                      call);
}

static bool lies_in(const struct weir_pool *pool, uintptr_t address) {
    return address - pool->pages.arena < pool->pages.arena_bytes ||
           address - pool->zero_base < weir__zero_range_bytes(pool);
}

struct weir_pool *weir__capture_home(struct weir_pool *pool, const void *block) {
    struct weir__family *family = pool->family;
    if (__atomic_load_n(&family->graphs, __ATOMIC_ACQUIRE) == 0) return pool;
    struct weir_pool *home = pool;
    pthread_mutex_lock(&family->lock);
    for (struct weir_pool *member = family->first; member != NULL; member = member->member.next)
        if (member->is_graph && !member->member.closing && lies_in(member, (uintptr_t)block)) home = member;
    pthread_mutex_unlock(&family->lock);
    return home;
}

/* ---- begin and end ---------------------------------------------------------------------------------------------- */

/* What was freed on the stream before its capture gets a mark, since none can be recorded in it. */
static void mark_before(struct weir_pool *pool, weir_stream stream) {
    pthread_mutex_lock(&pool->lock);
    const uint32_t slot = weir__order_find(&pool->order, stream);
    weir__fronts_drain(pool);
    if (slot != WEIR__SLOT_NONE && weir__slot_frees(pool->order.slots[slot]) > 0 &&
        weir__order_mark(&pool->order, slot, true) != WEIR_OK)
        weir__log(WEIR__LOG_WARN, "pool: a mark could not be recorded: %s", weir_last_error()->message);
    pthread_mutex_unlock(&pool->lock);
}

/* Calls that took the stream for one that is not captured are through with it. */
static void wait_for_users(struct weir_pool *pool, weir_stream stream) {
    pthread_mutex_lock(&pool->lock);
    weir__order_wait_for_users(&pool->order, stream);
    pthread_mutex_unlock(&pool->lock);
}

static void retire(struct weir_pool *graph, weir_stream stream) {
    pthread_mutex_lock(&graph->lock);
    weir__order_retire(&graph->order, stream);
    pthread_mutex_unlock(&graph->lock);
}

static enum weir_status check(const char *call, const struct weir_pool *pool, const struct weir_pool *graph) {
    enum weir_status status = weir__pool_usable(pool, call);
    if (status == WEIR_OK) status = weir__pool_usable(graph, call);
    if (status != WEIR_OK) return status;
    if (!graph->is_graph || graph->family != pool->family)
        return WEIR__INVALID("%s: '%s' is no sub-pool for graphs of '%s' or its parent", call, graph->name, pool->name);
    if (weir__in_host_function())
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s can't be called inside a host function", call);
    return WEIR_OK;
}

/* False: it is captured already. */
static bool put_down(struct captured *captured) {
    pthread_mutex_lock(&lock);
    const struct captured *other = first;
    while (other != NULL && other->stream != captured->stream) other = other->next;
    if (other == NULL) {
        captured->next = first;
        first = captured;
        __atomic_fetch_add(&weir__captured, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return other == NULL;
}

enum weir_status weir_pool_capture_begin(struct weir_pool *pool, struct weir_pool *graph, weir_stream stream) {
    enum weir_status status = check("weir_pool_capture_begin", pool, graph);
    if (status != WEIR_OK) return status;
    if (is_legacy(stream) || stream == CU_STREAM_PER_THREAD || stream == WEIR__ANY_STREAM)
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                          "weir_pool_capture_begin: the default streams can't be captured; create a stream");
    struct captured *captured = malloc(sizeof *captured);
    if (captured == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a captured stream");
    if (graph_of(stream) == NULL && !captures_now(pool, stream)) weir__family_each(pool->family, mark_before, stream);
    *captured = (struct captured){.stream = stream, .graph = graph};
    if (!put_down(captured)) {
        free(captured);
        return WEIR__INVALID("weir_pool_capture_begin: the stream is captured already");
    }
    weir__capture_hear(pool->device, 0); /* marks of a context that are being recorded are over */
    retire(graph, stream);               /* what was freed there before this capture is not for it */
    weir__family_each(pool->family, wait_for_users, stream);
    weir__pools_pass();
    return WEIR_OK;
}

static bool any_captures_still(const struct weir_pool *graph) {
    bool any = false;
    pthread_mutex_lock(&lock);
    for (const struct captured *captured = first; captured != NULL; captured = captured->next)
        any = any || (captured->graph == graph && captures_now(graph, captured->stream));
    pthread_mutex_unlock(&lock);
    return any;
}

/* Takes one captured stream of a graph off the list; NULL: there is none. */
static struct captured *take(const struct weir_pool *graph) {
    pthread_mutex_lock(&lock);
    struct captured **link = &first;
    while (*link != NULL && (*link)->graph != graph) link = &(*link)->next;
    struct captured *taken = *link;
    if (taken != NULL) {
        *link = taken->next;
        __atomic_fetch_sub(&weir__captured, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

void weir__capture_forget(const struct weir_pool *graph) {
    for (struct captured *taken; (taken = take(graph)) != NULL;) free(taken);
}

enum weir_status weir_pool_capture_end(struct weir_pool *pool, struct weir_pool *graph) {
    enum weir_status status = check("weir_pool_capture_end", pool, graph);
    if (status != WEIR_OK) return status;
    if (any_captures_still(graph))
        return WEIR__INVALID("weir_pool_capture_end: a stream captures still; it comes after cuStreamEndCapture");
    struct captured *taken = take(graph);
    if (taken == NULL) return WEIR__INVALID("weir_pool_capture_end: no stream is captured for '%s'", graph->name);
    free(taken);
    weir__capture_forget(graph);
    return WEIR_OK;
}
