/* SPDX-License-Identifier: Apache-2.0 */
/* Every value and layout of the driver's ABI, as one header has it. Compiled twice: with the Toolkit's cuda.h
 * (ABI_TOOLKIT) and with weir's own; the test compares the rows. abi_names.h is made from weir's headers by CMake and
 * names each of their constants, so that none can be forgotten. */
#include "tests/device/abi_rows.h"

#include <stddef.h>
#include <stdint.h>

#ifdef ABI_TOOLKIT
#define __CUDA_API_VERSION_INTERNAL /* every edition of every entry by its exported name */
#include <cuda.h>
#include <cudaProfiler.h>
#define WEIR_CUDA_ABI_H
#define WEIR_EMU_TYPES_H
#define ROWS  abi_rows_of_toolkit
#define TOTAL abi_row_count_of_toolkit
#else
#define ROWS  abi_rows_of_weir
#define TOTAL abi_row_count_of_weir
#endif
#include "device/driver.h"
#include "device/emu/variants.h"

/* The entries of the library's table, and of the emulated driver, have the types that this header declares. */
#ifdef ABI_TOOLKIT
#define SAME(member, symbol, parameters)                                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) parameters), #symbol);
#define SAME_2(symbol, parameters)            SAME(, symbol, parameters)
#define SAME_4(symbol, entry, parameters, to) SAME(, symbol, parameters)
WEIR__DRIVER_LIST(SAME)
EMU_ENTRY_LIST(SAME_2)
EMU_VARIANT_LIST(SAME_4)
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
    /* of the emulated driver alone */
    TYPE(CUuuid),
    TYPE(CUdriverProcAddressQueryResult),
    TYPE(CUdevprop),
    MEMBER(CUdevprop, maxThreadsPerBlock),
    MEMBER(CUdevprop, maxThreadsDim),
    MEMBER(CUdevprop, maxGridSize),
    MEMBER(CUdevprop, sharedMemPerBlock),
    MEMBER(CUdevprop, totalConstantMemory),
    MEMBER(CUdevprop, SIMDWidth),
    MEMBER(CUdevprop, memPitch),
    MEMBER(CUdevprop, regsPerBlock),
    MEMBER(CUdevprop, clockRate),
    MEMBER(CUdevprop, textureAlign),
    TYPE(CUdevice_P2PAttribute),
    TYPE(CUflushGPUDirectRDMAWritesTarget),
    TYPE(CUflushGPUDirectRDMAWritesScope),
    TYPE(CUlimit),
    TYPE(CUfunc_cache),
    TYPE(CUsharedconfig),
    TYPE(CUctxCreateParams),
    MEMBER(CUctxCreateParams, execAffinityParams),
    MEMBER(CUctxCreateParams, numExecAffinityParams),
    MEMBER(CUctxCreateParams, cigParams),
    TYPE(CUmemorytype),
    TYPE(CUDA_MEMCPY2D),
    MEMBER(CUDA_MEMCPY2D, srcXInBytes),
    MEMBER(CUDA_MEMCPY2D, srcY),
    MEMBER(CUDA_MEMCPY2D, srcMemoryType),
    MEMBER(CUDA_MEMCPY2D, srcHost),
    MEMBER(CUDA_MEMCPY2D, srcDevice),
    MEMBER(CUDA_MEMCPY2D, srcArray),
    MEMBER(CUDA_MEMCPY2D, srcPitch),
    MEMBER(CUDA_MEMCPY2D, dstXInBytes),
    MEMBER(CUDA_MEMCPY2D, dstY),
    MEMBER(CUDA_MEMCPY2D, dstMemoryType),
    MEMBER(CUDA_MEMCPY2D, dstHost),
    MEMBER(CUDA_MEMCPY2D, dstDevice),
    MEMBER(CUDA_MEMCPY2D, dstArray),
    MEMBER(CUDA_MEMCPY2D, dstPitch),
    MEMBER(CUDA_MEMCPY2D, WidthInBytes),
    MEMBER(CUDA_MEMCPY2D, Height),
    TYPE(CUDA_MEMCPY3D),
    MEMBER(CUDA_MEMCPY3D, srcXInBytes),
    MEMBER(CUDA_MEMCPY3D, srcY),
    MEMBER(CUDA_MEMCPY3D, srcZ),
    MEMBER(CUDA_MEMCPY3D, srcLOD),
    MEMBER(CUDA_MEMCPY3D, srcMemoryType),
    MEMBER(CUDA_MEMCPY3D, srcHost),
    MEMBER(CUDA_MEMCPY3D, srcDevice),
    MEMBER(CUDA_MEMCPY3D, srcArray),
    MEMBER(CUDA_MEMCPY3D, reserved0),
    MEMBER(CUDA_MEMCPY3D, srcPitch),
    MEMBER(CUDA_MEMCPY3D, srcHeight),
    MEMBER(CUDA_MEMCPY3D, dstXInBytes),
    MEMBER(CUDA_MEMCPY3D, dstY),
    MEMBER(CUDA_MEMCPY3D, dstZ),
    MEMBER(CUDA_MEMCPY3D, dstLOD),
    MEMBER(CUDA_MEMCPY3D, dstMemoryType),
    MEMBER(CUDA_MEMCPY3D, dstHost),
    MEMBER(CUDA_MEMCPY3D, dstDevice),
    MEMBER(CUDA_MEMCPY3D, dstArray),
    MEMBER(CUDA_MEMCPY3D, reserved1),
    MEMBER(CUDA_MEMCPY3D, dstPitch),
    MEMBER(CUDA_MEMCPY3D, dstHeight),
    MEMBER(CUDA_MEMCPY3D, WidthInBytes),
    MEMBER(CUDA_MEMCPY3D, Height),
    MEMBER(CUDA_MEMCPY3D, Depth),
    TYPE(CUDA_MEMCPY3D_PEER),
    MEMBER(CUDA_MEMCPY3D_PEER, srcXInBytes),
    MEMBER(CUDA_MEMCPY3D_PEER, srcY),
    MEMBER(CUDA_MEMCPY3D_PEER, srcZ),
    MEMBER(CUDA_MEMCPY3D_PEER, srcLOD),
    MEMBER(CUDA_MEMCPY3D_PEER, srcMemoryType),
    MEMBER(CUDA_MEMCPY3D_PEER, srcHost),
    MEMBER(CUDA_MEMCPY3D_PEER, srcDevice),
    MEMBER(CUDA_MEMCPY3D_PEER, srcArray),
    MEMBER(CUDA_MEMCPY3D_PEER, srcContext),
    MEMBER(CUDA_MEMCPY3D_PEER, srcPitch),
    MEMBER(CUDA_MEMCPY3D_PEER, srcHeight),
    MEMBER(CUDA_MEMCPY3D_PEER, dstXInBytes),
    MEMBER(CUDA_MEMCPY3D_PEER, dstY),
    MEMBER(CUDA_MEMCPY3D_PEER, dstZ),
    MEMBER(CUDA_MEMCPY3D_PEER, dstLOD),
    MEMBER(CUDA_MEMCPY3D_PEER, dstMemoryType),
    MEMBER(CUDA_MEMCPY3D_PEER, dstHost),
    MEMBER(CUDA_MEMCPY3D_PEER, dstDevice),
    MEMBER(CUDA_MEMCPY3D_PEER, dstArray),
    MEMBER(CUDA_MEMCPY3D_PEER, dstContext),
    MEMBER(CUDA_MEMCPY3D_PEER, dstPitch),
    MEMBER(CUDA_MEMCPY3D_PEER, dstHeight),
    MEMBER(CUDA_MEMCPY3D_PEER, WidthInBytes),
    MEMBER(CUDA_MEMCPY3D_PEER, Height),
    MEMBER(CUDA_MEMCPY3D_PEER, Depth),
    TYPE(CUpointer_attribute),
    TYPE(CUmemRangeHandleType),
    TYPE(CUipcMemHandle),
    TYPE(CUipcEventHandle),
    TYPE(CUmemoryPool),
    TYPE(CUmemPool_attribute),
    TYPE(CUmemPoolProps),
    MEMBER(CUmemPoolProps, allocType),
    MEMBER(CUmemPoolProps, handleTypes),
    MEMBER(CUmemPoolProps, location),
    MEMBER(CUmemPoolProps, win32SecurityAttributes),
    MEMBER(CUmemPoolProps, maxSize),
    MEMBER(CUmemPoolProps, usage),
    MEMBER(CUmemPoolProps, reserved),
    TYPE(CUmemPoolPtrExportData),
    TYPE(CUstreamCallback),
    TYPE(CUmodule),
    TYPE(CUfunction),
    TYPE(CUlibrary),
    TYPE(CUkernel),
    TYPE(CUoccupancyB2DSize),
    TYPE(CUjit_option),
    TYPE(CUlibraryOption),
    TYPE(CUmoduleLoadingMode),
    TYPE(CUfunctionLoadingState),
    TYPE(CUlinkState),
    TYPE(CUjitInputType),
    TYPE(CUmem_advise),
    TYPE(CUexecAffinityType),
    TYPE(CUgreenCtx),
    TYPE(CUfunction_attribute),
    TYPE(CUlaunchAttributeID),
    TYPE(CUlaunchAttributeValue),
    TYPE(CUlaunchAttribute),
    MEMBER(CUlaunchAttribute, id),
    MEMBER(CUlaunchAttribute, value),
    MEMBER(CUlaunchAttribute, value.cooperative),
    MEMBER(CUlaunchAttribute, value.priority),
    MEMBER(CUlaunchAttribute, value.syncPolicy),
    MEMBER(CUlaunchAttribute, value.clusterDim.x),
    MEMBER(CUlaunchAttribute, value.clusterDim.z),
    MEMBER(CUlaunchAttribute, value.programmaticEvent.event),
    MEMBER(CUlaunchAttribute, value.programmaticEvent.flags),
    MEMBER(CUlaunchAttribute, value.programmaticEvent.triggerAtBlockStart),
    MEMBER(CUlaunchAttribute, value.launchCompletionEvent.event),
    MEMBER(CUlaunchAttribute, value.launchCompletionEvent.flags),
    TYPE(CUgraph),
    TYPE(CUgraphNode),
    TYPE(CUgraphExec),
    TYPE(CUstreamCaptureStatus),
    TYPE(CUstreamCaptureMode),
    TYPE(CUstreamUpdateCaptureDependencies_flags),
    TYPE(CUevent_record_flags),
    TYPE(CUevent_wait_flags),
    TYPE(CUgraphNodeType),
    TYPE(CUgraphInstantiate_flags),
    TYPE(CUgraphInstantiateResult),
    TYPE(CUgraphEdgeData),
    MEMBER(CUgraphEdgeData, from_port),
    MEMBER(CUgraphEdgeData, to_port),
    MEMBER(CUgraphEdgeData, type),
    MEMBER(CUgraphEdgeData, reserved),
    TYPE(CUDA_GRAPH_INSTANTIATE_PARAMS),
    MEMBER(CUDA_GRAPH_INSTANTIATE_PARAMS, flags),
    MEMBER(CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream),
    MEMBER(CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out),
    MEMBER(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out),
    TYPE(CUlaunchConfig),
    MEMBER(CUlaunchConfig, gridDimX),
    MEMBER(CUlaunchConfig, gridDimY),
    MEMBER(CUlaunchConfig, gridDimZ),
    MEMBER(CUlaunchConfig, blockDimX),
    MEMBER(CUlaunchConfig, blockDimY),
    MEMBER(CUlaunchConfig, blockDimZ),
    MEMBER(CUlaunchConfig, sharedMemBytes),
    MEMBER(CUlaunchConfig, hStream),
    MEMBER(CUlaunchConfig, attrs),
    MEMBER(CUlaunchConfig, numAttrs),
};
const size_t TOTAL = sizeof ROWS / sizeof *ROWS;
