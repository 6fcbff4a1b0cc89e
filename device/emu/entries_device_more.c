/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that tell what the machine is, beyond those that the library uses. */
#include <stdio.h>
#include <string.h>

#include "device/emu/attributes.h"
#include "device/emu/enter.h"
#include "device/emu/figures.h"
#include "device/emu/settings.h"

/* Tells devices apart, and machines by their profile. */
static CUuuid uuid_of(CUdevice device) {
    CUuuid uuid = {{0}};
    char text[64];
    snprintf(text, sizeof text, "weir-emu%02x%s", (unsigned)device, emu_settings()->profile.name);
    memcpy(uuid.bytes, text, sizeof uuid.bytes);
    return uuid;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetUuid_v2, device, uuid);
    if (code != CUDA_SUCCESS) return code;
    *uuid = uuid_of(device);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceComputeCapability, device, major);
    if (code != CUDA_SUCCESS) return code;
    if (minor == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *major = emu_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    *minor = emu_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetProperties, device, properties);
    if (code != CUDA_SUCCESS) return code;
    *properties = (CUdevprop){.maxThreadsPerBlock = EMU_BLOCK_THREADS,
                              .maxThreadsDim = {EMU_BLOCK_WIDTH, EMU_BLOCK_WIDTH, EMU_BLOCK_DEPTH},
                              .maxGridSize = {EMU_GRID_WIDTH, EMU_GRID_HEIGHT, EMU_GRID_HEIGHT},
                              .sharedMemPerBlock = EMU_BLOCK_SHARED_BYTES,
                              .totalConstantMemory = emu_attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, device),
                              .SIMDWidth = EMU_WARP_THREADS,
                              .memPitch = emu_attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, device),
                              .regsPerBlock = EMU_REGISTERS,
                              .clockRate = emu_attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device),
                              .textureAlign = EMU_TEXTURE_ALIGNMENT};
    return emu_leave(CUDA_SUCCESS);
}

/* "[domain:]bus:device[.function]", all hexadecimal, as documented. */
CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
    const CUresult code = emu_enter(EMU_AT_cuDeviceGetByPCIBusId, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (device == NULL || id == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    const bool valid = sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) >= 3 ||
                       (domain = 0, sscanf(id, "%x:%x.%x", &bus, &slot, &function) >= 2);
    if (!valid) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (domain != 0 || slot != 0 || function != 0 || bus == 0 || bus > EMU_MOST_DEVICES ||
        !emu_device_exists((CUdevice)bus - 1))
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *device = (CUdevice)bus - 1;
    return emu_leave(CUDA_SUCCESS);
}

/* A part of a device's processors can't be asked for. */
CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetExecAffinitySupport, device, supported);
    if (code != CUDA_SUCCESS) return code;
    if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *supported = 0;
    return emu_leave(CUDA_SUCCESS);
}
