/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver's entries by their exported names, those that only pass on to others too:
 * cu.cuMemcpyHtoD_v2(...). */
#ifndef WEIR_TESTS_DEVICE_API_H
#define WEIR_TESTS_DEVICE_API_H

#include "tests/device/machine.h"

#include <dlfcn.h>

#include "device/emu/variants.h"

static struct {
#define API_MEMBER(symbol, parameters)              CUresult(*symbol) parameters;
#define API_MEMBER_3(member, symbol, parameters)    API_MEMBER(symbol, parameters)
#define API_MEMBER_4(symbol, entry, parameters, to) API_MEMBER(symbol, parameters)
    WEIR__DRIVER_LIST(API_MEMBER_3)
    WEIR__EMU_LIST(API_MEMBER_3) EMU_ENTRY_LIST(API_MEMBER) EMU_VARIANT_LIST(API_MEMBER_4)
} cu;

#define assert_done(call) assert_code(CUDA_SUCCESS, call)

static inline bool load_api(void) {
    const struct weir__driver *driver;
    if (weir__driver_load("emulated", NULL, &driver) != WEIR_OK) {
        print_error("%s\n", weir_last_error()->message);
        return false;
    }
    void *library = dlopen(driver->path, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return false;
#define API_LOAD(symbol, parameters)              *(void **)(void *)&cu.symbol = dlsym(library, #symbol);
#define API_LOAD_3(member, symbol, parameters)    API_LOAD(symbol, parameters)
#define API_LOAD_4(symbol, entry, parameters, to) API_LOAD(symbol, parameters)
    WEIR__DRIVER_LIST(API_LOAD_3)
    WEIR__EMU_LIST(API_LOAD_3)
    EMU_ENTRY_LIST(API_LOAD)
    EMU_VARIANT_LIST(API_LOAD_4)
    return true;
}

/* cmocka group set-up and each test's: the device's primary context is current. */
static inline int load_driver(void **state) {
    (void)state;
    return load_api() ? 0 : -1;
}

static inline int enter_context(void **state) {
    (void)state;
    CUcontext context;
    assert_done(cu.cuDevicePrimaryCtxRetain(&context, 0));
    assert_done(cu.cuCtxPushCurrent_v2(context));
    return 0;
}

static inline int leave_context(void **state) {
    (void)state;
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

#define context_test(function) cmocka_unit_test_setup_teardown(function, enter_context, leave_context)

#endif
