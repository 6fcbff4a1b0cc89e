/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the driver, makes contexts current, keeps last errors. No lock of ours is held across a driver call: under the
 * virtual clock another thread may go on in there, and must not find us locked. */
#include "device/emu/runtime/rt.h"
#include "device/emu/runtime/refused.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/error.h"

#define LIBRARY "libcuda.so.1"

struct rt_driver rt_driver;

static pthread_once_t loading = PTHREAD_ONCE_INIT;
static cudaError_t load_result;
static int device_count;

/* The primary contexts that we hold; NULL: none yet, or none since a reset. */
static _Atomic(rt_context) primary[RT_MOST_DEVICES];
static atomic_uint generations[RT_MOST_DEVICES];
/* The error that has broken a device's context for good; any_broken: some device has one. */
static atomic_int broken[RT_MOST_DEVICES];
static atomic_bool any_broken;

static _Thread_local struct {
    int device;
    cudaError_t last_error;
    rt_context bound; /* made current by us, ... */
    int bound_device;
    unsigned bound_generation; /* ... when the device had been reset so often */
} self;

/* ---- the driver ------------------------------------------------------------------------------------------------- */

static void *open_beside_us(void) {
    Dl_info here;
    const void *inside = &rt_driver;
    char *real = dladdr(inside, &here) != 0 ? realpath(here.dli_fname, NULL) : NULL;
    if (real == NULL) return NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s/" LIBRARY, dirname(real));
    free(real);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* A driver that is loaded already is the one, so that all of the process sees one machine; else the one beside us. */
static void *open_driver(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) library = open_beside_us();
    return library != NULL ? library : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bits are the same. */
static bool find_entry(void *library, const char *symbol, void *member) {
    void *entry = dlsym(library, symbol);
    memcpy(member, &entry, sizeof entry);
    return entry != NULL;
}

/* On a real driver kernels would silently do nothing: refused. */
static cudaError_t fill_table(void) {
    void *library = open_driver();
    if (library == NULL) {
        weir__log(WEIR__LOG_ERROR, "emulated runtime: no emulated driver (" LIBRARY "): %s", dlerror());
        return cudaErrorInsufficientDriver;
    }
    if (dlsym(library, "weirEmuProfile") == NULL) {
        weir__log(WEIR__LOG_ERROR,
                  "emulated runtime: the driver that is loaded is a real one, which needs NVIDIA's runtime; "
                  "take weir's emulator folder out of LD_LIBRARY_PATH");
        return cudaErrorInsufficientDriver;
    }
#define FIND(symbol, parameters) find_entry(library, #symbol, &rt_driver.symbol);
    RT_DRIVER_LIST(FIND)
#undef FIND
    return cudaSuccess;
}

static void load(void) {
    load_result = fill_table();
    if (load_result == cudaSuccess) load_result = RT_CALL(cuInit, (0));
    if (load_result == cudaSuccess) load_result = RT_CALL(cuDeviceGetCount, (&device_count));
    if (load_result == cudaSuccess && device_count == 0) load_result = cudaErrorNoDevice;
    if (device_count > RT_MOST_DEVICES) device_count = RT_MOST_DEVICES;
}

int rt_device_count(void) { return device_count; }

static bool said_before(const char *symbol) {
    enum { MOST = 256 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *said[MOST];
    static size_t count;
    pthread_mutex_lock(&lock);
    bool found = count == MOST;
    for (size_t i = 0; i < count && !found; i++) found = strcmp(said[i], symbol) == 0;
    if (!found) said[count++] = symbol;
    pthread_mutex_unlock(&lock);
    return found;
}

cudaError_t rt_missing(const char *symbol) {
    if (!said_before(symbol)) weir__log(WEIR__LOG_WARN, "emulated runtime: %s is not supported", symbol);
    return cudaErrorNotSupported;
}

/* ---- contexts --------------------------------------------------------------------------------------------------- */

unsigned rt_generation(int device) { return atomic_load(&generations[device]); }

cudaError_t rt_primary_context(int device, rt_context *context) {
    *context = atomic_load(&primary[device]);
    if (*context != NULL) return cudaSuccess;
    rt_context retained;
    const cudaError_t code = RT_CALL(cuDevicePrimaryCtxRetain, (&retained, device));
    if (code != cudaSuccess) return code;
    if (atomic_compare_exchange_strong(&primary[device], context, retained))
        *context = retained;
    else
        (void)RT_CALL(cuDevicePrimaryCtxRelease_v2, (device)); /* another thread was faster: one hold is enough */
    return cudaSuccess;
}

void rt_forget_context(int device) {
    atomic_store(&primary[device], NULL);
    atomic_fetch_add(&generations[device], 1);
}

static cudaError_t bind(int device) {
    const unsigned generation = rt_generation(device);
    rt_context context;
    cudaError_t code = rt_primary_context(device, &context);
    if (code == cudaSuccess) code = RT_CALL(cuCtxSetCurrent, (context));
    if (code != cudaSuccess) return code;
    self.bound = context;
    self.bound_device = device;
    self.bound_generation = generation;
    return cudaSuccess;
}

cudaError_t rt_set_device(int device) {
    if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
    self.device = device;
    return bind(device);
}

static bool was_reset(rt_context current) {
    return current == self.bound && self.bound_generation != rt_generation(self.bound_device);
}

cudaError_t rt_device(int *device) {
    rt_context current = NULL;
    *device = self.device;
    const cudaError_t code = RT_CALL(cuCtxGetCurrent, (&current));
    if (code != cudaSuccess || current == NULL || was_reset(current)) return code;
    return RT_CALL(cuCtxGetDevice, (device));
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* After these the device's context can't be used any more, and every later call says so again. */
static bool sticky(cudaError_t code) {
    switch (code) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
        return true;
    default:
        return false;
    }
}

static void mark_broken(cudaError_t code) {
    int device, whole = cudaSuccess;
    if (rt_device(&device) != cudaSuccess) return;
    if (atomic_compare_exchange_strong(&broken[device], &whole, (int)code)) atomic_store(&any_broken, true);
}

static cudaError_t check_broken(void) {
    int device;
    if (!atomic_load(&any_broken)) return cudaSuccess;
    const cudaError_t code = rt_device(&device);
    return code != cudaSuccess ? code : (cudaError_t)atomic_load(&broken[device]);
}

cudaError_t rt_begin_without_context(void) {
    pthread_once(&loading, load);
    return load_result != cudaSuccess ? load_result : check_broken();
}

cudaError_t rt_begin_with_device(int device) {
    const cudaError_t code = rt_begin_without_context();
    if (code != cudaSuccess) return code;
    return device >= 0 && device < device_count ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t rt_begin(void) {
    const cudaError_t code = rt_begin_without_context();
    if (code != cudaSuccess) return code;
    rt_context current = NULL;
    const cudaError_t asked = RT_CALL(cuCtxGetCurrent, (&current));
    if (asked != cudaSuccess) return asked;
    if (current == NULL) return bind(self.device);
    return was_reset(current) ? bind(self.bound_device) : cudaSuccess;
}

cudaError_t rt_end(cudaError_t code) {
    if (code == cudaSuccess) return code;
    self.last_error = code;
    if (sticky(code) && load_result == cudaSuccess) mark_broken(code);
    return code;
}

cudaError_t rt_end_query(cudaError_t code) { return code == cudaErrorNotReady ? code : rt_end(code); }

cudaError_t rt_refuse(const char *name) { return rt_end(rt_missing(name)); }

/* ---- last error ------------------------------------------------------------------------------------------------- */

cudaError_t cudaPeekAtLastError(void) { return self.last_error; }

cudaError_t cudaGetLastError(void) {
    const cudaError_t code = self.last_error;
    if (!sticky(code)) self.last_error = cudaSuccess;
    return code;
}
