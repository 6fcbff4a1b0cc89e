/* SPDX-License-Identifier: Apache-2.0 */
/* What calls cost the host, by how many handles and bytes they are about. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

enum { MOST_SAMPLES = 24, MOST_HANDLES = 8, MOST_REPEATS = 100, QUEUED = 128 };

const char *const call_names[CALLS] = {
#define CALL_NAME(name, symbol, parts) [CALL_##name] = #symbol,
    CALL_LIST(CALL_NAME)
#undef CALL_NAME
};

static const unsigned call_parts[CALLS] = {
#define CALL_PARTS(name, symbol, parts) [CALL_##name] = (parts),
    CALL_LIST(CALL_PARTS)
#undef CALL_PARTS
};

/* A call with one number of handles and bytes, measured again and again; the first time warms up. */
struct point {
    double handles, bytes;
    double took[MOST_REPEATS + 1];
    int times;
};

struct board {
    struct bench *bench;
    struct point points[CALLS][MOST_SAMPLES];
    size_t counts[CALLS];
};

/* ---- one call --------------------------------------------------------------------------------------------------- */

static struct point *find_point(struct board *board, enum call call, double handles, double bytes) {
    size_t i = 0;
    for (; i < board->counts[call]; i++)
        if (board->points[call][i].handles == handles && board->points[call][i].bytes == bytes)
            return &board->points[call][i];
    if (i == MOST_SAMPLES) abort(); /* the sizes below are fewer */
    board->counts[call]++;
    board->points[call][i] = (struct point){.handles = handles, .bytes = bytes};
    return &board->points[call][i];
}

/* `count` calls were made since `begin`. */
static void note(struct board *board, enum call call, double handles, double bytes, double begin, int count) {
    const double ns = bench_now(board->bench) - begin - board->bench->clock_ns;
    struct point *point = find_point(board, call, handles, bytes);
    if (point->times <= MOST_REPEATS) point->took[point->times++] = fmax(ns, 0) / count;
}

/* Times an entry of the table. */
#define TIME(call, handles, bytes, member, symbol, ...)                                                                \
    (begin = bench_now(bench), DO(member, symbol, __VA_ARGS__)) &&                                                     \
        (note(board, (call), (double)(handles), (double)(bytes), begin, 1), true)

/* ---- memory in pages -------------------------------------------------------------------------------------------- */

static bool map_handles(struct board *board, CUdeviceptr address, size_t handles, size_t bytes) {
    struct bench *bench = board->bench;
    CUmemGenericAllocationHandle handle[MOST_HANDLES];
    double begin;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, bench->device->handle}};
    for (size_t i = 0; i < handles; i++)
        if (!(TIME(CALL_CREATE, 1, bytes, page_create, cuMemCreate, &handle[i], bytes, &properties, 0))) return false;
    for (size_t i = 0; i < handles; i++)
        if (!(TIME(CALL_MAP, 1, bytes, page_map, cuMemMap, address + i * bytes, bytes, 0, handle[i], 0))) return false;
    const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (!(TIME(CALL_SET_ACCESS, handles, handles * bytes, page_set_access, cuMemSetAccess, address, handles * bytes,
               &access, 1)) ||
        !(TIME(CALL_UNMAP, handles, handles * bytes, page_unmap, cuMemUnmap, address, handles * bytes)))
        return false;
    for (size_t i = 0; i < handles; i++)
        if (!(TIME(CALL_RELEASE, 1, bytes, page_release, cuMemRelease, handle[i]))) return false;
    return true;
}

static bool measure_pages(struct board *board, size_t handles, size_t bytes) {
    struct bench *bench = board->bench;
    CUdeviceptr address;
    double begin;
    return TIME(CALL_RESERVE, 0, handles * bytes, address_reserve, cuMemAddressReserve, &address, handles * bytes, 0, 0,
                0) &&
           map_handles(board, address, handles, bytes) &&
           TIME(CALL_UNRESERVE, 0, handles * bytes, address_free, cuMemAddressFree, address, handles * bytes);
}

/* ---- plain and pinned memory ------------------------------------------------------------------------------------ */

static bool measure_alloc(struct board *board, size_t bytes) {
    struct bench *bench = board->bench;
    CUdeviceptr address;
    double begin;
    return TIME(CALL_ALLOC, 1, bytes, memory_alloc, cuMemAlloc, &address, bytes) &&
           TIME(CALL_FREE, 1, bytes, memory_free, cuMemFree, address);
}

static bool measure_pinned(struct board *board, size_t bytes) {
    struct bench *bench = board->bench;
    void *pinned, *plain;
    double begin;
    if (!(TIME(CALL_HOST_ALLOC, 1, bytes, host_alloc, cuMemHostAlloc, &pinned, bytes, 0)) ||
        !(TIME(CALL_HOST_FREE, 1, bytes, host_free, cuMemFreeHost, pinned)))
        return false;
    if (posix_memalign(&plain, 4096, bytes) != 0) {
        snprintf(bench->why, sizeof bench->why, "no host memory");
        return false;
    }
    memset(plain, 1, bytes); /* registering is to find pages that are there */
    const bool measured = TIME(CALL_HOST_REGISTER, 1, bytes, host_register, cuMemHostRegister, plain, bytes, 0) &&
                          TIME(CALL_HOST_UNREGISTER, 1, bytes, host_unregister, cuMemHostUnregister, plain);
    free(plain);
    return measured;
}

/* ---- calls that queue, and handles ------------------------------------------------------------------------------ */

static void nothing(void *argument) { (void)argument; }

/* What the calls of a series work with. */
struct series {
    CUdeviceptr device;
    void *host;
    CUevent events[QUEUED];
    CUstream streams[8];
};

