/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver's entries by their own names, for tests that stand where programs do. */
#ifndef WEIR_TESTS_DEVICE_ENTRIES_H
#define WEIR_TESTS_DEVICE_ENTRIES_H

#include "tests/device/machine.h"

#include <dlfcn.h>

#include "device/emu/entries.h"

/* The entries: cu.cuGraphLaunch(...). */
static struct {
#define MEMBER(symbol, parameters)           CUresult(*symbol) parameters;
#define MEMBER_3(member, symbol, parameters) MEMBER(symbol, parameters)
    WEIR__DRIVER_LIST(MEMBER_3) WEIR__EMU_LIST(MEMBER_3) EMU_ENTRY_LIST(MEMBER)
} cu;

static const struct weir__driver *driver;

#define assert_done(call) assert_code(CUDA_SUCCESS, call)

static int load_entries(void **state) {
    (void)state;
    if (weir__driver_load("emulated", NULL, &driver) != WEIR_OK) {
        print_error("%s\n", weir_last_error()->message);
        return -1;
    }
    void *library = dlopen(driver->path, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return -1;
#define LOAD(symbol, parameters)           *(void **)(void *)&cu.symbol = dlsym(library, #symbol);
#define LOAD_3(member, symbol, parameters) LOAD(symbol, parameters)
    WEIR__DRIVER_LIST(LOAD_3)
    WEIR__EMU_LIST(LOAD_3)
    EMU_ENTRY_LIST(LOAD)
    return 0;
}

#endif
