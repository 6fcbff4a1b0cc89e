/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/variants.h"

#include "device/emu/emu.h"

#define PASS_ON(symbol, entry, parameters, arguments)                                                                  \
    EMU_API CUresult symbol parameters;                                                                                \
    CUresult symbol parameters { return entry arguments; }
EMU_VARIANT_LIST(PASS_ON)
