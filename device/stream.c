/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and copies: each call is one driver call in the device's context, then the observers are told. */
#include <stdlib.h>

#include "device/device.h"
#include "device/over.h"

/* Runs `call` of the driver in the device's context; the value is the function's status. */
#define IN_CONTEXT(device, status, name, call)                                                                         \
    do {                                                                                                               \
        status = weir__device_enter(device);                                                                           \
        if (status == WEIR_OK) {                                                                                       \
            status = weir__device_check(device, (device)->driver->call, name);                                         \
            weir__device_leave(device);                                                                                \
        }                                                                                                              \
    } while (0)

/* ---- streams ---------------------------------------------------------------------------------------------------- */

/* Streams of weir_stream_create that weir_stream_destroy has not ended, of all devices. */
struct made {
    const struct weir_device *device;
    weir_stream stream;
};
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
static struct made *made;
static size_t made_count, made_room;

/* Room for one stream more. */
static bool reserve_made(void) {
    if (made_count < made_room) return true;
    const size_t room = made_room == 0 ? 16 : made_room * 2;
    struct made *grown = realloc(made, room * sizeof *grown);
    if (grown == NULL) return false;
    made = grown;
    made_room = room;
    return true;
}

static void remove_made(size_t at) {
    made[at] = made[--made_count];
    if (made_count > 0) return;
    free(made);
    made = NULL;
    made_room = 0;
}

/* made_count: it is not there. */
static size_t place_of(const struct weir_device *device, weir_stream stream) {
    size_t at = 0;
    while (at < made_count && (made[at].device != device || made[at].stream != stream)) at++;
    return at;
}

bool weir__device_has_stream(const struct weir_device *device, weir_stream stream) {
    pthread_mutex_lock(&made_lock);
    const bool has = place_of(device, stream) < made_count;
    pthread_mutex_unlock(&made_lock);
    return has;
}

bool weir__device_has_stream_that(const struct weir_device *device,
                                  bool (*does)(const struct weir__driver *driver, weir_stream stream)) {
    bool any = false;
    pthread_mutex_lock(&made_lock);
    for (size_t at = 0; at < made_count && !any; at++)
        any = made[at].device == device && does(device->driver, made[at].stream);
    pthread_mutex_unlock(&made_lock);
    return any;
}

int weir__device_of_stream(weir_stream stream) {
    int ordinal = -1;
    pthread_mutex_lock(&made_lock);
    for (size_t at = 0; at < made_count && ordinal < 0; at++)
        if (made[at].stream == stream) ordinal = made[at].device->ordinal;
    pthread_mutex_unlock(&made_lock);
    return ordinal;
}

int weir__device_stream_is_anothers(const struct weir_device *device, weir_stream stream) {
    int ordinal = -1;
    pthread_mutex_lock(&made_lock);
    for (size_t at = 0; at < made_count && ordinal != device->ordinal; at++)
        if (made[at].stream == stream && made[at].device->driver == device->driver) ordinal = made[at].device->ordinal;
    pthread_mutex_unlock(&made_lock);
    return ordinal != device->ordinal ? ordinal : -1;
}

/* A handle that stands there already was destroyed unheard, and given again. */
bool weir__device_add_stream(struct weir_device *device, weir_stream stream) {
    pthread_mutex_lock(&made_lock);
    const bool known = place_of(device, stream) < made_count, room = known || reserve_made();
    if (!known && room) made[made_count++] = (struct made){device, stream};
    pthread_mutex_unlock(&made_lock);
    return room;
}

bool weir__device_take_stream(struct weir_device *device, weir_stream stream) {
    pthread_mutex_lock(&made_lock);
    const size_t at = place_of(device, stream);
    const bool there = at < made_count;
    if (there) remove_made(at);
    pthread_mutex_unlock(&made_lock);
    return there;
}

void weir__device_drop_streams(const struct weir_device *device) {
    pthread_mutex_lock(&made_lock);
    for (size_t at = made_count; at-- > 0;)
        if (made[at].device == device) remove_made(at);
    pthread_mutex_unlock(&made_lock);
}

bool weir__device_adopt_stream(struct weir_device *device, weir_stream stream) {
    if (!weir__device_add_stream(device, stream)) return false;
    WEIR__DEVICE_TELL(device, stream_created, (told->self, stream));
    return true;
}

enum weir_status weir_stream_create(struct weir_device *device, weir_stream *out) {
    if (out == NULL) return WEIR__INVALID("weir_stream_create needs a place for the stream, not NULL");
    weir_stream stream = NULL;
    enum weir_status status;
    *out = NULL;
    IN_CONTEXT(device, status, "cuStreamCreate", stream_create(&stream, CU_STREAM_NON_BLOCKING));
    if (status != WEIR_OK) return status;
    if (!weir__device_add_stream(device, stream)) {
        enum weir_status undone;
        IN_CONTEXT(device, undone, "cuStreamDestroy", stream_destroy(stream));
        (void)undone;
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, "realloc", "no host memory for the table of streams");
    }
    WEIR__DEVICE_TELL(device, stream_created, (told->self, stream));
    *out = stream;
    return WEIR_OK;
}

