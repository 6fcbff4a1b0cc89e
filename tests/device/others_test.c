/* SPDX-License-Identifier: Apache-2.0 */
/* Another process holds memory of the device: it is not free, can't be had, and comes back when that process lets go.
 * Runs with WEIR_EMU=capacity:64M,others:16M. */
#include "tests/device/machine.h"

enum { MIB = 1 << 20 };

static size_t free_bytes(struct weir_device *device) {
    size_t left, total;
    assert_ok(weir_device_memory(device, &left, &total));
    assert_int_equal(total, 64 * MIB);
    return left;
}

static void what_another_process_holds_is_not_free(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    CUdeviceptr memory, more;
    assert_int_equal(free_bytes(device), 48 * MIB);
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, driver->memory_alloc(&memory, 49 * MIB));
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&memory, 40 * MIB));
    assert_int_equal(free_bytes(device), 8 * MIB);

    assert_code(CUDA_SUCCESS, driver->emu_others(0, 24 * MIB)); /* it takes all that is left */
    assert_int_equal(free_bytes(device), 0);
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, driver->memory_alloc(&more, MIB));
    assert_code(CUDA_SUCCESS, driver->emu_others(0, 0)); /* it ends */
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&more, 24 * MIB));
    assert_int_equal(free_bytes(device), 0);

    assert_code(CUDA_SUCCESS, driver->memory_free(memory));
    assert_code(CUDA_SUCCESS, driver->memory_free(more));
    assert_code(CUDA_SUCCESS, driver->emu_others(0, 16 * MIB));
    weir__device_leave(device);
}

static void another_process_cant_hold_what_is_not_free(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    CUdeviceptr memory;
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&memory, 40 * MIB));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->emu_others(0, 24 * MIB + 1));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->emu_others(0, SIZE_MAX));
    assert_code(CUDA_ERROR_INVALID_DEVICE, driver->emu_others(1, 0));
    assert_int_equal(free_bytes(device), 8 * MIB);
    assert_code(CUDA_SUCCESS, driver->memory_free(memory));
    weir__device_leave(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(what_another_process_holds_is_not_free),
        device_test(another_process_cant_hold_what_is_not_free),
    };
    return cmocka_run_group_tests_name("others", tests, NULL, NULL);
}
