/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the CUDA driver's binary interface that weir uses: types, values and layouts as in CUDA 13's cuda.h, so
 * that weir builds without the CUDA Toolkit. Where the Toolkit is found, a test compares every value and layout here
 * with its cuda.h. Where cuda.h has been included before, it stands aside. */
#if !defined(WEIR_CUDA_ABI_H) && !defined(__cuda_cuda_h__)
#define WEIR_CUDA_ABI_H

#include <stddef.h>

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef void (*CUhostFn)(void *argument);

/* X(name, value, text): every result of CUDA 13. */
#define WEIR__CUDA_RESULT_LIST(X)                                                                                      \
    X(CUDA_SUCCESS, 0, "no error")                                                                                     \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                                    \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "the driver has not been initialised")                                            \
    X(CUDA_ERROR_DEINITIALIZED, 4, "the driver is shutting down")                                                      \
    X(CUDA_ERROR_PROFILER_DISABLED, 5, "the profiler is not in use")                                                   \
    X(CUDA_ERROR_PROFILER_NOT_INITIALIZED, 6, "the profiler was not initialised")                                      \
    X(CUDA_ERROR_PROFILER_ALREADY_STARTED, 7, "the profiler runs already")                                             \
    X(CUDA_ERROR_PROFILER_ALREADY_STOPPED, 8, "the profiler does not run")                                             \
    X(CUDA_ERROR_STUB_LIBRARY, 34, "the library is a stub for linking, not a driver")                                  \
    X(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, 36, "the call needs a newer driver")                                      \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "the device is busy or unavailable")                                          \
    X(CUDA_ERROR_NO_DEVICE, 100, "no device is found")                                                                 \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                        \
    X(CUDA_ERROR_DEVICE_NOT_LICENSED, 102, "the device has no licence for this")                                       \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "the kernel image is invalid")                                                    \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid context, or none is current")                                          \
    X(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, 202, "the context is current already")                                       \
    X(CUDA_ERROR_MAP_FAILED, 205, "mapping failed")                                                                    \
    X(CUDA_ERROR_UNMAP_FAILED, 206, "unmapping failed")                                                                \
    X(CUDA_ERROR_ARRAY_IS_MAPPED, 207, "the array is mapped")                                                          \
    X(CUDA_ERROR_ALREADY_MAPPED, 208, "the resource is mapped already")                                                \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is for this device")                                         \
    X(CUDA_ERROR_ALREADY_ACQUIRED, 210, "the resource is acquired already")                                            \
    X(CUDA_ERROR_NOT_MAPPED, 211, "the resource is not mapped")                                                        \
    X(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, 212, "the resource is not mapped as an array")                                   \
    X(CUDA_ERROR_NOT_MAPPED_AS_POINTER, 213, "the resource is not mapped as a pointer")                                \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "an uncorrectable memory error")                                              \
    X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, "the device has no such limit")                                               \
    X(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, 216, "the context is in use by another thread")                               \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, "no peer access between these devices")                                 \
    X(CUDA_ERROR_INVALID_PTX, 218, "the PTX is invalid")                                                               \
    X(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, 219, "the graphics context is invalid")                                     \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220, "an uncorrectable NVLink error")                                           \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "the PTX compiler is not found")                                         \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "the PTX is of an unsupported version")                                 \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223, "PTX compilation is switched off")                                     \
    X(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, 224, "the device has no such execution affinity")                          \
    X(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, 225, "the code waits on the device, which is not supported")                \
    X(CUDA_ERROR_CONTAINED, 226, "an error that was contained")                                                        \
    X(CUDA_ERROR_INVALID_SOURCE, 300, "invalid kernel source")                                                         \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                                                                \
    X(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, "a symbol of a shared object is not found")                      \
    X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303, "a shared object failed to start")                                    \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, "a call to the operating system failed")                                       \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid handle")                                                                \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "an object is not in the state that the call needs")                              \
    X(CUDA_ERROR_LOSSY_QUERY, 402, "the answer would lose information")                                                \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                                             \
    X(CUDA_ERROR_NOT_READY, 600, "work has not completed yet")                                                         \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "access to an illegal address")                                                 \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources asked for the launch")                              \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the work does not end")                                                         \
    X(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, 703, "incompatible texturing mode")                                    \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is enabled already")                                   \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access is not enabled")                                           \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "the primary context is active already")                                 \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "the context is destroyed")                                                \
    X(CUDA_ERROR_ASSERT, 710, "an assertion failed on the device")                                                     \
    X(CUDA_ERROR_TOO_MANY_PEERS, 711, "too many peers")                                                                \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "the host memory is registered already")                         \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "the host memory is not registered")                                 \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, "a stack error on the device")                                             \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction")                                                   \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "a misaligned address")                                                      \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, "an instruction for another address space")                               \
    X(CUDA_ERROR_INVALID_PC, 718, "an invalid program counter")                                                        \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "a launch failed")                                                                \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "the cooperative launch has too many blocks")                      \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721, "tensor memory was not given back")                                          \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "not permitted here")                                                             \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "not supported")                                                                  \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802, "the system is not ready")                                                     \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, "driver library and kernel driver do not match")                         \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804, "forward compatibility is not supported on this device")         \
    X(CUDA_ERROR_MPS_CONNECTION_FAILED, 805, "no connection to the MPS server")                                        \
    X(CUDA_ERROR_MPS_RPC_FAILURE, 806, "the call to the MPS server failed")                                            \
    X(CUDA_ERROR_MPS_SERVER_NOT_READY, 807, "the MPS server is not ready")                                             \
    X(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, 808, "the MPS server has no room for a client")                              \
    X(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, 809, "the MPS server has no room for a connection")                      \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810, "the MPS client was ended")                                               \
    X(CUDA_ERROR_CDP_NOT_SUPPORTED, 811, "launches by kernels are not supported")                                      \
    X(CUDA_ERROR_CDP_VERSION_MISMATCH, 812, "versions of launches by kernels do not match")                            \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "not permitted while the stream is capturing")                       \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "the capture was made invalid by an earlier error")                  \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "two captures would merge")                                                \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "the capture was not begun on this stream")                            \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "a forked stream was not joined to the capture")                        \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "a dependency across the border of the capture")                       \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906, "an implicit dependency on the legacy stream, in capture")              \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, "the event was last recorded in a capture")                                      \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "the capture was begun by another thread")                          \
    X(CUDA_ERROR_TIMEOUT, 909, "the wait took too long")                                                               \
    X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910, "the executable graph can not be updated so")                         \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911, "a device outside of CUDA failed")                                              \
    X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912, "invalid cluster size")                                                    \
    X(CUDA_ERROR_FUNCTION_NOT_LOADED, 913, "the function is not loaded")                                               \
    X(CUDA_ERROR_INVALID_RESOURCE_TYPE, 914, "invalid resource type")                                                  \
    X(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, 915, "invalid resource configuration")                                \
    X(CUDA_ERROR_KEY_ROTATION, 916, "a key rotation is under way")                                                     \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

