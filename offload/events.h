/* SPDX-License-Identifier: Apache-2.0 */
/* Events, kept for the next use: a steady step creates none. An event taken belongs to the taker until it gives it back,
 * which it may do as soon as every wait for it has been queued: a queued wait holds on to the record it saw. */
#ifndef WEIR_OFFLOAD_EVENTS_H
#define WEIR_OFFLOAD_EVENTS_H

#include <pthread.h>
#include <stddef.h>

#include "weir/device.h"

struct weir__events {
    struct weir_device *device;
    pthread_mutex_t lock;
    weir_event *idle;
    size_t idle_count;
    size_t created; /* room in `idle`, so that giving back never allocates */
};

void weir__events_init(struct weir__events *events, struct weir_device *device);
/* Needs: all events given back. */
void weir__events_destroy(struct weir__events *events);
enum weir_status weir__events_take(struct weir__events *events, weir_event *out);
/* Takes an event and records it on a stream. */
enum weir_status weir__events_record(struct weir__events *events, weir_stream stream, weir_event *out);
/* NULL is allowed. */
void weir__events_give(struct weir__events *events, weir_event event);

#endif
