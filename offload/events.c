/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/events.h"

#include <assert.h>
#include <stdlib.h>

#include "device/error.h"

void weir__events_init(struct weir__events *events, struct weir_device *device) {
    *events = (struct weir__events){.device = device};
    pthread_mutex_init(&events->lock, NULL);
}

void weir__events_destroy(struct weir__events *events) {
    assert(events->idle_count == events->created);
    for (size_t i = 0; i < events->idle_count; i++)
        if (weir_event_destroy(events->device, events->idle[i]) != WEIR_OK)
            weir__log(WEIR__LOG_ERROR, "host pool: an event could not be destroyed: %s", weir_last_error()->message);
    free(events->idle);
    pthread_mutex_destroy(&events->lock);
}

/* Makes sure that one event more can be given back. */
static enum weir_status reserve(struct weir__events *events) {
    pthread_mutex_lock(&events->lock);
    weir_event *idle = realloc(events->idle, (events->created + 1) * sizeof *idle);
    if (idle != NULL) {
        events->idle = idle;
        events->created++;
    }
    pthread_mutex_unlock(&events->lock);
    return idle != NULL ? WEIR_OK : weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "offload: no memory for an event");
}

static enum weir_status create(struct weir__events *events, weir_event *out) {
    enum weir_status status = reserve(events);
    if (status != WEIR_OK) return status;
    status = weir_event_create(events->device, false, out);
    if (status != WEIR_OK) {
        pthread_mutex_lock(&events->lock);
        events->created--;
        pthread_mutex_unlock(&events->lock);
    }
    return status;
}

enum weir_status weir__events_take(struct weir__events *events, weir_event *out) {
    pthread_mutex_lock(&events->lock);
    *out = events->idle_count > 0 ? events->idle[--events->idle_count] : NULL;
    pthread_mutex_unlock(&events->lock);
    return *out != NULL ? WEIR_OK : create(events, out);
}

enum weir_status weir__events_record(struct weir__events *events, weir_stream stream, weir_event *out) {
    enum weir_status status = weir__events_take(events, out);
    if (status != WEIR_OK) return status;
    status = weir_event_record(events->device, *out, stream);
    if (status != WEIR_OK) {
        weir__events_give(events, *out);
        *out = NULL;
    }
    return status;
}

void weir__events_give(struct weir__events *events, weir_event event) {
    if (event == NULL) return;
    pthread_mutex_lock(&events->lock);
    assert(events->idle_count < events->created);
    events->idle[events->idle_count++] = event;
    pthread_mutex_unlock(&events->lock);
}
