/* SPDX-License-Identifier: Apache-2.0 */
/* Every name that the real runtime exports, so that any program links; refused_names.h is made of names_NN.list by
 * CMake. Those that are implemented elsewhere take the place of these, which are weak. The entries' types are not known
 * here: parameters are not looked at. */
#include "device/emu/runtime/refused.h"

#define REFUSE(name)                                                                                                   \
    __attribute__((weak, visibility("default"))) cudaError_t name(void);                                               \
    cudaError_t name(void) { return rt_refuse(#name); }

#include "refused_names.h"
