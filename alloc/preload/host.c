/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's entries for pinned host memory, served from a cache where WEIR_PRELOAD says host:pool. */
#include "alloc/pool.h"
#include "alloc/preload/pinned.h"

static CUresult give(const struct weir__real *driver, void **address, size_t bytes, unsigned flags) {
    const bool asked = weir__preload_host_is_pooled() && address != NULL && bytes > 0;
    struct weir_pool *pool = asked ? weir__preload_pool(driver, true) : NULL;
    return pool != NULL ? weir__pinned_alloc(driver, pool->device->ordinal, bytes, flags, address)
                        : weir__pinned_from_driver(driver, address, bytes, flags);
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuMemHostAlloc);
    return (flags & WEIR__PINNED_PLAIN) != 0 ? driver->cuMemHostAlloc(address, bytes, flags)
                                             : give(driver, address, bytes, flags);
}

CUresult cuMemAllocHost_v2(void **address, size_t bytes) {
    DRIVER_OR_FAIL(driver, cuMemAllocHost_v2);
    return give(driver, address, bytes, WEIR__PINNED_PLAIN);
}

CUresult cuMemFreeHost(void *address) {
    bool ours = true;
    DRIVER_OR_FAIL(driver, cuMemFreeHost);
    if (address == NULL || weir__forked() || !weir__preload_host_is_pooled()) return driver->cuMemFreeHost(address);
    const CUresult code = weir__pinned_free(driver, address, &ours);
    if (!ours) WEIR__COUNT(foreign_frees);
    return code;
}

/* A block that was freed is nobody's memory, whatever the driver knows of it. */
static bool is_freed(const struct weir__real *driver, const void *address) {
    struct weir__pinned_found found;
    return weir__preload_host_is_pooled() && !weir__forked() &&
           weir__pinned_find(driver, (CUdeviceptr)(uintptr_t)address, &found) && !found.live;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *address) {
    DRIVER_OR_FAIL(driver, cuMemHostGetFlags);
    return is_freed(driver, address) ? CUDA_ERROR_INVALID_VALUE : driver->cuMemHostGetFlags(flags, address);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
    DRIVER_OR_FAIL(driver, cuMemHostGetDevicePointer_v2);
    return is_freed(driver, host) ? CUDA_ERROR_INVALID_VALUE
                                  : driver->cuMemHostGetDevicePointer_v2(address, host, flags);
}
