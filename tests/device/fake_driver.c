/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in libcuda.so.1 for the test of the machine's choice: it has every entry of the table, cuInit gives what
 * FAKE_CUINIT says, and every other one is refused. */
#include <stdlib.h>

#include "device/driver.h"

#define ENTRY __attribute__((visibility("default")))

/* cuInit is the one that differs: its name is taken out of the way while the others are defined. */
#define cuInit refused_init
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define REFUSE(member, symbol, parameters)                                                                             \
    ENTRY CUresult symbol parameters;                                                                                  \
    CUresult symbol parameters { return CUDA_ERROR_UNKNOWN; }
WEIR__DRIVER_LIST(REFUSE)
#undef cuInit

ENTRY CUresult cuInit(unsigned flags);
CUresult cuInit(unsigned flags) {
    const char *asked = getenv("FAKE_CUINIT");
    return flags == 0 && asked != NULL ? (CUresult)atoi(asked) : CUDA_ERROR_INVALID_VALUE;
}
