/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that never refuses: what goes beyond the capacity succeeds, works, and leaves nothing free.
 * Runs with WEIR_EMU=capacity:8M,refuse:never. */
#include "tests/device/machine.h"

enum { MIB = 1 << 20 };

static void memory_beyond_the_capacity_is_had_and_works(void **state) {
    struct weir_device *device = *state;
    const struct weir__driver *driver = enter(device);
    CUdeviceptr memory[4];
    size_t left, total;
    for (int i = 0; i < 4; i++) {
        assert_code(CUDA_SUCCESS, driver->memory_alloc(&memory[i], 6 * MIB));
        assert_code(CUDA_SUCCESS, driver->set_bytes(memory[i], (unsigned char)(i + 1), 6 * MIB, NULL));
    }
    assert_ok(weir_device_memory(device, &left, &total));
    assert_int_equal(total, 8 * MIB);
    assert_int_equal(left, 0);
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->emu_others(0, MIB)); /* nothing is left for another process */
    for (int i = 0; i < 4; i++) {
        unsigned char byte = 0;
        assert_ok(weir_copy(device, &byte, (void *)(uintptr_t)(memory[i] + 6 * MIB - 1), 1, NULL));
        assert_int_equal(byte, i + 1);
        assert_code(CUDA_SUCCESS, driver->memory_free(memory[i]));
    }
    assert_ok(weir_device_memory(device, &left, &total));
    assert_int_equal(left, 8 * MIB);
    weir__device_leave(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {device_test(memory_beyond_the_capacity_is_had_and_works)};
    return cmocka_run_group_tests_name("never_refuses", tests, NULL, NULL);
}
