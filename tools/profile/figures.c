/* SPDX-License-Identifier: Apache-2.0 */
/* What operations take. All of a series is queued while a gate holds the stream, so that the device never waits for the
 * host; events around it give the time. */
#include <math.h>
#include <stdlib.h>

#include "device/emulated.h"
#include "profile.h"

enum { MOST_REPEATS = 100, SERIES = 16, SHORT_SERIES = 128, SINGLES = 64 };

enum operation { TO_DEVICE, TO_HOST, WITHIN, SET, KERNEL, ARITHMETIC, FUNCTION, NONE };

/* Where copies go from and to: two halves of device memory, and of pinned host memory. */
struct places {
    CUdeviceptr device;
    char *host;
    size_t bytes; /* of the largest operation, and of each half */
};

static void nothing(void *argument) { (void)argument; }

static bool push(struct bench *bench, const struct places *places, enum operation operation, double amount,
                 CUstream stream) {
    const size_t bytes = (size_t)amount;
    const CUdeviceptr device = places->device, host = (CUdeviceptr)(uintptr_t)places->host;
    switch (operation) {
    case TO_DEVICE:
        return DO(copy, cuMemcpyAsync, device, host, bytes, stream);
    case TO_HOST: /* of another half each, so that the two directions share no byte */
        return DO(copy, cuMemcpyAsync, host + places->bytes, device + places->bytes, bytes, stream);
    case WITHIN:
        return DO(copy, cuMemcpyAsync, device, device + places->bytes, bytes, stream);
    case SET:
        return DO(set_bytes, cuMemsetD8Async, device, 1, bytes, stream);
    case KERNEL:
        return bench_check(bench, bench->launch(bench->kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
                           "cuLaunchKernel");
    case ARITHMETIC: {
        const struct weir_emu_work work = {.size = sizeof work, .name = "product", .flops = amount};
        return DO(emu_submit, weirEmuSubmit, &work, stream);
    }
    default:
        return DO(host_function, cuLaunchHostFunc, stream, nothing, NULL);
    }
}

static bool push_series(struct bench *bench, const struct places *places, enum operation operation, double amount,
                        int count, CUstream stream) {
    for (int i = 0; i < count; i++)
        if (!push(bench, places, operation, amount, stream)) return false;
    return true;
}

/* The other stream goes along from the moment that the gate opens. */
static bool push_beside(struct bench *bench, const struct places *places, enum operation operation, double amount,
                        int count) {
    if (operation == NONE) return true;
    return DO(event_record, cuEventRecord, bench->held, bench->stream) &&
           DO(stream_wait, cuStreamWaitEvent, bench->other, bench->held, 0) &&
           push_series(bench, places, operation, amount, count, bench->other);
}

/* Nanoseconds of an operation in a series of `count`, while `beside` keeps another stream busy for longer. */
static bool time_once(struct bench *bench, const struct places *places, enum operation operation, double amount,
                      int count, enum operation beside, double *ns) {
    float ms;
    const bool done = bench_hold(bench, bench->stream) && push_beside(bench, places, beside, amount, 4 * count) &&
                      DO(event_record, cuEventRecord, bench->begin, bench->stream) &&
                      push_series(bench, places, operation, amount, count, bench->stream) &&
                      DO(event_record, cuEventRecord, bench->end, bench->stream) && bench_release(bench) &&
                      DO(stream_synchronize, cuStreamSynchronize, bench->stream) &&
                      DO(stream_synchronize, cuStreamSynchronize, bench->other) &&
                      DO(event_elapsed, cuEventElapsedTime, &ms, bench->begin, bench->end);
    *ns = done ? (double)ms * 1e6 / count : 0;
    return done;
}

/* The median of the repeats, after one that warms up. */
static bool time_operation(struct bench *bench, const struct places *places, enum operation operation, double amount,
                           int count, enum operation beside, double *ns) {
    double took[MOST_REPEATS + 1];
    for (int i = 0; i <= bench->repeats; i++)
        if (!time_once(bench, places, operation, amount, count, beside, &took[i])) return false;
    *ns = median(took + 1, (size_t)bench->repeats);
    return true;
}

/* An operation takes `fixed_ns` and `amount / rate`: the rate from a large one and one half as large, what is fixed
 * from a small one. */
static bool time_line(struct bench *bench, const struct places *places, enum operation operation, double small,
                      double large, double *rate, double *fixed_ns) {
    double small_ns, half_ns, large_ns;
    if (!time_operation(bench, places, operation, small, SHORT_SERIES, NONE, &small_ns) ||
        !time_operation(bench, places, operation, large / 2, SERIES, NONE, &half_ns) ||
        !time_operation(bench, places, operation, large, SERIES, NONE, &large_ns))
        return false;
    const double ns = large_ns - half_ns;
    *rate = (ns > 0 ? large / 2 / ns : large / large_ns) * 1e9;
    *fixed_ns = fmax(small_ns - small / *rate * 1e9, 0);
    return true;
}

/* ---- copies and memory ------------------------------------------------------------------------------------------ */

/* While both directions are busy an operation takes longer by as much as its rate is lower. */
static bool time_together(struct bench *bench, const struct places *places, enum operation operation,
                          enum operation beside, double rate, double *together) {
    double alone_ns, beside_ns;
    const double bytes = (double)places->bytes;
    if (!time_operation(bench, places, operation, bytes, SERIES, NONE, &alone_ns) ||
        !time_operation(bench, places, operation, bytes, SERIES, beside, &beside_ns))
        return false;
    *together = beside_ns > 0 ? rate * fmin(alone_ns / beside_ns, 1) : rate;
    return true;
}

static bool measure_copies(struct bench *bench, const struct places *places, struct figures *figures) {
    double to_device_ns, to_host_ns;
    const double large = (double)places->bytes;
    if (!time_line(bench, places, TO_DEVICE, 512, large, &figures->to_device_rate, &to_device_ns) ||
        !time_line(bench, places, TO_HOST, 512, large, &figures->to_host_rate, &to_host_ns) ||
        !time_together(bench, places, TO_DEVICE, TO_HOST, figures->to_device_rate, &figures->to_device_together) ||
        !time_together(bench, places, TO_HOST, TO_DEVICE, figures->to_host_rate, &figures->to_host_together))
        return false;
    figures->copy_ns = (to_device_ns + to_host_ns) / 2;
    return true;
}

static bool measure_memory(struct bench *bench, const struct places *places, struct figures *figures) {
    double copy_rate, copy_ns;
    const double large = (double)places->bytes;
    if (!time_line(bench, places, WITHIN, 512, large, &copy_rate, &copy_ns) ||
        !time_line(bench, places, SET, 512, large, &figures->set_rate, &figures->kernel_ns))
        return false;
    figures->memory_rate = 2 * copy_rate; /* a copy reads and writes */
    return true;
}

static bool measure_jitter(struct bench *bench, const struct places *places, struct figures *figures) {
    double took[SINGLES];
    for (int i = 0; i < SINGLES; i++)
        if (!time_once(bench, places, SET, (double)places->bytes, 1, NONE, &took[i])) return false;
    const double middle = median(took, SINGLES);
    if (middle <= 0) return true;
    /* of what is spread evenly from -j to j, the middle eight tenths span 1.6 j */
    figures->jitter = fmin((quantile(took, SINGLES, 0.9) - quantile(took, SINGLES, 0.1)) / middle / 1.6, 0.99);
    return true;
}

/* ---- kernels, functions, the host ------------------------------------------------------------------------------- */

static bool measure_kernels(struct bench *bench, const struct places *places, struct figures *figures) {
    double fixed_ns;
    figures->kernel_launched = bench->launch != NULL;
    if (bench->launch != NULL && !time_operation(bench, places, KERNEL, 0, SHORT_SERIES, NONE, &figures->kernel_ns))
        return false;
    if (!time_operation(bench, places, FUNCTION, 0, SHORT_SERIES, NONE, &figures->host_function_ns)) return false;
    /* a product of matrices needs a library on a real device, and by the real clock described work takes no time */
    return !weir__device_takes_turns(bench->device) ||
           time_line(bench, places, ARITHMETIC, 1e3, 1e13, &figures->arithmetic_flops, &fixed_ns);
}

struct moment {
    const struct bench *bench;
    double ns;
};

static void note_moment(void *argument) {
    struct moment *moment = argument;
    moment->ns = bench_now(moment->bench);
}

/* From a host function's own reading of the clock to the return of the host that waits for it. */
static bool measure_wake(struct bench *bench, struct figures *figures) {
    double took[SINGLES];
    for (int i = 0; i < SINGLES; i++) {
        struct moment moment = {bench, 0};
        if (!DO(host_function, cuLaunchHostFunc, bench->stream, note_moment, &moment) ||
            !DO(stream_synchronize, cuStreamSynchronize, bench->stream))
            return false;
        took[i] = bench_now(bench) - moment.ns - bench->clock_ns;
    }
    figures->wake_ns = fmax(median(took, SINGLES), 0);
    return true;
}

/* From the return of a call to the start on an idle stream: what is left of the time until the host knows that it is
 * over. */
static bool measure_launch(struct bench *bench, const struct places *places, struct figures *figures) {
    double took[SINGLES];
    for (int i = 0; i < SINGLES; i++) {
        if (!push(bench, places, bench->launch != NULL ? KERNEL : SET, 512, bench->stream)) return false;
        const double begin = bench_now(bench);
        if (!DO(stream_synchronize, cuStreamSynchronize, bench->stream)) return false;
        took[i] = bench_now(bench) - begin - bench->clock_ns;
    }
    figures->launch_ns = fmax(median(took, SINGLES) - figures->kernel_ns - figures->wake_ns, 0);
    return true;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static bool make_places(struct bench *bench, struct places *places) {
    /* past every cache of a real device; an emulated one does the copies with the host's */
    const size_t most = bench->driver->emulated ? (size_t)16 << 20 : (size_t)256 << 20;
    places->bytes = bench->capacity_bytes / 8 < most ? bench->capacity_bytes / 8 : most;
    places->bytes -= places->bytes % 1024;
    void *host;
    if (!DO(memory_alloc, cuMemAlloc, &places->device, 2 * places->bytes) ||
        !DO(host_alloc, cuMemHostAlloc, &host, 2 * places->bytes, 0))
        return false;
    places->host = host;
    const CUdeviceptr to = (CUdeviceptr)(uintptr_t)host;
    return DO(set_bytes, cuMemsetD8Async, places->device, 0, 2 * places->bytes, bench->stream) &&
           DO(copy, cuMemcpyAsync, to, places->device, 2 * places->bytes, bench->stream) &&
           DO(stream_synchronize, cuStreamSynchronize, bench->stream);
}

bool measure_figures(struct bench *bench, struct figures *figures) {
    struct places places = {0};
    *figures = (struct figures){0};
    if (bench->repeats > MOST_REPEATS) bench->repeats = MOST_REPEATS;
    const bool measured = make_places(bench, &places) && measure_copies(bench, &places, figures) &&
                          measure_memory(bench, &places, figures) && measure_jitter(bench, &places, figures) &&
                          measure_kernels(bench, &places, figures) && measure_wake(bench, figures) &&
                          measure_launch(bench, &places, figures);
    if (!measured) return false; /* the process ends; nothing is given back behind a failure */
    return DO(host_free, cuMemFreeHost, places.host) && DO(memory_free, cuMemFree, places.device);
}
