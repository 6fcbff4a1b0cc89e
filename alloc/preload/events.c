/* SPDX-License-Identifier: Apache-2.0 */
/* The program's events, so that pools hear which of its streams it has ordered (alloc/heard.h), and traces have that order too.
 * What is heard chooses between idle blocks, and is never relied on; so what belongs to a graph's capture is just not told. */
#include "alloc/capture.h"
#include "alloc/pool.h"
#include "alloc/preload/preload.h"

/* NULL: nobody is to hear of it. */
static struct weir_device *listener(const struct weir__real *driver, CUresult code, CUstream stream) {
    CUcontext context = NULL;
    if (code != CUDA_SUCCESS || !weir__preload_events_are_heard() || weir__forked() || weir__capture_heard())
        return NULL;
    const int ordinal = weir__device_of_stream(stream);
    if (ordinal >= 0) return weir__process_device_made(ordinal);
    const bool named = stream != NULL && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
    if (named || driver->cuCtxGetCurrent == NULL || driver->cuCtxGetCurrent(&context) != CUDA_SUCCESS) return NULL;
    struct weir_pool *pool = weir__preload_pool_of(context);
    return pool != NULL ? pool->device : NULL;
}

static CUresult recorded(const struct weir__real *driver, CUresult code, CUevent event, CUstream stream) {
    struct weir_device *device = listener(driver, code, stream);
    if (device != NULL) WEIR__DEVICE_TELL(device, event_recorded, (told->self, event, stream));
    return code;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    DRIVER_OR_FAIL(driver, cuEventRecord);
    return recorded(driver, driver->cuEventRecord(event, stream), event, stream);
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) { return cuEventRecord(event, weir__preload_own(stream)); }

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuEventRecordWithFlags);
    return recorded(driver, driver->cuEventRecordWithFlags(event, stream, flags), event, stream);
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
    return cuEventRecordWithFlags(event, weir__preload_own(stream), flags);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuStreamWaitEvent);
    const CUresult code = driver->cuStreamWaitEvent(stream, event, flags);
    struct weir_device *device = listener(driver, code, stream);
    if (device != NULL) WEIR__DEVICE_TELL(device, stream_waited, (told->self, stream, event));
    return code;
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags) {
    return cuStreamWaitEvent(weir__preload_own(stream), event, flags);
}

/* Before the driver's, after which the handle may be another event's. */
static void destroyed(CUevent event) {
    if (event == NULL || !weir__preload_events_are_heard() || weir__forked()) return;
    for (int ordinal = 0; ordinal < weir__process_pools_end(); ordinal++) {
        struct weir_device *device = weir__process_device_made(ordinal);
        if (device != NULL) WEIR__DEVICE_TELL(device, event_destroyed, (told->self, event));
    }
}

CUresult cuEventDestroy_v2(CUevent event) {
    DRIVER_OR_FAIL(driver, cuEventDestroy_v2);
    destroyed(event);
    return driver->cuEventDestroy_v2(event);
}

CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }
