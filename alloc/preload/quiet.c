/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all that is queued can be marked by an event a device. It can't while a stream is captured, since an event for its whole
 * context would make the capture invalid; nor in contexts that the program made, and green ones, which weir does not know. So the
 * entries that begin and end captures, and make contexts, are heard. */
#include <pthread.h>

#include "alloc/preload/preload.h"

static pthread_rwlock_t beginning = PTHREAD_RWLOCK_INITIALIZER; /* to be written: a capture or a context begins */
static unsigned captured;
static bool own_contexts;

bool weir__preload_quiet_begin(void) {
    pthread_rwlock_rdlock(&beginning);
    return !__atomic_load_n(&own_contexts, __ATOMIC_RELAXED) && __atomic_load_n(&captured, __ATOMIC_RELAXED) == 0;
}

void weir__preload_quiet_end(void) { pthread_rwlock_unlock(&beginning); }

/* ---- captures ----------------------------------------------------------------------------------------------------- */

bool weir__preload_captures(const struct weir__real *driver, CUstream stream) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver->cuStreamIsCapturing != NULL && driver->cuStreamIsCapturing(stream, &state) == CUDA_SUCCESS &&
           state != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* A child of fork has the lock as some thread left it, and uses neither. */
static void begins(void) {
    if (weir__forked()) return;
    pthread_rwlock_wrlock(&beginning);
    (void)__atomic_add_fetch(&captured, 1, __ATOMIC_RELAXED);
    pthread_rwlock_unlock(&beginning);
}

static CUresult begun(CUresult code) {
    if (code != CUDA_SUCCESS && !weir__forked()) (void)__atomic_sub_fetch(&captured, 1, __ATOMIC_RELAXED);
    return code;
}

CUresult cuStreamBeginCapture(CUstream stream) {
    DRIVER_OR_FAIL(driver, cuStreamBeginCapture);
    begins();
    return begun(driver->cuStreamBeginCapture(stream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) { return cuStreamBeginCapture(weir__preload_own(stream)); }

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    DRIVER_OR_FAIL(driver, cuStreamBeginCapture_v2);
    begins();
    return begun(driver->cuStreamBeginCapture_v2(stream, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return cuStreamBeginCapture_v2(weir__preload_own(stream), mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
    DRIVER_OR_FAIL(driver, cuStreamBeginCaptureToGraph);
    begins();
    return begun(driver->cuStreamBeginCaptureToGraph(stream, graph, after, edges, count, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                          const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
    return cuStreamBeginCaptureToGraph(weir__preload_own(stream), graph, after, edges, count, mode);
}

/* Whatever it answers, the stream says whether the capture is over. One that ends with its stream is taken as open for ever. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    DRIVER_OR_FAIL(driver, cuStreamEndCapture);
    const bool was = weir__preload_captures(driver, stream);
    const CUresult code = driver->cuStreamEndCapture(stream, graph);
    if (was && !weir__preload_captures(driver, stream)) (void)begun(CUDA_ERROR_UNKNOWN);
    return code;
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    return cuStreamEndCapture(weir__preload_own(stream), graph);
}

/* ---- contexts ----------------------------------------------------------------------------------------------------- */

static void made_own(void) {
    if (weir__forked()) return;
    pthread_rwlock_wrlock(&beginning);
    __atomic_store_n(&own_contexts, true, __ATOMIC_RELAXED);
    pthread_rwlock_unlock(&beginning);
}

CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device) {
    DRIVER_OR_FAIL(driver, cuCtxCreate);
    made_own();
    FROM_DRIVER(driver, device, cuCtxCreate(context, flags, device));
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    DRIVER_OR_FAIL(driver, cuCtxCreate_v2);
    made_own();
    FROM_DRIVER(driver, device, cuCtxCreate_v2(context, flags, device));
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinities, int count, unsigned flags,
                        CUdevice device) {
    DRIVER_OR_FAIL(driver, cuCtxCreate_v3);
    made_own();
    FROM_DRIVER(driver, device, cuCtxCreate_v3(context, affinities, count, flags, device));
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device) {
    DRIVER_OR_FAIL(driver, cuCtxCreate_v4);
    made_own();
    FROM_DRIVER(driver, device, cuCtxCreate_v4(context, parameters, flags, device));
}

CUresult cuGreenCtxCreate(CUgreenCtx *context, void *resources, CUdevice device, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuGreenCtxCreate);
    made_own();
    FROM_DRIVER(driver, device, cuGreenCtxCreate(context, resources, device, flags));
}
