/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory. All of it is portable: pinned for every device of the process. */
#include "device/device.h"
#include "device/over.h"

enum weir_status weir_host_register(struct weir_device *device, void *address, size_t bytes) {
    if (bytes == 0) return WEIR_OK;
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    status = weir__device_check(device, device->driver->host_register(address, bytes, CU_MEMHOSTREGISTER_PORTABLE),
                                "cuMemHostRegister");
    weir__device_leave(device);
    return status;
}

enum weir_status weir_host_unregister(struct weir_device *device, void *address) {
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return weir__given_back(status);
    status = weir__device_check(device, device->driver->host_unregister(address), "cuMemHostUnregister");
    status = weir__given_back(status);
    weir__device_leave(device);
    return status;
}

enum weir_status weir_host_alloc(struct weir_device *device, size_t bytes, void **out) {
    if (out == NULL) return WEIR__INVALID("weir_host_alloc needs a place for the address, not NULL");
    *out = NULL;
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    status =
        weir__device_check(device, device->driver->host_alloc(out, bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    weir__device_leave(device);
    return status;
}

enum weir_status weir_host_free(struct weir_device *device, void *address) {
    if (address == NULL) return WEIR_OK;
    enum weir_status status = weir__device_enter(device);
    if (status != WEIR_OK) return weir__given_back(status);
    status = weir__device_check(device, device->driver->host_free(address), "cuMemFreeHost");
    status = weir__given_back(status);
    weir__device_leave(device);
    return status;
}
