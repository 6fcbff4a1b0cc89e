/* SPDX-License-Identifier: Apache-2.0 */
/* The driver as small programs see it, its entries found by one of the three ways: WAY_NAME (the dynamic linker's), WAY_DLSYM
 * (with WAY_DEFAULT: in the global scope), WAY_LOOKUP (cuGetProcAddress). Types and symbols are CUDA's. */
#ifndef WEIR_TESTS_PRELOAD_DRIVER_H
#define WEIR_TESTS_PRELOAD_DRIVER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/emu_types.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* X(name in cuGetProcAddress, symbol, parameters) */
#define ENTRY_LIST(X)                                                                                                  \
    X(cuInit, cuInit, (unsigned flags))                                                                                \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                      \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (CUdevice device))                                          \
    X(cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext context))                                                           \
    X(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                                \
    X(cuMemFree, cuMemFree_v2, (CUdeviceptr address))                                                                  \
    X(cuMemGetInfo, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                      \
    X(cuMemGetAddressRange, cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t * bytes, CUdeviceptr address))        \
    X(cuMemsetD8Async, cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream))          \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                       \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))            \
    X(cuStreamCreate, cuStreamCreate, (CUstream * stream, unsigned flags))                                             \
    X(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))                                                     \
    X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream))

/* CUDA 11.2 and later. */
#define ORDERED_LIST(X)                                                                                                \
    X(cuMemAllocAsync, cuMemAllocAsync, (CUdeviceptr * address, size_t bytes, CUstream stream))                        \
    X(cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr address, CUstream stream))

#define MEMBER(name, symbol, parameters) CUresult(*name) parameters;
static struct {
    ENTRY_LIST(MEMBER)
    ORDERED_LIST(MEMBER)
} cuda;
#undef MEMBER

#if defined(WAY_NAME)
#define DECLARE(name, symbol, parameters) CUresult symbol parameters;
ENTRY_LIST(DECLARE)
ORDERED_LIST(DECLARE)
#undef DECLARE

static void find_all(int version, uint64_t flags) {
    (void)version;
    (void)flags;
#define TAKE(name, symbol, parameters) cuda.name = symbol;
    ENTRY_LIST(TAKE)
    ORDERED_LIST(TAKE)
#undef TAKE
}
#else
static void *open_driver(void) {
#ifdef WAY_DEFAULT
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != NULL);
    return RTLD_DEFAULT;
#else
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(driver != NULL);
    return driver;
#endif
}

static void *symbol_of(void *driver, const char *symbol) {
    void *entry = dlsym(driver, symbol);
    CHECK(entry != NULL);
    return entry;
}
#if defined(WAY_DLSYM)
static void find_all(int version, uint64_t flags) {
    void *driver = open_driver(), *entry;
    (void)version;
    (void)flags;
#define TAKE(name, symbol, parameters)                                                                                 \
    entry = symbol_of(driver, #symbol);                                                                                \
    memcpy(&cuda.name, &entry, sizeof entry);
    ENTRY_LIST(TAKE)
    ORDERED_LIST(TAKE)
#undef TAKE
}
#elif defined(WAY_LOOKUP)
typedef CUresult look_up_1(const char *, void **, int, uint64_t);
typedef CUresult look_up_2(const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *);

/* A program of CUDA 11 knows the first form of the look-up alone, a runtime of CUDA 12 and 13 the second. */
static void *look_up(void *driver, const char *name, int version, uint64_t flags) {
    void *found = NULL, *entry = symbol_of(driver, version < 12000 ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult status;
    look_up_1 *one;
    look_up_2 *two;
    memcpy(&one, &entry, sizeof entry);
    memcpy(&two, &entry, sizeof entry);
    CHECK((version < 12000 ? one(name, &found, version, flags) : two(name, &found, version, flags, &status)) ==
          CUDA_SUCCESS);
    return found;
}

static void find_all(int version, uint64_t flags) {
    void *driver = open_driver(), *entry;
#define TAKE(name, symbol, parameters)                                                                                 \
    entry = look_up(driver, #name, version, flags);                                                                    \
    memcpy(&cuda.name, &entry, sizeof entry);
    ENTRY_LIST(TAKE)
    if (version >= 11020) {
        ORDERED_LIST(TAKE)
    }
#undef TAKE
}
#endif
#endif

#define CUDA(call) CHECK(cuda.call == CUDA_SUCCESS)

enum { MEBI = 1 << 20 };

static inline void use_device(CUdevice device) {
    CUcontext context;
    CUDA(cuInit(0));
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));
}

/* Three blocks, each filled, read back and freed. */
static inline void three_blocks(const char *who) {
    CUdeviceptr block[3];
    unsigned char back[16];
    for (int i = 0; i < 3; i++) {
        CUDA(cuMemAlloc(&block[i], MEBI));
        CUDA(cuMemsetD8Async(block[i], (unsigned char)(i + 1), MEBI, NULL));
    }
    for (int i = 0; i < 3; i++) {
        CUDA(cuMemcpyDtoH(back, block[i] + MEBI - sizeof back, sizeof back));
        CHECK(back[0] == i + 1 && back[15] == i + 1);
        CUDA(cuMemFree(block[i]));
    }
    printf("%s: three blocks\n", who);
}

#endif
