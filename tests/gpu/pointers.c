/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver tells of an address. */
#include "suite.h"

#define SUBJECT   "pointers"
#define REFERENCE "CUDA Driver API, Unified Addressing, cuPointerGetAttribute: "

enum { BYTES = 5000 };

static unsigned memory_type(CUdeviceptr at) {
    unsigned type = 99;
    OK(cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    return type;
}

CASE(a_block_is_device_memory, REFERENCE "CU_POINTER_ATTRIBUTE_MEMORY_TYPE") {
    const CUdeviceptr block = new_block(BYTES);
    CHECK_EQUAL(CU_MEMORYTYPE_DEVICE, memory_type(block));
    CHECK_EQUAL(CU_MEMORYTYPE_DEVICE, memory_type(block + BYTES - 1));
    OK(cu.MemFree(block));
}

CASE(pinned_memory_is_host_memory, REFERENCE "CU_POINTER_ATTRIBUTE_MEMORY_TYPE") {
    unsigned char *pinned = new_pinned(BYTES);
    CHECK_EQUAL(CU_MEMORYTYPE_HOST, memory_type(as_device(pinned)));
    CHECK_EQUAL(CU_MEMORYTYPE_HOST, memory_type(as_device(pinned + BYTES - 1)));
    OK(cu.MemFreeHost(pinned));
}

CASE(registered_memory_is_host_memory, REFERENCE "CU_POINTER_ATTRIBUTE_MEMORY_TYPE") {
    enum { PAGE = 1 << 16 };
    unsigned char *mine = aligned_alloc(PAGE, PAGE);
    CHECK(mine != NULL);
    OK(cu.MemHostRegister(mine, PAGE, 0));
    CHECK_EQUAL(CU_MEMORYTYPE_HOST, memory_type(as_device(mine)));
    OK(cu.MemHostUnregister(mine));
    free(mine);
}

CASE(a_mapped_page_is_device_memory, REFERENCE "CU_POINTER_ATTRIBUTE_MEMORY_TYPE") {
    const size_t unit = granule();
    const CUdeviceptr at = new_reservation(unit);
    const CUmemGenericAllocationHandle page = new_page(unit);
    map_page(at, unit, page);
    CHECK_EQUAL(CU_MEMORYTYPE_DEVICE, memory_type(at + unit / 2));
    OK(cu.MemUnmap(at, unit));
    OK(cu.MemRelease(page));
    OK(cu.MemAddressFree(at, unit));
}

CASE(an_address_that_the_driver_does_not_know_has_no_type,
     REFERENCE "\"If ptr was not allocated by, mapped by, or registered with a CUcontext ... CUDA_ERROR_INVALID_VALUE "
               "is returned\"") {
    int mine = 0;
    unsigned type;
    GIVES(cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, as_device(&mine)), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_freed_block_has_no_type, REFERENCE "CUDA_ERROR_INVALID_VALUE") {
    const CUdeviceptr block = new_block((size_t)64 << 10);
    OK(cu.MemFree(block));
    unsigned type;
    GIVES(cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_block_knows_its_context, REFERENCE "CU_POINTER_ATTRIBUTE_CONTEXT") {
    const CUdeviceptr block = new_block(BYTES);
    CUcontext context = NULL;
    OK(cu.PointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    CHECK(context == primary);
    OK(cu.MemFree(block));
}

CASE(a_block_knows_its_device, REFERENCE "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL") {
    const CUdeviceptr block = new_block(BYTES);
    int ordinal = -1;
    OK(cu.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block + 1));
    CHECK_EQUAL(DEVICE, ordinal);
    OK(cu.MemFree(block));
}

CASE(a_block_is_reached_by_the_device_only, REFERENCE "CU_POINTER_ATTRIBUTE_HOST_POINTER: \"If there exists no host "
                                                      "pointer value ... CUDA_ERROR_INVALID_VALUE is returned\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUdeviceptr device_address = 0;
    void *host_address;
    OK(cu.PointerGetAttribute(&device_address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, block + 5));
    CHECK(device_address == block + 5);
    GIVES(cu.PointerGetAttribute(&host_address, CU_POINTER_ATTRIBUTE_HOST_POINTER, block), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemFree(block));
}

CASE(pinned_memory_is_reached_by_both_at_one_address,
     REFERENCE "CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_POINTER") {
    unsigned char *pinned = new_pinned(BYTES);
    CUdeviceptr device_address = 0;
    void *host_address = NULL;
    OK(cu.PointerGetAttribute(&device_address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, as_device(pinned + 5)));
    OK(cu.PointerGetAttribute(&host_address, CU_POINTER_ATTRIBUTE_HOST_POINTER, as_device(pinned + 5)));
    CHECK(device_address == as_device(pinned + 5) && host_address == pinned + 5);
    OK(cu.MemFreeHost(pinned));
}

CASE(an_address_knows_the_range_that_it_is_in,
     REFERENCE "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE") {
    const CUdeviceptr block = new_block(BYTES);
    CUdeviceptr start = 0;
    size_t bytes = 0;
    OK(cu.PointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 1234));
    OK(cu.PointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block + 1234));
    CHECK(start == block);
    CHECK(bytes >= BYTES);
    OK(cu.MemFree(block));
}

CASE(no_two_blocks_have_one_number,
     REFERENCE "CU_POINTER_ATTRIBUTE_BUFFER_ID: \"Subsequent allocations do not reuse IDs\"") {
    enum { COUNT = 20 };
    unsigned long long ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const CUdeviceptr block = new_block(BYTES);
        OK(cu.PointerGetAttribute(&ids[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
        OK(cu.MemFree(block));
        for (int j = 0; j < i; j++) CHECK(ids[j] != ids[i]);
    }
}

CASE(a_block_is_not_managed, REFERENCE "CU_POINTER_ATTRIBUTE_IS_MANAGED") {
    const CUdeviceptr block = new_block(BYTES);
    unsigned managed = 99;
    OK(cu.PointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block));
    CHECK_EQUAL(0, managed & 0xff); /* a boolean, of one byte perhaps */
    OK(cu.MemFree(block));
}

CASE(several_attributes_are_asked_at_once, "CUDA Driver API, Unified Addressing, cuPointerGetAttributes") {
    const CUdeviceptr block = new_block(BYTES);
    unsigned type = 99;
    int ordinal = -1;
    CUcontext context = NULL;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_CONTEXT};
    void *places[] = {&type, &ordinal, &context};
    OK(cu.PointerGetAttributes(3, attributes, places, block));
    CHECK_EQUAL(CU_MEMORYTYPE_DEVICE, type);
    CHECK_EQUAL(DEVICE, ordinal);
    CHECK(context == primary);
    OK(cu.MemFree(block));
}

CASE(several_attributes_of_an_unknown_address_are_nothing,
     "CUDA Driver API, Unified Addressing, cuPointerGetAttributes: \"the attributes are assigned default NULL values "
     "and CUDA_SUCCESS is returned\"") {
    int mine = 0;
    unsigned type = 99;
    CUcontext context = primary;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
    void *places[] = {&type, &context};
    OK(cu.PointerGetAttributes(2, attributes, places, as_device(&mine)));
    CHECK_EQUAL(0, type);
    CHECK(context == NULL);
}
