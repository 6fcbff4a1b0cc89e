/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing, what a device tells of itself, and the context around every driver call. */
#include "device/device.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/budget.h"
#include "device/emulated.h"
#include "device/over.h"

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_device *open_devices; /* each (driver, ordinal) once */

/* ---- fork ------------------------------------------------------------------------------------------------------- */

bool weir__is_forked;
static pthread_once_t fork_watched = PTHREAD_ONCE_INIT;

static void in_child(void) { weir__is_forked = true; }
static void watch_fork(void) { pthread_atfork(NULL, NULL, in_child); }

enum weir_status weir__fail_forked(void) {
    return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                      "weir can't be used after fork: the device was opened in the parent process");
}

/* ---- context ---------------------------------------------------------------------------------------------------- */

static const char push_call[] = "cuCtxPushCurrent";
static atomic_bool shut_down; /* the driver has said that it is shutting down */

bool weir__is_over(enum weir_status status) {
    const struct weir_error *error = weir_last_error();
    if (status != WEIR_DRIVER || error->status != status) return false;
    return error->driver_code == CUDA_ERROR_DEINITIALIZED || error->driver_code == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
           (error->driver_code == CUDA_ERROR_INVALID_CONTEXT && error->call == push_call); /* the device was reset */
}

/* Changing memory, or looking at an event, is no part of any stream's work, but a capture in another thread, or in this one,
 * may forbid it as unsafe, and would be invalid after it: the thread says that it knows what it does. */
static _Thread_local unsigned entered;
static _Thread_local bool relaxed;
static _Thread_local CUstreamCaptureMode mode_before;

static void relax_captures(const struct weir_device *device) {
    if (entered++ > 0 || device->driver->exchange_capture_mode == NULL) return;
    mode_before = CU_STREAM_CAPTURE_MODE_RELAXED;
    relaxed = device->driver->exchange_capture_mode(&mode_before) == CUDA_SUCCESS;
}

static void restore_captures(const struct weir_device *device) {
    if (--entered > 0 || !relaxed) return;
    device->driver->exchange_capture_mode(&mode_before);
    relaxed = false;
}

enum weir_status weir__device_enter(struct weir_device *device) {
    if (device == NULL) return WEIR__INVALID("the device is NULL");
    if (weir__forked()) return weir__fail_forked();
    if (weir__in_host_function())
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "driver calls are not allowed inside a host function");
    if (atomic_load_explicit(&shut_down, memory_order_relaxed))
        return weir__fail(WEIR_DRIVER, CUDA_ERROR_DEINITIALIZED, push_call, "the driver is shutting down");
    const CUresult code = device->driver->context_push(device->context);
    if (code == CUDA_ERROR_DEINITIALIZED) atomic_store(&shut_down, true);
    if (code == CUDA_SUCCESS) relax_captures(device);
    return weir__device_check(device, code, push_call);
}

void weir__device_leave(struct weir_device *device) {
    CUcontext popped;
    restore_captures(device);
    weir__device_check(device, device->driver->context_pop(&popped), "cuCtxPopCurrent");
}

enum weir_status weir__device_check(struct weir_device *device, CUresult code, const char *call) {
    return weir__driver_check(device->driver, code, call);
}

/* ---- open ------------------------------------------------------------------------------------------------------- */

static enum weir_status find_device(struct weir_device *device, int ordinal) {
    const struct weir__driver *driver = device->driver;
    int count = 0;
    enum weir_status status = weir__driver_check(driver, driver->device_count(&count), "cuDeviceGetCount");
    if (status != WEIR_OK) return status;
    if (ordinal < 0 || ordinal >= count)
        return weir__fail(WEIR_NO_DEVICE, 0, NULL, "device %d does not exist: the driver has %d, numbered from 0",
                          ordinal, count);
    device->ordinal = ordinal;
    return weir__driver_check(driver, driver->device_get(&device->handle, ordinal), "cuDeviceGet");
}

