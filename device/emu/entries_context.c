/* SPDX-License-Identifier: Apache-2.0 */
/* Entries for contexts beyond those that the library uses, and for access between devices. */
#include "device/emu/capture.h"
#include "device/emu/emu.h"
#include "device/emu/enter.h"
#include "device/emu/event.h"
#include "device/emu/figures.h"
#include "device/emu/queue.h"
#include "device/emu/submit.h"

/* A context that a program names, NULL for the current one; NULL: it is none of ours, or dead. */
static CUcontext context_of(CUcontext named) {
    if (named == NULL) named = emu_current();
    for (CUdevice device = 0; named != NULL && emu_device_exists(device); device++)
        for (CUcontext each = emu_contexts(device); each != NULL; each = each->next)
            if (each == named) return emu_context_alive(each) ? each : NULL;
    return NULL;
}

/* Enters a call that asks something of the current context. */
static CUresult enter_question(enum emu_entry entry, const void *place, CUcontext *context) {
    const CUresult code = emu_enter(entry, context);
    if (code != CUDA_SUCCESS) return code;
    return place != NULL ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_VALUE);
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

static CUresult create(enum emu_entry entry, CUcontext *context, unsigned flags, CUdevice device, CUresult checked) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(checked != CUDA_SUCCESS ? checked : emu_context_create(context, flags, device));
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    return create(EMU_AT_cuCtxCreate_v2, context, flags, device, CUDA_SUCCESS);
}

/* A part of a device's processors can't be asked for. */
CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinities, int count, unsigned flags,
                        CUdevice device) {
    (void)affinities;
    const CUresult checked = count > 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_SUCCESS;
    return create(EMU_AT_cuCtxCreate_v3, context, flags, device, checked);
}

