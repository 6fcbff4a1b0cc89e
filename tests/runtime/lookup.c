/* SPDX-License-Identifier: Apache-2.0 */
/* A program that links no CUDA library: it opens libcuda.so.1 and looks up every entry that it calls, as PyTorch and others
 * do. Types are CUDA's. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_TOOLKIT
#include <cuda.h>
#else
#include "device/emu/emu_types.h"
#endif

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* X(name, parameters): as of CUDA 12.0. */
#define ENTRY_LIST(X)                                                                                                  \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                                                   \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                                \
    X(cuDevicePrimaryCtxRelease, (CUdevice device))                                                                    \
    X(cuCtxSetCurrent, (CUcontext context))                                                                            \
    X(cuMemAlloc, (CUdeviceptr * address, size_t bytes))                                                               \
    X(cuMemFree, (CUdeviceptr address))                                                                                \
    X(cuMemGetInfo, (size_t * free_bytes, size_t * total_bytes))                                                       \
    X(cuMemGetAllocationGranularity,                                                                                   \
      (size_t * bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option))                \
    X(cuMemAddressReserve,                                                                                             \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags))           \
    X(cuMemAddressFree, (CUdeviceptr address, size_t bytes))                                                           \
    X(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,        \
                    unsigned long long flags))                                                                         \
    X(cuMemRelease, (CUmemGenericAllocationHandle handle))                                                             \
    X(cuMemMap, (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,                \
                 unsigned long long flags))                                                                            \
    X(cuMemUnmap, (CUdeviceptr address, size_t bytes))                                                                 \
    X(cuMemSetAccess, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count))                \
    X(cuMemcpyHtoDAsync, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                            \
    X(cuMemcpyDtoHAsync, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                  \
    X(cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream))                           \
    X(cuStreamCreate, (CUstream * stream, unsigned flags))                                                             \
    X(cuStreamSynchronize, (CUstream stream))                                                                          \
    X(cuStreamDestroy, (CUstream stream))

static struct {
#define MEMBER(name, parameters) CUresult(*name) parameters;
    ENTRY_LIST(MEMBER)
} cuda;

static void look_up_all(void) {
    CUresult (*find)(const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *);
    CUdriverProcAddressQueryResult found;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library != NULL);
    void *entry = dlsym(library, "cuGetProcAddress_v2");
    CHECK(entry != NULL);
    memcpy(&find, &entry, sizeof entry);
#define LOOK_UP(name, parameters)                                                                                      \
    CHECK(find(#name, &entry, 12000, 0, &found) == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS);              \
    memcpy(&cuda.name, &entry, sizeof entry);
    ENTRY_LIST(LOOK_UP)
    CHECK(find("cuMemAllocate", &entry, 12000, 0, &found) == CUDA_SUCCESS);
    CHECK(found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && entry == NULL);
}

#define CUDA(call) CHECK(cuda.call == CUDA_SUCCESS)

static void map_and_use(CUdevice device, CUstream stream) {
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle page;
    CUdeviceptr address;
    size_t granule;
    char back[64];
    CUDA(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUDA(cuMemAddressReserve(&address, 4 * granule, 0, 0, 0));
    CUDA(cuMemCreate(&page, granule, &properties, 0));
    CUDA(cuMemMap(address + granule, granule, 0, page, 0));
    CUDA(cuMemSetAccess(address + granule, granule, &access, 1));
    CUDA(cuMemsetD8Async(address + granule, 9, granule, stream));
    CUDA(cuMemcpyDtoHAsync(back, address + 2 * granule - sizeof back, sizeof back, stream));
    CUDA(cuStreamSynchronize(stream));
    CHECK(back[0] == 9 && back[63] == 9);
    CUDA(cuMemUnmap(address + granule, granule));
    CUDA(cuMemRelease(page));
    CUDA(cuMemAddressFree(address, 4 * granule));
}

int main(void) {
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUdeviceptr block;
    size_t free_bytes, total_bytes, before;
    char text[] = "there and back", back[sizeof text];
    look_up_all();
    CUDA(cuInit(0));
    CUDA(cuDeviceGet(&device, 0));
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));
    CUDA(cuMemGetInfo(&before, &total_bytes));
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUDA(cuMemAlloc(&block, sizeof text));
    CUDA(cuMemcpyHtoDAsync(block, text, sizeof text, stream));
    CUDA(cuMemcpyDtoHAsync(back, block, sizeof text, stream));
    CUDA(cuStreamSynchronize(stream));
    CHECK(strcmp(back, text) == 0);
    map_and_use(device, stream);
    CUDA(cuMemFree(block));
    CUDA(cuMemGetInfo(&free_bytes, &total_bytes));
    CHECK(free_bytes == before);
    CUDA(cuStreamDestroy(stream));
    CUDA(cuDevicePrimaryCtxRelease(device));
    puts("all as it should be");
    return 0;
}