static enum weir_status read_sizes(struct weir_device *device) {
    const struct weir__driver *driver = device->driver;
    const CUmemAllocationProp pinned = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->handle}};
    enum weir_status status = weir__driver_check(
        driver, driver->device_total_memory(&device->capacity_bytes, device->handle), "cuDeviceTotalMem");
    if (status != WEIR_OK) return status;
    int integrated = 0;
    status = weir__driver_check(driver,
                                driver->device_attribute(&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, device->handle),
                                "cuDeviceGetAttribute");
    if (status != WEIR_OK) return status;
    device->integrated = integrated != 0;
    device->host_root = "";
    if (driver->emulated) driver->emu_profile(device->profile, sizeof device->profile, &device->granularity_bytes);
    return weir__driver_check(
        driver, driver->page_granularity(&device->granularity_bytes, &pinned, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
}

static enum weir_status open_device(const struct weir__driver *driver, int ordinal, struct weir_device **out) {
    struct weir_device *device = calloc(1, sizeof *device);
    if (device == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, "calloc", "no host memory for a device");
    device->driver = driver;
    device->references = 1;
    enum weir_status status = find_device(device, ordinal);
    if (status == WEIR_OK)
        status = weir__driver_check(driver, driver->primary_context_retain(&device->context, device->handle),
                                    "cuDevicePrimaryCtxRetain");
    if (status != WEIR_OK) goto failed;
    status = weir__device_enter(device);
    if (status == WEIR_OK) {
        status = read_sizes(device);
        device->watched = weir__device_is_watched(device);
        weir__device_leave(device);
    }
    if (status != WEIR_OK) goto release;
    pthread_rwlock_init(&device->observers_lock, NULL);
    *out = device;
    return WEIR_OK;
release:
    driver->primary_context_release(device->handle);
failed:
    free(device);
    return status;
}

static enum weir_status read_options(const struct weir_device_options *options, struct weir_device_options *wanted) {
    *wanted = (struct weir_device_options){.size = sizeof *wanted};
    if (options == NULL) return WEIR_OK;
    if (options->size < sizeof options->size || options->size > sizeof *wanted)
        return WEIR__INVALID("weir_device_options.size is %zu, expected sizeof(struct weir_device_options), %zu",
                             options->size, sizeof *wanted);
    memcpy(wanted, options, options->size);
    return WEIR_OK;
}

/* A device that is open already is given again. Needs open_lock. */
static enum weir_status find_or_open(const struct weir__driver *driver, int ordinal, struct weir_device **out) {
    for (struct weir_device *device = open_devices; device != NULL; device = device->next) {
        if (device->driver != driver || device->ordinal != ordinal) continue;
        device->references++;
        *out = device;
        return WEIR_OK;
    }
    const enum weir_status status = open_device(driver, ordinal, out);
    if (status != WEIR_OK) return status;
    (*out)->next = open_devices;
    open_devices = *out;
    return WEIR_OK;
}

enum weir_status weir_device_open(const struct weir_device_options *options, struct weir_device **out) {
    if (out == NULL) return WEIR__INVALID("weir_device_open needs a place for the device, not NULL");
    *out = NULL;
    if (weir__forked()) return weir__fail_forked();
    if (weir__in_host_function())
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "a device can't be opened inside a host function");
    struct weir_device_options wanted;
    const struct weir__driver *driver;
    enum weir_status status = read_options(options, &wanted);
    if (status == WEIR_OK) status = weir__driver_load(wanted.machine, wanted.emu, &driver);
    if (status != WEIR_OK) return status;
    pthread_once(&fork_watched, watch_fork);
    pthread_mutex_lock(&open_lock);
    status = find_or_open(driver, wanted.ordinal, out);
    pthread_mutex_unlock(&open_lock);
    return status;
}

