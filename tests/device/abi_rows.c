/* SPDX-License-Identifier: Apache-2.0 */
/* Every value and layout of the driver's ABI, as one header has it. Compiled twice: with the Toolkit's cuda.h
 * (ABI_TOOLKIT) and with weir's own; the test compares the rows. abi_names.h is made from weir's header by CMake and
 * names each of its constants, so that none can be forgotten. */
#include "tests/device/abi_rows.h"

#include <stddef.h>
#include <stdint.h>

#ifdef ABI_TOOLKIT
#include <cuda.h>
#define WEIR_CUDA_ABI_H
#define ROWS  abi_rows_of_toolkit
#define TOTAL abi_row_count_of_toolkit
#else
#define ROWS  abi_rows_of_weir
#define TOTAL abi_row_count_of_weir
#endif
#include "device/driver.h"

/* The table's entries have the types that this header declares. cuda.h gives some a newer version's name; the types are
 * those of the version in the table. */
#ifdef ABI_TOOLKIT
#define SAME(member, symbol, parameters)                                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) parameters), #symbol);
WEIR__DRIVER_LIST(SAME)
#endif

#define VALUE(name)                                                                                                    \
    { #name, (long long)(intptr_t)(name) }
#define SIZE(type)                                                                                                     \
    { "sizeof " #type, (long long)sizeof(type) }
#define ALIGNMENT(type)                                                                                                \
    { "alignment of " #type, (long long)_Alignof(type) }
#define OFFSET(type, member)                                                                                           \
    { "offset of " #type "." #member, (long long)offsetof(type, member) }
#define WIDTH(type, member)                                                                                            \
    { "size of " #type "." #member, (long long)sizeof((type *)0)->member }
#define SIGNED(type)                                                                                                   \
    { "sign of " #type, (type)-1 > (type)1 ? 0 : 1 }
#define TYPE(type)           SIZE(type), ALIGNMENT(type)
#define MEMBER(type, member) OFFSET(type, member), WIDTH(type, member)

const struct abi_row ROWS[] = {
#include "abi_names.h"
    TYPE(CUdeviceptr),
    SIGNED(CUdeviceptr),
    TYPE(CUdevice),
    SIGNED(CUdevice),
    TYPE(CUcontext),
    TYPE(CUstream),
    TYPE(CUevent),
    TYPE(CUmemGenericAllocationHandle),
    SIGNED(CUmemGenericAllocationHandle),
    TYPE(CUhostFn),
    TYPE(CUresult),
    TYPE(CUdevice_attribute),
    TYPE(CUstream_flags),
    TYPE(CUevent_flags),
    TYPE(CUmemLocationType),
    TYPE(CUmemAllocationType),
    TYPE(CUmemAllocationHandleType),
    TYPE(CUmemAccess_flags),
    TYPE(CUmemAllocationGranularity_flags),
    TYPE(CUmemLocation),
    MEMBER(CUmemLocation, type),
    MEMBER(CUmemLocation, id),
    TYPE(CUmemAllocationProp),
    MEMBER(CUmemAllocationProp, type),
    MEMBER(CUmemAllocationProp, requestedHandleTypes),
    MEMBER(CUmemAllocationProp, location),
    MEMBER(CUmemAllocationProp, win32HandleMetaData),
    MEMBER(CUmemAllocationProp, allocFlags),
    MEMBER(CUmemAllocationProp, allocFlags.compressionType),
    MEMBER(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable),
    MEMBER(CUmemAllocationProp, allocFlags.usage),
    MEMBER(CUmemAllocationProp, allocFlags.reserved),
    TYPE(CUmemAccessDesc),
    MEMBER(CUmemAccessDesc, location),
    MEMBER(CUmemAccessDesc, flags),
};
const size_t TOTAL = sizeof ROWS / sizeof *ROWS;
