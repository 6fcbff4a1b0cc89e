/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory: one address for the host and the device. */
#include "suite.h"

#define SUBJECT   "managed memory"
#define REFERENCE "CUDA Driver API, Memory Management, cuMemAllocManaged"

enum { BYTES = 1 << 16 };

static CUdeviceptr new_managed(void) {
    SKIP_IF(attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 0, "the device has no managed memory");
    CUdeviceptr block = 0;
    OK(cu.MemAllocManaged(&block, BYTES, CU_MEM_ATTACH_GLOBAL));
    CHECK(block != 0);
    return block;
}

CASE(the_host_reads_what_the_device_set, REFERENCE) {
    const CUdeviceptr block = new_managed();
    set(block, 4, BYTES, NULL);
    OK(cu.CtxSynchronize());
    CHECK(all_are((const unsigned char *)(uintptr_t)block, BYTES, 4));
    OK(cu.MemFree(block));
}

CASE(the_device_copies_what_the_host_wrote, REFERENCE) {
    const CUdeviceptr block = new_managed(), plain = new_block(BYTES);
    memset((void *)(uintptr_t)block, 5, BYTES);
    copy(plain, block, BYTES, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(plain, BYTES, 5));
    OK(cu.MemFree(plain));
    OK(cu.MemFree(block));
}

CASE(no_managed_bytes_are_refused,
     REFERENCE ": \"If bytesize is 0, cuMemAllocManaged returns CUDA_ERROR_INVALID_VALUE\"") {
    CUdeviceptr block = 0;
    SKIP_IF(attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 0, "the device has no managed memory");
    GIVES(cu.MemAllocManaged(&block, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
}

CASE(managed_memory_says_so, "CUDA Driver API, Unified Addressing, CU_POINTER_ATTRIBUTE_IS_MANAGED") {
    const CUdeviceptr block = new_managed();
    unsigned managed = 0;
    OK(cu.PointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block + 100));
    CHECK((managed & 0xff) != 0);
    OK(cu.MemFree(block));
}
