/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory: pages, addresses and what is mapped where behave as the driver's documentation says. */
#include "tests/device/machine.h"

enum { GRANULE = 16 * 1024 };

static const CUmemAllocationProp pinned = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc read_write = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void one_page_at_two_addresses_is_the_same_bytes(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    CUmemGenericAllocationHandle page;
    CUdeviceptr at;
    assert_code(CUDA_SUCCESS, driver->address_reserve(&at, 4 * GRANULE, 0, 0, 0));
    assert_code(CUDA_SUCCESS, driver->page_create(&page, GRANULE, &pinned, 0));
    assert_code(CUDA_SUCCESS, driver->page_map(at, GRANULE, 0, page, 0));
    assert_code(CUDA_SUCCESS, driver->page_map(at + 2 * GRANULE, GRANULE, 0, page, 0));
    assert_code(CUDA_SUCCESS, driver->page_set_access(at, GRANULE, &read_write, 1));
    assert_code(CUDA_SUCCESS, driver->page_set_access(at + 2 * GRANULE, GRANULE, &read_write, 1));
    unsigned char *first = (unsigned char *)(uintptr_t)at, *second = first + 2 * GRANULE;
    first[5] = 42;
    assert_int_equal(second[5], 42);
    assert_code(CUDA_SUCCESS, driver->page_unmap(at, GRANULE));
    assert_code(CUDA_SUCCESS, driver->page_unmap(at + 2 * GRANULE, GRANULE));
    assert_code(CUDA_SUCCESS, driver->page_release(page));
    assert_code(CUDA_SUCCESS, driver->address_free(at, 4 * GRANULE));
    weir__device_leave(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(one_page_at_two_addresses_is_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
