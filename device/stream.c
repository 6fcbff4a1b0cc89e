/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and copies: each call is one driver call in the device's context, then the observers are told. */
#include "device/device.h"

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

enum weir_status weir_stream_create(struct weir_device *device, weir_stream *out) {
    if (out == NULL) return WEIR__INVALID("weir_stream_create needs a place for the stream, not NULL");
    enum weir_status status;
    *out = NULL;
    IN_CONTEXT(device, status, "cuStreamCreate", stream_create(out, CU_STREAM_NON_BLOCKING));
    return status;
}

/* Observers are told while the stream still lives, so that they can record on it. */
enum weir_status weir_stream_destroy(struct weir_device *device, weir_stream stream) {
    if (stream == NULL) return WEIR__INVALID("the default stream can't be destroyed");
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    WEIR__DEVICE_TELL(device, stream_destroyed, (told->self, stream));
    status = weir__device_check(device, device->driver->stream_destroy(stream), "cuStreamDestroy");
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
    if (status != WEIR_OK) return status;
    WEIR__DEVICE_TELL(device, event_destroyed, (told->self, event));
    status = weir__device_check(device, device->driver->event_destroy(event), "cuEventDestroy");
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
