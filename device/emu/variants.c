/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/variants.h"

#include "device/emu/emu.h"

_Thread_local bool emu_default_is_own;

#define DECLARE(symbol, entry, parameters, arguments) EMU_API CUresult symbol parameters;
EMU_VARIANT_LIST(DECLARE)

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    if (config == NULL) return cuLaunchKernelEx(config, function, parameters, extra);
    CUlaunchConfig own = *config;
    own.hStream = emu_own_stream(own.hStream);
    return cuLaunchKernelEx(&own, function, parameters, extra);
}

#define PASS_ON(symbol, entry, parameters, arguments)                                                                  \
    CUresult symbol parameters { return entry arguments; }
EMU_OWN_STREAM_LIST(PASS_ON)
EMU_EDITION_LIST(PASS_ON)
EMU_CAPTURE_VARIANT_LIST(PASS_ON)

#define PASS_ON_AS_OWN(symbol, entry, parameters, arguments)                                                           \
    CUresult symbol parameters {                                                                                       \
        emu_default_is_own = true;                                                                                     \
        const CUresult code = entry arguments;                                                                         \
        emu_default_is_own = false;                                                                                    \
        return code;                                                                                                   \
    }
EMU_OWN_DEFAULT_LIST(PASS_ON_AS_OWN)
