/* SPDX-License-Identifier: Apache-2.0 */
/* The driver table: the one way in which the library speaks to a machine.
 *
 * One list makes the table and its loader. The pointers are filled at run time from libcuda.so.1 where there is a GPU,
 * else from the emulated driver; nothing above knows which. Entries of the emulated driver that a real one lacks are
 * NULL there. */
#ifndef WEIR_DEVICE_DRIVER_H
#define WEIR_DEVICE_DRIVER_H

#include <stdbool.h>

#include "device/cuda_abi.h"
#include "device/emu/emu_abi.h"
#include "weir/status.h"

/* X(member, exported symbol, parameters): every entry gives a CUresult. The emulated driver declares its entries from
 * these lists too, so that the table and what it points at have one type. */
#define WEIR__DRIVER_LIST(X)                                                                                           \
    X(init, cuInit, (unsigned flags))                                                                                  \
    X(driver_version, cuDriverGetVersion, (int *version))                                                              \
    X(device_count, cuDeviceGetCount, (int *count))                                                                    \
    X(device_get, cuDeviceGet, (CUdevice * device, int ordinal))                                                       \
    X(device_name, cuDeviceGetName, (char *name, int room, CUdevice device))                                           \
    X(device_total_memory, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                     \
    X(device_attribute, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))             \
    X(device_pci_bus_id, cuDeviceGetPCIBusId, (char *id, int room, CUdevice device))                                   \
    X(device_can_access_peer, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))                       \
    X(primary_context_retain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                        \
    X(primary_context_release, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                        \
    X(context_push, cuCtxPushCurrent_v2, (CUcontext context))                                                          \
    X(context_pop, cuCtxPopCurrent_v2, (CUcontext * context))                                                          \
    X(context_current, cuCtxGetCurrent, (CUcontext * context))                                                         \
    X(context_device, cuCtxGetDevice, (CUdevice * device))                                                             \
    X(context_synchronize, cuCtxSynchronize, (void))                                                                   \
    X(memory_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                       \
    X(memory_alloc, cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                              \
    X(memory_free, cuMemFree_v2, (CUdeviceptr address))                                                                \
    X(address_reserve, cuMemAddressReserve,                                                                            \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags))           \
    X(address_free, cuMemAddressFree, (CUdeviceptr address, size_t bytes))                                             \
    X(page_create, cuMemCreate,                                                                                        \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,                     \
       unsigned long long flags))                                                                                      \
    X(page_release, cuMemRelease, (CUmemGenericAllocationHandle handle))                                               \
    X(page_map, cuMemMap,                                                                                              \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,                          \
       unsigned long long flags))                                                                                      \
    X(page_unmap, cuMemUnmap, (CUdeviceptr address, size_t bytes))                                                     \
    X(page_set_access, cuMemSetAccess,                                                                                 \
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count))                                \
    X(page_granularity, cuMemGetAllocationGranularity,                                                                 \
      (size_t * bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option))                \
    X(host_alloc, cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                                      \
    X(host_free, cuMemFreeHost, (void *address))                                                                       \
    X(host_register, cuMemHostRegister_v2, (void *address, size_t bytes, unsigned flags))                              \
    X(host_unregister, cuMemHostUnregister, (void *address))                                                           \
    X(copy, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                          \
    X(set_bytes, cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream))                \
    X(stream_create, cuStreamCreate, (CUstream * stream, unsigned flags))                                              \
    X(stream_destroy, cuStreamDestroy_v2, (CUstream stream))                                                           \
    X(stream_synchronize, cuStreamSynchronize, (CUstream stream))                                                      \
    X(stream_query, cuStreamQuery, (CUstream stream))                                                                  \
    X(stream_wait, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                \
    X(event_create, cuEventCreate, (CUevent * event, unsigned flags))                                                  \
    X(event_destroy, cuEventDestroy_v2, (CUevent event))                                                               \
    X(event_record, cuEventRecord, (CUevent event, CUstream stream))                                                   \
    X(event_query, cuEventQuery, (CUevent event))                                                                      \
    X(event_synchronize, cuEventSynchronize, (CUevent event))                                                          \
    X(event_elapsed, cuEventElapsedTime, (float *ms, CUevent begin, CUevent end))                                      \
    X(host_function, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument))                           \
    X(error_name, cuGetErrorName, (CUresult code, const char **name))                                                  \
    X(error_string, cuGetErrorString, (CUresult code, const char **text))

/* Entries that a driver may lack; the pointer is NULL there.
 *
 * stream_id: a number that no other stream of the process ever has, as a handle may. From CUDA 12.0 on.
 * context_record: the event stands for all that is queued in its context now. From CUDA 12.5 on.
 * stream_is_capturing: asked of the legacy stream, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT while a blocking one captures.
 * page_export: a descriptor by which another process can have the page.
 * exchange_capture_mode: swaps the thread's mode, which says what calls a capture forbids it. */
#define WEIR__DRIVER_OPTIONAL_LIST(X)                                                                                  \
    X(stream_id, cuStreamGetId, (CUstream stream, unsigned long long *id))                                             \
    X(context_record, cuCtxRecordEvent, (CUcontext context, CUevent event))                                            \
    X(stream_is_capturing, cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                     \
    X(page_export, cuMemExportToShareableHandle,                                                                       \
      (void *descriptor, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,                          \
       unsigned long long flags))                                                                                      \
    X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode))

/* Those that only the emulated driver has stand in device/emu/emu_abi.h: WEIR__EMU_LIST. */

struct weir__driver {
#define WEIR__DRIVER_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
    WEIR__DRIVER_LIST(WEIR__DRIVER_MEMBER)
    WEIR__DRIVER_OPTIONAL_LIST(WEIR__DRIVER_MEMBER)
    WEIR__EMU_LIST(WEIR__DRIVER_MEMBER)
#undef WEIR__DRIVER_MEMBER
    bool emulated;
    char path[256]; /* where the driver was loaded from */
};

/* Loads the driver that `machine` names ("cuda", "emulated", "auto"; NULL: WEIR_DEVICE, else "cuda"), once a process and
 * machine, and initialises it. `settings` goes to the emulated driver before its cuInit. A driver that the program has
 * loaded already is the "cuda" one, even if it is the emulated one: `emulated` in the table says so.
 * Fails: WEIR_NO_DEVICE, WEIR_INVALID, WEIR_DRIVER when there is a driver but its cuInit fails. */
enum weir_status weir__driver_load(const char *machine, const char *settings, const struct weir__driver **out);

/* A library that stands before the driver for the program finds the driver's own entries for the table, whatever others have put before
 * dlsym. Needs: no driver is loaded yet. */
typedef void *weir__find_entry(void *library, const char *symbol);
WEIR_API void weir__driver_found_by(weir__find_entry *find);

/* WEIR_OK for CUDA_SUCCESS, else WEIR_DRIVER with the code, the call's name and the driver's text kept. */
enum weir_status weir__driver_check(const struct weir__driver *driver, CUresult code, const char *call);

#endif
