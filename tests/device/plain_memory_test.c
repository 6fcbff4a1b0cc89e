/* SPDX-License-Identifier: Apache-2.0 */
/* Plain allocation and pinned host memory: what is given, what is refused, and that nothing is lost. */
#include "tests/device/machine.h"

enum { GRANULE = 16 * 1024 };

static size_t free_bytes(struct weir_device *device) {
    size_t left, total;
    assert_ok(weir_device_memory(device, &left, &total));
    return left;
}

static void plain_memory_is_usable_at_once_and_takes_whole_granules(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    const size_t before = free_bytes(device);
    CUdeviceptr first, second;
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&first, 1));
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&second, GRANULE + 1));
    assert_int_equal(free_bytes(device), before - 3 * GRANULE);
    memset((void *)(uintptr_t)first, 1, GRANULE);
    memset((void *)(uintptr_t)second, 2, 2 * GRANULE);
    assert_int_equal(*(unsigned char *)(uintptr_t)first, 1);
    assert_code(CUDA_SUCCESS, driver->memory_free(first));
    assert_code(CUDA_SUCCESS, driver->memory_free(second));
    assert_int_equal(free_bytes(device), before);
    weir__device_leave(device);
}

static void wrong_frees_and_sizes_are_errors_and_change_nothing(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    CUdeviceptr block, none;
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&block, 4 * GRANULE));
    const size_t before = free_bytes(device);
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->memory_free(block + GRANULE));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_unmap(block, 4 * GRANULE));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->address_free(block, 4 * GRANULE));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->memory_alloc(&none, 0));
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, driver->memory_alloc(&none, SIZE_MAX));
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, driver->memory_alloc(&none, SIZE_MAX - GRANULE));
    assert_code(CUDA_SUCCESS, driver->memory_free(0));
    assert_int_equal(free_bytes(device), before);
    assert_code(CUDA_SUCCESS, driver->memory_free(block));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->memory_free(block));
    weir__device_leave(device);
}

static void copies_and_sets_move_the_right_bytes(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    unsigned char source[3000], target[3000];
    CUdeviceptr block;
    for (size_t i = 0; i < sizeof source; i++) source[i] = (unsigned char)(i * 7);
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&block, 2 * GRANULE));
    unsigned char *at = (unsigned char *)(uintptr_t)block;
    assert_ok(weir_copy(device, at + 100, source, sizeof source, NULL));
    assert_ok(weir_copy(device, at + GRANULE, at + 100, sizeof source, NULL));
    assert_ok(weir_set(device, at + GRANULE, 0xEE, 10, NULL));
    assert_ok(weir_copy(device, target, at + GRANULE, sizeof target, NULL));
    for (size_t i = 0; i < 10; i++) assert_int_equal(target[i], 0xEE);
    assert_memory_equal(target + 10, source + 10, sizeof source - 10);
    assert_ok(weir_copy(device, target, at, 0, NULL));
    assert_code(CUDA_SUCCESS, driver->memory_free(block));
    weir__device_leave(device);
}

static void host_memory_is_registered_once_and_unregistered_by_its_start(void **state) {
    struct weir_device *device = *state;
    char *memory = malloc(4 * GRANULE);
    assert_ok(weir_host_register(device, memory, 2 * GRANULE));
    assert_int_equal(weir_host_register(device, memory + GRANULE, 2 * GRANULE), WEIR_DRIVER);
    assert_int_equal(weir_last_error()->driver_code, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_ok(weir_host_register(device, memory + 2 * GRANULE, 2 * GRANULE));
    assert_int_equal(weir_host_unregister(device, memory + GRANULE), WEIR_DRIVER);
    assert_int_equal(weir_last_error()->driver_code, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_int_equal(weir_host_free(device, memory), WEIR_DRIVER); /* not the driver's to free */
    assert_ok(weir_host_unregister(device, memory));
    assert_ok(weir_host_unregister(device, memory + 2 * GRANULE));
    assert_int_equal(weir_host_unregister(device, memory), WEIR_DRIVER);
    free(memory);

    assert_ok(weir_host_register(device, NULL, 0)); /* of no bytes: nothing to do */
    assert_int_equal(weir_host_register(device, (void *)(uintptr_t)0x1000, GRANULE), WEIR_DRIVER); /* no such memory */
}

static void the_driver_frees_only_its_own_host_memory(void **state) {
    struct weir_device *device = *state;
    void *memory;
    assert_ok(weir_host_alloc(device, 1000, &memory));
    memset(memory, 1, 1000);
    assert_int_equal(weir_host_unregister(device, memory), WEIR_DRIVER);
    assert_int_equal(weir_host_free(device, (char *)memory + 8), WEIR_DRIVER);
    assert_ok(weir_host_free(device, memory));
    assert_int_equal(weir_host_free(device, memory), WEIR_DRIVER);
    assert_ok(weir_host_free(device, NULL));
    assert_int_equal(weir_host_alloc(device, 0, &memory), WEIR_DRIVER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(plain_memory_is_usable_at_once_and_takes_whole_granules),
        device_test(wrong_frees_and_sizes_are_errors_and_change_nothing),
        device_test(copies_and_sets_move_the_right_bytes),
        device_test(host_memory_is_registered_once_and_unregistered_by_its_start),
        device_test(the_driver_frees_only_its_own_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
