/* SPDX-License-Identifier: Apache-2.0 */
/* Every value and layout of the runtime's ABI, as one header has it. Compiled twice: with the Toolkit's headers
 * (ABI_TOOLKIT) and with weir's own; the test compares the rows. cudart_names.h is made from weir's headers by CMake and
 * names each of their constants, so that none can be forgotten. */
#include "tests/runtime/abi_rows.h"

#include <stdint.h>

#ifdef ABI_TOOLKIT
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cuda_profiler_api.h> /* behind the runtime's, whose version counts */
#define WEIR_EMU_CUDART_ABI_H
#define ROWS  abi_rows_of_toolkit
#define TOTAL abi_row_count_of_toolkit
#if CUDART_VERSION < 13000
#define rt_device_prop_12 cudaDeviceProp
#endif
#else
#define ROWS  abi_rows_of_weir
#define TOTAL abi_row_count_of_weir
#endif
#include "device/emu/runtime/driver_calls.h"
#include "device/emu/runtime/entries.h"
#include "device/emu/runtime/properties.h"
#if !defined(ABI_TOOLKIT) && RT_MAJOR == 12
#define cudaDeviceProp rt_device_prop_12
#endif

#ifdef ABI_TOOLKIT
/* The entries have the types that the Toolkit declares. */
#define SAME(name, types) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), cudaError_t(*) types), #name);
RT_COMMON_LIST(SAME)
#if CUDART_VERSION >= 13000
RT_13_LIST(SAME)
#endif

