/* SPDX-License-Identifier: Apache-2.0 */
/* The machine underneath: a CUDA device through its driver, or the emulated one through the same driver interface.
 *
 * A device is opened once a process and device number; streams and events are the driver's own handles, so a
 * cudaStream_t or CUstream passes without a cast. Stream 0 is the legacy default stream. A call makes the device's
 * primary context current for its own duration and restores the caller's.
 *
 * Ownership: the caller owns what it creates. Closing a device waits for its work and releases its context.
 * End: once the driver is shutting down, or the program has destroyed the context or reset the device, calls that give
 * something back (frees, destroys, trim) succeed and do nothing; others fail with WEIR_DRIVER, but that a request for memory on
 * the legacy stream, or of no stream, may be served from what the pool has idle still.
 * Fork: a child made after a device was opened must not use weir; every call there returns WEIR_NOT_SUPPORTED.
 * Threads: any, for every function here, unless it says otherwise. Functions called from inside a host function that
 * would need the driver return WEIR_NOT_SUPPORTED. */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct CUstream_st *weir_stream;
typedef struct CUevent_st *weir_event;
struct weir_device;

/* ---- open and close ------------------------------------------------------------------------------------------- */

struct weir_device_options {
    size_t size;         /* sizeof(struct weir_device_options) */
    const char *machine; /* "cuda", "emulated" or "auto"; NULL: WEIR_DEVICE, else "cuda".
                          * auto: emulated only if there is no libcuda.so.1 or cuInit says that there is no device */
    int ordinal;         /* which device of the driver, from 0 */
    const char *emu;     /* settings of the emulated machine, as in WEIR_EMU ("profile:demo,capacity:64M"), used
                          * when this process has not loaded the emulated driver yet; NULL: WEIR_EMU, else defaults */
};

struct weir_device_info {
    size_t size;   /* in: sizeof(struct weir_device_info) */
    bool emulated; /* true: no GPU was used, whatever the figures say */
    int ordinal;
    int numa_node;            /* the node of the GPU's own CPUs, -1 if not known */
    size_t capacity_bytes;    /* all the device's memory */
    size_t granularity_bytes; /* size of a page: the smallest physical handle */
    char name[64];            /* as the driver names it */
    char profile[32];         /* the emulated machine's profile, "" on a real device */
};

/* Opens a device and retains its primary context.
 *
 * Needs:   options, or NULL for the defaults.
 * Gives:   *out, to be closed with weir_device_close.
 * Fails:   WEIR_NO_DEVICE without a driver or a device of that number; WEIR_INVALID for malformed options (names the
 *          key, the value and what was expected). *out is NULL. */
WEIR_API enum weir_status weir_device_open(const struct weir_device_options *options, struct weir_device **out);

/* Waits for the device's work, then gives its context back. NULL is allowed. Pools, host pools and engines on the device must be
 * destroyed before: to close it for the last time while it has a pool is an error, which is logged, and nothing happens. */
WEIR_API void weir_device_close(struct weir_device *device);

WEIR_API enum weir_status weir_device_get_info(struct weir_device *device, struct weir_device_info *info);

/* Gives: memory of the device that no process has taken, and all of it, as the driver says now. On a device that shares the
 * host's memory, free is what the process may still take there: the least of what the host has available and what the
 * memory cgroups above the process leave, whatever the driver says of the kernel's page cache. */
WEIR_API enum weir_status weir_device_memory(struct weir_device *device, size_t *free_bytes, size_t *total_bytes);

/* Waits until all work queued on the device so far has completed. */
WEIR_API enum weir_status weir_device_synchronize(struct weir_device *device);

/* ---- streams and events ---------------------------------------------------------------------------------------- */

/* Creates a stream that does not synchronise with the legacy default stream. */
WEIR_API enum weir_status weir_stream_create(struct weir_device *device, weir_stream *out);
/* Work still queued on it runs to its end; the handle may be given to a later stream. */
WEIR_API enum weir_status weir_stream_destroy(struct weir_device *device, weir_stream stream);
WEIR_API enum weir_status weir_stream_synchronize(struct weir_device *device, weir_stream stream);
/* Makes later work on `stream` wait for the latest record of `event`; an event never recorded holds nothing back. */
WEIR_API enum weir_status weir_stream_wait(struct weir_device *device, weir_stream stream, weir_event event);

/* Creates an event; timing costs a little and makes weir_event_elapsed possible. */
WEIR_API enum weir_status weir_event_create(struct weir_device *device, bool timing, weir_event *out);
WEIR_API enum weir_status weir_event_destroy(struct weir_device *device, weir_event event);
WEIR_API enum weir_status weir_event_record(struct weir_device *device, weir_event event, weir_stream stream);
/* Gives: WEIR_OK when the latest record has passed, WEIR_NOT_READY (which is no failure) when not. */
WEIR_API enum weir_status weir_event_query(struct weir_device *device, weir_event event);
WEIR_API enum weir_status weir_event_synchronize(struct weir_device *device, weir_event event);
/* Gives: *ms between two passed records of events with timing. */
WEIR_API enum weir_status weir_event_elapsed(struct weir_device *device, weir_event begin, weir_event end, float *ms);

/* ---- work ------------------------------------------------------------------------------------------------------ */

/* Copies between any two places the driver knows (device, pinned or pageable host), in the order of `stream`. */
WEIR_API enum weir_status weir_copy(struct weir_device *device, void *to, const void *from, size_t bytes,
                                    weir_stream stream);
/* Sets `bytes` bytes to `value`, in the order of `stream`. */
WEIR_API enum weir_status weir_set(struct weir_device *device, void *at, unsigned char value, size_t bytes,
                                   weir_stream stream);

struct weir_access {
    const void *address;
    size_t bytes;
    bool write;
};

/* One piece of work, in the one form in which all work is submitted. Exactly one of run and launch is set. */
struct weir_work {
    const char *name;            /* for reports; static storage */
    void (*run)(void *argument); /* host function: called when the stream reaches it; no driver calls */
    int (*launch)(void *argument, weir_stream s); /* kernel launch: called at once; queues on s; 0 or a CUresult */
    void *argument;
    size_t argument_bytes; /* > 0: so many bytes are copied now; 0: `argument` is passed on and must live until then */
    const struct weir_access *accesses; /* all that it reads and writes; read during the call only. NULL: not said */
    size_t access_count;
    double flops; /* what it costs: arithmetic, and bytes moved through memory */
    double bytes;
};

/* Queues a piece of work on a stream. A real driver gets the launch or the host function; the emulated one also gets
 * the description. Blocks while the stream's launch queue is full.
 *
 * Fails:   WEIR_INVALID when neither or both of run and launch are set; WEIR_DRIVER. Nothing is queued. */
WEIR_API enum weir_status weir_device_submit(struct weir_device *device, const struct weir_work *work,
                                             weir_stream stream);

/* ---- pinned host memory ---------------------------------------------------------------------------------------- */

/* Registers (pins) host memory of the caller, so that copies from and to it run beside the host.
 * bytes == 0 succeeds and does nothing. Fails: WEIR_DRIVER; the driver's sticky error, if any, is cleared. */
WEIR_API enum weir_status weir_host_register(struct weir_device *device, void *address, size_t bytes);
WEIR_API enum weir_status weir_host_unregister(struct weir_device *device, void *address);
/* Pinned host memory from the driver itself. */
WEIR_API enum weir_status weir_host_alloc(struct weir_device *device, size_t bytes, void **out);
WEIR_API enum weir_status weir_host_free(struct weir_device *device, void *address);

#if defined(__cplusplus)
}
#endif
#endif
