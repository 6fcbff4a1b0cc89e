/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the CUDA driver API that the cases ask about, declared here on its own, so that the suite needs a
 * compiler alone and shares no declaration with what it tests. With GPU_TOOLKIT_HEADER types and values come from the
 * Toolkit's cuda.h. */
#ifndef GPU_API_H
#define GPU_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef GPU_TOOLKIT_HEADER
#include <cuda.h>
#else

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef void (*CUhostFn)(void *argument);

typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

typedef enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_ALREADY_MAPPED = 208,
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
    CUDA_ERROR_UNKNOWN = 999,
} CUresult;

typedef void (*CUstreamCallback)(CUstream stream, CUresult code, void *argument);

typedef enum CUdevice_attribute_enum {
    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
} CUdevice_attribute;

typedef enum CUstream_flags_enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 } CUstream_flags;
#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef enum CUevent_flags_enum {
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_BLOCKING_SYNC = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_EVENT_INTERPROCESS = 4,
} CUevent_flags;

typedef enum CUctx_flags_enum { CU_CTX_SCHED_AUTO = 0, CU_CTX_SCHED_BLOCKING_SYNC = 4 } CUctx_flags;

typedef enum CUmemAttach_flags_enum { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2 } CUmemAttach_flags;

#define CU_MEMHOSTALLOC_PORTABLE     0x01
#define CU_MEMHOSTALLOC_DEVICEMAP    0x02
#define CU_MEMHOSTREGISTER_PORTABLE  0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02

typedef enum CUmemLocationType_enum {
    CU_MEM_LOCATION_TYPE_INVALID = 0,
    CU_MEM_LOCATION_TYPE_DEVICE = 1,
    CU_MEM_LOCATION_TYPE_MAX = 0x7FFFFFFF,
} CUmemLocationType;

typedef struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
} CUmemLocation;

typedef enum CUmemAllocationType_enum {
    CU_MEM_ALLOCATION_TYPE_INVALID = 0,
    CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    CU_MEM_ALLOCATION_TYPE_MAX = 0x7FFFFFFF,
} CUmemAllocationType;

typedef enum CUmemAllocationHandleType_enum {
    CU_MEM_HANDLE_TYPE_NONE = 0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
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
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
    CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    CU_MEM_ACCESS_FLAGS_PROT_MAX = 0x7FFFFFFF,
} CUmemAccess_flags;

typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef enum CUmemAllocationGranularity_flags_enum {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
} CUmemAllocationGranularity_flags;

typedef enum CUmemorytype_enum {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4,
} CUmemorytype;

typedef enum CUpointer_attribute_enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    CU_POINTER_ATTRIBUTE_MAPPED = 13,
} CUpointer_attribute;

