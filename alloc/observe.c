/* SPDX-License-Identifier: Apache-2.0 */
/* What the pool learns of the calls that the program makes through weir/device.h: the trace hears of all of them, the
 * slots of destroyed streams. */
#include "alloc/pool.h"
#include "alloc/trace.h"

static struct weir__trace *trace_of(void *self) { return ((struct weir_pool *)self)->trace; }

static void event_recorded(void *self, weir_event event, weir_stream stream) {
    weir__trace_event_recorded(trace_of(self), event, stream);
}
static void event_destroyed(void *self, weir_event event) { weir__trace_event_destroyed(trace_of(self), event); }
static void event_synchronized(void *self, weir_event event) { weir__trace_event_synchronized(trace_of(self), event); }
static void stream_waited(void *self, weir_stream stream, weir_event event) {
    weir__trace_stream_waited(trace_of(self), stream, event);
}
static void stream_synchronized(void *self, weir_stream stream) {
    weir__trace_stream_synchronized(trace_of(self), stream);
}
static void device_synchronized(void *self) { weir__trace_device_synchronized(trace_of(self)); }

static void stream_destroyed(void *self, weir_stream stream) {
    struct weir_pool *pool = self;
    weir__pool_begin(pool);
    weir__order_stream_destroyed(&pool->order, stream);
    weir__trace_stream_destroyed(pool->trace, stream);
    weir__pool_end(pool);
}

void weir__pool_observe(struct weir_pool *pool) {
    pool->observer = (struct weir__observer){
        .event_recorded = event_recorded,
        .event_destroyed = event_destroyed,
        .stream_waited = stream_waited,
        .stream_destroyed = stream_destroyed,
        .stream_synchronized = stream_synchronized,
        .event_synchronized = event_synchronized,
        .device_synchronized = device_synchronized,
        .self = pool,
    };
    weir__device_observe(pool->device, &pool->observer);
}
