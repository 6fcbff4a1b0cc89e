/* SPDX-License-Identifier: Apache-2.0 */
/* X(name, value, text): every result of the CUDA runtime; names and values as in CUDA 13's driver_types.h, compared with
 * it by a test, the texts are our own. The driver's results have the same values. */
#ifndef WEIR_EMU_CUDART_ERRORS_H
#define WEIR_EMU_CUDART_ERRORS_H

#define RT_ERROR_LIST(X)                                                                                               \
    X(cudaSuccess, 0, "no error")                                                                                      \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                                    \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                                                   \
    X(cudaErrorInitializationError, 3, "initialization error")                                                         \
    X(cudaErrorCudartUnloading, 4, "driver shutting down")                                                             \
    X(cudaErrorProfilerDisabled, 5, "the profiler is disabled")                                                        \
    X(cudaErrorProfilerNotInitialized, 6, "the profiler is not initialised")                                           \
    X(cudaErrorProfilerAlreadyStarted, 7, "the profiler has been started already")                                     \
    X(cudaErrorProfilerAlreadyStopped, 8, "the profiler has been stopped already")                                     \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                              \
    X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                                        \
    X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                                             \
    X(cudaErrorInvalidHostPointer, 16, "invalid host pointer")                                                         \
    X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                                     \
    X(cudaErrorInvalidTexture, 18, "invalid texture reference")                                                        \
    X(cudaErrorInvalidTextureBinding, 19, "the texture is not bound to a pointer")                                     \
    X(cudaErrorInvalidChannelDescriptor, 20, "invalid channel descriptor")                                             \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction")                                                   \
    X(cudaErrorAddressOfConstant, 22, "the address of a constant variable was taken")                                  \
    X(cudaErrorTextureFetchFailed, 23, "a texture fetch failed")                                                       \
    X(cudaErrorTextureNotBound, 24, "the texture is not bound")                                                        \
    X(cudaErrorSynchronizationError, 25, "a synchronisation failed")                                                   \
    X(cudaErrorInvalidFilterSetting, 26, "linear filtering is not supported for this format")                          \
    X(cudaErrorInvalidNormSetting, 27, "reading as normalized float is not supported for this format")                 \
    X(cudaErrorMixedDeviceExecution, 28, "device code and emulated device code were mixed")                            \
    X(cudaErrorNotYetImplemented, 31, "not implemented yet")                                                           \
    X(cudaErrorMemoryValueTooLarge, 32, "a memory value is too large")                                                 \
    X(cudaErrorStubLibrary, 34, "the library is a stub for linking, not a driver")                                     \
    X(cudaErrorInsufficientDriver, 35, "the driver does not serve this runtime")                                       \
    X(cudaErrorCallRequiresNewerDriver, 36, "the call needs a newer driver")                                           \
    X(cudaErrorInvalidSurface, 37, "invalid surface reference")                                                        \
    X(cudaErrorDuplicateVariableName, 43, "several variables share a name")                                            \
    X(cudaErrorDuplicateTextureName, 44, "several textures share a name")                                              \
    X(cudaErrorDuplicateSurfaceName, 45, "several surfaces share a name")                                              \
    X(cudaErrorDevicesUnavailable, 46, "all devices are busy or unavailable")                                          \
    X(cudaErrorIncompatibleDriverContext, 49, "the current context does not suit the runtime")                         \
    X(cudaErrorMissingConfiguration, 52, "a launch without its configuration")                                         \
    X(cudaErrorPriorLaunchFailure, 53, "an earlier launch failed")                                                     \
    X(cudaErrorLaunchMaxDepthExceeded, 65, "launches are nested too deep")                                             \
    X(cudaErrorLaunchFileScopedTex, 66, "a nested launch can't use file-scoped textures")                              \
    X(cudaErrorLaunchFileScopedSurf, 67, "a nested launch can't use file-scoped surfaces")                             \
    X(cudaErrorSyncDepthExceeded, 68, "synchronised deeper than the limit allows")                                     \
    X(cudaErrorLaunchPendingCountExceeded, 69, "more launches are pending than the limit allows")                      \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                                   \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                                    \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                           \
    X(cudaErrorDeviceNotLicensed, 102, "the device has no licence for this")                                           \
    X(cudaErrorSoftwareValidityNotEstablished, 103, "an integrity check failed")                                       \
    X(cudaErrorStartupFailure, 127, "the runtime failed to start")                                                     \
    X(cudaErrorInvalidKernelImage, 200, "the kernel image is invalid")                                                 \
    X(cudaErrorDeviceUninitialized, 201, "invalid device context")                                                     \
    X(cudaErrorMapBufferObjectFailed, 205, "mapping a buffer object failed")                                           \
    X(cudaErrorUnmapBufferObjectFailed, 206, "unmapping a buffer object failed")                                       \
    X(cudaErrorArrayIsMapped, 207, "the array is mapped")                                                              \
    X(cudaErrorAlreadyMapped, 208, "the resource is mapped already")                                                   \
    X(cudaErrorNoKernelImageForDevice, 209, "no kernel image suits the device")                                        \
    X(cudaErrorAlreadyAcquired, 210, "the resource is acquired already")                                               \
    X(cudaErrorNotMapped, 211, "the resource is not mapped")                                                           \
    X(cudaErrorNotMappedAsArray, 212, "the resource is not mapped as an array")                                        \
    X(cudaErrorNotMappedAsPointer, 213, "the resource is not mapped as a pointer")                                     \
    X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error")                                                       \
    X(cudaErrorUnsupportedLimit, 215, "the device has no such limit")                                                  \
    X(cudaErrorDeviceAlreadyInUse, 216, "another thread uses the device exclusively")                                  \
    X(cudaErrorPeerAccessUnsupported, 217, "peer access is not supported between these devices")                       \
    X(cudaErrorInvalidPtx, 218, "a PTX program does not compile")                                                      \
    X(cudaErrorInvalidGraphicsContext, 219, "invalid graphics context")                                                \
    X(cudaErrorNvlinkUncorrectable, 220, "uncorrectable NVLink error")                                                 \
    X(cudaErrorJitCompilerNotFound, 221, "the PTX compiler is not found")                                              \
    X(cudaErrorUnsupportedPtxVersion, 222, "the PTX version is not supported")                                         \
    X(cudaErrorJitCompilationDisabled, 223, "compiling PTX is disabled")                                               \
    X(cudaErrorUnsupportedExecAffinity, 224, "the execution affinity is not supported")                                \
    X(cudaErrorUnsupportedDevSideSync, 225, "the code synchronises on the device, which is not supported")             \
    X(cudaErrorContained, 226, "an exception on the device was contained")                                             \
    X(cudaErrorInvalidSource, 300, "the device kernel source is invalid")                                              \
    X(cudaErrorFileNotFound, 301, "file not found")                                                                    \
    X(cudaErrorSharedObjectSymbolNotFound, 302, "a shared object's symbol is not found")                               \
    X(cudaErrorSharedObjectInitFailed, 303, "a shared object failed to initialise")                                    \
    X(cudaErrorOperatingSystem, 304, "a call to the operating system failed")                                          \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                                  \
    X(cudaErrorIllegalState, 401, "the operation can't be done in the present state")                                  \
    X(cudaErrorLossyQuery, 402, "the query would lose information")                                                    \
    X(cudaErrorSymbolNotFound, 500, "named symbol not found")                                                          \
    X(cudaErrorNotReady, 600, "device not ready")                                                                      \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                                        \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                                   \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was ended")                                               \
    X(cudaErrorLaunchIncompatibleTexturing, 703, "the launch uses another texturing mode")                             \
    X(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                                        \
    X(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                                          \
    X(cudaErrorSetOnActiveProcess, 708, "the device is active already and can't be set up any more")                   \
    X(cudaErrorContextIsDestroyed, 709, "the context is destroyed")                                                    \
    X(cudaErrorAssert, 710, "a device-side assert failed")                                                             \
    X(cudaErrorTooManyPeers, 711, "peers' resources are exhausted")                                                    \
    X(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the memory is registered already")                    \
    X(cudaErrorHostMemoryNotRegistered, 713, "the pointer is not a registered memory region")                          \
    X(cudaErrorHardwareStackError, 714, "hardware stack error")                                                        \
    X(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")                                      \
    X(cudaErrorMisalignedAddress, 716, "misaligned address")                                                           \
    X(cudaErrorInvalidAddressSpace, 717, "the instruction can't work in this address space")                           \
    X(cudaErrorInvalidPc, 718, "invalid program counter")                                                              \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                                       \
    X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks for a cooperative launch")                             \
    X(cudaErrorTensorMemoryLeak, 721, "a kernel left tensor memory allocated")                                         \
    X(cudaErrorNotPermitted, 800, "operation not permitted")                                                           \
    X(cudaErrorNotSupported, 801, "operation not supported")                                                           \
    X(cudaErrorSystemNotReady, 802, "the system is not ready yet")                                                     \
    X(cudaErrorSystemDriverMismatch, 803, "driver library and kernel driver do not match")                             \
    X(cudaErrorCompatNotSupportedOnDevice, 804, "forward compatibility is not supported on this device")               \
    X(cudaErrorMpsConnectionFailed, 805, "the MPS client can't reach its control daemon or server")                    \
    X(cudaErrorMpsRpcFailure, 806, "a remote call between MPS server and client failed")                               \
    X(cudaErrorMpsServerNotReady, 807, "the MPS server takes no new clients now")                                      \
    X(cudaErrorMpsMaxClientsReached, 808, "MPS clients are exhausted")                                                 \
    X(cudaErrorMpsMaxConnectionsReached, 809, "MPS connections are exhausted")                                         \
    X(cudaErrorMpsClientTerminated, 810, "the MPS server ended the client")                                            \
    X(cudaErrorCdpNotSupported, 811, "launches from the device are not supported here")                                \
    X(cudaErrorCdpVersionMismatch, 812, "versions of launches from the device do not mix")                             \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")                      \
    X(cudaErrorStreamCaptureInvalidated, 901, "the capture is invalid because of an earlier error")                    \
    X(cudaErrorStreamCaptureMerge, 902, "the call would merge two captures")                                           \
    X(cudaErrorStreamCaptureUnmatched, 903, "the capture did not begin in this stream")                                \
    X(cudaErrorStreamCaptureUnjoined, 904, "the capture ends with work that was not joined")                           \
    X(cudaErrorStreamCaptureIsolation, 905, "the call would depend on work outside the capture")                       \
    X(cudaErrorStreamCaptureImplicit, 906, "the call would wait for a capturing stream implicitly")                    \
    X(cudaErrorCapturedEvent, 907, "the event was last recorded in a capturing stream")                                \
    X(cudaErrorStreamCaptureWrongThread, 908, "the capture began in another thread")                                   \
    X(cudaErrorTimeout, 909, "the wait timed out")                                                                     \
    X(cudaErrorGraphExecUpdateFailure, 910, "the executable graph can't be changed so")                                \
    X(cudaErrorExternalDevice, 911, "an external device failed")                                                       \
    X(cudaErrorInvalidClusterSize, 912, "invalid cluster size")                                                        \
    X(cudaErrorFunctionNotLoaded, 913, "the function is not loaded")                                                   \
    X(cudaErrorInvalidResourceType, 914, "invalid resource type")                                                      \
    X(cudaErrorInvalidResourceConfiguration, 915, "invalid resource configuration")                                    \
    X(cudaErrorUnknown, 999, "unknown error")                                                                          \
    X(cudaErrorApiFailureBase, 10000, "internal error of the runtime")

#endif
