/* SPDX-License-Identifier: Apache-2.0 */
/* On memory that is addresses only nothing is promised that the host could not touch: managed memory is refused, and
 * managed variables lie elsewhere. Runs with WEIR_EMU=memory:unbacked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/emu/runtime/version.h"

#define assert_cuda(expected, call) assert_string_equal(cudaGetErrorName(expected), cudaGetErrorName(call))

static void managed_memory_is_refused_and_the_device_says_so(void **state) {
    (void)state;
    void *memory = NULL;
    int has = -1;
    assert_cuda(cudaErrorNotSupported, cudaMallocManaged(&memory, 64, cudaMemAttachGlobal));
    assert_cuda(cudaErrorNotSupported, cudaGetLastError());
    assert_null(memory);
    assert_cuda(cudaSuccess, cudaDeviceGetAttribute(&has, (enum cudaDeviceAttr)83 /* cudaDevAttrManagedMemory */, 0));
    assert_int_equal(has, 0);
}

static void managed_variables_are_the_hosts_all_the_same(void **state) {
    (void)state;
    static char image[16];
    int *managed = NULL, back = -1;
    void **module = __cudaRegisterFatBinary(image), *address = NULL;
    __cudaRegisterManagedVar(module, (void **)&managed, NULL, "managed", 0, sizeof *managed, 0, 0);
    __cudaRegisterFatBinaryEnd(module);
    assert_int_equal(__cudaInitModule(module), 1);
    assert_non_null(managed);
    assert_int_equal(*managed, 0);
    *managed = 4;
    /* Copies move nothing here, and are valid. */
    assert_cuda(cudaSuccess, cudaMemcpyFromSymbol(&back, managed, sizeof back, 0, cudaMemcpyDefault));
    assert_int_equal(*managed, 4);
    assert_cuda(cudaSuccess, cudaGetSymbolAddress(&address, managed));
    assert_ptr_equal(address, managed);
    __cudaUnregisterFatBinary(module);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(managed_memory_is_refused_and_the_device_says_so),
        cmocka_unit_test(managed_variables_are_the_hosts_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
