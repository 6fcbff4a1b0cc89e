/* SPDX-License-Identifier: Apache-2.0 */
/* Entries for streams and events beyond those that the library uses. */
#include <stdlib.h>
#include <string.h>

#include "device/emu/capture.h"
#include "device/emu/enter.h"
#include "device/emu/figures.h"
#include "device/emu/settings.h"
#include "device/emu/submit.h"

/* ---- what streams are ------------------------------------------------------------------------------------------- */

/* Priorities are kept and told, and change nothing. */
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuStreamCreateWithPriority, &context);
    if (code != CUDA_SUCCESS) return code;
    if (stream == NULL || flags > CU_STREAM_NON_BLOCKING) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (priority > EMU_LEAST_PRIORITY) priority = EMU_LEAST_PRIORITY;
    if (priority < EMU_GREATEST_PRIORITY) priority = EMU_GREATEST_PRIORITY;
    return emu_leave(emu_stream_create(context, flags, priority, stream));
}

/* Enters a call that asks something of a stream: *found NULL stands for the legacy stream of *context. */
static CUresult enter_question(enum emu_entry entry, CUstream stream, const void *place, CUcontext *context,
                               CUstream *found) {
    CUresult code = emu_enter(entry, context);
    if (code != CUDA_SUCCESS) return code;
    if (place == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    code = emu_stream_find(*context, stream, found);
    if (code != CUDA_SUCCESS) return emu_leave(code);
    if (*found != NULL) *context = (*found)->queue->context;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    CUcontext context;
    CUstream found;
    const CUresult code = enter_question(EMU_AT_cuStreamGetPriority, stream, priority, &context, &found);
    if (code != CUDA_SUCCESS) return code;
    *priority = found != NULL ? found->priority : EMU_LEAST_PRIORITY;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
    CUcontext context;
    CUstream found;
    const CUresult code = enter_question(EMU_AT_cuStreamGetFlags, stream, flags, &context, &found);
    if (code != CUDA_SUCCESS) return code;
    *flags = found != NULL ? found->flags : CU_STREAM_DEFAULT;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *of) {
    CUcontext context;
    CUstream found;
    const CUresult code = enter_question(EMU_AT_cuStreamGetCtx, stream, of, &context, &found);
    if (code != CUDA_SUCCESS) return code;
    *of = context;
    return emu_leave(CUDA_SUCCESS);
}

/* There are no green contexts. */
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *of, CUgreenCtx *green) {
    CUcontext context;
    CUstream found;
    const CUresult code = enter_question(EMU_AT_cuStreamGetCtx_v2, stream, of, &context, &found);
    if (code != CUDA_SUCCESS) return code;
    *of = context;
    if (green != NULL) *green = NULL;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) {
    CUcontext context;
    CUstream found;
    const CUresult code = enter_question(EMU_AT_cuStreamGetDevice, stream, device, &context, &found);
    if (code != CUDA_SUCCESS) return code;
    *device = context->device;
    return emu_leave(CUDA_SUCCESS);
}

/* Unique in the process: a legacy stream is numbered by its queue, apart from the others. */
CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
    CUcontext context;
    CUstream found;
    const CUresult code = enter_question(EMU_AT_cuStreamGetId, stream, id, &context, &found);
    if (code != CUDA_SUCCESS) return code;
    *id = found != NULL ? found->id : 1ull << 48 | context->legacy->index;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

static bool is_stream_attribute(CUstreamAttrID attribute) {
    switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return true;
    default:
        return false;
    }
}

/* The priority is kept; the others are hints without an effect here, and tell what a new stream has. */
CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value) {
    enum { SYNCHRONIZATION_AUTO = 1 };
    CUcontext context;
    CUstream found;
    const CUresult code = enter_question(EMU_AT_cuStreamGetAttribute, stream, value, &context, &found);
    if (code != CUDA_SUCCESS) return code;
    if (!is_stream_attribute(attribute)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    memset(value, 0, sizeof *value);
    if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) value->syncPolicy = SYNCHRONIZATION_AUTO;
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY && found != NULL) value->priority = found->priority;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value) {
    CUcontext context;
    CUstream found;
    const CUresult code = enter_question(EMU_AT_cuStreamSetAttribute, stream, value, &context, &found);
    if (code != CUDA_SUCCESS) return code;
    if (!is_stream_attribute(attribute)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY && found != NULL) found->priority = value->priority;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
    CUcontext context;
    CUstream target = NULL, source;
    CUresult code = enter_question(EMU_AT_cuStreamCopyAttributes, to, &target, &context, &target);
    if (code != CUDA_SUCCESS) return code;
    code = emu_stream_find(context, from, &source);
    if (code == CUDA_SUCCESS && target != NULL) target->priority = source != NULL ? source->priority : 0;
    return emu_leave(code);
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *argument;
    CUresult told;
};

static void call_back(void *argument) {
    const struct callback callback = *(struct callback *)argument;
    free(argument);
    callback.function(callback.stream, callback.told, callback.argument);
}

/* As a host function, but not in capture. */
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *argument, unsigned flags) {
    struct emu_queue *queue;
    CUresult code = emu_enter_stream(EMU_AT_cuStreamAddCallback, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (function == NULL || flags != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (queue->capture != NULL) return emu_leave(emu_capture_refuse(queue));
    struct callback *callback = malloc(sizeof *callback);
    if (callback == NULL) return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *callback = (struct callback){function, stream, argument, CUDA_SUCCESS};
    const struct emu_operation call = {.kind = EMU_FUNCTION,
                                       .name = "stream callback",
                                       .alone_ns = emu_settings()->profile.host_function_ns,
                                       .function = {call_back, callback, &callback->told}};
    struct emu_point point;
    code = emu_queue_push(queue, &call, &point);
    if (code != CUDA_SUCCESS) free(callback);
    return emu_leave(code);
}

/* "External" is for capture only, where the record becomes a node of its own. */
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuEventRecordWithFlags, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_event_alive(event)) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (flags == CU_EVENT_RECORD_EXTERNAL && queue->capture != NULL)
        return emu_leave(emu_capture_event_node(queue, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD));
    if (flags != CU_EVENT_RECORD_DEFAULT) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(emu_submit_record(queue, event));
}