static CUresult check_parameters(const CUctxCreateParams *parameters) {
    if (parameters == NULL) return CUDA_SUCCESS;
    if (parameters->numExecAffinityParams > 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return parameters->cigParams != NULL ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device) {
    return create(EMU_AT_cuCtxCreate_v4, context, flags, device, check_parameters(parameters));
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext named) {
    const CUresult code = emu_enter(EMU_AT_cuCtxGetDevice_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    const CUcontext context = context_of(named);
    if (device == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (context == NULL) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    *device = context->device;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize_v2(CUcontext named) {
    const CUresult code = emu_enter(EMU_AT_cuCtxSynchronize_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    const CUcontext context = context_of(named);
    return emu_leave(context != NULL ? emu_context_wait_asked(context) : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxRecordEvent(CUcontext named, CUevent event) {
    CUresult code = emu_enter(EMU_AT_cuCtxRecordEvent, NULL);
    if (code != CUDA_SUCCESS) return code;
    const CUcontext context = context_of(named);
    if (context == NULL) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!emu_event_alive(event) || event->context != context) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    code = emu_capture_check_context(context);
    return emu_leave(code == CUDA_SUCCESS ? emu_event_record_all(event) : code);
}

CUresult cuCtxGetId(CUcontext named, unsigned long long *id) {
    const CUresult code = emu_enter(EMU_AT_cuCtxGetId, NULL);
    if (code != CUDA_SUCCESS) return code;
    const CUcontext context = context_of(named);
    if (id == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (context == NULL) return emu_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    *id = context->id;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext named, unsigned *version) {
    enum { SINCE = 3020 }; /* of contexts that cuCtxCreate_v2 and later ones make */
    const CUresult code = emu_enter(EMU_AT_cuCtxGetApiVersion, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (version == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (context_of(named) == NULL) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    *version = SINCE;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetFlags(unsigned *flags) {
    CUcontext context;
    const CUresult code = enter_question(EMU_AT_cuCtxGetFlags, flags, &context);
    if (code != CUDA_SUCCESS) return code;
    *flags = context->flags;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetFlags(unsigned flags) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuCtxSetFlags, &context);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_context_flags_valid(flags)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    context->flags = flags;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuCtxGetStreamPriorityRange, &context);
    if (code != CUDA_SUCCESS) return code;
    if (least != NULL) *least = EMU_LEAST_PRIORITY;
    if (greatest != NULL) *greatest = EMU_GREATEST_PRIORITY;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- limits and preferences: kept, told, without an effect ------------------------------------------------------ */

/* What a device of compute capability 9.0 starts with; 0 and not there: CUDA_ERROR_UNSUPPORTED_LIMIT. */
static bool default_limit(CUlimit limit, size_t *value) {
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:
        *value = 1024;
        return true;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        *value = 1 << 20;
        return true;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        *value = 8 << 20;
        return true;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        *value = 2048;
        return true;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
        *value = 64;
        return true;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
        *value = 0;
        return true;
    default:
        return false;
    }
}

static CUresult check_limit(CUlimit limit, size_t *value) {
    if ((unsigned)limit >= EMU_LIMITS) return CUDA_ERROR_INVALID_VALUE;
    return default_limit(limit, value) ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

/* Kept increased by one, so that 0 is a limit that nobody has set. */
CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    CUcontext context;
    CUresult code = enter_question(EMU_AT_cuCtxGetLimit, value, &context);
    if (code != CUDA_SUCCESS) return code;
    code = check_limit(limit, value);
    if (code == CUDA_SUCCESS && context->limits[limit] > 0) *value = context->limits[limit] - 1;
    return emu_leave(code);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    CUcontext context;
    size_t ignored;
    CUresult code = emu_enter(EMU_AT_cuCtxSetLimit, &context);
    if (code != CUDA_SUCCESS) return code;
    code = check_limit(limit, &ignored);
    if (code == CUDA_SUCCESS) context->limits[limit] = value + 1;
    return emu_leave(code);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config) {
    CUcontext context;
    const CUresult code = enter_question(EMU_AT_cuCtxGetCacheConfig, config, &context);
    if (code != CUDA_SUCCESS) return code;
    *config = (CUfunc_cache)context->cache_config;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuCtxSetCacheConfig, &context);
    if (code != CUDA_SUCCESS) return code;
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    context->cache_config = config;
    return emu_leave(CUDA_SUCCESS);
}

/* Shared memory has banks of four bytes, whatever was preferred. */
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config) {
    CUcontext context;
    const CUresult code = enter_question(EMU_AT_cuCtxGetSharedMemConfig, config, &context);
    if (code != CUDA_SUCCESS) return code;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuCtxSetSharedMemConfig, &context);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                                                  : CUDA_SUCCESS);
}

/* Calls that need a context, and have nothing to do. */
static CUresult nothing_to_do(enum emu_entry entry, CUresult checked) {
    CUcontext context;
    const CUresult code = emu_enter(entry, &context);
    return code != CUDA_SUCCESS ? code : emu_leave(checked);
}

CUresult cuCtxResetPersistingL2Cache(void) { return nothing_to_do(EMU_AT_cuCtxResetPersistingL2Cache, CUDA_SUCCESS); }

CUresult cuProfilerStart(void) { return nothing_to_do(EMU_AT_cuProfilerStart, CUDA_SUCCESS); }

CUresult cuProfilerStop(void) { return nothing_to_do(EMU_AT_cuProfilerStop, CUDA_SUCCESS); }

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope) {
    const bool valid =
        target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
        (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER || scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
    return nothing_to_do(EMU_AT_cuFlushGPUDirectRDMAWrites, valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- between devices -------------------------------------------------------------------------------------------- */

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceCanAccessPeer, device, can);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(peer)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *can = device != peer;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetP2PAttribute, from, value);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(to) || from == to) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    if (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    return emu_leave(CUDA_SUCCESS);
}

static uint64_t bit_of(CUcontext context) { return (uint64_t)1 << context->device; }

/* Enters a call that is about the current context's access to a peer's memory. */
static CUresult enter_peer(enum emu_entry entry, CUcontext *context, CUcontext *peer) {
    const CUresult code = emu_enter(entry, context);
    if (code != CUDA_SUCCESS) return code;
    *peer = *peer != NULL ? context_of(*peer) : NULL;
    return *peer != NULL && *peer != *context ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_CONTEXT);
}

/* The process's addresses are the same for all devices here: what can be touched does not change. */
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    CUcontext context;
    const CUresult code = enter_peer(EMU_AT_cuCtxEnablePeerAccess, &context, &peer);
    if (code != CUDA_SUCCESS) return code;
    if (flags != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (peer->device == context->device) return emu_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (context->peers & bit_of(peer)) return emu_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peers |= bit_of(peer);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    CUcontext context;
    const CUresult code = enter_peer(EMU_AT_cuCtxDisablePeerAccess, &context, &peer);
    if (code != CUDA_SUCCESS) return code;
    if ((context->peers & bit_of(peer)) == 0) return emu_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    context->peers &= ~bit_of(peer);
    return emu_leave(CUDA_SUCCESS);
}
