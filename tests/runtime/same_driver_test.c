/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the CUDA runtime and weir in the same process are on one device, whoever came first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/driver.h"
#include "device/emu/runtime/version.h"

static void weir_finds_the_driver_that_the_runtime_has_loaded(void **state) {
    (void)state;
    static const char *const machines[] = {"cuda", "emulated", "auto"};
    void *memory;
    assert_int_equal(cudaMalloc(&memory, 1 << 20), cudaSuccess);
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const struct weir__driver *driver;
        size_t here, there, total;
        assert_int_equal(weir__driver_load(machines[i], NULL, &driver), WEIR_OK);
        assert_true(driver->emulated);
        assert_int_equal(driver->memory_info(&there, &total), CUDA_SUCCESS); /* in the runtime's context */
        assert_int_equal(cudaMemGetInfo(&here, &total), cudaSuccess);
        assert_int_equal(there, here);
        assert_true(here < total);
        assert_int_equal(driver->memory_free((CUdeviceptr)(uintptr_t)memory), CUDA_SUCCESS);
        assert_int_equal(cudaMalloc(&memory, 1 << 20), cudaSuccess);
    }
    assert_int_equal(cudaFree(memory), cudaSuccess);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weir_finds_the_driver_that_the_runtime_has_loaded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
