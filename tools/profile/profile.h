/* SPDX-License-Identifier: Apache-2.0 */
/* weir-profile: measures a device through the library's driver table and writes a machine profile.
 *
 * Words. operation: a piece of work on a stream; its time is the device's, between two events, while the host has
 * queued all of it before it begins. call: an entry of the driver; its time is the host's. figure: what a profile says.
 *
 * main.c options and output    figures.c what operations take    calls.c what calls cost    fit.c costs from samples
 * bench.c the device, time, the gate    write.c a profile, JSON */
#ifndef WEIR_TOOLS_PROFILE_H
#define WEIR_TOOLS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "device/device.h"

/* ---- fit.c ------------------------------------------------------------------------------------------------------ */

/* Needs: count > 0. Reorders the values. */
double median(double *values, size_t count);
/* The value below which a share of the values lies. Reorders them. */
double quantile(double *values, size_t count, double share);

struct sample {
    double handles, bytes, ns;
};

enum { FIT_HANDLES = 1, FIT_BYTES = 2 };

struct fit {
    double fixed_ns, handle_ns, byte_ns;
    double worst; /* relative error of the sample that fits worst */
};

/* The cost that the samples follow best, by least squares of relative errors: a fixed part, and of the `parts` those
 * that are needed; none is negative. */
struct fit fit_cost(const struct sample *samples, size_t count, unsigned parts);

/* ---- bench.c ---------------------------------------------------------------------------------------------------- */

struct gate;

struct bench {
    struct weir_device *device;
    const struct weir__driver *driver;
    int repeats;
    size_t page_bytes, capacity_bytes;
    CUstream stream, other;
    CUevent begin, end, held;
    struct gate *gate; /* a real device's; the emulated driver has its own */
    struct weir_emu_gate *emu_gate;
    double clock_ns; /* what reading the clock twice takes by itself */
    /* a kernel that does nothing, through the driver's own entries; launch is NULL where there is none */
    CUresult (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                       void **, void **);
    CUresult (*unload)(void *module);
    void *module, *kernel;
    char why[512]; /* what failed */
};

/* Fails: false, with bench->why. */
bool bench_open(struct bench *bench, int ordinal, int repeats, bool *bad_input);
void bench_close(struct bench *bench);
bool bench_check(struct bench *bench, CUresult code, const char *entry);
/* Runs an entry of the driver's table; false, with bench->why, when it fails. */
#define DO(member, symbol, ...) bench_check(bench, bench->driver->member(__VA_ARGS__), #symbol)

double bench_now(const struct bench *bench); /* nanoseconds */

/* Holds what is queued on the stream from now on; then lets it go. */
bool bench_hold(struct bench *bench, CUstream stream);
bool bench_release(struct bench *bench);

/* ---- figures.c, calls.c ----------------------------------------------------------------------------------------- */

struct figures {
    double arithmetic_flops; /* 0: not measured */
    double memory_rate, set_rate;
    double to_device_rate, to_host_rate, to_device_together, to_host_together;
    double copy_ns, kernel_ns, host_function_ns, launch_ns, wake_ns;
    double jitter;
    bool kernel_launched; /* kernel_ns and launch_ns are a kernel's, else a set's */
};

bool measure_figures(struct bench *bench, struct figures *figures);

/* X(name, symbol, parts): the calls that are measured by themselves. */
#define CALL_LIST(X)                                                                                                   \
    X(RESERVE, cuMemAddressReserve, FIT_BYTES)                                                                         \
    X(UNRESERVE, cuMemAddressFree, FIT_BYTES)                                                                          \
    X(CREATE, cuMemCreate, FIT_BYTES)                                                                                  \
    X(RELEASE, cuMemRelease, FIT_BYTES)                                                                                \
    X(MAP, cuMemMap, FIT_BYTES)                                                                                        \
    X(SET_ACCESS, cuMemSetAccess, FIT_HANDLES | FIT_BYTES)                                                             \
    X(UNMAP, cuMemUnmap, FIT_HANDLES | FIT_BYTES)                                                                      \
    X(ALLOC, cuMemAlloc, FIT_BYTES)                                                                                    \
    X(FREE, cuMemFree, FIT_BYTES)                                                                                      \
    X(HOST_ALLOC, cuMemHostAlloc, FIT_BYTES)                                                                           \
    X(HOST_FREE, cuMemFreeHost, FIT_BYTES)                                                                             \
    X(HOST_REGISTER, cuMemHostRegister, FIT_BYTES)                                                                     \
    X(HOST_UNREGISTER, cuMemHostUnregister, FIT_BYTES)                                                                 \
    X(COPY, cuMemcpyAsync, 0)                                                                                          \
    X(SET, cuMemsetD8Async, 0)                                                                                         \
    X(HOST_FUNCTION, cuLaunchHostFunc, 0)                                                                              \
    X(LAUNCH, cuLaunchKernel, 0)                                                                                       \
    X(STREAM_WAIT, cuStreamWaitEvent, 0)                                                                               \
    X(RECORD, cuEventRecord, 0)                                                                                        \
    X(EVENT_QUERY, cuEventQuery, 0)                                                                                    \
    X(EVENT_CREATE, cuEventCreate, 0)                                                                                  \
    X(EVENT_DESTROY, cuEventDestroy, 0)                                                                                \
    X(STREAM_CREATE, cuStreamCreate, 0)                                                                                \
    X(STREAM_DESTROY, cuStreamDestroy, 0)                                                                              \
    X(ANY, cuStreamQuery, 0) /* stands for all others */

enum call {
#define CALL_NUMBER(name, symbol, parts) CALL_##name,
    CALL_LIST(CALL_NUMBER)
#undef CALL_NUMBER
        CALLS
};
extern const char *const call_names[CALLS];

struct call_cost {
    struct fit fit;
    size_t samples; /* 0: not measured */
};

bool measure_calls(struct bench *bench, struct call_cost costs[CALLS]);

/* ---- write.c ---------------------------------------------------------------------------------------------------- */

struct subject {
    char name[64];
    char profile[32]; /* of the emulated machine, else "" */
    bool emulated, virtual_clock, integrated;
    int ordinal, driver_version, repeats;
    size_t capacity_bytes, page_bytes;
    const char *arithmetic; /* as the caller says it, or NULL */
};

void write_profile(FILE *out, const struct subject *subject, const struct figures *figures,
                   const struct call_cost costs[CALLS]);
void write_json(FILE *out, const struct subject *subject, const struct figures *figures,
                const struct call_cost costs[CALLS]);

#endif
