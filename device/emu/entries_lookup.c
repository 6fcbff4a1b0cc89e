/* SPDX-License-Identifier: Apache-2.0 */
/* Entries by which programs look entries up. Allowed before cuInit, and in host functions: nothing is done to the
 * machine. */
#include <string.h>

#include "device/emu/emu.h"
#include "device/emu/names.h"
#include "device/emu/settings.h"
#include "device/error.h"

enum { KNOWN_FLAGS = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };

static CUresult find(const char *symbol, void **function, int version, uint64_t flags,
                     CUdriverProcAddressQueryResult *status) {
    int own_version;
    cuDriverGetVersion(&own_version);
    if (symbol == NULL || function == NULL || version > own_version) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & ~(uint64_t)KNOWN_FLAGS) != 0 || flags == KNOWN_FLAGS) return CUDA_ERROR_INVALID_VALUE;
    const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    bool known;
    const emu_function found = emu_names_find(symbol, per_thread ? EMU_PER_THREAD : EMU_PLAIN, version, &known);
    memcpy(function, &found, sizeof found); /* ISO C has no cast from function to object pointers */
    *status = found != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
              : known       ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    CUdriverProcAddressQueryResult result;
    const CUresult code = find(symbol, function, version, flags, status != NULL ? status : &result);
    return code;
}

/* CUDA 11.3's: tells by its result what the later one tells by the status. */
CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
    CUdriverProcAddressQueryResult status;
    const CUresult code = find(symbol, function, version, flags, &status);
    return code == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND : code;
}

/* The tables behind it are undocumented; NVIDIA's runtime, cuBLAS and NCCL can't do without them. */
CUresult cuGetExportTable(const void **table, const CUuuid *id) {
    static atomic_bool said;
    (void)id;
    if (table == NULL) return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    emu_unsupported_count();
    if (!atomic_exchange(&said, true))
        weir__log(WEIR__LOG_ERROR,
                  "emulated driver: cuGetExportTable: NVIDIA's own runtime asks for undocumented tables of "
                  "the driver, which only NVIDIA's driver has; build with -cudart shared, and let the "
                  "program find weir's libcudart.so (lib/emu) first");
    return CUDA_ERROR_NOT_SUPPORTED;
}