/* Observers are told while the stream still lives, so that they can record on it. */
enum weir_status weir_stream_destroy(struct weir_device *device, weir_stream stream) {
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return WEIR__INVALID("the default stream can't be destroyed");
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return weir__given_back(status);
    /* Before another thread can be given the handle, and so that it is no stream of weir's to calls that name it meanwhile. */
    const bool known = weir__device_take_stream(device, stream);
    WEIR__DEVICE_TELL(device, stream_destroyed, (told->self, stream));
    status = weir__device_check(device, device->driver->stream_destroy(stream), "cuStreamDestroy");
    if (status != WEIR_OK && known) weir__device_add_stream(device, stream);
    status = weir__given_back(status);
    weir__device_leave(device);
    return status;
}

enum weir_status weir_stream_synchronize(struct weir_device *device, weir_stream stream) {
    enum weir_status status;
    IN_CONTEXT(device, status, "cuStreamSynchronize", stream_synchronize(stream));
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, stream_synchronized, (told->self, stream));
    return status;
}

enum weir_status weir_stream_wait(struct weir_device *device, weir_stream stream, weir_event event) {
    enum weir_status status;
    IN_CONTEXT(device, status, "cuStreamWaitEvent", stream_wait(stream, event, 0));
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, stream_waited, (told->self, stream, event));
    return status;
}

enum weir_status weir_device_synchronize(struct weir_device *device) {
    enum weir_status status;
    IN_CONTEXT(device, status, "cuCtxSynchronize", context_synchronize());
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, device_synchronized, (told->self));
    return status;
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

enum weir_status weir_event_create(struct weir_device *device, bool timing, weir_event *out) {
    if (out == NULL) return WEIR__INVALID("weir_event_create needs a place for the event, not NULL");
    enum weir_status status;
    *out = NULL;
    IN_CONTEXT(device, status, "cuEventCreate", event_create(out, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
    return status;
}

/* Observers are told before: right after, the handle may be another thread's new event. */
enum weir_status weir_event_destroy(struct weir_device *device, weir_event event) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return weir__given_back(status);
    WEIR__DEVICE_TELL(device, event_destroyed, (told->self, event));
    status = weir__device_check(device, device->driver->event_destroy(event), "cuEventDestroy");
    status = weir__given_back(status);
    weir__device_leave(device);
    return status;
}

enum weir_status weir_event_record(struct weir_device *device, weir_event event, weir_stream stream) {
    enum weir_status status;
    IN_CONTEXT(device, status, "cuEventRecord", event_record(event, stream));
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, event_recorded, (told->self, event, stream));
    return status;
}

/* Kept apart from weir__device_check: "not ready" is no failure and must not cost a formatted sentence. */
enum weir_status weir_event_query(struct weir_device *device, weir_event event) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    const CUresult code = device->driver->event_query(event);
    status = code == CUDA_ERROR_NOT_READY ? WEIR_NOT_READY : weir__device_check(device, code, "cuEventQuery");
    weir__device_leave(device);
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, event_synchronized, (told->self, event));
    return status;
}

enum weir_status weir_event_synchronize(struct weir_device *device, weir_event event) {
    enum weir_status status;
    IN_CONTEXT(device, status, "cuEventSynchronize", event_synchronize(event));
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, event_synchronized, (told->self, event));
    return status;
}

enum weir_status weir_event_elapsed(struct weir_device *device, weir_event begin, weir_event end, float *ms) {
    if (ms == NULL) return WEIR__INVALID("weir_event_elapsed needs a place for the time, not NULL");
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    const CUresult code = device->driver->event_elapsed(ms, begin, end);
    status = code == CUDA_ERROR_NOT_READY ? WEIR_NOT_READY : weir__device_check(device, code, "cuEventElapsedTime");
    weir__device_leave(device);
    return status;
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

enum weir_status weir_copy(struct weir_device *device, void *to, const void *from, size_t bytes, weir_stream stream) {
    enum weir_status status;
    IN_CONTEXT(device, status, "cuMemcpyAsync",
               copy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, stream));
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, copy_submitted, (told->self, to, from, bytes, stream));
    return status;
}

enum weir_status weir_set(struct weir_device *device, void *at, unsigned char value, size_t bytes, weir_stream stream) {
    enum weir_status status;
    IN_CONTEXT(device, status, "cuMemsetD8Async", set_bytes((CUdeviceptr)(uintptr_t)at, value, bytes, stream));
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, set_submitted, (told->self, at, bytes, stream));
    return status;
}