static bool call_once(struct bench *bench, enum call call, struct series *series, int i) {
    const CUdeviceptr host = (CUdeviceptr)(uintptr_t)series->host;
    switch (call) {
    case CALL_COPY:
        return DO(copy, cuMemcpyAsync, series->device, host, 512, bench->stream);
    case CALL_SET:
        return DO(set_bytes, cuMemsetD8Async, series->device, 0, 512, bench->stream);
    case CALL_HOST_FUNCTION:
        return DO(host_function, cuLaunchHostFunc, bench->stream, nothing, NULL);
    case CALL_LAUNCH:
        return bench_check(bench, bench->launch(bench->kernel, 1, 1, 1, 1, 1, 1, 0, bench->stream, NULL, NULL),
                           "cuLaunchKernel");
    case CALL_RECORD:
        return DO(event_record, cuEventRecord, series->events[i], bench->stream);
    case CALL_STREAM_WAIT:
        return DO(stream_wait, cuStreamWaitEvent, bench->other, series->events[i], 0);
    case CALL_EVENT_QUERY:
        return DO(event_query, cuEventQuery, series->events[i]);
    case CALL_ANY:
        return DO(stream_query, cuStreamQuery, bench->stream);
    case CALL_EVENT_CREATE:
        return DO(event_create, cuEventCreate, &series->events[i], CU_EVENT_DISABLE_TIMING);
    case CALL_EVENT_DESTROY:
        return DO(event_destroy, cuEventDestroy, series->events[i]);
    case CALL_STREAM_CREATE:
        return DO(stream_create, cuStreamCreate, &series->streams[i], CU_STREAM_NON_BLOCKING);
    default:
        return DO(stream_destroy, cuStreamDestroy, series->streams[i]);
    }
}

static bool time_series(struct board *board, enum call call, struct series *series, int count) {
    const double begin = bench_now(board->bench);
    for (int i = 0; i < count; i++)
        if (!call_once(board->bench, call, series, i)) return false;
    note(board, call, 1, 0, begin, count);
    return true;
}

/* Behind a gate, so that no call finds the device ahead of it. */
static bool time_queued(struct board *board, enum call call, struct series *series) {
    struct bench *bench = board->bench;
    return bench_hold(bench, bench->stream) && time_series(board, call, series, QUEUED) && bench_release(bench) &&
           DO(stream_synchronize, cuStreamSynchronize, bench->stream) &&
           DO(stream_synchronize, cuStreamSynchronize, bench->other);
}

static bool measure_queueing(struct board *board, struct series *series) {
    enum { STREAMS = sizeof series->streams / sizeof *series->streams };
    return time_series(board, CALL_EVENT_CREATE, series, QUEUED) && time_queued(board, CALL_RECORD, series) &&
           time_queued(board, CALL_STREAM_WAIT, series) && time_series(board, CALL_EVENT_QUERY, series, QUEUED) &&
           time_series(board, CALL_EVENT_DESTROY, series, QUEUED) && time_queued(board, CALL_COPY, series) &&
           time_queued(board, CALL_SET, series) && time_queued(board, CALL_HOST_FUNCTION, series) &&
           (board->bench->launch == NULL || time_queued(board, CALL_LAUNCH, series)) &&
           time_series(board, CALL_ANY, series, QUEUED) && time_series(board, CALL_STREAM_CREATE, series, STREAMS) &&
           time_series(board, CALL_STREAM_DESTROY, series, STREAMS);
}

static bool measure_series(struct board *board) {
    struct bench *bench = board->bench;
    struct series series;
    if (!DO(memory_alloc, cuMemAlloc, &series.device, 512) || !DO(host_alloc, cuMemHostAlloc, &series.host, 512, 0))
        return false;
    memset(series.host, 0, 512);
    for (int repeat = 0; repeat <= bench->repeats; repeat++)
        if (!measure_queueing(board, &series)) return false;
    return DO(host_free, cuMemFreeHost, series.host) && DO(memory_free, cuMemFree, series.device);
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static bool measure_sizes(struct board *board) {
    static const size_t handles[] = {1, 3, MOST_HANDLES}, pages[] = {1, 4, 16};
    static const size_t host_bytes[] = {64 << 10, 1 << 20, 16 << 20};
    for (size_t p = 0; p < sizeof pages / sizeof *pages; p++) {
        const size_t bytes = pages[p] * board->bench->page_bytes;
        for (size_t h = 0; h < sizeof handles / sizeof *handles; h++)
            if (!measure_pages(board, handles[h], bytes)) return false;
        if (!measure_alloc(board, bytes) || !measure_alloc(board, bytes * MOST_HANDLES)) return false;
        if (!measure_pinned(board, host_bytes[p])) return false;
    }
    return true;
}

static void fit_call(struct board *board, enum call call, struct call_cost *cost) {
    struct sample samples[MOST_SAMPLES];
    const size_t count = board->counts[call];
    for (size_t i = 0; i < count; i++) {
        struct point *point = &board->points[call][i];
        const int warm = point->times > 1 ? 1 : 0;
        samples[i] =
            (struct sample){point->handles, point->bytes, median(point->took + warm, (size_t)(point->times - warm))};
    }
    cost->samples = count;
    if (count > 0) cost->fit = fit_cost(samples, count, call_parts[call]);
}

bool measure_calls(struct bench *bench, struct call_cost costs[CALLS]) {
    struct board *board = calloc(1, sizeof *board);
    if (board == NULL) {
        snprintf(bench->why, sizeof bench->why, "no host memory");
        return false;
    }
    board->bench = bench;
    bool measured = measure_series(board);
    for (int repeat = 0; measured && repeat <= bench->repeats; repeat++) measured = measure_sizes(board);
    for (enum call call = 0; measured && call < CALLS; call++) fit_call(board, call, &costs[call]);
    free(board);
    return measured;
}