typedef struct CUDA_MEMCPY2D_st {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUDA_MEMCPY3D_st {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

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

typedef enum CUmemPool_attribute_enum {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
    CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
    CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
    CU_MEMPOOL_ATTR_USED_MEM_HIGH,
} CUmemPool_attribute;

typedef struct CUmemPoolProps_st {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef enum CUdriverProcAddressQueryResult_enum {
    CU_GET_PROC_ADDRESS_SUCCESS = 0,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

typedef enum CUdriverProcAddress_flags_enum {
    CU_GET_PROC_ADDRESS_DEFAULT = 0,
    CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
} CUdriverProcAddress_flags;

typedef enum CUdevice_P2PAttribute_enum {
    CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1,
    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 2,
} CUdevice_P2PAttribute;

#endif

/* X(member, exported name, parameters): every entry gives a CUresult. */
#define GPU_DEVICE_ENTRIES(X)                                                                                          \
    X(Init, "cuInit", (unsigned flags))                                                                                \
    X(DriverGetVersion, "cuDriverGetVersion", (int *version))                                                          \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                                                \
    X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                                      \
    X(DeviceGetName, "cuDeviceGetName", (char *name, int room, CUdevice device))                                       \
    X(DeviceGetUuid, "cuDeviceGetUuid_v2", (CUuuid * uuid, CUdevice device))                                           \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                                        \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, CUdevice_attribute attribute, CUdevice device))         \
    X(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *id, int room, CUdevice device))                                 \
    X(DeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", (CUdevice * device, const char *id))                               \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                      \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                                      \
    X(DevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2", (CUdevice device))                                          \
    X(DevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", (CUdevice device, unsigned *flags, int *active))         \
    X(DevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags_v2", (CUdevice device, unsigned flags))                    \
    X(DeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *can, CUdevice device, CUdevice peer))                        \
    X(DeviceGetP2PAttribute, "cuDeviceGetP2PAttribute",                                                                \
      (int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to))                                       \
    X(CtxCreate, "cuCtxCreate_v2", (CUcontext * context, unsigned flags, CUdevice device))                             \
    X(CtxDestroy, "cuCtxDestroy_v2", (CUcontext context))                                                              \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                                      \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                                      \
    X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                                           \
    X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                                         \
    X(CtxGetDevice, "cuCtxGetDevice", (CUdevice * device))                                                             \
    X(CtxGetFlags, "cuCtxGetFlags", (unsigned *flags))                                                                 \
    X(CtxGetApiVersion, "cuCtxGetApiVersion", (CUcontext context, unsigned *version))                                  \
    X(CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int *least, int *greatest))                           \
    X(CtxSynchronize, "cuCtxSynchronize", (void))                                                                      \
    X(CtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUcontext peer, unsigned flags))                                  \
    X(CtxDisablePeerAccess, "cuCtxDisablePeerAccess", (CUcontext peer))                                                \
    X(GetErrorName, "cuGetErrorName", (CUresult code, const char **name))                                              \
    X(GetErrorString, "cuGetErrorString", (CUresult code, const char **text))                                          \
    X(GetProcAddress, "cuGetProcAddress_v2",                                                                           \
      (const char *symbol, void **function, int version, uint64_t flags, CUdriverProcAddressQueryResult *status))      \
    X(GetProcAddressOld, "cuGetProcAddress", (const char *symbol, void **function, int version, uint64_t flags))

