/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: how many, which one a thread uses, what it can. */
#include "device/emu/runtime/rt.h"

/* ---- which ------------------------------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *count) {
    const cudaError_t code = rt_begin_without_context();
    if (count == NULL) return rt_end(cudaErrorInvalidValue);
    *count = rt_device_count();
    return rt_end(code);
}

cudaError_t cudaGetDevice(int *device) {
    cudaError_t code = rt_begin_without_context();
    if (code == cudaSuccess) code = device != NULL ? rt_device(device) : cudaErrorInvalidValue;
    return rt_end(code);
}

cudaError_t cudaSetDevice(int device) {
    const cudaError_t code = rt_begin_without_context();
    return rt_end(code == cudaSuccess ? rt_set_device(device) : code);
}

/* All devices of an emulated machine are alike. */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted) {
    const cudaError_t code = rt_begin_without_context();
    if (code != cudaSuccess) return rt_end(code);
    if (device == NULL || wanted == NULL) return rt_end(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetValidDevices(int *devices, int count) {
    cudaError_t code = rt_begin_without_context();
    if (code == cudaSuccess && (count < 0 || count > rt_device_count() || (devices == NULL && count != 0)))
        code = cudaErrorInvalidValue;
    for (int i = 0; code == cudaSuccess && i < count; i++)
        if (devices[i] < 0 || devices[i] >= rt_device_count()) code = cudaErrorInvalidDevice;
    return rt_end(code);
}

/* ---- flags ------------------------------------------------------------------------------------------------------ */

/* What the runtime adds by itself when a device is in use; the driver has no such flag. */
enum { ADDED = cudaDeviceMapHost };

static cudaError_t set_flags(int device, unsigned flags) {
    if ((flags & ~(unsigned)cudaDeviceMask) != 0) return cudaErrorInvalidValue;
    if ((flags & cudaDeviceScheduleMask) > cudaDeviceScheduleBlockingSync) return cudaErrorInvalidValue;
    return RT_CALL(cuDevicePrimaryCtxSetFlags_v2, (device, flags & ~(unsigned)ADDED));
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
    cudaError_t code = rt_begin_with_device(device);
    rt_context context;
    if (code == cudaSuccess && (flags & ~(unsigned)cudaInitDeviceFlagsAreValid) != 0) code = cudaErrorInvalidValue;
    if (code == cudaSuccess && (flags & cudaInitDeviceFlagsAreValid) != 0) code = set_flags(device, device_flags);
    if (code == cudaSuccess) code = rt_primary_context(device, &context);
    return rt_end(code);
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
    int device = 0;
    cudaError_t code = rt_begin_without_context();
    if (code == cudaSuccess) code = rt_device(&device);
    if (code == cudaSuccess) code = set_flags(device, flags);
    return rt_end(code);
}

cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    int device = 0, active;
    cudaError_t code = rt_begin_without_context();
    if (code == cudaSuccess && flags == NULL) code = cudaErrorInvalidValue;
    if (code == cudaSuccess) code = rt_device(&device);
    if (code == cudaSuccess) code = RT_CALL(cuDevicePrimaryCtxGetState, (device, flags, &active));
    if (code == cudaSuccess) *flags |= ADDED;
    return rt_end(code);
}

/* ---- waiting and resetting -------------------------------------------------------------------------------------- */

RT_PASS(cudaDeviceSynchronize, (void), cuCtxSynchronize, ())

cudaError_t cudaDeviceReset(void) {
    int device = 0;
    cudaError_t code = rt_begin_without_context();
    if (code == cudaSuccess) code = rt_device(&device);
    if (code == cudaSuccess) code = RT_CALL(cuDevicePrimaryCtxReset_v2, (device));
    if (code == cudaSuccess) rt_forget_context(device);
    return rt_end(code);
}

/* ---- what a device can ------------------------------------------------------------------------------------------ */

RT_PASS_DEVICE(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device), device,
               cuDeviceGetAttribute, (value, attribute, device))
RT_PASS_DEVICE(cudaDeviceGetPCIBusId, (char *id, int room, int device), device, cuDeviceGetPCIBusId, (id, room, device))

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
    const cudaError_t code = rt_begin_without_context();
    return rt_end(code == cudaSuccess ? RT_CALL(cuDeviceGetByPCIBusId, (device, id)) : code);
}

RT_PASS(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value), cuCtxSetLimit, (limit, value))
RT_PASS(cudaDeviceGetLimit, (size_t * value, enum cudaLimit limit), cuCtxGetLimit, (value, limit))
RT_PASS(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), cuCtxGetStreamPriorityRange, (least, greatest))

/* Preferences, which have no meaning here: taken, and the default told. */
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) {
    const cudaError_t code = rt_begin();
    return rt_end(code == cudaSuccess && (int)config > cudaFuncCachePreferEqual ? cudaErrorInvalidValue : code);
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || config == NULL) return rt_end(code != cudaSuccess ? code : cudaErrorInvalidValue);
    *config = cudaFuncCachePreferNone;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config) {
    const cudaError_t code = rt_begin();
    return rt_end(code == cudaSuccess && (int)config > cudaSharedMemBankSizeEightByte ? cudaErrorInvalidValue : code);
}

cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || config == NULL) return rt_end(code != cudaSuccess ? code : cudaErrorInvalidValue);
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}

cudaError_t cudaCtxResetPersistingL2Cache(void) { return rt_end(rt_begin()); }

/* The profiler's switches: there is none to switch. */
cudaError_t cudaProfilerStart(void) { return rt_end(rt_begin()); }
cudaError_t cudaProfilerStop(void) { return rt_end(rt_begin()); }

/* ---- peers ------------------------------------------------------------------------------------------------------ */

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    cudaError_t code = rt_begin_with_device(device);
    if (code == cudaSuccess) code = rt_begin_with_device(peer);
    return rt_end(code == cudaSuccess ? RT_CALL(cuDeviceCanAccessPeer, (can, device, peer)) : code);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int device, int peer) {
    cudaError_t code = rt_begin_with_device(device);
    if (code == cudaSuccess) code = rt_begin_with_device(peer);
    return rt_end(code == cudaSuccess ? RT_CALL(cuDeviceGetP2PAttribute, (value, attribute, device, peer)) : code);
}

static cudaError_t peer_context(int peer, rt_context *context) {
    cudaError_t code = rt_begin_with_device(peer);
    if (code == cudaSuccess) code = rt_begin();
    return code == cudaSuccess ? rt_primary_context(peer, context) : code;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    rt_context context = NULL;
    const cudaError_t code = peer_context(peer, &context);
    return rt_end(code == cudaSuccess ? RT_CALL(cuCtxEnablePeerAccess, (context, flags)) : code);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    rt_context context = NULL;
    const cudaError_t code = peer_context(peer, &context);
    return rt_end(code == cudaSuccess ? RT_CALL(cuCtxDisablePeerAccess, (context)) : code);
}
