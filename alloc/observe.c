/* SPDX-License-Identifier: Apache-2.0 */
/* What the pool learns of the calls that the program makes through weir/device.h: the trace hears of all of them, the
 * slots of destroyed streams, and the order of records and waits. */
#include "alloc/pool.h"
#include "alloc/trace.h"
#include "device/emulated.h"

static struct weir__trace *trace_of(void *self) { return ((struct weir_pool *)self)->trace; }

/* ---- order, as the program makes it (heard.h) -------------------------------------------------------------------- */

static void hear_record(struct weir_pool *pool, weir_event event, weir_stream stream) {
    if (pool->deterministic) return;
    pthread_mutex_lock(&pool->lock);
    const uint64_t freed = weir__stamp(pool) - 1; /* what fronts keep from now on is behind it */
    weir__heard_record(&pool->order.heard, weir__order_find(&pool->order, stream), event, freed);
    pthread_mutex_unlock(&pool->lock);
}

static void hear_wait(struct weir_pool *pool, weir_stream stream, weir_event event) {
    if (pool->deterministic) return;
    pthread_mutex_lock(&pool->lock);
    weir__heard_wait(&pool->order.heard, weir__order_find(&pool->order, stream), event);
    pthread_mutex_unlock(&pool->lock);
}

static void hear_end(struct weir_pool *pool, weir_event event) {
    pthread_mutex_lock(&pool->lock);
    weir__heard_forget(&pool->order.heard, event);
    pthread_mutex_unlock(&pool->lock);
}

static void event_recorded(void *self, weir_event event, weir_stream stream) {
    hear_record(self, event, stream);
    weir__trace_event_recorded(trace_of(self), event, stream);
}
static void event_destroyed(void *self, weir_event event) {
    hear_end(self, event);
    weir__trace_event_destroyed(trace_of(self), event);
}
static void event_synchronized(void *self, weir_event event) { weir__trace_event_synchronized(trace_of(self), event); }
static void stream_waited(void *self, weir_stream stream, weir_event event) {
    hear_wait(self, stream, event);
    weir__trace_stream_waited(trace_of(self), stream, event);
}
static void stream_synchronized(void *self, weir_stream stream) {
    weir__trace_stream_synchronized(trace_of(self), stream);
}
static void device_synchronized(void *self) { weir__trace_device_synchronized(trace_of(self)); }

/* ---- what takes time: asked of the emulated driver, which knows it beforehand under the virtual clock ------------- */

/* Works that have no description, and launches, take what a kernel of no size takes. */
static void work_submitted(void *self, const struct weir_work *work, weir_stream stream) {
    const struct weir_pool *pool = self;
    struct weir_emu_work same = {.size = sizeof same};
    double ns = 0;
    if (work->run != NULL) {
        same.flops = work->flops;
        same.bytes = work->bytes;
    }
    if (pool->device->driver->emu_work_time(&same, &ns) == CUDA_SUCCESS) weir__trace_work(pool->trace, stream, ns);
}

static void copy_submitted(void *self, void *to, const void *from, size_t bytes, weir_stream stream) {
    const struct weir_pool *pool = self;
    double ns = 0;
    if (pool->device->driver->emu_copy_time((uintptr_t)to, (uintptr_t)from, bytes, &ns) == CUDA_SUCCESS)
        weir__trace_work(pool->trace, stream, ns);
}

static void set_submitted(void *self, void *at, size_t bytes, weir_stream stream) {
    copy_submitted(self, at, NULL, bytes, stream);
}

static void observe_time(struct weir_pool *pool) {
    if (pool->trace == NULL || !weir__device_takes_turns(pool->device)) return;
    pool->observer.work_submitted = work_submitted;
    pool->observer.copy_submitted = copy_submitted;
    pool->observer.set_submitted = set_submitted;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void stream_created(void *self, weir_stream stream) {
    struct weir_pool *pool = self;
    weir__pool_begin(pool);
    weir__front_end(pool, weir__order_find(&pool->order, stream));
    weir__order_stream_created(&pool->order, stream);
    weir__pool_end(pool);
}

static void stream_destroyed(void *self, weir_stream stream) {
    struct weir_pool *pool = self;
    weir__pool_begin(pool);
    const uint32_t slot = weir__order_find(&pool->order, stream);
    weir__front_end(pool, slot);
    weir__order_stream_destroyed(&pool->order, stream);
    weir__charge(pool, slot);
    weir__trace_stream_destroyed(pool->trace, stream);
    weir__pool_end(pool);
}

void weir__pool_observe(struct weir_pool *pool) {
    pool->observer = (struct weir__observer){
        .event_recorded = event_recorded,
        .event_destroyed = event_destroyed,
        .stream_waited = stream_waited,
        .stream_created = stream_created,
        .stream_destroyed = stream_destroyed,
        .stream_synchronized = stream_synchronized,
        .event_synchronized = event_synchronized,
        .device_synchronized = device_synchronized,
        .self = pool,
    };
    observe_time(pool);
    weir__device_observe(pool->device, &pool->observer);
}
