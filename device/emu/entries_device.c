/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that tell what the machine is, and what results mean. */
#include <stdio.h>
#include <string.h>

#include "device/emu/attributes.h"
#include "device/emu/enter.h"
#include "device/emu/machine.h"
#include "device/emu/memory.h"
#include "device/emu/settings.h"

enum { DRIVER_VERSION = 13000 };

/* Allowed before cuInit. */
CUresult cuDriverGetVersion(int *version) {
    if (version == NULL) return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    const CUresult code = emu_enter(EMU_AT_cuDeviceGetCount, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (count == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *count = emu_settings()->devices;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGet, ordinal, device);
    if (code != CUDA_SUCCESS) return code;
    *device = ordinal;
    return emu_leave(CUDA_SUCCESS);
}

static CUresult write_text(char *place, int room, const char *text) {
    if (room <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(place, (size_t)room, "%s", text);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetName, device, name);
    return code != CUDA_SUCCESS ? code : emu_leave(write_text(name, room, emu_settings()->profile.device_name));
}

CUresult cuDeviceGetPCIBusId(char *id, int room, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetPCIBusId, device, id);
    if (code != CUDA_SUCCESS) return code;
    char text[32];
    snprintf(text, sizeof text, "0000:%02X:00.0", (unsigned)device + 1u);
    return emu_leave(write_text(id, room, text));
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceTotalMem_v2, device, bytes);
    if (code != CUDA_SUCCESS) return code;
    *bytes = emu_settings()->capacity_bytes;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute name, CUdevice device) {
    enum { LAST_KNOWN = 200 }; /* CUDA 13 has 147 */
    const CUresult code = emu_enter_device(EMU_AT_cuDeviceGetAttribute, device, value);
    if (code != CUDA_SUCCESS) return code;
    if ((int)name < 1 || (int)name > LAST_KNOWN) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *value = emu_attribute((int)name, device);
    return emu_leave(CUDA_SUCCESS);
}

CUresult weirEmuProfile(char *name, size_t room, size_t *granularity_bytes) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (name != NULL && room > 0) snprintf(name, room, "%s", emu_settings()->profile.name);
    if (granularity_bytes != NULL) *granularity_bytes = emu_settings()->granularity_bytes;
    return CUDA_SUCCESS;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

CUresult cuGetErrorName(CUresult code, const char **name) {
    if (name == NULL) return CUDA_ERROR_INVALID_VALUE;
    switch (code) {
#define NAME(result, value, text)                                                                                      \
    case result:                                                                                                       \
        *name = #result;                                                                                               \
        return CUDA_SUCCESS;
        WEIR__CUDA_RESULT_LIST(NAME)
#undef NAME
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **string) {
    if (string == NULL) return CUDA_ERROR_INVALID_VALUE;
    switch (code) {
#define STRING(result, value, text)                                                                                    \
    case result:                                                                                                       \
        *string = text;                                                                                                \
        return CUDA_SUCCESS;
        WEIR__CUDA_RESULT_LIST(STRING)
#undef STRING
    }
    *string = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
