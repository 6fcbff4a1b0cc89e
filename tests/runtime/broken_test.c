/* SPDX-License-Identifier: Apache-2.0 */
/* An error after which a device's context can't be used stays: every later call on that device says so again. Two
 * devices; the driver is made to fail once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <string.h>

#include "device/emu/emu_abi.h"
#include "device/emu/runtime/version.h"

#define assert_cuda(expected, call) assert_string_equal(cudaGetErrorName(expected), cudaGetErrorName(call))
#define assert_ok(call)             assert_cuda(cudaSuccess, call)

static void fail_next_wait(const char *code) {
    CUresult (*fault)(const char *, char *, size_t);
    char text[128] = "cuCtxSynchronize@1=", message[200] = "";
    void *entry = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "weirEmuFault");
    assert_non_null(entry);
    memcpy(&fault, &entry, sizeof entry);
    assert_int_equal(fault(strcat(text, code), message, sizeof message), CUDA_SUCCESS);
}

static void an_error_of_the_device_stays_with_it(void **state) {
    (void)state;
    void *memory;
    assert_ok(cudaSetDevice(0));
    fail_next_wait("CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_cuda(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    assert_cuda(cudaErrorIllegalAddress, cudaMalloc(&memory, 64));
    assert_cuda(cudaErrorIllegalAddress, cudaDeviceSynchronize()); /* the driver itself would do it again */
    assert_cuda(cudaErrorIllegalAddress, cudaGetLastError());
    assert_cuda(cudaErrorIllegalAddress, cudaGetLastError());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_error_of_the_device_stays_with_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
