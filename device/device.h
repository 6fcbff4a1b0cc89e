/* SPDX-License-Identifier: Apache-2.0 */
/* A device as the parts above see it inside the library: the driver's table, the context, and the observers that learn
 * what order the program makes. Parts above call the driver through `driver` between weir__device_enter and _leave. */
#ifndef WEIR_DEVICE_DEVICE_H
#define WEIR_DEVICE_DEVICE_H

#include <pthread.h>

#include "device/driver.h"
#include "device/error.h"
#include "weir/device.h"

/* For a few bytes that every call looks at: they lie where the thread finds them without a call, also in a library that is loaded
 * late, since that space is small but there. */
#define WEIR__THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* Told of every order call, wait and piece of work made through weir/device.h, after the driver has accepted it and in
 * the calling thread, with no lock of the device held that an observer's call into the device would need. Any member
 * may be NULL. Pools register one (for the trace now, for the program's own order later). */
struct weir__observer {
    void (*event_recorded)(void *self, weir_event event, weir_stream stream);
    void (*event_destroyed)(void *self, weir_event event); /* before the driver's destroy */
    void (*stream_waited)(void *self, weir_stream stream, weir_event event);
    void (*stream_created)(void *self, weir_stream stream);
    void (*stream_destroyed)(void *self, weir_stream stream); /* before the driver's destroy */
    void (*stream_synchronized)(void *self, weir_stream stream);
    void (*event_synchronized)(void *self, weir_event event); /* also when a query found it passed */
    void (*device_synchronized)(void *self);
    void (*work_submitted)(void *self, const struct weir_work *work, weir_stream stream);
    void (*copy_submitted)(void *self, void *to, const void *from, size_t bytes, weir_stream stream);
    void (*set_submitted)(void *self, void *at, size_t bytes, weir_stream stream);
    void *self;
    struct weir__observer *next;
};

struct weir_device {
    const struct weir__driver *driver;
    CUdevice handle;
    CUcontext context;
    int ordinal;
    size_t capacity_bytes;
    size_t granularity_bytes;
    bool watched;          /* the driver is told what watched.h says */
    bool integrated;       /* its memory is the host's */
    const char *host_root; /* where proc and sys are read: "", but in tests */
    char profile[32];
    pthread_rwlock_t observers_lock;
    struct weir__observer *observers;
    unsigned references; /* a device that is opened again is the same one */
    struct weir_device *next;
};

/* Makes the device's context current for driver calls, and gives back what was current before. In between the thread's capture
 * mode is relaxed, so that calls which only change memory or look at events break no capture of any mode. */
WEIR_API enum weir_status weir__device_enter(struct weir_device *device);
WEIR_API void weir__device_leave(struct weir_device *device);

/* WEIR_OK, or WEIR_DRIVER with the code, the call and the driver's text. */
enum weir_status weir__device_check(struct weir_device *device, CUresult code, const char *call);

/* The streams that end by weir_stream_destroy, since weir_stream_create made them, or the library itself: observers hear of
 * their end. A stream made elsewhere may end unheard. add: false without host memory. take: true when it was one. */
WEIR_API bool weir__device_add_stream(struct weir_device *device, weir_stream stream);
WEIR_API bool weir__device_take_stream(struct weir_device *device, weir_stream stream);
/* One that the program has made, and whose end weir will hear of. */
WEIR_API bool weir__device_adopt_stream(struct weir_device *device, weir_stream stream);
bool weir__device_has_stream(const struct weir_device *device, weir_stream stream);
/* Whether `does` says so of any of them; it makes calls of the driver that only look, and there is none that ends meanwhile. */
bool weir__device_has_stream_that(const struct weir_device *device,
                                  bool (*does)(const struct weir__driver *driver, weir_stream stream));
/* Gives: the number of the device whose stream it is; -1 when it was made elsewhere. */
WEIR_API int weir__device_of_stream(weir_stream stream);
/* Gives: the number of another device whose stream it is; -1 when it is this one's, or made elsewhere. */
int weir__device_stream_is_anothers(const struct weir_device *device, weir_stream stream);
/* Forgets those that a device that is being closed has left. */
void weir__device_drop_streams(const struct weir_device *device);

void weir__device_observe(struct weir_device *device, struct weir__observer *observer);
void weir__device_unobserve(struct weir_device *device, struct weir__observer *observer);

/* Tells every observer: WEIR__DEVICE_TELL(device, event_recorded, (told->self, event, stream)). */
#define WEIR__DEVICE_TELL(device, call, arguments)                                                                     \
    do {                                                                                                               \
        pthread_rwlock_rdlock(&(device)->observers_lock);                                                              \
        for (struct weir__observer *told = (device)->observers; told != NULL; told = told->next)                       \
            if (told->call != NULL) told->call arguments;                                                              \
        pthread_rwlock_unlock(&(device)->observers_lock);                                                              \
    } while (0)

/* True in a child that was forked after a device had been opened: the driver's threads are not there, and locks may be held
 * for ever by threads that are not there either. Nothing of weir may be used; every call says so. */
extern WEIR_API bool weir__is_forked;
static inline bool weir__forked(void) { return weir__is_forked; }
enum weir_status weir__fail_forked(void);

/* True inside a host function run through weir_device_submit, where driver calls are refused. */
extern WEIR__THREAD_LOCAL bool weir__hosts_here;
static inline bool weir__in_host_function(void) { return weir__hosts_here; }

#endif