typedef enum cudaError_enum {
#define WEIR__CUDA_RESULT_ENUM(name, value, text) name = (value),
    WEIR__CUDA_RESULT_LIST(WEIR__CUDA_RESULT_ENUM)
#undef WEIR__CUDA_RESULT_ENUM
} CUresult;

typedef enum CUdevice_attribute_enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134,
} CUdevice_attribute;

typedef enum CUstream_flags_enum {
    CU_STREAM_DEFAULT = 0x0,
    CU_STREAM_NON_BLOCKING = 0x1, /* no implicit order with the legacy default stream */
} CUstream_flags;

#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef enum CUstreamCaptureStatus_enum {
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
} CUstreamCaptureStatus;

typedef enum CUstreamCaptureMode_enum {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum CUevent_flags_enum {
    CU_EVENT_DEFAULT = 0x0,
    CU_EVENT_BLOCKING_SYNC = 0x1,
    CU_EVENT_DISABLE_TIMING = 0x2,
    CU_EVENT_INTERPROCESS = 0x4,
} CUevent_flags;

#define CU_MEMHOSTALLOC_PORTABLE      0x01
#define CU_MEMHOSTALLOC_DEVICEMAP     0x02
#define CU_MEMHOSTALLOC_WRITECOMBINED 0x04
#define CU_MEMHOSTREGISTER_PORTABLE   0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP  0x02
#define CU_MEMHOSTREGISTER_IOMEMORY   0x04
#define CU_MEMHOSTREGISTER_READ_ONLY  0x08

/* ---- virtual memory --------------------------------------------------------------------------------------------- */

typedef enum CUmemLocationType_enum {
    CU_MEM_LOCATION_TYPE_INVALID = 0x0,
    CU_MEM_LOCATION_TYPE_DEVICE = 0x1,
    CU_MEM_LOCATION_TYPE_HOST = 0x2,
    CU_MEM_LOCATION_TYPE_HOST_NUMA = 0x3,
    CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 0x4,
    CU_MEM_LOCATION_TYPE_MAX = 0x7FFFFFFF,
} CUmemLocationType;

typedef struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
} CUmemLocation;

typedef enum CUmemAllocationType_enum {
    CU_MEM_ALLOCATION_TYPE_INVALID = 0x0,
    CU_MEM_ALLOCATION_TYPE_PINNED = 0x1,
    CU_MEM_ALLOCATION_TYPE_MANAGED = 0x2,
    CU_MEM_ALLOCATION_TYPE_MAX = 0x7FFFFFFF,
} CUmemAllocationType;

typedef enum CUmemAllocationHandleType_enum {
    CU_MEM_HANDLE_TYPE_NONE = 0x0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 0x1,
    CU_MEM_HANDLE_TYPE_FABRIC = 0x8,
    CU_MEM_HANDLE_TYPE_MAX = 0x7FFFFFFF,
} CUmemAllocationHandleType;

typedef struct CUmemAllocationProp_st {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef enum CUmemAccess_flags_enum {
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0x0,
    CU_MEM_ACCESS_FLAGS_PROT_READ = 0x1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 0x3,
    CU_MEM_ACCESS_FLAGS_PROT_MAX = 0x7FFFFFFF,
} CUmemAccess_flags;

typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef enum CUmemAllocationGranularity_flags_enum {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0x0,
    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 0x1,
} CUmemAllocationGranularity_flags;

#endif
