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

#ifdef WRAPS_DLSYM
/* In the C library since 2.34, before in libdl since the architecture's first version. */
__attribute__((visibility("default"))) void *dlsym(void *library, const char *symbol) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *(*next)(void *, const char *), *found = NULL;
    for (int i = 0; i < 3 && found == NULL; i++) found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    memcpy(&next, &found, sizeof next);
    return next(library, symbol);
}
#endif

__attribute__((destructor)) static void tell(void) { printf(NAME ": %d allocations, %d frees\n", allocs, frees); }