#define GPU_MEMORY_ENTRIES(X)                                                                                          \
    X(MemGetInfo, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                                      \
    X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                                                \
    X(MemAllocPitch, "cuMemAllocPitch_v2",                                                                             \
      (CUdeviceptr * address, size_t * pitch, size_t width_bytes, size_t height, unsigned element_bytes))              \
    X(MemFree, "cuMemFree_v2", (CUdeviceptr address))                                                                  \
    X(MemGetAddressRange, "cuMemGetAddressRange_v2", (CUdeviceptr * base, size_t * bytes, CUdeviceptr address))        \
    X(MemAddressReserve, "cuMemAddressReserve",                                                                        \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags))           \
    X(MemAddressFree, "cuMemAddressFree", (CUdeviceptr address, size_t bytes))                                         \
    X(MemCreate, "cuMemCreate",                                                                                        \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,                     \
       unsigned long long flags))                                                                                      \
    X(MemRelease, "cuMemRelease", (CUmemGenericAllocationHandle handle))                                               \
    X(MemMap, "cuMemMap",                                                                                              \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,                          \
       unsigned long long flags))                                                                                      \
    X(MemUnmap, "cuMemUnmap", (CUdeviceptr address, size_t bytes))                                                     \
    X(MemSetAccess, "cuMemSetAccess",                                                                                  \
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count))                                \
    X(MemGetAccess, "cuMemGetAccess", (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)) \
    X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                                    \
      (size_t * bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option))                \
    X(MemRetainAllocationHandle, "cuMemRetainAllocationHandle",                                                        \
      (CUmemGenericAllocationHandle * handle, void *address))                                                          \
    X(MemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle",                                  \
      (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle))                                         \
    X(MemExportToShareableHandle, "cuMemExportToShareableHandle",                                                      \
      (void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags))   \
    X(MemImportFromShareableHandle, "cuMemImportFromShareableHandle",                                                  \
      (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType type))                           \
    X(MemAllocManaged, "cuMemAllocManaged", (CUdeviceptr * address, size_t bytes, unsigned flags))                     \
    X(MemAllocHost, "cuMemAllocHost_v2", (void **address, size_t bytes))                                               \
    X(MemHostAlloc, "cuMemHostAlloc", (void **address, size_t bytes, unsigned flags))                                  \
    X(MemFreeHost, "cuMemFreeHost", (void *address))                                                                   \
    X(MemHostRegister, "cuMemHostRegister_v2", (void *address, size_t bytes, unsigned flags))                          \
    X(MemHostUnregister, "cuMemHostUnregister", (void *address))                                                       \
    X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",                                                         \
      (CUdeviceptr * device_address, void *address, unsigned flags))                                                   \
    X(MemHostGetFlags, "cuMemHostGetFlags", (unsigned *flags, void *address))                                          \
    X(PointerGetAttribute, "cuPointerGetAttribute", (void *data, CUpointer_attribute attribute, CUdeviceptr address))  \
    X(PointerGetAttributes, "cuPointerGetAttributes",                                                                  \
      (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address))                             \
    X(MemAllocAsync, "cuMemAllocAsync", (CUdeviceptr * address, size_t bytes, CUstream stream))                        \
    X(MemFreeAsync, "cuMemFreeAsync", (CUdeviceptr address, CUstream stream))                                          \
    X(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                                                \
      (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                                       \
    X(DeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (CUmemoryPool * pool, CUdevice device))                    \
    X(DeviceGetMemPool, "cuDeviceGetMemPool", (CUmemoryPool * pool, CUdevice device))                                  \
    X(DeviceSetMemPool, "cuDeviceSetMemPool", (CUdevice device, CUmemoryPool pool))                                    \
    X(MemPoolCreate, "cuMemPoolCreate", (CUmemoryPool * pool, const CUmemPoolProps *properties))                       \
    X(MemPoolDestroy, "cuMemPoolDestroy", (CUmemoryPool pool))                                                         \
    X(MemPoolTrimTo, "cuMemPoolTrimTo", (CUmemoryPool pool, size_t bytes))                                             \
    X(MemPoolGetAttribute, "cuMemPoolGetAttribute", (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))   \
    X(MemPoolGetAccess, "cuMemPoolGetAccess",                                                                          \
      (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation * location))                                        \
    X(MemPoolSetAttribute, "cuMemPoolSetAttribute", (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))

#define GPU_COPY_ENTRIES(X)                                                                                            \
    X(Memcpy, "cuMemcpy", (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                            \
    X(MemcpyAsync, "cuMemcpyAsync", (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                 \
    X(MemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void *from, size_t bytes))                                 \
    X(MemcpyDtoH, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t bytes))                                       \
    X(MemcpyDtoD, "cuMemcpyDtoD_v2", (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                 \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))      \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t bytes, CUstream stream))            \
    X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))      \
    X(Memcpy2D, "cuMemcpy2D_v2", (const CUDA_MEMCPY2D *copy))                                                          \
    X(Memcpy2DUnaligned, "cuMemcpy2DUnaligned_v2", (const CUDA_MEMCPY2D *copy))                                        \
    X(Memcpy3DAsync, "cuMemcpy3DAsync_v2", (const CUDA_MEMCPY3D *copy, CUstream stream))                               \
    X(Memcpy2DAsync, "cuMemcpy2DAsync_v2", (const CUDA_MEMCPY2D *copy, CUstream stream))                               \
    X(Memcpy3D, "cuMemcpy3D_v2", (const CUDA_MEMCPY3D *copy))                                                          \
    X(MemcpyPeer, "cuMemcpyPeer",                                                                                      \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes))                  \
    X(MemcpyPeerAsync, "cuMemcpyPeerAsync",                                                                            \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
    X(MemsetD8, "cuMemsetD8_v2", (CUdeviceptr at, unsigned char value, size_t count))                                  \
    X(MemsetD16, "cuMemsetD16_v2", (CUdeviceptr at, unsigned short value, size_t count))                               \
    X(MemsetD32, "cuMemsetD32_v2", (CUdeviceptr at, unsigned value, size_t count))                                     \
    X(MemsetD8Async, "cuMemsetD8Async", (CUdeviceptr at, unsigned char value, size_t count, CUstream stream))          \
    X(MemsetD16Async, "cuMemsetD16Async", (CUdeviceptr at, unsigned short value, size_t count, CUstream stream))       \
    X(MemsetD32Async, "cuMemsetD32Async", (CUdeviceptr at, unsigned value, size_t count, CUstream stream))             \
    X(MemsetD2D8Async, "cuMemsetD2D8Async",                                                                            \
      (CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream))               \
    X(MemsetD2D8, "cuMemsetD2D8_v2", (CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height)) \
    X(MemsetD2D16, "cuMemsetD2D16_v2",                                                                                 \
      (CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height))                               \
    X(MemsetD2D32, "cuMemsetD2D32_v2", (CUdeviceptr at, size_t pitch, unsigned value, size_t width, size_t height))

#define GPU_STREAM_ENTRIES(X)                                                                                          \
    X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                                             \
    X(StreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream * stream, unsigned flags, int priority))       \
    X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                                          \
    X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                                     \
    X(StreamQuery, "cuStreamQuery", (CUstream stream))                                                                 \
    X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))                          \
    X(StreamGetFlags, "cuStreamGetFlags", (CUstream stream, unsigned *flags))                                          \
    X(StreamGetPriority, "cuStreamGetPriority", (CUstream stream, int *priority))                                      \
    X(StreamGetCtx, "cuStreamGetCtx", (CUstream stream, CUcontext * context))                                          \
    X(StreamGetId, "cuStreamGetId", (CUstream stream, unsigned long long *id))                                         \
    X(EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                                                 \
    X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                                              \
    X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                                                  \
    X(EventRecordWithFlags, "cuEventRecordWithFlags", (CUevent event, CUstream stream, unsigned flags))                \
    X(EventQuery, "cuEventQuery", (CUevent event))                                                                     \
    X(EventSynchronize, "cuEventSynchronize", (CUevent event))                                                         \
    X(EventElapsedTime, "cuEventElapsedTime", (float *ms, CUevent begin, CUevent end))                                 \
    X(LaunchHostFunc, "cuLaunchHostFunc", (CUstream stream, CUhostFn function, void *argument))                        \
    X(StreamAddCallback, "cuStreamAddCallback",                                                                        \
      (CUstream stream, CUstreamCallback function, void *argument, unsigned flags))                                    \
    X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, CUstreamCaptureMode mode))                      \
    X(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                                      \
    X(StreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, CUstreamCaptureStatus * status))                     \
    X(StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                                                               \
      (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id, CUgraph * graph, const CUgraphNode **nodes,     \
       size_t *count))                                                                                                 \
    X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (CUstreamCaptureMode * mode))              \
    X(GraphDestroy, "cuGraphDestroy", (CUgraph graph))                                                                 \
    X(GraphGetRootNodes, "cuGraphGetRootNodes", (CUgraph graph, CUgraphNode * nodes, size_t * count))                  \
    X(GraphGetNodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t * count))                          \
    X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                                                 \
      (CUgraphExec * executable, CUgraph graph, unsigned long long flags))                                             \
    X(GraphLaunch, "cuGraphLaunch", (CUgraphExec executable, CUstream stream))                                         \
    X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec executable))

