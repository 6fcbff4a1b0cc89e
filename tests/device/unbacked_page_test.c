/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that are addresses only are had as any, also by a program that asks for ones that could be shared before it looks
 * whether any can; they just do not go to another process. */
#include "tests/device/api.h"

static void a_page_asked_for_as_shareable_is_had_and_mapped_but_not_exported(void **state) {
    (void)state;
    const CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle page;
    CUdeviceptr address;
    size_t bytes = 0;
    int descriptor = -1, shareable = 1;
    assert_done(
        cu.cuDeviceGetAttribute(&shareable, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
    assert_int_equal(shareable, 0);
    assert_done(cu.cuMemGetAllocationGranularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_done(cu.cuMemCreate(&page, bytes, &wanted, 0));
    assert_done(cu.cuMemAddressReserve(&address, bytes, 0, 0, 0));
    assert_done(cu.cuMemMap(address, bytes, 0, page, 0));
    assert_code(CUDA_ERROR_NOT_SUPPORTED,
                cu.cuMemExportToShareableHandle(&descriptor, page, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_int_equal(descriptor, -1);
    assert_done(cu.cuMemUnmap(address, bytes));
    assert_done(cu.cuMemAddressFree(address, bytes));
    assert_done(cu.cuMemRelease(page));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        context_test(a_page_asked_for_as_shareable_is_had_and_mapped_but_not_exported),
    };
    return cmocka_run_group_tests(tests, load_driver, NULL);
}