/* What goes to the driver has the driver's layout. */
#define SAME_SIZE(own, other) _Static_assert(sizeof(own) == sizeof(other), #other);
#define SAME_PLACE(own, member, other, other_member)                                                                   \
    _Static_assert(offsetof(own, member) == offsetof(other, other_member), #other "." #other_member);
#define SAME_VALUE(own, other) _Static_assert((long long)(own) == (long long)(other), #other);
SAME_SIZE(struct rt_copy_2d, CUDA_MEMCPY2D)
SAME_PLACE(struct rt_copy_2d, from.type, CUDA_MEMCPY2D, srcMemoryType)
SAME_PLACE(struct rt_copy_2d, from.device, CUDA_MEMCPY2D, srcDevice)
SAME_PLACE(struct rt_copy_2d, from.pitch, CUDA_MEMCPY2D, srcPitch)
SAME_PLACE(struct rt_copy_2d, to.type, CUDA_MEMCPY2D, dstMemoryType)
SAME_PLACE(struct rt_copy_2d, to.device, CUDA_MEMCPY2D, dstDevice)
SAME_PLACE(struct rt_copy_2d, to.pitch, CUDA_MEMCPY2D, dstPitch)
SAME_PLACE(struct rt_copy_2d, width_bytes, CUDA_MEMCPY2D, WidthInBytes)
SAME_PLACE(struct rt_copy_2d, height, CUDA_MEMCPY2D, Height)
SAME_SIZE(struct rt_copy_3d, CUDA_MEMCPY3D)
SAME_PLACE(struct rt_copy_3d, from.type, CUDA_MEMCPY3D, srcMemoryType)
SAME_PLACE(struct rt_copy_3d, from.device, CUDA_MEMCPY3D, srcDevice)
SAME_PLACE(struct rt_copy_3d, from.pitch, CUDA_MEMCPY3D, srcPitch)
SAME_PLACE(struct rt_copy_3d, from.height, CUDA_MEMCPY3D, srcHeight)
SAME_PLACE(struct rt_copy_3d, to.type, CUDA_MEMCPY3D, dstMemoryType)
SAME_PLACE(struct rt_copy_3d, to.device, CUDA_MEMCPY3D, dstDevice)
SAME_PLACE(struct rt_copy_3d, to.pitch, CUDA_MEMCPY3D, dstPitch)
SAME_PLACE(struct rt_copy_3d, to.height, CUDA_MEMCPY3D, dstHeight)
SAME_PLACE(struct rt_copy_3d, width_bytes, CUDA_MEMCPY3D, WidthInBytes)
SAME_PLACE(struct rt_copy_3d, depth, CUDA_MEMCPY3D, Depth)
SAME_SIZE(struct rt_launch_config, CUlaunchConfig)
SAME_PLACE(struct rt_launch_config, block, CUlaunchConfig, blockDimX)
SAME_PLACE(struct rt_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes)
SAME_PLACE(struct rt_launch_config, stream, CUlaunchConfig, hStream)
SAME_PLACE(struct rt_launch_config, attributes, CUlaunchConfig, attrs)
SAME_PLACE(struct rt_launch_config, attribute_count, CUlaunchConfig, numAttrs)
SAME_SIZE(struct rt_kernel_node, CUDA_KERNEL_NODE_PARAMS)
SAME_PLACE(struct rt_kernel_node, block, CUDA_KERNEL_NODE_PARAMS, blockDimX)
SAME_PLACE(struct rt_kernel_node, arguments, CUDA_KERNEL_NODE_PARAMS, kernelParams)
SAME_PLACE(struct rt_kernel_node, kernel, CUDA_KERNEL_NODE_PARAMS, kern)
SAME_SIZE(struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS)
SAME_PLACE(struct cudaMemsetParams, height, CUDA_MEMSET_NODE_PARAMS, height)
SAME_SIZE(struct cudaMemPoolProps, CUmemPoolProps)
SAME_SIZE(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS)
SAME_SIZE(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo)
SAME_SIZE(struct cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS)
SAME_SIZE(struct cudaGraphNodeParams, CUgraphNodeParams)
SAME_VALUE(RT_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
SAME_VALUE(RT_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
SAME_VALUE(RT_POINTER_HOST, CU_POINTER_ATTRIBUTE_HOST_POINTER)
SAME_VALUE(RT_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED)
SAME_VALUE(RT_POINTER_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
SAME_VALUE(RT_MEMORY_HOST, CU_MEMORYTYPE_HOST)
SAME_VALUE(RT_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE)
SAME_VALUE(RT_MEMORY_UNIFIED, CU_MEMORYTYPE_UNIFIED)
SAME_VALUE(cudaErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS)
SAME_VALUE(cudaErrorStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
SAME_VALUE(cudaFuncAttributeRequiredClusterDepth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)
#endif

#define VALUE(name)                                                                                                    \
    { #name, (long long)(intptr_t)(name) }
#define TYPE(type)                                                                                                     \
    {"sizeof " #type, (long long)sizeof(type)}, { "alignment of " #type, (long long)_Alignof(type) }
#define MEMBER(type, member)                                                                                           \
    {"offset of " #type "." #member, (long long)offsetof(type, member)}, {                                             \
        "size of " #type "." #member, (long long)sizeof((type *)0)->member                                             \
    }
#define PROPERTY(member, attribute) MEMBER(struct cudaDeviceProp, member),

const struct abi_row ROWS[] = {
#include "cudart_names.h"
    TYPE(cudaError_t),
    TYPE(cudaStream_t),
    TYPE(cudaEvent_t),
    TYPE(cudaGraph_t),
    TYPE(cudaGraphNode_t),
    TYPE(cudaGraphExec_t),
    TYPE(cudaFunction_t),
    TYPE(cudaKernel_t),
    TYPE(cudaLibrary_t),
    TYPE(cudaMemPool_t),
    TYPE(cudaUserObject_t),
    TYPE(cudaGraphConditionalHandle),
    TYPE(cudaHostFn_t),
    TYPE(cudaStreamCallback_t),
    TYPE(cudaLaunchAttributeID),
    TYPE(enum cudaMemoryType),
    TYPE(enum cudaMemcpyKind),
    TYPE(enum cudaLimit),
    TYPE(enum cudaFuncCache),
    TYPE(enum cudaSharedMemConfig),
    TYPE(enum cudaDeviceAttr),
    TYPE(enum cudaDeviceP2PAttr),
    TYPE(enum cudaMemoryAdvise),
    TYPE(enum cudaMemRangeAttribute),
    TYPE(enum cudaMemPoolAttr),
    TYPE(enum cudaMemLocationType),
    TYPE(enum cudaMemAccessFlags),
    TYPE(enum cudaMemAllocationType),
    TYPE(enum cudaMemAllocationHandleType),
    TYPE(enum cudaStreamCaptureStatus),
    TYPE(enum cudaStreamCaptureMode),
    TYPE(enum cudaFuncAttribute),
    TYPE(enum cudaGraphNodeType),
    TYPE(enum cudaGraphMemAttributeType),
    TYPE(enum cudaDriverEntryPointQueryResult),
    TYPE(enum cudaChannelFormatKind),
    TYPE(enum cudaJitOption),
    TYPE(enum cudaLibraryOption),
    TYPE(dim3),
    MEMBER(dim3, x),
    MEMBER(dim3, y),
    MEMBER(dim3, z),
    TYPE(uint3),
    MEMBER(uint3, x),
    MEMBER(uint3, y),
    MEMBER(uint3, z),
    TYPE(cudaUUID_t),
    MEMBER(cudaUUID_t, bytes),
    TYPE(struct cudaChannelFormatDesc),
    MEMBER(struct cudaChannelFormatDesc, x),
    MEMBER(struct cudaChannelFormatDesc, y),
    MEMBER(struct cudaChannelFormatDesc, z),
    MEMBER(struct cudaChannelFormatDesc, w),
    MEMBER(struct cudaChannelFormatDesc, f),
    TYPE(struct cudaPitchedPtr),
    MEMBER(struct cudaPitchedPtr, ptr),
    MEMBER(struct cudaPitchedPtr, pitch),
    MEMBER(struct cudaPitchedPtr, xsize),
    MEMBER(struct cudaPitchedPtr, ysize),
    TYPE(struct cudaExtent),
    MEMBER(struct cudaExtent, width),
    MEMBER(struct cudaExtent, height),
    MEMBER(struct cudaExtent, depth),
    TYPE(struct cudaPos),
    MEMBER(struct cudaPos, x),
    MEMBER(struct cudaPos, y),
    MEMBER(struct cudaPos, z),
    TYPE(struct cudaMemcpy3DParms),
    MEMBER(struct cudaMemcpy3DParms, srcArray),
    MEMBER(struct cudaMemcpy3DParms, srcPos),
    MEMBER(struct cudaMemcpy3DParms, srcPtr),
    MEMBER(struct cudaMemcpy3DParms, dstArray),
    MEMBER(struct cudaMemcpy3DParms, dstPos),
    MEMBER(struct cudaMemcpy3DParms, dstPtr),
    MEMBER(struct cudaMemcpy3DParms, extent),
    MEMBER(struct cudaMemcpy3DParms, kind),
    TYPE(struct cudaMemcpy3DPeerParms),
    MEMBER(struct cudaMemcpy3DPeerParms, srcArray),
    MEMBER(struct cudaMemcpy3DPeerParms, srcPos),
    MEMBER(struct cudaMemcpy3DPeerParms, srcPtr),
    MEMBER(struct cudaMemcpy3DPeerParms, srcDevice),
    MEMBER(struct cudaMemcpy3DPeerParms, dstArray),
    MEMBER(struct cudaMemcpy3DPeerParms, dstPos),
    MEMBER(struct cudaMemcpy3DPeerParms, dstPtr),
    MEMBER(struct cudaMemcpy3DPeerParms, dstDevice),
    MEMBER(struct cudaMemcpy3DPeerParms, extent),
    TYPE(struct cudaPointerAttributes),
    MEMBER(struct cudaPointerAttributes, type),
    MEMBER(struct cudaPointerAttributes, device),
    MEMBER(struct cudaPointerAttributes, devicePointer),
    MEMBER(struct cudaPointerAttributes, hostPointer),
    TYPE(struct cudaFuncAttributes),
    MEMBER(struct cudaFuncAttributes, sharedSizeBytes),
    MEMBER(struct cudaFuncAttributes, constSizeBytes),
    MEMBER(struct cudaFuncAttributes, localSizeBytes),
    MEMBER(struct cudaFuncAttributes, maxThreadsPerBlock),
    MEMBER(struct cudaFuncAttributes, numRegs),
    MEMBER(struct cudaFuncAttributes, ptxVersion),
    MEMBER(struct cudaFuncAttributes, binaryVersion),
    MEMBER(struct cudaFuncAttributes, cacheModeCA),
    MEMBER(struct cudaFuncAttributes, maxDynamicSharedSizeBytes),
    MEMBER(struct cudaFuncAttributes, preferredShmemCarveout),
    MEMBER(struct cudaFuncAttributes, clusterDimMustBeSet),
    MEMBER(struct cudaFuncAttributes, requiredClusterWidth),
    MEMBER(struct cudaFuncAttributes, requiredClusterHeight),
    MEMBER(struct cudaFuncAttributes, requiredClusterDepth),
    MEMBER(struct cudaFuncAttributes, clusterSchedulingPolicyPreference),
    MEMBER(struct cudaFuncAttributes, nonPortableClusterSizeAllowed),
    MEMBER(struct cudaFuncAttributes, reserved),
    TYPE(struct cudaMemLocation),
    MEMBER(struct cudaMemLocation, type),
    MEMBER(struct cudaMemLocation, id),
    TYPE(struct cudaMemAccessDesc),
    MEMBER(struct cudaMemAccessDesc, location),
    MEMBER(struct cudaMemAccessDesc, flags),
    TYPE(struct cudaMemPoolProps),
    MEMBER(struct cudaMemPoolProps, allocType),
    MEMBER(struct cudaMemPoolProps, handleTypes),
    MEMBER(struct cudaMemPoolProps, location),
    MEMBER(struct cudaMemPoolProps, win32SecurityAttributes),
    MEMBER(struct cudaMemPoolProps, maxSize),
    MEMBER(struct cudaMemPoolProps, usage),
    MEMBER(struct cudaMemPoolProps, reserved),
    TYPE(cudaIpcEventHandle_t),
    MEMBER(cudaIpcEventHandle_t, reserved),
    TYPE(cudaIpcMemHandle_t),
    MEMBER(cudaIpcMemHandle_t, reserved),
    TYPE(cudaLaunchAttributeValue),
    MEMBER(cudaLaunchAttributeValue, pad),
    MEMBER(cudaLaunchAttributeValue, cooperative),
    MEMBER(cudaLaunchAttributeValue, priority),
    TYPE(cudaLaunchAttribute),
    MEMBER(cudaLaunchAttribute, id),
    MEMBER(cudaLaunchAttribute, pad),
    MEMBER(cudaLaunchAttribute, val),
    TYPE(cudaLaunchConfig_t),
    MEMBER(cudaLaunchConfig_t, gridDim),
    MEMBER(cudaLaunchConfig_t, blockDim),
    MEMBER(cudaLaunchConfig_t, dynamicSmemBytes),
    MEMBER(cudaLaunchConfig_t, stream),
    MEMBER(cudaLaunchConfig_t, attrs),
    MEMBER(cudaLaunchConfig_t, numAttrs),
    TYPE(cudaGraphEdgeData),
    MEMBER(cudaGraphEdgeData, from_port),
    MEMBER(cudaGraphEdgeData, to_port),
    MEMBER(cudaGraphEdgeData, type),
    MEMBER(cudaGraphEdgeData, reserved),
    TYPE(struct cudaKernelNodeParams),
    MEMBER(struct cudaKernelNodeParams, func),
    MEMBER(struct cudaKernelNodeParams, gridDim),
    MEMBER(struct cudaKernelNodeParams, blockDim),
    MEMBER(struct cudaKernelNodeParams, sharedMemBytes),
    MEMBER(struct cudaKernelNodeParams, kernelParams),
    MEMBER(struct cudaKernelNodeParams, extra),
    TYPE(struct cudaMemsetParams),
    MEMBER(struct cudaMemsetParams, dst),
    MEMBER(struct cudaMemsetParams, pitch),
    MEMBER(struct cudaMemsetParams, value),
    MEMBER(struct cudaMemsetParams, elementSize),
    MEMBER(struct cudaMemsetParams, width),
    MEMBER(struct cudaMemsetParams, height),
    TYPE(struct cudaHostNodeParams),
    MEMBER(struct cudaHostNodeParams, fn),
    MEMBER(struct cudaHostNodeParams, userData),
    TYPE(struct cudaDeviceProp),
    MEMBER(struct cudaDeviceProp, name),
    MEMBER(struct cudaDeviceProp, uuid),
    MEMBER(struct cudaDeviceProp, totalGlobalMem),
    MEMBER(struct cudaDeviceProp, reserved),
    RT_PROPERTY_LIST(PROPERTY) RT_PROPERTY_OWN_LIST(PROPERTY)};
const size_t TOTAL = sizeof ROWS / sizeof *ROWS;
