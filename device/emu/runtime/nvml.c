/* SPDX-License-Identifier: Apache-2.0 */
/* libnvidia-ml.so.1, as far as programs ask it on their way to memory: it comes with NVIDIA's driver, so they take it to
 * be there with a driver. It tells how many devices there are and that they are in no fabric; the rest is not supported.
 * Values and layouts as in NVML 12. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/cuda_abi.h"

#define NVML_API __attribute__((visibility("default")))

enum nvml_return {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_DRIVER_NOT_LOADED = 9,
};

/* A device is its number + 1. */
typedef struct nvmlDevice_st *nvml_device;

struct nvml_fabric_info {
    unsigned version;
    unsigned char cluster[16];
    enum nvml_return status;
    unsigned clique;
    unsigned char state; /* 0: not supported */
    unsigned health;     /* of version 2 and later; not written */
};

/* X(type, name, types) */
#define NVML_LIST(X)                                                                                                   \
    X(enum nvml_return, nvmlInit, (void))                                                                              \
    X(enum nvml_return, nvmlInit_v2, (void))                                                                           \
    X(enum nvml_return, nvmlInitWithFlags, (unsigned))                                                                 \
    X(enum nvml_return, nvmlShutdown, (void))                                                                          \
    X(const char *, nvmlErrorString, (enum nvml_return))                                                               \
    X(enum nvml_return, nvmlSystemGetCudaDriverVersion, (int *))                                                       \
    X(enum nvml_return, nvmlSystemGetCudaDriverVersion_v2, (int *))                                                    \
    X(enum nvml_return, nvmlDeviceGetCount_v2, (unsigned *))                                                           \
    X(enum nvml_return, nvmlDeviceGetHandleByIndex_v2, (unsigned, nvml_device *))                                      \
    X(enum nvml_return, nvmlDeviceGetHandleByPciBusId_v2, (const char *, nvml_device *))                               \
    X(enum nvml_return, nvmlDeviceGetIndex, (nvml_device, unsigned *))                                                 \
    X(enum nvml_return, nvmlDeviceGetGpuFabricInfoV, (nvml_device, struct nvml_fabric_info *))                         \
    X(enum nvml_return, nvmlDeviceGetComputeRunningProcesses, (nvml_device, unsigned *, void *))                       \
    X(enum nvml_return, nvmlDeviceGetNvLinkRemoteDeviceType, (nvml_device, unsigned, int *))                           \
    X(enum nvml_return, nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvml_device, unsigned, void *))

#define DECLARE(type, name, types) NVML_API type name types;
NVML_LIST(DECLARE)
#undef DECLARE

/* ---- the driver beside us --------------------------------------------------------------------------------------- */

static CUresult (*init)(unsigned flags);
static CUresult (*count_devices)(int *count);
static CUresult (*by_bus_id)(CUdevice *device, const char *id);
static CUresult (*driver_version)(int *version);
static atomic_uint users;

static bool find(void *library, const char *symbol, void *place) {
    void *entry = dlsym(library, symbol);
    memcpy(place, &entry, sizeof entry);
    return entry != NULL;
}

/* cuInit only when somebody asks for devices: a process may ask for the version and fork. */
static bool load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library != NULL && dlsym(library, "weirEmuProfile") != NULL && find(library, "cuInit", &init) &&
           find(library, "cuDeviceGetCount", &count_devices) && find(library, "cuDeviceGetByPCIBusId", &by_bus_id) &&
           find(library, "cuDriverGetVersion", &driver_version);
}

static enum nvml_return ready(void) {
    if (atomic_load(&users) == 0) return NVML_UNINITIALIZED;
    return init(0) == CUDA_SUCCESS ? NVML_SUCCESS : NVML_DRIVER_NOT_LOADED;
}

static enum nvml_return of(nvml_device device) {
    int count = 0;
    const enum nvml_return code = ready();
    if (code != NVML_SUCCESS) return code;
    const uintptr_t number = (uintptr_t)device;
    return count_devices(&count) == CUDA_SUCCESS && number >= 1 && number <= (uintptr_t)count ? NVML_SUCCESS
                                                                                              : NVML_INVALID_ARGUMENT;
}