#define GPU_ENTRIES(X) GPU_DEVICE_ENTRIES(X) GPU_MEMORY_ENTRIES(X) GPU_COPY_ENTRIES(X) GPU_STREAM_ENTRIES(X)

/* What the emulated driver has beyond a real one; only `present_*` ones may be called. */
struct emu_gate;
#define GPU_EMULATOR_ENTRIES(X)                                                                                        \
    X(EmuProfile, "weirEmuProfile", (char *name, size_t room, size_t *granularity_bytes))                              \
    X(EmuThreadBegin, "weirEmuThreadBegin", (const char *name, unsigned together))                                     \
    X(EmuThreadEnd, "weirEmuThreadEnd", (void))                                                                        \
    X(EmuGateCreate, "weirEmuGateCreate", (struct emu_gate * *gate, unsigned flags))                                   \
    X(EmuGateHold, "weirEmuGateHold", (struct emu_gate * gate, CUstream stream))                                       \
    X(EmuGateOpen, "weirEmuGateOpen", (struct emu_gate * gate, uint64_t delay_ns))                                     \
    X(EmuPause, "weirEmuPause", (uint64_t ns))

struct gpu_api {
#define GPU_MEMBER(member, name, parameters) CUresult(*member) parameters;
    GPU_ENTRIES(GPU_MEMBER)
    GPU_EMULATOR_ENTRIES(GPU_MEMBER)
#undef GPU_MEMBER
};

/* The driver under test. An entry that it lacks ends the case as skipped, and says which. */
extern struct gpu_api cu;

#endif