/* What observes a device lives on it. */
static bool may_close(struct weir_device *device) {
    pthread_mutex_lock(&open_lock);
    pthread_rwlock_rdlock(&device->observers_lock);
    const bool may = device->references > 1 || device->observers == NULL;
    pthread_rwlock_unlock(&device->observers_lock);
    pthread_mutex_unlock(&open_lock);
    if (may) return true;
    weir__fail(WEIR_INVALID, 0, NULL, "weir_device_close: device %d has pools, which are destroyed before it",
               device->ordinal);
    weir__log(WEIR__LOG_ERROR, "device: %s", weir_last_error()->message);
    return false;
}

void weir_device_close(struct weir_device *device) {
    if (device == NULL || weir__forked() || !may_close(device)) return;
    weir_device_synchronize(device);
    pthread_mutex_lock(&open_lock);
    const bool last = --device->references == 0;
    if (last) {
        struct weir_device **link = &open_devices;
        while (*link != device) link = &(*link)->next;
        *link = device->next;
    }
    if (last && !atomic_load(&shut_down)) {
        weir__device_check(device, device->driver->primary_context_release(device->handle),
                           "cuDevicePrimaryCtxRelease");
    }
    pthread_mutex_unlock(&open_lock);
    if (!last) return;
    pthread_rwlock_destroy(&device->observers_lock);
    weir__device_drop_streams(device);
    free(device);
}

/* ---- what it tells ---------------------------------------------------------------------------------------------- */

static bool read_line(const char *path, char *line, int room) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    const bool read = fgets(line, room, file) != NULL;
    fclose(file);
    return read;
}

/* The emulated device stands beside the CPUs of node 0, which on some machines has none. */
static int node_of_emulated(void) {
    char cpus[32];
    return read_line("/sys/devices/system/node/node0/cpulist", cpus, sizeof cpus) && isdigit((unsigned char)cpus[0])
               ? 0
               : -1;
}

static int numa_node(struct weir_device *device) {
    if (device->driver->emulated) return node_of_emulated();
    char id[32], path[96], line[32];
    if (device->driver->device_pci_bus_id(id, sizeof id, device->handle) != CUDA_SUCCESS) return -1;
    for (char *c = id; *c != '\0'; c++) *c = (char)tolower((unsigned char)*c); /* as sysfs writes it */
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", id);
    return read_line(path, line, sizeof line) ? atoi(line) : -1;
}

enum weir_status weir_device_get_info(struct weir_device *device, struct weir_device_info *info) {
    if (device == NULL || info == NULL)
        return WEIR__INVALID("weir_device_get_info needs a device and a place, not NULL");
    struct weir_device_info known = {.emulated = device->driver->emulated,
                                     .ordinal = device->ordinal,
                                     .numa_node = numa_node(device),
                                     .capacity_bytes = device->capacity_bytes,
                                     .granularity_bytes = device->granularity_bytes};
    if (info->size < sizeof info->size || info->size > sizeof known)
        return WEIR__INVALID("weir_device_info.size is %zu, expected sizeof(struct weir_device_info), %zu", info->size,
                             sizeof known);
    const enum weir_status status = weir__device_check(
        device, device->driver->device_name(known.name, sizeof known.name, device->handle), "cuDeviceGetName");
    if (status != WEIR_OK) return status;
    memcpy(known.profile, device->profile, sizeof known.profile);
    known.size = info->size;
    memcpy(info, &known, info->size);
    return WEIR_OK;
}

enum weir_status weir_device_memory(struct weir_device *device, size_t *free_bytes, size_t *total_bytes) {
    if (free_bytes == NULL || total_bytes == NULL)
        return WEIR__INVALID("weir_device_memory needs two places, not NULL");
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    status = weir__device_check(device, device->driver->memory_info(free_bytes, total_bytes), "cuMemGetInfo");
    weir__device_leave(device);
    if (status == WEIR_OK) *free_bytes = weir__device_free(device, *free_bytes);
    return status;
}
