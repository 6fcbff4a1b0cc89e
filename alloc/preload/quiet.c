/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all that is queued can be marked by an event a device. It can't while a stream is captured, since an event for its whole
 * context would make the capture invalid; nor in contexts that the program made, and green ones, which weir does not know. So the
 * entries that begin and end captures, and make contexts, are heard. */
#include <pthread.h>
#include <stdlib.h>

#include "alloc/capture.h"
#include "alloc/pool.h"
#include "alloc/preload/preload.h"

static bool own_contexts; /* atomic; set before the pools hear of it */

bool weir__preload_quiet_begin(void) {
    return weir__capture_quiet_begin() && !__atomic_load_n(&own_contexts, __ATOMIC_ACQUIRE);
}

void weir__preload_quiet_end(void) { weir__capture_quiet_end(); }

static void tell_pools(int change) {
    struct weir_device *device = NULL;
    for (int ordinal = 0; ordinal < weir__process_pools_end() && device == NULL; ordinal++)
        device = weir__process_device_made(ordinal);
    weir__capture_hear(device, change);
}

/* ---- captures ----------------------------------------------------------------------------------------------------- */

CUresult weir__preload_look(const struct weir__real *driver, CUstream stream, bool *captures) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult code =
        driver->cuStreamIsCapturing != NULL ? driver->cuStreamIsCapturing(stream, &state) : CUDA_SUCCESS;
    *captures = code == CUDA_SUCCESS && state != CU_STREAM_CAPTURE_STATUS_NONE;
    const bool good = code != CUDA_ERROR_INVALID_HANDLE && code != CUDA_ERROR_INVALID_CONTEXT &&
                      code != CUDA_ERROR_CONTEXT_IS_DESTROYED && code != CUDA_ERROR_NOT_PERMITTED;
    return good ? CUDA_SUCCESS : code;
}

static bool captures_now(const struct weir__real *driver, CUstream stream) {
    bool captures;
    (void)weir__preload_look(driver, stream, &captures);
    return captures;
}

/* The streams where captures began. A child of fork has the lock as some thread left it, and uses neither. */
struct origin {
    struct origin *next;
    CUstream stream;
    int ordinal; /* of its device */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct origin *origins;

/* NULL: in a child; or without host memory, when pools ask the streams that weir knows. */
static struct origin *begins(const struct weir__real *driver, CUstream stream) {
    CUdevice device = -1;
    struct origin *origin = weir__forked() ? NULL : malloc(sizeof *origin);
    if (origin == NULL) return NULL;
    *origin = (struct origin){.stream = stream, .ordinal = weir__device_of_stream(stream)};
    if (origin->ordinal < 0 && driver->cuCtxGetDevice != NULL && driver->cuCtxGetDevice(&device) == CUDA_SUCCESS)
        origin->ordinal = (int)device;
    tell_pools(1);
    return origin;
}

static CUresult begun(struct origin *origin, CUresult code) {
    if (origin == NULL) return code;
    if (code != CUDA_SUCCESS) {
        tell_pools(-1);
        free(origin);
        return code;
    }
    pthread_mutex_lock(&lock);
    origin->next = origins;
    origins = origin;
    pthread_mutex_unlock(&lock);
    return code;
}

/* One of a stream, or, where that is NULL, of a device. Gives: whether there was one. */
static bool end_one(CUstream stream, int ordinal) {
    pthread_mutex_lock(&lock);
    struct origin **link = &origins;
    while (*link != NULL && (stream != NULL ? (*link)->stream != stream : (*link)->ordinal != ordinal))
        link = &(*link)->next;
    struct origin *origin = *link;
    if (origin != NULL) *link = origin->next;
    pthread_mutex_unlock(&lock);
    if (origin != NULL) tell_pools(-1);
    free(origin);
    return origin != NULL;
}

void weir__preload_stream_captures_no_more(CUstream stream) {
    if (stream != NULL && !weir__forked()) end_one(stream, -1);
}

void weir__preload_device_captures_no_more(int ordinal) {
    while (end_one(NULL, ordinal)) continue;
}

CUresult cuStreamBeginCapture(CUstream stream) {
    DRIVER_OR_FAIL(driver, cuStreamBeginCapture);
    struct origin *origin = begins(driver, stream);
    return begun(origin, driver->cuStreamBeginCapture(stream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) { return cuStreamBeginCapture(weir__preload_own(stream)); }

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    DRIVER_OR_FAIL(driver, cuStreamBeginCapture_v2);
    struct origin *origin = begins(driver, stream);
    return begun(origin, driver->cuStreamBeginCapture_v2(stream, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return cuStreamBeginCapture_v2(weir__preload_own(stream), mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
    DRIVER_OR_FAIL(driver, cuStreamBeginCaptureToGraph);
    struct origin *origin = begins(driver, stream);
    return begun(origin, driver->cuStreamBeginCaptureToGraph(stream, graph, after, edges, count, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                          const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
    return cuStreamBeginCaptureToGraph(weir__preload_own(stream), graph, after, edges, count, mode);
}

/* Whatever it answers, the stream says whether the capture is over. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    DRIVER_OR_FAIL(driver, cuStreamEndCapture);
    const bool was = captures_now(driver, stream);
    const CUresult code = driver->cuStreamEndCapture(stream, graph);
    if (was && !captures_now(driver, stream)) weir__preload_stream_captures_no_more(stream);
    return code;
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    return cuStreamEndCapture(weir__preload_own(stream), graph);
}

/* ---- contexts ----------------------------------------------------------------------------------------------------- */

static void made_own(void) {
    if (weir__forked()) return;
    __atomic_store_n(&own_contexts, true, __ATOMIC_RELEASE);
    tell_pools(0);
}

CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device) {
    DRIVER_OR_FAIL(driver, cuCtxCreate);
    made_own();
    FROM_DRIVER(driver, device, 0, cuCtxCreate(context, flags, device));
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    DRIVER_OR_FAIL(driver, cuCtxCreate_v2);
    made_own();
    FROM_DRIVER(driver, device, 0, cuCtxCreate_v2(context, flags, device));
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinities, int count, unsigned flags,
                        CUdevice device) {
    DRIVER_OR_FAIL(driver, cuCtxCreate_v3);
    made_own();
    FROM_DRIVER(driver, device, 0, cuCtxCreate_v3(context, affinities, count, flags, device));
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device) {
    DRIVER_OR_FAIL(driver, cuCtxCreate_v4);
    made_own();
    FROM_DRIVER(driver, device, 0, cuCtxCreate_v4(context, parameters, flags, device));
}

CUresult cuGreenCtxCreate(CUgreenCtx *context, void *resources, CUdevice device, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuGreenCtxCreate);
    made_own();
    FROM_DRIVER(driver, device, 0, cuGreenCtxCreate(context, resources, device, flags));
}
