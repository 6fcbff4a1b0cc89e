/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory, allocated or registered. */
#include "suite.h"

#include <sys/mman.h>

#define SUBJECT   "host memory"
#define REFERENCE "CUDA Driver API, Memory Management, "

enum { BYTES = 1 << 16 };

/* Pageable memory on pages of its own. */
static unsigned char *new_pageable(size_t bytes) {
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(address != MAP_FAILED);
    memset(address, 0, bytes);
    return address;
}

static void drop_pageable(unsigned char *address, size_t bytes) { CHECK(munmap(address, bytes) == 0); }

CASE(the_device_reaches_pinned_memory_at_the_hosts_address,
     REFERENCE "cuMemHostAlloc: \"the device pointer ... is always equal to the returned host pointer\"") {
    unsigned char *pinned = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    set(block, 3, BYTES, NULL);
    copy(as_device(pinned), block, BYTES, NULL);
    OK(cu.CtxSynchronize());
    CHECK(all_are(pinned, BYTES, 3));
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(pinned));
}

CASE(pinned_memory_is_the_hosts_to_read_and_write, REFERENCE "cuMemAllocHost") {
    void *address = NULL;
    OK(cu.MemAllocHost(&address, BYTES));
    memset(address, 8, BYTES);
    CHECK(all_are(address, BYTES, 8));
    OK(cu.MemFreeHost(address));
}

CASE(unknown_flags_of_pinned_memory_are_refused, REFERENCE "cuMemHostAlloc: CUDA_ERROR_INVALID_VALUE") {
    void *address;
    GIVES(cu.MemHostAlloc(&address, BYTES, 0x4000), CUDA_ERROR_INVALID_VALUE);
}

CASE(pinned_memory_remembers_its_flags, REFERENCE "cuMemHostGetFlags: \"flags that were specified when allocating\"") {
    void *address = NULL;
    unsigned flags = 0;
    OK(cu.MemHostAlloc(&address, BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cu.MemHostGetFlags(&flags, address));
    CHECK((flags & CU_MEMHOSTALLOC_PORTABLE) != 0 && (flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0);
    OK(cu.MemFreeHost(address));
}

CASE(memory_that_is_not_pinned_has_no_flags,
     REFERENCE "cuMemHostGetFlags: \"will fail if the pointer does not reside in an allocation\"") {
    unsigned flags;
    unsigned char *pageable = new_pageable(BYTES);
    GIVES(cu.MemHostGetFlags(&flags, pageable), CUDA_ERROR_INVALID_VALUE);
    drop_pageable(pageable, BYTES);
}

CASE(mapped_memory_has_a_device_address, REFERENCE "cuMemHostGetDevicePointer") {
    void *address = NULL;
    CUdeviceptr device_address = 0;
    OK(cu.MemHostAlloc(&address, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cu.MemHostGetDevicePointer(&device_address, address, 0));
    CHECK(device_address == as_device(address));
    OK(cu.MemFreeHost(address));
}

CASE(the_device_address_takes_no_flags, REFERENCE "cuMemHostGetDevicePointer: \"For now, it must be set to 0\"") {
    unsigned char *pinned = new_pinned(BYTES);
    CUdeviceptr address;
    GIVES(cu.MemHostGetDevicePointer(&address, pinned, 0x80), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemFreeHost(pinned));
}

CASE(memory_that_is_not_pinned_cannot_be_freed_as_such,
     REFERENCE "cuMemFreeHost: \"must have been returned by a previous call\"") {
    unsigned char *pageable = new_pageable(BYTES);
    GIVES(cu.MemFreeHost(pageable), CUDA_ERROR_INVALID_VALUE);
    drop_pageable(pageable, BYTES);
}

CASE(pinned_memory_beyond_the_machine_is_refused, REFERENCE "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY") {
    void *address;
    GIVES(cu.MemHostAlloc(&address, (size_t)1 << 60, 0), CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE);
}

/* ---- registered ------------------------------------------------------------------------------------------------- */

CASE(registered_memory_is_copied_to_and_from, REFERENCE "cuMemHostRegister") {
    unsigned char *mine = new_pageable(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    OK(cu.MemHostRegister(mine, BYTES, 0));
    memset(mine, 4, BYTES);
    copy(block, as_device(mine), BYTES, NULL);
    OK(cu.CtxSynchronize());
    memset(mine, 0, BYTES);
    copy(as_device(mine), block, BYTES, NULL);
    OK(cu.CtxSynchronize());
    CHECK(all_are(mine, BYTES, 4));
    OK(cu.MemHostUnregister(mine));
    OK(cu.MemFree(block));
    drop_pageable(mine, BYTES);
}

CASE(memory_is_registered_once, REFERENCE "cuMemHostRegister: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED") {
    unsigned char *mine = new_pageable(BYTES);
    OK(cu.MemHostRegister(mine, BYTES, 0));
    GIVES(cu.MemHostRegister(mine, BYTES, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cu.MemHostUnregister(mine));
    drop_pageable(mine, BYTES);
}

CASE(memory_that_was_not_registered_cannot_be_unregistered,
     REFERENCE "cuMemHostUnregister: CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED") {
    unsigned char *mine = new_pageable(BYTES);
    GIVES(cu.MemHostUnregister(mine), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_INVALID_VALUE);
    drop_pageable(mine, BYTES);
}

CASE(memory_can_be_registered_again_after_it_was_unregistered,
     REFERENCE "cuMemHostUnregister: \"makes it pageable again\"") {
    unsigned char *mine = new_pageable(BYTES);
    for (int times = 0; times < 3; times++) {
        OK(cu.MemHostRegister(mine, BYTES, CU_MEMHOSTREGISTER_PORTABLE));
        OK(cu.MemHostUnregister(mine));
    }
    GIVES(cu.MemHostUnregister(mine), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_INVALID_VALUE);
    drop_pageable(mine, BYTES);
}

CASE(only_the_base_of_registered_memory_unregisters_it,
     REFERENCE "cuMemHostUnregister: \"The base address must be the same one specified to cuMemHostRegister()\"") {
    unsigned char *mine = new_pageable(BYTES);
    OK(cu.MemHostRegister(mine, BYTES, 0));
    GIVES(cu.MemHostUnregister(mine + BYTES / 2), CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cu.MemHostUnregister(mine));
    drop_pageable(mine, BYTES);
}

CASE(no_bytes_cannot_be_registered, REFERENCE "cuMemHostRegister: CUDA_ERROR_INVALID_VALUE") {
    unsigned char *mine = new_pageable(BYTES);
    GIVES(cu.MemHostRegister(mine, 0, 0), CUDA_ERROR_INVALID_VALUE);
    drop_pageable(mine, BYTES);
}

CASE(registered_memory_has_a_device_address,
     REFERENCE "cuMemHostGetDevicePointer; CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM") {
    unsigned char *mine = new_pageable(BYTES);
    CUdeviceptr address = 0;
    OK(cu.MemHostRegister(mine, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cu.MemHostGetDevicePointer(&address, mine, 0));
    CHECK(address != 0);
    if (attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) != 0 && device_count() == 1)
        CHECK(address == as_device(mine));
    OK(cu.MemHostUnregister(mine));
    drop_pageable(mine, BYTES);
}
