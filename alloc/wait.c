/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/wait.h"

#include <stdlib.h>
#include <string.h>

bool weir__mutated(const char *site) {
#ifndef NDEBUG
    const size_t length = strlen(site);
    for (const char *wanted = getenv("WEIR_MUTATE"); wanted != NULL;) {
        const size_t part = strcspn(wanted, ",");
        if (part == length && strncmp(wanted, site, length) == 0) return true;
        wanted = wanted[part] == ',' ? wanted + part + 1 : NULL;
    }
    return false;
#else
    (void)site;
    return false;
#endif
}

CUresult weir__wait_on_stream(struct weir_device *device, const char *site, weir_stream stream, CUevent event) {
    return weir__mutated(site) ? CUDA_SUCCESS : device->driver->stream_wait(stream, event, 0);
}

CUresult weir__wait_event_query(struct weir_device *device, const char *site, CUevent event) {
    return weir__mutated(site) ? CUDA_SUCCESS : device->driver->event_query(event);
}

CUresult weir__wait_stream_query(struct weir_device *device, const char *site, weir_stream stream) {
    return weir__mutated(site) ? CUDA_SUCCESS : device->driver->stream_query(stream);
}

CUresult weir__wait_for_device(struct weir_device *device, const char *site) {
    return weir__mutated(site) ? CUDA_SUCCESS : device->driver->context_synchronize();
}

/* A full device has no memory to free; for pinned memory the driver waits too. */
CUresult weir__wait_for_device_in_capture(struct weir_device *device, const char *site) {
    const struct weir__driver *driver = device->driver;
    CUdeviceptr block;
    void *pinned;
    if (weir__mutated(site)) return CUDA_SUCCESS;
    if (driver->memory_alloc(&block, 1) == CUDA_SUCCESS) return driver->memory_free(block);
    const CUresult code = driver->host_alloc(&pinned, 1, 0);
    return code == CUDA_SUCCESS ? driver->host_free(pinned) : code;
}