static nvml_device handle(unsigned number) { return (nvml_device)(uintptr_t)(number + 1); }

/* ---- entries ---------------------------------------------------------------------------------------------------- */

enum nvml_return nvmlInit_v2(void) {
    if (!load()) return NVML_DRIVER_NOT_LOADED;
    atomic_fetch_add(&users, 1);
    return NVML_SUCCESS;
}
enum nvml_return nvmlInit(void) { return nvmlInit_v2(); }
enum nvml_return nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return nvmlInit_v2();
}

enum nvml_return nvmlShutdown(void) {
    unsigned before = atomic_load(&users);
    while (before > 0 && !atomic_compare_exchange_weak(&users, &before, before - 1)) continue;
    return before > 0 ? NVML_SUCCESS : NVML_UNINITIALIZED;
}

const char *nvmlErrorString(enum nvml_return code) {
    switch (code) {
    case NVML_SUCCESS:
        return "success";
    case NVML_UNINITIALIZED:
        return "nvmlInit has not been called";
    case NVML_INVALID_ARGUMENT:
        return "invalid argument";
    case NVML_NOT_SUPPORTED:
        return "not supported by an emulated device";
    case NVML_NOT_FOUND:
        return "not found";
    case NVML_DRIVER_NOT_LOADED:
        return "no emulated driver";
    }
    return "unknown error";
}

enum nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version) {
    if (atomic_load(&users) == 0) return NVML_UNINITIALIZED;
    return version != NULL && driver_version(version) == CUDA_SUCCESS ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}
enum nvml_return nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

enum nvml_return nvmlDeviceGetCount_v2(unsigned *count) {
    int devices = 0;
    const enum nvml_return code = ready();
    if (code != NVML_SUCCESS) return code;
    if (count == NULL || count_devices(&devices) != CUDA_SUCCESS) return NVML_INVALID_ARGUMENT;
    *count = (unsigned)devices;
    return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned number, nvml_device *device) {
    const enum nvml_return code = of(handle(number));
    if (code == NVML_SUCCESS && device != NULL) *device = handle(number);
    return device != NULL ? code : NVML_INVALID_ARGUMENT;
}

enum nvml_return nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvml_device *device) {
    CUdevice found;
    const enum nvml_return code = ready();
    if (code != NVML_SUCCESS) return code;
    if (id == NULL || device == NULL) return NVML_INVALID_ARGUMENT;
    if (by_bus_id(&found, id) != CUDA_SUCCESS) return NVML_NOT_FOUND;
    *device = handle((unsigned)found);
    return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetIndex(nvml_device device, unsigned *number) {
    const enum nvml_return code = of(device);
    if (code == NVML_SUCCESS && number != NULL) *number = (unsigned)(uintptr_t)device - 1;
    return number != NULL ? code : NVML_INVALID_ARGUMENT;
}

enum nvml_return nvmlDeviceGetGpuFabricInfoV(nvml_device device, struct nvml_fabric_info *info) {
    const enum nvml_return code = of(device);
    if (code != NVML_SUCCESS || info == NULL) return code != NVML_SUCCESS ? code : NVML_INVALID_ARGUMENT;
    memset(info->cluster, 0, sizeof info->cluster);
    info->status = NVML_SUCCESS;
    info->clique = 0;
    info->state = 0;
    return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetComputeRunningProcesses(nvml_device device, unsigned *count, void *processes) {
    (void)processes;
    const enum nvml_return code = of(device);
    if (code != NVML_SUCCESS || count == NULL) return code != NVML_SUCCESS ? code : NVML_INVALID_ARGUMENT;
    *count = 0; /* other processes have devices of their own; what this one holds, the driver tells */
    return NVML_SUCCESS;
}
enum nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device device, unsigned link, int *type) {
    (void)link, (void)type;
    const enum nvml_return code = of(device);
    return code == NVML_SUCCESS ? NVML_NOT_SUPPORTED : code;
}
enum nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device device, unsigned link, void *info) {
    (void)link, (void)info;
    const enum nvml_return code = of(device);
    return code == NVML_SUCCESS ? NVML_NOT_SUPPORTED : code;
}
