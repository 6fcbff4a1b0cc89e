/* SPDX-License-Identifier: Apache-2.0 */
/* A process may have only so many mappings (vm.max_map_count). Where the emulated driver comes near that it is out of
 * memory; the program itself can still map, allocate and start threads. Runs with WEIR_EMU=capacity:1G. */
#include "tests/device/machine.h"

#include <sys/mman.h>

enum { GRANULE = 16 * 1024, MOST = 65536 };

static const CUmemAllocationProp pinned = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

/* Maps one page at every second granule, each of which costs two mappings; gives how many were mapped. */
static int map_apart(const struct weir__driver *driver, CUdeviceptr at, CUmemGenericAllocationHandle page,
                     CUresult *last) {
    for (int i = 0; i < MOST; i++) {
        *last = driver->page_map(at + (CUdeviceptr)(2 * i) * GRANULE, GRANULE, 0, page, 0);
        if (*last != CUDA_SUCCESS) return i;
    }
    return MOST;
}

static void *do_nothing(void *argument) { return argument; }

static void too_many_mappings_are_out_of_memory_and_never_a_crash(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    CUmemGenericAllocationHandle page;
    CUdeviceptr at;
    CUresult last;
    assert_code(CUDA_SUCCESS, driver->address_reserve(&at, (size_t)2 * MOST * GRANULE, 0, 0, 0));
    assert_code(CUDA_SUCCESS, driver->page_create(&page, GRANULE, &pinned, 0));
    const int mapped = map_apart(driver, at, page, &last);
    if (mapped == MOST) skip(); /* this machine allows more than the test asks for */
    assert_int_equal(last, CUDA_ERROR_OUT_OF_MEMORY);

    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    munmap(memory, 1 << 20);

    for (int i = 0; i < 100; i++)
        assert_code(CUDA_SUCCESS, driver->page_unmap(at + (CUdeviceptr)(2 * i) * GRANULE, GRANULE));
    assert_int_equal(map_apart(driver, at, page, &last), 100); /* there is room again ... */
    assert_code(CUDA_ERROR_OUT_OF_MEMORY,                      /* ... and no more than before */
                driver->page_map(at + (CUdeviceptr)(2 * mapped) * GRANULE, GRANULE, 0, page, 0));
    weir__device_leave(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {device_test(too_many_mappings_are_out_of_memory_and_never_a_crash)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
