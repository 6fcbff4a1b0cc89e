/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a program's allocations and frees, and passes them on to whoever is next. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/emu/emu_types.h"

typedef CUresult alloc_fn(CUdeviceptr *, size_t);
typedef CUresult free_fn(CUdeviceptr);

__attribute__((visibility("default"))) alloc_fn cuMemAlloc_v2;
__attribute__((visibility("default"))) free_fn cuMemFree_v2;

static int allocs, frees;

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    alloc_fn *next;
    void *found = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    memcpy(&next, &found, sizeof next);
    allocs++;
    return next(address, bytes);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    free_fn *next;
    void *found = dlsym(RTLD_NEXT, "cuMemFree_v2");
    memcpy(&next, &found, sizeof next);
    frees++;
    return next(address);
}

__attribute__((destructor)) static void tell(void) { printf(NAME ": %d allocations, %d frees\n", allocs, frees); }
