/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, the driver's entries by name, and what has no home elsewhere. */
#include "device/emu/runtime/rt.h"

#include "device/error.h"

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (version == NULL) return rt_end(cudaErrorInvalidValue);
    *version = rt_version;
    return cudaSuccess;
}

/* 0 without a driver, which is no error. */
cudaError_t cudaDriverGetVersion(int *version) {
    if (version == NULL) return rt_end(cudaErrorInvalidValue);
    *version = 0;
    const cudaError_t code = rt_begin_without_context();
    if (code == cudaErrorInsufficientDriver) return cudaSuccess;
    return rt_end(code == cudaSuccess || code == cudaErrorNoDevice ? RT_CALL(cuDriverGetVersion, (version)) : code);
}

/* ---- the driver's entries --------------------------------------------------------------------------------------- */

enum { FLAG_LEGACY = 0x1, FLAG_PER_THREAD = 0x2 };

/* An entry that is not there is told by the status, not by the result. */
static cudaError_t look_up(const char *symbol, void **function, unsigned version, unsigned long long flags,
                           enum cudaDriverEntryPointQueryResult *status) {
    const cudaError_t begun = rt_begin();
    if (begun != cudaSuccess) return rt_end(begun);
    if (symbol == NULL || symbol[0] == '\0' || function == NULL) return rt_end(cudaErrorInvalidValue);
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    *function = NULL;
    const cudaError_t code = RT_CALL(cuGetProcAddress_v2, (symbol, function, (int)version, flags, &found));
    if (status != NULL) *status = found;
    return rt_end(code == cudaErrorSymbolNotFound ? cudaSuccess : code);
}

static unsigned long long with_default(unsigned long long flags, unsigned long long usual) {
    return flags != 0 ? flags : usual;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) {
    return look_up(symbol, function, version, with_default(flags, FLAG_LEGACY), status);
}
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **function, unsigned version,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *status) {
    return look_up(symbol, function, version, with_default(flags, FLAG_PER_THREAD), status);
}
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
    return look_up(symbol, function, (unsigned)rt_version, with_default(flags, FLAG_LEGACY), status);
}
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **function, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *status) {
    return look_up(symbol, function, (unsigned)rt_version, with_default(flags, FLAG_PER_THREAD), status);
}

cudaError_t cudaGetExportTable(const void **table, const cudaUUID_t *id) {
    static _Atomic(int) said;
    (void)id;
    if (table != NULL) *table = NULL;
    if (said++ == 0)
        weir__log(WEIR__LOG_WARN,
                  "emulated runtime: cudaGetExportTable: a library of NVIDIA's asks for undocumented tables, "
                  "which only NVIDIA's runtime has; it does not run on an emulated device");
    return rt_end(cudaErrorNotSupported);
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind) {
    return (struct cudaChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = kind};
}
