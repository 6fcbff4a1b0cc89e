/* SPDX-License-Identifier: Apache-2.0 */
/* Beside a driver that is not the emulated one the runtime refuses to work, since kernels would silently do nothing on a
 * real device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dlfcn.h>

#include "device/emu/runtime/version.h"

static void a_real_driver_is_refused(void **state) {
    (void)state;
    char path[4096];
    int count = -1;
    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv("FAKE_DRIVER"));
    assert_non_null(dlopen(path, RTLD_NOW)); /* a stand-in for one, loaded already */
    assert_int_equal(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    assert_int_equal(count, 0);
    assert_int_equal(cudaGetLastError(), cudaErrorInsufficientDriver);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_real_driver_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
